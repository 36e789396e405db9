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

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::fixture::{Fixture, matching};
use crate::transcript::{
    Actor, Attributed as _, Delivery, EntryKind, Exchange, RecordedJson, TranscriptEntry, is_judged,
};

pub(crate) mod checks;
mod live;
pub(crate) mod races;
mod temporal;
mod traffic;
pub mod world;

pub use live::LiveChecker;
pub use races::retries_until;
use world::ObjectStates;

/// The record of a run: everything that judging needs.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The time on the clock at `t=+0s`.
    pub start: Timestamp,
    /// The objects as the server had stored them before the controllers started.
    pub initial: &'a [RecordedJson],
    /// The transcript's entries, in order.
    pub entries: &'a [TranscriptEntry],
    /// For every step that was reached, in order: the length of the transcript when the step was over and the cluster
    /// had become idle. A window (`consistently`, `eventually`) is over at its end ([`crate::fixture::Step::end`]).
    pub marks: &'a [usize],
    /// The replies to users' requests, in order.
    pub replies: &'a [StepReply],
    /// The subject's metrics (Prometheus text) and the times at which they were read. Needed only for fixtures with
    /// `metrics:` checks: at the end of every step that has one, and at the end of the run.
    pub scrapes: &'a [(Duration, String)],
    /// Duration of the run. If it was interrupted, checks after this time fail.
    pub end: Duration,
    /// Allowed deviation of clocks and reactions. Zero in virtual time, where every time is exact; on a real clock
    /// [`crate::fixture::Fixture::tolerance`].
    pub tolerance: Duration,
    /// Additional delay allowed for reactions, see [`crate::fixture::Fixture::late`]. Zero in virtual time.
    pub late: Duration,
    /// The watch events, if the subject's threads race: see [`races`]. `None` if its tasks run one at a time.
    pub deliveries: Option<&'a [Delivery]>,
}

impl Run<'_> {
    /// Returns true if `at` equals `wanted`, within the tolerances of the clock, or is that of a retry after a conflict
    /// at that time.
    pub(crate) fn is_at(&self, wanted: Duration, at: Duration) -> bool {
        let leeway = self.tolerance + self.late;
        let is_retry = || self.deliveries.is_some() && at <= retries_until(self.entries, wanted) + leeway;
        wanted <= at + self.tolerance && (at <= wanted + leeway || is_retry())
    }

    /// Returns the allowed error of a duration whose ends were both measured by the server's clock. The server records
    /// the cause before the subject sees it, and the effect after the subject acted, so the subject's wait can only
    /// appear longer. The remaining error comes from different ticks and rounding of two clocks: a twentieth of the
    /// tolerance, 50 ms of a second. So 39 s are never accepted for 40 s.
    pub fn slack(&self) -> Duration {
        self.tolerance / 20
    }
}

/// The reply to a request of a step. If a step has several requests, only the last may fail.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReply {
    /// Index in `Fixture::steps`.
    pub step: usize,
    /// HTTP status code.
    pub code: u16,
    /// Value of the `Retry-After` header, seconds.
    pub retry_after: Option<u32>,
    /// The body: an object or a `Status`.
    pub body: Value,
}

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

/// The fixture and the run to judge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JudgeContext<'a> {
    /// The promises.
    pub(crate) fixture: &'a Fixture,
    /// The recorded run.
    pub(crate) run: &'a Run<'a>,
    /// The objects before the first entry.
    pub(crate) begin: &'a ObjectStates,
}

/// Returns the requests among `entries`.
pub fn requests(entries: &[TranscriptEntry]) -> impl DoubleEndedIterator<Item = (&TranscriptEntry, &Exchange)> {
    entries.iter().filter_map(|entry| match &entry.what {
        EntryKind::Request(exchange) => Some((entry, exchange.as_ref())),
        EntryKind::Change(_) | EntryKind::Note(_) => None,
    })
}

/// Returns true for writes of the subject that fixtures cover. Leases, token requests and reviews are the subject's
/// own.
pub fn is_subject_write(entry: &TranscriptEntry, exchange: &Exchange) -> bool {
    const OWN: [&str; 4] = ["leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"];
    let actor = entry.actor();
    actor.is_subject()
        && exchange.request.is_write()
        && (!matches!(actor, Actor::Bystander(_)) || is_judged(&exchange.request.resource))
        && !OWN.contains(&exchange.request.resource.as_str())
        && exchange.request.subresource.as_deref() != Some("token")
}

/// Formats a request in one line, in the form of a request pattern: `PATCH pods/a/status 200`.
pub fn line(entry: &TranscriptEntry, exchange: &Exchange) -> String {
    use std::fmt::Write as _;
    let request = &exchange.request;
    let verb = match request.verb.as_str() {
        "create" => "POST",
        "update" => "PUT",
        "deletecollection" => "DELETE",
        other => &other.to_uppercase(),
    };
    let mut text = format!("{} {} {verb} ", matching::at(entry.at), entry.actor());
    if let Some(namespace) = request.namespace.as_deref().filter(|namespace| *namespace != "default") {
        let _ = write!(text, "{namespace}:");
    }
    text.push_str(&request.resource);
    for part in [&request.name, &request.subresource].into_iter().flatten() {
        let _ = write!(text, "/{part}");
    }
    match &exchange.reply {
        Some(reply) => {
            let _ = write!(text, " {}", reply.status);
        }
        None => text.push_str(" (no reply)"),
    }
    text
}

/// Returns a check in the words of a fixture, as [`BrokenPromise::check`] has it.
#[must_use]
pub fn check_text(check: &crate::fixture::Check) -> String {
    checks::describe(check)
}
