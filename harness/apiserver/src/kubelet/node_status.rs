//! The status that a kubelet reports for its node: `pkg/kubelet/nodestatus/setters.go`. PURE.

use jiff::Timestamp;

use crate::json::fields::{array_field, str_field};
use crate::json::{Map, Value, json};
use crate::registry::time::rfc3339;

/// The features that a kubelet of 1.36 declares by default: those of `nodedeclaredfeatures/features/registry.go` whose
/// gates are on.
const DECLARED_FEATURES: [&str; 4] = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
];

/// The states that [`node_status`] reports, with the conditions that say so.
const STATES: [(&str, &str, &str); 4] = [
    ("MemoryPressure", "False", "NodeHasSufficientMemory"),
    ("DiskPressure", "False", "NodeHasNoDiskPressure"),
    ("PIDPressure", "False", "NodeHasSufficientPID"),
    ("Ready", "True", "NodeReady"),
];

/// Returns the states that a node did not have before. A kubelet's first report is that its runtime is not ready yet,
/// so that each one tells when it is.
pub(super) fn new_states(before: &Value) -> impl Iterator<Item = &'static str> {
    let conditions = before["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let had =
        move |kind: &str, status: &str| conditions.iter().any(|one| one["type"] == *kind && one["status"] == *status);
    STATES.into_iter().filter(move |(kind, status, _)| !had(kind, status)).map(|(_, _, state)| state)
}

/// Time after which a kubelet reports a status that has not changed: `nodeStatusReportFrequency`.
const REPORT_PERIOD: i64 = 300;

/// Returns the status with which a kubelet shows again that its node is ready; `None` if it did so lately. See
/// `isUpdateStatusPeriodExpired` in `pkg/kubelet/kubelet_node_status.go`.
pub(super) fn repeated(node: &Value, now: Timestamp) -> Option<Value> {
    let conditions = array_field(&node["status"], "conditions");
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
    let last: Option<Timestamp> = str_field(ready, "lastHeartbeatTime").parse().ok();
    if last.is_some_and(|last| now.as_second() - last.as_second() < REPORT_PERIOD) {
        return None;
    }
    let is_reported = |kind: &str| conditions.iter().any(|condition| condition["type"] == *kind);
    let reported = STATES.into_iter().filter(|(kind, ..)| is_reported(kind));
    let again = reported.map(|(kind, ..)| json!({"type": kind, "lastHeartbeatTime": rfc3339(now)}));
    Some(json!({"conditions": again.collect::<Vec<_>>()}))
}

/// Returns the status that a kubelet reports for its node.
pub(super) fn node_status(node: &Value, moment: &str, kubelet_version: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": moment, "lastTransitionTime": moment})
    };
    let mut status = json!({
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "nodeInfo": {
            "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "6.1.0", "osImage": "Plumbline",
            "containerRuntimeVersion": concat!("plumbline://", env!("CARGO_PKG_VERSION")), "kubeletVersion": kubelet_version,
            "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
        },
        "declaredFeatures": DECLARED_FEATURES,
        "features": {"supplementalGroupsPolicy": true},
    });
    for field in ["capacity", "allocatable"] {
        if node["status"][field].as_object().is_none_or(Map::is_empty) {
            status[field] = json!({"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"});
        }
    }
    status
}
