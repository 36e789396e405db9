//! Oracle `ttl`: the TTL follows the number of nodes with hysteresis. Pure.
//!
//! Source: `pkg/controller/ttl/ttl_controller.go`.

use std::time::Duration;

use plumbline::expect::world::ObjectStates;
use plumbline::explore::breach::Breach;
use plumbline::explore::faults::FaultTrait;
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::nodes::{TTL_ANNOTATION, TTL_RANGES, next_ttl_range};
use plumbline::transcript::{Actor, EntryKind, TranscriptEntry};

use super::breaches::of_change;
use super::news::is_informed;
use super::tolerance::write_delay;
use crate::explore::run::entries::changes;
use crate::explore::run::explored::ExploredRun;

/// Returns the first TTL that does not follow from the number of nodes.
pub(super) fn wrong_values(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let is_judged = fixture.controllers.contains(&Controller::Ttl)
        && is_informed(fixture, explored.plan)
        && !explored.plan.has(FaultTrait::ChangesHistory);
    if !is_judged {
        return Vec::new();
    }
    let delay = write_delay(explored.plan);
    let mut steps = None;
    let found = changes(explored.until_quiet(), Actor::Ttl, "nodes").find_map(|(entry, change)| {
        let value = metadata::annotation(change.new.as_deref()?, TTL_ANNOTATION)?;
        let steps = steps.get_or_insert_with(|| ttl_steps(begin.all("nodes").count(), explored.until_quiet()));
        let from = entry.at.saturating_sub(delay);
        let before = steps.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let possible = steps[before..].iter().take_while(|(at, _)| *at <= entry.at);
        let mut values = possible.map(|(_, step)| TTL_RANGES[*step].2);
        (!values.any(|possible| possible == value)).then(|| {
            let wanted = steps.iter().rev().find(|(at, _)| *at <= entry.at).map_or("", |(_, it)| TTL_RANGES[*it].2);
            let text = format!("nodes/{} gets the TTL {value} at {:?} instead of {wanted}", change.name, entry.at);
            of_change("ttl", change, "value".to_owned(), entry.at, text)
        })
    });
    found.into_iter().collect()
}

/// Returns the times at which the TTL changes, each with its place in [`TTL_RANGES`]. A controller that starts counts
/// the nodes one by one.
fn ttl_steps(nodes: usize, entries: &[TranscriptEntry]) -> Vec<(Duration, usize)> {
    let mut count = nodes;
    let mut step = 0;
    while count > TTL_RANGES[step].1 {
        step += 1;
    }
    let mut steps = vec![(Duration::ZERO, step)];
    for entry in entries {
        let EntryKind::Change(change) = &entry.what else { continue };
        match (change.resource.as_str(), change.old.is_some(), change.new.is_some()) {
            ("nodes", false, true) => count += 1,
            ("nodes", true, false) => count = count.saturating_sub(1),
            _ => continue,
        }
        step = next_ttl_range(step, count);
        steps.push((entry.at, step));
    }
    steps
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::Transcript;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::explore::judge::testing::{change, judged_by};

    fn judged(controller: &str, transcript: &Transcript, initial: Vec<Value>) -> Vec<String> {
        judged_by(controller, transcript, initial, |fixture, begin, explored| {
            wrong_values(fixture, begin, explored).into_iter().map(|breach| breach.fingerprint()).collect()
        })
    }

    #[rstest]
    #[case::rises_above_100(100, true, "15", true)]
    #[case::not_before(99, true, "15", false)]
    #[case::stays_at_90(101, false, "15", true)]
    #[case::does_not_fall_at_100(101, false, "0", false)]
    fn the_ttl_has_hysteresis(#[case] nodes: usize, #[case] grows: bool, #[case] value: &str, #[case] fine: bool) {
        let transcript = Transcript::new();
        let annotated = |value: &str| json!({"metadata": {"name": "a", "annotations": {TTL_ANNOTATION: value}}});
        let one = Some(annotated(""));
        change(&transcript, 10, None, "nodes", if grows { [None, one] } else { [one, None] });
        change(&transcript, 10, Some("ttl-controller"), "nodes", [Some(annotated("")), Some(annotated(value))]);
        let named = |number| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")}});
        assert_eq!(judged("ttl", &transcript, (0..nodes).map(named).collect()).is_empty(), fine);
    }
}
