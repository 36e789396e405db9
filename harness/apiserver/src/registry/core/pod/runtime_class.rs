//! The admission plugin `RuntimeClass`: a pod gets the overhead, node selector and tolerations of its class. See
//! `plugin/pkg/admission/runtimeclass/admission.go` and `pkg/util/tolerations/tolerations.go`.

use crate::json::fields::{is_empty_value, non_null, object_or_insert, semantic_equal, spec_of, str_field};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::registry::strategy::StrategyContext;
use crate::status::{GroupResource, Status};

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

fn refusal(pod: &Value, why: &str) -> Status {
    Status::forbidden(GroupResource::new("", "pods"), metadata::admitted_name(pod), why)
}

/// Returns the class of a pod; an empty one for a pod without a class.
fn class_of(pod: &Value, ctx: &StrategyContext<'_>) -> Result<Value, Status> {
    match str_field(spec_of(pod), "runtimeClassName") {
        "" => Ok(json!({})),
        wanted => ctx
            .lookup
            .get("node.k8s.io", "runtimeclasses", "", wanted)
            .ok_or_else(|| refusal(pod, &format!("pod rejected: RuntimeClass \"{wanted}\" not found"))),
    }
}

/// Returns the overhead that a class defines.
fn fixed_overhead(class: &Value) -> Option<Value> {
    non_null(class, "overhead").map(|overhead| overhead.get("podFixed").cloned().unwrap_or_else(|| json!({})))
}

/// Gives a new pod what its class says.
pub(super) fn admit(pod: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    let class = class_of(pod, ctx)?;
    if let Some(fixed) = fixed_overhead(&class) {
        let own = spec_of(pod).get("overhead");
        if !is_empty_value(own) && own != Some(&fixed) {
            return Err(refusal(pod, OTHER_OVERHEAD));
        }
        if let Some(spec) = object_or_insert(pod, "spec") {
            spec.insert("overhead", fixed);
        }
    }
    let scheduling = non_null(&class, "scheduling");
    let (Some(scheduling), Some(spec)) = (scheduling, object_or_insert(pod, "spec")) else { return Ok(()) };
    schedule(spec, scheduling).map_err(|conflict| refusal(pod, &conflict.to_string()))
}

/// Checks that a new pod has the overhead of its class.
pub(super) fn check(pod: &Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    let own = spec_of(pod).get("overhead").filter(|overhead| !is_empty_value(Some(overhead)));
    match fixed_overhead(&class_of(pod, ctx)?) {
        Some(fixed) if !semantic_equal(own, Some(&fixed)) => Err(refusal(pod, OTHER_OVERHEAD)),
        None if own.is_some() => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            Err(refusal(pod, why))
        }
        _ => Ok(()),
    }
}

/// A label in the node selectors of a class and of a pod, with different values.
#[derive(Debug, thiserror::Error)]
#[error(
    "conflict: runtimeClass.scheduling.nodeSelector[{label}] = {of_class}; pod.spec.nodeSelector[{label}] = {of_pod}"
)]
struct SelectorConflict {
    label: String,
    of_class: String,
    of_pod: String,
}

/// Merges the class's node selector and tolerations into the pod's.
fn schedule(spec: &mut Map, scheduling: &Value) -> Result<(), SelectorConflict> {
    let labels = scheduling.get("nodeSelector").and_then(Value::as_object);
    let mut selector = spec.get("nodeSelector").and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, value) in labels.into_iter().flatten() {
        if let Some(own) = selector.get(key).filter(|own| *own != value) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(SelectorConflict { label: key.to_string(), of_class: text(value), of_pod: text(own) });
        }
        selector.insert(key.clone(), value.clone());
    }
    if !selector.is_empty() {
        spec.insert("nodeSelector", Value::Object(selector));
    }
    let list = |from: Option<&Value>| from.and_then(Value::as_array).cloned().unwrap_or_default();
    let all = [list(spec.get("tolerations")), list(scheduling.get("tolerations"))].concat();
    if !all.is_empty() {
        spec.insert("tolerations", Value::Array(merge_tolerations(&all)));
    }
    Ok(())
}

/// Drops tolerations that others include.
fn merge_tolerations(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let before = merged.iter().any(|other| includes(other, one));
        // Of two equal ones the first stays.
        let after = all[index + 1..].iter().any(|other| other != one && includes(other, one));
        if !before && !after {
            merged.push(one.clone());
        }
    }
    merged
}

/// Returns true if `wide` tolerates everything that `narrow` tolerates.
fn includes(wide: &Value, narrow: &Value) -> bool {
    let text = |toleration: &Value, field: &str| str_field(toleration, field).to_owned();
    let differ = |field: &str| text(wide, field) != text(narrow, field);
    let seconds = |toleration: &Value| toleration.get("tolerationSeconds").and_then(Value::as_i64);
    let operator = text(wide, "operator");
    if wide == narrow {
        return true;
    }
    let all_keys = text(wide, "key").is_empty() && operator == "Exists";
    if (differ("key") && !all_keys) || (differ("effect") && !text(wide, "effect").is_empty()) {
        return false;
    }
    if text(wide, "effect") == "NoExecute"
        && let Some(most) = seconds(wide)
        && seconds(narrow).is_none_or(|own| own > most)
    {
        return false;
    }
    match operator.as_str() {
        "Equal" | "" => text(narrow, "operator") == "Equal" && !differ("value"),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn toleration(key: &str, operator: &str, effect: &str) -> Value {
        json!({"key": key, "operator": operator, "effect": effect})
    }

    #[rstest]
    #[case::equal(&[toleration("a", "Exists", ""), toleration("a", "Exists", "")], &[0])]
    #[case::every_effect(&[toleration("a", "Exists", "NoSchedule"), toleration("a", "Exists", "")], &[1])]
    #[case::every_key(&[toleration("a", "Exists", "NoSchedule"), toleration("", "Exists", "")], &[1])]
    #[case::others(&[toleration("a", "Exists", "NoSchedule"), toleration("b", "Exists", "")], &[0, 1])]
    #[case::value(&[toleration("a", "Exists", ""), json!({"key": "a", "operator": "Equal", "value": "b"})], &[0])]
    fn tolerations_are_merged(#[case] all: &[Value], #[case] kept: &[usize]) {
        let expected: Vec<Value> = kept.iter().map(|index| all[*index].clone()).collect();
        assert_eq!(merge_tolerations(all), expected);
    }

    #[test]
    fn a_pod_gets_what_its_class_says() {
        let class = json!({"nodeSelector": {"k": "v"}, "tolerations": [toleration("t", "Exists", "")]});
        let mut spec = Map::new();
        schedule(&mut spec, &class).unwrap();
        assert_eq!(spec.get("nodeSelector"), Some(&json!({"k": "v"})));
        assert_eq!(spec.get("tolerations"), Some(&json!([toleration("t", "Exists", "")])));
        spec.insert("nodeSelector", json!({"k": "w"}));
        let why = schedule(&mut spec, &class).unwrap_err().to_string();
        assert_eq!(why, "conflict: runtimeClass.scheduling.nodeSelector[k] = v; pod.spec.nodeSelector[k] = w");
    }
}
