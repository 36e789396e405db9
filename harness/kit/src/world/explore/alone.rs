//! The oracles that need no other run: they judge the run without faults, too. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::resources::NAMESPACE;
use crate::expect::world::{Key, ObjectStates};
use crate::expect::{Run, line, requests};
use crate::explore::blind::{blind, lacks_precondition, patches_finalizers, undone};
use crate::explore::breach::Breach;
use crate::explore::knowledge::Knowledge;
use crate::explore::left::{LEFT, left};
use crate::invariants;
use crate::metadata;
use crate::transcript::{Attributed as _, Delivery, Exchange, TranscriptEntry};

/// Statuses of requests that cannot succeed as they are.
const INVALID: [u16; 4] = [400, 405, 415, 422];
/// The oracle of requests that are repeated without a pause.
const STORMS: &str = "storm";
/// Refusals of a request from which on it is repeated in vain.
const REFUSALS: usize = 5;

/// Returns the breaches by the entries of `run` up to `quiet`.
pub(super) fn judge_alone(run: &Run<'_>, quiet: usize, deliveries: &[Delivery], collects_garbage: bool) -> Vec<Breach> {
    let entries = &run.entries[..quiet.min(run.entries.len())];
    let begin = ObjectStates::new(run, NAMESPACE);
    let mut found = overwritten(&begin, entries, deliveries);
    found.extend(refused(entries));
    found.extend(storms(entries));
    found.extend(left_behind(&begin.after(entries), entries, collects_garbage));
    found
}

/// Returns deletions and updates of objects that their sender had not seen.
fn overwritten(begin: &ObjectStates, entries: &[TranscriptEntry], deliveries: &[Delivery]) -> Vec<Breach> {
    let is_meant = |exchange: &Exchange| {
        exchange.request.verb == "update" || lacks_precondition(exchange) || patches_finalizers(exchange)
    };
    let own = || requests(entries).filter(|(entry, _)| entry.actor().is_subject());
    if !own().any(|(_, exchange)| is_meant(exchange)) {
        return Vec::new();
    }
    let knowledge = Knowledge::new(begin, entries, deliveries);
    let mut found: Vec<Breach> =
        own().filter_map(|(entry, exchange)| blind(&knowledge, entries, entry, exchange)).collect();
    found.extend(undone(&knowledge, entries));
    found
}

/// Returns requests that the server refuses as invalid again and again. A controller that tries, and does something
/// else when it is refused, stays below the limit. A conflict, and what a fault answers, is no mistake of the request.
fn refused(entries: &[TranscriptEntry]) -> Vec<Breach> {
    let mut counts: BTreeMap<(&str, &str, u16), usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (entry, exchange) in requests(entries).filter(|(entry, _)| entry.actor().is_subject()) {
        let Some(reply) = exchange.reply.as_ref().filter(|reply| reply.fault.is_none()) else { continue };
        if !INVALID.contains(&reply.status) {
            continue;
        }
        let request = &exchange.request;
        let count = counts.entry((&request.verb, &request.path, reply.status)).or_default();
        *count += 1;
        if *count == REFUSALS {
            let why = reply.message.as_deref().unwrap_or_default();
            let text = format!("{}, {REFUSALS} times: {why}", line(entry, exchange));
            let kind = format!("{} {}", request.verb, reply.status);
            let breach = Breach::of_run("refused", &kind, entry.at, text);
            found.push(Breach { resource: request.resource.clone(), ..breach });
        }
    }
    found
}

/// Returns requests that are repeated without a pause, as after an error that is not waited for.
fn storms(entries: &[TranscriptEntry]) -> Vec<Breach> {
    let breach = |(entry, exchange): (&TranscriptEntry, &Exchange)| {
        let request = &exchange.request;
        let text = format!("{}, {}", line(entry, exchange), invariants::storm_text());
        Breach { resource: request.resource.clone(), ..Breach::of_run(STORMS, &request.verb, entry.at, text) }
    };
    let mut found: Vec<Breach> = invariants::storms_of_instants(entries).into_iter().map(breach).collect();
    found.dedup_by_key(|breach| breach.fingerprint());
    found
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
