//! The action that a pod needs from its kubelet, and the status of a running pod. Pure.
//! See `pkg/kubelet/status/status_manager.go`.

use std::time::Duration;

use super::commands;
use crate::go_duration::go_duration;
use crate::json::fields::{array_field, is_empty_value};
use crate::json::{Value, json};
use crate::metadata::{self, is_deleted};

/// The annotation with the time after which a pod's containers end.
const RUN_FOR: &str = "plumbline.dev/run-for";
/// The annotation with the exit code of a pod's containers.
const EXIT_CODE: &str = "plumbline.dev/exit-code";
/// Exit code of a container that does not end when it is asked to.
const KILLED: i64 = 137;
/// The time after which the containers of a job's pods end.
const RUN_TIME: Duration = Duration::from_secs(1);
/// The pause before the first restart of a container that has failed; it doubles with each further one.
const RESTART_PAUSE: Duration = Duration::from_secs(10);
/// Longest pause before a restart.
const RESTART_PAUSE_MAX: Duration = Duration::from_mins(5);

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
    },
    /// The pod is running, and its spec has changed.
    Observe,
    /// The pod is running, and its containers will end.
    Run {
        /// Time from their start until their end.
        until_exit: Duration,
    },
    /// The pod is running without an end, has finished, or is gated.
    None,
}

/// Returns the next action for `pod`.
/// `run_for` is the time after which the containers of pods that are not restarted end, if nothing says otherwise.
pub(super) fn next_action(pod: &Value, run_for: Option<Duration>) -> PodAction {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    if is_deleted(pod) {
        let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
        return if bound { PodAction::Terminate { grace: Duration::from_secs(grace) } } else { PodAction::None };
    }
    let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    match phase {
        "" | "Pending" if bound => PodAction::Start,
        "" | "Pending" if !gated && is_for_default_scheduler(pod) => PodAction::Bind,
        // Pods whose status others write stay theirs.
        "Running" if bound && (1..metadata::generation(pod)).contains(&observed_generation(pod)) => PodAction::Observe,
        "Running" if bound => {
            time_to_exit(pod, run_for).map_or(PodAction::None, |until_exit| PodAction::Run { until_exit })
        }
        _ => PodAction::None,
    }
}

/// Returns true if the pod has no scheduler of its own.
fn is_for_default_scheduler(pod: &Value) -> bool {
    matches!(pod["spec"]["schedulerName"].as_str(), None | Some("" | "default-scheduler"))
}

/// Returns the time from the start of a pod's containers until their end, if they have one.
fn time_to_exit(pod: &Value, run_for: Option<Duration>) -> Option<Duration> {
    if pod["spec"]["restartPolicy"] == "Always" {
        return None;
    }
    let runs = match metadata::annotation(pod, RUN_FOR) {
        Some(text) => Duration::from_nanos(u64::try_from(go_duration(text)?).ok()?),
        None => match exit_by_command(pod) {
            Some(end) => end.after?.max(RUN_TIME),
            None if is_of_a_job(pod) => run_for.unwrap_or(RUN_TIME),
            None => run_for?,
        },
    };
    let restarts = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let restarts = restarts.filter_map(|status| status["restartCount"].as_u64()).max().unwrap_or(0);
    let pause = match u32::try_from(restarts).unwrap_or(u32::MAX) {
        0 => Duration::ZERO,
        restarts => RESTART_PAUSE.saturating_mul(2_u32.saturating_pow(restarts - 1)).min(RESTART_PAUSE_MAX),
    };
    Some(runs + pause)
}

/// Returns the end of a pod whose containers all have plain commands: that of the last one, with the first code that is
/// not zero.
fn exit_by_command(pod: &Value) -> Option<commands::Exit> {
    let containers = pod["spec"]["containers"].as_array()?;
    let ends = containers.iter().map(commands::exit_of).collect::<Option<Vec<_>>>()?;
    let code = ends.iter().map(|end| end.code).find(|code| *code != 0).unwrap_or(0);
    let after = ends.iter().map(|end| end.after).try_fold(Duration::ZERO, |last, after| Some(last.max(after?)));
    Some(commands::Exit { after, code })
}

fn is_of_a_job(pod: &Value) -> bool {
    metadata::controller(pod).is_some_and(|owner| owner["kind"] == "Job" && owner["apiVersion"] == "batch/v1")
}

/// Returns the status of a running pod whose containers end now. With the restart policy `OnFailure`, those that fail
/// start again.
pub(super) fn exit_status(pod: &Value, moment: &str) -> Value {
    let given = given_exit_code(pod);
    let code = given.or_else(|| exit_by_command(pod).map(|end| end.code)).unwrap_or(0);
    if code == 0 || pod["spec"]["restartPolicy"] != "OnFailure" {
        return ended_status(pod, code, moment);
    }
    let mut containers = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    for container in &mut containers {
        container["restartCount"] = json!(container["restartCount"].as_i64().unwrap_or(0) + 1);
        container["lastState"] = terminated(container, code, moment);
        container["state"] = json!({"running": {"startedAt": moment}});
    }
    json!({"containerStatuses": containers})
}

/// Returns the status of a deleted pod whose containers are ended; `None` if none of them runs. Servers end in order,
/// other commands are killed after the grace period.
pub(super) fn killed_status(pod: &Value, moment: &str) -> Option<Value> {
    let containers = pod["status"]["containerStatuses"].as_array()?;
    if !containers.iter().any(|container| container["state"]["running"].is_object()) {
        return None;
    }
    let killed = if pod["spec"]["restartPolicy"] == "Always" { 0 } else { KILLED };
    Some(ended_status(pod, given_exit_code(pod).unwrap_or(killed), moment))
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

fn given_exit_code(pod: &Value) -> Option<i64> {
    metadata::annotation(pod, EXIT_CODE)?.parse().ok()
}

fn terminated(container: &Value, code: i64, moment: &str) -> Value {
    let started = container["state"]["running"]["startedAt"].clone();
    let reason = if code == 0 { "Completed" } else { "Error" };
    let mut end = json!({"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": moment});
    if let Some(id) = container.get("containerID") {
        end["containerID"] = id.clone();
    }
    json!({"terminated": end})
}

/// Returns the status of a pod whose running containers have ended for good: `getPhase` of a terminal pod.
fn ended_status(pod: &Value, code: i64, moment: &str) -> Value {
    let mut failed = false;
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
    let containers = ended("containerStatuses");
    let init = ended("initContainerStatuses");
    let (phase, reason) = if failed { ("Failed", "PodFailed") } else { ("Succeeded", "PodCompleted") };
    let condition =
        |kind: &str| json!({"type": kind, "status": "False", "reason": reason, "lastTransitionTime": moment});
    let mut status = json!({"phase": phase, "containerStatuses": containers,
        "conditions": [condition("Ready"), condition("ContainersReady")]});
    if !init.is_empty() {
        status["initContainerStatuses"] = init.into();
    }
    status
}

fn observed_generation(pod: &Value) -> i64 {
    pod["status"]["observedGeneration"].as_i64().unwrap_or(0)
}

/// Returns the status of a pod whose spec the kubelet has seen.
pub(super) fn observed_status(pod: &Value) -> Value {
    let generation = metadata::generation(pod);
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let conditions: Vec<Value> =
        conditions.map(|condition| json!({"type": condition["type"], "observedGeneration": generation})).collect();
    let mut status = json!({"observedGeneration": generation, "conditions": conditions});
    for (list, specs) in [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")] {
        let before = array_field(&pod["status"], list);
        let mut after = before.to_vec();
        for container in &mut after {
            if let Some(spec) = array_field(&pod["spec"], specs).iter().find(|spec| spec["name"] == container["name"]) {
                set_resources(container, spec);
            }
        }
        if after != before {
            status[list] = after.into();
        }
    }
    status
}

/// Sets the resources that a container has: those of its spec. A kubelet that can change them reports them for every
/// container (`convertToAPIContainerStatuses` in `pkg/kubelet/kubelet_pods.go`).
fn set_resources(status: &mut Value, container: &Value) {
    let resources = &container["resources"];
    let mut shown = json!({});
    for field in ["claims", "limits", "requests"] {
        if let Some(amounts) = resources.get(field).filter(|amounts| !is_empty_value(Some(amounts))) {
            shown[field] = amounts.clone();
        }
    }
    if let Some(requests) = shown.get("requests") {
        status["allocatedResources"] = requests.clone();
    }
    status["resources"] = shown;
}

/// Returns the status of a pod whose containers are all running and ready.
pub(super) fn running_status(pod: &Value, (address, host): (&str, &str), moment: &str) -> Value {
    let generation = metadata::generation(pod);
    let condition = |kind: &str| {
        let mut condition = json!({"type": kind, "status": "True", "lastTransitionTime": moment});
        if generation > 0 {
            condition["observedGeneration"] = json!(generation);
        }
        condition
    };
    let conditions: Vec<Value> =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
            .map(condition)
            .to_vec();
    let running = json!({"running": {"startedAt": moment}});
    let done = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment}});
    let statuses = |list: &str| -> Vec<Value> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers
            .map(|container| {
                // A sidecar goes on.
                let runs = list == "containers" || container["restartPolicy"] == "Always";
                let state = if runs { &running } else { &done };
                let image = container["image"].as_str().unwrap_or_default();
                let mut status = json!({"name": container["name"], "image": image, "imageID": format!("plumbline://{image}"),
                    "containerID": format!("plumbline://{}/{}", metadata::uid(pod),
                        container["name"].as_str().unwrap_or_default()),
                    "ready": true, "started": true, "restartCount": 0, "state": state});
                set_resources(&mut status, container);
                status
            })
            .collect()
    };
    let mut status = json!({
        "phase": "Running",
        "conditions": conditions,
        "startTime": moment,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": statuses("containers"),
    });
    let init = statuses("initContainers");
    if generation > 0 {
        status["observedGeneration"] = json!(generation);
    }
    if !init.is_empty() {
        status["initContainerStatuses"] = Value::Array(init);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(json!({"spec": {}, "status": {"phase": "Pending"}}), PodAction::Bind)]
    #[case(json!({"spec": {"schedulingGates": [{"name": "g"}]}, "status": {"phase": "Pending"}}), PodAction::None)]
    #[case(json!({"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}}), PodAction::Start)]
    #[case(json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}), PodAction::None)]
    #[case(json!({"metadata": {"generation": 2}, "spec": {"nodeName": "n"}, "status": {"phase": "Running", "observedGeneration": 1}}), PodAction::Observe)]
    #[case(json!({"metadata": {"generation": 2}, "spec": {"nodeName": "n"}, "status": {"phase": "Running", "observedGeneration": 2}}), PodAction::None)]
    #[case(json!({"metadata": {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 7}, "spec": {"nodeName": "n"}}),
        PodAction::Terminate { grace: Duration::from_secs(7) })]
    #[case(json!({"metadata": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "controller": true}]},
        "spec": {"nodeName": "n", "restartPolicy": "Never"}, "status": {"phase": "Running"}}),
        PodAction::Run { until_exit: Duration::from_secs(1) })]
    #[case(json!({"metadata": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "controller": true}]},
        "spec": {"nodeName": "n", "restartPolicy": "Never", "containers": [{"command": ["sleep", "300"]}]},
        "status": {"phase": "Running"}}), PodAction::Run { until_exit: Duration::from_mins(5) })]
    #[case(json!({"metadata": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "controller": true}]},
        "spec": {"nodeName": "n", "restartPolicy": "Never", "containers": [{"args": ["pause"]}]},
        "status": {"phase": "Running"}}), PodAction::None)]
    #[case(json!({"metadata": {"annotations": {"plumbline.dev/run-for": "1m30s"}},
        "spec": {"nodeName": "n", "restartPolicy": "OnFailure"},
        "status": {"phase": "Running", "containerStatuses": [{"restartCount": 2}]}}),
        PodAction::Run { until_exit: Duration::from_secs(110) })]
    #[case(json!({"metadata": {"annotations": {"plumbline.dev/run-for": "forever"}},
        "spec": {"nodeName": "n", "restartPolicy": "Never"}, "status": {"phase": "Running"}}), PodAction::None)]
    #[case(json!({"metadata": {"annotations": {"plumbline.dev/run-for": "1s"}},
        "spec": {"nodeName": "n", "restartPolicy": "Always"}, "status": {"phase": "Running"}}), PodAction::None)]
    fn needs(#[case] pod: Value, #[case] expected: PodAction) {
        assert_eq!(next_action(&pod, None), expected);
    }

    /// See `IsRestartableInitContainer` in `pkg/kubelet/prober/prober_manager.go`.
    #[test]
    fn a_sidecar_runs_as_long_as_its_pod() {
        let mut pod = json!({"spec": {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "c"}]}});
        pod["status"] = running_status(&pod, ("10.0.0.1", "10.0.0.2"), "t");
        let states = |pod: &Value| -> Vec<bool> {
            let all = array_field(&pod["status"], "initContainerStatuses").iter();
            all.map(|status| status["state"]["running"].is_object()).collect()
        };
        assert_eq!(states(&pod), [false, true]);
        pod["status"] = exit_status(&pod, "u");
        assert_eq!((states(&pod), &pod["status"]["phase"]), (vec![false, false], &json!("Succeeded")));
    }

    #[test]
    fn a_command_that_fails_fails_the_pod() {
        let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"command": ["/bin/sh", "-c", "exit 3"]}]},
            "status": {"containerStatuses": [{"state": {"running": {}}}]}});
        let status = exit_status(&pod, "t");
        let code = &status["containerStatuses"][0]["state"]["terminated"]["exitCode"];
        assert_eq!((&status["phase"], code), (&json!("Failed"), &json!(3)));
    }

    /// Pods without an owner end as well, by their command, their annotation or the flag.
    #[rstest]
    #[case::command(json!({"containers": [{"command": ["true"]}]}), None, Some(1))]
    #[case::unknown(json!({"containers": [{"command": ["wget", "x"]}]}), None, None)]
    #[case::flag(json!({"containers": [{"command": ["wget", "x"]}]}), Some(5), Some(5))]
    #[case::pause(json!({"containers": [{"image": "pause"}]}), Some(5), None)]
    fn pods_that_are_not_restarted_end(#[case] spec: Value, #[case] flag: Option<u64>, #[case] expected: Option<u64>) {
        let mut pod = json!({"spec": spec, "status": {"phase": "Running"}});
        pod["spec"]["nodeName"] = json!("n");
        pod["spec"]["restartPolicy"] = json!("Never");
        let end = match next_action(&pod, flag.map(Duration::from_secs)) {
            PodAction::Run { until_exit } => Some(until_exit.as_secs()),
            _ => None,
        };
        assert_eq!(end, expected);
        pod["spec"]["restartPolicy"] = json!("Always");
        assert_eq!(next_action(&pod, Some(Duration::from_secs(5))), PodAction::None);
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

    #[test]
    fn a_running_pod_is_ready_in_every_container() {
        let pod = json!({"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}});
        let status = running_status(&pod, ("10.0.0.1", "172.18.0.2"), "2026-01-01T00:00:00Z");
        assert_eq!(status["containerStatuses"].as_array().map(Vec::len), Some(2));
        assert!(status.get("initContainerStatuses").is_none());
    }
}
