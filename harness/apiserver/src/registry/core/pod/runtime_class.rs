//! The admission plugin `RuntimeClass`: a pod gets the overhead, node selector and tolerations of its class. See
//! `plugin/pkg/admission/runtimeclass/admission.go` and `pkg/util/tolerations/tolerations.go`.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_errors::go_quote;
use crate::json::fields::{is_empty_value, non_null, object_or_insert, semantic_equal, spec_of, str_field};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::name_formats::path_segment;
use crate::registry::strategy::StrategyContext;
use crate::status::{GroupResource, Status};

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

fn refusal(pod: &Value, why: &str) -> Status {
    Status::forbidden(GroupResource::new("", "pods"), metadata::admitted_name(pod), why)
}

/// Returns the class of a pod; an empty one for a pod without a class.
fn class_of(pod: &Value, ctx: &StrategyContext<'_>) -> Result<Value, Status> {
    if non_null(spec_of(pod), "runtimeClassName").is_none() {
        return Ok(json!({}));
    }
    let wanted = str_field(spec_of(pod), "runtimeClassName");
    if let Some(class) = ctx.lookup.get("node.k8s.io", "runtimeclasses", "", wanted) {
        return Ok(class);
    }
    // Upstream looks for the class with a request of its own, which cannot have every name.
    let malformed = path_segment(wanted, false);
    if wanted.is_empty() {
        return Err(Status::untyped_error("resource name may not be empty"));
    }
    if !malformed.is_empty() {
        let why = format!("invalid resource name {}: [{}]", go_quote(wanted), malformed.join(" "));
        return Err(Status::untyped_error(why));
    }
    Err(refusal(pod, &format!("pod rejected: RuntimeClass {} not found", go_quote(wanted))))
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

/// Drops tolerations that others include: `MergeTolerations`, in one pass instead of a comparison of every two.
fn merge_tolerations(all: &[Value]) -> Vec<Value> {
    let mut after = Inclusions::default();
    let included_later: Vec<bool> = all
        .iter()
        .rev()
        .map(|one| {
            // Of two equal ones the first stays.
            let found = after.candidates(one).any(|other| other != one && includes(other, one));
            after.note(one);
            found
        })
        .collect();
    let mut before = Inclusions::default();
    let mut equal = BTreeSet::new();
    let mut merged = Vec::new();
    for (one, included_later) in all.iter().zip(included_later.into_iter().rev()) {
        let text = one.to_string();
        let is_first = !equal.contains(&text);
        if is_first && !included_later && !before.candidates(one).any(|other| includes(other, one)) {
            before.note(one);
            equal.insert(text);
            merged.push(one.clone());
        }
    }
    merged
}

/// Key, operator, effect and, unless the operator is `Exists`, value: tolerations that agree in these include others
/// in the order of their seconds.
type TolerationClass = [String; 4];

/// The tolerations that can include others.
#[derive(Default)]
struct Inclusions<'a> {
    /// Of each class the two that last longest and differ.
    widest: BTreeMap<TolerationClass, Vec<&'a Value>>,
}

impl<'a> Inclusions<'a> {
    fn note(&mut self, toleration: &'a Value) {
        let [key, operator, effect] = ["key", "operator", "effect"].map(|field| str_field(toleration, field));
        let value = if operator == "Exists" { "" } else { str_field(toleration, "value") };
        let widest = self.widest.entry([key, operator, effect, value].map(str::to_owned)).or_default();
        if !widest.contains(&toleration) {
            widest.push(toleration);
            widest.sort_by_key(|one| std::cmp::Reverse(seconds(one).unwrap_or(i64::MAX)));
            widest.truncate(2);
        }
    }

    /// Returns the tolerations that may include another one.
    fn candidates(&self, narrow: &Value) -> impl Iterator<Item = &'a Value> {
        let [key, value, effect] = ["key", "value", "effect"].map(|field| str_field(narrow, field));
        let operators = [("Exists", ""), ("Equal", value), ("", value)];
        let classes = [key, ""].into_iter().flat_map(move |key| {
            let with_effect = move |effect| operators.map(|(operator, value)| [key, operator, effect, value]);
            [effect, ""].into_iter().flat_map(with_effect)
        });
        classes.filter_map(move |class| self.widest.get(&class.map(str::to_owned))).flatten().copied()
    }
}

fn seconds(toleration: &Value) -> Option<i64> {
    toleration.get("tolerationSeconds").and_then(Value::as_i64)
}

/// Returns true if `wide` tolerates everything that `narrow` tolerates.
fn includes(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let [operator, key, effect] = ["operator", "key", "effect"].map(|field| str_field(wide, field));
    let all_keys = key.is_empty() && operator == "Exists";
    if (key != str_field(narrow, "key") && !all_keys) || (effect != str_field(narrow, "effect") && !effect.is_empty()) {
        return false;
    }
    if effect == "NoExecute"
        && let Some(most) = seconds(wide)
        && seconds(narrow).is_none_or(|own| own > most)
    {
        return false;
    }
    match operator {
        "Equal" | "" => {
            str_field(narrow, "operator") == "Equal" && str_field(narrow, "value") == str_field(wide, "value")
        }
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

    /// `MergeTolerations` as upstream has it, which compares every two.
    fn compared(all: &[Value]) -> Vec<Value> {
        let mut merged: Vec<Value> = Vec::new();
        for (index, one) in all.iter().enumerate() {
            let before = merged.iter().any(|other| includes(other, one));
            let after = all[index + 1..].iter().any(|other| other != one && includes(other, one));
            if !before && !after {
                merged.push(one.clone());
            }
        }
        merged
    }

    proptest::proptest! {
        #[test]
        fn one_pass_finds_what_comparing_all_does(all in proptest::collection::vec((0..3_usize, 0..4_usize, 0..4_usize, 0..3_usize, 0..4_i64), 0..12)) {
            let all: Vec<Value> = all
                .into_iter()
                .map(|(key, operator, effect, value, seconds)| {
                    let key = ["", "a", "b"][key];
                    let operator = ["Exists", "Equal", "", "Lt"][operator];
                    let effect = ["", "NoExecute", "NoSchedule", "PreferNoSchedule"][effect];
                    let value = ["", "x", "y"][value];
                    let mut one = json!({"key": key, "operator": operator, "effect": effect, "value": value});
                    if seconds > 0 {
                        one["tolerationSeconds"] = json!(seconds);
                    }
                    one
                })
                .collect();
            proptest::prop_assert_eq!(merge_tolerations(&all), compared(&all));
        }
    }

    #[test]
    fn many_tolerations_are_merged_at_once() {
        let many = |prefix: &str| -> Vec<Value> {
            (0..5_000).map(|i| toleration(&format!("{prefix}{i}"), "Exists", "")).collect()
        };
        let all: Vec<Value> = [many("a"), many("b"), many("a")].concat();
        assert_eq!(merge_tolerations(&all), all[..10_000]);
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
