//! The limits within which an autoscaler changes a number of replicas. PURE. See `normalizeDesiredReplicas` and its
//! relatives in `pkg/controller/podautoscaler/horizontal.go`.

use std::cmp::Ordering;
use std::time::Duration;

use jiff::Timestamp;

use crate::json::Value;
use crate::json::fields::array_field;

/// Time in which the highest recommendation counts before a number is reduced
/// (`HorizontalPodAutoscalerDownscaleStabilizationWindow`).
const STABILIZATION: Duration = Duration::from_mins(5);
/// Longest time for which what happened is of use: the longest window and period of a behavior.
const HISTORY: Duration = Duration::from_hours(1);

/// A number at a time.
type Sample = (Timestamp, i64);

/// The history of an autoscaler.
#[derive(Debug, Default)]
pub(super) struct Memory {
    recommendations: Vec<Sample>,
    ups: Vec<Sample>,
    downs: Vec<Sample>,
}

/// The condition that a step leads to: status, reason and message.
pub(super) type Reason = (bool, &'static str, &'static str);

/// A number of replicas, with the conditions `AbleToScale` and `ScalingLimited`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScalingDecision {
    pub(super) replicas: i64,
    pub(super) able: Reason,
    pub(super) limited: Reason,
}

/// The present and the wanted number, and the limits of the autoscaler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) current: i64,
    pub(super) wanted: i64,
    pub(super) least: i64,
    pub(super) most: i64,
}

const READY: Reason = (true, "ReadyForNewScale", "recommended size matches current size");
const HELD_DOWN: Reason = (
    true,
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const HELD_UP: Reason = (
    true,
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const FINE: Reason = (false, "DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_FEW: Reason = (true, "TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_MANY: Reason = (true, "TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FAST_UP: Reason =
    (true, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: Reason =
    (true, "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");

impl Memory {
    /// Notes the first number of replicas: `recordInitialRecommendation`.
    pub(super) fn begin(&mut self, current: i64, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push((now, current));
        }
    }

    /// Notes a change of the number of replicas: `storeScaleEvent`.
    pub(super) fn scaled(&mut self, before: i64, after: i64, now: Timestamp) {
        let (list, change) =
            if after > before { (&mut self.ups, after - before) } else { (&mut self.downs, before - after) };
        list.push((now, change));
    }

    /// Returns the number of replicas to have, of those that are wanted.
    pub(super) fn decide(&mut self, wish: Wish, behavior: &Value, now: Timestamp) -> ScalingDecision {
        for list in [&mut self.recommendations, &mut self.ups, &mut self.downs] {
            list.retain(|(at, _)| is_recent(*at, HISTORY, now));
        }
        let decision =
            if behavior.is_object() { self.by_behavior(wish, behavior, now) } else { self.by_default(wish, now) };
        self.recommendations.push((now, wish.wanted));
        decision
    }

    fn by_default(&self, wish: Wish, now: Timestamp) -> ScalingDecision {
        let recent = self.recommendations.iter().filter(|(at, _)| is_recent(*at, STABILIZATION, now));
        let stable = recent.map(|(_, number)| *number).max().map_or(wish.wanted, |most| most.max(wish.wanted));
        let able = if stable == wish.wanted { READY } else { HELD_DOWN };
        // At most twice as many, but four at least: `calculateScaleUpLimit`.
        let fast = wish.current.saturating_mul(2).max(4);
        let (most, reason) = if wish.most > fast { (fast, TOO_FAST_UP) } else { (wish.most, TOO_MANY) };
        let (replicas, limited) = if stable < wish.least {
            (wish.least, TOO_FEW)
        } else if stable > most {
            (most, reason)
        } else {
            (stable, FINE)
        };
        ScalingDecision { replicas, able, limited }
    }

    fn by_behavior(&self, wish: Wish, behavior: &Value, now: Timestamp) -> ScalingDecision {
        let window = |direction: &str, default: Duration| {
            let seconds = behavior[direction]["stabilizationWindowSeconds"].as_u64();
            seconds.map_or(default, Duration::from_secs)
        };
        let recent = |window: Duration| {
            let all = self.recommendations.iter().filter(move |(at, _)| is_after(*at, window, now));
            all.map(|(_, number)| *number)
        };
        let up = recent(window("scaleUp", Duration::ZERO)).fold(wish.wanted, i64::min);
        let down = recent(window("scaleDown", STABILIZATION)).fold(wish.wanted, i64::max);
        let stable = wish.current.max(up).min(down);
        let stabilized = if wish.wanted >= wish.current { HELD_UP } else { HELD_DOWN };
        let able = if stable == wish.wanted { READY } else { stabilized };
        let (replicas, limited) = match stable.cmp(&wish.current) {
            Ordering::Greater => {
                let limit = self.limit(wish.current, &behavior["scaleUp"], true, now).max(wish.current);
                let (most, reason) = if wish.most > limit { (limit, TOO_FAST_UP) } else { (wish.most, TOO_MANY) };
                if stable > most { (most, reason) } else { (stable, FINE) }
            }
            Ordering::Less => {
                let limit = self.limit(wish.current, &behavior["scaleDown"], false, now).min(wish.current);
                let (least, reason) = if wish.least < limit { (limit, TOO_FAST_DOWN) } else { (wish.least, TOO_FEW) };
                if stable < least { (least, reason) } else { (stable, FINE) }
            }
            Ordering::Equal => (stable, FINE),
        };
        ScalingDecision { replicas, able, limited }
    }

    /// Returns the number that the policies of a direction allow: `calculateScaleUpLimitWithScalingRules` and
    /// `calculateScaleDownLimitWithBehaviors`.
    fn limit(&self, current: i64, rules: &Value, is_up: bool, now: Timestamp) -> i64 {
        let select = rules["selectPolicy"].as_str().unwrap_or("Max");
        if select == "Disabled" {
            return current;
        }
        let limits = array_field(rules, "policies").iter().map(|policy| {
            let period = Duration::from_secs(policy["periodSeconds"].as_u64().unwrap_or(0));
            let change = |list: &[Sample]| -> i64 {
                list.iter().filter(|(at, _)| is_after(*at, period, now)).map(|(_, change)| *change).sum()
            };
            let start = current - change(&self.ups) + change(&self.downs);
            let value = policy["value"].as_i64().unwrap_or(0);
            match (policy["type"] == "Percent", is_up) {
                (false, true) => start.saturating_add(value),
                (false, false) => start.saturating_sub(value),
                (true, true) => (start as f64 * (1.0 + value as f64 / 100.0)).ceil() as i64,
                (true, false) => (start as f64 * (1.0 - value as f64 / 100.0)) as i64,
            }
        });
        // Up, the highest number is the greatest change; down, it is the smallest.
        let limit = if is_up == (select == "Min") { limits.min() } else { limits.max() };
        limit.unwrap_or(current)
    }
}

/// Returns true if a time is not before the begin of a window.
fn is_recent(at: Timestamp, window: Duration, now: Timestamp) -> bool {
    now.checked_sub(window).is_ok_and(|begin| at >= begin)
}

/// Returns true if a time is after the begin of a window.
fn is_after(at: Timestamp, window: Duration, now: Timestamp) -> bool {
    now.checked_sub(window).is_ok_and(|begin| at > begin)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn at(second: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(1_000_000 + second)
    }

    fn wish(current: i64, wanted: i64) -> Wish {
        Wish { current, wanted, least: 2, most: 20 }
    }

    /// `convertDesiredReplicasWithRules`.
    #[rstest]
    #[case::fine(5, 6, 6, "DesiredWithinRange")]
    #[case::few(5, 1, 2, "TooFewReplicas")]
    #[case::fast(5, 15, 10, "ScaleUpLimit")]
    #[case::many(15, 25, 20, "TooManyReplicas")]
    #[case::four(1, 15, 4, "ScaleUpLimit")]
    fn numbers_have_limits(#[case] current: i64, #[case] wanted: i64, #[case] replicas: i64, #[case] reason: &str) {
        let found = Memory::default().decide(wish(current, wanted), &Value::Null, at(0));
        assert_eq!((found.replicas, found.limited.1, found.able.1), (replicas, reason, "ReadyForNewScale"));
    }

    /// `stabilizeRecommendation`.
    #[test]
    fn a_number_is_reduced_after_five_minutes() {
        let mut memory = Memory::default();
        memory.begin(8, at(0));
        let mut decide = |second| memory.decide(wish(8, 3), &Value::Null, at(second));
        assert_eq!((decide(15).replicas, decide(30).able.1), (8, "ScaleDownStabilized"));
        assert_eq!(decide(300).replicas, 8);
        let found = decide(301);
        assert_eq!((found.replicas, found.able.1), (3, "ReadyForNewScale"));
    }

    /// `TestScalingWithRules` and its relatives: the policies, and what has happened in their periods.
    #[rstest]
    #[case::pods(json!({"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}}), 10, 20, 12, "ScaleUpLimit")]
    #[case::percent(json!({"scaleUp": {"policies": [{"type": "Percent", "value": 15, "periodSeconds": 60}]}}), 10, 20, 12, "ScaleUpLimit")]
    #[case::greatest(json!({"scaleUp": {"policies": [{"type": "Percent", "value": 15, "periodSeconds": 60}, {"type": "Pods", "value": 4, "periodSeconds": 60}]}}), 10, 20, 14, "ScaleUpLimit")]
    #[case::smallest(json!({"scaleUp": {"selectPolicy": "Min", "policies": [{"type": "Percent", "value": 15, "periodSeconds": 60}, {"type": "Pods", "value": 4, "periodSeconds": 60}]}}), 10, 20, 12, "ScaleUpLimit")]
    #[case::disabled(json!({"scaleUp": {"selectPolicy": "Disabled"}}), 10, 20, 10, "ScaleUpLimit")]
    #[case::down(json!({"scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}]}}), 10, 2, 7, "ScaleDownLimit")]
    #[case::down_percent(json!({"scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 25, "periodSeconds": 60}]}}), 10, 2, 7, "ScaleDownLimit")]
    #[case::down_disabled(json!({"scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": "Disabled"}}), 10, 2, 10, "ScaleDownLimit")]
    fn behaviors_have_rates(
        #[case] behavior: Value,
        #[case] current: i64,
        #[case] wanted: i64,
        #[case] replicas: i64,
        #[case] reason: &str,
    ) {
        let found = Memory::default().decide(wish(current, wanted), &behavior, at(0));
        assert_eq!((found.replicas, found.limited.1), (replicas, reason));
    }

    #[test]
    fn changes_of_a_period_count() {
        let behavior = json!({"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]}});
        let mut memory = Memory::default();
        memory.scaled(10, 13, at(0));
        assert_eq!(memory.decide(wish(13, 20), &behavior, at(30)).replicas, 14);
        assert_eq!(memory.decide(wish(13, 20), &behavior, at(61)).replicas, 17);
    }
}
