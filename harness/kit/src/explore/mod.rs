//! The core of explorations: what the explorer of worlds and that of fixtures share.
//!
//! - [`faults`]: the kinds of fault, the points at which they can happen, and plans
//! - [`schedule`]: the order of plans, and the times of runs
//! - [`state`]: objects without what differs from run to run; digests and differences of them
//! - [`entries`], [`work`], [`knowledge`]: the states of objects that controllers could know, from the record alone
//! - [`blind`], [`left`]: oracles that need no other run
//! - [`breach`], [`findings`]: breaches of oracles; those with the same fingerprint are one finding

pub mod blind;
pub mod breach;
pub mod entries;
pub mod faults;
pub mod findings;
pub mod knowledge;
pub mod left;
pub mod schedule;
pub mod state;
pub mod work;
