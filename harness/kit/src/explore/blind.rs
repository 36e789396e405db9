//! Writes and deletions of objects whose present state the program had not seen. Pure.

use serde_json::{Value, json};

use super::breach::Breach;
use super::entries::{change_of, key_of_request};
use super::knowledge::Knowledge;
use crate::expect::line;
use crate::metadata;
use crate::transcript::{Exchange, RecordedJson, TranscriptEntry};

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

fn version(object: &RecordedJson) -> Option<u64> {
    metadata::resource_version(object)?.parse().ok()
}
