//! What concerns the pod garbage collector.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{Breach, Scene, deletes_pod, pod_of};
use crate::expect::requests;
use crate::transcript::{Actor, Attributed as _, Entry, Exchange, Happening};

/// How long a node is missing before its pods are orphans.
const QUARANTINE: Duration = Duration::from_secs(40);

/// From the end of a cycle to the start of the next.
const CYCLE: Duration = Duration::from_secs(20);

fn finished(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// See [`super::ALL`].
pub(super) fn force_deletes_have_grace_zero(scene: &Scene<'_>) -> Vec<Breach> {
    scene.requests(|entry, exchange, _| {
        let request = &exchange.request;
        let body = request.body.as_ref().and_then(|body| body["gracePeriodSeconds"].as_i64());
        let query = request.query_value("gracePeriodSeconds").and_then(|text| text.parse().ok());
        let grace = body.or(query);
        (entry.actor() == Actor::PodGc && deletes_pod(exchange) && grace != Some(0)).then(|| {
            let found =
                grace.map_or_else(|| "no gracePeriodSeconds".to_owned(), |grace| format!("gracePeriodSeconds {grace}"));
            Breach::new(entry, found)
        })
    })
}

/// See [`super::ALL`].
pub(super) fn failed_before_delete(scene: &Scene<'_>) -> Vec<Breach> {
    let mut breaches = scene.requests(|entry, exchange, world| {
        let pod = pod_of(exchange, world).filter(|_| entry.actor() == Actor::PodGc && deletes_pod(exchange))?;
        (!finished(pod)).then(|| Breach::new(entry, format!("the phase is {}", pod["status"]["phase"])))
    });
    breaches.extend(scene.changes(&Actor::PodGc, "pods", |entry, _, old, new| {
        let old = old.filter(|old| finished(old))?;
        (old["status"]["phase"] != new["status"]["phase"])
            .then(|| Breach::new(entry, format!("{} became {}", old["status"]["phase"], new["status"]["phase"])))
    }));
    breaches
}

/// Whether the request marks a pod as deleted because its node is gone.
fn marks_orphan(entry: &Entry, exchange: &Exchange) -> bool {
    let conditions = exchange.request.body.as_ref().and_then(|body| body["status"]["conditions"].as_array());
    entry.actor() == Actor::PodGc
        && exchange.request.resource == "pods"
        && conditions.is_some_and(|all| all.iter().any(|condition| condition["reason"] == "DeletionByPodGC"))
}

/// See [`super::ALL`].
pub(super) fn orphans_are_confirmed(scene: &Scene<'_>) -> Vec<Breach> {
    scene.requests(|entry, exchange, world| {
        if !marks_orphan(entry, exchange) {
            return None;
        }
        let pod = pod_of(exchange, world)?;
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let before = &scene.run.entries[..entry.seq.min(scene.run.entries.len())];
        // The answer to the GET may have been delayed, so "the same cycle" is what must be the same.
        let confirmed = requests(before).rev().any(|(asked, exchange)| {
            asked.actor() == Actor::PodGc
                && exchange.request.verb == "get"
                && exchange.request.resource == "nodes"
                && exchange.request.name.as_deref() == Some(node)
                && asked.at + CYCLE + scene.run.tolerance > entry.at
                && exchange.reply.as_ref().is_some_and(|reply| reply.status == 404)
        });
        if !confirmed {
            return Some(Breach::new(entry, format!("no live GET of nodes/{node} answered 404 before")));
        }
        let missing = first_missing(scene, node);
        missing.is_none_or(|(since, slack)| since + QUARANTINE > entry.at + slack).then(|| {
            let since = missing.map_or_else(|| "never".to_owned(), |(since, _)| format!("{since:?}"));
            Breach::new(entry, format!("nodes/{node} is missing since {since}"))
        })
    })
}

/// When a node of that name was first not there, and how much earlier a subject may have begun to count. That the node went
/// the server saw before the subject; when the subject started is only as exact as the run's times are.
fn first_missing(scene: &Scene<'_>, node: &str) -> Option<(Duration, Duration)> {
    let there = |object: &Arc<Value>| object["kind"] == "Node" && object["metadata"]["name"] == node;
    if !scene.run.initial.iter().any(there) {
        return Some((Duration::ZERO, scene.run.tolerance));
    }
    scene.run.entries.iter().find_map(|entry| match &entry.what {
        Happening::Change(change) if change.resource == "nodes" && change.name == node && change.new.is_none() => {
            Some((entry.at, scene.run.slack()))
        }
        _ => None,
    })
}
