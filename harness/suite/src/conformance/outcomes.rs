//! Outcomes of fixtures, and their numbers. PURE.

use serde::{Deserialize, Serialize};

use crate::report;

/// Outcome of a fixture. Like [`report::Outcome`], with known deviations separate from failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConformanceOutcome {
    /// Everything behaved as promised.
    Pass,
    /// A check failed.
    Fail,
    /// A check failed, and the file of known deviations explains it.
    KnownDeviation,
    /// It passed only on a later attempt.
    Flaky,
    /// The machine was too busy for the result to show anything, also when the fixture was repeated alone.
    Inconclusive,
    /// The cluster lacks a capability that it requires.
    Skip,
    /// The subject does not implement the tested controller or feature.
    Unsupported,
    /// The run ended before it was run.
    NotRun,
}

impl ConformanceOutcome {
    /// All outcomes, in the order of summaries.
    pub const ALL: [Self; 8] = [
        Self::Pass,
        Self::Fail,
        Self::KnownDeviation,
        Self::Flaky,
        Self::Inconclusive,
        Self::Skip,
        Self::Unsupported,
        Self::NotRun,
    ];

    /// The word in sentences: `3 passed`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Pass => "passed",
            Self::Fail => "failed",
            Self::KnownDeviation => "known to deviate",
            Self::Flaky => "flaky",
            Self::Inconclusive => "inconclusive",
            Self::Skip => "skipped",
            Self::Unsupported => "unsupported",
            Self::NotRun => "not run",
        }
    }

    /// Returns true if the fixture ran to its end.
    #[must_use]
    pub const fn has_run(self) -> bool {
        matches!(self, Self::Pass | Self::Fail | Self::KnownDeviation | Self::Flaky | Self::Inconclusive)
    }

    /// Returns true if another run may have a result: the fixture was not run, or the machine was too busy.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::NotRun | Self::Inconclusive)
    }

    /// Returns true if the outcome needs a reason. The reason of a failure is in the evidence.
    #[must_use]
    pub const fn needs_reason(self) -> bool {
        !matches!(self, Self::Pass | Self::Fail)
    }
}

impl From<report::Outcome> for ConformanceOutcome {
    fn from(outcome: report::Outcome) -> Self {
        match outcome {
            report::Outcome::Pass => Self::Pass,
            report::Outcome::Fail => Self::Fail,
            report::Outcome::Flaky => Self::Flaky,
            report::Outcome::Inconclusive => Self::Inconclusive,
            report::Outcome::Skip => Self::Skip,
            report::Outcome::Unsupported => Self::Unsupported,
            report::Outcome::NotRun => Self::NotRun,
        }
    }
}

/// Numbers of fixtures by outcome; derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "one for each ConformanceOutcome")]
pub struct OutcomeCounts {
    pub total: usize,
    pub pass: usize,
    pub fail: usize,
    pub known_deviation: usize,
    pub flaky: usize,
    // Absent in reports of earlier versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inconclusive: usize,
    pub skip: usize,
    pub unsupported: usize,
    pub not_run: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl OutcomeCounts {
    /// Counts outcomes.
    #[must_use]
    pub fn of(outcomes: impl IntoIterator<Item = ConformanceOutcome>) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            counts.total += 1;
            *counts.slot(outcome) += 1;
        }
        counts
    }

    const fn slot(&mut self, outcome: ConformanceOutcome) -> &mut usize {
        match outcome {
            ConformanceOutcome::Pass => &mut self.pass,
            ConformanceOutcome::Fail => &mut self.fail,
            ConformanceOutcome::KnownDeviation => &mut self.known_deviation,
            ConformanceOutcome::Flaky => &mut self.flaky,
            ConformanceOutcome::Inconclusive => &mut self.inconclusive,
            ConformanceOutcome::Skip => &mut self.skip,
            ConformanceOutcome::Unsupported => &mut self.unsupported,
            ConformanceOutcome::NotRun => &mut self.not_run,
        }
    }

    /// Returns the number of fixtures with this outcome.
    #[must_use]
    pub const fn get(mut self, outcome: ConformanceOutcome) -> usize {
        *self.slot(outcome)
    }

    /// Formats `44 passed, 1 failed`, without zero counts.
    #[must_use]
    pub fn tally(self) -> String {
        let parts = ConformanceOutcome::ALL.into_iter().filter(|outcome| self.get(*outcome) > 0);
        parts.map(|outcome| format!("{} {}", self.get(outcome), outcome.words())).collect::<Vec<_>>().join(", ")
    }
}
