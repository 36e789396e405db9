//! Evaluates the checks of a step while the run is still going on.

use super::Run;
use super::checks::{CheckPoint, evaluate};
use super::world::ObjectStates;
use crate::fixture::{Check, Fixture, StepKind};
use crate::transcript::TranscriptEntry;

/// Follows a run in wall time, so that a step waits no longer than necessary. Keeps the cluster state between calls:
/// each call costs only the new entries and the checks, not the whole run.
#[derive(Debug)]
pub struct LiveChecker<'a> {
    fixture: &'a Fixture,
    world: ObjectStates,
    seen: usize,
}

impl<'a> LiveChecker<'a> {
    /// Creates a follower at the begin of `run`, of which it uses only `initial`.
    #[must_use]
    pub fn new(fixture: &'a Fixture, run: &Run<'_>) -> Self {
        Self { fixture, world: ObjectStates::new(run, &fixture.given.namespace), seen: 0 }
    }

    /// Returns true if all checks of step `index` hold at the current end of `run`, so that the runner need not wait
    /// any longer. An index after the last step means the fixture's `expect`.
    ///
    /// Each call gets the same run with more entries: `entries` up to now, `marks` of the finished steps, and the
    /// current time as `end`. Returns true for actions, which need no waiting, and false for `consistently`, which
    /// always lasts until its end.
    pub fn holds(&mut self, run: &Run<'_>, index: usize) -> bool {
        let new = run.entries.get(self.seen..).unwrap_or_default();
        for entry in new {
            self.world.step(entry);
        }
        self.seen = self.seen.max(run.entries.len());
        let instant = |at, checks: &[Check]| self.hold(run, run.entries, (at, false), checks);
        let Some(step) = self.fixture.steps.get(index) else { return instant(run.end, &self.fixture.expect) };
        match &step.kind {
            StepKind::Do { .. } => true,
            StepKind::Consistently { .. } => false,
            StepKind::Expect { checks } => instant(step.at, checks),
            StepKind::Eventually { checks, .. } => {
                let over = index.checked_sub(1).and_then(|before| run.marks.get(before)).copied();
                let begin = over.unwrap_or_else(|| run.entries.partition_point(|entry| entry.at.is_zero()));
                let window = run.entries.get(begin..).unwrap_or_default();
                self.hold(run, window, (run.end, true), checks)
            }
        }
    }

    fn hold(
        &self,
        run: &Run<'_>,
        entries: &[TranscriptEntry],
        (at, window): (std::time::Duration, bool),
        checks: &[Check],
    ) -> bool {
        let point = CheckPoint { run, world: &self.world, entries, at, window };
        checks.iter().all(|check| evaluate(check, point).is_ok())
    }
}
