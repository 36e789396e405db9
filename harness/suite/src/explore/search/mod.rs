//! The search: reference runs of all fixtures, then plans in a fixed order until all are done or the budget ends.
//!
//! - [`options`], [`exploration`]: what to try, and the result
//! - [`coverage`]: the marks and rules that each strategy reached
//! - [`candidates`]: the plans in their order
//! - [`equal`]: leaves out plans whose runs cannot differ
//! - [`runs`]: reference runs and runs of plans
//! - [`engine`]: the queue of plans, and parallel runs
//! - [`random`]: the exploration of random histories
//! - [`canary`]: a controller with a planted bug that each exploration must find

pub mod canary;
pub mod candidates;
pub mod coverage;
pub mod engine;
pub mod equal;
pub mod exploration;
pub mod options;
pub mod random;
pub mod runs;

pub use engine::explore;
pub use exploration::Exploration;
pub use options::{ExploreOptions, Progress, Strategy};
