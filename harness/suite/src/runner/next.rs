//! The way in which a run goes on after a step.

use std::time::Duration;

/// The next step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// It and all later steps come earlier by this time.
    Sooner(Duration),
    /// The run is over.
    None,
}

impl NextStep {
    /// No step comes earlier.
    pub const AT_ITS_TIME: Self = Self::Sooner(Duration::ZERO);
}
