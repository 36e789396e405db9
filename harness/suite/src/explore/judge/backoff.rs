//! Writes that may have waited for the back-off of a work queue. Pure.

use std::time::Duration;

use plumbline::rules::budgets::{BUDGET_STATUS, BUDGETS, says_sync_failed};
use plumbline::rules::queue::MAX_DELAY;
use plumbline::transcript::EntryKind;

use super::disturbances::Disturbances;
use super::tolerance::RECONNECT;
use crate::explore::run::explored::ExploredRun;
use crate::explore::run::observation::RequestKey;

/// Returns true if a write to a budget at this time may have waited for the work queue: its sync fails anyway, so the
/// key waits for up to the longest back-off after a disturbance made it fail once more, as in client-go.
pub(super) fn is_backed_off(
    explored: ExploredRun<'_>,
    disturbances: &Disturbances,
    key: &RequestKey,
    at: Duration,
) -> bool {
    if key.resource != BUDGET_STATUS {
        return false;
    }
    let fails = explored.entries.iter().any(|entry| match &entry.what {
        EntryKind::Change(change) if change.resource == BUDGETS && change.name == key.name => {
            change.new.as_deref().is_some_and(says_sync_failed)
        }
        _ => false,
    });
    fails && disturbances.count > 0 && at <= disturbances.until.saturating_add(RECONNECT + MAX_DELAY)
}
