//! The controllers of volumes, optional: [`bind_volumes`] binds claims to volumes, [`release_volumes`] lets deleted
//! claims and volumes go once they are not used, [`create_pod_claims`] makes the claims that pods bring along.

mod binding;
mod matching;
mod pod_claims;
mod protection;

use crate::json::Value;
use crate::json::fields::array_field;
use crate::metadata;

pub use binding::bind_volumes;
pub use pod_claims::create_pod_claims;
pub use protection::release_volumes;

/// Returns true if a pod that has a node uses the claim by its name, or as the claim of an ephemeral volume.
fn uses(pod: &Value, claim: &Value) -> bool {
    let scheduled = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let is_used = |volume: &Value| {
        let ephemeral = || {
            let name = format!("{}-{}", metadata::name(pod), volume["name"].as_str().unwrap_or_default());
            let owns = || metadata::owner_references(claim).iter().any(|owner| owner["uid"] == metadata::uid(pod));
            name == metadata::name(claim) && owns()
        };
        volume["persistentVolumeClaim"]["claimName"] == metadata::name(claim)
            || (!volume["ephemeral"].is_null() && ephemeral())
    };
    scheduled && array_field(&pod["spec"], "volumes").iter().any(is_used)
}
