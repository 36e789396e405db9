#![doc = include_str!("../README.md")]

pub mod api;
pub mod app;
pub mod args;
pub mod connect;
pub mod context;
pub mod disruption;
pub mod exit;
pub mod podgc;
pub mod runtime;
pub mod taint_eviction;
pub mod ttl;
pub mod write;
