//! The facts of a run that oracles compare. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use plumbline::expect::{is_subject_write, line};
use plumbline::explore::entries::changed_by;
use plumbline::explore::state::StateDigest;
use plumbline::invariants;
use plumbline::rules::recorder::event_of;
use plumbline::transcript::{Actor, Attributed as _, EntryKind, Exchange, TranscriptEntry};

use super::script::Script;
use crate::runner::RunRecord;

/// The facts of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observation {
    /// The replies to the fixture's own steps, in order.
    pub replies: Vec<u16>,
    /// The state before each of the fixture's own steps.
    pub boundaries: Vec<u64>,
    /// The state at the end of the quiet window.
    pub state: u64,
    /// Length of the transcript at the end of the quiet window.
    pub quiet_at: usize,
    /// Number of effective writes of the subject before the end of the quiet window.
    pub writes: BTreeMap<RequestKey, u32>,
    /// Time of the last of them.
    pub last_writes: BTreeMap<RequestKey, Duration>,
    /// Writes of the subject in the quiet window, except for Events.
    pub late: Vec<SubjectWrite>,
    /// Effective writes of the fresh controllers at the end, except for Events.
    pub fresh: Vec<SubjectWrite>,
    /// The subject's Events before the end of the quiet window: the object and the reason.
    pub events: BTreeSet<(String, String)>,
    /// Number of objects that other clients created and deleted, by resource, namespace and name.
    pub others: BTreeMap<(String, String, String), (u32, u32)>,
    /// Number of the subject's requests that faults of the fixture or of the plan answered.
    pub faulted: usize,
    /// Number of the subject's requests before the end of the quiet window that a fault kept from taking effect.
    pub refused: BTreeMap<RequestKey, u32>,
}

/// The target of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    /// The sender.
    pub actor: Actor,
    /// API verb.
    pub verb: String,
    /// `pods`, `pods/status`
    pub resource: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl RequestKey {
    fn new(entry: &TranscriptEntry, exchange: &Exchange) -> Self {
        let request = &exchange.request;
        Self {
            actor: entry.actor(),
            verb: request.verb.clone(),
            resource: request.resource_path(),
            namespace: request.namespace.clone().unwrap_or_default(),
            name: request.name.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { actor, verb, resource, name, .. } = self;
        match resource.split_once('/') {
            Some((resource, subresource)) => write!(f, "{actor} {verb} {resource}/{name}/{subresource}"),
            None => write!(f, "{actor} {verb} {resource}/{name}"),
        }
    }
}

/// A write of the subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectWrite {
    /// Its target.
    pub key: RequestKey,
    /// Its time.
    pub at: Duration,
    /// Its entry in the transcript.
    pub seq: usize,
    /// The request as in a transcript.
    pub text: String,
}

/// Collects the facts of a run of `script`.
#[must_use]
pub fn observe(script: &Script, record: &RunRecord, entries: &[TranscriptEntry]) -> Observation {
    let mark = |step: usize| record.marks.get(step).copied().unwrap_or(entries.len());
    let original = |step: usize| script.boundaries.iter().any(|boundary| boundary.action == step);
    let replies = record.replies.iter().filter(|reply| original(reply.step)).map(|reply| reply.code).collect();
    let converged = mark(script.converged);
    let quiet = mark(script.quiet);
    let mut observation = Observation { replies, quiet_at: quiet, ..Observation::default() };
    let mut digest = StateDigest::default();
    let mut boundaries = script.boundaries.iter().map(|boundary| mark(boundary.marker)).peekable();
    let effective: BTreeSet<usize> = entries.iter().filter_map(changed_by).collect();
    for entry in entries {
        while boundaries.next_if(|at| *at <= entry.seq).is_some() {
            observation.boundaries.push(digest.history);
        }
        if entry.seq == quiet {
            observation.state = digest.full;
        }
        digest.step(entry);
        match &entry.what {
            EntryKind::Change(change) => {
                if is_by_others(entry) {
                    let namespace = change.namespace.clone().unwrap_or_default();
                    let key = (change.resource.clone(), namespace, change.name.clone());
                    let (created, deleted) = observation.others.entry(key).or_default();
                    *created += u32::from(change.old.is_none());
                    *deleted += u32::from(change.new.is_none());
                }
                if change.resource == "events" && entry.seq < quiet {
                    observation.events.extend(change.new.as_deref().map(event_of));
                }
                let writer = change.request.and_then(|seq| entries.get(seq)).and_then(subject_write);
                let Some(key) = writer.filter(|_| !invariants::is_idle(change)) else { continue };
                if entry.seq < quiet {
                    observation.last_writes.insert(key.clone(), entry.at);
                    *observation.writes.entry(key).or_default() += 1;
                } else if !is_event(&key) && change.request.is_some_and(|seq| seq >= quiet) {
                    observation.fresh.extend(change.request.and_then(|seq| write_at(entries, seq)));
                }
            }
            EntryKind::Request(exchange) => {
                if entry.actor().is_subject() && exchange.reply.as_ref().is_some_and(|reply| reply.fault.is_some()) {
                    observation.faulted += usize::from(entry.seq < converged);
                }
                if entry.seq < quiet && is_refused(entry, exchange) && !effective.contains(&entry.seq) {
                    *observation.refused.entry(RequestKey::new(entry, exchange)).or_default() += 1;
                }
                if (converged..quiet).contains(&entry.seq) && subject_write(entry).is_some_and(|key| !is_event(&key)) {
                    observation.late.extend(write_at(entries, entry.seq));
                }
            }
            EntryKind::Note(_) => {}
        }
    }
    observation.boundaries.extend(boundaries.map(|_| digest.history));
    if quiet >= entries.len() {
        observation.state = digest.full;
    }
    observation
}

/// Returns true for a request of the subject that a fault answered with an error, or that got no reply.
fn is_refused(entry: &TranscriptEntry, exchange: &Exchange) -> bool {
    let by_fault = exchange.reply.as_ref().is_none_or(|reply| reply.fault.is_some() && reply.status >= 300);
    entry.actor().is_subject() && exchange.request.verb != "watch" && by_fault
}

fn is_by_others(entry: &TranscriptEntry) -> bool {
    !entry.actor().is_subject() && entry.actor() != Actor::Server
}

fn is_event(key: &RequestKey) -> bool {
    key.resource == "events"
}

/// Returns the target of an entry that is a write of the subject.
pub(in crate::explore) fn subject_write(entry: &TranscriptEntry) -> Option<RequestKey> {
    match &entry.what {
        EntryKind::Request(exchange) if is_subject_write(entry, exchange) => Some(RequestKey::new(entry, exchange)),
        _ => None,
    }
}

fn write_at(entries: &[TranscriptEntry], seq: usize) -> Option<SubjectWrite> {
    let entry = entries.get(seq)?;
    let EntryKind::Request(exchange) = &entry.what else { return None };
    Some(SubjectWrite { key: subject_write(entry)?, at: entry.at, seq, text: line(entry, exchange) })
}
