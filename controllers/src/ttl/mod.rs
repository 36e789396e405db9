//! The ttl controller: tells kubelets how long they may cache, by cluster size.
//!
//! # Promise
//! A node that was added or changed carries the annotation `node.alpha.kubernetes.io/ttl` with the
//! seconds of the present step. Nodes that nothing happens to are left alone until something does
//! (T-013): kubelets write their status often enough.
//!
//! # Map
//! | file | holds |
//! | --- | --- |
//! | [`boundaries`] | PURE: the steps and their hysteresis |
//! | [`controller`] | SHELL: counts nodes, patches the annotation |
//!
//! # Where this is safer than kube-controller-manager 1.36
//! All nodes of the first list are counted before the first one is patched, so no passing value is ever
//! written at start-up (T-015): workers start when the handler has been told of the whole list.

use crate::api::go;

pub mod boundaries;
pub mod controller;

/// The seconds a node's annotation says; `None` when it is absent or no integer, and so must be written
/// (T-001, T-012). Integers are what Go takes for one: `+15` is 15.
pub fn parse_ttl_annotation(annotation: Option<&str>) -> Option<i64> {
    go::atoi(annotation?).ok()
}
