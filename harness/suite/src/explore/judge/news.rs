//! Changes that the faults of a plan may have hidden from the controllers. Pure.

use std::time::Duration;

use plumbline::explore::faults::FaultTrait;
use plumbline::explore::faults::plan::FaultPlan;
use plumbline::fixture::Fixture;

use crate::explore::histories::facts::{controls_subject, disturbs_watches, has_faults};

/// Time after a fault in which the subject may not know the current state.
const UNINFORMED: Duration = Duration::from_mins(1);
/// Time before a fault from which its event may be held.
const SOON: Duration = Duration::from_millis(1);
/// Returns true if a fault of the plan delays the subject's information at the time `at`.
pub(super) fn is_uninformed_at(at: Duration, plan: &FaultPlan) -> bool {
    plan.faults.iter().any(|(disturbance, point)| {
        let uninformed = UNINFORMED + disturbance.cut_off().unwrap_or_default();
        disturbance.delays_information(point) && point.at <= at + SOON && at <= point.at + uninformed
    })
}

/// Returns true if the controllers learn of each change at once, and keep what they have learned.
pub(super) fn is_informed(fixture: &Fixture, plan: &FaultPlan) -> bool {
    let own = disturbs_watches(fixture) || controls_subject(fixture) || has_faults(fixture);
    !(plan.delays_information() || own || plan.has(FaultTrait::Restarts))
}
