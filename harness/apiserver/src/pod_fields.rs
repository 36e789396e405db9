//! Readings of pods that several loops share. PURE.

use crate::json::Value;
use crate::json::fields::array_field;

/// Returns true if a pod has succeeded or failed: `IsPodTerminal` in `pkg/api/v1/pod/util.go`.
pub(crate) fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns true for a container of init that runs beside the others.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// Returns the containers of init that run beside the others.
pub(crate) fn sidecars(pod: &Value) -> impl Iterator<Item = &Value> {
    array_field(&pod["spec"], "initContainers").iter().filter(|container| is_sidecar(container))
}
