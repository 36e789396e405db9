//! `networking.k8s.io/v1` Ingress. See `pkg/registry/networking/ingress/strategy.go` and
//! `pkg/apis/networking/validation/validation.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{
    array_field, is_empty_value, non_null, object_or_default, object_or_insert, spec_of, str_field, value_default,
};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{NONE, count, ingress_addresses, items, text};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::{Generation, Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::networking::reference::typed_reference;
use crate::registry::served_resource::Conversion;
use crate::registry::strategy::StrategyContext;
use crate::registry::{addresses, checks, default_class, names};

/// The resource `ingresses` of `networking.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("networking.k8s.io", "v1", "ingresses", "Ingress", "io.k8s.api.networking.v1.Ingress")
        .short(&["ing"])
        .status()
        .hash("39NQlfNR+bo=")
        .rules(rules(defaults).check_with(validate))
        .columns(COLUMNS)
}

/// Returns the rules that all versions share.
fn rules(defaults: fn(&mut Map)) -> KindStrategy {
    let generic = Generic { generation: Generation::Spec, status: true, updates: MetadataRules::Both, ..Generic::NEW };
    KindStrategy::new(generic, defaults)
        .admit_with(admit_default_class)
        .check_status_with(|new, _| validate_status(new))
        .check_among_others_with(|ingress, _| validate_class_annotation(ingress))
        .warn_with(|ingress, old| class_warning(ingress, old.is_some()).into_iter().collect())
        .warn_status_with(addresses::load_balancer_warnings)
}

/// The rules of the removed version `v1beta1`.
pub(in crate::registry) fn beta_rules() -> KindStrategy {
    rules(default_beta).check_with(|ingress| validate(&from_beta(ingress.clone())))
}

/// The conversion of the removed version `v1beta1`: `pkg/apis/networking/v1beta1/conversion.go`.
pub(in crate::registry) const BETA: Conversion = Conversion { to_storage: from_beta, from_storage: to_beta };

/// Defaults of `v1beta1`: `pkg/apis/networking/v1beta1/defaults.go`.
fn default_beta(map: &mut Map) {
    for path in paths_mut(map).filter_map(Value::as_object_mut) {
        if path.get("pathType").is_none_or(Value::is_null) {
            path.insert("pathType", "ImplementationSpecific".into());
        }
    }
    defaults(map);
}

fn from_beta(ingress: Value) -> Value {
    converted(ingress, "v1", ["backend", "defaultBackend"], |backend| {
        let name = backend.remove("serviceName").unwrap_or_default();
        let port = match backend.remove("servicePort") {
            Some(Value::String(text)) => json!({"name": text}),
            Some(number) if number.as_i64().is_some_and(|number| number != 0) => json!({"number": number}),
            _ if name.as_str().is_none_or(str::is_empty) => return,
            _ => json!({}),
        };
        backend.insert("service", json!({"name": name.as_str().unwrap_or_default(), "port": port}));
    })
}

fn to_beta(ingress: Value) -> Value {
    converted(ingress, "v1beta1", ["defaultBackend", "backend"], |backend| {
        let mut port = json!(0);
        if let Some(service) = backend.remove("service").filter(Value::is_object) {
            backend.insert("serviceName", service["name"].clone());
            let fields = [&service["port"]["name"], &service["port"]["number"]];
            port = fields.into_iter().find(|field| !is_empty_value(Some(field))).cloned().unwrap_or(port);
        }
        backend.insert("servicePort", port);
    })
}

/// Converts each backend, and renames the field of the default one.
fn converted(mut ingress: Value, version: &str, [from, to]: [&str; 2], convert: fn(&mut Map)) -> Value {
    ingress["apiVersion"] = format!("networking.k8s.io/{version}").into();
    let Some(map) = ingress.as_object_mut() else { return ingress };
    for path in paths_mut(map) {
        if let Some(backend) = path.get_mut("backend").and_then(Value::as_object_mut) {
            convert(backend);
        }
    }
    if let Some(spec) = map.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(mut default) = spec.remove(from)
    {
        if let Some(backend) = default.as_object_mut() {
            convert(backend);
        }
        spec.insert(to, default);
    }
    ingress
}

/// Returns the paths of all rules.
fn paths_mut(ingress: &mut Map) -> impl Iterator<Item = &mut Value> {
    let rules = ingress.get_mut("spec").and_then(|spec| spec.get_mut("rules")).and_then(Value::as_array_mut);
    rules
        .into_iter()
        .flatten()
        .flat_map(|rule| rule.pointer_mut("/http/paths").and_then(Value::as_array_mut).into_iter().flatten())
}

/// Defaults of `Ingress`.
fn defaults(map: &mut Map) {
    if let Some(status) = object_or_default(map, "status") {
        value_default(status, "loadBalancer", json!({}));
    }
}

/// The plugin `DefaultIngressClass`: an ingress that names no class gets the default one, of several the newest. See
/// `plugin/pkg/admission/network/defaultingressclass/admission.go`.
fn admit_default_class(ingress: &mut Value, ctx: &StrategyContext<'_>) {
    let is_given = non_null(spec_of(ingress), "ingressClassName").is_some();
    if is_given || metadata::annotation(ingress, CLASS_ANNOTATION).is_some() {
        return;
    }
    let classes = ctx.lookup.list_holding("networking.k8s.io", "ingressclasses", "", default_class::HELD);
    let newest = default_class::newest(&classes, default_class::INGRESS_CLASS);
    if let (Some(class), Some(spec)) = (newest, object_or_insert(ingress, "spec")) {
        spec.insert("ingressClassName", class.into());
    }
}

/// The annotation that named the class of an ingress before the field.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Returns the warning about a new ingress that names its class in the annotation only.
fn class_warning(ingress: &Value, is_update: bool) -> Option<String> {
    let by_field = non_null(spec_of(ingress), "ingressClassName").is_some();
    metadata::annotation(ingress, CLASS_ANNOTATION).filter(|_| !by_field && !is_update)?;
    Some(format!("annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"))
}

/// Validates that the annotation and the field of a new ingress name the same class.
fn validate_class_annotation(ingress: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let class = non_null(spec_of(ingress), "ingressClassName").and_then(Value::as_str);
    let annotated = metadata::annotation(ingress, CLASS_ANNOTATION);
    if let (Some(class), Some(annotated)) = (class, annotated)
        && class != annotated
    {
        let path = Path::new("annotations");
        let why = "must match `ingressClassName` when both are specified";
        errors.invalid(&path.child(CLASS_ANNOTATION), annotated, why);
    }
    errors
}

const SPEC: Path<'static> = Path::new("spec");

/// Validates an `Ingress`, except for its metadata.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let rules = array_field(spec, "rules");
    let default = non_null(spec, "defaultBackend");
    if rules.is_empty() && default.is_none() {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(&SPEC, BadValue::Raw("null".to_owned()), why);
    }
    if let Some(backend) = default {
        ingress_backend(backend, &SPEC.child("defaultBackend"), &mut errors);
    }
    let all = SPEC.child("rules");
    for (i, rule) in rules.iter().enumerate() {
        ingress_rule(rule, &all.index(i), &mut errors);
    }
    let all = SPEC.child("tls");
    for (i, tls) in array_field(spec, "tls").iter().enumerate() {
        let path = all.index(i);
        let hosts = path.child("hosts");
        for (j, name) in array_field(tls, "hosts").iter().enumerate() {
            host(name.as_str().unwrap_or_default(), &hosts.index(j), &mut errors);
        }
        let secret = str_field(tls, "secretName");
        if !secret.is_empty() {
            checks::format(secret, names::dns1123_subdomain, &path.child("secretName"), &mut errors);
        }
    }
    let class = str_field(spec, "ingressClassName");
    if non_null(spec, "ingressClassName").is_some() {
        for message in names::dns1123_subdomain(class) {
            errors.invalid(&SPEC.child("ingressClassName"), class, message);
        }
    }
    errors
}

/// Validates the load balancer in the status: `ValidateIngressLoadBalancerStatus`.
fn validate_status(ingress: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let status = Path::new("status");
    let balancer = status.child("loadBalancer");
    let all = balancer.child("ingress");
    for (index, point) in array_field(&ingress["status"]["loadBalancer"], "ingress").iter().enumerate() {
        let path = all.index(index);
        let (ip, name) = (str_field(point, "ip"), str_field(point, "hostname"));
        if !ip.is_empty() {
            addresses::legacy_ip(ip, &path.child("ip"), &mut errors);
        }
        if !name.is_empty() {
            checks::format(name, names::dns1123_subdomain, &path.child("hostname"), &mut errors);
            if addresses::sloppy_ip(name).is_some() {
                errors.invalid(&path.child("hostname"), name, "must be a DNS name, not an IP address");
            }
        }
    }
    errors
}

fn host(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let wildcard = name.contains('*');
    let wrong = if wildcard { names::wildcard_subdomain(name) } else { names::dns1123_subdomain(name) };
    for message in wrong {
        errors.invalid(path, name, message);
    }
}

fn ingress_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let name = str_field(rule, "host");
    if addresses::sloppy_ip(name).is_some() {
        errors.invalid(&path.child("host"), name, "must be a DNS name, not an IP address");
    }
    if !name.is_empty() {
        host(name, &path.child("host"), errors);
    }
    let Some(http) = non_null(rule, "http") else { return };
    let path = path.child("http");
    let all = path.child("paths");
    if array_field(http, "paths").is_empty() {
        errors.required(&all, "");
    }
    for (i, one) in array_field(http, "paths").iter().enumerate() {
        let path = all.index(i);
        let target = str_field(one, "path");
        let Some(kind) = non_null(one, "pathType").and_then(Value::as_str) else {
            errors.required(&path.child("pathType"), "pathType must be specified");
            continue;
        };
        let exact = matches!(kind, "Exact" | "Prefix");
        if !exact && kind != "ImplementationSpecific" {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.not_supported(&path.child("pathType"), kind, &known);
        } else if !target.starts_with('/') && (exact || !target.is_empty()) {
            errors.invalid(&path.child("path"), target, "must be an absolute path");
        }
        if exact {
            let path = path.child("path");
            for sequence in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|text| target.contains(**text)) {
                errors.invalid(&path, target, format!("must not contain '{sequence}'"));
            }
            for end in ["/..", "/."].iter().filter(|end| target.ends_with(**end)) {
                errors.invalid(&path, target, format!("cannot end with '{end}'"));
            }
        }
        ingress_backend(one.get("backend").unwrap_or(&Value::Null), &path.child("backend"), errors);
    }
}

fn ingress_backend(backend: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let service = match (non_null(backend, "resource"), non_null(backend, "service")) {
        (Some(_), Some(_)) => {
            errors.invalid(path, "", "cannot set both resource and service backends");
            return;
        }
        (Some(resource), None) => return typed_reference(resource, &path.child("resource"), errors),
        (None, None) => {
            errors.invalid(path, "", "resource or service backend is required");
            return;
        }
        (None, Some(service)) => service,
    };
    let of_service = path.child("service");
    let name = str_field(service, "name");
    if name.is_empty() {
        errors.required(&of_service.child("name"), "");
    } else {
        for message in names::dns1123_label(name) {
            errors.invalid(&of_service.child("name"), name, message);
        }
    }
    let port = service.get("port").unwrap_or(&Value::Null);
    let name = str_field(port, "name");
    let number = port.get("number").and_then(Value::as_i64).unwrap_or(0);
    let of_port = of_service.child("port");
    match (name.is_empty(), number) {
        (true, 0) => errors.required(path, "port name or number is required"),
        (true, number) => {
            if let Some(message) = names::port_number(number) {
                errors.invalid(&of_port.child("number"), number, message);
            }
        }
        (false, 0) => {
            for message in names::port_name(name) {
                errors.invalid(&of_port.child("name"), name, message);
            }
        }
        (false, _) => errors.invalid(path, "", "cannot set both port name & port number"),
    }
}

/// The columns of `ingresses`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Class",
        Description::Text("The name of the IngressClass resource that should be used for additional configuration"),
        CellSource::Optional("/spec/ingressClassName", NONE),
    ),
    Column::string(
        "Hosts",
        Description::Text("Hosts that incoming requests are matched against before the ingress rule"),
        CellSource::Custom(|ingress, _| json!(hosts(ingress))),
    ),
    Column::string(
        "Address",
        Description::Text("Address is a list containing ingress points for the load-balancer"),
        CellSource::Custom(|ingress, _| json!(ingress_addresses(ingress).join(","))),
    ),
    Column::string(
        "Ports",
        Description::Text("Ports of TLS configurations that open"),
        CellSource::Custom(|ingress, _| json!(if count(ingress, "/spec/tls") == 0 { "80" } else { "80, 443" })),
    ),
    AGE,
];

const HOSTS_SHOWN: usize = 3;

fn hosts(ingress: &Value) -> String {
    let rules = items(ingress, "/spec/rules");
    let named: Vec<&str> = rules.iter().map(|rule| text(rule, "/host")).filter(|host| !host.is_empty()).collect();
    let shown = named.iter().take(HOSTS_SHOWN).copied().collect::<Vec<_>>().join(",");
    let third = rules.iter().enumerate().filter(|(_, rule)| !text(rule, "/host").is_empty()).nth(HOSTS_SHOWN - 1);
    match (shown.as_str(), third) {
        ("", _) => "*".to_owned(),
        (_, Some((index, _))) if index + 1 < rules.len() => format!("{shown} + {} more...", rules.len() - HOSTS_SHOWN),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn texts(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::nothing(json!({}), &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"])]
    #[case::star(json!({"rules": [{"host": "*.a.b"}]}), &[])]
    #[case::wildcards(
        json!({"rules": [{"host": "*"}, {"host": "a.*.b"}]}),
        &[
            "spec.rules[0].host: Invalid value: \"*\": a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            "spec.rules[1].host: Invalid value: \"a.*.b\": a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ]
    )]
    #[case::paths(
        json!({"rules": [{"http": {"paths": [{"path": "x"}, {"path": "x", "pathType": "Exact", "backend": {}}]}}]}),
        &[
            "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
            "spec.rules[0].http.paths[1].path: Invalid value: \"x\": must be an absolute path",
            "spec.rules[0].http.paths[1].backend: Invalid value: \"\": resource or service backend is required",
        ]
    )]
    #[case::ports(
        json!({"defaultBackend": {"service": {"name": "s", "port": {"name": "http", "number": 1}}}}),
        &["spec.defaultBackend: Invalid value: \"\": cannot set both port name & port number"]
    )]
    fn ingresses_are_refused(#[case] spec: Value, #[case] expected: &[&str]) {
        assert_eq!(texts(&validate(&json!({"spec": spec}))), expected);
    }
}
