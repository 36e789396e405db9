//! Faults of explorations: their kinds, where they can happen, and what they do.
//!
//! - [`kinds`]: the table of faults, one row for each
//! - [`inject`]: their translation into the faults and steps of a fixture
//! - [`point`]: the requests and events of a reference run at which they can happen
//! - [`plan`]: faults at points of a run, and the token that repeats them

pub mod inject;
pub mod kinds;
pub mod plan;
pub mod point;

pub use kinds::{Disturbance, FaultTrait};
