//! Oracle `late` about evictions: pods that were evicted later than their tolerations allow, or not at all. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::world::ObjectStates;
use plumbline::explore::breach::Breach;
use plumbline::explore::faults::FaultTrait;
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::taints::toleration_limit_of;
use plumbline::transcript::EntryKind;
use serde_json::{Value, json};

use super::late::LATE_ORACLE;
use super::tolerance::LATE;
use crate::explore::histories::facts::{controls_subject, has_faults, stays_uninformed};
use crate::explore::run::explored::ExploredRun;

/// Time after which an eviction is overdue in a run without faults.
const PROMPT: Duration = Duration::from_secs(15);

/// A pod that may not stay on its node.
#[derive(Debug, Clone, Copy)]
struct Stay {
    /// Since when a taint limits its stay.
    since: Duration,
    /// The limit that counts: the first one of this stay, as in upstream's queue, or zero if no toleration is left.
    limit: Duration,
}

/// Returns pods that were evicted later than their tolerations allow, or not at all.
pub(super) fn evictions(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    // A restart begins each countdown again, and the limit that counts is that of the first taint that was seen.
    let restarts = explored.plan.has(FaultTrait::Restarts) || explored.plan.delays_information();
    // Limits of the client's rate delay everything.
    let judged = fixture.controllers.contains(&Controller::TaintEviction)
        && !fixture.flags.contains_key("kube-api-qps")
        && !(restarts || controls_subject(fixture) || has_faults(fixture) || stays_uninformed(fixture));
    if !judged {
        return Vec::new();
    }
    let delays = explored.plan.faults.iter().map(|(disturbance, _)| disturbance.duration() + LATE);
    let slack = PROMPT + delays.sum::<Duration>();
    let mut world = begin.clone();
    let mut stays: BTreeMap<String, Stay> = BTreeMap::new();
    update(&mut stays, &world, None, Duration::ZERO);
    for entry in explored.until_quiet() {
        let EntryKind::Change(change) = &entry.what else { continue };
        world.step(entry);
        let concerned = match change.resource.as_str() {
            "pods" => change.new.as_ref().or(change.old.as_ref()).map(|pod| (false, uid_of(pod))),
            "nodes" => Some((true, change.name.clone())),
            _ => None,
        };
        let Some((is_node, name)) = concerned else { continue };
        if let Some(stay) = stays.get(&name).filter(|_| !is_node)
            && entry.at > stay.since + stay.limit + slack
        {
            return vec![late_eviction(&change.name, *stay, entry.at)];
        }
        update(&mut stays, &world, Some((is_node, &name)), entry.at);
    }
    Vec::new()
}

fn uid_of(pod: &Value) -> String {
    metadata::uid(pod).unwrap_or_default().to_owned()
}

/// Updates the stays of the pods on this node, of this pod, or of all pods.
fn update(stays: &mut BTreeMap<String, Stay>, world: &ObjectStates, concerned: Option<(bool, &str)>, now: Duration) {
    if let Some((false, uid)) = concerned
        && !world.all("pods").any(|(_, pod)| metadata::uid(pod) == Some(uid))
    {
        stays.remove(uid);
        return;
    }
    let is_concerned = |pod: &Value| match concerned {
        None => true,
        Some((true, node)) => pod["spec"]["nodeName"] == node,
        Some((false, uid)) => metadata::uid(pod) == Some(uid),
    };
    for (_, pod) in world.all("pods").filter(|(_, pod)| is_concerned(pod)) {
        let uid = uid_of(pod);
        let live = !metadata::is_terminating(pod);
        // The deletion of a node ends no countdown.
        let is_lost = live && !world.all("nodes").any(|(key, _)| pod["spec"]["nodeName"] == *key.name);
        match toleration_limit_of(world, pod).filter(|_| live) {
            None if is_lost => {}
            None => _ = stays.remove(&uid),
            Some(limit) => {
                let stay = stays.entry(uid).or_insert(Stay { since: now, limit });
                if limit.is_zero() && !stay.limit.is_zero() {
                    *stay = Stay { since: now, limit };
                }
            }
        }
    }
}

fn late_eviction(pod: &str, stay: Stay, at: Duration) -> Breach {
    let Stay { since, limit } = stay;
    Breach {
        oracle: LATE_ORACLE.to_owned(),
        resource: "pods".to_owned(),
        kind: "eviction".to_owned(),
        at,
        text: format!("pods/{pod} may stay on its node for {limit:?} from {since:?} on and is evicted at {at:?}"),
        expected: json!({ "absent": format!("pods/{pod}") }),
    }
}
