//! Options and progress of explorations.

use std::time::Duration;

/// The plans to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Strategy {
    /// Each fault at each point
    Single,
    /// Two faults, the second at one of the next requests after the first
    Pairs,
    /// Simultaneous requests and events in another order
    Order,
    /// Random histories with random faults
    Random,
    /// All of these: single faults, orders, pairs, and random histories for the last part of the budget
    All,
}

/// Options of an exploration.
#[derive(Debug, Clone, Copy)]
pub struct ExploreOptions {
    /// Number of runs at the same time.
    pub jobs: usize,
    /// Decides the order of the plans.
    pub seed: u64,
    /// The plans to try.
    pub strategy: Strategy,
    /// No run begins after this wall time.
    pub budget: Option<Duration>,
    /// This part of the plans, of so many parts: `(1, 1)` is all of them.
    pub shard: (u64, u64),
    /// Fixtures with more objects are left out, because each of their runs takes as long as many others.
    pub most_objects: usize,
    /// No run begins after the first finding.
    pub fail_fast: bool,
    /// Number of random worlds; `None`: as many as the budget allows, or 256 without a budget.
    pub worlds: Option<u64>,
}

impl Default for ExploreOptions {
    fn default() -> Self {
        Self {
            jobs: 1,
            seed: 1,
            strategy: Strategy::Single,
            budget: None,
            shard: (1, 1),
            most_objects: 200,
            fail_fast: false,
            worlds: None,
        }
    }
}

/// Progress of an exploration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of runs.
    pub runs: u64,
    /// Number of plans that are done.
    pub done: usize,
    /// Number of plans to do.
    pub planned: usize,
    /// Number of findings.
    pub findings: usize,
    /// Wall time since the start.
    pub wall: Duration,
}
