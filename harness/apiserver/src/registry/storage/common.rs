//! Names and parameters of drivers, for the kinds of the group. See `pkg/apis/storage/validation/validation.go`.
//! PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::str_field;
use crate::json::{Map, Value};
use crate::registry::generic::Generic;
use crate::registry::{checks, names};

/// Objects of the cluster whose updates name the version that they replace.
pub(super) const CONDITIONAL: Generic = Generic { unconditional: false, namespaced: false, ..Generic::NEW };

/// Most parameters of a class, and bytes of all of them.
const PARAMETERS_MAX: usize = 512;

const PARAMETER_BYTES_MAX: usize = 256 * 1024;

/// Validates the name of a provisioner.
pub(super) fn provisioner(object: &Value, field: &'static str, errors: &mut ErrorList) {
    let path = Path::new(field);
    match str_field(object, field) {
        "" => errors.required(&path, ""),
        name => checks::format(&name.to_ascii_lowercase(), names::qualified_name, &path, errors),
    }
}

/// Validates the parameters of a class.
pub(super) fn parameters(object: &Value, may_be_empty: bool, errors: &mut ErrorList) {
    let path = Path::new("parameters");
    let none = Map::new();
    let all = object.get("parameters").and_then(Value::as_object).unwrap_or(&none);
    if all.len() > PARAMETERS_MAX {
        return errors.too_long(&path, PARAMETERS_MAX);
    }
    if all.contains_key("") {
        errors.invalid(&path, "", "field can not be empty.");
    }
    let bytes: usize = all.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > PARAMETER_BYTES_MAX {
        errors.too_long(&path, PARAMETER_BYTES_MAX);
    }
    if !may_be_empty && all.is_empty() {
        errors.required(&path, "must contain at least one key/value pair");
    }
}

/// Validates the name of a driver.
pub(in crate::registry) fn csi_driver_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    const LONGEST: usize = 63;
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > LONGEST {
        errors.too_long(path, LONGEST);
    }
    for why in names::dns1123_subdomain(&name.to_lowercase()) {
        errors.invalid(path, name, why);
    }
}
