//! The policies of a job: failed pods that end it, or do not count, and successes that are enough. PURE.
//! See `pkg/controller/job/{pod_failure_policy,success_policy,indexed_job_utils}.go`.

use super::indexes::Indexes;
use super::pods;
use crate::json::Value;
use crate::json::fields::array_field;
use crate::metadata;

/// The annotation of a pod with the number of failed pods of its index before it.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation of a pod with the number of failed pods of its index that did not count.
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The effect of a failed pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FailureAction {
    Count,
    Ignore,
    FailIndex,
    /// The job fails, with this message.
    FailJob(String),
}

/// Returns the effect of a failed pod by the first rule of `podFailurePolicy` that matches it.
pub(super) fn failure_action(job: &Value, pod: &Value) -> FailureAction {
    let rules = array_field(&job["spec"]["podFailurePolicy"], "rules").iter().enumerate();
    for (index, rule) in rules {
        let Some(found) = matched(rule, pod) else { continue };
        return match rule["action"].as_str() {
            Some("Ignore") => FailureAction::Ignore,
            Some("FailIndex") => FailureAction::FailIndex,
            Some("FailJob") => FailureAction::FailJob(format!("{found} matching FailJob rule at index {index}")),
            _ => FailureAction::Count,
        };
    }
    FailureAction::Count
}

/// Returns what a rule matches of a failed pod.
fn matched(rule: &Value, pod: &Value) -> Option<String> {
    let name = format!("{}/{}", metadata::namespace(pod), metadata::name(pod));
    let codes = &rule["onExitCodes"];
    if codes.is_object() {
        let statuses = ["containerStatuses", "initContainerStatuses"];
        let mut statuses = statuses.into_iter().flat_map(|list| array_field(&pod["status"], list));
        let status = statuses.find(|status| {
            let is_named = codes["containerName"].is_null() || codes["containerName"] == status["name"];
            let code = &status["state"]["terminated"]["exitCode"];
            let is_in = array_field(codes, "values").contains(code);
            is_named && code.as_i64().is_some_and(|code| code != 0) && is_in == (codes["operator"] == "In")
        })?;
        let code = &status["state"]["terminated"]["exitCode"];
        let container = status["name"].as_str().unwrap_or_default();
        return Some(format!("Container {container} for pod {name} failed with exit code {code}"));
    }
    let patterns = array_field(rule, "onPodConditions");
    let is_like = |one: &Value, pattern: &Value| ["type", "status"].iter().all(|field| one[*field] == pattern[*field]);
    let mut conditions = array_field(&pod["status"], "conditions").iter();
    let condition = conditions.find(|one| patterns.iter().any(|pattern| is_like(one, pattern)))?;
    Some(format!("Pod {name} has condition {}", condition["type"].as_str().unwrap_or_default()))
}

/// Returns the message about the first rule of `successPolicy` that the indexes meet.
pub(super) fn success(job: &Value, succeeded: &Indexes) -> Option<String> {
    if succeeded.count() == 0 {
        return None;
    }
    let completions = job["spec"]["completions"].as_i64().unwrap_or(0);
    let is_met = |rule: &Value| {
        let wanted = rule["succeededCount"].as_i64();
        let Some(text) = rule["succeededIndexes"].as_str() else {
            return wanted.is_some_and(|wanted| succeeded.count() >= wanted);
        };
        let required = Indexes::parse(text, completions);
        let found = required.count_in(succeeded);
        required.count() > 0 && (found == required.count() || wanted.is_some_and(|wanted| found >= wanted))
    };
    let index = array_field(&job["spec"]["successPolicy"], "rules").iter().position(is_met)?;
    Some(format!("Matched rules at index {index}"))
}

fn number(pod: &Value, annotation: &str) -> i64 {
    metadata::annotation(pod, annotation).and_then(|text| text.parse::<u32>().ok()).map_or(0, i64::from)
}

/// Returns true if a failed pod makes its index fail: `isIndexFailed`.
pub(super) fn fails_index(job: &Value, pod: &Value, limit: i64) -> bool {
    match failure_action(job, pod) {
        FailureAction::FailIndex => true,
        FailureAction::Ignore => false,
        FailureAction::Count | FailureAction::FailJob(_) => number(pod, FAILURES) >= limit,
    }
}

/// Returns the number of failed pods of an index up to this one.
pub(super) fn failures_of_index(pod: &Value) -> i64 {
    number(pod, FAILURES) + number(pod, IGNORED_FAILURES)
}

/// Notes on a new pod how many of its index have failed; `replaced` is the last of them.
pub(super) fn note_failures(pod: &mut Value, job: &Value, replaced: Option<&Value>) {
    let (mut counted, mut ignored) =
        replaced.map_or((0, 0), |pod| (number(pod, FAILURES), number(pod, IGNORED_FAILURES)));
    match replaced.map(|pod| failure_action(job, pod)) {
        Some(FailureAction::Ignore) => ignored += 1,
        Some(_) => counted += 1,
        None => {}
    }
    metadata::set_annotation(pod, FAILURES, counted.to_string());
    if ignored > 0 {
        metadata::set_annotation(pod, IGNORED_FAILURES, ignored.to_string());
    }
}

/// Adds to `failed` the indexes that failed pods, which are not counted yet, have made fail.
pub(super) fn failed_indexes<'p>(job: &Value, failed: impl Iterator<Item = &'p Value>, limit: i64) -> Indexes {
    let completions = job["spec"]["completions"].as_i64().unwrap_or(0);
    let known = Indexes::parse(job["status"]["failedIndexes"].as_str().unwrap_or_default(), completions);
    let new = failed.filter(|pod| pods::is_tracked(pod) && fails_index(job, pod, limit));
    known.with(new.filter_map(pods::index).filter(|index| *index < completions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    /// As `TestMatchPodFailurePolicy` in `pkg/controller/job/pod_failure_policy_test.go`.
    #[rstest]
    #[case::code(json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}), FailureAction::FailJob(
        "Container main for pod default/p failed with exit code 2 matching FailJob rule at index 0".to_owned()))]
    #[case::other_code(json!({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}}), FailureAction::Count)]
    #[case::other_container(json!({"action": "Ignore", "onExitCodes": {"containerName": "x", "operator": "In", "values": [2]}}),
        FailureAction::Count)]
    #[case::index(json!({"action": "FailIndex", "onExitCodes": {"containerName": "main", "operator": "In", "values": [2]}}),
        FailureAction::FailIndex)]
    #[case::ignored(json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}),
        FailureAction::Ignore)]
    #[case::condition(json!({"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}),
        FailureAction::FailJob("Pod default/p has condition DisruptionTarget matching FailJob rule at index 0".to_owned()))]
    fn failures(#[case] rule: Value, #[case] expected: FailureAction) {
        let job = json!({"spec": {"podFailurePolicy": {"rules": [rule]}}});
        let pod = json!({"metadata": {"namespace": "default", "name": "p"}, "status": {"phase": "Failed",
            "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 2}}}]}});
        assert_eq!(failure_action(&job, &pod), expected);
    }

    /// As `TestMatchSuccessPolicy` in `pkg/controller/job/success_policy_test.go`.
    #[rstest]
    #[case::all(json!([{"succeededIndexes": "0-2"}]), &[0, 1, 2], Some(0))]
    #[case::not_all(json!([{"succeededIndexes": "0-3"}]), &[0, 1, 2], None)]
    #[case::enough(json!([{"succeededIndexes": "0-3", "succeededCount": 2}]), &[1, 2, 7], Some(0))]
    #[case::count(json!([{"succeededIndexes": "9"}, {"succeededCount": 2}]), &[1, 2], Some(1))]
    #[case::no_success(json!([{"succeededCount": 0}]), &[], None)]
    fn successes(#[case] rules: Value, #[case] succeeded: &[i64], #[case] expected: Option<i64>) {
        let job = json!({"spec": {"completions": 10, "successPolicy": {"rules": rules}}});
        let message = success(&job, &Indexes::default().with(succeeded.iter().copied()));
        assert_eq!(message, expected.map(|index| format!("Matched rules at index {index}")));
    }
}
