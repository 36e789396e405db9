//! `apiregistration.k8s.io/v1` `APIService`. See
//! `staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/strategy.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, non_null, object_mut, spec_of, str_field, value_default};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::text;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::data::decoded_length;
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::names::{self, NameFormat};
use crate::registry::{checks, conditions};
use crate::status::go_quote;

/// The resource `apiservices` of `apiregistration.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "apiregistration.k8s.io",
        "v1",
        "apiservices",
        "APIService",
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    )
    .cluster()
    .categories(&["api-extensions"])
    .status_without_metadata()
    .hash("InPBPD7+PqM=")
    .rules(KindStrategy::new(RULES, defaults).check_with(validate).check_status_with(|new, _| validate_status(new)))
    .columns(COLUMNS)
}

const RULES: Generic = Generic {
    status: true,
    unconditional: false,
    namespaced: false,
    names: NameFormat::PathSegment,
    updates: MetadataRules::Both,
    ..Generic::NEW
};

const SPEC: Path<'static> = Path::new("spec");

/// Validates an `APIService`: `staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/validation/validation.go`.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let (group, version) = (str_field(spec, "group"), str_field(spec, "version"));
    let (name, wanted) = (metadata::name(object), format!("{version}.{group}"));
    for (field, text) in [("generateName", metadata::generate_name(object)), ("name", name)] {
        if text != wanted && !text.is_empty() && names::path_segment(text, false).is_empty() {
            let why = format!("must be `spec.version+\".\"+spec.group`: {}", go_quote(&wanted));
            errors.invalid(&Path::new("metadata").child(field), text, why);
        }
    }
    match group {
        "" if version != "v1" => {
            errors.required(&SPEC.child("group"), "only v1 may have an empty group and it better be legacy kube");
        }
        "" => {}
        group => checks::format(group, names::dns1123_subdomain, &SPEC.child("group"), &mut errors),
    }
    checks::format(version, names::dns1035_label, &SPEC.child("version"), &mut errors);
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let priority = spec.get(field).and_then(Value::as_i64).unwrap_or(0);
        if !(1..=most).contains(&priority) {
            errors.invalid(&SPEC.child(field), priority, format!("must be positive and less than {most}"));
        }
    }
    connection(spec, &mut errors);
    errors
}

fn connection(spec: &Value, errors: &mut ErrorList) {
    const INSECURE: &str = "insecureSkipTLSVerify";
    let bundle = decoded_length(str_field(spec, "caBundle"));
    let insecure = spec[INSECURE] == true;
    let Some(service) = non_null(spec, "service") else {
        if bundle > 0 {
            let shown = format!("{bundle} bytes");
            errors.invalid(&SPEC.child("caBundle"), shown, "local APIServices may not have a caBundle");
        }
        if insecure {
            errors.invalid(&SPEC.child(INSECURE), true, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    };
    let path = SPEC.child("service");
    for field in ["namespace", "name"] {
        if str_field(service, field).is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(0);
    if let Some(why) = names::port_number(port) {
        errors.invalid(&path.child("port"), port, format!("port is not valid: {why}"));
    }
    if insecure && bundle > 0 {
        errors.invalid(&SPEC.child(INSECURE), true, "may not be true if caBundle is present");
    }
}

fn validate_status(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let all = path.child("conditions");
    for (index, condition) in array_field(&object["status"], "conditions").iter().enumerate() {
        let status = str_field(condition, "status");
        if !matches!(status, "True" | "False" | "Unknown") {
            let path = all.index(index);
            errors.not_supported(&path.child("status"), status, &["True", "False", "Unknown"]);
        }
    }
    errors
}

/// Defaults of `APIService`.
fn defaults(map: &mut Map) {
    if let Some(service) = object_mut(map, "spec").and_then(|spec| object_mut(spec, "service")) {
        value_default(service, "port", 443);
    }
}

/// The columns of `apiservices`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Service",
        Description::Text("The reference to the service that hosts this API endpoint."),
        CellSource::Custom(|object, _| match object.pointer("/spec/service").filter(|service| service.is_object()) {
            Some(service) => json!(format!("{}/{}", text(service, "/namespace"), text(service, "/name"))),
            None => json!("Local"),
        }),
    ),
    Column::string(
        "Available",
        Description::Text("Whether this service is available."),
        CellSource::Custom(|object, _| json!(availability(object))),
    ),
    AGE,
];

/// Returns the status of the condition `Available`, with its reason unless it is true.
fn availability(service: &Value) -> String {
    let Some(condition) = conditions::find(&service["status"], "Available") else { return "Unknown".to_owned() };
    match (text(condition, "/status"), text(condition, "/reason")) {
        (status @ "True", _) | (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}
