//! The controllers of volumes, optional: [`bind_volumes`] binds claims to volumes, [`release_volumes`] lets deleted
//! claims and volumes go once they are not used, [`create_pod_claims`] makes the claims that pods bring along.

mod annotations;
mod binding;
mod claim_references;
pub(crate) mod matching;
mod node_resize;
mod pod_claims;
mod protection;
mod reclaim;

pub(crate) use annotations::{BIND_COMPLETED, BOUND_BY_CONTROLLER, NO_PROVISIONER, SELECTED_NODE};
pub use binding::bind_volumes;
pub(crate) use claim_references::reference;
pub use pod_claims::create_pod_claims;
pub use protection::release_volumes;
