//! Builds the timeline of a run from its record. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plumbline::fixture::Fixture;
use plumbline::transcript::redact::Redactions;
use plumbline::transcript::render::{EntryText, changes_of_requests, describe, object_of, object_text};
use plumbline::transcript::{
    Actor, Attributed as _, Change, ChangeKind, EntryKind as Entry, Exchange, RecordedRequest, TranscriptEntry,
};
use serde_json::Value;

use super::causes::CauseFinder;
use super::model::{
    EventKind, FailureMark, Lane, MAX_FAILURES, MAX_LOG, MAX_STATE, ObjectChange, RequestText, Timeline, TimelineEvent,
};
use super::notes::{self, millis};
use super::watches::{self, WatchDelivery};
use super::{patch, steps};
use crate::report::JudgedRun;

/// Maximum number of events of a timeline; the middle of a longer one is left out.
const MAX_EVENTS: usize = 2000;
/// Number of events kept at the end of a timeline that is too long.
const LAST_EVENTS: usize = 500;
/// Size of the objects that a timeline may contain, in bytes: of a fixture that passed, and of any other.
const OBJECT_BYTES: (usize, usize) = (120_000, 1_000_000);
/// Delay of a reply that is not mentioned.
const USUAL_DELAY: Duration = Duration::from_millis(10);

/// An event's origin.
#[derive(Clone, Debug)]
pub(super) enum EventSource<'a> {
    /// An entry of the record.
    Entry(&'a TranscriptEntry),
    /// A watch event that reached the subject.
    Delivery(WatchDelivery<'a>),
}

/// Builds the timeline of `judged`. Without its fixture, a timeline has no steps.
#[must_use]
pub fn timeline(fixture: Option<&Fixture>, judged: &JudgedRun) -> Timeline {
    let report = &judged.report;
    let all = sources(judged);
    let total = all.len();
    let kept = cut(all);
    let names = Redactions::collect(judged.start, &judged.initial, &judged.entries);
    let lanes = lanes(&kept);
    let end = end(fixture, judged);
    let budget = if report.failures.is_empty() { OBJECT_BYTES.0 } else { OBJECT_BYTES.1 };
    let mut writer = EventWriter {
        changes: changes_of_requests(&judged.entries),
        names,
        lanes: &lanes,
        versions: BTreeMap::new(),
        budget,
        without_objects: 0,
    };
    let mut events: Vec<TimelineEvent> = kept.iter().map(|source| writer.event(source)).collect();
    let broken: BTreeSet<u64> = report.failures.iter().filter_map(|failure| failure.at_millis).collect();
    for event in &mut events {
        let is_subject = lanes.get(event.lane).is_some_and(Actor::is_subject);
        event.broke = event.kind == EventKind::Write && is_subject && broken.contains(&event.at);
    }
    let without_objects = writer.without_objects;
    let noted = judged.entries.iter().filter_map(|entry| match &entry.what {
        Entry::Note(text) => Some((entry.at, text.as_str())),
        Entry::Request(_) | Entry::Change(_) => None,
    });
    let stopped = fixture.is_some_and(|fixture| fixture.given.stopped);
    Timeline {
        id: report.id.clone(),
        promise: report.promise.clone(),
        rules: report.rules.clone(),
        rule_lines: if report.rule_texts.is_empty() { Vec::new() } else { report.rule_lines() },
        level: format!("{} ({})", report.level, report.feature),
        outcome: report.outcome.participle().to_owned(),
        reason: report.reason.clone(),
        file: report.file.clone(),
        end: millis(end),
        arrows: CauseFinder::new(judged.leeway).arrows(&judged.entries, &kept),
        lanes: lanes.into_iter().map(lane).collect(),
        events,
        total,
        without_objects,
        bands: notes::bands(noted, stopped, end),
        steps: fixture.map(|fixture| steps::marks(fixture, &report.failures)).unwrap_or_default(),
        failures: report.failures.iter().take(MAX_FAILURES).map(failure).collect(),
        failures_total: report.failures.len(),
        log: report.log.iter().take(MAX_LOG).cloned().collect(),
        log_total: report.log.len(),
        accepted: None,
    }
}

fn failure(failure: &crate::report::Failure) -> FailureMark {
    FailureMark {
        at: failure.at_millis,
        line: failure.line,
        message: failure.message.clone(),
        expected: state(&failure.expected),
        observed: state(&failure.observed),
    }
}

/// Returns the text of a state, cut if it is long.
pub(super) fn state(text: &str) -> String {
    match text.char_indices().nth(MAX_STATE) {
        None => text.to_owned(),
        Some((end, _)) => {
            let total = text.chars().count();
            format!("{}\n… showing {MAX_STATE} of {total} characters", &text[..end])
        }
    }
}

/// Returns the end of the run: of the last entry, or of the last step if that was reached later.
fn end(fixture: Option<&Fixture>, judged: &JudgedRun) -> Duration {
    let last = judged.entries.last().map(|entry| entry.at).unwrap_or_default();
    let ran = Duration::from_millis(judged.report.virtual_millis);
    let planned = fixture.map(Fixture::end).unwrap_or_default();
    last.max(if ran.is_zero() { planned } else { ran })
}

/// Returns the events of a record in order: entries, and watch events between them.
fn sources(judged: &JudgedRun) -> Vec<EventSource<'_>> {
    let mut deliveries = watches::read(&judged.entries, &judged.deliveries);
    let mut out = Vec::with_capacity(judged.entries.len() + judged.deliveries.len());
    for entry in &judged.entries {
        out.extend(deliveries.before(entry.seq).into_iter().map(EventSource::Delivery));
        let is_shown_with_its_request = matches!(&entry.what, Entry::Change(change) if change.request.is_some());
        if !is_shown_with_its_request {
            out.push(EventSource::Entry(entry));
        }
    }
    out.extend(deliveries.before(usize::MAX).into_iter().map(EventSource::Delivery));
    out
}

/// Leaves out the middle of a history that is too long.
fn cut(mut sources: Vec<EventSource<'_>>) -> Vec<EventSource<'_>> {
    if sources.len() > MAX_EVENTS {
        let tail = sources.split_off(sources.len() - LAST_EVENTS);
        sources.truncate(MAX_EVENTS - LAST_EVENTS);
        sources.extend(tail);
    }
    sources
}

impl EventSource<'_> {
    /// Returns the actor in whose lane the event is.
    pub(super) fn actor(&self) -> Actor {
        match self {
            Self::Entry(entry) => entry.actor(),
            Self::Delivery(delivery) => delivery.actor.clone(),
        }
    }
}

/// Returns the actors, in the order of their lanes.
fn lanes(sources: &[EventSource<'_>]) -> Vec<Actor> {
    let mut actors: Vec<Actor> = sources.iter().map(EventSource::actor).collect();
    let place = |actor: &Actor| match actor {
        Actor::User => 0,
        Actor::Other(_) => 1,
        Actor::Harness => 2,
        Actor::Server => 3,
        Actor::Kubelet => 4,
        Actor::Informers => 5,
        Actor::Disruption | Actor::PodGc | Actor::TaintEviction | Actor::Ttl | Actor::Controller(_) => 6,
        Actor::Bystander(_) => 7,
    };
    actors.sort_by(|a, b| (place(a), a).cmp(&(place(b), b)));
    actors.dedup();
    actors
}

fn lane(actor: Actor) -> Lane {
    let kind = match actor {
        Actor::User => "user",
        Actor::Harness => "harness",
        Actor::Server => "server",
        Actor::Kubelet => "kubelet",
        Actor::Informers => "informers",
        Actor::Disruption | Actor::PodGc | Actor::TaintEviction | Actor::Ttl | Actor::Controller(_) => "controller",
        Actor::Bystander(_) | Actor::Other(_) => "other",
    };
    Lane { name: actor.name().to_owned(), kind }
}

/// Writes the events of one timeline.
struct EventWriter<'a> {
    changes: Vec<Vec<&'a Change>>,
    names: Redactions,
    lanes: &'a [Actor],
    /// The latest version of each object that the timeline shows.
    versions: BTreeMap<String, Value>,
    /// Bytes of objects that may still be written.
    budget: usize,
    without_objects: usize,
}

impl EventWriter<'_> {
    fn event(&mut self, source: &EventSource<'_>) -> TimelineEvent {
        let actor = source.actor();
        let lane = self.lanes.iter().position(|lane| *lane == actor).unwrap_or_default();
        match source {
            EventSource::Delivery(WatchDelivery { resource, sent, .. }) => {
                let verb = match sent.object.kind {
                    ChangeKind::Added => "ADDED",
                    ChangeKind::Modified => "MODIFIED",
                    ChangeKind::Deleted => "DELETED",
                };
                let object = object_text(sent.object.namespace.as_deref(), resource, &sent.object.name);
                TimelineEvent::plain(millis(sent.at), lane, EventKind::Delivery, verb, object)
            }
            EventSource::Entry(entry) => self.entry(entry, lane),
        }
    }

    fn entry(&mut self, entry: &TranscriptEntry, lane: usize) -> TimelineEvent {
        let of_request = self.changes.get(entry.seq).cloned().unwrap_or_default();
        let EntryText { verb, object, tail, details } = describe(entry, &of_request, &self.names);
        let at = millis(entry.at);
        match &entry.what {
            Entry::Note(_) => TimelineEvent::plain(at, lane, EventKind::Note, "", object),
            Entry::Change(change) => {
                let changes = self.object_changes(&[change.as_ref()]);
                TimelineEvent { details, changes, ..TimelineEvent::plain(at, lane, EventKind::Change, &verb, object) }
            }
            Entry::Request(exchange) => {
                let kind = kind(&exchange.request);
                let changes = self.object_changes(&of_request);
                let reply = exchange.reply.as_ref();
                let is_failed = |reply: &plumbline::transcript::RecordedReply| reply.status >= 400 || reply.lost;
                TimelineEvent {
                    tail,
                    details,
                    changes,
                    failed: reply.map_or(kind != EventKind::Watch, is_failed),
                    fault: reply.and_then(|reply| reply.fault.clone()),
                    replied: reply.filter(|reply| reply.at > entry.at + USUAL_DELAY).map(|reply| millis(reply.at)),
                    request: Some(self.request(&exchange.request, kind)),
                    reply: self.reply(exchange),
                    ..TimelineEvent::plain(at, lane, kind, &verb, object)
                }
            }
        }
    }

    fn request(&mut self, request: &RecordedRequest, kind: EventKind) -> RequestText {
        let method = match request.verb.as_str() {
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            _ => "GET",
        };
        let query: Vec<String> = request.query.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let body = request.body.as_deref().filter(|_| kind == EventKind::Write).map(|body| self.names.object(body));
        RequestText {
            line: format!("{method} {}{query}", request.path),
            agent: request.user_agent.clone(),
            body: body.and_then(|body| self.affordable(body)),
        }
    }

    fn reply(&self, exchange: &Exchange) -> Option<String> {
        let reply = exchange.reply.as_ref()?;
        let mut text = reply.status.to_string();
        if reply.status >= 400 {
            for part in [&reply.reason, &reply.message].into_iter().flatten() {
                text.push_str(if text.len() == 3 { " " } else { ": " });
                text.push_str(&self.names.text(part));
            }
        }
        Some(text)
    }

    /// Returns `object` if there is still room for it.
    fn affordable(&mut self, object: Value) -> Option<Value> {
        let size = serde_json::to_string(&object).map_or(0, |text| text.len());
        if size > self.budget {
            self.without_objects += 1;
            return None;
        }
        self.budget -= size;
        Some(object)
    }

    fn object_changes(&mut self, changes: &[&Change]) -> Vec<ObjectChange> {
        changes.iter().filter_map(|change| self.object_change(change)).collect()
    }

    fn object_change(&mut self, change: &Change) -> Option<ObjectChange> {
        let object = object_of(change);
        let old = change.old.as_deref().map(|old| self.names.object(old));
        let new = change.new.as_deref().map(|new| self.names.object(new));
        let chained = old.is_some() && self.versions.get(&object) == old.as_ref();
        let patch = old.as_ref().zip(new.as_ref()).and_then(|(old, new)| patch::between(old, new));
        let written = ObjectChange {
            before: old.filter(|_| !chained),
            chained,
            after: new.clone().filter(|_| patch.is_none()),
            patch,
            object: object.clone(),
        };
        let size = serde_json::to_string(&written).map_or(0, |text| text.len());
        if size > self.budget {
            self.without_objects += 1;
            // The next change cannot build on this one.
            self.versions.remove(&object);
            return None;
        }
        self.budget -= size;
        match new {
            Some(new) => self.versions.insert(object, new),
            None => self.versions.remove(&object),
        };
        Some(written)
    }
}

fn kind(request: &RecordedRequest) -> EventKind {
    match request.verb.as_str() {
        "watch" => EventKind::Watch,
        _ if request.is_write() => EventKind::Write,
        _ => EventKind::Read,
    }
}
