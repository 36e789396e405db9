//! Computes the status of a budget. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::DELETION_TIMEOUT;
use super::expected::ExpectedCounts;
use crate::api::View;
use crate::api::condition::{Condition, set_condition, types};
use crate::api::pdb::{PdbStatus, PdbView};
use crate::api::pod::PodView;

/// Reasons of the condition `DisruptionAllowed`.
pub mod reasons {
    /// At least one disruption is allowed.
    pub const SUFFICIENT_PODS: &str = "SufficientPods";
    /// No disruption is allowed.
    pub const INSUFFICIENT_PODS: &str = "InsufficientPods";
    /// The status could not be computed, so no disruption is allowed.
    pub const SYNC_FAILED: &str = "SyncFailed";
}

/// The result of evaluating a budget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PdbDecision {
    /// The status to write; `None` if the current one is up to date.
    pub status: Option<PdbStatus>,
    /// Time at which the first granted eviction whose pod still exists expires.
    pub recheck_at: Option<Timestamp>,
    /// Pods whose eviction was granted but did not happen; their entries are dropped.
    pub not_deleted: Vec<Arc<PodView>>,
}

/// Computes the status of `pdb` from the pods it selects (BR-25-03, BR-25-04).
pub fn decide(pdb: &PdbView, pods: &[Arc<PodView>], expected: ExpectedCounts, now: Timestamp) -> PdbDecision {
    let claims = claims(pdb, pods, now);
    let current_healthy = count_healthy(pods, &claims.active, now);
    let mut status = PdbStatus {
        conditions: pdb.status.conditions.clone(),
        current_healthy,
        desired_healthy: expected.desired_healthy,
        disrupted_pods: claims.active,
        disruptions_allowed: disruptions_allowed(current_healthy, expected),
        expected_pods: expected.expected_pods,
        observed_generation: pdb.generation(),
    };
    let status = if is_up_to_date(pdb, &status) {
        None
    } else {
        let condition = allowed_condition(&status);
        set_condition(&mut status.conditions, condition, now);
        Some(status)
    };
    PdbDecision { status, recheck_at: claims.recheck_at, not_deleted: claims.not_deleted }
}

/// Returns the status after a failed sync: no disruption is allowed, everything else is unchanged (BR-25-06, D-112).
///
/// `None` if the status says this already: another write would only trigger another sync (I-D14).
pub fn fail_safe(pdb: &PdbView, error: &str, now: Timestamp) -> Option<PdbStatus> {
    let mut status = PdbStatus { disruptions_allowed: 0, ..pdb.status.clone() };
    let condition = Condition {
        kind: types::DISRUPTION_ALLOWED.to_owned(),
        status: types::FALSE.to_owned(),
        reason: reasons::SYNC_FAILED.to_owned(),
        message: error.to_owned(),
        observed_generation: status.observed_generation,
        last_transition_time: None,
    };
    set_condition(&mut status.conditions, condition, now);
    (status != pdb.status).then_some(status)
}

/// No disruption is allowed if no pods are expected: the budget has not been computed for its first pods yet (D-103).
fn disruptions_allowed(current_healthy: i32, expected: ExpectedCounts) -> i32 {
    if expected.expected_pods <= 0 {
        return 0;
    }
    current_healthy.saturating_sub(expected.desired_healthy).max(0)
}

struct DisruptionClaims {
    active: BTreeMap<String, Timestamp>,
    recheck_at: Option<Timestamp>,
    not_deleted: Vec<Arc<PodView>>,
}

/// Evaluates the granted evictions. An entry is dropped if its pod is gone or terminating, or if it has expired.
fn claims(pdb: &PdbView, pods: &[Arc<PodView>], now: Timestamp) -> DisruptionClaims {
    let mut claims = DisruptionClaims { active: BTreeMap::new(), recheck_at: None, not_deleted: Vec::new() };
    for pod in pods.iter().filter(|pod| !pod.is_terminating()) {
        let Some((name, granted)) = pdb.status.disrupted_pods.get_key_value(pod.name()) else { continue };
        let expires_at = expires_at(*granted);
        if expires_at < now {
            claims.not_deleted.push(Arc::clone(pod));
        } else {
            claims.active.insert(name.clone(), *granted);
            claims.recheck_at = Some(claims.recheck_at.map_or(expires_at, |first| first.min(expires_at)));
        }
    }
    claims
}

/// Counts pods that are ready, not terminating and without a granted eviction. At the instant of its expiry, an entry
/// is still kept but its pod counts as healthy (D-113).
fn count_healthy(pods: &[Arc<PodView>], claims: &BTreeMap<String, Timestamp>, now: Timestamp) -> i32 {
    let claimed = |pod: &PodView| claims.get(pod.name()).is_some_and(|granted| expires_at(*granted) > now);
    let healthy = pods.iter().filter(|pod| !pod.is_terminating() && !claimed(pod) && pod.is_ready()).count();
    i32::try_from(healthy).unwrap_or(i32::MAX)
}

fn expires_at(granted: Timestamp) -> Timestamp {
    granted.checked_add(DELETION_TIMEOUT).unwrap_or(Timestamp::MAX)
}

fn allowed_condition(status: &PdbStatus) -> Condition {
    let (value, reason) = condition_status_and_reason(status);
    Condition {
        kind: types::DISRUPTION_ALLOWED.to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        observed_generation: status.observed_generation,
        ..Condition::default()
    }
}

fn condition_status_and_reason(status: &PdbStatus) -> (&'static str, &'static str) {
    if status.disruptions_allowed > 0 {
        (types::TRUE, reasons::SUFFICIENT_PODS)
    } else {
        (types::FALSE, reasons::INSUFFICIENT_PODS)
    }
}

/// Returns true if writing `new`, whose conditions are still the current ones, would change neither a number, nor
/// `disruptedPods`, nor the condition's status and reason.
fn is_up_to_date(pdb: &PdbView, new: &PdbStatus) -> bool {
    let present = &pdb.status;
    let condition = present.conditions.iter().find(|condition| condition.kind == types::DISRUPTION_ALLOWED);
    present == new
        && condition.is_some_and(|condition| {
            (condition.status.as_str(), condition.reason.as_str()) == condition_status_and_reason(new)
        })
}
