//! All integration tests that use the standard test harness, in one program, which is linked only once.

mod apiserver;
mod bad_fixtures;
mod broken;
mod catalogue;
mod cli;
mod clients;
mod conformance;
mod determinism;
mod failover;
mod fixtures;
mod fleet;
mod fuzz;
mod hostile;
mod image;
mod judging;
mod kubectl;
mod runner;
mod scale;
mod serve;
mod serving;
mod skips;
mod soak;
mod subjects;
mod support;
mod tidy;
mod trouble;
