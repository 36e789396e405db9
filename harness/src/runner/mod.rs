//! Runs fixtures.
pub mod isolate;
pub mod log;
