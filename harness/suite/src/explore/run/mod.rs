//! A run of a history with faults, and the facts that oracles compare.
//!
//! - [`script`]: the fixture that a plan runs: no checks, time to converge, and a restart at the end
//! - [`execute`]: runs it
//! - [`observation`]: the facts of a run
//! - [`explored`]: a run to judge, and the run without faults to compare it with
//! - [`moments`]: the circumstances of the points of a run
//! - [`marks`]: the situations that an exploration is to see at least once

pub mod execute;
pub mod explored;
pub mod marks;
pub mod moments;
pub mod observation;
pub mod script;
