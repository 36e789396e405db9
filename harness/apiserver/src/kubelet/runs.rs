//! The time at which a container ends or starts again, and with which exit code. PURE. See `doBackOff` in
//! `pkg/kubelet/kuberuntime/kuberuntime_manager.go`, `ContainerShouldRestart` in `pkg/api/v1/pod/util.go` and
//! `pkg/kubelet/active_deadline.go`.

use std::time::Duration;

use jiff::Timestamp;

use super::commands;
use crate::go_duration::go_duration;
use crate::json::Value;
use crate::json::fields::{array_field, str_field};
use crate::metadata;

/// The annotation with the time after which a pod's containers end.
const RUN_FOR: &str = "plumbline.dev/run-for";
/// The annotation with the exit code of a pod's containers.
const EXIT_CODE: &str = "plumbline.dev/exit-code";
/// The time after which the containers of a job's pods end.
const RUN_TIME: Duration = Duration::from_secs(1);
/// Exit code of a container that does not end when it is asked to.
pub(super) const KILLED: i64 = 137;
/// The pause before the second restart of a container; it doubles with each further one.
const RESTART_PAUSE: Duration = Duration::from_secs(10);
/// Longest pause before a restart.
const RESTART_PAUSE_MAX: Duration = Duration::from_mins(5);
/// The reason of a container that waits for its next start.
pub(super) const CRASH_LOOP: &str = "CrashLoopBackOff";

/// The lists of containers in a pod's spec, each with that of their states in its status.
pub(super) const LISTS: [(&str, &str); 3] = [
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
    (EPHEMERAL, "ephemeralContainerStatuses"),
];

/// The list of containers that users add to a running pod, as `kubectl debug` does. They never start again.
pub(super) const EPHEMERAL: &str = "ephemeralContainers";

/// A change that a pod's containers make by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    /// Time until then. Times in a status have whole seconds, so less than one is none.
    pub(super) after: Duration,
    /// The pod is active for too long, by then.
    pub(super) is_deadline: bool,
}

/// Returns the next change of a pod's containers; `None` if there will be none.
pub(super) fn next_change(pod: &Value, run_for: Option<Duration>, now: Timestamp) -> Option<Due> {
    let mut next: Option<Duration> = None;
    for (list, statuses) in LISTS {
        for container in array_field(&pod["spec"], list) {
            let status = array_field(&pod["status"], statuses).iter().find(|one| one["name"] == container["name"]);
            let after = status.and_then(|status| until_change(pod, list, container, status, run_for, now));
            next = next.into_iter().chain(after).min();
        }
    }
    let deadline = pod["spec"]["activeDeadlineSeconds"].as_u64().map(Duration::from_secs);
    let deadline = deadline.and_then(|most| remaining(str_field(&pod["status"], "startTime"), most, now));
    match (next, deadline) {
        (next, Some(deadline)) if next.is_none_or(|next| deadline <= next) => {
            Some(Due { after: deadline, is_deadline: true })
        }
        (next, _) => next.map(|after| Due { after, is_deadline: false }),
    }
}

/// Returns the time until a container changes: until its end if it runs, until its next start if it waits for that.
pub(super) fn until_change(
    pod: &Value,
    list: &str,
    container: &Value,
    status: &Value,
    run_for: Option<Duration>,
    now: Timestamp,
) -> Option<Duration> {
    let state = &status["state"];
    if let Some(started) = state["running"]["startedAt"].as_str() {
        return remaining(started, end_of(pod, list, container, run_for)?.0, now);
    }
    if state["waiting"]["reason"] == CRASH_LOOP {
        let restarts = status["restartCount"].as_u64().unwrap_or(0);
        let ended = status["lastState"]["terminated"]["finishedAt"].as_str().unwrap_or_default();
        return remaining(ended, pause_after(restarts), now).or(Some(Duration::ZERO));
    }
    None
}

/// Returns the rest of a time that began at a moment of a status.
fn remaining(since: &str, most: Duration, now: Timestamp) -> Option<Duration> {
    let since: Timestamp = since.parse().ok()?;
    let elapsed = now.as_second().saturating_sub(since.as_second());
    Some(most.saturating_sub(Duration::from_secs(u64::try_from(elapsed).unwrap_or(0))))
}

/// Returns the time from the start of a container until its end, and its exit code; `None` if it runs forever.
pub(super) fn end_of(pod: &Value, list: &str, container: &Value, run_for: Option<Duration>) -> Option<(Duration, i64)> {
    let command = commands::exit_of(container);
    if matches!(list, "initContainers" | EPHEMERAL) {
        return command.and_then(|end| Some((end.after?.max(RUN_TIME), end.code)));
    }
    let after = match metadata::annotation(pod, RUN_FOR) {
        Some(text) => Duration::from_nanos(u64::try_from(go_duration(text)?).ok()?),
        None => match command {
            Some(end) => end.after?.max(RUN_TIME),
            None if pod["spec"]["restartPolicy"] == "Always" => return None,
            None if is_of_a_job(pod) => run_for.unwrap_or(RUN_TIME),
            None => run_for?,
        },
    };
    Some((after, given_exit_code(pod).or(command.map(|end| end.code)).unwrap_or(0)))
}

/// Returns the exit code of a pod's containers that are ended: servers end in order, other commands are killed.
pub(super) fn killed_code(pod: &Value) -> i64 {
    let killed = if pod["spec"]["restartPolicy"] == "Always" { 0 } else { KILLED };
    given_exit_code(pod).unwrap_or(killed)
}

/// Returns the exit code that an annotation gives to the containers of a pod.
fn given_exit_code(pod: &Value) -> Option<i64> {
    metadata::annotation(pod, EXIT_CODE)?.parse().ok()
}

fn is_of_a_job(pod: &Value) -> bool {
    metadata::controller(pod).is_some_and(|owner| metadata::refers_to(owner, "batch/v1", "Job"))
}

/// Returns the pause before a container starts again that has been restarted so often.
pub(super) fn pause_after(restarts: u64) -> Duration {
    match u32::try_from(restarts).unwrap_or(u32::MAX) {
        0 => Duration::ZERO,
        restarts => RESTART_PAUSE.saturating_mul(2_u32.saturating_pow(restarts - 1)).min(RESTART_PAUSE_MAX),
    }
}

/// Returns true if a container starts again after this exit code.
pub(super) fn restarts(pod: &Value, list: &str, container: &Value, code: i64) -> bool {
    if list == EPHEMERAL {
        return false;
    }
    let own = container["restartPolicy"].as_str();
    let is_sidecar = list == "initContainers" && own == Some("Always");
    if list == "initContainers" && !is_sidecar {
        return code != 0 && own.or(pod["spec"]["restartPolicy"].as_str()) != Some("Never");
    }
    let is_met = |rule: &&Value| {
        let listed = array_field(&rule["exitCodes"], "values").iter().any(|value| value.as_i64() == Some(code));
        match rule["exitCodes"]["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            _ => false,
        }
    };
    if own.is_some() && array_field(container, "restartPolicyRules").iter().any(|rule| is_met(&rule)) {
        return true;
    }
    match own.or(pod["spec"]["restartPolicy"].as_str()) {
        Some("Never") => false,
        Some("OnFailure") => code != 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn started() -> Timestamp {
        "2026-01-01T00:00:00.5Z".parse().expect("a time")
    }

    fn running(restarts: u64) -> Value {
        json!({"name": "c", "restartCount": restarts, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})
    }

    fn of_a_job() -> Value {
        json!({"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "controller": true}]})
    }

    #[rstest]
    #[case::job(of_a_job(), json!({"restartPolicy": "Never"}), json!({}), Some(7))]
    #[case::command_of_a_job(of_a_job(), json!({"restartPolicy": "Never"}), json!({"command": ["sleep", "300"]}), Some(300))]
    #[case::pause(of_a_job(), json!({"restartPolicy": "Never"}), json!({"args": ["pause"]}), None)]
    #[case::annotation(json!({"annotations": {RUN_FOR: "1m30s"}}), json!({"restartPolicy": "OnFailure"}), json!({}), Some(90))]
    #[case::forever(json!({"annotations": {RUN_FOR: "forever"}}), json!({"restartPolicy": "Never"}), json!({"command": ["true"]}), None)]
    #[case::always(json!({}), json!({"restartPolicy": "Always"}), json!({"command": ["wget", "x"]}), None)]
    #[case::always_ends(json!({}), json!({"restartPolicy": "Always"}), json!({"command": ["false"]}), Some(1))]
    #[case::never(json!({}), json!({"restartPolicy": "Never"}), json!({"command": ["true"]}), Some(1))]
    #[case::flag(json!({}), json!({"restartPolicy": "Never"}), json!({"command": ["wget", "x"]}), Some(7))]
    #[case::deadline(json!({}), json!({"restartPolicy": "Never", "activeDeadlineSeconds": 5}), json!({}), Some(5))]
    #[case::later_deadline(json!({}), json!({"restartPolicy": "Never", "activeDeadlineSeconds": 50}), json!({"command": ["true"]}), Some(1))]
    fn containers_end(
        #[case] metadata: Value,
        #[case] spec: Value,
        #[case] container: Value,
        #[case] expected: Option<u64>,
    ) {
        let mut pod = json!({"metadata": metadata, "spec": spec, "status": {"startTime": "2026-01-01T00:00:00Z"}});
        let mut container = container;
        container["name"] = json!("c");
        pod["spec"]["containers"] = json!([container]);
        pod["status"]["containerStatuses"] = json!([running(3)]);
        let found = next_change(&pod, Some(Duration::from_secs(7)), started());
        assert_eq!(found.map(|due| due.after.as_secs()), expected);
    }

    /// `NewBackOff(time.Second*10, MaxContainerBackOff)` of `pkg/kubelet/kubelet.go`: the first restart comes at once.
    #[rstest]
    #[case(0, 0)]
    #[case(1, 10)]
    #[case(2, 20)]
    #[case(5, 160)]
    #[case(6, 300)]
    #[case(90, 300)]
    fn restarts_come_later_and_later(#[case] restarts: u64, #[case] expected: u64) {
        assert_eq!(pause_after(restarts).as_secs(), expected);
        let last = json!({"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}});
        let status = json!({"name": "c", "restartCount": restarts, "lastState": last, "state": {"waiting": {"reason": CRASH_LOOP}}});
        let pod = json!({"spec": {"containers": [{"name": "c"}]}, "status": {"containerStatuses": [status]}});
        assert_eq!(next_change(&pod, None, started()).map(|due| due.after.as_secs()), Some(expected));
    }

    /// As in the tables of `TestContainerShouldRestart`; a container of init that has succeeded is done.
    #[rstest]
    #[case("containers", json!({}), "Always", 0, true)]
    #[case("containers", json!({}), "OnFailure", 0, false)]
    #[case("containers", json!({}), "OnFailure", 1, true)]
    #[case("containers", json!({}), "Never", 1, false)]
    #[case("containers", json!({"restartPolicy": "Never"}), "Always", 1, false)]
    #[case("containers", json!({"restartPolicy": "Never", "restartPolicyRules": [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}), "Never", 42, true)]
    #[case("containers", json!({"restartPolicy": "Never", "restartPolicyRules": [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}), "Never", 1, false)]
    #[case("initContainers", json!({}), "Always", 0, false)]
    #[case("initContainers", json!({}), "Always", 1, true)]
    #[case("initContainers", json!({}), "Never", 1, false)]
    #[case("initContainers", json!({"restartPolicy": "Always"}), "Never", 0, true)]
    #[case("ephemeralContainers", json!({}), "Always", 1, false)]
    fn containers_start_again(
        #[case] list: &str,
        #[case] container: Value,
        #[case] policy: &str,
        #[case] code: i64,
        #[case] expected: bool,
    ) {
        let pod = json!({"spec": {"restartPolicy": policy}});
        assert_eq!(restarts(&pod, list, &container, code), expected);
    }
}
