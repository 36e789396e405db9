//! Oracles `invariant NAME`: the always-on invariants hold at each step. Pure.
//!
//! The invariants compare writes with the state of the server. Those that depend on what the controller could know are
//! judged by [`early`](super::early) and [`condition`](super::condition) instead.

use jiff::SignedDuration;
use plumbline::expect::world::ObjectStates;
use plumbline::expect::{BrokenPromise, requests};
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::{key_of_request, request_of};
use plumbline::fixture::Fixture;
use plumbline::invariants::{self, STORM};
use plumbline::transcript::{Attributed as _, EntryKind, Exchange, TranscriptEntry};
use serde_json::json;

use super::known::{begin_of, clock_offsets};
use crate::explore::run::explored::ExploredRun;

/// The invariants that other oracles judge, by what the controller could know.
const BY_KNOWLEDGE: [&str; 4] = [
    "invariant condition_before_delete",
    "invariant failed_before_delete",
    "invariant no_early_eviction",
    "invariant orphans_are_confirmed",
];

/// Checks the invariants.
pub(super) fn broken(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let run = explored.record.run(explored.entries, explored.record.end);
    let broken = invariants::check_from(fixture, &run, begin);
    let broken = broken.into_iter().filter(|promise| {
        let exchange = request_of(promise, &run);
        !BY_KNOWLEDGE.contains(&promise.check.as_str())
            && !exchange.is_some_and(|exchange| is_unaware(promise, exchange, explored))
            && !is_on_time(promise, explored)
    });
    let to_breach = |promise: BrokenPromise| Breach {
        resource: explored.entries.get(promise.seq).map(resource_of).unwrap_or_default(),
        kind: explored.entries.get(promise.seq).map(actor_of).unwrap_or_default(),
        at: promise.at,
        text: format!("{}; {}", promise.observed, promise.expected),
        expected: json!({ "quiet": true }),
        oracle: promise.check,
    };
    broken.map(to_breach).collect()
}

fn actor_of(entry: &TranscriptEntry) -> String {
    entry.actor().to_string()
}

fn resource_of(entry: &TranscriptEntry) -> String {
    match &entry.what {
        EntryKind::Request(exchange) => exchange.request.resource_path(),
        EntryKind::Change(change) => change.resource.clone(),
        EntryKind::Note(_) => String::new(),
    }
}

/// Returns true if the sender of the request could not know that it changes nothing, or has as many reasons to repeat
/// it as requests.
fn is_unaware(promise: &BrokenPromise, exchange: &Exchange, explored: ExploredRun<'_>) -> bool {
    match promise.check.as_str() {
        "invariant no_idle_writes" => {
            let window = explored.knowledge.window(promise.seq);
            key_of_request(&exchange.request).is_some_and(|key| explored.knowledge.may_be_outdated(&key, window))
        }
        "invariant no_storms" => is_explained_storm(promise, exchange, explored),
        _ => false,
    }
}

/// Returns true if what the informers showed and what failed in the second before explains all but [`STORM`] of the
/// equal requests.
fn is_explained_storm(promise: &BrokenPromise, exchange: &Exchange, explored: ExploredRun<'_>) -> bool {
    let since = promise.at.saturating_sub(std::time::Duration::from_secs(1));
    let begin = explored.entries.partition_point(|entry| entry.at < since);
    let recent = &explored.entries[begin..promise.seq.min(explored.entries.len())];
    // The recorder waits for the reply to one Event before it sends the next, and sends all that have come up then.
    if exchange.request.resource == "events"
        && begin_of(explored.entries, explored.knowledge.window(promise.seq)) < since
    {
        return true;
    }
    let is_equal = |other: &Exchange| {
        (&other.request.verb, &other.request.path) == (&exchange.request.verb, &exchange.request.path)
    };
    let failed = requests(recent)
        .filter(|(_, other)| is_equal(other) && other.reply.as_ref().is_none_or(|reply| reply.status >= 400))
        .count();
    let is_event = exchange.request.resource == "events";
    let key = key_of_request(&exchange.request).filter(|_| !is_event);
    let shown = explored.knowledge.sightings_within(begin..=promise.seq, |seen| {
        // Each change of an object may lead to an Event about another one.
        is_event || key.as_ref() == Some(seen)
    });
    failed + shown >= STORM
}

/// Returns true if the controllers' clock explains the time of the write.
fn is_on_time(promise: &BrokenPromise, explored: ExploredRun<'_>) -> bool {
    promise.check == "invariant conditions_age_two_minutes" && {
        let request = match explored.entries.get(promise.seq).map(|entry| &entry.what) {
            Some(EntryKind::Change(change)) => change.request.unwrap_or(promise.seq),
            _ => promise.seq,
        };
        let window = explored.knowledge.window(request);
        clock_offsets(explored.entries, window).into_iter().any(|ahead| ahead > SignedDuration::ZERO)
    }
}
