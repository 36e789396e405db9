//! Oracle `writes`: an object is not written more often than the run without faults and the disturbances of this
//! run explain. Pure.

use std::time::Duration;

use plumbline::explore::breach::Breach;
use plumbline::transcript::{EntryKind, TranscriptEntry};
use serde_json::json;

use super::disturbances::Disturbances;
use crate::explore::run::explored::{ExploredRun, ReferenceRun};
use crate::explore::run::observation::RequestKey;

/// Additional writes of an object that each disturbance explains.
const WRITES_PER_DISTURBANCE: u32 = 2;
/// Additional writes of an object that changed timing explains.
const WRITES_BY_TIMING: u32 = 2;

/// Returns the writes beyond those of the run without faults and those that the disturbances explain.
pub(super) fn excess(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    let normal = &reference.observation;
    let found = explored.observation;
    let disturbances = Disturbances::of(explored);
    let starts = 1 + disturbances.starts;
    // What nothing disturbs can still happen in another order, in which changes that were handled together are handled
    // one by one.
    let is_ordered = disturbances.count == disturbances.conflicts;
    let changes_of_others = |key: &RequestKey| {
        let is_other = |entry: &&TranscriptEntry| match &entry.what {
            EntryKind::Change(change) => change.resource != "events" && !key.resource.starts_with(&change.resource),
            _ => false,
        };
        explored.entries.iter().filter(is_other).map(|entry| entry.at).collect::<Vec<_>>()
    };
    let excess = found.writes.iter().filter(|(key, _)| key.resource != "events").find_map(|(key, count)| {
        let usual = normal.writes.get(key).copied().unwrap_or_default();
        let most = usual * starts + disturbances.count * WRITES_PER_DISTURBANCE + WRITES_BY_TIMING;
        let is_in_order = || {
            let changes = changes_of_others(key);
            // Those of one instant are handled together without the fault.
            let together = changes.windows(2).filter(|pair| pair[0] == pair[1]).count();
            let (most, more) = if is_ordered { (usual, changes.len()) } else { (most, together) };
            *count > most.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
        };
        (*count > most && is_in_order()).then_some((key, *count, usual))
    });
    let to_breach = |(key, count, usual): (&RequestKey, u32, u32)| Breach {
        oracle: "writes".to_owned(),
        resource: key.resource.clone(),
        kind: format!("{} {}", key.actor, key.verb),
        at: Duration::ZERO,
        text: format!("{key}: {count} times; without the fault {usual} times"),
        expected: json!({ "quiet": true }),
    };
    excess.map(to_breach).into_iter().collect()
}
