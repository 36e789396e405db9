//! Oracle `model`: the objects agree with each other, at the end and, in a run without faults, whenever nothing has
//! changed for a while: a later step would hide what was wrong until then. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use plumbline::expect::world::{Key, ObjectStates, key_of_change};
use plumbline::explore::breach::Breach;
use plumbline::fixture::Fixture;
use plumbline::metadata;
use plumbline::rules::budgets::{BUDGETS, selects};
use plumbline::transcript::{EntryKind, TranscriptEntry};

use super::disturbances::is_calm;
use super::known::is_custom;
use super::model::{self, ModelBreach, ModelMoment};
use crate::explore::run::explored::ExploredRun;

/// The oracle.
pub(super) const MODEL: &str = "model";

/// Compares the converged objects with each other, and those between the steps of a run without faults.
pub(super) fn broken(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let entries = explored.until_quiet();
    let sizes = numbers_of_nodes(begin, entries);
    let world = begin.clone().after(entries);
    let end = SignedDuration::try_from(explored.record.end).unwrap_or_default();
    let now = explored.record.start.checked_add(end).unwrap_or_default();
    let to_breach = |(at, found): (Duration, ModelBreach)| Breach {
        oracle: MODEL.to_owned(),
        resource: found.key.resource,
        kind: found.kind,
        at,
        text: found.text,
        expected: found.expected,
    };
    let calm = is_calm(explored);
    let moment = ModelMoment { now, sizes, calm };
    let mut unseen = UnseenOwners::default();
    for entry in entries {
        unseen.note(&world, entry);
    }
    let at_end = model::breaches(&world, fixture, moment).into_iter().filter(|found| !unseen.may_lag(&found.key));
    let at_end = at_end.map(|found| (explored.record.end, found));
    // Limits of the client's rate delay everything.
    let rests = calm && !fixture.flags.contains_key("kube-api-qps");
    let between = rests.then(|| disagreement(fixture, begin, explored)).flatten();
    between.into_iter().chain(at_end).map(to_breach).collect()
}

/// Returns the smallest and the largest number of nodes of a history.
fn numbers_of_nodes(begin: &ObjectStates, entries: &[TranscriptEntry]) -> (usize, usize) {
    let mut count = begin.all("nodes").count();
    let mut least = count;
    let mut most = count;
    for entry in entries {
        let EntryKind::Change(change) = &entry.what else { continue };
        match (change.resource.as_str(), change.old.is_some(), change.new.is_some()) {
            ("nodes", false, true) => count += 1,
            ("nodes", true, false) => count = count.saturating_sub(1),
            _ => {}
        }
        (least, most) = (least.min(count), most.max(count));
    }
    (least, most)
}

/// Time without a change after which the controllers have done what they can do at once.
const REST: Duration = Duration::from_secs(30);

/// Returns the first object that does not agree with the others at a moment of rest, with that moment, in a run that
/// nothing disturbs.
fn disagreement(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Option<(Duration, ModelBreach)> {
    let mut world = begin.clone();
    let nodes = world.all("nodes").count();
    let mut least = nodes;
    let mut most = nodes;
    let mut last = Duration::ZERO;
    let mut unseen = UnseenOwners::default();
    for entry in explored.until_quiet() {
        if !is_change(entry) {
            continue;
        }
        if entry.at >= last + REST {
            let since = SignedDuration::try_from(entry.at).unwrap_or_default();
            let now = explored.record.start.checked_add(since).unwrap_or_default();
            let moment = ModelMoment { now, sizes: (least, most), calm: true };
            let found = model::at_rest(&world, fixture, moment).into_iter().find(|found| !unseen.may_lag(&found.key));
            if let Some(found) = found {
                return Some((entry.at, found));
            }
        }
        world.step(entry);
        unseen.note(&world, entry);
        let nodes = world.all("nodes").count();
        (least, most) = (least.min(nodes), most.max(nodes));
        last = entry.at;
    }
    None
}

/// The last changes of owners that no informer shows: those of custom kinds, which the controllers read when they need
/// them. A change of such an owner, or of the definition of its kind, leads to no sync, as upstream; one of a budget or
/// of one of its pods does (`pkg/controller/disruption/disruption.go`, the handlers of `NewDisruptionController`).
#[derive(Debug, Default)]
struct UnseenOwners {
    /// The entry of the last change of an owner or a definition.
    changed: Option<usize>,
    /// The last entry that leads to a sync of each budget.
    synced: BTreeMap<Key, usize>,
}

impl UnseenOwners {
    /// Notes a change; `world` has the budgets.
    fn note(&mut self, world: &ObjectStates, entry: &TranscriptEntry) {
        let EntryKind::Change(change) = &entry.what else { return };
        let key = key_of_change(change);
        match change.resource.as_str() {
            BUDGETS => _ = self.synced.insert(key, entry.seq),
            "pods" => {
                let states = [&change.old, &change.new];
                let concerns = |budget: &Key, selector| {
                    let mut pods = states.into_iter().flatten();
                    budget.namespace == key.namespace && pods.any(|pod| selects(selector, metadata::labels(pod)))
                };
                let budgets =
                    world.all(BUDGETS).filter(|(budget, object)| concerns(budget, &object["spec"]["selector"]));
                self.synced.extend(budgets.map(|(budget, _)| (budget.clone(), entry.seq)));
            }
            "customresourcedefinitions" => self.changed = Some(entry.seq),
            _ if is_custom(&key) => self.changed = Some(entry.seq),
            _ => {}
        }
    }

    /// Returns true for a budget that lags behind its owners until its next sync.
    fn may_lag(&self, key: &Key) -> bool {
        key.resource == BUDGETS && self.changed > self.synced.get(key).copied()
    }
}

fn is_change(entry: &TranscriptEntry) -> bool {
    matches!(&entry.what, EntryKind::Change(change) if change.resource != "events")
}

#[cfg(test)]
mod tests {
    use plumbline::rules::nodes::TTL_ANNOTATION;
    use plumbline::transcript::Transcript;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::explore::judge::testing::{History, change, judged_by};

    fn node(ttl: Option<&str>) -> Value {
        let annotations = ttl.map(|ttl| json!({ TTL_ANNOTATION: ttl }));
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "annotations": annotations}})
    }

    fn definition() -> Value {
        let versions =
            json!([{"name": "v1", "served": true, "subresources": {"scale": {"specReplicasPath": ".spec.n"}}}]);
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "scaleds.x.io"}, "spec": {"group": "x.io", "versions": versions,
                "names": {"kind": "Scaled", "plural": "scaleds"}}})
    }

    /// The definition of the kind of a pod's owner goes at 10 s. A pod changes at 50 s, or the one of another budget.
    #[rstest]
    #[case::its_pod_changes(json!({"a": "b"}), Some(120))]
    #[case::nothing_leads_to_a_sync(json!({"c": "d"}), None)]
    fn a_budget_follows_an_owner_that_no_informer_shows_from_its_next_sync_on(
        #[case] labels: Value,
        #[case] found: Option<u64>,
    ) {
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default", "generation": 1},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "maxUnavailable": 1},
            "status": {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1,
                "observedGeneration": 1}});
        let owner = json!({"apiVersion": "x.io/v1", "kind": "Scaled", "spec": {"n": 1},
            "metadata": {"name": "o", "namespace": "default", "uid": "o"}});
        let pod = |name: &str, labels: &Value| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name,
                "labels": labels, "ownerReferences": [{"apiVersion": "x.io/v1", "kind": "Scaled", "name": "o",
                    "uid": "o", "controller": true}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
        };
        let mut history = History::new(&[definition(), budget, owner, pod("p", &json!({"a": "b"}))]);
        history.happens_unseen(10, "customresourcedefinitions.apiextensions.k8s.io/scaleds.x.io", None);
        history.happens(50, "pods/q", Some(pod("q", &labels)));
        history.happens(120, "nodes/n", Some(node(None)));
        let breach = history.judged("disruption", disagreement);
        assert_eq!(breach.map(|(at, _)| at), found.map(Duration::from_secs));
    }

    /// The node has no TTL until the second change.
    #[rstest]
    #[case::after_a_while(31, Some(31))]
    #[case::at_once(29, None)]
    fn objects_agree_when_nothing_has_changed_for_a_while(#[case] second: u64, #[case] found: Option<u64>) {
        let transcript = Transcript::new();
        change(&transcript, second, Some("ttl"), "nodes", [Some(node(None)), Some(node(Some("0")))]);
        change(&transcript, second + 60, Some("user"), "nodes", [Some(node(Some("0"))), Some(node(Some("0")))]);
        let breach = judged_by("ttl", &transcript, vec![node(None)], disagreement);
        assert_eq!(breach.map(|(at, _)| at), found.map(Duration::from_secs));
    }
}
