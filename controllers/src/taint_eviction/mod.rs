//! The taint-eviction controller: evicts pods from nodes whose `NoExecute` taints they do not tolerate.
//!
//! # Guarantee
//! A pod that does not tolerate a taint is evicted at once; one that tolerates it for some seconds is evicted after
//! that time, unless the taint is removed before. The pod gets the condition `DisruptionTarget` before it is deleted.
//!
//! # Files
//! | file | contents |
//! | --- | --- |
//! | [`decide`] | PURE: taints and tolerations to a plan: keep, evict later, evict now |
//! | [`schedule`] | PURE: pending evictions, one per pod UID |
//! | [`controller`] | SHELL: queues, shards, evaluation of nodes and pods |
//! | `evict` | SHELL: timers, events, condition, deletion, retries |
//!
//! # The same as in Kubernetes
//! A running countdown keeps its first deadline (N-017, N-080). Deleting the node does not stop it (N-088), a restart
//! of the controller starts it again (N-089), and finished or terminating pods are deleted like any other (N-087).
//!
//! # Where this is safer than kube-controller-manager 1.36
//! - Countdowns belong to a pod's UID, and every deletion has that UID as precondition (N-082, N-083, N-084).
//! - When a countdown ends, the pod is evaluated again with the cache (N-084). For a pod that was bound when the taint
//!   was known already, the node is read from the server: the scheduler may have observed the removal of the taint
//!   (kubernetes/kubernetes#119862).
//! - An eviction that is cancelled while the pod is being marked, or between two attempts, deletes nothing.
//! - An eviction that fails five times in a row is retried with back-off until it succeeds or is no longer due (N-086).

pub mod controller;
pub mod decide;
mod evict;
pub mod schedule;

/// Number of workers and of shards of nodes: a node and its pods are always processed by the same one, in order.
pub const UPDATE_WORKER_SIZE: usize = 8;

/// Capacity of a shard's channel of node updates.
pub const NODE_UPDATE_CHANNEL_SIZE: usize = 10;

/// Capacity of a shard's channel of pod updates: small, so that they do not delay node updates.
pub const POD_UPDATE_CHANNEL_SIZE: usize = 1;

/// Number of quick attempts of one eviction.
pub const DELETE_RETRIES: u32 = 5;

/// Pause between quick attempts.
pub const DELETE_RETRY_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
