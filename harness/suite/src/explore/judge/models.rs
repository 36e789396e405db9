//! Oracle `model`: the objects agree with each other, at the end and, in a run without faults, whenever nothing has
//! changed for a while: a later step would hide what was wrong until then. Pure.

use std::time::Duration;

use jiff::SignedDuration;
use plumbline::expect::world::ObjectStates;
use plumbline::explore::breach::Breach;
use plumbline::fixture::Fixture;
use plumbline::transcript::{EntryKind, TranscriptEntry};

use super::disturbances::is_calm;
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
    let at_end = model::breaches(&world, fixture, moment).into_iter().map(|found| (explored.record.end, found));
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
    for entry in explored.until_quiet() {
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
    use crate::explore::judge::testing::{change, judged_by};

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
