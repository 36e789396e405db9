//! Oracle `end state` about Events: each Event of the run without faults is there, unless it was lost with the memory
//! of its sender. Pure.

use plumbline::expect::requests;
use plumbline::explore::breach::{Breach, END_STATE};
use plumbline::transcript::{Attributed as _, Exchange, TranscriptEntry};
use serde_json::json;

use super::disturbances::{Disturbances, lost_with_memory};
use crate::explore::run::explored::{ExploredRun, ReferenceRun};

/// Returns an Event of the run without faults that a failed request about Events made disappear. One that was lost with
/// the memory of its sender is not expected.
pub(super) fn lost_event(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    let disturbances = Disturbances::of(explored);
    // The recorder sends again what no server answered; an answer is final, as in client-go. After a delay the name,
    // which is made from the time, may be taken by another controller's Event of the same instant of virtual time.
    let is_judged = disturbances.count > 0
        && disturbances.only_events
        && requests(explored.until_quiet()).all(|(entry, exchange)| is_prompt_or_lost(entry, exchange))
        && !lost_with_memory(explored.until_quiet());
    if !is_judged {
        return Vec::new();
    }
    let mut lost = reference.observation.events.difference(&explored.observation.events);
    let to_breach = |(object, reason): &(String, String)| Breach {
        oracle: END_STATE.to_owned(),
        resource: "events".to_owned(),
        kind: "is missing".to_owned(),
        at: explored.record.end,
        text: format!("there is no Event {reason} about {object}; without the fault there is"),
        expected: json!({ "quiet": true }),
    };
    lost.next().map(to_breach).into_iter().collect()
}

/// Returns true if a request of the subject about an Event succeeded at once, or its connection broke.
fn is_prompt_or_lost(entry: &TranscriptEntry, exchange: &Exchange) -> bool {
    let is_own = exchange.request.resource == "events" && entry.actor().is_subject();
    !is_own || exchange.reply.as_ref().is_none_or(|reply| reply.at == entry.at && (reply.lost || reply.status < 400))
}
