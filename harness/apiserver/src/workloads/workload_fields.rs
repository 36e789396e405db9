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

pub(super) fn min_ready(workload: &Value) -> Duration {
    Duration::from_secs(u64::try_from(count(workload, "/spec/minReadySeconds")).unwrap_or(0))
}
