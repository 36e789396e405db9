//! The ttl controller: sets how long kubelets may cache secrets and config maps, by cluster size.
//!
//! # Guarantee
//! A node that was added or changed has the annotation `node.alpha.kubernetes.io/ttl` with the seconds of the current
//! step. Nodes without events are left unchanged until their next event (T-013): kubelets write their status often
//! enough.
//!
//! # Files
//! | file | contents |
//! | --- | --- |
//! | [`boundaries`] | PURE: the steps and their hysteresis |
//! | [`controller`] | SHELL: counts nodes, patches the annotation |
//!
//! # Where this is safer than kube-controller-manager 1.36
//! All nodes of the first list are counted before the first one is patched, so no intermediate value is ever written at
//! start-up (T-015): workers start after the event handler was called for the whole list.

use crate::api::go;

pub mod boundaries;
pub mod controller;

/// Parses the annotation's seconds; `None` if it is absent or not an integer, so that it must be written (T-001,
/// T-012). Accepts the integers that Go accepts: `+15` is 15.
pub fn parse_ttl_annotation(annotation: Option<&str>) -> Option<i64> {
    go::atoi(annotation?).ok()
}
