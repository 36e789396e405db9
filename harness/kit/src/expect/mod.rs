//! Judges a run after it has ended, from the transcript alone. Pure.
//!
//! * [`world`] — the objects as they were at any point of the transcript.
//! * [`checks`] — one check at one point.
//! * [`temporal`] — the steps: at an instant, during a whole window, at some time of a window; replies.
//! * [`LiveChecker`] — evaluates the checks of a step while the run is still going on.
//! * [`races`] — what the threads of a program may do late, or twice.
//! * [`traffic`] — order, completeness and explanation of the subject's requests.
//!
//! [`judge`] combines them. The always-on invariants (`crate::invariants`) are judged separately, with the same
//! context.

mod broken_promise;
pub(crate) mod checks;
mod judge_context;
mod live;
pub(crate) mod races;
mod requests;
mod run;
mod temporal;
mod traffic;
pub mod world;

use crate::fixture::Fixture;

pub use broken_promise::BrokenPromise;
pub(crate) use judge_context::JudgeContext;
pub use live::LiveChecker;
pub use races::retries_until;
pub use requests::{is_subject_write, line, requests};
pub use run::{Run, StepReply};
use world::ObjectStates;

/// Judges a run: returns every broken promise of `fixture` itself, in order of the transcript.
pub fn judge(fixture: &Fixture, run: &Run<'_>) -> Vec<BrokenPromise> {
    let begin = ObjectStates::new(run, &fixture.given.namespace);
    let context = JudgeContext { fixture, run, begin: &begin };
    let mut failures = temporal::steps(context);
    failures.extend(temporal::at_the_end(context));
    failures.extend(traffic::judge(context));
    failures.sort_by_key(|failure| failure.seq);
    failures
}

/// Judges the expectations at the end of `run` and those about its requests. Unlike in [`judge`], a write that no
/// expectation explains is fine unless the fixture has `only`. `quiet` is about the entries from `window` on.
pub(crate) fn judge_now(fixture: &Fixture, run: &Run<'_>, window: usize) -> Vec<BrokenPromise> {
    let begin = ObjectStates::new(run, &fixture.given.namespace);
    let context = JudgeContext { fixture, run, begin: &begin };
    let mut failures = temporal::at_the_end_of(context, window);
    failures.extend(traffic::judge_listed(context));
    failures.sort_by_key(|failure| failure.seq);
    failures
}

/// Returns a check in the words of a fixture, as [`BrokenPromise::check`] has it.
#[must_use]
pub fn check_text(check: &crate::fixture::Check) -> String {
    checks::describe(check)
}
