//! When a `DisruptionTarget` condition has outlived the disruption it announced. PURE.

use jiff::Timestamp;

use super::STALE_POD_DISRUPTION_TIMEOUT;
use crate::api::View;
use crate::api::condition::{PodCondition, types};
use crate::api::pod::PodView;

/// Set by the kubelet, which may end a pod long after announcing it: never stale (D-064).
const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";

/// What to do about a pod's `DisruptionTarget` condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Staleness {
    /// Nothing: no such condition, or one that never becomes stale.
    Never,
    /// Look again then.
    At(Timestamp),
    /// It is stale: set it to False.
    Stale,
}

/// Judges `pod` (BR-25-05): a condition that is True on a live, non-terminating pod is stale two
/// minutes after it became so.
pub fn staleness(pod: &PodView, now: Timestamp) -> Staleness {
    if pod.is_terminating() || pod.is_terminal() {
        return Staleness::Never;
    }
    let Some(condition) = pod.condition(types::DISRUPTION_TARGET) else { return Staleness::Never };
    if condition.status != types::TRUE || condition.reason == TERMINATION_BY_KUBELET {
        return Staleness::Never;
    }
    let since = condition.last_transition_time.unwrap_or(Timestamp::MIN);
    let stale_at = since.checked_add(STALE_POD_DISRUPTION_TIMEOUT).unwrap_or(Timestamp::MAX);
    if stale_at > now { Staleness::At(stale_at) } else { Staleness::Stale }
}

/// The condition that takes a stale one's place: False, with no reason and no message (D-060, D-066).
pub fn reset_condition(pod: &PodView) -> PodCondition {
    PodCondition {
        kind: types::DISRUPTION_TARGET.to_owned(),
        status: types::FALSE.to_owned(),
        observed_generation: pod.generation(),
        ..PodCondition::default()
    }
}
