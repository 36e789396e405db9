//! Checks that the validation of several kinds shares; upstream's are in `pkg/apis/core/validation`. PURE.

use std::collections::BTreeSet;

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{non_null, semantic_equal, str_field};
use crate::quantity::Quantity;
use crate::registry::names;

/// Marks the items whose key an earlier one has, in one pass: a request can hold a hundred thousand items.
pub(crate) fn repeated<'v, T, K: Ord>(items: &'v [T], key: impl Fn(&'v T) -> K) -> Vec<bool> {
    let mut seen = BTreeSet::new();
    items.iter().map(|item| !seen.insert(key(item))).collect()
}

/// Requires a number that is not negative.
pub(crate) fn validate_non_negative(value: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let value = value.and_then(Value::as_i64).unwrap_or(0);
    if value < 0 {
        errors.invalid(path, value, NON_NEGATIVE_MESSAGE);
    }
}

/// Requires a field to be unchanged.
pub(crate) fn validate_immutable(new: Option<&Value>, old: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    if !semantic_equal(new, old) {
        errors.invalid(path, BadValue::from(new), IMMUTABLE_MESSAGE);
    }
}

/// Requires a field below a path to be unchanged.
pub(crate) fn unchanged(new: &Value, old: &Value, fields: &[&str]) -> ErrorList {
    fn check(new: &Value, old: &Value, fields: &[&str], path: Option<&Path<'_>>, errors: &mut ErrorList) {
        let [field, rest @ ..] = fields else { return };
        let path = path.map_or_else(|| Path::new(field), |path| path.child(field));
        if rest.is_empty() {
            validate_immutable(new.get(*field), old.get(*field), &path, errors);
        } else {
            check(&new[*field], &old[*field], rest, Some(&path), errors);
        }
    }
    let mut errors = ErrorList::new();
    check(new, old, fields, None, &mut errors);
    errors
}

/// The message for numbers that must not be negative.
pub(crate) const NON_NEGATIVE_MESSAGE: &str = "must be greater than or equal to 0";

/// The message for numbers that must be positive.
pub(crate) const POSITIVE_MESSAGE: &str = "must be greater than 0";

/// The message for immutable fields.
pub(super) const IMMUTABLE_MESSAGE: &str = "field is immutable";

/// Validates a text such as `acme.io/foo`.
pub(crate) fn domain_prefixed_path(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    const FORMAT: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
    if text.is_empty() {
        return errors.required(path, "");
    }
    let Some((host, rest)) = text.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty()) else {
        return errors.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    format(host, names::dns1123_subdomain, path, errors);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !rest.bytes().all(fits) {
        errors.invalid(path, rest, names::regex_error("Invalid path", FORMAT, &[]));
    }
}

/// Returns a quantity as the value of an error.
pub(super) fn quantity_value(quantity: Quantity) -> BadValue {
    BadValue::Quoted(quantity.to_string())
}

/// Requires one of the `allowed` values, which are printed in this order.
pub(super) fn validate_enum(value: &str, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        errors.required(path, "");
    } else if !allowed.contains(&value) {
        errors.not_supported(path, value, allowed);
    }
}

/// Checks a text field against the supported values, which are sorted; a missing field is fine.
pub(super) fn one_of(object: &Value, field: &str, supported: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(given) = non_null(object, field).and_then(Value::as_str)
        && !supported.contains(&given)
    {
        errors.not_supported(&path.child(field), given, supported);
    }
}

/// Like [`one_of`] for a field behind a pointer that must be set: an empty text is not supported.
pub(super) fn set_one_of(object: &Value, field: &str, supported: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if non_null(object, field).is_none() {
        errors.required(&path.child(field), "");
    }
    one_of(object, field, supported, path, errors);
}

/// Like [`one_of`] for a field that must be set.
pub(super) fn required_one_of(
    object: &Value,
    field: &str,
    supported: &[&str],
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if str_field(object, field).is_empty() {
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
    match str_field(object, field) {
        "" => errors.required(&path.child(field), ""),
        text => format(text, check, &path.child(field), errors),
    }
}
