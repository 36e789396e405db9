//! Pods that are active, ready or available: `pkg/api/v1/pod/util.go`.

use jiff::Timestamp;

use super::workload_fields::min_ready;
use crate::json::Value;
use crate::metadata;
use crate::pod_fields::has_ended;

pub(super) fn is_active(pod: &Value) -> bool {
    !metadata::is_deleted(pod) && !has_ended(pod)
}

/// Returns true if the pod is being deleted and has not ended: `IsPodTerminating`.
pub(super) fn is_terminating(pod: &Value) -> bool {
    metadata::is_deleted(pod) && !has_ended(pod)
}

pub(super) fn is_ready(pod: &Value) -> bool {
    is_active(pod) && ready_condition(pod).is_some()
}

/// Returns true if the pod has been ready for the workload's `minReadySeconds`.
pub(super) fn is_available(pod: &Value, workload: &Value, now: Timestamp) -> bool {
    is_active(pod) && has_been_ready(pod, workload, now)
}

/// Returns true if the pod has been ready for the workload's `minReadySeconds`, even if it is being deleted:
/// `IsPodAvailable` in `pkg/api/v1/pod/util.go`.
pub(super) fn has_been_ready(pod: &Value, workload: &Value, now: Timestamp) -> bool {
    let delay = min_ready(workload);
    let since = || ready_since(pod).and_then(|since| since.checked_add(delay).ok());
    ready_condition(pod).is_some() && (delay.is_zero() || since().is_some_and(|at| at <= now))
}

/// Returns the time since which a pod has been ready.
pub(super) fn ready_since(pod: &Value) -> Option<Timestamp> {
    ready_condition(pod)?["lastTransitionTime"].as_str()?.parse().ok()
}

pub(super) fn ready_condition(pod: &Value) -> Option<&Value> {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
