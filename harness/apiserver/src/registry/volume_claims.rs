//! Validation of volume claims: `PersistentVolumeClaim`s and claim templates of pods and stateful sets.
//!
//! See `ValidatePersistentVolumeClaimSpec` in `pkg/apis/core/validation/validation.go`.

use super::label_selector::{self, array_field};
use super::meta::non_null;
use super::{meta, names, pod};
use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::quantity::Quantity;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

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
    validate_class_name(claim, "volumeAttributesClassName", path, errors);
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
