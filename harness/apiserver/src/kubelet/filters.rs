//! The nodes that accept a pod: schedulable, with the labels that the pod asks for, and without taints that it does not
//! tolerate. PURE. See `nodeaffinity`, `tainttoleration` and `nodeunschedulable` in `pkg/scheduler/framework/plugins`,
//! and `staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go`.

use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata;

/// Returns true if the node accepts the pod.
pub(crate) fn takes(node: &Value, pod: &Value) -> bool {
    rejection(node, pod).is_none()
}

/// Returns why the node does not accept the pod, in the order and the words of the scheduler's plugins.
pub(super) fn rejection(node: &Value, pod: &Value) -> Option<&'static str> {
    let cordon = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    if node["spec"]["unschedulable"] == json!(true) && !tolerates(pod, &cordon) || metadata::is_deleted(node) {
        return Some("node(s) were unschedulable");
    }
    let mut taints = array_field(&node["spec"], "taints").iter();
    if !taints.all(|taint| taint["effect"] == "PreferNoSchedule" || tolerates(pod, taint)) {
        return Some("node(s) had untolerated taint(s)");
    }
    let labels = metadata::labels(node);
    let mut selector = pod["spec"]["nodeSelector"].as_object().into_iter().flatten();
    let has_labels = selector.all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value));
    (!has_labels || !has_affinity(node, pod)).then_some("node(s) didn't match Pod's node affinity/selector")
}

/// Returns true if the node has what the pod's node affinity requires.
fn has_affinity(node: &Value, pod: &Value) -> bool {
    let required = pod.pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    required.filter(|required| required.is_object()).is_none_or(|required| has_labels(node, required))
}

/// Returns true if the node meets a node selector, which is a list of terms.
pub(crate) fn has_labels(node: &Value, selector: &Value) -> bool {
    array_field(selector, "nodeSelectorTerms").iter().any(|term| {
        let labels = array_field(term, "matchExpressions");
        let fields = array_field(term, "matchFields");
        let label = |key: &str| metadata::label(node, key);
        let field = |key: &str| (key == "metadata.name").then(|| metadata::name(node));
        (!labels.is_empty() || !fields.is_empty())
            && labels.iter().all(|requirement| is_met(requirement, label))
            && fields.iter().all(|requirement| is_met(requirement, field))
    })
}

/// Returns true if a requirement of a node selector is met by the values of a node.
fn is_met<'n>(requirement: &Value, value_of: impl Fn(&str) -> Option<&'n str>) -> bool {
    let value = value_of(requirement["key"].as_str().unwrap_or_default());
    let wanted = array_field(requirement, "values");
    let compared = || {
        let number = |text: &str| text.parse::<i64>().ok();
        let [limit] = wanted else { return None };
        Some(number(value?)?.cmp(&number(limit.as_str()?)?))
    };
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" => value.is_some_and(|value| wanted.iter().any(|one| one == value)),
        "NotIn" => !value.is_some_and(|value| wanted.iter().any(|one| one == value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

fn tolerates(pod: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    array_field(&pod["spec"], "tolerations").iter().any(|toleration| {
        let key = text(&toleration["key"]);
        let effect = text(&toleration["effect"]);
        let exists = toleration["operator"] == "Exists";
        (effect.is_empty() || effect == text(&taint["effect"]))
            && ((key.is_empty() && exists)
                || (key == text(&taint["key"]) && (exists || text(&toleration["value"]) == text(&taint["value"]))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(json!({}), json!({}), true)]
    #[case(json!({"spec": {"unschedulable": true}}), json!({}), false)]
    #[case(json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}}), json!({}), false)]
    #[case(json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}), json!({}), true)]
    #[case(json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}),
        json!({"spec": {"tolerations": [{"key": "k", "operator": "Equal", "value": "v"}]}}), true)]
    #[case(json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}), json!({"spec": {"tolerations": [{"operator": "Exists"}]}}), true)]
    #[case(json!({"metadata": {"labels": {"a": "b"}}}), json!({"spec": {"nodeSelector": {"a": "c"}}}), false)]
    fn nodes_take_pods(#[case] node: Value, #[case] pod: Value, #[case] expected: bool) {
        assert_eq!(takes(&node, &pod), expected);
    }

    #[rstest]
    #[case::is_in(json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]), true)]
    #[case::is_not_in(json!([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]), false)]
    #[case::is_absent(json!([{"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["a"]}]}]), true)]
    #[case::exists(json!([{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]), false)]
    #[case::does_not_exist(json!([{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]), true)]
    #[case::greater(json!([{"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["7"]}]}]), true)]
    #[case::less(json!([{"matchExpressions": [{"key": "cores", "operator": "Lt", "values": ["8"]}]}]), false)]
    #[case::no_number(json!([{"matchExpressions": [{"key": "zone", "operator": "Lt", "values": ["8"]}]}]), false)]
    #[case::both(json!([{"matchExpressions": [{"key": "zone", "operator": "Exists"}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}]), false)]
    #[case::either(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]), true)]
    #[case::empty_term(json!([{}]), false)]
    #[case::no_term(json!([]), false)]
    fn nodes_have_what_pods_require(#[case] terms: Value, #[case] expected: bool) {
        let node = json!({"metadata": {"name": "n", "labels": {"zone": "a", "cores": "8"}}});
        let pod = json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}});
        assert_eq!(takes(&node, &pod), expected);
    }
}
