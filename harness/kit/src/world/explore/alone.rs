//! The oracles that need no other run: they judge the run without faults, too. Pure.

use std::time::Duration;

use super::super::objects::NAMESPACE;
use crate::expect::world::{Key, ObjectStates};
use crate::expect::{Run, requests};
use crate::explore::blind::{blind, lacks_precondition};
use crate::explore::breach::Breach;
use crate::explore::knowledge::Knowledge;
use crate::explore::left::{LEFT, left};
use crate::metadata;
use crate::transcript::{Attributed as _, Delivery, TranscriptEntry};

/// Returns the breaches by the entries of `run` up to `quiet`.
pub(super) fn judge_alone(run: &Run<'_>, quiet: usize, deliveries: &[Delivery], collects_garbage: bool) -> Vec<Breach> {
    let entries = &run.entries[..quiet.min(run.entries.len())];
    let begin = ObjectStates::new(run, NAMESPACE);
    let mut found = overwritten(&begin, entries, deliveries);
    found.extend(left_behind(&begin.after(entries), entries, collects_garbage));
    found
}

/// Returns deletions and updates of objects that their sender had not seen.
fn overwritten(begin: &ObjectStates, entries: &[TranscriptEntry], deliveries: &[Delivery]) -> Vec<Breach> {
    let is_meant = |entry: &TranscriptEntry| entry.actor().is_subject();
    let mut meant =
        requests(entries).filter(|(entry, exchange)| is_meant(entry) && lacks_precondition(exchange)).peekable();
    if meant.peek().is_none() {
        return Vec::new();
    }
    let knowledge = Knowledge::new(begin, entries, deliveries);
    meant.filter_map(|(entry, exchange)| blind(&knowledge, entries, entry, exchange)).collect()
}

/// Returns what controllers made for objects that are deleted. Without garbage collection, what has an owner stays.
fn left_behind(end: &ObjectStates, entries: &[TranscriptEntry], collects_garbage: bool) -> Vec<Breach> {
    let is_meant = |key: &Key| {
        collects_garbage || end.get(key).is_some_and(|object| metadata::owner_references(object).is_empty())
    };
    let found = left(end, entries).into_iter().filter(|(key, _)| is_meant(key));
    let breach = |(key, why): (Key, String)| {
        let text = format!("{}/{} is left: {why}", key.resource, key.name);
        Breach { resource: key.resource, ..Breach::of_run(LEFT, "", Duration::ZERO, text) }
    };
    found.map(breach).collect()
}
