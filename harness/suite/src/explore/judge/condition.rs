//! Oracle `condition`: a pod whose disruption a controller has decided says so in a condition before it goes.
//!
//! - `PodGC` fails a pod whose node is gone with a condition, and deletes a pod only once it has seen it finished.
//! - Taint eviction deletes a pod only once it has seen the condition that it sets.
//!
//! Pure. Sources: `pkg/controller/podgc/gc_controller.go`, `pkg/controller/tainteviction/taint_eviction.go`.

use plumbline::expect::world::ObjectStates;
use plumbline::expect::{line, requests};
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::changes;
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::nodes::NodeState;
use plumbline::rules::pods::{DISRUPTION_TARGET, condition, disruption_reason, is_finished};
use plumbline::rules::quarantine::DELETION_BY_POD_GC;
use plumbline::rules::taints::DELETION_BY_TAINT_MANAGER;
use plumbline::transcript::{Actor, Attributed as _, EntryKind, Exchange, TranscriptEntry};
use serde_json::{Map, Value, json};

use super::breaches::of_change;
use super::known::{node_states, pod_states, took_effect};
use crate::explore::run::explored::ExploredRun;

/// The oracle.
const ORACLE: &str = "condition";

/// Returns the first pod that `PodGC` fails without its condition.
pub(super) fn unexplained(fixture: &Fixture, _: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    if !fixture.controllers.contains(&Controller::PodGc) {
        return Vec::new();
    }
    let found = changes(explored.until_quiet(), Actor::PodGc, "pods").find_map(|(entry, change)| {
        let old = change.old.as_deref()?;
        let new = change.new.as_deref()?;
        let node = old["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
        let EntryKind::Request(exchange) = &explored.entries.get(change.request?)?.what else { return None };
        let window = explored.knowledge.window(change.request?);
        let is_gone = || {
            let states = node_states(explored.knowledge, node, window);
            states.iter().all(|state| *state == NodeState::Missing)
        };
        let says_why = || {
            let pods = pod_states(explored.knowledge, &exchange.request, window);
            pods.into_iter().any(|pod| says_why(&patched(pod, exchange)))
        };
        if is_finished(old) || !is_finished(new) || says_why() || !is_gone() {
            return None;
        }
        let text =
            format!("pods/{} fails at {:?} because nodes/{node} is gone; no condition says so", change.name, entry.at);
        Some(of_change(ORACLE, change, "podgc".to_owned(), entry.at, text))
    });
    found.into_iter().collect()
}

/// Returns a pod with the disruption condition that a patch or update gives it. A patch leaves out fields that seem
/// unchanged, so that the condition that results on the server is not the one that the controller meant.
fn patched(pod: &Value, exchange: &Exchange) -> Value {
    let mut merged = json!({ "metadata": pod["metadata"], "status": { "conditions": [] } });
    let fields = |object: &Value| condition(object, DISRUPTION_TARGET).and_then(Value::as_object).cloned();
    let mut condition: Map<String, Value> = fields(pod).unwrap_or_default();
    condition.extend(exchange.request.body.as_deref().and_then(fields).unwrap_or_default());
    if !condition.is_empty() {
        merged["status"]["conditions"] = json!([condition]);
    }
    merged
}

/// Returns true if a condition says that `PodGC` deletes the pod, with a message, and about a generation that it had.
fn says_why(pod: &Value) -> bool {
    let is_whole = condition(pod, DISRUPTION_TARGET).is_some_and(|found| {
        let about = found["observedGeneration"].as_i64();
        let current = metadata::generation(pod);
        let is_about_pod = current.is_none() || about.is_some() && about <= current;
        found["message"] != "" && !found["message"].is_null() && is_about_pod
    });
    disruption_reason(pod, "True") == Some(DELETION_BY_POD_GC) && is_whole
}

/// Returns the first deletion by a controller that had not seen the mark that goes before it: a final phase for
/// `PodGC`, the condition for taint eviction.
pub(super) fn unmarked(fixture: &Fixture, _: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let is_under_test = |actor: &Actor| match actor {
        Actor::PodGc => fixture.controllers.contains(&Controller::PodGc),
        Actor::TaintEviction => fixture.controllers.contains(&Controller::TaintEviction),
        _ => false,
    };
    let found = requests(explored.until_quiet()).find_map(|(entry, exchange)| {
        let request = &exchange.request;
        let deletes = request.verb == "delete" && request.resource == "pods" && request.subresource.is_none();
        if !deletes || !is_under_test(&entry.actor()) || !took_effect(explored.entries, entry.seq) {
            return None;
        }
        let is_marked: fn(&Value) -> bool =
            if entry.actor() == Actor::PodGc { is_finished } else { is_marked_for_eviction };
        let window = explored.knowledge.window(entry.seq);
        let mut pods = pod_states(explored.knowledge, request, window).into_iter();
        (!pods.any(|pod| is_marked(pod))).then(|| breach(entry, exchange))
    });
    found.into_iter().collect()
}

/// Returns true if taint eviction deletes a pod in this state. It does not mark a pod again that the eviction API is
/// deleting, and another client may take back the status of a condition whose patch left it out as unchanged.
fn is_marked_for_eviction(pod: &Value) -> bool {
    let is_evicted = metadata::is_terminating(pod) && disruption_reason(pod, "True") == Some("EvictionByEvictionAPI");
    is_evicted
        || ["True", "False"].iter().any(|status| disruption_reason(pod, status) == Some(DELETION_BY_TAINT_MANAGER))
}

fn breach(entry: &TranscriptEntry, exchange: &Exchange) -> Breach {
    let why = match entry.actor() {
        Actor::PodGc => "its phase is final in no state that was known",
        _ => "no state that was known has the condition DeletionByTaintManager",
    };
    Breach {
        oracle: ORACLE.to_owned(),
        resource: "pods".to_owned(),
        kind: entry.actor().to_string(),
        at: entry.at,
        text: format!("{}: {why}", line(entry, exchange)),
        expected: json!({ "quiet": true }),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(phase: &str, reason: &str) -> Value {
        json!({"metadata": {"generation": 1}, "spec": {"nodeName": "a"}, "status": {"phase": phase,
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "gone",
                "observedGeneration": 1}]}})
    }

    #[rstest]
    #[case::whole("message", json!("gone"), true)]
    #[case::without_a_message("message", json!(""), false)]
    #[case::of_no_generation("observedGeneration", json!(null), false)]
    #[case::of_a_later_generation("observedGeneration", json!(2), false)]
    fn a_condition_says_why(#[case] field: &str, #[case] value: Value, #[case] says: bool) {
        let mut pod = pod("Failed", "DeletionByPodGC");
        pod["status"]["conditions"][0][field] = value;
        assert_eq!(says_why(&pod), says);
    }
}
