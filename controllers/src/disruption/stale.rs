//! Decides when a `DisruptionTarget` condition is stale. PURE.

use jiff::Timestamp;

use super::STALE_POD_DISRUPTION_TIMEOUT;
use crate::api::View;
use crate::api::condition::{PodCondition, types};
use crate::api::pod::PodView;

/// Set by the kubelet, which may terminate a pod long after setting it: never stale (D-064).
const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";

/// Staleness of a pod's `DisruptionTarget` condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Staleness {
    /// There is no such condition, or it never becomes stale.
    Never,
    /// It becomes stale at this time.
    At(Timestamp),
    /// It is stale and must be set to False.
    Stale,
}

/// Evaluates `pod` (BR-25-05): a condition that is True on a running, non-terminating pod is stale two minutes after
/// its last transition.
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

/// Returns the condition that replaces a stale one: False, with no reason and no message (D-060, D-066).
pub fn reset_condition(pod: &PodView) -> PodCondition {
    PodCondition {
        kind: types::DISRUPTION_TARGET.to_owned(),
        status: types::FALSE.to_owned(),
        observed_generation: pod.generation(),
        ..PodCondition::default()
    }
}
