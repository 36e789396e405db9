//! Kubernetes' own end-to-end tests as judge of the API server.
//!
//! The published program `e2e.test` of a release runs against `plumbline serve` and, where a kubeconfig is given,
//! against a real cluster. [`selection`] chooses the specs that need no containers, [`program`] runs each of them in a
//! process with a time limit, and [`report`] compares the results: a difference that `differences.yaml` does not
//! explain fails.

mod cluster;
mod error;
mod options;
pub(crate) mod program;
pub(crate) mod report;
mod run;
pub(crate) mod selection;
mod spec;
mod verb;

pub(crate) use self::verb::{UpstreamArgs, main};
