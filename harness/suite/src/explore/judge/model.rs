//! The values that follow from the objects alone, after any history: the numbers of budgets, the pods that may not be
//! left, TTL values. Small models, written from the documentation of the API and not from the controllers. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use plumbline::expect::world::{Key, ObjectStates};
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata::{self, is_terminating};
use plumbline::rules::budgets::{LostPod, failure, numbers};
use plumbline::rules::nodes::{NodeState, TTL_ANNOTATION, allows_ttl};
use plumbline::rules::pods::{DISRUPTION_TARGET, is_finished, is_terminated};
use plumbline::rules::quarantine::THRESHOLD;
use plumbline::rules::selectors;
use plumbline::rules::taints::toleration_limit_of;
use serde_json::{Value, json};

use crate::explore::histories::facts::LONGEST_COUNTDOWN;

/// An object that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelBreach {
    /// The object.
    pub key: Key,
    /// The kind of the breach: the field, or `is left`.
    pub kind: String,
    /// Description with the values.
    pub text: String,
    /// The checks of a fixture that this breach fails.
    pub expected: Value,
}

/// The kind of a breach: the object should be gone.
const LEFT: &str = "is left";
/// Pods that tolerate a taint for longer may still be there at the end of a run.
const SURELY_OVER: Duration = LONGEST_COUNTDOWN.saturating_sub(Duration::from_mins(10));

/// Age from which a claim or an announced disruption must be gone: they count for two minutes, and time is left for a
/// retry.
const STALE: SignedDuration = SignedDuration::from_mins(5);

/// A moment of a history, and what the models have to know of the history.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModelMoment {
    /// The time.
    pub now: Timestamp,
    /// The smallest and the largest number of nodes so far: the TTL of a node follows only when the node changes.
    pub sizes: (usize, usize),
    /// True if nothing disturbs the controllers. Otherwise the reason of a failure may be that of an earlier try.
    pub calm: bool,
}

/// Returns the objects of a world that has converged that are not as the running controllers must leave them.
pub(super) fn breaches(world: &ObjectStates, fixture: &Fixture, moment: ModelMoment) -> Vec<ModelBreach> {
    let mut breaches = Vec::new();
    for controller in &fixture.controllers {
        match controller {
            Controller::Disruption => {
                breaches.extend(budgets(world, fixture, moment));
                breaches.extend(announcements(world, moment.now));
            }
            Controller::PodGc => {
                breaches.extend(lost_pods(world));
                breaches.extend(finished_pods(world, fixture));
            }
            Controller::TaintEviction => breaches.extend(tainted_pods(world)),
            Controller::Ttl => breaches.extend(annotations(world, moment.sizes)),
        }
    }
    breaches
}

/// Returns the objects that are not as the running controllers leave them at once: budgets and the TTLs of nodes.
pub(super) fn at_rest(world: &ObjectStates, fixture: &Fixture, moment: ModelMoment) -> Vec<ModelBreach> {
    let mut breaches = Vec::new();
    if fixture.controllers.contains(&Controller::Disruption) {
        breaches.extend(budgets(world, fixture, moment));
    }
    if fixture.controllers.contains(&Controller::Ttl) {
        breaches.extend(annotations(world, moment.sizes));
    }
    breaches
}

fn breach(key: &Key, kind: &str, text: String, expected: Value) -> ModelBreach {
    ModelBreach { key: key.clone(), kind: kind.to_owned(), text, expected }
}

fn left(key: &Key, why: &str) -> ModelBreach {
    let object = format!("{}/{}", key.resource, key.name);
    breach(key, LEFT, format!("{object} exists, {why}"), json!({ "absent": object }))
}

fn annotations(world: &ObjectStates, (least, most): (usize, usize)) -> impl Iterator<Item = ModelBreach> {
    let allowed = move |value: &str| (least..=most).any(|nodes| allows_ttl(nodes, value));
    let found = world.all("nodes").map(|(key, node)| (key, metadata::annotation(node, TTL_ANNOTATION)));
    let wrong = found.filter(move |(_, value)| !value.is_some_and(allowed));
    wrong.map(move |(key, value)| {
        let value = value.map_or_else(|| "null".to_owned(), |value| format!("{value:?}"));
        let text = format!("nodes/{} has the TTL {value} in a cluster of {least} to {most} nodes", key.name);
        breach(key, "ttl", text, json!({ "exists": format!("nodes/{}", key.name) }))
    })
}

/// Returns true if something else than the controllers may keep the object.
fn is_kept(object: &Value) -> bool {
    !metadata::finalizers(object).is_empty()
}

/// Returns pods of nodes that do not exist, and terminating pods that were never bound or whose node is out of service.
fn lost_pods(world: &ObjectStates) -> Vec<ModelBreach> {
    let state = |name: &str| {
        let node = world.all("nodes").find(|(key, _)| key.name == name);
        node.map_or(NodeState::Missing, |(_, node)| NodeState::of(node))
    };
    let pods = world.all("pods").filter(|(_, pod)| !is_kept(pod));
    pods.filter_map(|(key, pod)| match pod["spec"]["nodeName"].as_str().unwrap_or_default() {
        "" => is_terminating(pod).then(|| left(key, "terminating and never bound")),
        node => match state(node) {
            NodeState::Missing => Some(left(key, &format!("and nodes/{node} does not"))),
            NodeState::OutOfService if is_terminating(pod) => {
                Some(left(key, &format!("terminating, and nodes/{node} is out of service")))
            }
            NodeState::OutOfService | NodeState::There => None,
        },
    })
    .collect()
}

/// Returns a finished pod if there are more of them than the threshold of the fixture's flags; 0 is no limit.
fn finished_pods(world: &ObjectStates, fixture: &Fixture) -> Option<ModelBreach> {
    let threshold = fixture.flags.get(THRESHOLD)?.parse().ok().filter(|threshold: &usize| *threshold > 0)?;
    let finished: Vec<&Key> =
        world.all("pods").filter(|(_, pod)| is_terminated(pod) && !is_kept(pod)).map(|(key, _)| key).collect();
    let why = format!("one of {} finished pods, and {threshold} are kept", finished.len());
    finished.first().filter(|_| finished.len() > threshold).map(|key| left(key, &why))
}

/// Returns pods that are not terminating on nodes with a taint that they do not tolerate for this long.
fn tainted_pods(world: &ObjectStates) -> Vec<ModelBreach> {
    let evicted = |pod: &Value| toleration_limit_of(world, pod).is_some_and(|limit| limit <= SURELY_OVER);
    let pods = world.all("pods").filter(|(_, pod)| !is_terminating(pod) && evicted(pod));
    pods.map(|(key, _)| left(key, "which does not tolerate a taint of its node")).collect()
}

/// Returns true if the time that `value` is was long ago.
fn is_stale(value: &Value, now: Timestamp) -> bool {
    let since: Option<Timestamp> = value.as_str().and_then(|text| text.parse().ok());
    since.is_some_and(|since| now.duration_since(since) >= STALE)
}

/// Returns pods whose disruption was announced long ago and did not happen. An announcement by the kubelet has no end,
/// nor has the condition of a pod that has finished.
fn announcements(world: &ObjectStates, now: Timestamp) -> Vec<ModelBreach> {
    let is_old = |found: &Value| {
        let is_announced = found["status"] == "True"
            && found["reason"] != "TerminationByKubelet"
            && is_stale(&found["lastTransitionTime"], now);
        // A reset leaves a status behind that the API knows.
        let is_undefined = !matches!(found["status"].as_str(), Some("True" | "False" | "Unknown"));
        found["type"] == DISRUPTION_TARGET && (is_announced || is_undefined)
    };
    let announced = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        !is_terminating(pod) && !is_finished(pod) && conditions.is_some_and(|all| all.iter().any(is_old))
    };
    let pods = world.all("pods").filter(|(_, pod)| announced(pod));
    pods.map(|(key, _)| {
        let text = format!("pods/{}: its disruption was announced, did not happen, and was not called off", key.name);
        let object = format!("pods/{}", key.name);
        breach(key, "status.conditions", text, json!({ "condition": { object: "DisruptionTarget=False" } }))
    })
    .collect()
}

fn budgets(world: &ObjectStates, fixture: &Fixture, moment: ModelMoment) -> Vec<ModelBreach> {
    // The flag rounds percentages otherwise.
    if fixture.flags.contains_key("max-unavailable-rounding") {
        return Vec::new();
    }
    // One that is being deleted but held by a finalizer still counts: upstream looks at no deletionTimestamp.
    let all = world.all("poddisruptionbudgets");
    all.filter_map(|(key, budget)| {
        if !selectors::is_valid(&budget["spec"]["selector"]) {
            return unsafe_budget(key, budget, "its selector is invalid");
        }
        let numbers = match numbers(world, key, budget, moment.calm) {
            Ok(numbers) => numbers,
            Err(lost) => return lost_budget(key, budget, &lost, moment.calm),
        };
        let status = &budget["status"];
        let claims = status["disruptedPods"].as_object();
        if let Some((pod, _)) = claims.and_then(|pods| pods.iter().find(|(_, since)| is_stale(since, moment.now))) {
            let text = format!("pdb/{}: the claim of pods/{pod} is left", key.name);
            return Some(breach(
                key,
                "status.disruptedPods",
                text,
                json!({ "match": { format!("pdb/{}", key.name): { "status": { "disruptedPods": null } } } }),
            ));
        }
        let claimed = claims.is_some_and(|pods| !pods.is_empty());
        let (field, wanted) = numbers.fields().into_iter().find(|(field, wanted)| status[*field] != json!(wanted))?;
        let name = &key.name;
        let text = format!("pdb/{name}: {field} is {}, and {wanted} follows from the pods", status[field]);
        let expected = json!({ "match": { format!("pdb/{name}"): { "status": { field: wanted } } } });
        (!claimed).then(|| breach(key, &format!("status.{field}"), text, expected))
    })
    .collect()
}

/// Returns the breach of a budget with pods whose owners have no scale: it does not say so, gives another reason, or
/// allows disruptions.
fn lost_budget(key: &Key, budget: &Value, lost: &[LostPod], calm: bool) -> Option<ModelBreach> {
    let name = &key.name;
    let LostPod { name: pod, reason } = lost.first()?;
    if let Some(breach) = unsafe_budget(key, budget, &format!("the owner of pods/{pod} is missing")) {
        return Some(breach);
    }
    let message = failure(budget)?;
    let is_right = lost.iter().any(|pod| message.starts_with(&pod.reason));
    let text = format!("pdb/{name}: the reason {message:?} should begin with {reason:?}");
    let expected = json!({ "condition": "DisruptionAllowed=False:SyncFailed" });
    (calm && !is_right).then(|| breach(key, "status.conditions.message", text, expected))
}

/// Returns the breach of a budget that cannot be computed, and allows disruptions or does not say so.
fn unsafe_budget(key: &Key, budget: &Value, why: &str) -> Option<ModelBreach> {
    let name = &key.name;
    let allowed = &budget["status"]["disruptionsAllowed"];
    if *allowed != json!(0) {
        let text = format!("pdb/{name}: disruptionsAllowed is {allowed}, although {why}");
        let expected = json!({ "match": { format!("pdb/{name}"): { "status": { "disruptionsAllowed": 0 } } } });
        return Some(breach(key, "status.disruptionsAllowed", text, expected));
    }
    let expected = json!({ "condition": "DisruptionAllowed=False:SyncFailed" });
    let text = format!("pdb/{name}: no condition says that it cannot be computed: {why}");
    failure(budget).is_none().then(|| breach(key, "status.conditions", text, expected))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// Returns the world that consists of `object`, in the namespace `default`.
    fn world(mut object: Value) -> ObjectStates {
        object["metadata"]["name"] = json!("a");
        object["metadata"]["namespace"] = json!("default");
        let record =
            crate::runner::RunRecord { initial: [object.into()].into(), ..crate::runner::RunRecord::default() };
        ObjectStates::new(&record.run(&[], Duration::ZERO), "default")
    }

    /// Five minutes after the begin of time.
    const NOW: Timestamp = Timestamp::constant(300, 0);

    #[rstest]
    #[case::old("EvictionByEvictionAPI", "Running", "1970-01-01T00:00:00Z", 1)]
    #[case::recent("EvictionByEvictionAPI", "Running", "1970-01-01T00:00:01Z", 0)]
    #[case::by_the_kubelet("TerminationByKubelet", "Running", "1970-01-01T00:00:00Z", 0)]
    #[case::finished("EvictionByEvictionAPI", "Failed", "1970-01-01T00:00:00Z", 0)]
    fn announced_disruptions_become_stale(
        #[case] reason: &str,
        #[case] phase: &str,
        #[case] since: &str,
        #[case] stale: usize,
    ) {
        let condition =
            json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": since});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": phase, "conditions": [condition]}});
        assert_eq!(announcements(&world(pod), NOW).len(), stale);
    }
}
