//! Finds the entries of a transcript that are about an object. Pure.

use crate::expect::world::Key;
use crate::expect::{BrokenPromise, Run};
use crate::transcript::by_object::{STARTS, STOPPED, STOPS};
use crate::transcript::{Actor, Attributed as _, Change, EntryKind, Exchange, RecordedRequest, TranscriptEntry};

/// Returns the changes of a resource's objects by `actor`.
pub fn changes<'e>(
    entries: &'e [TranscriptEntry],
    actor: Actor,
    resource: &'static str,
) -> impl Iterator<Item = (&'e TranscriptEntry, &'e Change)> {
    entries.iter().filter_map(move |entry| match &entry.what {
        EntryKind::Change(change) if change.resource == resource && entry.actor() == actor => {
            Some((entry, change.as_ref()))
        }
        _ => None,
    })
}

/// Returns the request that broke a promise, if one did.
#[must_use]
pub fn request_of<'r>(promise: &BrokenPromise, run: &Run<'r>) -> Option<&'r Exchange> {
    match &run.entries.get(promise.seq)?.what {
        EntryKind::Request(exchange) => Some(exchange),
        EntryKind::Change(_) | EntryKind::Note(_) => None,
    }
}

/// Returns the key of the object of a request.
#[must_use]
pub fn key_of_request(request: &RecordedRequest) -> Option<Key> {
    Some(Key {
        group: request.group.clone(),
        resource: request.resource.clone(),
        namespace: request.namespace.clone(),
        name: request.name.clone()?,
    })
}

/// Returns true if a request failed as its client sees it: with an error, or without a reply.
#[must_use]
pub fn has_failed(exchange: &Exchange) -> bool {
    exchange.reply.as_ref().is_none_or(|reply| reply.lost || reply.status >= 400)
}

/// Returns true for the note that the controllers start.
#[must_use]
pub fn is_start(entry: &TranscriptEntry) -> bool {
    matches!(&entry.what, EntryKind::Note(text) if text == STARTS)
}

/// Returns true for the notes that the controllers are asked to stop, and that they have stopped.
#[must_use]
pub fn is_stop(entry: &TranscriptEntry) -> bool {
    matches!(&entry.what, EntryKind::Note(text) if text == STOPS || text == STOPPED)
}

/// Returns true for the note that all controllers start, or the one that sent `request`.
#[must_use]
pub fn is_start_of(entry: &TranscriptEntry, request: &TranscriptEntry) -> bool {
    let EntryKind::Note(text) = &entry.what else { return false };
    let one = [" starts", " crashes and starts again"].iter().find_map(|end| text.strip_suffix(end));
    text == STARTS || one.is_some_and(|name| name == request.actor().name())
}

/// Returns true for a change by the subject.
#[must_use]
pub fn is_of_subject(change: &Change, entries: &[TranscriptEntry]) -> bool {
    change.request.and_then(|seq| entries.get(seq)).is_some_and(|request| request.actor().is_subject())
}

/// Returns the request that led to a change.
#[must_use]
pub fn changed_by(entry: &TranscriptEntry) -> Option<usize> {
    match &entry.what {
        EntryKind::Change(change) => change.request,
        _ => None,
    }
}

/// Returns the first change that the request at `seq` led to, and its entry.
#[must_use]
pub fn change_of(entries: &[TranscriptEntry], seq: usize) -> Option<(&TranscriptEntry, &Change)> {
    entries.get(seq..)?.iter().find_map(|entry| match &entry.what {
        EntryKind::Change(change) if change.request == Some(seq) => Some((entry, &**change)),
        _ => None,
    })
}
