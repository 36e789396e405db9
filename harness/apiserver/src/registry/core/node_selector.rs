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

/// Returns the warning about a deprecated node label.
pub(in crate::registry) fn deprecated_label(label: &str) -> Option<&'static str> {
    let text = match label {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    };
    Some(text)
}

/// Returns the warnings about a term of a node selector: `GetWarningsForNodeSelectorTerm` in `pkg/api/node/util.go`.
pub(in crate::registry) fn term_warnings(term: &Value, look_at_values: bool, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (i, expression) in array_field(term, "matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{i}]");
        let key = str_field(expression, "key");
        if let Some(text) = deprecated_label(key) {
            warnings.push(format!("{path}.key: {key} is {text}"));
        }
        for (j, value) in array_field(expression, "values").iter().enumerate().filter(|_| look_at_values) {
            let value = value.as_str().unwrap_or_default();
            for message in names::label_value(value) {
                warnings.push(format!("{path}.values[{j}]: {value} is invalid, {message}"));
            }
        }
    }
    warnings
}
