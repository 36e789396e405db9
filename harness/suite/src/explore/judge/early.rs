//! Oracle `early`: no pod is evicted or collected of which the controllers know that it may stay. Pure.
//!
//! `PodGC` touches a pod of an existing node only if that node is out of service. It reads a node before it touches the
//! node's pods, so runs in which the controllers learn of changes late are judged, too.
//!
//! Source: `pkg/controller/podgc/gc_controller.go`.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::world::ObjectStates;
use plumbline::explore::breach::Breach;
use plumbline::explore::faults::FaultTrait;
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::nodes::NodeState;
use plumbline::rules::pods::is_terminated;
use plumbline::rules::quarantine::THRESHOLD;
use plumbline::rules::taints::toleration_limit_of;
use plumbline::transcript::{Actor, Attributed as _, EntryKind};
use serde_json::json;

use super::breaches::of_change;
use super::news::is_uninformed_at;
use super::node_times::NodeTimes;
use super::tolerance::{AT_ONCE, write_delay};
use crate::explore::histories::facts::{disturbs_watches, has_faults};
use crate::explore::run::entries::changes;
use crate::explore::run::explored::ExploredRun;

/// The oracle.
const ORACLE: &str = "early";

/// Returns the first pod that `PodGC` fails or deletes without a reason.
pub(super) fn collection(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let is_judged = fixture.controllers.contains(&Controller::PodGc)
        && !has_faults(fixture)
        && !explored.plan.has(FaultTrait::ChangesHistory);
    if !is_judged {
        return Vec::new();
    }
    let threshold = fixture.flags.contains_key(THRESHOLD);
    let delay = write_delay(explored.plan);
    let mut nodes = None;
    let found = changes(explored.until_quiet(), Actor::PodGc, "pods").find_map(|(entry, change)| {
        let old = change.old.as_deref()?;
        let node = old["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
        let nodes = nodes.get_or_insert_with(|| NodeTimes::new(begin, explored.until_quiet()));
        let was = |state: NodeState| nodes.was(node, state, entry.at.saturating_sub(delay), entry.at);
        let is_lost = was(NodeState::Missing) || was(NodeState::OutOfService);
        if is_lost || threshold && is_terminated(old) {
            return None;
        }
        let text =
            format!("podgc changes pods/{} at {:?}, and nodes/{node} is not out of service", change.name, entry.at);
        Some(of_change(ORACLE, change, "podgc".to_owned(), entry.at, text))
    });
    found.into_iter().collect()
}

/// Returns the eviction of a pod that may stay on its node, and of which the controllers know it: the taint went, or is
/// tolerated, before the request was sent.
pub(super) fn eviction(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    if !fixture.controllers.contains(&Controller::TaintEviction) || disturbs_watches(fixture) {
        return Vec::new();
    }
    let mut world = begin.clone();
    // When each pod's stay was last limited.
    let mut limited: BTreeMap<String, Duration> = BTreeMap::new();
    for entry in explored.entries {
        match &entry.what {
            EntryKind::Change(change) if matches!(change.resource.as_str(), "pods" | "nodes") => {
                note_limits(&mut limited, &world, entry.at);
                world.step(entry);
            }
            EntryKind::Request(exchange) if entry.actor() == Actor::TaintEviction => {
                let request = &exchange.request;
                let deletes = request.verb == "delete" && request.resource == "pods";
                let succeeds = exchange.reply.as_ref().is_some_and(|reply| (200..300).contains(&reply.status));
                if !(deletes && succeeds) || is_uninformed_at(entry.at, explored.plan) {
                    continue;
                }
                note_limits(&mut limited, &world, entry.at);
                let mut pods = world.all("pods");
                let found = pods
                    .find(|(key, _)| request.name.as_ref() == Some(&key.name) && request.namespace == key.namespace);
                let Some((_, pod)) = found else { continue };
                let last = limited.get(&uid_of(pod)).copied();
                // The deletion of a node ends no countdown.
                let has_node = world.all("nodes").any(|(key, _)| pod["spec"]["nodeName"] == *key.name);
                if has_node
                    && toleration_limit_of(&world, pod).is_none()
                    && last.is_some_and(|last| last + AT_ONCE <= entry.at)
                {
                    let name = request.name.clone().unwrap_or_default();
                    return vec![Breach {
                        oracle: ORACLE.to_owned(),
                        resource: "pods".to_owned(),
                        kind: "eviction".to_owned(),
                        at: entry.at,
                        text: format!("pods/{name} is evicted at {:?}, but it may stay since {last:?}", entry.at),
                        expected: json!({ "exists": format!("pods/{name}") }),
                    }];
                }
            }
            _ => {}
        }
    }
    Vec::new()
}

/// Notes the pods whose stay is limited now.
fn note_limits(limited: &mut BTreeMap<String, Duration>, world: &ObjectStates, now: Duration) {
    let pods = world.all("pods").filter(|(_, pod)| toleration_limit_of(world, pod).is_some());
    limited.extend(pods.map(|(_, pod)| (uid_of(pod), now)));
}

fn uid_of(pod: &serde_json::Value) -> String {
    metadata::uid(pod).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use plumbline::rules::nodes::OUT_OF_SERVICE;
    use plumbline::transcript::Transcript;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::explore::judge::condition::unexplained;
    use crate::explore::judge::testing::{change, judged_by};

    fn judged(controller: &str, transcript: &Transcript, initial: Vec<Value>) -> Vec<String> {
        judged_by(controller, transcript, initial, |fixture, begin, explored| {
            let found = [collection, unexplained].into_iter().flat_map(|oracle| oracle(fixture, begin, explored));
            found.map(|breach| breach.fingerprint()).collect()
        })
    }

    fn node(ready: &str, taint: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
            "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn pod(phase: &str, reason: &str) -> Value {
        json!({"metadata": {"generation": 1}, "spec": {"nodeName": "a"}, "status": {"phase": phase,
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "gone",
                "observedGeneration": 1}]}})
    }

    #[rstest]
    #[case::out_of_service(Some(node("False", OUT_OF_SERVICE)), "", &[])]
    #[case::ready(Some(node("True", OUT_OF_SERVICE)), "", &["early · pods · podgc"])]
    #[case::another_taint(Some(node("False", "k")), "DeletionByPodGC", &["early · pods · podgc"])]
    #[case::gone(None, "DeletionByPodGC", &[])]
    #[case::gone_without_a_word(None, "", &["condition · pods · podgc"])]
    fn podgc_has_a_reason(#[case] node: Option<Value>, #[case] reason: &str, #[case] found: &[&str]) {
        let transcript = Transcript::new();
        let pods = [Some(pod("Running", "")), Some(pod("Failed", reason))];
        change(&transcript, 60, Some("pod-garbage-collector"), "pods", pods);
        assert_eq!(judged("podgc", &transcript, node.into_iter().collect()), found);
    }

    #[rstest]
    #[case::recovered_at_once(60, &[])]
    #[case::recovered_before(50, &["early · pods · podgc"])]
    fn a_recovery_counts(#[case] at: u64, #[case] found: &[&str]) {
        let transcript = Transcript::new();
        let lost = node("False", OUT_OF_SERVICE);
        let well = node("True", OUT_OF_SERVICE);
        change(&transcript, at, None, "nodes", [Some(lost.clone()), Some(well)]);
        change(&transcript, 60, Some("pod-garbage-collector"), "pods", [Some(pod("Failed", "")), None]);
        assert_eq!(judged("podgc", &transcript, vec![lost]), found);
    }
}
