//! Oracle `condition`: a pod that `PodGC` fails because its node is gone says so in a condition. Pure.
//!
//! Source: `pkg/controller/podgc/gc_controller.go`.

use plumbline::expect::world::ObjectStates;
use plumbline::explore::breach::Breach;
use plumbline::explore::faults::FaultTrait;
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::nodes::NodeState;
use plumbline::rules::pods::{DISRUPTION_TARGET, condition, disruption_reason, is_finished};
use plumbline::rules::quarantine::DELETION_BY_POD_GC;
use plumbline::transcript::Actor;
use serde_json::Value;

use super::breaches::of_change;
use super::evictions::is_taken_back;
use super::node_times::NodeTimes;
use super::tolerance::write_delay;
use crate::explore::histories::facts::has_faults;
use crate::explore::run::entries::changes;
use crate::explore::run::explored::ExploredRun;

/// Returns the first pod that `PodGC` fails without its condition.
pub(super) fn unexplained(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let is_judged = fixture.controllers.contains(&Controller::PodGc)
        && !has_faults(fixture)
        && !explored.plan.has(FaultTrait::ChangesHistory);
    if !is_judged {
        return Vec::new();
    }
    let delay = write_delay(explored.plan);
    let mut nodes = None;
    let found = changes(explored.until_quiet(), Actor::PodGc, "pods").find_map(|(entry, change)| {
        let old = change.old.as_deref()?;
        let new = change.new.as_deref()?;
        let node = old["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
        let nodes = nodes.get_or_insert_with(|| NodeTimes::new(begin, explored.until_quiet()));
        let was = |state: NodeState| nodes.was(node, state, entry.at.saturating_sub(delay), entry.at);
        let fails = !is_finished(old) && is_finished(new);
        let is_gone = was(NodeState::Missing) && !was(NodeState::There) && !was(NodeState::OutOfService);
        let taken_back = !explored.plan.faults.is_empty() && is_taken_back(new, DELETION_BY_POD_GC);
        if !fails || !is_gone || says_why(new) || taken_back {
            return None;
        }
        let text =
            format!("pods/{} fails at {:?} because nodes/{node} is gone; no condition says so", change.name, entry.at);
        Some(of_change("condition", change, "podgc".to_owned(), entry.at, text))
    });
    found.into_iter().collect()
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
