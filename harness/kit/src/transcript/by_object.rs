//! Groups a transcript by object, to compare two wall-clock runs. All that one actor did to an object within a moment
//! is one paragraph.
//!
//! Two wall-clock runs of the same program differ in the order of changes to different objects, in the number of events
//! that one sync processes, and in the winner of a conflict. They agree on the state of each object and, approximately,
//! on its times. So this format leaves out notes, conflicts and the reads that follow them, writes that change nothing,
//! versions, and leases.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::redact::{self, Redactions};
use super::render::{changes_of_requests, event_line, object_of, options, target, verb};
use super::{Actor, Attributed as _, Change, EntryKind, Exchange, TranscriptEntry, diff};

/// The note of the runner when it starts the subject in the middle of a run.
pub const STARTS: &str = "the controllers start";
/// The note that the controllers are asked to stop.
pub const STOPS: &str = "the controllers are asked to stop";
/// The note that they have stopped.
pub const STOPPED: &str = "the controllers have stopped";

/// Entries closer together than this belong to the same paragraph.
const MOMENT: Duration = Duration::from_secs(1);

/// A request of an actor for an object, or a change of the object.
#[derive(Default)]
struct ObjectEvent<'a> {
    at: Duration,
    /// Verb, subresource and reply; empty for changes by the server itself.
    call: String,
    /// The text of an Event.
    says: Option<String>,
    conflict: bool,
    look: bool,
    change: Option<&'a Change>,
}

/// Renders one line for each call and indented lines for the object's changes, ordered by object.
#[must_use]
pub fn by_object(epoch: Timestamp, entries: &[TranscriptEntry]) -> String {
    let names = Redactions::collect_by_object(epoch, entries);
    let changes = changes_of_requests(entries);
    let mut events: BTreeMap<(String, String), Vec<ObjectEvent<'_>>> = BTreeMap::new();
    for entry in entries {
        for (object, event) in events_of(entry, &changes[entry.seq], &names) {
            events.entry((object, entry.actor().name().to_owned())).or_default().push(event);
        }
    }
    let mut out = String::new();
    for ((object, actor), events) in &events {
        // Steps are rendered one by one, because their times differ between runs.
        let user = *actor == Actor::User.name();
        for moment in events.chunk_by(|one, next| !user && next.at.saturating_sub(one.at) <= MOMENT) {
            let when = moment.first().filter(|_| !user).map(|event| redact::at(event.at)).unwrap_or_default();
            let head = format!("{when:<11} {actor:<14} {object}");
            for line in paragraph(&head, moment, &names) {
                out.push_str(&line);
                out.push('\n');
            }
        }
    }
    out
}

/// Returns the longest time from a start in the middle of a run to the subject's next request. Later times are inexact
/// by this much.
#[must_use]
pub fn slowest_start(entries: &[TranscriptEntry]) -> Duration {
    let mut slowest = Duration::ZERO;
    let mut starting = None;
    for entry in entries {
        match &entry.what {
            EntryKind::Note(text) if text == STARTS => starting = Some(entry.at),
            EntryKind::Request(_) if !matches!(entry.actor(), Actor::User | Actor::Kubelet | Actor::Server) => {
                slowest = slowest.max(starting.take().map_or(Duration::ZERO, |from| entry.at.saturating_sub(from)));
            }
            _ => {}
        }
    }
    slowest
}

fn events_of<'a>(
    entry: &'a TranscriptEntry,
    changes: &[&'a Change],
    names: &Redactions,
) -> Vec<(String, ObjectEvent<'a>)> {
    let at = entry.at;
    match &entry.what {
        EntryKind::Note(_) => Vec::new(),
        EntryKind::Change(change) if change.request.is_some() => Vec::new(),
        EntryKind::Change(change) => {
            vec![(object_of(change), ObjectEvent { at, change: Some(change), ..ObjectEvent::default() })]
        }
        EntryKind::Request(exchange) => asked(entry, exchange, changes, names),
    }
}

fn asked<'a>(
    entry: &TranscriptEntry,
    exchange: &Exchange,
    changes: &[&'a Change],
    names: &Redactions,
) -> Vec<(String, ObjectEvent<'a>)> {
    let request = &exchange.request;
    let look = request.verb == "get" && !request.resource.is_empty() && entry.actor() != Actor::User;
    if !(request.is_write() || look) || request.resource == "leases" {
        return Vec::new();
    }
    let object = target(request).trim_end_matches('/').to_owned();
    let subresource = request.subresource.as_deref().map(|name| format!("/{name}")).unwrap_or_default();
    let object = object.strip_suffix(&subresource).unwrap_or(&object).to_owned();
    let (code, fault) = exchange
        .reply
        .as_ref()
        .map_or_else(|| ("no reply".to_owned(), None), |reply| (reply.status.to_string(), reply.fault.as_deref()));
    let conflict = code == "409" && fault.is_none();
    let idle = matches!(request.verb.as_str(), "update" | "patch") && code.starts_with('2') && changes.is_empty();
    if idle {
        return Vec::new();
    }
    let mut call = vec![format!("{}{subresource} {code}", verb(request))];
    call.extend(options(request, names).into_iter().filter(|option| !option.starts_with("rv=")));
    call.extend(fault.map(|fault| format!("fault: {fault}")));
    let event = (request.resource == "events").then_some(request.body.as_deref()).flatten();
    let says = event.map(|event| event_line(event, names));
    let event = ObjectEvent { at: entry.at, call: call.join("  "), says, conflict, look, change: None };
    // The request's own object first; other objects that it changed are listed under their own names.
    let mut events = vec![(object.clone(), event)];
    for change in changes {
        if request.resource != "events" {
            events.push((
                object_of(change),
                ObjectEvent { at: entry.at, change: Some(change), ..ObjectEvent::default() },
            ));
        }
    }
    events
}

fn paragraph(head: &str, moment: &[ObjectEvent<'_>], names: &Redactions) -> Vec<String> {
    let conflict = moment.iter().any(|event| event.conflict);
    let mut calls: Vec<String> = Vec::new();
    for event in moment.iter().filter(|event| !(event.conflict || event.look && conflict)) {
        let call = [Some(event.call.clone()), event.says.clone()].into_iter().flatten().collect::<Vec<_>>().join("  ");
        if !call.is_empty() && !calls.contains(&call) {
            calls.push(call);
        }
    }
    let mut lines: Vec<String> = calls.iter().map(|call| format!("{head} {call}")).collect();
    let mut changes = moment.iter().filter_map(|event| event.change);
    let Some(begin) = changes.next() else { return lines };
    let end = changes.next_back().unwrap_or(begin);
    let became = match (&begin.old, &end.new) {
        (Some(old), Some(new)) => diff::lines(old, new, names),
        (None, Some(_)) => vec!["added".to_owned()],
        (_, None) => vec!["removed".to_owned()],
    };
    if lines.is_empty() {
        lines.push(head.to_owned());
    }
    lines.extend(became.into_iter().map(|line| format!("        {line}")));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{ChangeKind, RecordedJson, RecordedReply, RecordedRequest, Transcript};
    use super::*;

    fn budget(healthy: u64) -> RecordedJson {
        let meta = json!({"name": "b", "namespace": "default", "uid": "u", "resourceVersion": healthy.to_string()});
        json!({"kind": "PodDisruptionBudget", "metadata": meta, "status": {"currentHealthy": healthy}}).into()
    }

    fn put(transcript: &Transcript, millis: u64, status: u16, change: Option<(u64, u64)>) {
        let at = Duration::from_millis(millis);
        let request = RecordedRequest {
            verb: "update".to_owned(),
            resource: "poddisruptionbudgets".to_owned(),
            subresource: Some("status".to_owned()),
            namespace: Some("default".to_owned()),
            name: Some("b".to_owned()),
            body: Some(budget(0)),
            ..RecordedRequest::default()
        };
        let seq = transcript.request(at, Actor::Disruption, request);
        if let Some((from, to)) = change {
            let change = Change {
                request: Some(seq),
                kind: ChangeKind::Modified,
                group: "policy".to_owned(),
                resource: "poddisruptionbudgets".to_owned(),
                namespace: Some("default".to_owned()),
                name: "b".to_owned(),
                resource_version: to,
                old: Some(budget(from)),
                new: Some(budget(to)),
            };
            transcript.change(at, Actor::Disruption, change);
        }
        transcript.reply(seq, RecordedReply::new(at, status));
    }

    /// Two pods of one name are deleted at one instant, in any order.
    #[test]
    fn objects_of_one_name_differ_by_their_namespaces() {
        let text = |namespaces: [&str; 2]| {
            let transcript = Transcript::new();
            let at = Duration::from_mins(1);
            for namespace in namespaces {
                let uid = format!("uid-{namespace}");
                let pod = json!({"kind": "Pod", "metadata": {"name": "a", "namespace": namespace, "uid": uid}});
                let request = RecordedRequest {
                    verb: "delete".to_owned(),
                    resource: "pods".to_owned(),
                    namespace: Some(namespace.to_owned()),
                    name: Some("a".to_owned()),
                    body: Some(json!({"preconditions": {"uid": uid}}).into()),
                    ..RecordedRequest::default()
                };
                let seq = transcript.request(at, Actor::PodGc, request);
                let change = Change {
                    request: Some(seq),
                    kind: ChangeKind::Deleted,
                    group: String::new(),
                    resource: "pods".to_owned(),
                    namespace: Some(namespace.to_owned()),
                    name: "a".to_owned(),
                    resource_version: 9,
                    old: Some(pod.into()),
                    new: None,
                };
                transcript.change(at, Actor::PodGc, change);
                transcript.reply(seq, RecordedReply::new(at, 200));
            }
            by_object(crate::time::epoch(), &transcript.entries())
        };
        let usual = text(["east", "west"]);
        assert!(usual.contains("east:pods/a DELETE 200  uid=[uid-a]"), "{usual}");
        assert!(usual.contains("west:pods/a DELETE 200  uid=[uid-a#2]"), "{usual}");
        assert_eq!(usual, text(["west", "east"]));
    }

    /// One sync or three, with a conflict or a note between them: the budget ends in the same state.
    #[test]
    fn what_became_of_an_object_counts() {
        let one = Transcript::new();
        let several = Transcript::new();
        put(&one, 5000, 200, Some((1, 4)));
        put(&several, 5000, 200, Some((1, 2)));
        several.note(Duration::from_millis(5100), STARTS);
        put(&several, 5200, 409, None);
        put(&several, 5300, 200, Some((2, 4)));
        put(&several, 5400, 200, None);
        let text = |transcript: &Transcript| by_object(crate::time::epoch(), &transcript.entries());
        assert_eq!(
            text(&one),
            "t=+5s       disruption     poddisruptionbudgets/b PUT/status 200  uid=[uid-b]\n        status: currentHealthy 1→4\n"
        );
        assert_eq!(text(&one), text(&several));
        assert_eq!(slowest_start(&several.entries()), Duration::from_millis(100));
        put(&several, 9000, 200, Some((4, 3)));
        assert_ne!(text(&one), text(&several));
    }
}
