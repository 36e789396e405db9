//! The conditions of a pod that a kubelet sets: `pkg/kubelet/status/generate.go`. PURE.

use super::container_status::container_of;
use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::pod_fields::is_sidecar;

/// Returns the conditions of a pod, in a patch.
pub(super) fn conditions(
    pod: &Value,
    status: &Value,
    (init, regular): (&[Value], &[Value]),
    (is_mounted, is_initialized): (bool, bool),
    moment: &str,
) -> Vec<Value> {
    let phase = str_field(status, "phase");
    let names = |unready: Vec<&Value>| {
        unready.into_iter().map(|status| str_field(status, "name")).collect::<Vec<_>>().join(" ")
    };
    let is_of_sidecar = |status: &&Value| container_of(pod, "initContainers", status).is_some_and(is_sidecar);
    let sidecars = init.iter().filter(is_of_sidecar);
    let unready = names(sidecars.chain(regular).filter(|status| status["ready"] != true).collect());
    let of_containers = match phase {
        "Succeeded" => ("PodCompleted", String::new()),
        "Failed" => ("PodFailed", String::new()),
        _ if !unready.is_empty() => ("ContainersNotReady", format!("containers with unready status: [{unready}]")),
        _ => ("", String::new()),
    };
    let of_pod = if of_containers.0.is_empty() { unmet_gates(pod) } else { of_containers.clone() };
    let is_incomplete = |status: &&Value| status[if is_of_sidecar(status) { "started" } else { "ready" }] != true;
    let incomplete = names(init.iter().filter(is_incomplete).collect());
    let is_initialized = is_initialized || incomplete.is_empty();
    let of_init = match phase {
        "Succeeded" => ("PodCompleted", String::new()),
        _ if is_initialized => ("", String::new()),
        _ => ("ContainersNotInitialized", format!("containers with incomplete status: [{incomplete}]")),
    };
    let none = || ("", String::new());
    let all = [
        ("PodReadyToStartContainers", is_mounted && !matches!(phase, "Succeeded" | "Failed"), none()),
        ("Initialized", is_initialized, of_init),
        ("Ready", of_pod.0.is_empty(), of_pod),
        ("ContainersReady", of_containers.0.is_empty(), of_containers),
        ("PodScheduled", true, none()),
    ];
    all.into_iter()
        .map(|(kind, is_met, (reason, message))| condition(pod, kind, is_met, reason, &message, moment))
        .collect()
}

/// Returns a condition, in a patch that removes a reason or message that does not hold any more.
pub(super) fn condition(pod: &Value, kind: &str, is_met: bool, reason: &str, message: &str, moment: &str) -> Value {
    let before = array_field(&pod["status"], "conditions").iter().find(|known| known["type"] == *kind);
    let status = if is_met { "True" } else { "False" };
    let since = before.filter(|known| known["status"] == status && known["lastTransitionTime"].is_string());
    let since = since.map_or_else(|| json!(moment), |known| known["lastTransitionTime"].clone());
    let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": since});
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition[field] = text.into();
        } else if before.is_some_and(|known| known.get(field).is_some()) {
            condition[field] = Value::Null;
        }
    }
    set_observed_generation(&mut condition, pod);
    condition
}

/// Sets the generation of a pod in its status or in a condition.
pub(super) fn set_observed_generation(part: &mut Value, pod: &Value) {
    let generation = metadata::generation(pod);
    if generation > 0 {
        part["observedGeneration"] = generation.into();
    }
}

/// Returns reason and message if a readiness gate of the pod is not met; empty texts otherwise:
/// `GeneratePodReadyCondition`.
pub(super) fn unmet_gates(pod: &Value) -> (&'static str, String) {
    let conditions = array_field(&pod["status"], "conditions");
    let gates = array_field(&pod["spec"], "readinessGates").iter().map(|gate| str_field(gate, "conditionType"));
    let unmet = gates.filter_map(|gate| match conditions.iter().find(|known| known["type"] == *gate) {
        None => Some(format!("corresponding condition of pod readiness gate {gate:?} does not exist.")),
        Some(known) if known["status"] == "True" => None,
        Some(known) => {
            let status = str_field(known, "status");
            Some(format!("the status of pod readiness gate {gate:?} is not \"True\", but {status}"))
        }
    });
    let unmet: Vec<String> = unmet.collect();
    if unmet.is_empty() { ("", String::new()) } else { ("ReadinessGatesNotReady", unmet.join(", ")) }
}
