//! Node selectors of pods, volumes and resource slices. See `ValidateNodeSelector` in
//! `pkg/apis/core/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, str_field};
use crate::registry::names;

/// Validates a node selector.
pub(in crate::registry) fn validate(selector: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("nodeSelectorTerms");
    let terms = array_field(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&path, "must have at least one node selector term");
    }
    for (i, term) in terms.iter().enumerate() {
        validate_term(term, false, &path.index(i), errors);
    }
}

/// Validates a node selector term. `lenient` accepts values that are not valid label values.
pub(in crate::registry) fn validate_term(term: &Value, lenient: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let expressions = path.child("matchExpressions");
    for (i, requirement) in array_field(term, "matchExpressions").iter().enumerate() {
        validate_requirement(requirement, lenient, &expressions.index(i), errors);
    }
    let fields = path.child("matchFields");
    for (i, requirement) in array_field(term, "matchFields").iter().enumerate() {
        let path = fields.index(i);
        let operator = str_field(requirement, "operator");
        let values = array_field(requirement, "values");
        if !matches!(operator, "In" | "NotIn") {
            errors.invalid(&path.child("operator"), operator, "not a valid selector operator");
        } else if values.len() != 1 {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(&path.child("values"), why);
        }
        let key = str_field(requirement, "key");
        if key != "metadata.name" {
            errors.invalid(&path.child("key"), key, "not a valid field selector key");
            continue;
        }
        let path = path.child("values");
        for (i, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            for message in names::dns1123_subdomain(value) {
                errors.invalid(&path.index(i), value, message);
            }
        }
    }
}

fn validate_requirement(requirement: &Value, lenient: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let values = array_field(requirement, "values");
    let operator = str_field(requirement, "operator");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.child("values"), why);
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.required(&path.child("values"), why);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.invalid(&path.child("operator"), operator, "not a valid selector operator"),
    }
    let key = str_field(requirement, "key");
    for message in names::qualified_name(key) {
        errors.invalid(&path.child("key"), key, message);
    }
    let path = path.child("values");
    for (i, value) in values.iter().enumerate().filter(|_| !lenient) {
        let value = value.as_str().unwrap_or_default();
        for message in names::label_value(value) {
            errors.invalid(&path.index(i), value, message);
        }
    }
}
