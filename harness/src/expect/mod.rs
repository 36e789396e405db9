//! Whether a run kept its promises. Pure: everything is judged afterwards, from the transcript.
//!
//! * [`world`] — the objects as they were at any point of the transcript.
//! * [`matching`] — partial match of JSON values; [`checks`] — one check at one point.
//! * [`temporal`] — the steps: at an instant, all through a window, some time in a window; replies.
//! * [`Live`] — whether a step's checks hold already, while the run goes on.
//! * [`traffic`] — order, completeness and explanation of the subject's requests.
//!
//! [`judge`] puts them together, with the always-on [`crate::invariants`].

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::fixture::Fixture;
use crate::invariants;
use crate::transcript::{Attributed as _, Entry, Exchange, Happening};

pub(crate) mod checks;
mod live;
pub mod matching;
mod temporal;
mod traffic;
pub mod world;

pub use live::Live;
use world::World;

/// What is left of a run: all that judging needs.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The time on the clock at `t=+0s`.
    pub start: Timestamp,
    /// The objects as the server had stored them before the controllers started.
    pub initial: &'a [Arc<Value>],
    /// What happened, in order.
    pub entries: &'a [Entry],
    /// For every step that was reached, in order: the length of the transcript when it was over and the world had come to
    /// rest. A window (`consistently`, `eventually`) is over at its end ([`crate::fixture::Step::end`]).
    pub marks: &'a [usize],
    /// What users' requests were answered, in order.
    pub replies: &'a [StepReply],
    /// The subject's metrics (Prometheus text) and when they were read. Only needed if the fixture has
    /// `metrics:` checks: then at the end of every step that has one, and at the end of the run.
    pub scrapes: &'a [(Duration, String)],
    /// How long the run was. If it was broken off, checks beyond it fail.
    pub end: Duration,
    /// How far off the clocks and the reactions may be. Zero in virtual time, where every time is exact; on a real clock
    /// [`crate::fixture::Fixture::tolerance`].
    pub tolerance: Duration,
    /// How much later still a reaction may come, see [`crate::fixture::Fixture::late`]. Zero in virtual time.
    pub late: Duration,
}

impl Run<'_> {
    /// Whether `at` is `wanted`, as far as the clock can tell.
    pub(crate) fn is_at(&self, wanted: Duration, at: Duration) -> bool {
        wanted <= at + self.tolerance && at <= wanted + self.tolerance + self.late
    }

    /// What a length of time may differ by if the server's clock measured both of its ends. The server sees the cause before
    /// the subject does and the effect after it, so what the subject waits for can only look longer. What is left is that two
    /// clocks tick and round differently: a twentieth of the tolerance, 50 ms of a second. So 39 s never pass for 40 s.
    pub(crate) fn slack(&self) -> Duration {
        self.tolerance / 20
    }
}

/// The answer to a request of a step. If there are several, only the last may fail.
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

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The line in the fixture's file (1-based); 0 for what no line says (invariants, unexplained writes).
    pub line: u64,
    /// When it failed, as an offset from the start.
    pub at: Duration,
    /// The entry of the transcript near which it failed ([`Entry::seq`]).
    pub seq: usize,
    /// What was checked, in the words of the fixture.
    pub check: String,
    /// What should have been.
    pub expected: String,
    /// What was.
    pub observed: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}: expected {}, observed {}", self.check, matching::at(self.at), self.expected, self.observed)
    }
}

/// Judges a run: every promise of `fixture` that was not kept, in order of the transcript.
pub fn judge(fixture: &Fixture, run: &Run<'_>) -> Vec<Failure> {
    let scene = Scene { fixture, run, begin: &World::new(run, &fixture.given.namespace) };
    let mut failures = temporal::steps(scene);
    failures.extend(temporal::at_the_end(scene));
    failures.extend(traffic::judge(scene));
    failures.extend(invariants::check(scene));
    failures.sort_by_key(|failure| failure.seq);
    failures
}

/// What is judged, and against what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    /// The promises.
    pub(crate) fixture: &'a Fixture,
    /// What happened.
    pub(crate) run: &'a Run<'a>,
    /// The world before the first entry.
    pub(crate) begin: &'a World,
}

/// The requests of a piece of a transcript.
pub(crate) fn requests(entries: &[Entry]) -> impl DoubleEndedIterator<Item = (&Entry, &Exchange)> {
    entries.iter().filter_map(|entry| match &entry.what {
        Happening::Request(exchange) => Some((entry, exchange.as_ref())),
        Happening::Change(_) | Happening::Note(_) => None,
    })
}

/// Whether it is a write of the subject that fixtures speak of: leases and reviews are its own business.
pub(crate) fn is_subject_write(entry: &Entry, exchange: &Exchange) -> bool {
    const OWN: [&str; 4] = ["leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"];
    entry.actor().is_subject()
        && exchange.request.is_write()
        && !OWN.contains(&exchange.request.resource.as_str())
        && exchange.request.subresource.as_deref() != Some("token")
}

/// `PATCH pods/a/status 200`: a request in a line, as a pattern would be written.
pub(crate) fn line(entry: &Entry, exchange: &Exchange) -> String {
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
