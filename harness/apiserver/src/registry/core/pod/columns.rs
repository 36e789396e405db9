//! Columns of pods, with a summary of their container states. Follows `printPod` in
//! `pkg/printers/internalversion/printers.go` of Kubernetes 1.36. PURE.

use jiff::Timestamp;

use crate::json::{Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::duration;
use crate::printers::format::{NONE, condition_is_true, flag, items, number, text};

/// The columns of `pods`.
pub(super) const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Ready",
        Description::Text("The aggregate readiness state of this pod for accepting traffic."),
        CellSource::Custom(|pod, _| json!(PodSummary::of(pod).ready())),
    ),
    Column::string(
        "Status",
        Description::Text("The aggregate status of the containers in this pod."),
        CellSource::Custom(|pod, _| json!(PodSummary::of(pod).reason)),
    ),
    Column::string(
        "Restarts",
        Description::Text(
            "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
        ),
        CellSource::Custom(|pod, now| json!(PodSummary::of(pod).restarts(now))),
    ),
    AGE,
    Column::string(
        "IP",
        Description::Field("api.core.v1.PodStatus", "podIP"),
        CellSource::Text("/status/podIPs/0/ip", NONE),
    )
    .wide(),
    Column::string(
        "Node",
        Description::Field("api.core.v1.PodSpec", "nodeName"),
        CellSource::Text("/spec/nodeName", NONE),
    )
    .wide(),
    Column::string(
        "Nominated Node",
        Description::Field("api.core.v1.PodStatus", "nominatedNodeName"),
        CellSource::Text("/status/nominatedNodeName", NONE),
    )
    .wide(),
    Column::string(
        "Readiness Gates",
        Description::Field("api.core.v1.PodSpec", "readinessGates"),
        CellSource::Custom(|pod, _| json!(readiness_gates(pod))),
    )
    .wide(),
];

/// Returns the conditions of a pod's row: `Completed` if the pod has ended.
pub(super) fn row_conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let met = gates.iter().filter(|gate| condition_is_true(pod, text(gate, "/conditionType"))).count();
    format!("{met}/{}", gates.len())
}

/// The values of the first columns of a pod.
struct PodSummary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl PodSummary {
    fn of(pod: &Value) -> Self {
        let phase = text(pod, "/status/phase");
        let mut summary = Self {
            ready: 0,
            total: items(pod, "/spec/containers").len(),
            reason: initial_reason(pod).to_owned(),
            restarts: 0,
            last_restart: None,
        };
        let sidecars: Vec<&str> = items(pod, "/spec/initContainers")
            .iter()
            .filter(|container| text(container, "/restartPolicy") == "Always")
            .map(|container| text(container, "/name"))
            .collect();
        summary.total += sidecars.len();

        let (sidecar_restarts, initializing) = summary.add_init_containers(pod, &sidecars);
        if !initializing || condition_is_true(pod, "Initialized") {
            (summary.restarts, summary.last_restart) = sidecar_restarts;
            summary.add_containers(pod);
        }
        if metadata::is_deleted(pod) {
            if text(pod, "/status/reason") == "NodeLost" {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    fn ready(&self) -> String {
        format!("{}/{}", self.ready, self.total)
    }

    fn restarts(&self, now: Timestamp) -> String {
        match self.last_restart {
            Some(then) if self.restarts != 0 => {
                format!("{} ({} ago)", self.restarts, duration::human_duration(duration::seconds_between(then, now)))
            }
            _ => self.restarts.to_string(),
        }
    }

    /// Counts init containers. Returns the restarts of sidecars alone, and whether initialization is still in progress.
    fn add_init_containers(&mut self, pod: &Value, sidecars: &[&str]) -> ((i64, Option<Timestamp>), bool) {
        let mut restarts = 0;
        let mut last_restart = None;
        let declared = items(pod, "/spec/initContainers").len();
        for (index, status) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
            let is_sidecar = sidecars.contains(&text(status, "/name"));
            self.restarts += number(status, "/restartCount");
            self.last_restart = self.last_restart.max(finished_at(status));
            if is_sidecar {
                restarts += number(status, "/restartCount");
                last_restart = last_restart.max(finished_at(status));
            }
            let terminated = status.pointer("/state/terminated").filter(|state| !state.is_null());
            if terminated.is_some_and(|state| number(state, "/exitCode") == 0) {
                continue;
            }
            if is_sidecar && flag(status, "/started") {
                self.ready += usize::from(flag(status, "/ready"));
                continue;
            }
            let waiting = text(status, "/state/waiting/reason");
            self.reason = match terminated {
                Some(state) => format!("Init:{}", exit_reason(state)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{index}/{declared}"),
            };
            return ((restarts, last_restart), true);
        }
        ((restarts, last_restart), false)
    }

    fn add_containers(&mut self, pod: &Value) {
        let mut has_running = false;
        let mut error_reason = String::new();
        for status in items(pod, "/status/containerStatuses").iter().rev() {
            self.restarts += number(status, "/restartCount");
            self.last_restart = self.last_restart.max(finished_at(status));
            let waiting = text(status, "/state/waiting/reason");
            let terminated = status.pointer("/state/terminated").filter(|state| !state.is_null());
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(state) = terminated {
                self.reason = exit_reason(state);
                if number(state, "/exitCode") != 0 {
                    self.reason.clone_into(&mut error_reason);
                }
            } else if flag(status, "/ready") && status.pointer("/state/running").is_some_and(|state| !state.is_null()) {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if has_running && condition_is_true(pod, "Ready") {
                "Running".clone_into(&mut self.reason);
            } else if !error_reason.is_empty() {
                self.reason = error_reason;
            } else if has_running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

fn initial_reason(pod: &Value) -> &str {
    let gated = items(pod, "/status/conditions")
        .iter()
        .any(|c| text(c, "/type") == "PodScheduled" && text(c, "/reason") == "SchedulingGated");
    match text(pod, "/status/reason") {
        _ if gated => "SchedulingGated",
        "" => text(pod, "/status/phase"),
        reason => reason,
    }
}

fn exit_reason(terminated: &Value) -> String {
    match (text(terminated, "/reason"), number(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn finished_at(status: &Value) -> Option<Timestamp> {
    text(status, "/lastState/terminated/finishedAt").parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn summary(pod: &Value) -> (String, String, String) {
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        let summary = PodSummary::of(pod);
        (summary.ready(), summary.reason.clone(), summary.restarts(now))
    }

    #[rstest]
    #[case::pending(json!({"spec": {"containers": [{}]}, "status": {"phase": "Pending"}}), "0/1", "Pending", "0")]
    #[case::running(
        json!({"spec": {"containers": [{}, {}]}, "status": {"phase": "Running", "containerStatuses": [
            {"ready": true, "state": {"running": {}}, "restartCount": 2,
             "lastState": {"terminated": {"finishedAt": "2026-01-01T00:05:00Z"}}},
            {"ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}),
        "1/2", "CrashLoopBackOff", "2 (5m ago)")]
    #[case::terminating(
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"containers": [{}]},
               "status": {"phase": "Running"}}),
        "0/1", "Terminating", "0")]
    #[case::failed_stays_failed_while_deleted(
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"containers": [{}]},
               "status": {"phase": "Failed"}}),
        "0/1", "Failed", "0")]
    #[case::node_lost(
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"containers": [{}]},
               "status": {"phase": "Running", "reason": "NodeLost"}}),
        "0/1", "Unknown", "0")]
    #[case::evicted(json!({"spec": {"containers": [{}]}, "status": {"phase": "Failed", "reason": "Evicted"}}), "0/1", "Evicted", "0")]
    #[case::init_waits(
        json!({"spec": {"containers": [{}], "initContainers": [{"name": "a"}, {"name": "b"}]},
               "status": {"phase": "Pending", "initContainerStatuses": [
                   {"name": "a", "state": {"terminated": {"exitCode": 0}}},
                   {"name": "b", "state": {"waiting": {"reason": "PodInitializing"}}}]}}),
        "0/1", "Init:1/2", "0")]
    #[case::init_failed(
        json!({"spec": {"containers": [{}], "initContainers": [{"name": "a"}]},
               "status": {"phase": "Pending", "initContainerStatuses": [
                   {"name": "a", "state": {"terminated": {"exitCode": 3}}}]}}),
        "0/1", "Init:ExitCode:3", "0")]
    #[case::sidecar_counts(
        json!({"spec": {"containers": [{}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
               "status": {"phase": "Running", "initContainerStatuses": [
                   {"name": "s", "started": true, "ready": true, "state": {"running": {}}}],
                   "containerStatuses": [{"ready": true, "state": {"running": {}}}]}}),
        "2/2", "Running", "0")]
    #[case::completed(
        json!({"spec": {"containers": [{}]}, "status": {"phase": "Succeeded", "containerStatuses": [
            {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}}),
        "0/1", "Completed", "0")]
    #[case::killed_by_signal(
        json!({"spec": {"containers": [{}]}, "status": {"phase": "Failed", "containerStatuses": [
            {"state": {"terminated": {"exitCode": 137, "signal": 9}}}]}}),
        "0/1", "Signal:9", "0")]
    #[case::gated(
        json!({"spec": {"containers": [{}]}, "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}}),
        "0/1", "SchedulingGated", "0")]
    fn a_pod_in_three_words(#[case] pod: Value, #[case] ready: &str, #[case] status: &str, #[case] restarts: &str) {
        assert_eq!(summary(&pod), (ready.to_owned(), status.to_owned(), restarts.to_owned()));
    }
}
