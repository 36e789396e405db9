//! Oracle `late` about watches: controllers that do not come back after they were cut off. Pure.

use std::collections::BTreeSet;

use plumbline::expect::requests;
use plumbline::explore::breach::Breach;
use plumbline::explore::faults::FaultTrait;
use plumbline::explore::faults::point::Site;
use plumbline::fixture::Fixture;
use plumbline::fixture::pattern::Verb;
use plumbline::transcript::{Attributed as _, TranscriptEntry};
use serde_json::json;

use super::late::LATE_ORACLE;
use super::tolerance::RECONNECT;
use crate::explore::histories::facts::controls_subject;
use crate::explore::run::explored::{ExploredRun, ReferenceRun};

/// Returns a resource that the controllers watched before they were cut off, and neither listed nor watched again in
/// time afterwards.
pub(super) fn stays_away(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    resource_without_watch(&reference.fixture, explored)
        .filter(|_| !reference.broken.iter().any(|oracle| oracle == LATE_ORACLE))
        .into_iter()
        .collect()
}

fn resource_without_watch(fixture: &Fixture, explored: ExploredRun<'_>) -> Option<Breach> {
    let plan = explored.plan;
    // Controllers that the fixture has stopped have no watches.
    if controls_subject(fixture) {
        return None;
    }
    // A watch that another fault concerns is served in spite of the partition, or later.
    let disturbed = plan.faults.iter().any(|(disturbance, point)| {
        disturbance.is(FaultTrait::Restarts) || matches!(point.site, Site::Request(Verb::List | Verb::Watch))
    }) || plan.faults.iter().filter(|(disturbance, _)| disturbance.cut_off().is_some()).count() > 1;
    let (from, healed) = plan
        .faults
        .iter()
        .filter(|_| !disturbed)
        .find_map(|(disturbance, point)| Some((point.at, point.at + disturbance.cut_off()?)))?;
    let seen = |during: &dyn Fn(&TranscriptEntry) -> bool| -> BTreeSet<(String, String)> {
        requests(explored.entries)
            .filter(|(entry, exchange)| {
                entry.actor().is_subject()
                    && matches!(exchange.request.verb.as_str(), "list" | "watch")
                    && during(entry)
            })
            .map(|(_, exchange)| (exchange.request.group.clone(), exchange.request.resource.clone()))
            .collect()
    };
    let before = seen(&|entry| entry.at < from);
    let after = seen(&|entry| entry.at >= healed && entry.at <= healed + RECONNECT);
    let (_, resource) = before.difference(&after).next()?;
    Some(Breach {
        oracle: LATE_ORACLE.to_owned(),
        resource: resource.clone(),
        kind: "reconnect".to_owned(),
        at: healed + RECONNECT,
        text: format!("{resource} are neither listed nor watched within {RECONNECT:?} after the server is back"),
        expected: json!({ "quiet": true }),
    })
}
