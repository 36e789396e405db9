//! The controllers of volumes, optional: [`bind_volumes`] binds claims to volumes, [`release_volumes`] lets deleted
//! claims and volumes go once they are not used, [`create_pod_claims`] makes the claims that pods bring along.

mod binding;
pub(crate) mod matching;
mod node_resize;
mod pod_claims;
mod protection;
mod reclaim;

use crate::json::Value;
use crate::json::fields::array_field;
use crate::metadata;

pub use binding::bind_volumes;
pub use pod_claims::create_pod_claims;
pub use protection::release_volumes;

/// The annotation of a claim that waits for its pod: the node that the scheduler has chosen (`AnnSelectedNode`).
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation of a claim or volume whose other half the controller or the scheduler chose.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation of a claim that is bound.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of a volume that a provisioner made.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The provisioner of kind's class `standard`.
const LOCAL_PATH: &str = "rancher.io/local-path";
/// The provisioner of classes whose volumes are made by hand.
pub(crate) const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Returns true if a pod that has a node uses the claim.
fn uses(pod: &Value, claim: &Value) -> bool {
    pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty()) && names(pod, claim)
}

/// Returns true if a pod refers to the claim by its name, or as the claim of an ephemeral volume.
fn names(pod: &Value, claim: &Value) -> bool {
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
