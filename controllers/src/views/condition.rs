//! Conditions: of pods and nodes, and `metav1.Condition` of budgets.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Condition types and statuses that controllers read or write.
pub mod types {
    /// The pod is about to be deleted by something other than its owner or a user.
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
    /// The pod serves, or the node is healthy.
    pub const READY: &str = "Ready";
    /// Whether a budget has disruptions left.
    pub const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
    /// Status `True`.
    pub const TRUE: &str = "True";
    /// Status `False`.
    pub const FALSE: &str = "False";
}

/// `v1.PodCondition`; node conditions are read through it as well.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Last probe; written as `null` when unknown, as Go's zero time is.
    pub last_probe_time: Option<Timestamp>,
    /// When `status` last changed, whole seconds.
    pub last_transition_time: Option<Timestamp>,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `metadata.generation` the condition was computed for; 0 is absent.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// For programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Which condition.
    #[serde(rename = "type")]
    pub kind: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
pub(super) fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The first condition of `kind`.
pub fn find_pod_condition<'a>(conditions: &'a [PodCondition], kind: &str) -> Option<&'a PodCondition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Sets `new` in `conditions` and says whether anything but the observed generation changed.
///
/// `last_transition_time` becomes `now`, cut to whole seconds, unless the status stays the same.
pub fn update_pod_condition(conditions: &mut Vec<PodCondition>, mut new: PodCondition, now: Timestamp) -> bool {
    new.last_transition_time = Some(whole_seconds(now));
    let Some(old) = conditions.iter_mut().find(|condition| condition.kind == new.kind) else {
        conditions.push(new);
        return true;
    };
    if new.status == old.status {
        new.last_transition_time = old.last_transition_time;
    }
    let changed = PodCondition { observed_generation: new.observed_generation, ..old.clone() } != new;
    *old = new;
    changed
}

/// `metav1.Condition`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// When `status` last changed, whole seconds.
    pub last_transition_time: Option<Timestamp>,
    /// For people; may be empty, never absent.
    pub message: String,
    /// `metadata.generation` the condition was computed for; 0 is absent.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// For programs.
    pub reason: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Which condition.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Sets `new` in `conditions`; others, known or not, stay as they are (D-044).
///
/// `last_transition_time` becomes `now`, cut to whole seconds, unless the status stays the same.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition, now: Timestamp) {
    new.last_transition_time = Some(whole_seconds(now));
    match conditions.iter_mut().find(|condition| condition.kind == new.kind) {
        None => conditions.push(new),
        Some(old) => {
            if new.status == old.status {
                new.last_transition_time = old.last_transition_time;
            }
            *old = new;
        }
    }
}

/// `time` as `metav1.Time` goes over the wire: cut to the second before it.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_nanosecond().div_euclid(1_000_000_000) as i64).unwrap_or(time)
}
