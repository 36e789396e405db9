//! Renders the transcript as text: writes with their actor, object, reply and changes.
//!
//! Includes every write, every GET of one object, all failed or faulty requests, changes by the server itself, and
//! notes. Leaves out successful lists, watches and discovery. Runs of the same write to many objects become one line. A
//! line has the form of a fixture's request pattern, so that it can be copied into one.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::redact::{self, Redactions};
use super::{
    Actor, Attributed as _, Change, ChangeKind, EntryKind, Exchange, RecordedJson, RecordedRequest, TranscriptEntry,
    diff,
};
use crate::metadata;

/// Minimum number of equal writes that are rendered in one line.
const RUN: usize = 4;

/// A paragraph of the rendered transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paragraph {
    /// The time of its entry.
    pub at: Duration,
    /// Sequence number of its entry (of the first one, for a run of writes).
    pub seq: usize,
    /// The line, and indented lines with details.
    pub text: String,
}

/// Renders `entries`; the same history gives the same bytes. `initial` are the objects before the first entry.
#[must_use]
pub fn render(epoch: Timestamp, initial: &[RecordedJson], entries: &[TranscriptEntry]) -> Vec<Paragraph> {
    join_runs(&lines(epoch, initial, entries))
}

/// Renders `entries` one by one.
pub fn lines(epoch: Timestamp, initial: &[RecordedJson], entries: &[TranscriptEntry]) -> Vec<RenderedLine> {
    let names = Redactions::collect(epoch, initial, entries);
    let changes = changes_of_requests(entries);
    entries.iter().filter_map(|entry| line(entry, &changes[entry.seq], &names)).collect()
}

/// Returns the changes caused by each request, indexed by sequence number.
pub fn changes_of_requests(entries: &[TranscriptEntry]) -> Vec<Vec<&Change>> {
    let mut changes: Vec<Vec<&Change>> = vec![Vec::new(); entries.len()];
    for entry in entries {
        if let EntryKind::Change(change) = &entry.what
            && let Some(of) = change.request.and_then(|seq| changes.get_mut(seq))
        {
            of.push(change);
        }
    }
    changes
}

/// Joins all paragraphs into one text that ends with a newline.
#[must_use]
pub fn to_text(paragraphs: &[Paragraph]) -> String {
    let mut out = String::new();
    for paragraph in paragraphs {
        out.push_str(&paragraph.text);
        out.push('\n');
    }
    out
}

/// A paragraph before runs of equal writes are joined.
pub struct RenderedLine {
    pub at: Duration,
    pub seq: usize,
    /// Time and actor: `t=+0s  actor`.
    head: String,
    /// The verb: `PATCH`.
    pub verb: String,
    /// The object: `nodes/a`; empty if the request is not about a single object.
    pub object: String,
    /// The rest of the line.
    tail: String,
    details: Vec<String>,
}

impl RenderedLine {
    /// The object; of a write whose line does not name it, such as one of an Event, the details.
    pub fn subject(&self) -> String {
        if self.object.contains('/') {
            self.object.clone()
        } else {
            format!("{} {}", self.object, self.details.join(" "))
        }
    }

    /// Returns true if `other` is the same write to another object.
    fn is_like(&self, other: &Self) -> bool {
        let kind = |line: &Self| line.object.split('/').next().map(str::to_owned);
        self.head == other.head
            && self.verb == other.verb
            && kind(self) == kind(other)
            && general(&self.tail, &self.object) == general(&other.tail, &other.object)
            && self.details == other.details
    }

    fn text(&self, last: Option<(&Self, usize)>) -> String {
        let objects = match last {
            Some((last, count)) => format!("{} … {} ({count} objects)", self.object, last.object),
            None => self.object.clone(),
        };
        let mut text = format!("{} {:<6} {objects}", self.head, self.verb);
        if !self.tail.is_empty() {
            text.push(' ');
            text.push_str(&self.tail);
        }
        for detail in &self.details {
            text.push_str("\n        ");
            text.push_str(detail);
        }
        text.trim_end().to_owned()
    }
}

/// Returns a line's tail without the object's own name, to compare lines about different objects.
fn general(tail: &str, object: &str) -> String {
    let name = object.split('/').nth(1).unwrap_or(object);
    tail.replace(&format!("[uid-{name}]"), "[uid]").replace(&format!("[rv-{name}@"), "[rv@")
}

/// Joins runs of the same write to different objects.
pub(crate) fn join_runs(lines: &[RenderedLine]) -> Vec<Paragraph> {
    let mut out = Vec::with_capacity(lines.len());
    let mut rest = lines;
    while let Some(first) = rest.first() {
        let run = rest.iter().take_while(|line| first.is_like(line)).count();
        let (taken, last) = if run >= RUN { (run, Some((&rest[run - 1], run))) } else { (1, None) };
        out.push(Paragraph { at: first.at, seq: first.seq, text: first.text(last) });
        rest = &rest[taken..];
    }
    out
}

/// An entry in words, as in a line of the transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryText {
    /// The verb: `PATCH`, `removed`; `--` for notes.
    pub verb: String,
    /// The object `pods/a/status`, or the text of a note.
    pub object: String,
    /// Reply, preconditions and options.
    pub tail: String,
    /// The lines below: messages and differences.
    pub details: Vec<String>,
}

/// Describes an entry, whether or not the transcript shows it. `changes` are those that it caused.
pub fn describe(entry: &TranscriptEntry, changes: &[&Change], names: &Redactions) -> EntryText {
    let plain = |verb: &str, object, details| EntryText { verb: verb.to_owned(), object, tail: String::new(), details };
    match &entry.what {
        EntryKind::Note(text) => plain("--", text.clone(), Vec::new()),
        EntryKind::Change(change) => {
            let (verb, details) = match change.kind {
                ChangeKind::Added => ("added", Vec::new()),
                ChangeKind::Modified => ("changed", differences(change, names)),
                ChangeKind::Deleted => ("removed", Vec::new()),
            };
            plain(verb, object_of(change), details)
        }
        EntryKind::Request(exchange) => EntryText {
            verb: verb(&exchange.request),
            object: target(&exchange.request),
            tail: tail(entry, exchange, names),
            details: details(exchange, changes, names),
        },
    }
}

fn line(entry: &TranscriptEntry, changes: &[&Change], names: &Redactions) -> Option<RenderedLine> {
    let is_rendered = match &entry.what {
        EntryKind::Note(_) => true,
        EntryKind::Change(change) => change.request.is_none(),
        EntryKind::Request(exchange) => is_shown(&entry.actor(), exchange),
    };
    is_rendered.then(|| {
        let EntryText { verb, object, tail, details } = describe(entry, changes, names);
        let head = format!("{:<11} {:<14}", redact::at(entry.at), entry.actor().name());
        RenderedLine { at: entry.at, seq: entry.seq, head, verb, object, tail, details }
    })
}

/// Returns true for requests to render. Successful reads are left out, except GETs of one object by other actors than
/// the user.
fn is_shown(actor: &Actor, exchange: &Exchange) -> bool {
    let request = &exchange.request;
    let went_well = exchange.reply.as_ref().is_some_and(|reply| reply.status < 400 && reply.fault.is_none());
    let open_watch = request.verb == "watch" && exchange.reply.is_none();
    let look = request.verb == "get" && !request.resource.is_empty() && *actor != Actor::User;
    request.is_write() || look || !(went_well || open_watch)
}

pub fn verb(request: &RecordedRequest) -> String {
    match request.verb.as_str() {
        "create" => "POST".to_owned(),
        "update" => "PUT".to_owned(),
        "deletecollection" => "DELETE".to_owned(),
        verb => verb.to_uppercase(),
    }
}

/// Formats the target: `pods/a`, `kube-system:pods/a`, `pods/a/status`. The default namespace is omitted.
pub fn target(request: &RecordedRequest) -> String {
    if request.resource.is_empty() {
        return request.path.clone();
    }
    let mut out = namespace_prefix(request.namespace.as_deref());
    out.push_str(&request.resource);
    let body_name = request.body.as_ref().and_then(|body| metadata::text(body, "name"));
    let name = match request.name.as_deref() {
        Some(name) => Some(name),
        None if request.verb == "create" => body_name,
        None => None,
    };
    if request.resource == "events" && request.is_write() {
        return out;
    }
    if let Some(name) = name {
        out.push('/');
        out.push_str(name);
    }
    if let Some(subresource) = &request.subresource {
        out.push('/');
        out.push_str(subresource);
    }
    out
}

fn namespace_prefix(namespace: Option<&str>) -> String {
    match namespace {
        None | Some("" | "default") => String::new(),
        Some(other) => format!("{other}:"),
    }
}

pub fn object_of(change: &Change) -> String {
    object_text(change.namespace.as_deref(), &change.resource, &change.name)
}

/// Names an object: `pods/a`, with its namespace if that is not the usual one.
pub fn object_text(namespace: Option<&str>, resource: &str, name: &str) -> String {
    format!("{}{resource}/{name}", namespace_prefix(namespace))
}

/// Formats the reply's code, as in request patterns, then reason, preconditions and options.
fn tail(entry: &TranscriptEntry, exchange: &Exchange, names: &Redactions) -> String {
    let mut parts = options(&exchange.request, names);
    match &exchange.reply {
        None => parts.insert(0, "no reply".to_owned()),
        Some(reply) => {
            let reason = reply.reason.as_deref().filter(|_| reply.status >= 400).unwrap_or_default();
            parts.insert(0, format!("{} {reason}", reply.status).trim_end().to_owned());
            parts.extend(delay(reply.at.saturating_sub(entry.at), reply.at));
            if reply.lost {
                parts.push("reply lost".to_owned());
            }
            if let Some(fault) = &reply.fault {
                parts.push(format!("fault: {fault}"));
            }
        }
    }
    parts.join("  ")
}

/// Describes a reply that was sent late: the time if that was a second later or more, otherwise the delay. Less than
/// 10 ms is usual on the wall clock and not mentioned.
fn delay(delay: Duration, at: Duration) -> Option<String> {
    match delay.as_millis() {
        0..10 => None,
        millis @ 10..1000 => Some(format!("after {millis} ms")),
        _ => Some(format!("at {}", redact::at(at))),
    }
}

pub(super) fn options(request: &RecordedRequest, names: &Redactions) -> Vec<String> {
    let mut out = Vec::new();
    let null = Value::Null;
    let body = request.body.as_deref().unwrap_or(&null);
    let (preconditions, grace) = if request.subresource.as_deref() == Some("eviction") {
        (&body["deleteOptions"]["preconditions"], &body["deleteOptions"]["gracePeriodSeconds"])
    } else if request.verb == "delete" {
        (&body["preconditions"], &body["gracePeriodSeconds"])
    } else if matches!(request.verb.as_str(), "update" | "patch") {
        (&body["metadata"], &null)
    } else {
        (&null, &null)
    };
    if let Some(grace) = grace.as_i64().map(|grace| grace.to_string()).or_else(|| query(request, "gracePeriodSeconds"))
    {
        out.push(format!("grace={grace}"));
    }
    if let Some(uid) = preconditions["uid"].as_str().filter(|uid| !uid.is_empty()) {
        out.push(format!("uid={}", names.uid(uid)));
    }
    if let Some(version) = preconditions["resourceVersion"].as_str().filter(|version| !version.is_empty()) {
        out.push(format!("rv={}", names.resource_version(version)));
    }
    if let Some(selector) = query(request, "labelSelector").filter(|text| !text.is_empty()) {
        out.push(format!("labels={selector}"));
    }
    if let Some(selector) = query(request, "fieldSelector").filter(|text| !text.is_empty()) {
        out.push(format!("fields={selector}"));
    }
    if query(request, "dryRun").is_some() || body["dryRun"].is_array() {
        out.push("dry run".to_owned());
    }
    out
}

fn query(request: &RecordedRequest, key: &str) -> Option<String> {
    request.query_value(key).map(str::to_owned)
}

fn details(exchange: &Exchange, changes: &[&Change], names: &Redactions) -> Vec<String> {
    let request = &exchange.request;
    let mut out = Vec::new();
    let failed = exchange.reply.as_ref().is_none_or(|reply| reply.status >= 400);
    if let Some(message) = exchange.reply.as_ref().and_then(|reply| reply.message.as_ref()).filter(|_| failed) {
        out.push(names.message(message));
    }
    if request.resource == "events" && request.verb == "create" {
        out.extend(request.body.as_deref().map(|event| event_line(event, names)));
        return out;
    }
    if failed && changes.is_empty() && request.is_write() && request.verb != "delete" {
        out.extend(request.body.as_deref().map(|body| format!("sent {}", names.value(&without_noise(body)))));
    }
    for change in changes {
        let own = request.name.as_deref() == Some(change.name.as_str()) && request.resource == change.resource;
        let mut lines = match change.kind {
            ChangeKind::Added => Vec::new(),
            ChangeKind::Modified => differences(change, names),
            ChangeKind::Deleted => vec!["removed".to_owned()],
        };
        if !own && change.kind != ChangeKind::Added {
            let object = object_of(change);
            for line in &mut lines {
                line.insert_str(0, &format!("{object} "));
            }
        }
        out.append(&mut lines);
    }
    let may_do_nothing = matches!(request.verb.as_str(), "update" | "patch");
    if may_do_nothing && !failed && changes.is_empty() && query(request, "dryRun").is_none() {
        out.push("nothing changed".to_owned());
    }
    out
}

fn differences(change: &Change, names: &Redactions) -> Vec<String> {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => diff::lines(old, new, names),
        _ => Vec::new(),
    }
}

pub(super) fn event_line(event: &Value, names: &Redactions) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about = if event["regarding"].is_object() { &event["regarding"] } else { &event["involvedObject"] };
    let message = if event["note"].is_string() { &event["note"] } else { &event["message"] };
    format!(
        "{} {} about {}/{} {}",
        text(&event["type"]),
        text(&event["reason"]),
        text(&about["kind"]),
        text(&about["name"]),
        names.message(&text(message)),
    )
}

fn without_noise(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    body
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{RecordedReply, Transcript};
    use super::*;

    fn request(verb: &str, name: &str, subresource: Option<&str>, body: Option<Value>) -> RecordedRequest {
        RecordedRequest {
            verb: verb.to_owned(),
            resource: "pods".to_owned(),
            subresource: subresource.map(str::to_owned),
            namespace: Some("default".to_owned()),
            name: Some(name.to_owned()),
            body: body.map(RecordedJson::from),
            ..RecordedRequest::default()
        }
    }

    fn pod(name: &str, version: &str, phase: &str) -> RecordedJson {
        let meta =
            json!({"name": name, "namespace": "default", "uid": format!("uid-of-{name}"), "resourceVersion": version});
        json!({"kind": "Pod", "metadata": meta, "status": {"phase": phase}}).into()
    }

    fn change(request: Option<usize>, kind: ChangeKind, name: &str) -> Change {
        let old = (kind != ChangeKind::Added).then(|| pod(name, "5", "Running"));
        let new = (kind != ChangeKind::Deleted).then(|| pod(name, "6", "Failed"));
        let name = name.to_owned();
        let namespace = Some("default".to_owned());
        Change {
            request,
            kind,
            group: String::new(),
            resource: "pods".into(),
            namespace,
            name,
            resource_version: 6,
            old,
            new,
        }
    }

    #[test]
    fn transcript_of_an_eviction() {
        let transcript = Transcript::new();
        let t = Duration::from_secs;
        let watch = transcript.request(t(0), Actor::Informers, request("watch", "", None, None));
        transcript.reply(watch, RecordedReply::new(t(0), 200));
        let body = json!({"metadata": {"uid": "uid-of-a"}, "status": {"phase": "Failed"}});
        let patch = transcript.request(t(60), Actor::PodGc, request("patch", "a", Some("status"), Some(body.clone())));
        transcript.change(t(60), Actor::PodGc, change(Some(patch), ChangeKind::Modified, "a"));
        transcript.reply(patch, RecordedReply::new(t(60), 200));
        let fault = RecordedReply {
            reason: Some("Conflict".into()),
            fault: Some("409 once".into()),
            ..RecordedReply::new(t(61), 409)
        };
        let refused = transcript.request(t(60), Actor::PodGc, request("patch", "b", Some("status"), Some(body)));
        transcript.reply(refused, fault);
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "uid-of-a", "resourceVersion": "6"}});
        let delete = transcript.request(t(60), Actor::PodGc, request("delete", "a", None, Some(options)));
        transcript.change(t(60), Actor::PodGc, change(Some(delete), ChangeKind::Deleted, "a"));
        transcript.reply(delete, RecordedReply { lost: true, ..RecordedReply::new(t(60), 200) });
        transcript.note(t(61), "subject crashes");
        transcript.change(Duration::from_millis(61_500), Actor::Server, change(None, ChangeKind::Deleted, "c"));
        let text = to_text(&render(crate::time::epoch(), &[], &transcript.entries()));
        insta::assert_snapshot!(text, @r"
        t=+60s      podgc          PATCH  pods/a/status 200  uid=[uid-a]
                status: phase Running→Failed
        t=+60s      podgc          PATCH  pods/b/status 409 Conflict  uid=[uid-a]  at t=+61s  fault: 409 once
                sent {metadata: {uid: [uid-a]}, status: {phase: Failed}}
        t=+60s      podgc          DELETE pods/a 200  grace=0  uid=[uid-a]  rv=[rv-a@2]  reply lost
                removed
        t=+61s      harness        --     subject crashes
        t=+61.5s    server         removed pods/c
        ");
    }

    /// On the wall clock a line has one time, in milliseconds.
    #[test]
    fn times_of_the_wall_clock() {
        let transcript = Transcript::new();
        let t = Duration::from_nanos;
        for (at, replied) in
            [(10_001_703_539, 10_001_879_813), (10_001_900_000, 10_015_950_000), (11_000_000_001, 13_500_000_000)]
        {
            let patch = transcript.request(t(at), Actor::Ttl, request("patch", "a", None, None));
            transcript.change(t(at), Actor::Ttl, change(Some(patch), ChangeKind::Modified, "a"));
            transcript.reply(patch, RecordedReply::new(t(replied), 200));
        }
        let text = to_text(&render(crate::time::epoch(), &[], &transcript.entries()));
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("t=")).collect();
        assert_eq!(
            lines,
            [
                "t=+10.001s  ttl            PATCH  pods/a 200",
                "t=+10.001s  ttl            PATCH  pods/a 200  after 14 ms",
                "t=+11s      ttl            PATCH  pods/a 200  at t=+13.5s",
            ]
        );
    }

    #[test]
    fn many_equal_writes_are_one_line() {
        let transcript = Transcript::new();
        for index in 0..100 {
            let name = format!("p{index:03}");
            let seq = transcript.request(Duration::ZERO, Actor::Ttl, request("patch", &name, None, None));
            transcript.change(Duration::ZERO, Actor::Ttl, change(Some(seq), ChangeKind::Modified, &name));
            transcript.reply(seq, RecordedReply::new(Duration::ZERO, 200));
        }
        let text = to_text(&render(crate::time::epoch(), &[], &transcript.entries()));
        insta::assert_snapshot!(text, @r"
        t=+0s       ttl            PATCH  pods/p000 … pods/p099 (100 objects) 200
                status: phase Running→Failed
        ");
    }
}
