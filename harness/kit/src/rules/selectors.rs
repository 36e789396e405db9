//! Label selectors that the API server would refuse today, and that an object from an older server may still have.
//!
//! Sources: `staging/src/k8s.io/apimachinery/pkg/labels/selector.go` (`NewRequirement`),
//! `staging/src/k8s.io/apimachinery/pkg/api/validate/content` (`IsLabelKey`, `IsLabelValue`).

use serde_json::Value;

/// Longest name of a label, and longest value.
const LONGEST: usize = 63;
/// Longest prefix of a label's key.
const LONGEST_PREFIX: usize = 253;

/// Returns true if the server can evaluate a label selector.
#[must_use]
pub fn is_valid(selector: &Value) -> bool {
    let pairs = selector["matchLabels"].as_object();
    let terms = selector["matchExpressions"].as_array();
    let is_pair = |(key, value): (&String, &Value)| is_key(key) && value.as_str().is_some_and(is_value);
    pairs.is_none_or(|pairs| pairs.iter().all(is_pair)) && terms.is_none_or(|terms| terms.iter().all(is_term))
}

fn is_term(term: &Value) -> bool {
    let values = term["values"].as_array().map_or(&[][..], Vec::as_slice);
    let has_values = match term["operator"].as_str() {
        Some("In" | "NotIn") => !values.is_empty(),
        Some("Exists" | "DoesNotExist") => values.is_empty(),
        _ => false,
    };
    has_values
        && term["key"].as_str().is_some_and(is_key)
        && values.iter().all(|value| value.as_str().is_some_and(is_value))
}

fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

fn is_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

/// Returns true for letters and digits, and `-`, `_` and `.` between them.
fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().last()];
    text.len() <= LONGEST
        && text.bytes().all(is_inner)
        && ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
}

fn is_subdomain(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let ends = [part.bytes().next(), part.bytes().last()];
        part.bytes().all(|byte| is_letter(byte) || byte == b'-') && ends.iter().all(|end| end.is_some_and(is_letter))
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::none(json!({}), true)]
    #[case::labels(json!({"matchLabels": {"app.example.com/a_b": "x-1", "b": ""}}), true)]
    #[case::terms(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b", ""]}]}), true)]
    #[case::exists(json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), true)]
    #[case::two_prefixes(json!({"matchLabels": {"a/b/c": "x"}}), false)]
    #[case::empty_prefix(json!({"matchLabels": {"/x": "y"}}), false)]
    #[case::capital_prefix(json!({"matchLabels": {"A/x": "y"}}), false)]
    #[case::dash_in_prefix(json!({"matchLabels": {"a.-b/x": "y"}}), false)]
    #[case::two_dots(json!({"matchLabels": {"a..b/x": "y"}}), false)]
    #[case::long_name(json!({"matchLabels": {"a".repeat(64): "y"}}), false)]
    #[case::value_with_a_space(json!({"matchLabels": {"a": "b c"}}), false)]
    #[case::no_values(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}), false)]
    #[case::values_of_exists(json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}), false)]
    #[case::operator(json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}), false)]
    fn selectors_that_can_be_evaluated(#[case] selector: Value, #[case] valid: bool) {
        assert_eq!(is_valid(&selector), valid);
    }
}
