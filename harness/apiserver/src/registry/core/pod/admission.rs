//! The default admission plugins for pods.
//!
//! See `plugin/pkg/admission/{defaulttolerationseconds,priority,podtopologylabels}/admission.go`.

use std::sync::LazyLock;

use crate::json::fields::{object_or_insert, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::lister::{AdmissionPlugin, topology_labels};
use crate::registry::strategy::StrategyContext;
use crate::status::{GroupResource, Status};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Default toleration in seconds for not-ready and unreachable nodes.
const TOLERATION_SECONDS: i64 = 300;

/// The tolerations that pods get: of nodes that are not ready, and of unreachable ones.
static DEFAULT_TOLERATIONS: LazyLock<[Value; 2]> = LazyLock::new(|| {
    [NOT_READY, UNREACHABLE].map(
        |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}),
    )
});

/// The plugin `DefaultTolerationSeconds`.
pub(super) fn admit_default_tolerations(pod: &mut Value, ctx: &StrategyContext<'_>) {
    if !ctx.lookup.admits_by(AdmissionPlugin::DefaultTolerationSeconds) {
        return;
    }
    let Some(spec) = object_or_insert(pod, "spec") else { return };
    let list = spec.entry("tolerations").or_insert_with(|| Value::Array(Vec::new()));
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    let Some(list) = list.as_array_mut() else { return };
    for toleration in &*DEFAULT_TOLERATIONS {
        let key = str_field(toleration, "key");
        let tolerated = list.iter().any(|t| {
            let own = str_field(t, "key");
            let effect = str_field(t, "effect");
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            list.push(toleration.clone());
        }
    }
    if list.is_empty() {
        spec.remove("tolerations");
    }
}

struct PodPriority {
    name: String,
    value: i64,
    preemption: String,
}

/// The plugin `Priority` on create.
pub(super) fn priority(pod: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    let name = metadata::admitted_name(pod).to_owned();
    let computed = compute_priority(pod, ctx)?;
    let Some(spec) = object_or_insert(pod, "spec") else { return Ok(()) };
    let refuse = |why: String| Err(Status::forbidden(GroupResource::new("", "pods"), &name, &why));
    if let Some(given) = spec.get("priority").and_then(Value::as_i64)
        && given != computed.value
    {
        return refuse(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
            computed.value
        ));
    }
    if let Some(given) = spec.get("preemptionPolicy").and_then(Value::as_str)
        && given != computed.preemption
    {
        return refuse(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
            computed.preemption
        ));
    }
    if !computed.name.is_empty() {
        spec.insert("priorityClassName", computed.name.into());
    }
    spec.insert("priority", computed.value.into());
    spec.insert("preemptionPolicy", computed.preemption.into());
    Ok(())
}

fn compute_priority(pod: &Value, ctx: &StrategyContext<'_>) -> Result<PodPriority, Status> {
    let from = |class: &Value| PodPriority {
        name: metadata::name(class).to_owned(),
        value: class.get("value").and_then(Value::as_i64).unwrap_or(0),
        preemption: match str_field(class, "preemptionPolicy") {
            "" => "PreemptLowerPriority".to_owned(),
            other => other.to_owned(),
        },
    };
    let wanted = pod.get("spec").map_or("", |s| str_field(s, "priorityClassName"));
    if wanted.is_empty() {
        let classes = ctx.lookup.list_holding("scheduling.k8s.io", "priorityclasses", "", r#""globalDefault":true"#);
        let default = classes
            .iter()
            .filter(|c| c.get("globalDefault") == Some(&Value::Bool(true)))
            .min_by_key(|c| c.get("value").and_then(Value::as_i64).unwrap_or(0));
        let none = || PodPriority { name: String::new(), value: 0, preemption: "PreemptLowerPriority".to_owned() };
        return Ok(default.map_or_else(none, from));
    }
    if let Some(class) = ctx.lookup.get("scheduling.k8s.io", "priorityclasses", "", wanted) {
        return Ok(from(&class));
    }
    // The two system classes exist in every cluster.
    let system = match wanted {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        _ => {
            let why = format!("no PriorityClass with name {wanted} was found");
            return Err(Status::forbidden(GroupResource::new("", "pods"), metadata::admitted_name(pod), &why));
        }
    };
    Ok(PodPriority { name: wanted.to_owned(), value: system, preemption: "PreemptLowerPriority".to_owned() })
}

/// The plugin `PodTopologyLabels`, for pods that are created with a node.
pub(super) fn admit_topology_labels(pod: &mut Value, ctx: &StrategyContext<'_>) {
    let node = pod.get("spec").map_or("", |s| str_field(s, "nodeName")).to_owned();
    let labels = topology_labels(ctx.lookup, &node);
    if labels.is_empty() {
        return;
    }
    let Some(metadata) = pod.get_mut("metadata") else { return };
    if let Some(own) = object_or_insert(metadata, "labels") {
        own.extend(labels);
    }
}

/// The plugin `Priority` on update: keeps the computed fields that the update omits.
pub(super) fn keep_priority(new: &mut Value, old: &Value) {
    let empty = Value::Null;
    let before = old.get("spec").unwrap_or(&empty);
    let Some(spec) = object_or_insert(new, "spec") else { return };
    for field in ["priority", "preemptionPolicy"] {
        if spec.get(field).is_none_or(Value::is_null)
            && let Some(value) = before.get(field)
        {
            spec.insert(field.to_owned(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    use crate::json::fields::{array_field, spec_of};
    use crate::registry::lister::{EmptyLister, ObjectLister};

    /// Returns true if a toleration has the key.
    fn has(pod: &Value, key: &str) -> bool {
        array_field(spec_of(pod), "tolerations").iter().any(|toleration| str_field(toleration, "key") == key)
    }

    #[rstest]
    #[case::none(json!([]), true, true)]
    #[case::all(json!([{"operator": "Exists"}]), false, false)]
    #[case::one(json!([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}]), true, true)]
    #[case::other_effect(json!([{"operator": "Exists", "effect": "NoSchedule"}]), true, true)]
    fn tolerations_are_added(#[case] given: Value, #[case] not_ready: bool, #[case] unreachable: bool) {
        let mut pod = json!({"spec": {"tolerations": given}});
        let ctx = StrategyContext::of_test(&EmptyLister);
        admit_default_tolerations(&mut pod, &ctx);
        assert_eq!((has(&pod, NOT_READY), has(&pod, UNREACHABLE)), (not_ready, unreachable));
    }

    struct Classes;

    impl ObjectLister for Classes {
        fn get(&self, _: &str, _: &str, _: &str, name: &str) -> Option<Value> {
            (name == "high").then(|| json!({"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"}))
        }

        fn list(&self, _: &str, _: &str, _: &str) -> Vec<Value> {
            Vec::new()
        }
    }

    #[test]
    fn priority_comes_from_the_class() {
        let ctx = StrategyContext::of_test(&Classes);
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"priorityClassName": "high"}});
        priority(&mut pod, &ctx).expect("known class");
        assert_eq!(pod["spec"], json!({"priorityClassName": "high", "priority": 7, "preemptionPolicy": "Never"}));
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"priorityClassName": "nope"}});
        let refused = priority(&mut pod, &ctx).expect_err("unknown class");
        assert_eq!(refused.message, "pods \"p\" is forbidden: no PriorityClass with name nope was found");
    }

    #[test]
    fn priority_defaults_to_zero() {
        let ctx = StrategyContext::of_test(&EmptyLister);
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {}});
        priority(&mut pod, &ctx).expect("default");
        assert_eq!(pod["spec"], json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}));
    }
}
