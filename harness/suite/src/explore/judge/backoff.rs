//! Writes that may have waited for the back-off of a work queue. Pure.

use std::time::Duration;

use plumbline::expect::requests;
use plumbline::explore::faults::point::Site;
use plumbline::rules::budgets::{BUDGET_STATUS, BUDGETS, says_sync_failed};
use plumbline::rules::queue::MAX_DELAY;
use plumbline::transcript::EntryKind;

use super::tolerance::RECONNECT;
use crate::explore::run::explored::ExploredRun;
use crate::explore::run::observation::WriteKey;

/// Returns true if a write to a budget at this time may have waited for the work queue: its sync fails anyway, so the
/// key waits for up to the longest back-off after a faulty request made it fail once more, as in client-go.
pub(super) fn is_backed_off(explored: ExploredRun<'_>, key: &WriteKey, at: Duration) -> bool {
    // With several faults a request of this number may come at another time.
    let faulty = requests(explored.entries).filter(|(_, exchange)| {
        let request = &exchange.request;
        let of_budget = request.resource == BUDGETS && request.name.as_ref() == Some(&key.name);
        (of_budget || request.subresource.as_deref() == Some("scale"))
            && exchange.reply.as_ref().is_some_and(|reply| reply.fault.is_some())
    });
    let last = faulty.map(|(entry, _)| entry.at).take_while(|time| *time <= at).last().unwrap_or_default();
    let refused = explored.plan.faults.iter().any(|(disturbance, point)| {
        let of_budget = point.target.resource.plural == BUDGETS && point.target.name == key.name;
        // The sync asks for the scale of an owner, and its failure gives the budget another reason.
        let of_scale = point.target.subresource.as_deref() == Some("scale");
        matches!(point.site, Site::Request(_))
            && (of_budget || of_scale)
            && at <= last.max(point.at) + disturbance.duration() + RECONNECT + MAX_DELAY
    });
    let fails = || {
        explored.entries.iter().any(|entry| match &entry.what {
            EntryKind::Change(change) if change.resource == BUDGETS && change.name == key.name => {
                change.new.as_deref().is_some_and(says_sync_failed)
            }
            _ => false,
        })
    };
    key.resource == BUDGET_STATUS && refused && fails()
}
