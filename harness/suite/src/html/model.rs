//! The data of a timeline, as the page's script reads it. PURE.
//!
//! Times are milliseconds since `t=+0s`. Events, arrows and bands refer to each other by position.

use serde::Serialize;
use serde_json::Value;

use crate::conformance::compare::DiffRow;

/// Format of the page's data. Within a version, fields may be added but keep their meaning.
pub const FORMAT: &str = "plumbline-html/v1";

/// Maximum number of failures of a timeline.
pub const MAX_FAILURES: usize = 100;
/// Maximum number of lines of the subject's log.
pub const MAX_LOG: usize = 200;
/// Maximum length of a failure's expected and observed state, in characters.
pub const MAX_STATE: usize = 20_000;
/// Maximum number of lines of two transcripts side by side.
pub const MAX_LINES: usize = 4000;
/// Number of equal lines that are kept before the first difference of long transcripts.
pub const LINES_BEFORE: usize = 50;

/// The timeline of one fixture's run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The fixture's id.
    pub id: String,
    /// The promise, in a sentence.
    pub promise: String,
    /// Rules and catalogue entries.
    pub rules: Vec<String>,
    /// A line for each rule: its id, and a sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rule_lines: Vec<String>,
    /// Level and feature: `core (podgc.orphaned)`.
    pub level: String,
    /// The outcome in a word: `failed`.
    pub outcome: String,
    /// The reason, if the outcome has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The fixture's file.
    pub file: String,
    /// Duration of the run.
    pub end: u64,
    /// The lanes, from top to bottom.
    pub lanes: Vec<Lane>,
    /// The events, in order.
    pub events: Vec<TimelineEvent>,
    /// Number of events before some were left out.
    pub total: usize,
    /// Number of events whose objects were left out.
    pub without_objects: usize,
    /// Causes and effects.
    pub arrows: Vec<Arrow>,
    /// Faults, crashes and outages.
    pub bands: Vec<Band>,
    /// The fixture's steps.
    pub steps: Vec<StepMark>,
    /// The failures, at most [`MAX_FAILURES`].
    pub failures: Vec<FailureMark>,
    /// Number of failures before some were left out.
    pub failures_total: usize,
    /// The subject's log, at most [`MAX_LOG`] lines.
    pub log: Vec<String>,
    /// Number of lines before some were left out.
    pub log_total: usize,
    /// The accepted snapshot and the transcript of a failed run side by side, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AlignedLines>,
}

/// Two transcripts side by side. Of long ones only the part around the first difference is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AlignedLines {
    /// The lines.
    pub rows: Vec<DiffRow>,
    /// Number of lines that are left out before them.
    pub before: usize,
    /// Number of all lines.
    pub total: usize,
}

impl AlignedLines {
    /// Keeps the part of `rows` around the first difference.
    #[must_use]
    pub fn around_first_difference(rows: &[DiffRow]) -> Self {
        let total = rows.len();
        let first = rows.iter().position(|row| !row.same).unwrap_or_default();
        let before = if total > MAX_LINES { first.saturating_sub(LINES_BEFORE) } else { 0 };
        Self { rows: rows.iter().skip(before).take(MAX_LINES).cloned().collect(), before, total }
    }
}

/// A lane: everything that one actor did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// The actor's name, as in transcripts.
    pub name: String,
    /// `user`, `harness`, `server`, `kubelet`, `informers`, `controller` or `other`.
    pub kind: &'static str,
}

/// The kind of an event, which decides its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EventKind {
    /// A request that can change an object.
    Write,
    /// GET, LIST, discovery.
    Read,
    /// A watch is opened.
    Watch,
    /// A watch event was sent to a client.
    Delivery,
    /// The server itself changes an object.
    Change,
    /// The harness acts.
    Note,
}

/// An event of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEvent {
    /// Time of the event.
    pub at: u64,
    /// Position in [`Timeline::lanes`].
    pub lane: usize,
    /// The kind.
    pub kind: EventKind,
    /// The verb: `PATCH`, `removed`, `MODIFIED`.
    pub verb: String,
    /// The object, or the text of a note.
    pub object: String,
    /// Reply, preconditions and options in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tail: String,
    /// Messages and differences, one per line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// True for requests that failed, were lost or have no reply.
    #[serde(skip_serializing_if = "is_false")]
    pub failed: bool,
    /// True for writes of the subject at the moment of a failed check: what they did broke it.
    #[serde(skip_serializing_if = "is_false")]
    pub broke: bool,
    /// The fault that made or changed the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Time of the reply, if it came later than the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replied: Option<u64>,
    /// The request; absent for other events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestText>,
    /// The reply's code, reason and message; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// The changes that it made, or that are delivered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ObjectChange>,
}

impl TimelineEvent {
    /// Creates an event without a request and changes.
    #[must_use]
    pub(super) fn plain(at: u64, lane: usize, kind: EventKind, verb: &str, object: String) -> Self {
        Self {
            at,
            lane,
            kind,
            verb: verb.to_owned(),
            object,
            tail: String::new(),
            details: Vec::new(),
            failed: false,
            broke: false,
            fault: None,
            replied: None,
            request: None,
            reply: None,
            changes: Vec::new(),
        }
    }
}

// `skip_serializing_if` hands over a reference.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde demands this signature")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// A request as it was sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestText {
    /// Method, path and query.
    pub line: String,
    /// The user agent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// The body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
}

/// An object before and after a change. The script restores what is left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// The object: `pods/a`.
    pub object: String,
    /// The object before; absent if it is new or `chained`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// True if the object before is the object after its previous change in this timeline.
    #[serde(skip_serializing_if = "is_false")]
    pub chained: bool,
    /// JSON merge patch (RFC 7386) from before to after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    /// The object after; absent if it is gone or there is a `patch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// An arrow from cause to effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Arrow {
    /// Position of the cause in [`Timeline::events`].
    pub from: usize,
    /// Position of the effect.
    pub to: usize,
    /// The evidence.
    pub kind: ArrowKind,
}

/// The evidence for an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ArrowKind {
    /// The watch event is about this change.
    Delivers,
    /// The write names the resource version of this change.
    Version,
    /// The change of the same object reached the actor last before its write, at the same time.
    Object,
    /// A change of another object reached the actor last before its write, at the same time.
    Time,
}

/// A period of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Band {
    /// Begin.
    pub from: u64,
    /// End.
    pub to: u64,
    /// `crash`, `stopped`, `outage`, `watch`, `list`, `clock`.
    pub kind: &'static str,
    /// The fault in words.
    pub text: String,
}

/// A step of the fixture on the axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepMark {
    /// Line in the fixture's file.
    pub line: u64,
    /// Begin.
    pub from: u64,
    /// End; equal to `from` for an instant.
    pub to: u64,
    /// `do`, `expect`, `consistently`, `eventually`, `end`.
    pub kind: &'static str,
    /// The checks, or the author's remark, in words.
    pub text: String,
    /// `pass`, `fail`, or empty for steps that were not judged.
    pub verdict: &'static str,
}

/// A failure on the axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureMark {
    /// Time, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Line in the fixture's file; 0 if no line demands it.
    pub line: u64,
    /// The failed check.
    pub message: String,
    /// The expected state.
    pub expected: String,
    /// The observed state.
    pub observed: String,
}
