//! Times that oracles allow in addition to what Kubernetes asks for. Pure.

use std::time::Duration;

use plumbline::explore::faults::plan::FaultPlan;

/// Time in which controllers learn of a change and act on it.
pub(super) const AT_ONCE: Duration = Duration::from_millis(500);
/// Time by which each fault delays a write that is already decided, in addition to its own duration.
const WRITE_DELAY: Duration = Duration::from_secs(5);
/// Time by which each fault delays a write that is not decided yet, in addition to its own duration. A node that cannot
/// be read waits another 40 s in quarantine, until the cycle after that.
pub(super) const LATE: Duration = Duration::from_secs(90);
/// Time after which controllers list or watch again at the latest: client-go's longest back-off of a reflector, 30 s,
/// doubled by its jitter, and the time of an attempt.
pub(super) const RECONNECT: Duration = Duration::from_secs(90);

/// Returns the time between a decision and its write at most.
pub(super) fn write_delay(plan: &FaultPlan) -> Duration {
    let delays = plan.faults.iter().map(|(disturbance, _)| disturbance.duration() + WRITE_DELAY);
    AT_ONCE + delays.sum::<Duration>()
}
