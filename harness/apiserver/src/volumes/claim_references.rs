//! References to claims: those of pods, as in `pkg/controller/volume/pvcprotection/pvc_protection_controller.go`, and
//! that of a volume.

use crate::json::Value;
use crate::json::fields::array_field;
use crate::metadata;

/// Returns true if a pod that has a node uses the claim.
pub(super) fn uses(pod: &Value, claim: &Value) -> bool {
    pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty()) && names(pod, claim)
}

/// Returns true if a pod refers to the claim by its name, or as the claim of an ephemeral volume.
pub(super) fn names(pod: &Value, claim: &Value) -> bool {
    let is_named = |volume: &Value| {
        let ephemeral = || {
            let name = format!("{}-{}", metadata::name(pod), volume["name"].as_str().unwrap_or_default());
            let owns = || metadata::owner_references(claim).iter().any(|owner| owner["uid"] == metadata::uid(pod));
            name == metadata::name(claim) && owns()
        };
        volume["persistentVolumeClaim"]["claimName"] == metadata::name(claim)
            || (!volume["ephemeral"].is_null() && ephemeral())
    };
    array_field(&pod["spec"], "volumes").iter().any(is_named)
}

/// Returns the reference of a volume to its claim.
pub(crate) fn reference(claim: &Value) -> Value {
    metadata::reference("v1", "PersistentVolumeClaim", claim)
}
