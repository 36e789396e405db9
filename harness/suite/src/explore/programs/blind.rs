//! Writes and deletions of objects whose present state the program had not seen. Pure.

use plumbline::expect::line;
use plumbline::metadata;
use plumbline::transcript::{Exchange, RecordedJson, TranscriptEntry};
use serde_json::Value;

use super::job::{Blind, millis};
use crate::explore::run::entries::{change_of, key_of_request};
use crate::explore::run::knowledge::Knowledge;

/// Returns the breach if a write without a precondition meets a state that the program had not seen when it sent the
/// request, neither in a list or event nor in a reply, and that it did not make itself.
pub(super) fn blind(
    knowledge: &Knowledge<'_>,
    entries: &[TranscriptEntry],
    entry: &TranscriptEntry,
    exchange: &Exchange,
) -> Option<Blind> {
    let request = &exchange.request;
    if request.subresource.is_some() || exchange.reply.as_ref().is_none_or(|reply| reply.status >= 300) {
        return None;
    }
    let key = key_of_request(request)?;
    // A request may take effect long after it was sent.
    let effect = change_of(entries, entry.seq)?.0.seq;
    let present = knowledge.present(&key, effect)?;
    let known = knowledge.known_objects(&key, entry.seq);
    if known.is_empty() || knowledge.is_own(&key, effect) {
        return None;
    }
    let body = request.body.as_deref().unwrap_or(&Value::Null);
    let what = match request.verb.as_str() {
        "delete" if body["preconditions"]["uid"].is_null() && body["preconditions"]["resourceVersion"].is_null() => {
            if known.iter().any(|object| metadata::uid(object) == metadata::uid(present)) {
                return None;
            }
            "another object of that name than the one that it had seen is deleted: send preconditions.uid"
        }
        "update" if metadata::resource_version(body).is_none_or(str::is_empty) => {
            if known.iter().any(|object| version(object) >= version(present)) {
                return None;
            }
            "a change by another client that it had not seen is overwritten: send metadata.resourceVersion"
        }
        _ => return None,
    };
    let text = format!("{}: {what}", line(entry, exchange));
    Some(Blind { resource: request.resource.clone(), verb: request.verb.clone(), at: millis(entry.at), text })
}

fn version(object: &RecordedJson) -> Option<u64> {
    metadata::resource_version(object)?.parse().ok()
}
