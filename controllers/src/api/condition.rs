//! Conditions: of pods and nodes, and `metav1.Condition` of budgets.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::intern::{Hasher, Internable, InternedSlice, InternedStr, Interner};
use super::protobuf::{Fields, ProtoError};
use super::time::{self, CompactTimestamp, whole_seconds};

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

/// `v1.PodCondition`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Last probe; written as `null` when unknown, as Go's zero time is.
    #[serde(deserialize_with = "time::time")]
    pub last_probe_time: Option<Timestamp>,
    /// When `status` last changed, whole seconds.
    #[serde(deserialize_with = "time::time")]
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

/// The conditions of a cached pod: what they say is shared with the thousands of pods that say the same, only the times
/// are its own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Conditions {
    texts: InternedSlice<ConditionText>,
    /// When each last changed; then, if any is known, when each was last probed.
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

/// A condition as it comes in.
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

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = PodCondition> {
        (0..self.texts.len()).map(|index| self.get(index))
    }

    /// The first condition of `kind`.
    pub fn find(&self, kind: &str) -> Option<PodCondition> {
        self.texts.iter().position(|text| text.kind == kind).map(|index| self.get(index))
    }

    /// The status of the first condition of `kind`.
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

    /// The `v1.PodCondition`s that are field `number` of a protobuf message.
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
    #[serde(deserialize_with = "time::time")]
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
