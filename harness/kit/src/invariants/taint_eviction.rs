//! Invariants of the taint eviction controller.

use std::time::Duration;

use serde_json::Value;

use super::violation::{Violation, deletes_pod_as, pod_of};
use crate::expect::JudgeContext;
use crate::metadata;
use crate::rules::pods::disruption_reason;
use crate::rules::taints::{DELETION_BY_TAINT_MANAGER, toleration_limit};
use crate::transcript::{Actor, EntryKind, Exchange, TranscriptEntry};

/// See [`super::ALL`].
pub(super) fn condition_before_delete(context: &JudgeContext<'_>) -> Vec<Violation> {
    context.requests(deletes_pod_as(Actor::TaintEviction), |entry, exchange, world| {
        let pod: &Value = pod_of(exchange, world)?;
        // A deletion with the uid of an earlier pod of that name was decided about that one.
        let pod = excluding_uid(exchange, pod).and_then(|uid| last_state(context, uid, entry.seq)).unwrap_or(pod);
        let marked = disruption_reason(pod, "True") == Some(DELETION_BY_TAINT_MANAGER);
        (!marked).then(|| Violation::new(entry, "the pod has no such condition"))
    })
}

/// Returns the uid precondition of a deletion if it excludes this pod.
fn excluding_uid<'e>(exchange: &'e Exchange, pod: &Value) -> Option<&'e str> {
    let wanted = exchange.request.body.as_deref()?["preconditions"]["uid"].as_str()?;
    (!wanted.is_empty() && metadata::uid(pod) != Some(wanted)).then_some(wanted)
}

/// Returns the last state of the pod with this uid among the changes before entry `before`.
fn last_state<'a>(context: &JudgeContext<'a>, uid: &str, before: usize) -> Option<&'a Value> {
    let entries: &'a [TranscriptEntry] = context.run.entries;
    let states = entries.iter().take_while(|entry| entry.seq < before).filter_map(|entry| match &entry.what {
        EntryKind::Change(change) if change.resource == "pods" => change.new.as_deref().or(change.old.as_deref()),
        _ => None,
    });
    states.filter(|pod| metadata::uid(pod) == Some(uid)).last()
}

/// See [`super::ALL`].
pub(super) fn no_early_eviction(context: &JudgeContext<'_>) -> Vec<Violation> {
    let is_mine = deletes_pod_as(Actor::TaintEviction);
    let is_meant = |entry: &TranscriptEntry, exchange: &Exchange| {
        let succeeded = exchange.reply.as_ref().is_some_and(|reply| (200..300).contains(&reply.status));
        succeeded && is_mine(entry, exchange)
    };
    context.requests(is_meant, |entry, exchange, world| {
        let uid = metadata::uid(pod_of(exchange, world)?)?;
        match earliest(context, uid, entry.seq) {
            Some(earliest) if earliest <= entry.at => None,
            Some(earliest) => Some(Violation::new(entry, format!("the earliest time is {earliest:?}"))),
            None => Some(Violation::new(
                entry,
                "it was never bound to a node with a taint that it does not tolerate indefinitely",
            )),
        }
    })
}

/// Returns the earliest time at which the pod with this uid may be deleted, from the state before entry `before`.
///
/// State that existed from the start counts from a start that is only as exact as the run's times; every later change
/// is recorded by the server before the subject sees it.
fn earliest(context: &JudgeContext<'_>, uid: &str, before: usize) -> Option<Duration> {
    let mut world = context.begin.clone();
    let slack = context.run.slack();
    let mut earliest = toleration_limit(&world, uid).map(|limit| limit.saturating_sub(context.run.tolerance));
    for entry in context.run.entries.iter().take_while(|entry| entry.seq < before) {
        if let EntryKind::Change(change) = &entry.what {
            world.step(entry);
            if matches!(change.resource.as_str(), "pods" | "nodes") {
                let found =
                    toleration_limit(&world, uid).map(|limit| entry.at.saturating_add(limit.saturating_sub(slack)));
                earliest = earliest.into_iter().chain(found).min();
            }
        }
    }
    earliest
}
