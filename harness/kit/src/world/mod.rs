//! The test kit: a controller of yours, unmodified, against an API server in the process of the test and in virtual
//! time.
//!
//! A [`World`] is a cluster for one test. [`World::test`] makes a runtime whose time is virtual, so that
//! [`World::advance`] by hours takes milliseconds and returns when every task waits again.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use plumbline::world::{World, hours};
//! use serde_json::json;
//!
//! /// Labels a ConfigMap.
//! async fn label(client: kube::Client) -> Result<(), kube::Error> {
//!     let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client);
//!     let patch = json!({"metadata": {"labels": {"seen": "yes"}}});
//!     maps.patch("a", &Default::default(), &kube::api::Patch::Merge(&patch)).await?;
//!     Ok(())
//! }
//!
//! # fn main() -> plumbline::Result {
//! World::test(async |t| {
//!     t.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})).await?;
//!     t.run("labeller", label)?;
//!     t.advance(hours(3)).await?;
//!     assert_eq!(t.get::<ConfigMap>("a").await?.metadata.labels.unwrap()["seen"], "yes");
//!     t.expect("never: DELETE *, count: { PATCH configmaps/a 200: 1 }")?;
//!     Ok(())
//! })
//! # }
//! ```
//!
//! `README.md` of this package has a recipe for each task. The parts:
//!
//! | part | methods |
//! |---|---|
//! | time | [`World::advance`], [`World::settle`], [`World::elapsed`], [`World::skew`] |
//! | objects | [`World::define`], [`World::create`], [`World::get`], [`World::list`], [`World::edit`] |
//! | controllers of the cluster | [`World::simulate`] |
//! | controllers under test | [`World::run`], [`World::run_as`], [`World::crash`], [`World::restart`] |
//! | faults | [`World::fault`], [`World::watch_fault`], [`World::outage`], [`World::compact`] |
//! | judging | [`World::expect`], [`World::always`], [`World::uphold`], [`World::quiet_for`] |
//! | record | [`World::transcript`], [`WorldBuilder::is_deterministic`] |
//! | faults that the test does not name | [`World::explore`], [`Explorer`] |
//!
//! Virtual time knows timers only. A controller that opens a socket, waits for a signal or reads a file through tokio
//! panics or blocks; the test then ends with the name of the controller instead of waiting for it.

/// Evaluates a result in a `#[track_caller]` function, and puts the caller's place into its error.
macro_rules! here {
    ($result:expr) => {{
        let place = std::panic::Location::caller();
        $result.map_err(|error: $crate::world::Error| error.at(place))
    }};
}

mod always_check;
mod cluster;
mod controllers;
mod error;
mod expect;
mod explore;
mod fault_list;
mod faults;
mod objects;
mod own_thread;
mod resources;
mod rule;
mod service;
mod simulation;
mod transcript;
mod watchdog;
mod world_state;

use std::time::Duration;

pub use cluster::{World, WorldBuilder};
pub use controllers::TaskOutput;
pub use error::{Error, Result};
pub use explore::{ExploreSummary, Explorer};
pub use faults::FaultHandle;
#[doc(hidden)]
pub use resources::{served_resources, server_resources};
pub use rule::Rule;
pub use service::WorldService;
pub use simulation::Simulation;
pub use transcript::TranscriptView;

/// Returns `n` seconds.
#[must_use]
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Returns `n` minutes.
#[must_use]
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(60))
}

/// Returns `n` hours.
#[must_use]
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(3600))
}

#[cfg(test)]
mod tests;
