//! Numbers and conditions of disruption budgets, and how long claims and announcements last.
//!
//! Sources: `pkg/controller/disruption/disruption.go` (`DeletionTimeout`, `stalePodDisruptionTimeout`,
//! `updatePdbStatus`, `getExpectedPodCount`), `pkg/apis/policy/types.go`.

use std::collections::BTreeMap;
use std::fmt;

use jiff::SignedDuration;
use serde_json::Value;

use super::pods;
use super::scales::{self, OwnerScale};
use crate::expect::world::{Key, ObjectStates};
use crate::metadata::{self, controller, is_terminating};

/// The resource of budgets.
pub const BUDGETS: &str = "poddisruptionbudgets";
/// The status of budgets, as the resource of a write.
pub const BUDGET_STATUS: &str = "poddisruptionbudgets/status";
/// Time for which a claim in `disruptedPods` is kept, its last instant included.
pub const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
/// Time after which an announced disruption that did not happen is called off.
pub const STALE_POD_DISRUPTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// Returns `disruptionsAllowed`.
#[must_use]
pub fn disruptions_allowed(expected: i64, current: i64, desired: i64) -> i64 {
    if expected > 0 { (current - desired).max(0) } else { 0 }
}

/// The fault of a budget's status that contradicts itself. Numbers are those that are allowed, current, desired and
/// expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatusContradiction {
    /// A number is negative.
    #[error("a negative number in {0}")]
    Negative(StatusNumbers),
    /// There is no condition.
    #[error("no condition DisruptionAllowed")]
    NoCondition,
    /// The condition has a reason that no controller gives.
    #[error("DisruptionAllowed has the reason {0:?}")]
    Reason(String),
    /// The condition says something else than the numbers.
    #[error("DisruptionAllowed is {status} with {numbers}")]
    Condition {
        /// The status of the condition.
        status: Value,
        /// The numbers.
        numbers: StatusNumbers,
    },
    /// The allowed disruptions do not follow from the other numbers.
    #[error("{numbers} with reason {reason}: allowed should be {right}")]
    Allowed {
        /// The numbers.
        numbers: StatusNumbers,
        /// The reason of the condition.
        reason: String,
        /// The right number.
        right: i64,
    },
}

/// The numbers of a budget's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusNumbers {
    allowed: i64,
    current: i64,
    desired: i64,
    expected: i64,
}

impl StatusNumbers {
    fn of(status: &Value) -> Self {
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        Self {
            allowed: number("disruptionsAllowed"),
            current: number("currentHealthy"),
            desired: number("desiredHealthy"),
            expected: number("expectedPods"),
        }
    }
}

impl fmt::Display for StatusNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allowed, current, desired, expected } = self;
        write!(f, "({allowed}, {current}, {desired}, {expected})")
    }
}

/// Checks that a budget's status does not contradict itself.
///
/// # Errors
///
/// Returns the first contradiction.
pub fn check_status(status: &Value) -> Result<(), StatusContradiction> {
    let numbers = StatusNumbers::of(status);
    let StatusNumbers { allowed, current, desired, expected } = numbers;
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let condition = conditions.iter().find(|condition| condition["type"] == "DisruptionAllowed");
    let reason = condition.map_or("", |found| found["reason"].as_str().unwrap_or_default()).to_owned();
    // A failed sync leaves the other numbers as they are, even those that another client wrote.
    let is_negative = |numbers: &[i64]| numbers.iter().any(|number| *number < 0);
    if is_negative(&[allowed]) || (reason != "SyncFailed" && is_negative(&[current, desired, expected])) {
        return Err(StatusContradiction::Negative(numbers));
    }
    let condition = condition.ok_or(StatusContradiction::NoCondition)?;
    if !["SufficientPods", "InsufficientPods", "SyncFailed"].contains(&reason.as_str()) {
        return Err(StatusContradiction::Reason(reason));
    }
    if (condition["status"] == "True") != (allowed > 0) {
        return Err(StatusContradiction::Condition { status: condition["status"].clone(), numbers });
    }
    let right = if reason == "SyncFailed" { 0 } else { disruptions_allowed(expected, current, desired) };
    if allowed == right { Ok(()) } else { Err(StatusContradiction::Allowed { numbers, reason, right }) }
}

/// A pod whose owner has no scale, so that the numbers of its budgets cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostPod {
    /// The pod's name.
    pub name: String,
    /// The begin of the reason.
    pub reason: String,
}

/// Returns the message of the condition that says that the budget could not be synced.
#[must_use]
pub fn failure(budget: &Value) -> Option<&str> {
    let conditions = budget["status"]["conditions"].as_array()?;
    conditions.iter().find(|found| found["reason"] == "SyncFailed").map(|found| found["message"].as_str().unwrap_or(""))
}

/// Returns true if a condition of the budget says that it could not be synced.
#[must_use]
pub fn says_sync_failed(budget: &Value) -> bool {
    failure(budget).is_some()
}

/// The numbers of a budget's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetNumbers {
    /// `observedGeneration`
    pub generation: i64,
    /// `expectedPods`
    pub expected: i64,
    /// `desiredHealthy`
    pub desired: i64,
    /// `currentHealthy`
    pub current: i64,
}

impl BudgetNumbers {
    /// Returns the fields of the status and their values.
    #[must_use]
    pub fn fields(self) -> [(&'static str, i64); 5] {
        let allowed = disruptions_allowed(self.expected, self.current, self.desired);
        [
            ("observedGeneration", self.generation),
            ("expectedPods", self.expected),
            ("desiredHealthy", self.desired),
            ("currentHealthy", self.current),
            ("disruptionsAllowed", allowed),
        ]
    }
}

/// Returns the numbers of a budget. Scales of custom kinds are known only in `calm` runs, see [`scales::scale`].
///
/// # Errors
///
/// Returns the pods whose owners have no scale; no pods if the objects do not say which numbers are right.
pub fn numbers(world: &ObjectStates, key: &Key, budget: &Value, calm: bool) -> Result<BudgetNumbers, Vec<LostPod>> {
    let spec = &budget["spec"];
    let here = world.all("pods").filter(|(pod, _)| pod.namespace == key.namespace);
    let pods: Vec<(&Key, &Value)> = here
        .filter(|(_, pod)| selects(&spec["selector"], metadata::labels(pod)))
        .map(|(pod, object)| (pod, &**object))
        .collect();
    let expected = if spec["minAvailable"].is_number() {
        i64::try_from(pods.len()).unwrap_or(i64::MAX)
    } else {
        sum_of_scales(world, &pods, calm)?
    };
    numbers_of(budget, &pods, expected).ok_or_else(Vec::new)
}

/// Returns the numbers of a budget that selects these pods and expects so many; `None` if its amounts are none, or lead
/// to a negative number, which the server refuses in a status.
fn numbers_of(budget: &Value, selected: &[(&Key, &Value)], expected: i64) -> Option<BudgetNumbers> {
    let spec = &budget["spec"];
    let desired = match (&spec["minAvailable"], &spec["maxUnavailable"]) {
        (Value::Number(least), Value::Null) => least.as_i64()?,
        (Value::String(least), Value::Null) => part(least, expected)?,
        (Value::Null, Value::Number(most)) => (expected - most.as_i64()?).max(0),
        (Value::Null, Value::String(most)) => (expected - part(most, expected)?).max(0),
        _ => return None,
    };
    if desired < 0 {
        return None;
    }
    let current = selected.iter().filter(|(_, pod)| !is_terminating(pod) && pods::is_ready(pod)).count();
    let generation = metadata::generation(budget)?;
    Some(BudgetNumbers { generation, expected, desired, current: i64::try_from(current).ok()? })
}

/// Returns the percentage of a number, rounded up.
fn part(percent: &str, of: i64) -> Option<i64> {
    let percent: i64 = percent.strip_suffix('%')?.parse().ok()?;
    Some((of * percent + 99).div_euclid(100))
}

/// Returns the sum of the scales of the pods' owners. If there is one without a scale, returns its pods, and those of
/// others like it; no pods if there is an owner about which the objects say nothing.
fn sum_of_scales(world: &ObjectStates, pods: &[(&Key, &Value)], calm: bool) -> Result<i64, Vec<LostPod>> {
    let mut scales = BTreeMap::new();
    let mut lost = Vec::new();
    for (key, pod) in pods {
        // Pods without a controller do not count.
        let Some(owner) = controller(pod) else { continue };
        match scales::scale(world, key.namespace.as_deref(), owner, calm) {
            OwnerScale::Found(uid, replicas) => {
                scales.insert(uid, replicas);
            }
            OwnerScale::Failed(reason) => lost.push(LostPod { name: key.name.clone(), reason }),
            OwnerScale::Unknown => return Err(Vec::new()),
        }
    }
    // D-104: the sum is an integer of 32 bits that does not wrap around.
    if lost.is_empty() { Ok(scales.values().sum::<i64>().min(i32::MAX.into())) } else { Err(lost) }
}

/// Returns true if a label selector selects these labels. No selector selects nothing, an empty one everything.
#[must_use]
pub fn selects(selector: &Value, labels: &Value) -> bool {
    let Some(fields) = selector.as_object() else { return false };
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let pairs = fields.get("matchLabels").and_then(Value::as_object);
    let equal = pairs.is_none_or(|pairs| pairs.iter().all(|(key, value)| label(key) == value.as_str()));
    let terms = fields.get("matchExpressions").and_then(Value::as_array);
    let holds = |term: &Value| {
        let found = label(term["key"].as_str().unwrap_or_default());
        let listed = term["values"].as_array().is_some_and(|all| all.iter().any(|value| value.as_str() == found));
        match term["operator"].as_str() {
            Some("In") => found.is_some() && listed,
            Some("NotIn") => found.is_none() || !listed,
            Some("Exists") => found.is_some(),
            Some("DoesNotExist") => found.is_none(),
            _ => false,
        }
    };
    equal && terms.is_none_or(|terms| terms.iter().all(holds))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::none(json!(null), false)]
    #[case::empty(json!({}), true)]
    #[case::equal(json!({"matchLabels": {"app": "web"}}), true)]
    #[case::another(json!({"matchLabels": {"app": "db"}}), false)]
    #[case::one_of(json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}), true)]
    #[case::none_of(json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}), true)]
    #[case::missing(json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), false)]
    fn selectors(#[case] selector: Value, #[case] selected: bool) {
        assert_eq!(selects(&selector, &json!({"app": "web"})), selected);
    }

    #[rstest]
    #[case("30%", 7, Some(3))]
    #[case("0%", 7, Some(0))]
    #[case("100%", 7, Some(7))]
    #[case("30", 7, None)]
    fn percentages_are_rounded_up(#[case] percent: &str, #[case] of: i64, #[case] expected: Option<i64>) {
        assert_eq!(part(percent, of), expected);
    }
}
