#![doc = include_str!("../README.md")]

pub mod actions;
pub mod app;
pub mod apply;
pub mod args;
pub mod connect;
pub mod disruption;
pub mod error;
pub mod exit;
pub mod podgc;
pub mod runtime;
pub mod taint_eviction;
pub mod ttl;
pub mod views;
