//! Models between the steps of a run without faults: when nothing has changed for a while, the numbers of budgets and
//! the TTLs of nodes follow from the objects. A later step would hide what was wrong until then. Pure.

use std::time::Duration;

use jiff::SignedDuration;
use plumbline::expect::world::ObjectStates;
use plumbline::fixture::Fixture;
use plumbline::transcript::{EntryKind, TranscriptEntry};

use super::model::{self, ModelBreach, ModelMoment};
use super::oracle::ExploredRun;
use super::script::{controls_subject, disturbs_watches, has_faults};

/// Time without a change after which the controllers have done what they can do at once.
const REST: Duration = Duration::from_secs(30);

/// Returns the first object that does not agree with the others at a moment of rest, with that moment.
pub(super) fn disagreement(
    fixture: &Fixture,
    begin: &ObjectStates,
    explored: ExploredRun<'_>,
) -> Option<(Duration, ModelBreach)> {
    // Limits of the client's rate delay everything.
    if !is_calm(fixture, explored) || fixture.flags.contains_key("kube-api-qps") {
        return None;
    }
    let mut world = begin.clone();
    let nodes = world.all("nodes").count();
    let (mut least, mut most) = (nodes, nodes);
    let mut last = Duration::ZERO;
    for entry in &explored.entries[..explored.observation.quiet_at.min(explored.entries.len())] {
        if !is_change(entry) {
            continue;
        }
        if entry.at >= last + REST {
            let since = SignedDuration::try_from(entry.at).unwrap_or_default();
            let now = explored.record.start.checked_add(since).unwrap_or_default();
            let moment = ModelMoment { now, sizes: (least, most), calm: true };
            if let Some(found) = model::at_rest(&world, fixture, moment).into_iter().next() {
                return Some((entry.at, found));
            }
        }
        world.step(entry);
        let nodes = world.all("nodes").count();
        (least, most) = (least.min(nodes), most.max(nodes));
        last = entry.at;
    }
    None
}

/// Returns true if no fault disturbs the run, neither one of the plan nor one of the fixture itself.
pub(super) fn is_calm(fixture: &Fixture, explored: ExploredRun<'_>) -> bool {
    let disturbed = controls_subject(fixture) || disturbs_watches(fixture) || has_faults(fixture);
    explored.plan.faults.is_empty() && !disturbed
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
    use crate::explore::decisions::tests::{change, judged_by};

    fn node(ttl: Option<&str>) -> Value {
        let annotations = ttl.map(|ttl| json!({ TTL_ANNOTATION: ttl }));
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "annotations": annotations}})
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
