//! Oracle `end state` about Events: each Event of the run without faults is there, unless it was lost with the memory
//! of its sender. Pure.

use plumbline::explore::breach::{Breach, END_STATE};
use plumbline::explore::faults::FaultTrait;
use plumbline::explore::faults::inject::RESTART_AFTER;
use plumbline::explore::faults::plan::FaultPlan;
use plumbline::rules::recorder::SENDING;
use plumbline::transcript::by_object::STARTS;
use plumbline::transcript::{EntryKind, TranscriptEntry};
use serde_json::json;

use crate::explore::run::explored::{ExploredRun, ReferenceRun};

/// Returns true if controllers ended while their recorder may have had an Event to send once more: it keeps Events in
/// memory, so these are lost with it, as in client-go.
fn may_lose_events(plan: &FaultPlan, entries: &[TranscriptEntry]) -> bool {
    let times = || plan.faults.iter().map(|(_, point)| point.at);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return false };
    let period = first..=last + SENDING + RESTART_AFTER;
    let starts = |entry: &TranscriptEntry| matches!(&entry.what, EntryKind::Note(text) if text == STARTS);
    entries.iter().any(|entry| starts(entry) && period.contains(&entry.at))
}

/// Returns an Event of the run without faults that a failed request about Events made disappear. One that was lost with
/// the memory of its sender is not expected.
pub(super) fn lost_event(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    let faults = &explored.plan.faults;
    // The recorder sends again what no server answered; an answer is final, as in client-go. After a delay the name,
    // which is made from the time, may be taken by another controller's Event of the same instant of virtual time.
    let about_events = faults.iter().all(|(disturbance, point)| {
        point.target.resource.plural == "events" && disturbance.is(FaultTrait::BreaksConnection)
    });
    if faults.is_empty() || !about_events || may_lose_events(explored.plan, explored.until_quiet()) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plumbline::explore::faults::Disturbance;
    use plumbline::explore::faults::point::FaultPoint;
    use plumbline::transcript::Transcript;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::while_it_waits_to_send_again(12, true)]
    #[case::before_the_fault(9, false)]
    #[case::after_the_last_try(133, false)]
    fn a_restart_may_lose_events(#[case] at: u64, #[case] lost: bool) {
        let transcript = Transcript::new();
        transcript.note(Duration::from_secs(at), STARTS);
        let mut plan = FaultPlan::calm("faults/a");
        let point = FaultPoint { at: Duration::from_secs(10), ..FaultPoint::of_run(1) };
        plan.faults.push((Disturbance::parse("drop").expect("a fault"), point));
        assert_eq!(may_lose_events(&plan, &transcript.entries()), lost);
    }
}
