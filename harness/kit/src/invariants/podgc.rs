//! Invariants of the pod garbage collector.

use std::time::Duration;

use super::violation::{Violation, deletes_pod_as, pod_of};
use crate::expect::{JudgeContext, requests};
use crate::metadata;
use crate::rules::pods::is_finished;
use crate::rules::quarantine::{CYCLE, DELETION_BY_POD_GC, QUARANTINE};
use crate::transcript::{Actor, Attributed as _, EntryKind, Exchange, RecordedJson, TranscriptEntry};

/// See [`super::ALL`].
pub(super) fn force_deletes_have_grace_zero(context: &JudgeContext<'_>) -> Vec<Violation> {
    let is_mine = deletes_pod_as(Actor::PodGc);
    let mine = requests(context.run.entries).filter(|(entry, exchange)| is_mine(entry, exchange));
    let graceful = mine.filter_map(|(entry, exchange)| {
        let request = &exchange.request;
        let body = request.body.as_ref().and_then(|body| body["gracePeriodSeconds"].as_i64());
        let query = request.query_value("gracePeriodSeconds").and_then(|text| text.parse().ok());
        let grace = body.or(query);
        (grace != Some(0)).then(|| {
            let found =
                grace.map_or_else(|| "no gracePeriodSeconds".to_owned(), |grace| format!("gracePeriodSeconds {grace}"));
            Violation::new(entry, found)
        })
    });
    graceful.collect()
}

/// See [`super::ALL`].
pub(super) fn failed_before_delete(context: &JudgeContext<'_>) -> Vec<Violation> {
    let mut violations = context.requests(deletes_pod_as(Actor::PodGc), |entry, exchange, world| {
        let pod = pod_of(exchange, world)?;
        (!is_finished(pod)).then(|| Violation::new(entry, format!("the phase is {}", pod["status"]["phase"])))
    });
    violations.extend(context.changes(&Actor::PodGc, "pods", |entry, _, old, new| {
        let old = old.filter(|old| is_finished(old))?;
        (old["status"]["phase"] != new["status"]["phase"])
            .then(|| Violation::new(entry, format!("{} became {}", old["status"]["phase"], new["status"]["phase"])))
    }));
    violations
}

/// Returns true if the request marks a pod as deleted by PodGC.
fn marks_orphan(entry: &TranscriptEntry, exchange: &Exchange) -> bool {
    let conditions = || exchange.request.body.as_ref().and_then(|body| body["status"]["conditions"].as_array());
    exchange.request.resource == "pods"
        && entry.actor() == Actor::PodGc
        && conditions().is_some_and(|all| all.iter().any(|condition| condition["reason"] == DELETION_BY_POD_GC))
}

/// See [`super::ALL`].
pub(super) fn orphans_are_confirmed(context: &JudgeContext<'_>) -> Vec<Violation> {
    context.requests(marks_orphan, |entry, exchange, world| {
        let pod = pod_of(exchange, world)?;
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let before = &context.run.entries[..entry.seq.min(context.run.entries.len())];
        // The reply may have been delayed, so it only has to belong to the same cycle.
        let confirmed = requests(before).rev().any(|(asked, exchange)| {
            exchange.request.resource == "nodes"
                && asked.at + CYCLE + context.run.tolerance > entry.at
                && (is_answered_missing(asked, exchange, node) || is_left_out(context, asked, exchange, node))
        });
        if !confirmed {
            let observed =
                format!("no live GET of nodes/{node} was answered 404 before, and no new list was without it");
            return Some(Violation::new(entry, observed));
        }
        let missing = first_missing(context, node);
        missing.is_none_or(|(since, slack)| since + QUARANTINE > entry.at + slack).then(|| {
            let observed = missing.map_or_else(
                || format!("nodes/{node} is not missing"),
                |(since, _)| format!("nodes/{node} is missing since {since:?}"),
            );
            Violation::new(entry, observed)
        })
    })
}

/// Returns true if the request asked for the node and the server had none.
fn is_answered_missing(asked: &TranscriptEntry, exchange: &Exchange, node: &str) -> bool {
    asked.actor() == Actor::PodGc
        && exchange.request.verb == "get"
        && exchange.request.name.as_deref() == Some(node)
        && exchange.reply.as_ref().is_some_and(|reply| reply.status == 404)
}

/// Returns true if the request listed all nodes, as they were at that moment, and the node was none of them.
fn is_left_out(context: &JudgeContext<'_>, asked: &TranscriptEntry, exchange: &Exchange, node: &str) -> bool {
    let request = &exchange.request;
    let is_new = request.query_value("resourceVersion").is_none_or(str::is_empty);
    let is_whole = ["labelSelector", "fieldSelector"].iter().all(|name| request.query_value(name).is_none());
    asked.actor().is_subject()
        && request.verb == "list"
        && is_new
        && is_whole
        && exchange.reply.as_ref().is_some_and(|reply| reply.status == 200)
        && !exists_at(context, asked, node)
}

/// Returns true if the node existed when the request came.
fn exists_at(context: &JudgeContext<'_>, asked: &TranscriptEntry, node: &str) -> bool {
    let before = &context.run.entries[..asked.seq.min(context.run.entries.len())];
    let last = before.iter().rev().find_map(|entry| match &entry.what {
        EntryKind::Change(change) if change.resource == "nodes" && change.name == node => Some(change.new.is_some()),
        _ => None,
    });
    last.unwrap_or_else(|| context.run.initial.iter().any(|object| is_node(object, node)))
}

fn is_node(object: &RecordedJson, name: &str) -> bool {
    object["kind"] == "Node" && metadata::name(object) == name
}

/// Returns the time from which a node of that name was missing, and how much earlier a subject may have begun to count.
/// The server records the deletion before the subject sees it; the start of the subject is only as exact as the run's
/// times.
fn first_missing(context: &JudgeContext<'_>, node: &str) -> Option<(Duration, Duration)> {
    if !context.run.initial.iter().any(|object| is_node(object, node)) {
        return Some((Duration::ZERO, context.run.tolerance));
    }
    context.run.entries.iter().find_map(|entry| match &entry.what {
        EntryKind::Change(change) if change.resource == "nodes" && change.name == node && change.new.is_none() => {
            Some((entry.at, context.run.slack()))
        }
        _ => None,
    })
}
