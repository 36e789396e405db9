//! What every controller stands on, in the order data flows:
//!
//! | module | does |
//! | --- | --- |
//! | [`clock`] | the one source of time |
//! | [`client`] | one dressed client per controller: user agent, time limits, retries, request rate |
//! | [`leader`], [`leadership`] | election by a Lease; whether a write may be sent now |
//! | [`listwatch`], [`proto`] | lists and watches in JSON or protobuf, as events |
//! | [`informer`] | list and watch, one per resource for all controllers |
//! | [`cache`], [`lister`] | ordered, indexed objects and the read-only handle |
//! | [`intern`] | what many objects have in common, kept once |
//! | [`queue`] | deduplicating, delaying, rate-limiting work queue |
//! | [`workers`] | the loop from queue to sync, with a panic barrier |
//! | [`recorder`] | Kubernetes Events |
//! | [`metrics`] | the registry, with upstream's names |
//! | [`diagnostics`], [`serve`] | what the program looks like from outside, and the port that tells |
//! | [`files`] | files that are read again when they change |
//! | [`shutdown`] | signals to a token |
//! | [`mod@env`] | what a controller is given to start with |
//!
//! Absences that matter: no wall clock outside [`clock`], no detached task, no writes (they go through
//! [`crate::write`]; events and the lease are the exceptions), no unordered map.

pub mod backoff;
pub mod cache;
pub mod client;
pub mod clock;
pub mod diagnostics;
pub mod error;
pub mod files;
pub mod informer;
pub mod leader;
pub mod leadership;
pub mod listwatch;
pub mod metrics;
pub mod queue;
pub mod recorder;
pub mod serve;
pub mod shutdown;
pub mod workers;

#[cfg(test)]
pub(crate) mod testing;
