//! Plumbline: integration harness and conformance suite for Kubernetes' disruption-class controllers.

pub mod apiserver;
pub mod cli;
pub mod cluster;
pub mod exit;
pub mod expect;
pub mod fixture;
pub mod invariants;
pub mod plan;
pub mod report;
pub mod runner;
pub mod snapshot;
pub mod subject;
pub mod time;
pub mod transcript;
