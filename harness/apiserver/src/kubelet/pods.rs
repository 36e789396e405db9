//! The action that a pod needs from its kubelet, and the status of a pod that ends. PURE.
//! See `pkg/kubelet/status/status_manager.go`.

use std::time::Duration;

use super::admission::{PREEMPTED, PREEMPTING};
use super::container_status::terminated;
use super::pod_conditions::{set_observed_generation, unmet_gates};
use super::resize;
use super::runs::{KILLED, LISTS, killed_code};
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata::{self, is_deleted};

/// The message about a pod that was active for too long.
pub(super) const OVERDUE: &str = "Pod was active on the node longer than the specified deadline";

/// The next action for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodAction {
    /// The pod has to be bound.
    Bind,
    /// The pod is bound and has to start.
    Start,
    /// The pod is being deleted.
    Terminate {
        /// The pod's grace period.
        grace: Duration,
        /// The part of it in which containers sleep before they end.
        sleep: Duration,
    },
    /// The pod is running, and its spec or a condition that it waits for has changed.
    Observe,
    /// The pod is running.
    Run,
    /// The pod has finished, or is gated.
    None,
}

/// Returns the next action for `pod`.
pub(super) fn next_action(pod: &Value) -> PodAction {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    if is_deleted(pod) {
        let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
        let action = PodAction::Terminate { grace: Duration::from_secs(grace), sleep: sleep_before_stop(pod) };
        return if bound { action } else { PodAction::None };
    }
    let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    match phase {
        "" | "Pending" if bound => PodAction::Start,
        "" | "Pending" if !gated && is_for_default_scheduler(pod) => PodAction::Bind,
        // Pods whose status others write stay theirs.
        "Running" if bound && (1..metadata::generation(pod)).contains(&observed_generation(pod)) => PodAction::Observe,
        "Running" if bound && (has_news_for_gates(pod) || resize::is_deferred(pod)) => PodAction::Observe,
        "Running" if bound => PodAction::Run,
        _ => PodAction::None,
    }
}

/// Returns the longest time for which a container sleeps before it ends (`preStop`).
fn sleep_before_stop(pod: &Value) -> Duration {
    let containers = array_field(&pod["spec"], "containers").iter();
    let sleeps = containers.filter_map(|one| one["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64());
    Duration::from_secs(sleeps.max().unwrap_or(0))
}

/// Returns true if the condition `Ready` does not say what the readiness gates say.
fn has_news_for_gates(pod: &Value) -> bool {
    if array_field(&pod["spec"], "readinessGates").is_empty() {
        return false;
    }
    let conditions = array_field(&pod["status"], "conditions");
    let known = |kind: &str| conditions.iter().find(|condition| condition["type"] == *kind);
    let (reason, message) = unmet_gates(pod);
    let are_ready = known("ContainersReady").is_some_and(|condition| condition["status"] == "True");
    are_ready
        && known("Ready").is_some_and(|ready| {
            let status = if reason.is_empty() { "True" } else { "False" };
            ready["status"] != status || ready["message"].as_str().unwrap_or_default() != message
        })
}

/// Returns true if the pod has no scheduler of its own.
fn is_for_default_scheduler(pod: &Value) -> bool {
    matches!(pod["spec"]["schedulerName"].as_str(), None | Some("" | "default-scheduler"))
}

/// Returns the status of a deleted pod whose containers are ended; `None` if none of them runs.
pub(super) fn killed_status(pod: &Value, moment: &str) -> Option<Value> {
    let containers = pod["status"]["containerStatuses"].as_array()?;
    if !containers.iter().any(|container| container["state"]["running"].is_object()) {
        return None;
    }
    Some(ended_status(pod, killed_code(pod), false, moment))
}

/// Returns the status of a pod that the node controller has reported as not ready, if all its containers are ready.
pub(super) fn ready_again(pod: &Value, moment: &str) -> Option<Value> {
    let has = |kind: &str, status: &str| {
        array_field(&pod["status"], "conditions").iter().any(|one| one["type"] == kind && one["status"] == status)
    };
    let is_marked = pod["status"]["phase"] == "Running" && has("Ready", "False") && has("ContainersReady", "True");
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": moment});
    is_marked.then(|| json!({"conditions": [ready]}))
}

/// Returns the status of a pod that was active for too long: `pkg/kubelet/active_deadline.go`.
pub(super) fn overdue_status(pod: &Value, moment: &str) -> Value {
    let mut status = ended_status(pod, KILLED, true, moment);
    status["reason"] = json!("DeadlineExceeded");
    status["message"] = json!(OVERDUE);
    status
}

/// Returns the status of a pod that is ended for a critical one: `evictPodsToFreeRequests` in
/// `pkg/kubelet/preemption/preemption.go`.
pub(super) fn preempted_status(pod: &Value, moment: &str) -> Value {
    let mut status = ended_status(pod, KILLED, true, moment);
    status["reason"] = json!(PREEMPTING);
    status["message"] = json!(PREEMPTED);
    let mut target = json!({"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
        "message": "Pod was preempted by Kubelet to accommodate a critical pod.", "lastTransitionTime": moment});
    set_observed_generation(&mut target, pod);
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.push(target);
    }
    status
}

/// Returns the status of a pod whose running containers have ended for good: `getPhase` of a terminal pod. It has
/// failed if `failed` is set or one of its containers has.
fn ended_status(pod: &Value, code: i64, mut failed: bool, moment: &str) -> Value {
    let mut ended = |list: &str| -> Vec<Value> {
        let mut containers = pod["status"][list].as_array().cloned().unwrap_or_default();
        for container in &mut containers {
            if container["state"]["running"].is_object() {
                container["ready"] = json!(false);
                container["started"] = json!(false);
                container["state"] = terminated(container, code, moment);
            }
            let exit = &container["state"]["terminated"]["exitCode"];
            failed |= list == "containerStatuses" && *exit != 0;
        }
        containers
    };
    let lists = LISTS.map(|(_, statuses)| (statuses, ended(statuses)));
    let (phase, reason) = if failed { ("Failed", "PodFailed") } else { ("Succeeded", "PodCompleted") };
    let known = |kind: &str| array_field(&pod["status"], "conditions").iter().find(|known| known["type"] == *kind);
    let condition = |kind: &str| {
        let mut ended = json!({"type": kind, "status": "False", "reason": reason, "lastTransitionTime": moment});
        if known(kind).is_some_and(|known| known.get("message").is_some()) {
            ended["message"] = Value::Null;
        }
        ended
    };
    // There is no sandbox any more: `GeneratePodReadyToStartContainersCondition`.
    let without_sandbox = json!({"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": moment});
    let mut conditions = vec![condition("Ready"), condition("ContainersReady"), without_sandbox];
    if phase == "Succeeded" && known("Initialized").is_some() {
        conditions.push(json!({"type": "Initialized", "reason": reason}));
    }
    let mut status = json!({"phase": phase, "conditions": conditions});
    for (statuses, all) in lists.into_iter().filter(|(_, all)| !all.is_empty()) {
        status[statuses] = all.into();
    }
    status
}

fn observed_generation(pod: &Value) -> i64 {
    pod["status"]["observedGeneration"].as_i64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(json!({"spec": {}, "status": {"phase": "Pending"}}), PodAction::Bind)]
    #[case(json!({"spec": {"schedulingGates": [{"name": "g"}]}, "status": {"phase": "Pending"}}), PodAction::None)]
    #[case(json!({"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}}), PodAction::Start)]
    #[case(json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}), PodAction::Run)]
    #[case(json!({"metadata": {"generation": 2}, "spec": {"nodeName": "n"}, "status": {"phase": "Running", "observedGeneration": 1}}), PodAction::Observe)]
    #[case(json!({"metadata": {"generation": 2}, "spec": {"nodeName": "n"}, "status": {"phase": "Running", "observedGeneration": 2}}), PodAction::Run)]
    #[case(json!({"metadata": {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 7}, "spec": {"nodeName": "n",
        "containers": [{}, {"lifecycle": {"preStop": {"sleep": {"seconds": 3}}}}]}}),
        PodAction::Terminate { grace: Duration::from_secs(7), sleep: Duration::from_secs(3) })]
    #[case(json!({"spec": {"nodeName": "n", "restartPolicy": "Never"}, "status": {"phase": "Succeeded"}}), PodAction::None)]
    #[case::gate(json!({"spec": {"nodeName": "n", "readinessGates": [{"conditionType": "g"}]}, "status": {"phase": "Running",
        "conditions": [{"type": "g", "status": "True"}, {"type": "ContainersReady", "status": "True"},
        {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"}]}}), PodAction::Observe)]
    #[case::met_gate(json!({"spec": {"nodeName": "n", "readinessGates": [{"conditionType": "g"}]}, "status": {"phase": "Running",
        "conditions": [{"type": "g", "status": "True"}, {"type": "ContainersReady", "status": "True"},
        {"type": "Ready", "status": "True"}]}}), PodAction::Run)]
    fn needs(#[case] pod: Value, #[case] expected: PodAction) {
        assert_eq!(next_action(&pod), expected);
    }

    #[test]
    fn a_pod_that_is_active_for_too_long_fails() {
        let pod = json!({"spec": {"restartPolicy": "Always"}, "status": {"containerStatuses": [
            {"name": "a", "ready": true, "state": {"running": {"startedAt": "s"}}}]}});
        let status = overdue_status(&pod, "t");
        assert_eq!(
            (&status["phase"], &status["reason"], &status["message"]),
            (&json!("Failed"), &json!("DeadlineExceeded"), &json!(OVERDUE))
        );
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 137);
        assert_eq!(status["conditions"][0]["reason"], "PodFailed");
    }

    /// A container of two that has ended before keeps its code.
    #[rstest]
    #[case::server("Always", 0, "Succeeded")]
    #[case::command("Never", 137, "Failed")]
    fn a_deleted_pod_ends(#[case] policy: &str, #[case] code: i64, #[case] phase: &str) {
        let pod = json!({"spec": {"restartPolicy": policy}, "status": {"containerStatuses": [
            {"name": "a", "ready": true, "state": {"running": {"startedAt": "s"}}},
            {"name": "b", "state": {"terminated": {"exitCode": 0}}}]}});
        let status = killed_status(&pod, "t").expect("it runs");
        let state = |index: usize| &status["containerStatuses"][index]["state"]["terminated"]["exitCode"];
        assert_eq!((state(0), state(1), &status["phase"]), (&json!(code), &json!(0), &json!(phase)));
        let mut ended = pod.clone();
        ended["status"] = status;
        assert_eq!(killed_status(&ended, "t"), None);
    }
}
