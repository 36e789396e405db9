//! The core of explorations: what the explorer of worlds and that of fixtures share.
//!
//! - [`point`]: the requests and events of a reference run at which a fault can happen
//! - [`disturbance`]: the kinds of fault, and their translation into the words of fixtures
//! - [`state`]: objects without what differs from run to run; digests and differences of them

pub mod disturbance;
pub mod point;
pub mod state;
