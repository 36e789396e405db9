//! Phases and conditions of pods.
//!
//! Source: `pkg/apis/core/types.go`, `pkg/controller/podgc/gc_controller.go` (`isPodTerminated`).

use serde_json::Value;

/// The type of the condition that announces the disruption of a pod.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Returns the condition of that type of an object.
#[must_use]
pub fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Returns the reason of a pod's disruption condition that has this status.
#[must_use]
pub fn disruption_reason<'p>(pod: &'p Value, status: &str) -> Option<&'p str> {
    condition(pod, DISRUPTION_TARGET).filter(|found| found["status"] == status)?["reason"].as_str()
}

/// Returns true if the phase of the pod is final.
#[must_use]
pub fn is_finished(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns true if the pod counts for the threshold of terminated pods: an empty phase does, as in `isPodTerminated`.
#[must_use]
pub fn is_terminated(pod: &Value) -> bool {
    !matches!(pod["status"]["phase"].as_str(), Some("Pending" | "Running" | "Unknown"))
}

/// Returns true if the object has the condition Ready.
#[must_use]
pub fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().any(|found| found["type"] == "Ready" && found["status"] == "True")
}
