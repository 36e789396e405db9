//! Validation of ingresses, ingress classes and network policies. See `pkg/apis/networking/validation/validation.go`.

use std::net::IpAddr;

use super::label_selector::{self, array_field};
use super::meta::{non_null, spec_of};
use super::service::is_cidr;
use super::{checks, job_rules, meta, names};
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::Value;

const SPEC: Path<'static> = Path::new("spec");

/// Longest controller of an ingress class in bytes.
const LONGEST_CONTROLLER: usize = 250;

/// Validates an `Ingress`, except for its metadata.
pub(super) fn ingress(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let (rules, default) = (array_field(spec, "rules"), non_null(spec, "defaultBackend"));
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
        let secret = meta::str_field(tls, "secretName");
        if !secret.is_empty() {
            checks::format(secret, names::dns1123_subdomain, &path.child("secretName"), &mut errors);
        }
    }
    let class = meta::str_field(spec, "ingressClassName");
    if non_null(spec, "ingressClassName").is_some() {
        for message in names::dns1123_subdomain(class) {
            errors.invalid(&SPEC.child("ingressClassName"), class, message);
        }
    }
    errors
}

fn host(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    // A wildcard may replace the first label.
    let plain = name.strip_prefix("*.").unwrap_or(name);
    for message in names::dns1123_subdomain(plain) {
        errors.invalid(path, name, message);
    }
}

fn ingress_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let name = meta::str_field(rule, "host");
    if name.parse::<IpAddr>().is_ok() {
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
        let (path, target) = (all.index(i), meta::str_field(one, "path"));
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
    let (of_service, name) = (path.child("service"), meta::str_field(service, "name"));
    if name.is_empty() {
        errors.required(&of_service.child("name"), "");
    } else {
        for message in names::dns1123_label(name) {
            errors.invalid(&of_service.child("name"), name, message);
        }
    }
    let port = service.get("port").unwrap_or(&Value::Null);
    let (name, number) = (meta::str_field(port, "name"), port.get("number").and_then(Value::as_i64).unwrap_or(0));
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

/// Validates an `IngressClass`, except for its metadata.
pub(super) fn ingress_class(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let controller = meta::str_field(spec_of(object), "controller");
    let path = SPEC.child("controller");
    if controller.len() > LONGEST_CONTROLLER {
        errors.too_long(&path, LONGEST_CONTROLLER);
    }
    job_rules::domain_prefixed_path(controller, &path, &mut errors);
    if let Some(parameters) = non_null(spec_of(object), "parameters") {
        let path = SPEC.child("parameters");
        typed_reference(parameters, &path, &mut errors);
        parameters_scope(parameters, &path, &mut errors);
    }
    errors
}

fn typed_reference(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(group) = non_null(reference, "apiGroup").and_then(Value::as_str) {
        checks::format(group, names::dns1123_subdomain, &path.child("apiGroup"), errors);
    }
    for field in ["kind", "name"] {
        checks::required_format(reference, field, |text| names::path_segment(text, false), path, errors);
    }
}

fn parameters_scope(parameters: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (scope, namespace) = (non_null(parameters, "scope"), non_null(parameters, "namespace"));
    let path_of_namespace = path.child("namespace");
    match scope.and_then(Value::as_str) {
        None => errors.required(&path.child("scope"), ""),
        Some("Namespace") => match namespace.and_then(Value::as_str) {
            None => errors.required(&path_of_namespace, "`parameters.scope` is set to 'Namespace'"),
            Some(name) => checks::format(name, names::dns1123_label, &path_of_namespace, errors),
        },
        Some("Cluster") if namespace.is_some() => {
            errors.forbidden(&path_of_namespace, "`parameters.scope` is set to 'Cluster'");
        }
        Some("Cluster") => {}
        Some(other) => errors.not_supported(&path.child("scope"), other, &["Cluster", "Namespace"]),
    }
}

/// Validates a `NetworkPolicy`, except for its metadata.
pub(super) fn network_policy(object: &Value) -> ErrorList {
    let spec = spec_of(object);
    let mut errors = label_selector::validate(non_null(spec, "podSelector"), false, &SPEC.child("podSelector"));
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        let all = SPEC.child(rules);
        for (i, rule) in array_field(spec, rules).iter().enumerate() {
            let path = all.index(i);
            let (ports_path, peers_path) = (path.child("ports"), path.child(peers));
            for (j, port) in array_field(rule, "ports").iter().enumerate() {
                policy_port(port, &ports_path.index(j), &mut errors);
            }
            for (j, peer) in array_field(rule, peers).iter().enumerate() {
                policy_peer(peer, &peers_path.index(j), &mut errors);
            }
        }
    }
    let (types, path) = (array_field(spec, "policyTypes"), SPEC.child("policyTypes"));
    if types.len() > 2 {
        errors.invalid(&path, Value::from(types.to_vec()), "may not specify more than two policyTypes");
        return errors;
    }
    for (i, kind) in types.iter().map(|kind| kind.as_str().unwrap_or_default()).enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            errors.not_supported(&path.index(i), kind, &["Ingress", "Egress"]);
        }
    }
    errors
}

fn policy_port(port: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let protocol = meta::str_field(port, "protocol");
    if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
        errors.not_supported(&path.child("protocol"), protocol, &["TCP", "UDP", "SCTP"]);
    }
    let end = non_null(port, "endPort").and_then(Value::as_i64);
    let end_path = path.child("endPort");
    match (non_null(port, "port"), end) {
        (None, Some(end)) => errors.invalid(&end_path, end, "may not be specified when `port` is not specified"),
        (Some(Value::String(name)), end) => {
            if let Some(end) = end {
                errors.invalid(&end_path, end, "may not be specified when `port` is non-numeric");
            }
            for message in names::port_name(name) {
                errors.invalid(&path.child("port"), name.as_str(), message);
            }
        }
        (Some(number), end) => {
            let number = number.as_i64().unwrap_or(0);
            if let Some(message) = names::port_number(number) {
                errors.invalid(&path.child("port"), number, message);
            }
            if end.is_some_and(|end| end < number) {
                errors.invalid(&end_path, number, "must be greater than or equal to `port`");
            }
            if let Some((end, message)) = end.and_then(|end| Some((end, names::port_number(end)?))) {
                errors.invalid(&end_path, end, message);
            }
        }
        (None, None) => {}
    }
}

fn policy_peer(peer: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let selectors = ["podSelector", "namespaceSelector"].into_iter().filter(|field| non_null(peer, field).is_some());
    let mut count = 0;
    for field in selectors {
        count += 1;
        errors.append(label_selector::validate(non_null(peer, field), false, &path.child(field)));
    }
    let Some(block) = non_null(peer, "ipBlock") else {
        if count == 0 {
            errors.required(path, "must specify a peer");
        }
        return;
    };
    let cidr = meta::str_field(block, "cidr");
    let block_path = path.child("ipBlock");
    if cidr.is_empty() {
        errors.required(&block_path.child("cidr"), "");
    } else if !is_cidr(cidr) {
        let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.invalid(&block_path.child("cidr"), cidr, why);
    }
    if count > 0 {
        errors.forbidden(path, "may not specify both ipBlock and another peer");
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn texts(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::nothing(json!({}), &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"])]
    #[case::star(json!({"rules": [{"host": "*.a.b"}]}), &[])]
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
        assert_eq!(texts(&ingress(&json!({"spec": spec}))), expected);
    }

    #[rstest]
    #[case::fine(json!({"policyTypes": ["Ingress"], "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}), &[])]
    #[case::odd(
        json!({"policyTypes": ["X"], "ingress": [{"from": [{"ipBlock": {"cidr": "bad"}}, {}],
            "ports": [{"port": 99999, "protocol": "X"}]}]}),
        &[
            "spec.ingress[0].ports[0].protocol: Unsupported value: \"X\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
            "spec.ingress[0].ports[0].port: Invalid value: 99999: must be between 1 and 65535, inclusive",
            "spec.ingress[0].from[0].ipBlock.cidr: Invalid value: \"bad\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            "spec.ingress[0].from[1]: Required value: must specify a peer",
            "spec.policyTypes[0]: Unsupported value: \"X\": supported values: \"Ingress\", \"Egress\"",
        ]
    )]
    fn network_policies_are_refused(#[case] spec: Value, #[case] expected: &[&str]) {
        assert_eq!(texts(&network_policy(&json!({"spec": spec}))), expected);
    }
}
