//! Tables for every PURE file. Case names carry the rule or catalogue id they stand for.

#![expect(clippy::unwrap_used, reason = "a table that cannot be built fails its case")]

#[path = "decisions/build.rs"]
mod build;
#[path = "decisions/disruption.rs"]
mod disruption;
#[path = "decisions/podgc.rs"]
mod podgc;
#[path = "decisions/taint_eviction.rs"]
mod taint_eviction;
#[path = "decisions/ttl.rs"]
mod ttl;
#[path = "decisions/views.rs"]
mod views;
