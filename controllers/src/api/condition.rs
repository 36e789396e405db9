//! Conditions of pods, nodes and budgets (`metav1.Condition`).

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::intern::{Hasher, Internable, InternedSlice, InternedStr, Interner};
use super::protobuf::{Fields, ProtoError};
use super::time::{self, CompactTimestamp, whole_seconds};

/// Condition types and statuses that controllers read or write.
pub mod types {
    /// The pod is about to be deleted by something other than its owner or a user.
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
    /// The pod can serve requests, or the node is healthy.
    pub const READY: &str = "Ready";
    /// The budget allows at least one disruption.
    pub const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
    /// Status `True`.
    pub const TRUE: &str = "True";
    /// Status `False`.
    pub const FALSE: &str = "False";
}

/// `v1.PodCondition`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Time of the last probe; serialized as `null` when absent, as Go's zero time is.
    #[serde(deserialize_with = "time::time")]
    pub last_probe_time: Option<Timestamp>,
    /// Time of the last change of `status`, in whole seconds.
    #[serde(deserialize_with = "time::time")]
    pub last_transition_time: Option<Timestamp>,
    /// Human-readable details.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `metadata.generation` that the condition was computed for; 0 if absent.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Machine-readable reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The condition's type.
    #[serde(rename = "type")]
    pub kind: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
pub(super) fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The conditions of a cached pod. Everything except the times is shared with all pods that have equal conditions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Conditions {
    texts: InternedSlice<ConditionText>,
    /// The last transition time of each condition. If any probe time is known, the last probe times follow.
    times: Box<[CompactTimestamp]>,
}

/// A condition without its times.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct ConditionText {
    kind: InternedStr,
    status: InternedStr,
    reason: InternedStr,
    message: InternedStr,
    observed_generation: i64,
}

impl Internable for ConditionText {
    fn interner() -> &'static Interner<[Self]> {
        static INTERNER: Interner<[ConditionText]> = Interner::new();
        &INTERNER
    }

    fn digest(&self, hasher: Hasher) -> Hasher {
        let hasher = hasher.text(&self.kind).text(&self.status).text(&self.reason).text(&self.message);
        hasher.number(self.observed_generation)
    }
}

/// A condition as received from the server.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawCondition {
    #[serde(deserialize_with = "time::time")]
    last_probe_time: Option<Timestamp>,
    #[serde(deserialize_with = "time::time")]
    last_transition_time: Option<Timestamp>,
    message: InternedStr,
    observed_generation: i64,
    reason: InternedStr,
    status: InternedStr,
    #[serde(rename = "type")]
    kind: InternedStr,
}

impl Conditions {
    fn new(conditions: Vec<RawCondition>) -> Self {
        let mut times: Vec<CompactTimestamp> = conditions.iter().map(|one| one.last_transition_time.into()).collect();
        if conditions.iter().any(|one| one.last_probe_time.is_some()) {
            times.extend(conditions.iter().map(|one| CompactTimestamp::from(one.last_probe_time)));
        }
        let text = |one: RawCondition| {
            let RawCondition { kind, status, reason, message, observed_generation, .. } = one;
            ConditionText { kind, status, reason, message, observed_generation }
        };
        Self { texts: InternedSlice::new(conditions.into_iter().map(text).collect()), times: times.into() }
    }

    /// Returns all conditions in order.
    pub fn iter(&self) -> impl Iterator<Item = PodCondition> {
        (0..self.texts.len()).map(|index| self.get(index))
    }

    /// Returns the first condition of type `kind`.
    pub fn find(&self, kind: &str) -> Option<PodCondition> {
        self.texts.iter().position(|text| text.kind == kind).map(|index| self.get(index))
    }

    /// Returns the status of the first condition of type `kind`.
    pub fn status_of(&self, kind: &str) -> Option<&str> {
        self.texts.iter().find(|text| text.kind == kind).map(|text| text.status.as_str())
    }

    fn get(&self, index: usize) -> PodCondition {
        let ConditionText { kind, status, reason, message, observed_generation } = &self.texts[index];
        let time = |index: usize| self.times.get(index).and_then(|time| time.get());
        PodCondition {
            last_probe_time: time(self.texts.len() + index),
            last_transition_time: time(index),
            message: message.to_string(),
            observed_generation: *observed_generation,
            reason: reason.to_string(),
            status: status.to_string(),
            kind: kind.to_string(),
        }
    }

    /// Decodes the `v1.PodCondition`s in field `number` of a protobuf message.
    pub(super) fn protobuf(message: Fields<'_>, number: u32) -> Result<Self, ProtoError> {
        let mut conditions = Vec::new();
        for field in message {
            match field? {
                (field, value) if field == number => conditions.push(raw_condition(value.message()?)?),
                _ => {}
            }
        }
        Ok(Self::new(conditions))
    }
}

fn raw_condition(message: Fields<'_>) -> Result<RawCondition, ProtoError> {
    let mut one = RawCondition::default();
    for field in message {
        match field? {
            (1, value) => one.kind = value.text()?.into(),
            (2, value) => one.status = value.text()?.into(),
            (3, value) => one.last_probe_time = value.time()?,
            (4, value) => one.last_transition_time = value.time()?,
            (5, value) => one.reason = value.text()?.into(),
            (6, value) => one.message = value.text()?.into(),
            (7, value) => one.observed_generation = value.integer()?,
            _ => {}
        }
    }
    Ok(one)
}

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::new)
    }
}

/// Sets `new` in `conditions`. Returns true if anything except the observed generation changed.
///
/// `last_transition_time` becomes `now`, truncated to whole seconds, unless the status stays the same.
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
    /// Time of the last change of `status`, in whole seconds.
    #[serde(deserialize_with = "time::time")]
    pub last_transition_time: Option<Timestamp>,
    /// Human-readable details; may be empty, never absent.
    pub message: String,
    /// `metadata.generation` that the condition was computed for; 0 if absent.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Machine-readable reason.
    pub reason: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The condition's type.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Sets `new` in `conditions` and leaves all other conditions unchanged, unknown types included (D-044).
///
/// `last_transition_time` becomes `now`, truncated to whole seconds, unless the status stays the same.
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
