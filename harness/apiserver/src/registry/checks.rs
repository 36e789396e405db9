//! Checks that the validation of several kinds shares; upstream's are in `pkg/apis/core/validation`. PURE.

use super::label_selector;
use super::meta::{self, non_null};
use crate::field_errors::{ErrorList, Path};
use crate::json::Value;

/// Checks a text field against the supported values, which are sorted; a missing field is fine.
pub(super) fn one_of(object: &Value, field: &str, supported: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(given) = non_null(object, field).and_then(Value::as_str)
        && !supported.contains(&given)
    {
        errors.not_supported(&path.child(field), given, supported);
    }
}

/// Like [`one_of`] for a field that must be set.
pub(super) fn required_one_of(
    object: &Value,
    field: &str,
    supported: &[&str],
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if meta::str_field(object, field).is_empty() {
        errors.required(&path.child(field), "");
    } else {
        one_of(object, field, supported, path, errors);
    }
}

/// Checks a text by a function that returns what is wrong with it.
pub(super) fn format(text: &str, check: fn(&str) -> Vec<String>, path: &Path<'_>, errors: &mut ErrorList) {
    for why in check(text) {
        errors.invalid(path, text, why);
    }
}

/// Checks a field that must be set and have a format.
pub(super) fn required_format(
    object: &Value,
    field: &str,
    check: fn(&str) -> Vec<String>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    match meta::str_field(object, field) {
        "" => errors.required(&path.child(field), ""),
        text => format(text, check, &path.child(field), errors),
    }
}

/// Checks a label selector field strictly.
pub(super) fn selector(object: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    errors.append(label_selector::validate(non_null(object, field), false, &path.child(field)));
}
