//! Oracle `claim`: a claim of a pod that is still there stays in its budget for two minutes. Pure.
//!
//! Source: `pkg/controller/disruption/disruption.go`.

use jiff::Timestamp;
use plumbline::expect::world::{Key, ObjectStates};
use plumbline::explore::breach::Breach;
use plumbline::explore::faults::FaultTrait;
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::budgets::{BUDGETS, DELETION_TIMEOUT, selects};
use plumbline::transcript::{Actor, Change};
use serde_json::Value;

use super::breaches::of_change;
use super::news::is_informed;
use crate::explore::histories::facts::skew;
use crate::explore::run::entries::changes;
use crate::explore::run::explored::ExploredRun;

/// Returns the first claim that is dropped too soon.
pub(super) fn dropped(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let plan = explored.plan;
    let is_judged = fixture.controllers.contains(&Controller::Disruption)
        && is_informed(fixture, plan)
        && !plan.has(FaultTrait::ChangesHistory);
    let by_clock = plan.faults.iter().any(|(disturbance, _)| disturbance.steps_clock());
    if !is_judged || by_clock || plan.has(FaultTrait::DelaysRequest) || !skew(fixture).is_zero() {
        return Vec::new();
    }
    let found = changes(explored.until_quiet(), Actor::Disruption, BUDGETS).find_map(|(entry, change)| {
        let old = change.old.as_deref()?;
        let new = change.new.as_deref()?;
        let now = explored.record.start.checked_add(entry.at).ok()?;
        let claimed = old["status"]["disruptedPods"].as_object()?.iter();
        let dropped = claimed.filter(|(pod, _)| new["status"]["disruptedPods"].get(pod).is_none());
        let soon = |since: &Value| {
            let since: Option<Timestamp> = since.as_str().and_then(|text| text.parse().ok());
            since.is_some_and(|since| now.duration_since(since) <= DELETION_TIMEOUT)
        };
        let mut early = dropped.filter(|(_, since)| soon(since)).map(|(pod, _)| pod);
        let pod = early.find(|pod| is_selected(begin, explored, (old, change), pod, entry.seq))?;
        let text = format!("pdb/{}: the claim of pods/{pod} is dropped at {:?}, too early", change.name, entry.at);
        Some(of_change("claim", change, "is dropped".to_owned(), entry.at, text))
    });
    found.into_iter().collect()
}

/// Returns true if the budget's selector selects a pod that is not being deleted.
fn is_selected(
    begin: &ObjectStates,
    explored: ExploredRun<'_>,
    (budget, change): (&Value, &Change),
    pod: &str,
    seq: usize,
) -> bool {
    let world = begin.clone().after(explored.until(seq));
    let key = Key {
        group: String::new(),
        resource: "pods".to_owned(),
        namespace: change.namespace.clone(),
        name: pod.to_owned(),
    };
    world.get(&key).is_some_and(|pod| {
        !metadata::is_terminating(pod) && selects(&budget["spec"]["selector"], metadata::labels(pod))
    })
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::Transcript;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::explore::judge::testing::{change, judged_by};

    fn judged(controller: &str, transcript: &Transcript, initial: Vec<Value>) -> Vec<String> {
        judged_by(controller, transcript, initial, |fixture, begin, explored| {
            dropped(fixture, begin, explored).into_iter().map(|breach| breach.fingerprint()).collect()
        })
    }

    #[rstest]
    #[case::after_two_minutes(121, true)]
    #[case::in_the_last_instant(120, false)]
    fn claims_last_two_minutes(#[case] at: u64, #[case] fine: bool) {
        let transcript = Transcript::new();
        let budget = |claims: Value| json!({"metadata": {"name": "a"}, "spec": {"selector": {}}, "status": {"disruptedPods": claims}});
        let begin = budget(json!({"p": "1970-01-01T00:00:00Z"}));
        let budgets = [Some(begin), Some(budget(json!({})))];
        change(&transcript, at, Some("disruption-controller"), "poddisruptionbudgets", budgets);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
        let found = judged("disruption", &transcript, vec![pod]);
        assert_eq!(found.is_empty(), fine, "{found:?}");
    }
}
