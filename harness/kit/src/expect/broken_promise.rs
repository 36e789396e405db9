//! A promise that was broken.

use std::time::Duration;

use crate::fixture::matching;

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPromise {
    /// The line in the fixture's file (1-based); 0 if no line demands it (invariants, unexplained writes).
    pub line: u64,
    /// Time of the failure, as an offset from the start.
    pub at: Duration,
    /// Position of the closest entry of the transcript ([`TranscriptEntry::seq`]).
    pub seq: usize,
    /// The check, in the words of the fixture.
    pub check: String,
    /// The expected state.
    pub expected: String,
    /// The observed state.
    pub observed: String,
}

impl std::fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}: expected {}, observed {}", self.check, matching::at(self.at), self.expected, self.observed)
    }
}
