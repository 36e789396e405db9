//! Label selectors in objects: validation, and matching for budgets and workload controllers.
//!
//! See `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go` and
//! `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go`.

use std::fmt::Write;

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, is_empty_value, non_null, str_field};
use crate::json::{Map, Value};
use crate::registry::{meta, names};

/// Checks a label selector field strictly.
pub(super) fn validate_field(object: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    errors.append(validate(non_null(object, field), false, &path.child(field)));
}

/// Encodes a `metav1.LabelSelector` like Go.
pub(super) fn selector_json(selector: Option<&Value>) -> String {
    let Some(selector) = selector.filter(|s| !s.is_null()) else { return "null".to_owned() };
    let mut parts = Vec::new();
    if let Some(labels) = selector.get("matchLabels").filter(|v| !is_empty_value(Some(v))) {
        parts.push(format!("\"matchLabels\":{labels}"));
    }
    if let Some(expressions) = selector.get("matchExpressions").and_then(Value::as_array).filter(|e| !e.is_empty()) {
        let all: Vec<String> = expressions
            .iter()
            .map(|e| {
                let mut out = format!(
                    "{{\"key\":{},\"operator\":{}",
                    Value::from(str_field(e, "key")),
                    Value::from(str_field(e, "operator"))
                );
                if let Some(values) = e.get("values").filter(|v| !is_empty_value(Some(v))) {
                    let _ = write!(out, ",\"values\":{values}");
                }
                out.push('}');
                out
            })
            .collect();
        parts.push(format!("\"matchExpressions\":[{}]", all.join(",")));
    }
    format!("{{{}}}", parts.join(","))
}

/// Validates a `metav1.LabelSelector`. `lenient` accepts invalid values in expressions, for old objects that have
/// some.
pub(crate) fn validate(selector: Option<&Value>, lenient: bool, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(selector) = selector else { return errors };
    if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
        meta::validate_labels(labels, &path.child("matchLabels"), &mut errors);
    }
    let expressions_path = path.child("matchExpressions");
    for (i, expression) in array_field(selector, "matchExpressions").iter().enumerate() {
        validate_expression(expression, lenient, &expressions_path.index(i), &mut errors);
    }
    errors
}

fn validate_expression(expression: &Value, lenient: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let values = array_field(expression, "values");
    let operator = str_field(expression, "operator");
    match operator {
        "In" | "NotIn" => {
            if values.is_empty() {
                errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(&path.child("values"), detail);
            }
        }
        _ => errors.invalid(&path.child("operator"), operator, "not a valid selector operator"),
    }
    let key = str_field(expression, "key");
    for message in names::qualified_name(key) {
        errors.invalid(&path.child("key"), key, message);
    }
    if lenient {
        return;
    }
    let values_path = path.child("values");
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        for message in names::label_value(value) {
            errors.invalid(&values_path.index(i), value, message);
        }
    }
}

/// Returns true if an expression has an invalid label value.
pub(crate) fn has_invalid_value(selector: Option<&Value>) -> bool {
    selector.is_some_and(|s| {
        array_field(s, "matchExpressions")
            .iter()
            .flat_map(|e| array_field(e, "values"))
            .any(|v| !names::label_value(v.as_str().unwrap_or_default()).is_empty())
    })
}

/// Returns true if a selector matches these labels; `None` if the selector is invalid.
///
/// A missing selector matches nothing, an empty one everything.
pub(crate) fn matches(selector: Option<&Value>, labels: Option<&Value>) -> Option<bool> {
    let Some(selector) = selector.filter(|s| !s.is_null()) else { return Some(false) };
    let none = Map::new();
    let labels = labels.and_then(Value::as_object).unwrap_or(&none);
    let mut all = true;
    if let Some(wanted) = selector.get("matchLabels").and_then(Value::as_object) {
        for (key, value) in wanted {
            let value = value.as_str().unwrap_or_default();
            if !names::qualified_name(key).is_empty() || !names::label_value(value).is_empty() {
                return None;
            }
            all &= labels.get(key).and_then(Value::as_str) == Some(value);
        }
    }
    for expression in array_field(selector, "matchExpressions") {
        all &= expression_matches(expression, labels)?;
    }
    Some(all)
}

fn expression_matches(expression: &Value, labels: &Map) -> Option<bool> {
    let key = str_field(expression, "key");
    let values = array_field(expression, "values");
    let fine = names::qualified_name(key).is_empty()
        && values.iter().all(|v| names::label_value(v.as_str().unwrap_or_default()).is_empty());
    if !fine {
        return None;
    }
    let actual = labels.get(key);
    match str_field(expression, "operator") {
        "In" if !values.is_empty() => Some(actual.is_some_and(|v| values.contains(v))),
        "NotIn" if !values.is_empty() => Some(!actual.is_some_and(|v| values.contains(v))),
        "Exists" if values.is_empty() => Some(actual.is_some()),
        "DoesNotExist" if values.is_empty() => Some(actual.is_none()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    #[rstest]
    #[case::missing_selects_nothing(json!(null), Some(false))]
    #[case::empty_selects_all(json!({}), Some(true))]
    #[case::labels(json!({"matchLabels": {"a": "b"}}), Some(true))]
    #[case::other_value(json!({"matchLabels": {"a": "c"}}), Some(false))]
    #[case::bad_key(json!({"matchLabels": {"a/b/c": "c"}}), None)]
    #[case::within(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "b"]}]}), Some(true))]
    #[case::not_within(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}), Some(false))]
    #[case::not_in_of_missing(json!({"matchExpressions": [{"key": "z", "operator": "NotIn", "values": ["b"]}]}), Some(true))]
    #[case::missing_key(json!({"matchExpressions": [{"key": "z", "operator": "DoesNotExist"}]}), Some(true))]
    #[case::in_nothing(json!({"matchExpressions": [{"key": "a", "operator": "In"}]}), None)]
    #[case::odd_operator(json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}), None)]
    fn selectors_match(#[case] selector: Value, #[case] expected: Option<bool>) {
        assert_eq!(matches(Some(&selector), Some(&json!({"a": "b"}))), expected);
    }
}
