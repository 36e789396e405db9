//! Validation of volume claims: `PersistentVolumeClaim`s and claim templates of pods and stateful sets.
//!
//! See `ValidatePersistentVolumeClaimSpec` in `pkg/apis/core/validation/validation.go`.

use super::label_selector::{self, array_field};
use super::meta::non_null;
use super::{checks, meta, names, pod};
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::{Map, Value};
use crate::quantity::Quantity;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Completes the two fields for the source of a claim's data. References to other namespaces are behind a feature gate
/// that is off by default, and unknown kinds without a reference are dropped. See
/// `pkg/api/persistentvolumeclaim/util.go`.
pub(super) fn complete_data_sources(claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let text = |value: &Value, field: &str| meta::str_field(value, field).to_owned();
    if spec.get("dataSourceRef").is_some_and(|reference| !text(reference, "namespace").is_empty()) {
        spec.remove("dataSourceRef");
    }
    let set = |spec: &Map, field: &str| spec.get(field).filter(|value| !value.is_null()).cloned();
    match (set(spec, "dataSource"), set(spec, "dataSourceRef")) {
        (Some(source), None) => {
            let known = [("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")];
            let (group, kind) = (text(&source, "apiGroup"), text(&source, "kind"));
            if known.contains(&(group.as_str(), kind.as_str())) {
                spec.insert("dataSourceRef", source);
            } else {
                spec.remove("dataSource");
            }
        }
        (None, Some(reference)) => {
            spec.insert("dataSource", reference);
        }
        _ => {}
    }
}

/// Validates a `PersistentVolumeClaim`, except for its metadata.
pub(super) fn validate(claim: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_spec(claim.get("spec").unwrap_or(&Value::Null), &Path::new("spec"), &mut errors);
    errors
}

/// Validates the spec of a claim.
pub(super) fn validate_spec(claim: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let modes = array_field(claim, "accessModes");
    let modes_path = path.child("accessModes");
    if modes.is_empty() {
        errors.required(&modes_path, "at least 1 access mode is required");
    }
    errors.append(label_selector::validate(non_null(claim, "selector"), false, &path.child("selector")));
    let known = |mode: &&str| ACCESS_MODES.contains(mode);
    let texts = || modes.iter().map(|mode| mode.as_str().unwrap_or_default());
    for mode in texts().filter(|mode| !known(mode)) {
        errors.not_supported(&modes_path, mode, &ACCESS_MODES);
    }
    if modes.iter().any(|m| m == "ReadWriteOncePod") && texts().filter(known).any(|m| m != "ReadWriteOncePod") {
        errors.forbidden(&modes_path, "may not use ReadWriteOncePod with other access modes");
    }
    let resources = path.child("resources");
    let storage_path = resources.key("storage");
    match claim.pointer("/resources/requests/storage").map(pod::defaults::quantity_text) {
        None => errors.required(&storage_path, ""),
        Some(text) => {
            let storage = Quantity::parse(&text);
            if storage.is_some_and(|storage| storage.sign() <= 0) {
                errors.invalid(&storage_path, text, "must be greater than zero");
            } else if storage.is_some_and(|storage| !storage.is_whole()) {
                errors.invalid(&storage_path, text, "must be an integer");
            }
        }
    }
    validate_class_name(claim, "storageClassName", path, errors);
    if let Some(mode) = non_null(claim, "volumeMode").and_then(Value::as_str)
        && !matches!(mode, "Block" | "Filesystem")
    {
        errors.not_supported(&path.child("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    data_sources(claim, path, errors);
    validate_class_name(claim, "volumeAttributesClassName", path, errors);
}

fn data_sources(claim: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (source, reference) = (non_null(claim, "dataSource"), non_null(claim, "dataSourceRef"));
    if let Some(source) = source {
        data_source(source, &path.child("dataSource"), errors);
    }
    let namespace = reference.map_or("", |reference| meta::str_field(reference, "namespace"));
    if let Some(reference) = reference {
        let path = path.child("dataSourceRef");
        data_source(reference, &path, errors);
        if !namespace.is_empty() {
            checks::format(namespace, names::dns1123_label, &path.child("namespace"), errors);
        }
    }
    let (Some(source), Some(reference)) = (source, reference) else { return };
    let same = ["apiGroup", "kind", "name"]
        .iter()
        .all(|field| meta::str_field(source, field) == meta::str_field(reference, field));
    // Upstream shows the path of the field, which has no members in JSON.
    let shown = BadValue::Raw("{}".to_owned());
    if !namespace.is_empty() {
        errors.invalid(path, shown, "may not be specified when dataSourceRef.namespace is specified");
    } else if !same {
        errors.invalid(path, shown, "must match dataSourceRef");
    }
}

fn data_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["name", "kind"] {
        if meta::str_field(source, field).is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    let (group, kind) = (meta::str_field(source, "apiGroup"), meta::str_field(source, "kind"));
    if !group.is_empty() {
        checks::format(group, names::dns1123_subdomain, &path.child("apiGroup"), errors);
    } else if kind != "PersistentVolumeClaim" {
        errors.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
}

fn validate_class_name(claim: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let name = meta::str_field(claim, field);
    if !name.is_empty() {
        for message in names::dns1123_subdomain(name) {
            errors.invalid(&path.child(field), name, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    #[rstest]
    #[case::foreign(json!({"dataSource": {"kind": "Tape", "name": "t"}}), json!({}))]
    #[case::claim(json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "c"}}),
        json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "c"}, "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c"}}))]
    #[case::reference(json!({"dataSourceRef": {"apiGroup": "a.io", "kind": "Tape", "name": "t"}}),
        json!({"dataSource": {"apiGroup": "a.io", "kind": "Tape", "name": "t"}, "dataSourceRef": {"apiGroup": "a.io", "kind": "Tape", "name": "t"}}))]
    #[case::namespace(json!({"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c", "namespace": "n"}}), json!({}))]
    fn data_sources_are_completed(#[case] given: Value, #[case] expected: Value) {
        let mut claim = json!({"spec": given});
        complete_data_sources(&mut claim);
        assert_eq!(claim, json!({"spec": expected}));
    }

    #[rstest]
    #[case::fine(json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}), &[])]
    #[case::nothing(
        json!({}),
        &["spec.accessModes: Required value: at least 1 access mode is required", "spec.resources[storage]: Required value"]
    )]
    #[case::odd(
        json!({"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"], "resources": {"requests": {"storage": "0"}},
            "volumeMode": "Tape"}),
        &[
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
        ]
    )]
    fn claims_ask_for_something(#[case] spec: Value, #[case] expected: &[&str]) {
        let errors = validate(&json!({"spec": spec}));
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }
}
