//! Writes and deletions of objects whose present state the program had not seen. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::breach::Breach;
use super::entries::{change_of, key_of_request};
use super::knowledge::{Knowledge, version};
use crate::expect::line;
use crate::expect::world::{Key, key_of_change};
use crate::metadata;
use crate::transcript::{Attributed as _, Change, EntryKind, Exchange, RecordedJson, TranscriptEntry};

/// The oracle of writes of objects whose present state the program had not seen.
pub const BLIND: &str = "blind";

/// Returns what a deletion or update lacks that would keep it from an object that its sender had not seen.
fn missing_precondition(exchange: &Exchange) -> Option<&'static str> {
    let request = &exchange.request;
    if request.subresource.is_some() || exchange.reply.as_ref().is_none_or(|reply| reply.status >= 300) {
        return None;
    }
    let body = request.body.as_deref().unwrap_or(&Value::Null);
    let preconditions = &body["preconditions"];
    match request.verb.as_str() {
        "delete" if preconditions["uid"].is_null() && preconditions["resourceVersion"].is_null() => {
            Some("another object of that name than the one that it had seen is deleted: send preconditions.uid")
        }
        "update" if metadata::resource_version(body).is_none_or(str::is_empty) => {
            Some("a change by another client that it had not seen is overwritten: send metadata.resourceVersion")
        }
        _ => None,
    }
}

/// Returns true if the request deletes or updates without a precondition.
#[must_use]
pub fn lacks_precondition(exchange: &Exchange) -> bool {
    missing_precondition(exchange).is_some()
}

/// Returns the breach if a write without a precondition meets a state that the program had not seen when it sent the
/// request, neither in a list or event nor in a reply, and that it did not make itself.
#[must_use]
pub fn blind(
    knowledge: &Knowledge<'_>,
    entries: &[TranscriptEntry],
    entry: &TranscriptEntry,
    exchange: &Exchange,
) -> Option<Breach> {
    let what = missing_precondition(exchange)?;
    let request = &exchange.request;
    let key = key_of_request(request)?;
    // A request may take effect long after it was sent.
    let effect = change_of(entries, entry.seq)?.0.seq;
    let present = knowledge.present(&key, effect)?;
    let known = knowledge.known_objects(&key, entry.seq);
    if known.is_empty() || knowledge.is_own(&key, effect) {
        return None;
    }
    let is_known = |object: &&RecordedJson| match request.verb.as_str() {
        "delete" => metadata::uid(object) == metadata::uid(present),
        _ => version(object) >= version(present),
    };
    if known.iter().any(is_known) {
        return None;
    }
    Some(Breach {
        oracle: BLIND.to_owned(),
        resource: request.resource.clone(),
        kind: request.verb.clone(),
        at: entry.at,
        text: format!("{}: {what}", line(entry, exchange)),
        expected: json!({ "quiet": true }),
    })
}

/// Returns true if the request patches the finalizers of an object, which are one value for most kinds of patch.
#[must_use]
pub fn patches_finalizers(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    let body = request.body.as_deref().unwrap_or(&Value::Null);
    let of_list = |operation: &Value| operation["path"].as_str().is_some_and(|path| path.starts_with(FINALIZERS));
    request.verb == "patch"
        && request.subresource.is_none()
        && (body.pointer(FINALIZERS).is_some() || body.as_array().is_some_and(|list| list.iter().any(of_list)))
}

/// The place of the finalizers in objects.
const FINALIZERS: &str = "/metadata/finalizers";

/// The parts of objects in which other clients say what they want.
const WISHES: [&str; 3] = ["/metadata/annotations", "/metadata/labels", "/spec"];

/// Returns writes that take back what another client has changed, by senders that did not know the change when their
/// work began: updates with a version that is newer than the state that they have the rest from, and patches of the
/// finalizers without a version.
#[must_use]
pub fn undone(knowledge: &Knowledge<'_>, entries: &[TranscriptEntry]) -> Vec<Breach> {
    let mut changed: BTreeMap<Key, &Change> = BTreeMap::new();
    let mut holder_changes: BTreeMap<Key, &Change> = BTreeMap::new();
    let mut found = Vec::new();
    for entry in entries {
        let EntryKind::Change(change) = &entry.what else { continue };
        let key = key_of_change(change);
        let request = change.request.and_then(|seq| entries.get(seq));
        let Some((request, exchange)) = request.filter(|request| request.actor().is_subject()).and_then(as_request)
        else {
            if finalizers(change.old.as_deref()) != finalizers(change.new.as_deref()) {
                holder_changes.insert(key.clone(), change);
            }
            changed.insert(key, change);
            continue;
        };
        let is_update = exchange.request.verb == "update" && exchange.request.subresource.is_none();
        let is_meant = is_update || patches_finalizers(exchange);
        let theirs = changed.get(&key).filter(|theirs| is_update && takes_back(change, theirs));
        let theirs =
            theirs.or_else(|| holder_changes.get(&key).filter(|theirs| is_meant && takes_holder_back(change, theirs)));
        if theirs.is_some_and(|theirs| !knew(knowledge, &key, theirs, (request, entries))) {
            let text =
                format!("{}: a change by another client that it had not seen is undone", line(request, exchange));
            let expected = json!({ "quiet": true });
            let (oracle, kind) = (BLIND.to_owned(), "undone".to_owned());
            found.push(Breach { oracle, resource: change.resource.clone(), kind, at: request.at, text, expected });
        }
    }
    found
}

fn as_request(entry: &TranscriptEntry) -> Option<(&TranscriptEntry, &Exchange)> {
    match &entry.what {
        EntryKind::Request(exchange) => Some((entry, exchange)),
        _ => None,
    }
}

/// Returns true if a change gives a field the value that it had before `theirs`.
fn takes_back(change: &Change, theirs: &Change) -> bool {
    let states = [change.old.as_deref(), change.new.as_deref(), theirs.old.as_deref(), theirs.new.as_deref()];
    let [Some(old), Some(new), Some(before), Some(wanted)] = states else { return false };
    WISHES.iter().any(|part| {
        let field = |object: &'_ Value, name: &str| object.pointer(part).and_then(|fields| fields.get(name)).cloned();
        let fields = [before, wanted].into_iter().filter_map(|object| object.pointer(part)?.as_object());
        fields.flat_map(|fields| fields.keys()).any(|name| {
            let is_theirs = field(before, name) != field(wanted, name) && field(old, name) == field(wanted, name);
            is_theirs && field(new, name) == field(before, name)
        })
    })
}

fn finalizers(object: Option<&Value>) -> &[Value] {
    object.map_or(&[], metadata::finalizers)
}

/// Returns true if a change removes a finalizer that `theirs` added, or the other way round. What is gone has none.
fn takes_holder_back(change: &Change, theirs: &Change) -> bool {
    let has = |object: &Option<RecordedJson>, name: &Value| finalizers(object.as_deref()).contains(name);
    let all = [&theirs.old, &theirs.new].into_iter().flat_map(|object| finalizers(object.as_deref()));
    all.into_iter().any(|name| {
        let is_theirs =
            has(&theirs.old, name) != has(&theirs.new, name) && has(&change.old, name) == has(&theirs.new, name);
        is_theirs && has(&change.new, name) == has(&theirs.old, name)
    })
}

/// Returns true if an informer of the sender had shown the change when its work began, or shows no such object.
fn knew(
    knowledge: &Knowledge<'_>,
    key: &Key,
    theirs: &Change,
    (request, entries): (&TranscriptEntry, &[TranscriptEntry]),
) -> bool {
    let began = entries.get(knowledge.window(request.seq).begin).map_or(request.at, |entry| entry.at);
    let seen = knowledge.sightings(key, knowledge.replica_of(request.seq));
    let last = seen.filter(|sighting| sighting.position <= request.seq && sighting.at <= began).last();
    last.is_none_or(|last| last.state.is_none_or(|state| version(state) >= Some(theirs.resource_version)))
}
