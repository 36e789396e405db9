//! The kinds of `apps`. See `pkg/registry/apps`.

pub(in crate::registry) mod controller_revision;
pub(in crate::registry) mod daemon_set;
pub(in crate::registry) mod deployment;
pub(in crate::registry) mod replica_set;
pub(in crate::registry) mod stateful_set;
