//! The run of a container, and the lines that it writes: those of annotations of its pod, because nothing runs.
//!
//! `plumbline.dev/logs` has the lines of every container, `plumbline.dev/logs.NAME` those of one. A container writes a
//! line when it starts; one that begins with `+` and a duration, such as `+5s ready`, comes that long after the start.
//! The run that is shown follows `pkg/kubelet/kubelet_pods.go` of Kubernetes 1.36.

use std::time::Duration;

use jiff::Timestamp;

use super::go_duration::go_duration;
use super::json::Value;
use super::json::fields::{array_field, str_field};
use super::metadata;

/// The annotation with the lines that containers write.
const LOGS: &str = "plumbline.dev/logs";

/// A run of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContainerRun {
    /// The time of its start.
    pub(crate) start: Timestamp,
    /// The time of its end, unless it still runs.
    pub(crate) end: Option<Timestamp>,
}

/// Returns the status of a container; `None` if the pod's status does not name it.
pub(crate) fn container_status<'p>(pod: &'p Value, container: &str) -> Option<&'p Value> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut all = lists.iter().flat_map(|list| array_field(&pod["status"], list));
    all.find(|status| status["name"] == container)
}

/// Returns true if the pod's status says something about its containers. Without kubelets, pods have no status.
pub(crate) fn is_reported(pod: &Value) -> bool {
    !array_field(&pod["status"], "containerStatuses").is_empty()
}

/// Returns true if the container runs, and for pods without a status of their containers.
#[cfg(feature = "listener")]
pub(crate) fn is_running(pod: &Value, container: &str) -> bool {
    !is_reported(pod) || container_status(pod, container).is_some_and(runs)
}

/// Returns true if one of the pod's containers runs, and for pods without a status of their containers.
#[cfg(feature = "listener")]
pub(crate) fn has_running(pod: &Value) -> bool {
    !is_reported(pod) || array_field(&pod["status"], "containerStatuses").iter().any(runs)
}

/// Returns true if a container's status says that it runs.
#[cfg(feature = "listener")]
fn runs(status: &Value) -> bool {
    !status["state"]["running"].is_null()
}

/// Returns an annotation of one container, `KEY.CONTAINER`, or that of all its pod's containers, `KEY`.
pub(crate) fn container_annotation<'p>(pod: &'p Value, key: &str, container: &str) -> Option<&'p str> {
    metadata::annotation(pod, &format!("{key}.{container}")).or_else(|| metadata::annotation(pod, key))
}

/// The reason why a container has no log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoLogError {
    #[error("previous terminated container {0} not found")]
    Previous(String),
    #[error("container {0} is not available")]
    Unavailable(String),
    #[error("container {0} is terminated")]
    Terminated(String),
    #[error("container {0} is waiting to start: {1}")]
    Waiting(String, String),
    #[error("container {0} is waiting to start - no logs yet")]
    Unknown(String),
}

/// Returns the run whose log is asked for, with `previous` the one before the present one: follows
/// `validateContainerLogStatus` in `pkg/kubelet/kubelet_pods.go`.
///
/// # Errors
/// The reason why the container has no such log.
pub(crate) fn run_of(pod: &Value, container: &str, previous: bool) -> Result<ContainerRun, NoLogError> {
    let name = || format!("{container:?} in pod {:?}", metadata::name(pod));
    let status = container_status(pod, container).ok_or_else(|| NoLogError::Unavailable(name()))?;
    let last = || run_in(&status["lastState"]["terminated"], true);
    if previous {
        return last().ok_or_else(|| NoLogError::Previous(name()));
    }
    let state = &status["state"];
    if let Some(run) = run_in(&state["running"], false).or_else(|| run_in(&state["terminated"], true)).or_else(last) {
        return Ok(run);
    }
    if !state["terminated"].is_null() || !status["lastState"]["terminated"].is_null() {
        return Err(NoLogError::Terminated(name()));
    }
    let waiting = &state["waiting"];
    Err(match str_field(waiting, "reason") {
        _ if waiting.is_null() => NoLogError::Unknown(name()),
        "ErrImagePull" => NoLogError::Waiting(name(), "image can't be pulled".to_owned()),
        "ImagePullBackOff" => NoLogError::Waiting(name(), "trying and failing to pull image".to_owned()),
        reason => NoLogError::Waiting(name(), reason.to_owned()),
    })
}

/// Returns the run of a state; with `needs_id` only if the state names its container, as that of a started one does.
fn run_in(state: &Value, needs_id: bool) -> Option<ContainerRun> {
    let time = |field: &str| state[field].as_str().and_then(|text| text.parse().ok());
    let start = time("startedAt").filter(|_| !needs_id || !str_field(state, "containerID").is_empty())?;
    Some(ContainerRun { start, end: time("finishedAt") })
}

/// Returns the lines that a container writes in a run, each with its time.
pub(crate) fn timed_lines<'p>(pod: &'p Value, container: &str, run: ContainerRun) -> Vec<(Timestamp, &'p str)> {
    let until = run.end.unwrap_or(Timestamp::MAX);
    let at = |after: Duration| run.start.checked_add(after).unwrap_or(Timestamp::MAX);
    let timed = lines(pod, container).into_iter().map(|(after, line)| (at(after), line));
    timed.take_while(|(at, _)| *at <= until).collect()
}

/// Returns the lines that a container writes, each with the time after the start.
fn lines<'p>(pod: &'p Value, container: &str) -> Vec<(Duration, &'p str)> {
    let text = container_annotation(pod, LOGS, container).unwrap_or_default();
    let mut last = Duration::ZERO;
    let timed = text.lines().map(|line| {
        // A line comes after the one above it.
        let (after, line) = delayed(line).unwrap_or((last, line));
        last = last.max(after);
        (last, line)
    });
    timed.collect()
}

/// Splits a line such as `+5s ready` into the time and the rest.
pub(crate) fn delayed(line: &str) -> Option<(Duration, &str)> {
    let rest = line.strip_prefix('+')?;
    let (after, line) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((Duration::from_nanos(u64::try_from(go_duration(after)?).ok()?), line))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    const ID: &str = "x://1";

    /// Each case of `validateContainerLogStatus`.
    #[rstest]
    #[case::running(json!({"state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}}}), false, "5")]
    #[case::terminated(json!({"state": {"terminated": {"startedAt": "2026-01-01T00:00:04Z", "containerID": ID}}}), false, "4")]
    #[case::crashed(json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"startedAt": "2026-01-01T00:00:03Z", "containerID": ID}}}), false, "3")]
    #[case::not_started_again(json!({"state": {"terminated": {"startedAt": "2026-01-01T00:00:04Z"}},
        "lastState": {"terminated": {"startedAt": "2026-01-01T00:00:03Z", "containerID": ID}}}), false, "3")]
    #[case::previous(json!({"state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}},
        "lastState": {"terminated": {"startedAt": "2026-01-01T00:00:02Z", "containerID": ID}}}), true, "2")]
    #[case::no_previous(json!({"state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}}}), true,
        "previous terminated container \"c\" in pod \"p\" not found")]
    #[case::never_started(json!({"state": {"terminated": {"exitCode": 1}}}), false,
        "container \"c\" in pod \"p\" is terminated")]
    #[case::last_never_started(json!({"state": {"waiting": {"reason": "x"}}, "lastState": {"terminated": {"exitCode": 1}}}), false,
        "container \"c\" in pod \"p\" is terminated")]
    #[case::no_image(json!({"state": {"waiting": {"reason": "ErrImagePull"}}}), false,
        "container \"c\" in pod \"p\" is waiting to start: image can't be pulled")]
    #[case::back_off(json!({"state": {"waiting": {"reason": "ImagePullBackOff"}}}), false,
        "container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image")]
    #[case::creating(json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), false,
        "container \"c\" in pod \"p\" is waiting to start: ContainerCreating")]
    #[case::no_state(json!({}), false, "container \"c\" in pod \"p\" is waiting to start - no logs yet")]
    #[case::other(json!({"name": "d"}), false, "container \"c\" in pod \"p\" is not available")]
    fn which_run(#[case] mut status: Value, #[case] previous: bool, #[case] expected: &str) {
        if status["name"].is_null() {
            status["name"] = "c".into();
        }
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [status]}});
        let found = match run_of(&pod, "c", previous) {
            Ok(run) => (run.start.as_second() % 60).to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
    }

    /// A plus sign need not be followed by a time.
    #[rstest]
    #[case("+x y", "+x y")]
    #[case("+", "+")]
    #[case("+-5s y", "+-5s y")]
    #[case("é", "é")]
    fn odd_lines(#[case] line: &str, #[case] expected: &str) {
        let pod = json!({"metadata": {"annotations": {"plumbline.dev/logs": line}}});
        assert_eq!(lines(&pod, "c"), [(Duration::ZERO, expected)]);
    }
}
