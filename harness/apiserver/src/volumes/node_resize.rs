//! The last step of a volume's growth, on the node of a pod that uses it. PURE. See
//! `pkg/volume/util/operationexecutor/node_expander.go` and `MarkNodeExpansionFinishedWithRecovery` in
//! `pkg/volume/util/resize_util.go`.

use crate::json::{Value, json};
use crate::patch::strategic::without_conditions;

/// The conditions of a claim that grows: `knownResizeConditions`.
const RESIZE_CONDITIONS: [&str; 4] =
    ["FileSystemResizePending", "Resizing", "ControllerResizeError", "NodeResizeError"];

/// Returns true if a resizer has done its part, and a kubelet has to do the rest: `runPreCheck`.
pub(super) fn is_pending(claim: &Value) -> bool {
    let state = claim["status"]["allocatedResourceStatuses"]["storage"].as_str();
    matches!(state, Some("NodeResizePending" | "NodeResizeInProgress"))
}

/// Returns the patch of the status of a claim whose file system has the size of its volume.
pub(super) fn finished_status(claim: &Value, volume: &Value) -> Value {
    let states = claim["status"]["allocatedResourceStatuses"].as_object();
    let others = states.into_iter().flatten().any(|(name, _)| name.as_str() != "storage");
    let states = if others { json!({"storage": null}) } else { Value::Null };
    let dropped = without_conditions(claim, &RESIZE_CONDITIONS);
    let mut status = json!({"capacity": {"storage": volume["spec"]["capacity"]["storage"]},
        "allocatedResourceStatuses": states});
    if !dropped.is_empty() {
        status["conditions"] = dropped.into();
    }
    status
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::pending(json!({"storage": "NodeResizePending"}), true)]
    #[case::in_progress(json!({"storage": "NodeResizeInProgress"}), true)]
    #[case::infeasible(json!({"storage": "NodeResizeInfeasible"}), false)]
    #[case::of_the_controller(json!({"storage": "ControllerResizeInProgress"}), false)]
    #[case::none(json!({}), false)]
    fn kubelets_wait_for_resizers(#[case] states: Value, #[case] expected: bool) {
        assert_eq!(is_pending(&json!({"status": {"allocatedResourceStatuses": states}})), expected);
    }

    /// As `TestNodeExpander` in `pkg/volume/util/operationexecutor/node_expander_test.go`.
    #[test]
    fn the_claim_has_the_size_of_its_volume() {
        let volume = json!({"spec": {"capacity": {"storage": "2Gi"}}});
        let mut claim = json!({"status": {"capacity": {"storage": "1Gi"}, "conditions": [
            {"type": "FileSystemResizePending", "status": "True"}, {"type": "ModifyingVolume", "status": "True"}],
            "allocatedResourceStatuses": {"storage": "NodeResizePending"}}});
        assert_eq!(
            finished_status(&claim, &volume),
            json!({"capacity": {"storage": "2Gi"}, "allocatedResourceStatuses": null,
                "conditions": [{"$patch": "delete", "type": "FileSystemResizePending"}]})
        );
        claim["status"]["allocatedResourceStatuses"]["example.com/x"] = json!("NodeResizePending");
        assert_eq!(finished_status(&claim, &volume)["allocatedResourceStatuses"], json!({"storage": null}));
    }
}
