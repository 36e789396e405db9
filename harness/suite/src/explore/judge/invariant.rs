//! Oracles `invariant NAME`: the always-on invariants hold at each step. Pure.

use plumbline::expect::world::ObjectStates;
use plumbline::expect::{BrokenPromise, Run};
use plumbline::explore::breach::Breach;
use plumbline::explore::faults::plan::FaultPlan;
use plumbline::explore::faults::{Disturbance, FaultTrait};
use plumbline::fixture::Fixture;
use plumbline::invariants::{self, STORM};
use plumbline::rules::quarantine::CYCLE;
use plumbline::transcript::{Attributed as _, EntryKind, TranscriptEntry};
use serde_json::json;

use super::evictions::{is_bound_uninformed, is_marked_over};
use super::news::is_uninformed_at;
use crate::explore::histories::facts::has_faults;
use crate::explore::run::entries::{changes_object_of, request_of};
use crate::explore::run::explored::ExploredRun;

/// Checks the invariants. A violation by a request that the server refused counts only if refusal cannot excuse it.
pub(super) fn broken(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let run = explored.record.run(explored.entries, explored.record.end);
    let broken = invariants::check_from(fixture, &run, begin);
    let broken = broken.into_iter().filter(|promise| {
        !is_excused(promise, &run, explored.plan, has_faults(fixture))
            && !is_marked_over(promise, begin, &run, explored.plan)
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

/// Returns true if the faults of the run explain the violation: the subject repeats a write of which it does not know
/// that it took effect, the server refuses a write that comes from an old state, or a live read takes longer than a
/// cycle.
fn is_excused(promise: &BrokenPromise, run: &Run<'_>, plan: &FaultPlan, own_faults: bool) -> bool {
    let refused = || {
        request_of(promise, run).is_some_and(|exchange| match &exchange.reply {
            Some(reply) => matches!(reply.status, 404 | 409 | 422),
            // The controllers crash before they can see the refusal.
            None => plan.has(FaultTrait::Restarts) && !has_effect(promise.seq, run),
        })
    };
    match promise.check.as_str() {
        "invariant no_idle_writes" => {
            plan.faults.iter().any(|(disturbance, _)| !disturbance.is(FaultTrait::IsPlain))
                || (own_faults && plan.delays_information())
        }
        // The object that another client creates has the status of the one that it replaces.
        "invariant generation_never_falls" => plan.has(FaultTrait::ReplacesObject),
        // Events wait for the reply to the one before; a real client's limit of requests a second is off here. With old
        // lists, a key fails again and again: eight times in the first second of its back-off, with two writes each.
        "invariant no_storms" => {
            let of_events = run.entries.get(promise.seq).is_some_and(|entry| resource_of(entry) == "events");
            let outdated = || refused() && plan.delays_information();
            !plan.faults.is_empty() && (of_events || outdated() || is_caught_up(promise, run, plan))
        }
        "invariant orphans_are_confirmed" => {
            let delays = |fault: Disturbance| fault.is(FaultTrait::DelaysRequest) || fault.is(FaultTrait::DelaysReply);
            refused() || plan.faults.iter().any(|(fault, _)| delays(*fault) && fault.duration() >= CYCLE)
        }
        // While a reply is late, another client may write the same condition or phase.
        "invariant condition_before_delete" | "invariant failed_before_delete" => {
            refused() || plan.has(FaultTrait::DelaysReply) || plan.has(FaultTrait::ReplacesObject)
        }
        "invariant conditions_age_two_minutes" => plan.has(FaultTrait::SetsClockAhead),
        "invariant no_early_eviction" => {
            refused() || is_uninformed_at(promise.at, plan) || is_bound_uninformed(promise, run, plan)
        }
        _ => false,
    }
}

/// Returns true if the request at `seq` changed an object.
fn has_effect(seq: usize, run: &Run<'_>) -> bool {
    run.entries[seq..]
        .iter()
        .any(|entry| matches!(&entry.what, EntryKind::Change(change) if change.request == Some(seq)))
}

/// Returns true if the subject was cut off and then learned of as many changes of the object as it makes requests: each
/// of them is an event, handled with a list that shows none of the answers yet.
fn is_caught_up(promise: &BrokenPromise, run: &Run<'_>, plan: &FaultPlan) -> bool {
    let Some(exchange) = request_of(promise, run) else { return false };
    let changes =
        || run.entries[..promise.seq].iter().filter_map(|entry| changes_object_of(entry, &exchange.request)).count();
    plan.faults.iter().any(|(disturbance, _)| disturbance.cut_off().is_some()) && changes() >= STORM
}
