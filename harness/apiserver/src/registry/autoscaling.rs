//! `autoscaling` `HorizontalPodAutoscaler`: stored as `v2`; `v1` has only a CPU target. Pure.
//!
//! See `pkg/apis/autoscaling/v1/conversion.go` and `pkg/apis/autoscaling/v2/defaults.go`.

use super::{Conversion, meta};
use crate::json::{Map, Value, json};

/// Converts between `v2`, the storage version, and `v1`.
pub(super) const CONVERSION: Conversion = Conversion { to_storage: to_v2, from_storage: to_v1 };

const PERCENTAGE: &str = "targetCPUUtilizationPercentage";
/// The utilization to aim at unless a metric is set (`DefaultCPUUtilization`).
const DEFAULT_PERCENTAGE: i64 = 80;
const CURRENT: &str = "currentCPUUtilizationPercentage";

fn to_v2(mut object: Value) -> Value {
    object["apiVersion"] = "autoscaling/v2".into();
    if let Some(spec) = meta::object_or_insert(&mut object, "spec") {
        // The default of v2 holds for v1, too.
        let percentage = spec.remove(PERCENTAGE).filter(|value| !value.is_null()).unwrap_or(json!(DEFAULT_PERCENTAGE));
        let target = json!({"type": "Utilization", "averageUtilization": percentage});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics", json!([metric]));
    }
    if let Some(status) = meta::object_or_insert(&mut object, "status") {
        let current = status.remove(CURRENT).map_or(Value::Null, |percentage| {
            let current = json!({"averageUtilization": percentage, "averageValue": "0"});
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}])
        });
        status.insert("currentMetrics", current);
        if status.get("currentReplicas") == Some(&json!(0)) {
            status.remove("currentReplicas");
        }
    }
    object
}

fn to_v1(mut object: Value) -> Value {
    object["apiVersion"] = "autoscaling/v1".into();
    if let Some(spec) = meta::object_or_insert(&mut object, "spec") {
        let metrics = spec.remove("metrics");
        spec.remove("behavior");
        if let Some(percentage) = cpu_metric_value(metrics.as_ref(), "/resource/target/averageUtilization") {
            spec.insert(PERCENTAGE, percentage);
        }
    }
    if let Some(status) = meta::object_or_insert(&mut object, "status") {
        let metrics = status.remove("currentMetrics");
        status.remove("conditions");
        if let Some(percentage) = cpu_metric_value(metrics.as_ref(), "/resource/current/averageUtilization") {
            status.insert(CURRENT, percentage);
        }
        for field in ["currentReplicas", "desiredReplicas"] {
            status.entry(field).or_insert(json!(0));
        }
    }
    object
}

/// Returns the value at a pointer in the CPU metric.
fn cpu_metric_value(metrics: Option<&Value>, pointer: &str) -> Option<Value> {
    let metrics = metrics.and_then(Value::as_array)?;
    let processor = metrics.iter().find(|metric| {
        metric.get("type").is_some_and(|kind| kind == "Resource")
            && metric.pointer("/resource/name").is_some_and(|name| name == "cpu")
    })?;
    processor.pointer(pointer).cloned()
}

/// Defaults of `v1`.
pub(super) fn default_v1(map: &mut Map) {
    if let Some(spec) = map.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("minReplicas").or_insert(json!(1));
    }
    if let Some(status) = map.entry("status").or_insert_with(|| json!({})).as_object_mut() {
        for field in ["currentReplicas", "desiredReplicas"] {
            status.entry(field).or_insert(json!(0));
        }
    }
}

/// Defaults of `v2`'s scaling behavior, if it is set.
pub(super) fn default_behavior(spec: &mut Map) {
    let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (direction, policies) in [("scaleUp", json!([pods, percent])), ("scaleDown", json!([percent]))] {
        let rules = behavior.entry(direction).or_insert_with(|| json!({}));
        let Some(rules) = rules.as_object_mut() else { continue };
        rules.entry("selectPolicy").or_insert_with(|| "Max".into());
        if meta::is_empty_value(rules.get("policies")) {
            rules.insert("policies", policies);
        }
        if direction == "scaleUp" {
            rules.entry("stabilizationWindowSeconds").or_insert(json!(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_goes_there_and_back() {
        let first = json!({"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 3, PERCENTAGE: 50},
            "status": {"currentReplicas": 0, "desiredReplicas": 0, CURRENT: 7}});
        let stored = to_v2(first.clone());
        assert_eq!(stored.pointer("/spec/metrics/0/resource/target/averageUtilization"), Some(&json!(50)));
        assert_eq!(stored["apiVersion"], "autoscaling/v2");
        assert_eq!(to_v1(stored), first);
        let stored = to_v2(json!({"spec": {"maxReplicas": 3}}));
        assert_eq!(stored.pointer("/spec/metrics/0/resource/target/averageUtilization"), Some(&json!(80)));
    }

    #[test]
    fn both_directions_are_filled_in() {
        let mut spec = json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}});
        default_behavior(spec.as_object_mut().unwrap());
        assert_eq!(
            spec["behavior"],
            json!({
                "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15}]},
                "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [
                    {"type": "Percent", "value": 100, "periodSeconds": 15}]},
            })
        );
    }
}
