//! The data of config maps and secrets: size, and immutability. See `pkg/apis/core/validation/validation.go`. PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{is_empty_value, semantic_equal};
use crate::json::{Key, Value};

/// Maximum size in bytes of all data together.
pub(super) const MAX_SIZE: usize = 1024 * 1024;

const IMMUTABLE_MESSAGE: &str = "field is immutable when `immutable` is set";

/// Returns the entries of a map.
pub(super) fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a Key, &'a Value)> {
    object.get(field).and_then(Value::as_object).into_iter().flatten()
}

/// Drops fields that are empty.
pub(super) fn drop_empty(object: &mut Value, fields: &[&str]) {
    if let Some(map) = object.as_object_mut() {
        for field in fields {
            if is_empty_value(map.get(*field)) {
                map.remove(*field);
            }
        }
    }
}

/// Requires the data of an immutable object to be unchanged.
pub(super) fn validate_immutable_data(new: &Value, old: &Value, fields: &[&str], errors: &mut ErrorList) {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    if new.get("immutable") != Some(&Value::Bool(true)) {
        errors.forbidden(&Path::new("immutable"), IMMUTABLE_MESSAGE);
    }
    for field in fields {
        if !semantic_equal(new.get(*field), old.get(*field)) {
            errors.forbidden(&Path::new(field), IMMUTABLE_MESSAGE);
        }
    }
}

/// Returns the decoded length of a base64 text.
pub(in crate::registry) fn decoded_length(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}
