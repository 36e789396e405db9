//! Tables for every PURE file. Case names contain the rule or catalogue id they test.

#![expect(clippy::unwrap_used, reason = "a table that cannot be built fails its case")]

mod api;
mod build;
mod disruption;
mod podgc;
mod taint_eviction;
mod ttl;
