//! Kubernetes' disruption, podgc, taint-eviction and ttl controllers in Rust.

pub mod actions;
pub mod app;
pub mod apply;
pub mod args;
pub mod disruption;
pub mod error;
pub mod exit;
pub mod podgc;
pub mod runtime;
pub mod taint_eviction;
pub mod ttl;
pub mod views;
