//! Validation of the status of a job: `ValidateJobUpdateStatus` in `pkg/apis/batch/validation/validation.go`, with the
//! options of `getStatusValidationOptions` in `pkg/registry/batch/job/strategy.go`. PURE.
//!
//! Most rules apply only if a field that they are about changes.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, is_empty_value, non_null, semantic_equal, spec_of, str_field};
use crate::registry::{checks, conditions};
use crate::status::go_quote;

const STATUS: Path<'static> = Path::new("status");

/// A job with the parts of its status that rules are about.
#[derive(Clone, Copy)]
struct JobState<'j> {
    spec: &'j Value,
    status: &'j Value,
}

impl<'j> JobState<'j> {
    fn of(job: &'j Value) -> Self {
        Self { spec: spec_of(job), status: job.get("status").unwrap_or(&Value::Null) }
    }

    fn is(&self, condition: &str) -> bool {
        conditions::is_true(self.status, condition)
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn count(&self, field: &str) -> i64 {
        self.status.get(field).and_then(Value::as_i64).unwrap_or(0)
    }

    fn time(&self, field: &str) -> Option<Timestamp> {
        str_field(self.status, field).parse().ok()
    }

    fn has_uncounted(&self) -> bool {
        let uncounted = &self.status["uncountedTerminatedPods"];
        ["succeeded", "failed"].iter().any(|list| !array_field(uncounted, list).is_empty())
    }

    fn completions(&self) -> Option<i64> {
        self.spec.get("completions").and_then(Value::as_i64)
    }
}

/// Validates an update of a job's status, except for its metadata.
pub(super) fn validate(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let (new, old) = (JobState::of(new), JobState::of(old));
    counters(new, &mut errors);
    completion(new, old, &mut errors);
    finished(new, old, &mut errors);
    indexes(new, old, &mut errors);
    pods(new, old, &mut errors);
    success(new, &mut errors);
    transitions(new, old, &mut errors);
    errors
}

/// Refuses a set of conditions.
fn refuse(errors: &mut ErrorList, why: impl Into<String>) {
    errors.invalid(&STATUS.child("conditions"), BadValue::Omitted, why);
}

fn changes(new: JobState<'_>, old: JobState<'_>, field: &str) -> bool {
    !semantic_equal(new.status.get(field), old.status.get(field))
}

fn changes_condition(new: JobState<'_>, old: JobState<'_>, condition: &str) -> bool {
    new.is(condition) != old.is(condition)
}

fn counters(new: JobState<'_>, errors: &mut ErrorList) {
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        checks::validate_non_negative(new.status.get(field), &STATUS.child(field), errors);
    }
    let mut known = BTreeSet::new();
    for list in ["succeeded", "failed"] {
        let pods = STATUS.child("uncountedTerminatedPods");
        let path = pods.child(list);
        let uids = array_field(&new.status["uncountedTerminatedPods"], list);
        for (index, uid) in uids.iter().enumerate() {
            match uid.as_str().unwrap_or_default() {
                "" => errors.invalid(&path.index(index), "", "must not be empty"),
                uid if !known.insert(uid) => errors.duplicate(&path.index(index), uid),
                _ => {}
            }
        }
    }
}

/// Validates a complete job: its other conditions and its time.
fn completion(new: JobState<'_>, old: JobState<'_>, errors: &mut ErrorList) {
    let complete = new.is("Complete");
    let completes = changes_condition(new, old, "Complete");
    if complete && new.is("Failed") && (completes || changes_condition(new, old, "Failed")) {
        refuse(errors, "cannot set Complete=True and Failed=true conditions");
    }
    if complete && new.is("FailureTarget") && (completes || changes_condition(new, old, "FailureTarget")) {
        refuse(errors, "cannot set Complete=True and FailureTarget=true conditions");
    }
    let path = STATUS.child("completionTime");
    let moves = changes(new, old, "completionTime");
    let shown = str_field(new.status, "completionTime");
    match (new.time("completionTime"), complete) {
        (Some(_), false) if completes || moves => {
            errors.invalid(&path, shown, "cannot set completionTime when there is no Complete=True condition");
        }
        (None, true) if completes || moves => errors.required(&path, "completionTime is required for Complete jobs"),
        _ => {}
    }
    let before = matches!((new.time("startTime"), new.time("completionTime")), (Some(start), Some(end)) if end < start);
    if before && (moves || changes(new, old, "startTime")) {
        errors.invalid(&path, shown, "must be equal to or after `startTime`");
    }
    let fails = changes_condition(new, old, "Failed") || changes(new, old, "failedIndexes");
    if new.is("Failed") && !new.is("FailureTarget") && fails {
        refuse(errors, "cannot set Failed=True condition without the FailureTarget=true condition");
    }
    if complete && !new.is("SuccessCriteriaMet") && (completes || changes_condition(new, old, "SuccessCriteriaMet")) {
        refuse(errors, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
}

/// Validates what a finished job cannot have.
fn finished(new: JobState<'_>, old: JobState<'_>, errors: &mut ErrorList) {
    if !new.is_finished() {
        return;
    }
    let finishes = new.is_finished() != old.is_finished();
    let active = new.count("active");
    if active > 0 && (finishes || active != old.count("active")) {
        errors.invalid(&STATUS.child("active"), active, "active>0 is invalid for finished job");
    }
    let nothing_to_do = new.spec["suspend"] == true && new.completions() == Some(0);
    let started = new.time("startTime").is_some();
    if !started && !nothing_to_do && (finishes || changes(new, old, "startTime")) {
        errors.required(&STATUS.child("startTime"), "startTime is required for finished job");
    }
    if new.has_uncounted() && (finishes || changes(new, old, "uncountedTerminatedPods")) {
        let shown = new.status.get("uncountedTerminatedPods");
        errors.invalid(&STATUS.child("uncountedTerminatedPods"), shown, "must be empty for finished job");
    }
}

fn indexes(new: JobState<'_>, old: JobState<'_>, errors: &mut ErrorList) {
    let completed = str_field(new.status, "completedIndexes");
    let failed = non_null(new.status, "failedIndexes").and_then(Value::as_str);
    let completes = completed != str_field(old.status, "completedIndexes");
    let fails = failed != non_null(old.status, "failedIndexes").and_then(Value::as_str);
    let completed_path = STATUS.child("completedIndexes");
    let failed_path = STATUS.child("failedIndexes");
    let per_index = non_null(new.spec, "backoffLimitPerIndex").is_some();
    if let (Some(most), true) = (new.completions(), completes)
        && let Err(why) = intervals(completed, most)
    {
        errors.invalid(&completed_path, completed, format!("error parsing completedIndexes: {why}"));
    }
    if let (Some(most), Some(failed), true) = (new.completions(), failed, fails && per_index)
        && let Err(why) = intervals(failed, most)
    {
        errors.invalid(&failed_path, failed, format!("error parsing failedIndexes: {why}"));
    }
    if completes && !completed.is_empty() && str_field(new.spec, "completionMode") != "Indexed" {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&completed_path, completed, why);
    }
    let Some(failed) = failed else { return };
    if fails && !per_index {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&failed_path, failed, why);
    }
    if let (Some(most), true) = (new.completions(), completes || fails)
        && let Some(index) = overlap(completed, failed, most)
    {
        let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&failed_path, failed, why);
    }
}

/// Reasons why indexes cannot be parsed, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum IntervalsError {
    #[error("cannot convert string to integer for index: {0}")]
    NoNumber(String),
    #[error("too large index: {0}")]
    TooLarge(String),
    #[error("non-increasing order, previous: {previous}, current: {current}")]
    Order { previous: i64, current: i64 },
    #[error(
        "the fragment {0} violates the requirement that an index interval can have at most two parts separated by '-'"
    )]
    Parts(String),
}

/// Parses indexes such as `1,3-5` in increasing order.
fn intervals(text: &str, completions: i64) -> Result<Vec<(i64, i64)>, IntervalsError> {
    let mut found: Vec<(i64, i64)> = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = interval(part, completions)?;
        if let Some(&(_, previous)) = found.last().filter(|(_, before)| *before >= first) {
            return Err(IntervalsError::Order { previous, current: first });
        }
        found.push((first, last));
    }
    Ok(found)
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), IntervalsError> {
    let parts: Vec<&str> = text.split('-').collect();
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(IntervalsError::NoNumber(go_quote(text))),
        Ok(index) if index >= completions => Err(IntervalsError::TooLarge(go_quote(text))),
        Ok(index) => Ok(index),
    };
    match *parts {
        [one] => index(one).map(|index| (index, index)),
        [first, last] => match (index(first)?, index(last)?) {
            (first, last) if first >= last => Err(IntervalsError::Order { previous: first, current: last }),
            both => Ok(both),
        },
        _ => Err(IntervalsError::Parts(go_quote(text))),
    }
}

/// Returns the first index that is completed and failed. Malformed parts are left out.
fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let read = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (read(completed), read(failed));
    let (mut completed, mut failed) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((first, last)), Some((other_first, other_last))) = (completed.peek(), failed.peek()) {
        if first <= other_last && other_first <= last {
            return Some(*first.max(other_first));
        }
        if first <= other_first {
            completed.next()
        } else {
            failed.next()
        };
    }
    None
}

fn pods(new: JobState<'_>, old: JobState<'_>, errors: &mut ErrorList) {
    let terminating = new.count("terminating");
    let finishes = new.is_finished() != old.is_finished();
    if terminating > 0 && new.is_finished() && (finishes || changes(new, old, "terminating")) {
        errors.invalid(&STATUS.child("terminating"), terminating, "terminating>0 is invalid for finished job");
    }
    let ready = new.count("ready");
    let moves = changes(new, old, "ready") || new.count("active") != old.count("active");
    if ready > new.count("active") && moves {
        errors.invalid(&STATUS.child("ready"), ready, "cannot set more ready pods than active");
    }
}

fn success(new: JobState<'_>, errors: &mut ErrorList) {
    let met = new.is("SuccessCriteriaMet");
    if met && new.is("Failed") {
        refuse(errors, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if met && new.is("FailureTarget") {
        refuse(errors, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    if !is_empty_value(new.spec.get("successPolicy")) && !met && new.is("Complete") {
        refuse(errors, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True");
    }
}

/// Validates what a status cannot take back.
fn transitions(new: JobState<'_>, old: JobState<'_>, errors: &mut ErrorList) {
    for condition in ["Failed", "Complete", "FailureTarget"] {
        if old.is(condition) && !new.is(condition) {
            refuse(errors, format!("cannot disable the terminal {condition}=True condition"));
        }
    }
    let indexed = str_field(new.spec, "completionMode") == "Indexed";
    let elastic = indexed && semantic_equal(new.spec.get("completions"), new.spec.get("parallelism"));
    for (field, fixed) in [("failed", true), ("succeeded", !elastic)] {
        let now = new.count(field);
        if fixed && now < old.count(field) {
            errors.invalid(&STATUS.child(field), now, format!("cannot decrease the {field} counter"));
        }
    }
    let (end, before) = (new.time("completionTime"), old.time("completionTime"));
    if end.is_some() && before.is_some() && end != before {
        let path = STATUS.child("completionTime");
        errors.invalid(&path, str_field(new.status, "completionTime"), "field is immutable");
    }
    let suspended = |job: JobState<'_>, wanted: &str| {
        conditions::find(job.status, "Suspended").is_some_and(|found| str_field(found, "status") == wanted)
    };
    let resumes = suspended(old, "True") && suspended(new, "False");
    let starts_again = old.time("startTime").is_some() && new.time("startTime") != old.time("startTime");
    if starts_again && !resumes && new.spec["suspend"] != true {
        let shown = BadValue::from(non_null(new.status, "startTime"));
        let why = "field is immutable for unsuspended job once set";
        errors.invalid(&STATUS.child("startTime"), shown, why);
    }
    if old.is("SuccessCriteriaMet") && !new.is("SuccessCriteriaMet") {
        refuse(errors, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if old.is("Complete") && !old.is("SuccessCriteriaMet") && new.is("SuccessCriteriaMet") {
        refuse(errors, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions");
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    const START: &str = "2030-01-01T00:00:00Z";
    const END: &str = "2030-01-01T00:01:00Z";

    fn condition(kind: &str) -> Value {
        json!({"type": kind, "status": "True"})
    }

    /// `TestValidateJobUpdateStatus` next to upstream's file.
    #[rstest]
    #[case::nothing(json!({}), json!({}), json!({"active": 1, "ready": 1}), &[])]
    #[case::complete(json!({}), json!({}),
        json!({"startTime": START, "completionTime": END, "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}), &[])]
    #[case::complete_by_hand(json!({}), json!({}), json!({"succeeded": 1, "conditions": [condition("Complete")]}), &[
        "status.completionTime: Required value: completionTime is required for Complete jobs",
        "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        "status.startTime: Required value: startTime is required for finished job",
    ])]
    #[case::failed_by_hand(json!({}), json!({"startTime": START}), json!({"startTime": START, "conditions": [condition("Failed")]}), &[
        "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
    ])]
    #[case::unchanged(json!({}), json!({"conditions": [condition("Complete")]}),
        json!({"conditions": [condition("Complete")], "failed": 1}), &[])]
    #[case::reopened(json!({}), json!({"conditions": [condition("Complete")]}), json!({}), &[
        "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
    ])]
    #[case::time_without_condition(json!({}), json!({}), json!({"completionTime": END}), &[
        "status.completionTime: Invalid value: \"2030-01-01T00:01:00Z\": cannot set completionTime when there is no Complete=True condition",
    ])]
    #[case::active(json!({}), json!({"startTime": START}),
        json!({"startTime": START, "active": 1, "conditions": [condition("FailureTarget"), condition("Failed")]}), &[
        "status.active: Invalid value: 1: active>0 is invalid for finished job",
    ])]
    #[case::restarted(json!({}), json!({"startTime": START}), json!({"startTime": END}), &[
        "status.startTime: Invalid value: \"2030-01-01T00:01:00Z\": field is immutable for unsuspended job once set",
    ])]
    #[case::resumed(json!({}), json!({"startTime": START, "conditions": [condition("Suspended")]}),
        json!({"startTime": END, "conditions": [{"type": "Suspended", "status": "False"}]}), &[])]
    #[case::indexes(json!({"completions": 5, "completionMode": "Indexed", "parallelism": 1}), json!({}),
        json!({"completedIndexes": "0,2-5"}), &[
        "status.completedIndexes: Invalid value: \"0,2-5\": error parsing completedIndexes: too large index: \"5\"",
    ])]
    #[case::both(json!({"completions": 9, "completionMode": "Indexed", "backoffLimitPerIndex": 1}), json!({}),
        json!({"completedIndexes": "0,2-5", "failedIndexes": "1,5-6"}), &[
        "status.failedIndexes: Invalid value: \"1,5-6\": failedIndexes and completedIndexes overlap at index: 5",
    ])]
    #[case::fewer(json!({}), json!({"succeeded": 2, "failed": 2}), json!({"succeeded": 1, "failed": 1, "ready": 1}), &[
        "status.ready: Invalid value: 1: cannot set more ready pods than active",
        "status.failed: Invalid value: 1: cannot decrease the failed counter",
        "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter",
    ])]
    #[case::uncounted(json!({}), json!({}), json!({"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}}), &[
        "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
        "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
    ])]
    fn statuses(#[case] spec: Value, #[case] old: Value, #[case] new: Value, #[case] expected: &[&str]) {
        let job = |status: Value| json!({"spec": spec.clone(), "status": status});
        let found: Vec<String> = validate(&job(new), &job(old)).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }
}
