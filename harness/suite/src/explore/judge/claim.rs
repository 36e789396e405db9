//! Oracle `claim`: a claim of a pod that is still there, as far as the controller could know, stays in its budget for
//! two minutes of the controllers' clock. Pure.
//!
//! Source: `pkg/controller/disruption/disruption.go`.

use jiff::{SignedDuration, Timestamp};
use plumbline::expect::world::ObjectStates;
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::changes;
use plumbline::explore::work::WorkWindow;
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::budgets::{BUDGETS, DELETION_TIMEOUT, selects};
use plumbline::transcript::{Actor, Change};
use serde_json::Value;

use super::breaches::of_change;
use super::known::{clock_offsets, pod_key};
use crate::explore::run::explored::ExploredRun;

/// Returns the first claim that is dropped too soon.
pub(super) fn dropped(fixture: &Fixture, _: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    if !fixture.controllers.contains(&Controller::Disruption) {
        return Vec::new();
    }
    let found = changes(explored.until_quiet(), Actor::Disruption, BUDGETS).find_map(|(entry, change)| {
        let old = change.old.as_deref()?;
        let new = change.new.as_deref()?;
        let window = explored.knowledge.window(change.request?);
        let sent = explored.entries.get(window.seq)?.at;
        let ahead = clock_offsets(explored.entries, window).into_iter().max().unwrap_or(SignedDuration::ZERO);
        let now = explored.record.start.checked_add(sent).and_then(|now| now.checked_add(ahead)).ok()?;
        let claimed = old["status"]["disruptedPods"].as_object()?.iter();
        let dropped = claimed.filter(|(pod, _)| new["status"]["disruptedPods"].get(pod).is_none());
        let soon = |since: &Value| {
            let since: Option<Timestamp> = since.as_str().and_then(|text| text.parse().ok());
            since.is_some_and(|since| now.duration_since(since) <= DELETION_TIMEOUT)
        };
        let mut early = dropped.filter(|(_, since)| soon(since)).map(|(pod, _)| pod);
        let pod = early.find(|pod| is_selected(explored, (old, change), pod, window))?;
        let text = format!("pdb/{}: the claim of pods/{pod} is dropped at {:?}, too early", change.name, entry.at);
        Some(of_change("claim", change, "is dropped".to_owned(), entry.at, text))
    });
    found.into_iter().collect()
}

/// Returns true if in each state that the controller could know there is such a pod, the budget's selector selects it,
/// and it is not being deleted.
fn is_selected(explored: ExploredRun<'_>, (budget, change): (&Value, &Change), pod: &str, window: WorkWindow) -> bool {
    let states = explored.knowledge.states(&pod_key(change.namespace.as_deref(), pod), window);
    states.iter().all(|state| {
        state.is_some_and(|pod| {
            !metadata::is_terminating(pod) && selects(&budget["spec"]["selector"], metadata::labels(pod))
        })
    })
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::Actor;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::explore::judge::testing::History;

    #[rstest]
    #[case::after_two_minutes(121, true)]
    #[case::in_the_last_instant(120, false)]
    fn claims_last_two_minutes(#[case] at: u64, #[case] fine: bool) {
        let budget = |claims: Value| {
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "a", "namespace": "default"}, "spec": {"selector": {}},
                "status": {"disruptedPods": claims}})
        };
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}});
        let mut history = History::new(&[pod, budget(json!({"p": "1970-01-01T00:00:00Z"}))]);
        history.writes(at, Actor::Disruption, "update pdb/a/status", json!({}), Some(budget(json!({}))));
        let found = history.judged("disruption", dropped);
        assert_eq!(found.is_empty(), fine, "{found:?}");
    }
}
