//! Validation of the completion mode and the policies of jobs. See `pkg/apis/batch/validation/validation.go`. PURE.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{array_field, non_null, str_field};
use crate::json::{Value, json};
use crate::registry::checks::{self, domain_prefixed_path};
use crate::registry::core::internal_json;
use crate::registry::names;

/// Largest parallelism and number of failed indexes of an indexed job.
const MOST_INDEXES: i64 = 100_000;

/// Largest parallelism and number of failed indexes with more than [`MOST_INDEXES`] completions.
const MOST_OF_MANY: i64 = 10_000;

/// Most rules of a policy, and patterns of a rule.
const MOST_RULES: usize = 20;

/// Most exit codes of a rule.
const MOST_EXIT_CODES: usize = 255;

/// Longest list of indexes in bytes.
const LONGEST_INDEXES: usize = 64 * 1024;

/// Longest name of a managing controller in bytes.
const LONGEST_MANAGER: usize = 63;

const OF_EXIT_CODES: &str = "onExitCodes";

fn number(spec: &Value, field: &str) -> Option<i64> {
    spec.get(field).and_then(Value::as_i64)
}

/// Validates the name of the controller that manages the job.
pub(super) fn managed_by(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(name) = non_null(spec, "managedBy").and_then(Value::as_str) else { return };
    let path = path.child("managedBy");
    domain_prefixed_path(name, &path, errors);
    if name.len() > LONGEST_MANAGER {
        errors.too_long(&path, LONGEST_MANAGER);
    }
}

/// Validates the completion mode and the limits that depend on it.
pub(super) fn completion_mode(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mode = non_null(spec, "completionMode").and_then(Value::as_str).unwrap_or("NonIndexed");
    match mode {
        "NonIndexed" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = non_null(spec, field) {
                    errors.invalid(&path.child(field), number, "requires indexed completion mode");
                }
            }
        }
        "Indexed" => indexed(spec, path, errors),
        _ => errors.not_supported(&path.child("completionMode"), mode, &["NonIndexed", "Indexed"]),
    }
}

fn indexed(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const PARALLELISM: &str = "parallelism";
    const FAILED: &str = "maxFailedIndexes";
    let completions = number(spec, "completions");
    if completions.is_none() {
        errors.required(&path.child("completions"), "when completion mode is Indexed");
    }
    let why = format!("must be less than or equal to {MOST_INDEXES} when completion mode is Indexed");
    at_most(spec, PARALLELISM, MOST_INDEXES, &why, path, errors);
    if let Some(completions) = completions {
        at_most(spec, FAILED, completions, "must be less than or equal to completions", path, errors);
    }
    at_most(spec, FAILED, MOST_INDEXES, &format!("must be less than or equal to {MOST_INDEXES}"), path, errors);
    if completions.is_none_or(|count| count <= MOST_INDEXES) || number(spec, "backoffLimitPerIndex").is_none() {
        return;
    }
    if number(spec, FAILED).is_none() {
        let why = format!("must be specified when completions is above {MOST_INDEXES}");
        errors.required(&path.child(FAILED), why);
    }
    let why = format!(
        "must be less than or equal to {MOST_OF_MANY} when completions are above {MOST_INDEXES} and used with backoff limit per index"
    );
    at_most(spec, PARALLELISM, MOST_OF_MANY, &why, path, errors);
    at_most(spec, FAILED, MOST_OF_MANY, &why, path, errors);
}

fn at_most(spec: &Value, field: &str, most: i64, why: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(given) = number(spec, field).filter(|given| *given > most) {
        errors.invalid(&path.child(field), given, why);
    }
}

/// Validates the policies of failures, successes and replacements.
pub(super) fn policies(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let failure = non_null(spec, "podFailurePolicy");
    if let Some(policy) = failure {
        failure_policy(spec, policy, &path.child("podFailurePolicy"), errors);
    }
    if let Some(policy) = non_null(spec, "successPolicy") {
        let path = path.child("successPolicy");
        if str_field(spec, "completionMode") == "Indexed" {
            success_policy(spec, policy, &path, errors);
        } else {
            errors.invalid(
                &path,
                BadValue::Raw(internal_json::compact("SuccessPolicy", policy)),
                "requires indexed completion mode",
            );
        }
    }
    if let Some(given) = non_null(spec, "podReplacementPolicy").and_then(Value::as_str) {
        let supported: &[&str] = if failure.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        if !supported.contains(&given) {
            errors.not_supported(&path.child("podReplacementPolicy"), given, supported);
        }
    }
}

fn failure_policy(spec: &Value, policy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("rules");
    let rules = array_field(policy, "rules");
    if rules.len() > MOST_RULES {
        errors.too_many(&path, rules.len(), MOST_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        failure_rule(spec, rule, &path.index(index), errors);
    }
}

fn failure_rule(spec: &Value, rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let action_path = path.child("action");
    match str_field(rule, "action") {
        "" => errors.required(&action_path, "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"),
        action @ "FailIndex" if number(spec, "backoffLimitPerIndex").is_none() => {
            errors.invalid(&action_path, action, "requires the backoffLimitPerIndex to be set");
        }
        action if !ACTIONS.contains(&action) => errors.not_supported(&action_path, action, &ACTIONS),
        _ => {}
    }
    let codes = non_null(rule, OF_EXIT_CODES);
    let conditions = array_field(rule, "onPodConditions");
    if let Some(codes) = codes {
        exit_codes(spec, codes, &path.child(OF_EXIT_CODES), errors);
    }
    pod_conditions(conditions, &path.child("onPodConditions"), errors);
    let why = match (codes.is_some(), conditions.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.invalid(path, BadValue::Omitted, why);
}

fn pod_conditions(patterns: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
    if patterns.len() > MOST_RULES {
        errors.too_many(path, patterns.len(), MOST_RULES);
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let path = path.index(index);
        checks::format(str_field(pattern, "type"), names::qualified_name, &path.child("type"), errors);
        match str_field(pattern, "status") {
            "" => errors.required(&path.child("status"), "valid values: [\"False\" \"True\" \"Unknown\"]"),
            status if !STATUSES.contains(&status) => {
                errors.not_supported(&path.child("status"), status, &STATUSES);
            }
            _ => {}
        }
    }
}

fn exit_codes(spec: &Value, requirement: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let operator = str_field(requirement, "operator");
    let operator_path = path.child("operator");
    match operator {
        "" => errors.required(&operator_path, "valid values: [\"In\" \"NotIn\"]"),
        "In" | "NotIn" => {}
        _ => errors.not_supported(&operator_path, operator, &["In", "NotIn"]),
    }
    if let Some(name) = non_null(requirement, "containerName").and_then(Value::as_str) {
        let pod = spec.pointer("/template/spec").unwrap_or(&Value::Null);
        let mut all = array_field(pod, "containers").iter().chain(array_field(pod, "initContainers"));
        if !all.any(|container| str_field(container, "name") == name) {
            let why = "must be one of the container or initContainer names in the pod template";
            errors.invalid(&path.child("containerName"), name, why);
        }
    }
    let path = path.child("values");
    let values = array_field(requirement, "values");
    let shown = || requirement.get("values").unwrap_or(&Value::Null);
    if values.is_empty() {
        errors.invalid(&path, shown(), "at least one value is required");
    } else if values.len() > MOST_EXIT_CODES {
        errors.too_many(&path, values.len(), MOST_EXIT_CODES);
    }
    let repeated = checks::repeated(values, Value::as_i64);
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && *value == json!(0) {
            errors.invalid(&path.index(index), value, "must not be 0 for the In operator");
        }
        if repeated[index] {
            errors.duplicate(&path.index(index), value);
        }
    }
    if values.windows(2).any(|pair| pair[0].as_i64() > pair[1].as_i64()) {
        errors.invalid(&path, shown(), "must be ordered");
    }
}

fn success_policy(spec: &Value, policy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("rules");
    let rules = array_field(policy, "rules");
    if rules.is_empty() {
        errors.required(&path, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > MOST_RULES {
        errors.too_many(&path, rules.len(), MOST_RULES);
    }
    let completions = number(spec, "completions").unwrap_or(0);
    for (index, rule) in rules.iter().enumerate() {
        success_rule(completions, rule, &path.index(index), errors);
    }
}

fn success_rule(completions: i64, rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let indexes = non_null(rule, "succeededIndexes").and_then(Value::as_str);
    let count = number(rule, "succeededCount");
    if indexes.is_none() && count.is_none() {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let total = indexes.map(|indexes| {
        let path = path.child("succeededIndexes");
        if indexes.len() > LONGEST_INDEXES {
            errors.too_long(&path, LONGEST_INDEXES);
        }
        count_indexes(indexes, completions).unwrap_or_else(|why| {
            errors.invalid(&path, indexes, format!("error parsing succeededIndexes: {why}"));
            0
        })
    });
    let Some(count) = count else { return };
    let path = path.child("succeededCount");
    if count < 0 {
        errors.invalid(&path, count, checks::NON_NEGATIVE_MESSAGE);
    }
    if count > completions {
        let why = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(&path, count, why);
    }
    if let Some(total) = total.filter(|total| count > *total) {
        let why = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(&path, count, why);
    }
}

/// The reason for which a list of indexes is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum IndexesError {
    #[error("cannot convert string to integer for index: {0:?}")]
    NotANumber(String),
    #[error("too large index: {0:?}")]
    TooLarge(String),
    #[error(
        "the fragment {0:?} violates the requirement that an index interval can have at most two parts separated by '-'"
    )]
    Fragment(String),
    #[error("non-increasing order, previous: {0}, current: {1}")]
    Order(i64, i64),
}

/// Returns the number of indexes in a list such as `1,3-5`.
fn count_indexes(text: &str, completions: i64) -> Result<i64, IndexesError> {
    let mut last = None;
    let mut total = 0_i64;
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let limits: Vec<&str> = interval.split('-').collect();
        let number = |text: &str| {
            let number: i64 = text.parse().map_err(|_| IndexesError::NotANumber(text.to_owned()))?;
            if number >= completions { Err(IndexesError::TooLarge(text.to_owned())) } else { Ok(number) }
        };
        let (first, end) = match limits.as_slice() {
            [one] => (number(one)?, number(one)?),
            [first, end] => (number(first)?, number(end)?),
            _ => return Err(IndexesError::Fragment(interval.to_owned())),
        };
        if limits.len() > 1 && first >= end {
            return Err(IndexesError::Order(first, end));
        }
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(IndexesError::Order(last, first));
        }
        total = total.saturating_add(end - first + 1);
        last = Some(end);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const PATH: Path<'static> = Path::new("spec");

    fn messages(check: impl Fn(&mut ErrorList)) -> Vec<String> {
        let mut errors = ErrorList::new();
        check(&mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::fine("a.io/b", &[])]
    #[case::plain("b", &["spec.managedBy: Invalid value: \"b\": must be a domain-prefixed path (such as \"acme.io/foo\")"])]
    #[case::empty("", &["spec.managedBy: Required value"])]
    fn names_of_managers(#[case] name: &str, #[case] expected: &[&str]) {
        assert_eq!(messages(|errors| managed_by(&json!({"managedBy": name}), &PATH, errors)), expected);
    }

    #[rstest]
    #[case::fine(json!({"completionMode": "Indexed", "completions": 5, "successPolicy": {"rules": [{"succeededIndexes": "0,2-4", "succeededCount": 4}]}}), &[])]
    #[case::count(json!({"completionMode": "Indexed", "completions": 5, "successPolicy": {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 4}]}}),
        &["spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of indexes in the specified succeededIndexes field)"])]
    #[case::order(json!({"completionMode": "Indexed", "completions": 5, "successPolicy": {"rules": [{"succeededIndexes": "3,1"}]}}),
        &["spec.successPolicy.rules[0].succeededIndexes: Invalid value: \"3,1\": error parsing succeededIndexes: non-increasing order, previous: 3, current: 1"])]
    #[case::not_indexed(json!({"successPolicy": {"rules": [{"succeededCount": 4}]}}),
        &["spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":null,\"SucceededCount\":4}]}: requires indexed completion mode"])]
    #[case::replacement(json!({"podReplacementPolicy": "x"}),
        &["spec.podReplacementPolicy: Unsupported value: \"x\": supported values: \"Failed\", \"TerminatingOrFailed\""])]
    #[case::exit_codes(json!({"podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3, 0, 3], "containerName": "c"}}]}}),
        &["spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: \"c\": must be one of the container or initContainer names in the pod template",
          "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
          "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 3",
          "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered"])]
    #[case::neither(json!({"podFailurePolicy": {"rules": [{"action": "FailIndex"}]}}),
        &["spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
          "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"])]
    fn policies_of_jobs(#[case] spec: Value, #[case] expected: &[&str]) {
        assert_eq!(messages(|errors| policies(&spec, &PATH, errors)), expected);
    }

    #[test]
    fn many_indexes_have_tighter_limits() {
        let spec = json!({"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001, "backoffLimitPerIndex": 1});
        let found = messages(|errors| completion_mode(&spec, &PATH, errors));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("spec.maxFailedIndexes: Required value: must be specified"), "{found:?}");
    }
}
