//! All integration tests that need no test runner of their own, as one program: one link instead of twenty.

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
