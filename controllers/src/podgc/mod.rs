//! The pod garbage collector: deletes pods that nobody else will.
//!
//! # Promise
//! Every 20 s, in this order: finished pods beyond the threshold, terminating pods on nodes that are
//! out of service, pods of nodes that no longer exist, terminating pods that never had a node. Each is
//! marked Failed first unless it is finished, then deleted with no grace.
//!
//! # Map
//! | file | holds |
//! | --- | --- |
//! | [`decide`] | PURE: the four selections |
//! | [`quarantine`] | PURE: how long an unknown node waits |
//! | [`controller`] | SHELL: the sweep, live GETs, patch and delete |
//!
//! # Where this is safer than kube-controller-manager 1.36
//! - Every deletion names the UID it is meant for (G-039).
//! - Before pods of an out-of-service node go, the API server is asked whether it still is (G-057).
//! - A pod is deleted at most once per cycle, however many passes select it (G-070).
//! - Deletions run in parallel, but never more than [`DELETE_PARALLELISM`] at once.

use std::time::Duration;

pub mod controller;
pub mod decide;
pub mod quarantine;

/// From the end of one cycle to the start of the next.
pub const GC_CHECK_PERIOD: Duration = Duration::from_secs(20);

/// How long a node must have been unknown before the API server is asked about it: the node cache may
/// lag behind the pod cache (BR-24-03).
pub const QUARANTINE_TIME: Duration = Duration::from_secs(40);

/// Pods deleted at once; upstream starts one goroutine for each.
pub const DELETE_PARALLELISM: usize = 16;
