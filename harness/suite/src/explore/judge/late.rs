//! Oracle `late`: what the run without faults writes is not written much later than the disturbances of the run
//! explain. Pure.
//!
//! The kinds `eviction` and `reconnect` are in [`overdue`](super::overdue) and [`reconnect`](super::reconnect).

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::explore::breach::Breach;
use plumbline::transcript::{EntryKind, TranscriptEntry};
use serde_json::json;

use super::backoff::is_backed_off;
use super::disturbances::Disturbances;
use super::tolerance::LATE;
use crate::explore::histories::facts::countdown;
use crate::explore::run::explored::{ExploredRun, ReferenceRun};
use crate::explore::run::observation::RequestKey;

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

/// Returns the first write that comes later than the disturbances of the run explain. A write to an object that was
/// created after the usual time is no late one: the usual write was to another object of that name.
pub(super) fn writes(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    let disturbances = Disturbances::of(explored);
    // After a start countdowns begin again, and a taint that is seen late begins a late one.
    let begins_again = disturbances.starts > 0 || disturbances.late_news;
    let delay = LATE + if begins_again { countdown(&reference.fixture) + LATE } else { Duration::ZERO };
    let normal = &reference.observation.last_writes;
    let creations = creations(explored.until_quiet());
    let creation = |key: &RequestKey| {
        let resource = key.resource.split('/').next().unwrap_or_default();
        creations.get(&(resource, key.namespace.as_str(), key.name.as_str())).copied().unwrap_or_default()
    };
    let found = explored.observation.last_writes.iter().find_map(|(key, at)| {
        let usual = normal.get(key).filter(|usual| key.resource != "events" && creation(key) <= **usual)?;
        let latest =
            disturbances.until.max(*usual).saturating_add(delay + disturbances.backoff(key) + disturbances.clock);
        let is_late = *at > latest && !is_backed_off(explored, &disturbances, key, *at);
        is_late.then_some((key, *at, *usual))
    });
    let to_breach = |(key, at, usual): (&RequestKey, Duration, Duration)| Breach {
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
