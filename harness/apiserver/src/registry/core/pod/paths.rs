//! Paths and modes of files in volumes. See `pkg/apis/core/validation/validation.go`. PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;

/// Like [`descending_path`], for files in volumes, which may not start with `..` at all.
pub(super) fn local_path(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    descending_path(target, path, errors);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.invalid(path, target, "must not start with '..'");
    }
}

/// Validates a file mode.
pub(super) fn mode(value: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(mode) = value.and_then(Value::as_i64)
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

pub(super) fn validate_no_backsteps(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if target.split('/').any(|step| step == "..") {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// Validates a relative path without `..`.
pub(super) fn descending_path(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    validate_no_backsteps(target, path, errors);
}
