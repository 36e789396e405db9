//! The pod garbage collector: deletes pods that no other component deletes.
//!
//! # Guarantee
//! Every 20 s, in this order: finished pods in excess of the threshold, terminating pods on nodes that are out of
//! service, pods of nodes that do not exist, terminating pods that were never bound. Each pod is marked Failed first
//! unless it is finished, then deleted without grace period.
//!
//! # Files
//! | file | contents |
//! | --- | --- |
//! | [`decide`] | PURE: the four selections |
//! | [`quarantine`] | PURE: how long an unknown node waits |
//! | `node_queue` | SHELL: the quarantine and its metrics |
//! | [`controller`] | SHELL: the sweep, live GETs, patch and delete |
//!
//! # Where this is safer than kube-controller-manager 1.36
//! - Every deletion has the pod's UID as precondition (G-039).
//! - Before pods of an out-of-service node are deleted, the node is read from the API server again (G-057).
//! - A pod is deleted at most once per cycle, even if several passes select it (G-070).
//! - Deletions run in parallel, but never more than [`DELETE_PARALLELISM`] at once.

use std::time::Duration;

pub mod controller;
pub mod decide;
mod node_queue;
pub mod quarantine;

/// Time from the end of one cycle to the start of the next.
pub const GC_CHECK_PERIOD: Duration = Duration::from_secs(20);

/// Time for which a node must be unknown before it is read from the API server: the node cache may lag behind the pod
/// cache (BR-24-03).
pub const QUARANTINE_TIME: Duration = Duration::from_secs(40);

/// Number of concurrent deletions; upstream starts one goroutine for each.
pub const DELETE_PARALLELISM: usize = 16;
