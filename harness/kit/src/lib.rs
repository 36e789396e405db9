//! Test kit for Kubernetes controllers: a controller of yours, unmodified, against an API server in the process of the
//! test, in virtual time.
//!
//! Start at [`world`]; `MANUAL.md` of this package has a recipe for each task. [`apiserver`] is the server that a world
//! runs, [`time`] is the world's time of day for other crates, [`Error`] and [`Result`] are those of tests.
//!
//! The other modules are what the conformance suite for Kubernetes' own controllers shares with the kit. They are
//! hidden from the documentation and have no stability: their names and types change in any release.

#[doc(hidden)]
pub mod expect;
#[doc(hidden)]
pub mod explore;
#[doc(hidden)]
pub mod faults;
#[doc(hidden)]
pub mod fixture;
#[doc(hidden)]
pub mod invariants;
#[doc(hidden)]
pub mod metadata;
#[doc(hidden)]
pub mod rules;
pub mod time;
#[doc(hidden)]
pub mod transcript;
pub mod world;

pub use plumbline_apiserver as apiserver;
pub use world::{Error, Result};

/// Compiles and runs the examples of the manual.
#[cfg(doctest)]
#[doc = include_str!("../MANUAL.md")]
struct ManualDoctests;
