//! `storage.k8s.io/v1` `CSIDriver`. See `pkg/registry/storage/csidriver/strategy.go` and
//! `pkg/apis/storage/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{
    array_field, is_empty_value, non_null, object_mut, object_or_default, semantic_equal, spec_of, str_field,
    value_default,
};
use crate::json::{Map, Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{NONE, UNSET, items, joined, text};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks;
use crate::registry::generic::{Generation, Generic};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::storage::common::CONDITIONAL;

const SPEC: Path<'static> = Path::new("spec");

/// The resource `csidrivers` of `storage.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", "io.k8s.api.storage.v1.CSIDriver")
        .cluster()
        .hash("hL6j/rwBV5w=")
        .rules(
            KindStrategy::new(Generic { generation: Generation::SpecOnceChanged, ..CONDITIONAL }, defaults)
                .check_with(validate)
                .check_update_with(validate_update)
                .warn_with(warnings)
                .drop_with(drop_disabled_fields),
        )
        .columns(COLUMNS)
}

/// Defaults of `CSIDriver`.
fn defaults(map: &mut Map) {
    let Some(spec) = object_or_default(map, "spec") else { return };
    value_default(spec, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        value_default(spec, field, false);
    }
    value_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if is_empty_value(spec.get("volumeLifecycleModes")) {
        spec.insert("volumeLifecycleModes", json!(["Persistent"]));
    }
}

/// Drops what is behind a feature gate that is off by default.
fn drop_disabled_fields(object: &mut Value, _old: Option<&Value>) {
    if let Some(spec) = object.as_object_mut().and_then(|map| object_mut(map, "spec")) {
        spec.remove("preventPodSchedulingIfMissing");
    }
}

/// Returns the warning about new requests for tokens that are not kept in secrets.
fn warnings(driver: &Value, old: Option<&Value>) -> Vec<String> {
    const WARNING: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
    let spec = spec_of(driver);
    let requests = spec.get("tokenRequests");
    let is_known = old.is_some_and(|old| semantic_equal(requests, spec_of(old).get("tokenRequests")));
    let is_set = non_null(spec, "serviceAccountTokenInSecrets").is_some();
    let warns = !is_empty_value(requests) && !is_known && !is_set;
    Vec::from_iter(warns.then(|| WARNING.to_owned()))
}

/// Validates a `CSIDriver`.
fn validate(object: &Value) -> ErrorList {
    /// Longest and shortest life of a token in seconds.
    const LONGEST: i64 = 1 << 32;
    const SHORTEST: i64 = 600;
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    checks::one_of(spec, "fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"], &SPEC, &mut errors);
    let root = SPEC.child("tokenRequests");
    let requests = array_field(spec, "tokenRequests");
    let repeated = checks::repeated(requests, |request| str_field(request, "audience"));
    for (index, request) in requests.iter().enumerate() {
        let path = root.index(index);
        let audience = str_field(request, "audience");
        if repeated[index] {
            errors.duplicate(&path.child("audience"), audience);
            continue;
        }
        match request["expirationSeconds"].as_i64() {
            Some(seconds) if seconds < SHORTEST => {
                let why = "may not specify a duration less than 10 minutes";
                errors.invalid(&path.child("expirationSeconds"), seconds, why);
            }
            Some(seconds) if seconds > LONGEST => {
                let why = "may not specify a duration larger than 2^32 seconds";
                errors.invalid(&path.child("expirationSeconds"), seconds, why);
            }
            _ => {}
        }
    }
    let modes = ["Persistent", "Ephemeral"];
    for mode in array_field(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str) {
        if !modes.contains(&mode) {
            errors.not_supported(&SPEC.child("volumeLifecycleModes"), mode, &modes);
        }
    }
    if let Some(seconds) = spec["nodeAllocatableUpdatePeriodSeconds"].as_i64().filter(|seconds| *seconds < 10) {
        let path = SPEC.child("nodeAllocatableUpdatePeriodSeconds");
        errors.invalid(&path, seconds, "must be greater than or equal to 10 seconds");
    }
    if let Some(given) = non_null(spec, "serviceAccountTokenInSecrets").filter(|_| requests.is_empty()) {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(&SPEC.child("serviceAccountTokenInSecrets"), given, why);
    }
    errors
}

/// Validates an update of a `CSIDriver`. The first path is upstream's.
fn validate_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let new = spec_of(new);
    let old = spec_of(old);
    for (field, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
        checks::validate_immutable(new.get(field), old.get(field), &SPEC.child(shown), &mut errors);
    }
    errors
}

const fn about_driver(field: &'static str) -> Description {
    Description::Field("api.storage.v1.CSIDriverSpec", field)
}

/// The columns of `csidrivers`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::boolean(
        "AttachRequired",
        about_driver("attachRequired"),
        CellSource::Custom(|driver, _| {
            json!(driver.pointer("/spec/attachRequired").and_then(Value::as_bool).unwrap_or(true))
        }),
    ),
    Column::boolean("PodInfoOnMount", about_driver("podInfoOnMount"), CellSource::Flag("/spec/podInfoOnMount")),
    Column::boolean("StorageCapacity", about_driver("storageCapacity"), CellSource::Flag("/spec/storageCapacity")),
    Column::string(
        "TokenRequests",
        about_driver("tokenRequests"),
        CellSource::Custom(|driver, _| match items(driver, "/spec/tokenRequests") {
            [] => json!(UNSET),
            requests => json!(joined(requests.iter().map(|request| text(request, "/audience")))),
        }),
    ),
    Column::boolean(
        "RequiresRepublish",
        about_driver("requiresRepublish"),
        CellSource::Flag("/spec/requiresRepublish"),
    ),
    Column::string(
        "Modes",
        about_driver("volumeLifecycleModes"),
        CellSource::Custom(|driver, _| match items(driver, "/spec/volumeLifecycleModes") {
            [] => json!(NONE),
            modes => json!(joined(modes.iter().filter_map(Value::as_str))),
        }),
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_attach_unless_they_say_otherwise() {
        let read = |driver: &Value| -> Vec<Value> {
            COLUMNS[1..7].iter().map(|column| column.read(driver, jiff::Timestamp::UNIX_EPOCH)).collect()
        };
        assert_eq!(
            read(&json!({"spec": {}})),
            [json!(true), json!(false), json!(false), json!("<unset>"), json!(false), json!("<none>")]
        );
        let said = json!({"spec": {"attachRequired": false, "podInfoOnMount": true, "storageCapacity": true, "requiresRepublish": true,
            "tokenRequests": [{"audience": "a"}, {"audience": "b"}], "volumeLifecycleModes": ["Persistent", "Ephemeral"]}});
        assert_eq!(
            read(&said),
            [json!(false), json!(true), json!(true), json!("a,b"), json!(true), json!("Persistent,Ephemeral")]
        );
    }
}
