//! What concerns taint eviction.

use std::time::Duration;

use serde_json::Value;

use super::{Breach, Scene, condition, deletes_pod, pod_of};
use crate::expect::world::World;
use crate::transcript::{Actor, Attributed as _, Happening};

/// See [`super::ALL`].
pub(super) fn condition_before_delete(scene: &Scene<'_>) -> Vec<Breach> {
    scene.requests(|entry, exchange, world| {
        let pod = pod_of(exchange, world).filter(|_| entry.actor() == Actor::TaintEviction && deletes_pod(exchange))?;
        let marked = condition(pod, "DisruptionTarget")
            .is_some_and(|condition| condition["status"] == "True" && condition["reason"] == "DeletionByTaintManager");
        (!marked).then(|| Breach::new(entry, "the pod has no such condition"))
    })
}

/// See [`super::ALL`].
pub(super) fn no_early_eviction(scene: &Scene<'_>) -> Vec<Breach> {
    scene.requests(|entry, exchange, world| {
        let succeeded = exchange.reply.as_ref().is_some_and(|reply| (200..300).contains(&reply.status));
        if entry.actor() != Actor::TaintEviction || !deletes_pod(exchange) || !succeeded {
            return None;
        }
        let uid = pod_of(exchange, world)?["metadata"]["uid"].as_str()?;
        match earliest(scene, uid, entry.seq) {
            Some(earliest) if earliest <= entry.at => None,
            Some(earliest) => Some(Breach::new(entry, format!("not before {earliest:?}"))),
            None => Some(Breach::new(entry, "it was never bound to a node with a taint it does not tolerate for ever")),
        }
    })
}

/// When the pod of that uid may be deleted at the earliest, from everything that was true before entry `before`.
///
/// What was true from the start counts from a start that is only as exact as the run's times are; every change the server
/// saw before the subject did.
fn earliest(scene: &Scene<'_>, uid: &str, before: usize) -> Option<Duration> {
    let (mut world, slack) = (scene.begin.clone(), scene.run.slack());
    let mut earliest = limit(&world, uid).map(|limit| limit.saturating_sub(scene.run.tolerance));
    for entry in scene.run.entries.iter().take_while(|entry| entry.seq < before) {
        if let Happening::Change(change) = &entry.what {
            world.step(entry);
            if matches!(change.resource.as_str(), "pods" | "nodes") {
                let found = limit(&world, uid).map(|limit| entry.at.saturating_add(limit.saturating_sub(slack)));
                earliest = earliest.into_iter().chain(found).min();
            }
        }
    }
    earliest
}

/// How long the pod may stay on its node as things are; `None`: for ever.
fn limit(world: &World, uid: &str) -> Option<Duration> {
    let (_, pod) = world.all("pods").find(|(_, pod)| pod["metadata"]["uid"] == uid)?;
    let name = pod["spec"]["nodeName"].as_str()?;
    let (_, node) = world.all("nodes").find(|(key, _)| key.name == name)?;
    let taints = node["spec"]["taints"].as_array()?;
    let tolerations = pod["spec"]["tolerations"].as_array().map_or(&[][..], Vec::as_slice);
    let limits = taints.iter().filter(|taint| taint["effect"] == "NoExecute").filter_map(|taint| {
        match tolerations.iter().find(|toleration| tolerates(toleration, taint)) {
            None => Some(Duration::ZERO),
            Some(toleration) => {
                let seconds = toleration["tolerationSeconds"].as_i64()?;
                Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
            }
        }
    });
    limits.min()
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (key, effect) = (text(&toleration["key"]), text(&toleration["effect"]));
    let fits = (effect.is_empty() || taint["effect"] == effect) && (key.is_empty() || taint["key"] == key);
    fits && match text(&toleration["operator"]).as_str() {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && text(&toleration["value"]) == text(&taint["value"]),
        _ => false,
    }
}
