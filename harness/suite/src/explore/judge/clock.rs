//! Oracle `clock`: durations are not measured on the wall clock. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::explore::breach::Breach;
use plumbline::transcript::Actor;
use serde_json::json;

use super::disturbances::Disturbances;
use super::known::clock_steps;
use crate::explore::run::explored::{ExploredRun, ReferenceRun};
use crate::explore::run::observation::{Observation, RequestKey};

/// Difference of two times that are equal but for the order of work.
const SAME_TIME: Duration = Duration::from_secs(2);

/// Returns a write whose time changes although only the controllers' wall clock was set. The disruption controller
/// compares times in objects with that clock; all others measure durations.
pub(super) fn follows_wall_clock(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    let is_stepped = clock_steps(explored.until_quiet()).next().is_some();
    if !is_stepped || Disturbances::of(explored).count > 0 {
        return Vec::new();
    }
    let measures = |key: &RequestKey| key.actor != Actor::Disruption && key.resource != "events";
    let times = |observation: &Observation| -> BTreeMap<RequestKey, Duration> {
        observation.last_writes.iter().filter(|(key, _)| measures(key)).map(|(key, at)| (key.clone(), *at)).collect()
    };
    let normal = times(&reference.observation);
    let found = times(explored.observation);
    let moved = normal.iter().find_map(|(key, usual)| {
        let at = found.get(key)?;
        (at.abs_diff(*usual) > SAME_TIME).then(|| Breach {
            oracle: "clock".to_owned(),
            resource: key.resource.clone(),
            kind: format!("{} {}", key.actor, key.verb),
            at: *at,
            text: format!("{key} at {at:?}; without the step of the wall clock at {usual:?}"),
            expected: json!({ "quiet": true }),
        })
    });
    moved.into_iter().collect()
}
