//! The nodes that accept a pod: schedulable, with the labels that the pod asks for, and without taints that it does not
//! tolerate. PURE. See `nodeaffinity`, `tainttoleration` and `nodeunschedulable` in `pkg/scheduler/framework/plugins`.

use std::collections::BTreeSet;

use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata;
use crate::node_selector::has_labels;

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
    if !is_tolerated(node, pod) {
        return Some("node(s) had untolerated taint(s)");
    }
    (!is_selected(node, pod)).then_some("node(s) didn't match Pod's node affinity/selector")
}

/// Returns true if the pod tolerates the taints of the node that keep pods away.
pub(super) fn is_tolerated(node: &Value, pod: &Value) -> bool {
    let mut taints = array_field(&node["spec"], "taints").iter();
    taints.all(|taint| taint["effect"] == "PreferNoSchedule" || tolerates(pod, taint))
}

/// Returns true if the node has the labels that the pod selects, and what its node affinity requires.
pub(super) fn is_selected(node: &Value, pod: &Value) -> bool {
    let labels = metadata::labels(node);
    let mut selector = pod["spec"]["nodeSelector"].as_object().into_iter().flatten();
    selector.all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value)) && has_affinity(node, pod)
}

/// Returns the nodes that the node affinity of a pod names, if it names any: `PreFilter` of `NodeAffinity`.
pub(super) fn named_nodes(pod: &Value) -> Option<BTreeSet<&str>> {
    let required = pod.pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution")?;
    let mut named = BTreeSet::new();
    for term in array_field(required, "nodeSelectorTerms") {
        let fields = array_field(term, "matchFields").iter();
        let names = fields.filter(|field| field["key"] == "metadata.name" && field["operator"] == "In");
        let sets = names.map(|field| array_field(field, "values").iter().filter_map(Value::as_str).collect());
        // Without one, all nodes may suit.
        named.extend(sets.reduce(|all: BTreeSet<&str>, more| all.intersection(&more).copied().collect())?);
    }
    (!array_field(required, "nodeSelectorTerms").is_empty()).then_some(named)
}

/// Returns true if the node has what the pod's node affinity requires.
fn has_affinity(node: &Value, pod: &Value) -> bool {
    let required = pod.pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    required.filter(|required| required.is_object()).is_none_or(|required| has_labels(node, required))
}

/// Returns true if the pod tolerates a taint.
pub(super) fn tolerates(pod: &Value, taint: &Value) -> bool {
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
    #[case::one(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]), Some(vec!["n"]))]
    #[case::conflict(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]},
        {"key": "metadata.name", "operator": "In", "values": ["m"]}]}]), Some(vec![]))]
    #[case::either(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}]), Some(vec!["m", "n"]))]
    #[case::or_a_label(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
        {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]), None)]
    fn some_pods_name_their_nodes(#[case] terms: Value, #[case] expected: Option<Vec<&str>>) {
        let pod = json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}});
        assert_eq!(named_nodes(&pod).map(|named| named.into_iter().collect::<Vec<_>>()), expected);
        assert_eq!(named_nodes(&json!({"spec": {}})), None);
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
