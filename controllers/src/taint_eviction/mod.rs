//! The taint-eviction controller: drives pods from nodes whose `NoExecute` taints they do not tolerate.
//!
//! # Promise
//! A pod that does not tolerate a taint goes at once; one that tolerates it for some seconds goes when
//! they are over, unless the taint is gone by then. Before it goes it is marked with the condition
//! `DisruptionTarget`.
//!
//! # Map
//! | file | holds |
//! | --- | --- |
//! | [`decide`] | PURE: taints and tolerations to stay, stay until, go |
//! | [`schedule`] | PURE: evictions that wait, one per pod UID |
//! | [`controller`] | SHELL: queues, shards, judging nodes and pods |
//! | `evict` | SHELL: timers, events, condition, deletion, retries |
//!
//! # Kept as Kubernetes has it
//! Once a countdown runs, its first deadline stays (N-017, N-080). Deleting the node does not stop it
//! (N-088), a restart of the controller begins it anew (N-089), and finished or terminating pods are
//! deleted like any other (N-087).
//!
//! # Where this is safer than kube-controller-manager 1.36
//! - Countdowns belong to a pod's UID, and a deletion names the UID it is meant for (N-082, N-083, N-084).
//! - When a countdown ends, the cache is asked once more whether the pod must go (N-084); and of a pod that came when the taint
//!   was known already the server is asked: whoever bound it may have seen the taint go (kubernetes/kubernetes#119862).
//! - An eviction that is called off while the pod is being marked, or between two tries, deletes nothing.
//! - An eviction that fails five times in a row is tried again with back-off until it is done or no
//!   longer due (N-086).

pub mod controller;
pub mod decide;
mod evict;
pub mod schedule;

/// Workers, and shards of nodes: a node and its pods are always handled by the same one, in order.
pub const UPDATE_WORKER_SIZE: usize = 8;

/// Node updates that may wait at a shard.
pub const NODE_UPDATE_CHANNEL_SIZE: usize = 10;

/// Pod updates that may wait at a shard: few, so that they do not pile up in front of node updates.
pub const POD_UPDATE_CHANNEL_SIZE: usize = 1;

/// Quick tries of one eviction.
pub const DELETE_RETRIES: u32 = 5;

/// Pause between quick tries.
pub const DELETE_RETRY_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
