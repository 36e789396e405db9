//! Oracle `late`: what the run without faults writes is not written much later than the faults explain. Pure.
//!
//! The kinds `eviction` and `reconnect` are in [`overdue`](super::overdue) and [`reconnect`](super::reconnect).

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::explore::breach::Breach;
use plumbline::explore::faults::point::FaultPoint;
use plumbline::explore::faults::{Disturbance, FaultTrait};
use plumbline::rules::budgets::BUDGET_STATUS;
use plumbline::rules::queue::MAX_DELAY;
use plumbline::transcript::{EntryKind, TranscriptEntry};
use serde_json::json;

use super::backoff::is_backed_off;
use super::tolerance::LATE;
use crate::explore::histories::facts::countdown;
use crate::explore::run::explored::{ExploredRun, ReferenceRun};
use crate::explore::run::observation::WriteKey;

/// The oracle.
pub(super) const LATE_ORACLE: &str = "late";

/// Returns the times at which the run created each object for the last time, by resource, namespace and name.
fn creations(entries: &[TranscriptEntry]) -> BTreeMap<(&str, &str, &str), Duration> {
    let mut creations = BTreeMap::new();
    for entry in entries {
        if let EntryKind::Change(change) = &entry.what
            && change.old.is_none()
        {
            let namespace = change.namespace.as_deref().unwrap_or_default();
            creations.insert((change.resource.as_str(), namespace, change.name.as_str()), entry.at);
        }
    }
    creations
}

/// Returns the first write that comes later than the faults explain. A write to an object that was created after the
/// usual time is no late one: the usual write was to another object of that name.
pub(super) fn writes(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    let plan = explored.plan;
    let delay: Duration = plan.faults.iter().map(|(disturbance, _)| disturbance.duration() + LATE).sum();
    // After each restart countdowns begin again, and a taint that was never seen begins none.
    let repeats = |(disturbance, point): &&(Disturbance, FaultPoint)| {
        disturbance.is(FaultTrait::Restarts) || disturbance.delays_information(point)
    };
    let repeats = u32::try_from(plan.faults.iter().filter(repeats).count()).unwrap_or(u32::MAX);
    let delay = delay + (countdown(&reference.fixture) + LATE) * repeats;
    // A budget whose sync fails for other reasons, too, waits for the whole back-off after one more failure.
    let is_refused = plan.faults.iter().any(|(disturbance, _)| disturbance.refusals() > 0);
    // What a late fault causes is not late.
    let last = plan.faults.iter().map(|(_, point)| point.at).max().unwrap_or_default();
    let normal = &reference.observation.last_writes;
    let creations = creations(explored.until_quiet());
    let creation = |key: &WriteKey| {
        let resource = key.resource.split('/').next().unwrap_or_default();
        creations.get(&(resource, key.namespace.as_str(), key.name.as_str())).copied().unwrap_or_default()
    };
    let found = explored.observation.last_writes.iter().find_map(|(key, at)| {
        let usual = normal.get(key).filter(|usual| key.resource != "events" && creation(key) <= **usual)?;
        let delay = delay + if is_refused && key.resource == BUDGET_STATUS { MAX_DELAY } else { Duration::ZERO };
        let is_late = *at > last.max(*usual) + delay && !is_backed_off(explored, key, *at);
        is_late.then_some((key, *at, *usual))
    });
    let to_breach = |(key, at, usual): (&WriteKey, Duration, Duration)| Breach {
        oracle: LATE_ORACLE.to_owned(),
        resource: key.resource.clone(),
        kind: format!("{} {}", key.actor, key.verb),
        at,
        text: format!("{key} at {at:?}; without the fault at {usual:?}"),
        expected: json!({ "quiet": true }),
    };
    found.map(to_breach).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::Transcript;

    use super::*;
    use crate::explore::judge::testing::change_in;

    #[test]
    fn the_last_creation_of_a_name_counts() {
        let transcript = Transcript::new();
        for (at, old) in [(5, None), (9, None), (12, Some(json!({})))] {
            change_in(Some("default"), &transcript, at, Some("user"), "pods", [old, Some(json!({}))]);
        }
        let entries = transcript.entries();
        assert_eq!(creations(&entries), BTreeMap::from([(("pods", "default", "a"), Duration::from_secs(9))]));
    }
}
