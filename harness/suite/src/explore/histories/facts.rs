//! Facts about a fixture: its steps, its own faults, and the longest countdown of its pods. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use plumbline::fixture::parse::step_actions;
use plumbline::fixture::{
    Action, Controller, Edit, Fault, Fixture, Operation, Step, StepKind, UserRequest, WatchFault,
};
use plumbline::rules::taints::DEFAULT_TOLERATION;
use serde_json::Value;

/// Countdowns of pods up to this length end before the quiet window begins.
pub const LONGEST_COUNTDOWN: Duration = Duration::from_hours(1);

/// Returns true if the fixture itself starts or stops the controllers.
#[must_use]
pub fn controls_subject(fixture: &Fixture) -> bool {
    fixture.given.stopped || actions(fixture).any(|action| matches!(action, Action::Control(_)))
}

/// Returns true if the fixture itself interferes with watches, lists or the whole server.
#[must_use]
pub fn disturbs_watches(fixture: &Fixture) -> bool {
    !fixture.given.watches.is_empty()
        || actions(fixture).any(|action| matches!(action, Action::Watch(_) | Action::Compact | Action::Outage(_)))
}

/// Returns the times of the steps that do something.
#[must_use]
pub fn step_times(fixture: &Fixture) -> Vec<Duration> {
    let acts = |step: &&Step| matches!(step.kind, StepKind::Do { .. });
    fixture.steps.iter().filter(acts).map(|step| step.at).collect()
}

/// Returns the time of the first outage of the fixture itself.
#[must_use]
pub fn first_outage(fixture: &Fixture) -> Option<Duration> {
    let is_outage = |step: &&Step| step_actions(step).iter().any(|action| matches!(action, Action::Outage(_)));
    fixture.steps.iter().find(is_outage).map(|step| step.at)
}

/// Returns the faults of requests that the fixture itself injects.
pub fn own_faults(fixture: &Fixture) -> impl Iterator<Item = &Fault> {
    let steps = actions(fixture).filter_map(|action| match action {
        Action::Fault(fault) => Some(fault),
        _ => None,
    });
    fixture.given.faults.iter().chain(steps)
}

/// Returns true if the fixture itself injects faults of requests, or removes them.
#[must_use]
pub fn has_faults(fixture: &Fixture) -> bool {
    !fixture.given.faults.is_empty()
        || actions(fixture).any(|action| matches!(action, Action::Fault(_) | Action::Heal(_) | Action::Outage(_)))
}

/// Returns true if the fixture itself holds watch events back, or serves old lists, until its end: what the controllers
/// do not know then depends on the time at which they listed.
#[must_use]
pub fn stays_uninformed(fixture: &Fixture) -> bool {
    let given = fixture.given.watches.iter();
    let steps = actions(fixture).filter_map(|action| match action {
        Action::Watch(fault) => Some(fault),
        _ => None,
    });
    let mut open: BTreeSet<(bool, &str)> = BTreeSet::new();
    for fault in given.chain(steps) {
        match fault {
            WatchFault::Hold(resource) => _ = open.insert((true, &resource.plural)),
            WatchFault::StaleList(resource) => _ = open.insert((false, &resource.plural)),
            WatchFault::Release { resource, .. } => _ = open.remove(&(true, &*resource.plural)),
            WatchFault::FreshList(resource) => _ = open.remove(&(false, &*resource.plural)),
            _ => {}
        }
    }
    !open.is_empty()
}

fn actions(fixture: &Fixture) -> impl Iterator<Item = &Action> {
    fixture.steps.iter().flat_map(step_actions)
}

/// Returns the largest difference between the clocks of the server and the controllers in the fixture's own steps.
#[must_use]
pub fn skew(fixture: &Fixture) -> Duration {
    let steps = actions(fixture).filter_map(|action| match action {
        Action::Skew(by) | Action::StepClock(by) => Some(by.unsigned_abs()),
        _ => None,
    });
    steps.max().unwrap_or_default()
}

/// Returns the longest time for which a pod of the fixture tolerates a taint, up to [`LONGEST_COUNTDOWN`].
#[must_use]
pub fn countdown(fixture: &Fixture) -> Duration {
    if !fixture.controllers.contains(&Controller::TaintEviction) {
        return Duration::ZERO;
    }
    let bodies = actions(fixture).filter_map(|action| match action {
        Action::Request(UserRequest {
            operation:
                Operation::Create { object: body }
                | Operation::Replace { object: body }
                | Operation::Patch { body, .. }
                | Operation::Update { edit: Edit::Merge(body) },
            ..
        }) => Some(body),
        _ => None,
    });
    let longest = fixture.given.objects.iter().chain(bodies).filter_map(toleration_seconds).max();
    Duration::from_secs(longest.unwrap_or_default().unsigned_abs()).clamp(DEFAULT_TOLERATION, LONGEST_COUNTDOWN)
}

/// Returns the largest `tolerationSeconds` of a pod, or of a patch of one.
fn toleration_seconds(object: &Value) -> Option<i64> {
    let tolerations = object["spec"]["tolerations"].as_array()?;
    tolerations.iter().filter_map(|toleration| toleration["tolerationSeconds"].as_i64()).filter(|s| *s > 0).max()
}
