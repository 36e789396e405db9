//! Evaluates the checks of a step while the run is still going on.

use super::checks::{CheckPoint, evaluate};
use super::run::Run;
use super::world::ObjectStates;
use crate::fixture::{Check, Fixture, StepKind};
use crate::transcript::TranscriptEntry;

/// Follows a run in wall time, so that a step waits no longer than necessary. Keeps the cluster state between calls:
/// each call costs only the new entries and the checks, not the whole run.
#[derive(Debug)]
pub struct LiveChecker<'a> {
    fixture: &'a Fixture,
    /// The state after the entries that were seen; `None` before the first call.
    world: Option<ObjectStates>,
    seen: usize,
}

impl<'a> LiveChecker<'a> {
    /// Creates a follower of a run that begins.
    #[must_use]
    pub const fn new(fixture: &'a Fixture) -> Self {
        Self { fixture, world: None, seen: 0 }
    }

    /// Returns true if all checks of step `index` hold at the current end of `run`, so that the runner need not wait
    /// any longer. An index after the last step means the fixture's `expect`.
    ///
    /// Each call gets the same run with more entries: `entries` up to now, `marks` of the finished steps, and the
    /// current time as `end`. Returns true for actions, which need no waiting, and false for `consistently`, which
    /// always lasts until its end.
    pub fn holds(&mut self, run: &Run<'_>, index: usize) -> bool {
        let new = run.entries.get(self.seen..).unwrap_or_default();
        let world = self.world.get_or_insert_with(|| ObjectStates::new(run, &self.fixture.given.namespace));
        for entry in new {
            world.step(entry);
        }
        self.seen = self.seen.max(run.entries.len());
        let instant = |at, checks: &[Check]| hold(run, world, run.entries, (at, false), checks);
        let Some(step) = self.fixture.steps.get(index) else { return instant(run.end, &self.fixture.expect) };
        match &step.kind {
            StepKind::Do { .. } => true,
            StepKind::Consistently { .. } => false,
            StepKind::Expect { checks } => instant(step.at, checks),
            StepKind::Eventually { checks, .. } => {
                let over = index.checked_sub(1).and_then(|before| run.marks.get(before)).copied();
                let begin = over.unwrap_or_else(|| run.entries.partition_point(|entry| entry.at.is_zero()));
                let window = run.entries.get(begin..).unwrap_or_default();
                hold(run, world, window, (run.end, true), checks)
            }
        }
    }
}

fn hold(
    run: &Run<'_>,
    world: &ObjectStates,
    entries: &[TranscriptEntry],
    (at, window): (std::time::Duration, bool),
    checks: &[Check],
) -> bool {
    let point = CheckPoint { run, world, entries, at, window };
    checks.iter().all(|check| evaluate(check, point).is_ok())
}
