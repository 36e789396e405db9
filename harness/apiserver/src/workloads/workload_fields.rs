//! Numbers in workloads, whose fields `staging/src/k8s.io/api/apps/v1/types.go` declares.

use std::time::Duration;

use crate::json::Value;

pub(super) fn count(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns `spec.replicas`; 1 if the field is absent.
pub(super) fn desired_replicas(workload: &Value) -> i64 {
    workload.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

/// Returns a number of pods, or the share of `total` that a percentage is; `None` if it is not set:
/// `GetScaledValueFromIntOrPercent` in `staging/src/k8s.io/apimachinery/pkg/util/intstr/intstr.go`.
pub(super) fn scaled_value(value: &Value, total: i64, round_up: bool) -> Option<i64> {
    let Some(text) = value.as_str() else { return value.as_i64() };
    let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
    let share = i128::from(total) * i128::from(percent) + if round_up { 99 } else { 0 };
    Some(i32::try_from(share / 100).unwrap_or(i32::MAX).into())
}

pub(super) fn min_ready(workload: &Value) -> Duration {
    Duration::from_secs(u64::try_from(count(workload, "/spec/minReadySeconds")).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    /// The numbers are those of `intstr_test.go`; shares beyond the numbers of pods do not overflow.
    #[rstest]
    #[case::number(json!(4), 10, true, Some(4))]
    #[case::up(json!("95%"), 10, true, Some(10))]
    #[case::down(json!("95%"), 10, false, Some(9))]
    #[case::huge(json!("9000000000000000000%"), 2, true, Some(i64::from(i32::MAX)))]
    #[case::beyond(json!("90000000000000000000%"), 2, true, None)]
    #[case::absent(json!(null), 2, true, None)]
    fn shares(#[case] value: Value, #[case] total: i64, #[case] up: bool, #[case] expected: Option<i64>) {
        assert_eq!(scaled_value(&value, total, up), expected);
    }
}
