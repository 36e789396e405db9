//! Validation of `intstr.IntOrString` fields that are a number or a percentage.
//!
//! See `ValidatePositiveIntOrPercent` in `pkg/apis/apps/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::registry::{checks, names};

/// Requires a non-negative number, or digits with a percent sign.
pub(crate) fn validate_positive(value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match value {
        Value::String(text) => {
            for message in names::percent(text) {
                errors.invalid(path, text.as_str(), message);
            }
        }
        number => checks::validate_non_negative(Some(number), path, errors),
    }
}

/// Requires percentages to be at most 100.
pub(crate) fn validate_at_most_100_percent(value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(text) = value.as_str()
        && percent(text).is_some_and(|p| p > 100)
    {
        errors.invalid(path, text, "must not be greater than 100%");
    }
}

/// Returns the number before the percent sign.
pub(crate) fn percent(text: &str) -> Option<i64> {
    if !names::percent(text).is_empty() {
        return None;
    }
    // Upstream's Atoi saturates on overflow and ignores the error.
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

/// Returns the number, or the one before the percent sign. Another text counts as the number that it is, or as none:
/// `IntValue` in `staging/src/k8s.io/apimachinery/pkg/util/intstr/intstr.go`.
pub(crate) fn value(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::String(text)) => percent(text).or_else(|| text.parse().ok()).unwrap_or(0),
        Some(number) => number.as_i64().unwrap_or(0),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    /// `getIntOrPercentValue` in `pkg/apis/apps/validation/validation.go`; compared with kube-apiserver 1.36.2.
    #[rstest]
    #[case(json!(3), 3)]
    #[case(json!("30%"), 30)]
    #[case(json!("3"), 3)]
    #[case(json!("-3"), -3)]
    #[case(json!("x"), 0)]
    #[case(json!(null), 0)]
    fn values(#[case] given: Value, #[case] expected: i64) {
        assert_eq!(value(Some(&given)), expected);
    }
}
