use jiff::Timestamp;
use plumbline_controllers::api::View;
use plumbline_controllers::api::condition::{PodCondition, update_pod_condition};
use plumbline_controllers::api::go;
use plumbline_controllers::api::labels::Labels;
use plumbline_controllers::api::node::NodeView;
use plumbline_controllers::api::pdb::PdbView;
use plumbline_controllers::api::pod::PodView;
use plumbline_controllers::api::selector::{LabelSelector, Selector};
use plumbline_controllers::api::time::whole_seconds;
use rstest::rstest;
use serde_json::{Value, json};

use super::build::{at, t0};

fn selector(json: Value) -> LabelSelector {
    serde_json::from_value(json).unwrap()
}

#[rstest]
#[case::d_001_empty(json!({}), json!({"a": "b"}), true)]
#[case::d_072_empty_without_labels(json!({}), json!({}), true)]
#[case::labels(json!({"matchLabels": {"a": "b"}}), json!({"a": "b", "c": "d"}), true)]
#[case::labels_all(json!({"matchLabels": {"a": "b", "c": "x"}}), json!({"a": "b", "c": "d"}), false)]
#[case::is_in(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "b"]}]}), json!({"a": "b"}),
    true)]
#[case::in_absent(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}), json!({}), false)]
#[case::not_in(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}), json!({"a": "b"}),
    false)]
#[case::not_in_absent(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}), json!({}),
    true)]
#[case::exists(json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), json!({"a": ""}), true)]
#[case::exists_not(json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), json!({"b": ""}), false)]
#[case::d_072_does_not_exist(json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}), json!({}), true)]
#[case::does_not_exist_but_does(json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}),
    json!({"a": "b"}), false)]
#[case::d_071_never_matching_beta_selector(
    json!({"matchExpressions": [
        {"key": "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "operator": "Exists"},
    ]}),
    json!({"a": "b"}),
    false
)]
fn selects(#[case] of: Value, #[case] labels: Value, #[case] matches: bool) {
    let labels = serde_json::from_value(labels).unwrap();
    assert_eq!(Selector::parse(Some(&selector(of))).unwrap().matches(&labels), matches);
}

#[test]
fn no_selector_selects_nothing() {
    assert!(!Selector::parse(None).unwrap().matches(&Labels::default()));
}

const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[rstest]
#[case::d_041_slashes(json!({"matchLabels": {"a/b/c": "x"}}),
    format!("key: Invalid value: \"a/b/c\": a valid label key {NAME} with an optional DNS subdomain prefix and '/' \
        (e.g. 'example.com/MyName')"))]
#[case::d_041_operator(json!({"matchExpressions": [{"key": "a", "operator": "unsupportedOperator", "values": ["b"]}]}),
    r#""unsupportedOperator" is not a valid label selector operator"#)]
#[case::in_nothing(json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
    "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty")]
#[case::exists_something(json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
    r#"values: Invalid value: ["b"]: values set must be empty for exists and does not exist"#)]
#[case::two_errors(json!({"matchExpressions": [{"key": "", "operator": "In"}]}),
    format!("[key: Invalid value: \"\": name part must be non-empty; name part {NAME}, values: Invalid value: null: \
        for 'in', 'notin' operators, values set can't be empty]"))]
#[case::value(json!({"matchLabels": {"a": "-"}}),
    "values[0][a]: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric \
        characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
        'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')")]
#[case::prefix(json!({"matchLabels": {"A_/b": "x"}}),
    "key: Invalid value: \"A_/b\": prefix part a lowercase RFC 1123 subdomain must consist of lower case \
        alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
        'example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')")]
fn invalid_selectors(#[case] of: Value, #[case] message: impl AsRef<str>) {
    let error = Selector::parse(Some(&selector(of))).unwrap_err();
    assert_eq!(error.to_string(), message.as_ref());
}

#[rstest]
#[case::labels(json!({"matchLabels": {"app": "x"}}),
    "&LabelSelector{MatchLabels:map[string]string{app: x,},MatchExpressions:[]LabelSelectorRequirement{},}"
)]
#[case::empty(
    json!({}),
    "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}"
)]
#[case::expressions(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}, {"key": "d",
    "operator": "Exists"}]}),
    "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{\
    LabelSelectorRequirement{Key:a,Operator:In,Values:[b c],},\
    LabelSelectorRequirement{Key:d,Operator:Exists,Values:[],},},}")]
fn d_007_selectors_in_go_text(#[case] of: Value, #[case] text: &str) {
    assert_eq!(selector(of).to_string(), text);
}

#[rstest]
#[case::plain("15", Some(15))]
#[case::t_012_plus("+15", Some(15))]
#[case::minus("-1", Some(-1))]
#[case::zeros("0015", Some(15))]
#[case::empty("", None)]
#[case::sign_only("+", None)]
#[case::two_signs("+-1", None)]
#[case::space(" 15", None)]
#[case::float("15.0", None)]
#[case::underscore("1_5", None)]
#[case::hex("0x1", None)]
#[case::range("9223372036854775808", None)]
fn atoi(#[case] text: &str, #[case] number: Option<i64>) {
    assert_eq!(go::atoi(text).ok(), number);
}

#[test]
fn quoting_is_gos() {
    assert_eq!(go::quote("a\"b\\c\n\u{1}é"), r#""a\"b\\c\n\x01é""#);
}

#[test]
fn slim_metadata_keeps_what_is_read() {
    let json = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7",
        "labels": {"a": "b"},
        "annotations": {"big": "x", "node.alpha.kubernetes.io/ttl": "15"}, "managedFields": [{"manager": "m"}],
            "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"},
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "2", "controller": true}]}});
    let pod: PodView = serde_json::from_value(json.clone()).unwrap();
    assert_eq!((pod.namespace(), pod.name(), pod.uid(), pod.resource_version()), ("ns", "p", "u", "7"));
    assert_eq!(pod.controller_ref().unwrap().uid, "2");
    assert_eq!(pod.labels().iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>(), [("a", "b")]);
    assert!(!pod.is_terminating());
    let node: NodeView = serde_json::from_value(json).unwrap();
    assert_eq!((node.name(), node.ttl_annotation()), ("p", Some("15")));
}

#[rstest]
#[case::absent(json!({}))]
#[case::null(json!({"name": null, "labels": null, "ownerReferences": null, "creationTimestamp": null,
    "deletionTimestamp": null, "generation": null, "annotations": null}))]
fn what_is_null_is_absent(#[case] metadata: Value) {
    let pod: PodView = serde_json::from_value(json!({"metadata": metadata.clone()})).unwrap();
    assert_eq!((pod.name(), pod.generation(), pod.controller_ref(), pod.is_terminating()), ("", 0, None, false));
    assert_eq!((pod.labels(), pod.metadata.created.get()), (&Labels::default(), None));
    let node: NodeView = serde_json::from_value(json!({"metadata": metadata})).unwrap();
    assert_eq!(node.ttl_annotation(), None);
}

/// The last second that Go can represent is outside of jiff's range.
#[test]
fn a_time_that_cannot_be_held_spoils_no_object() {
    let late = "9999-12-31T23:59:59Z";
    let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": late, "lastProbeTime": null});
    let pod: PodView =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": {"conditions": [condition]}})).unwrap();
    let ready = pod.condition("Ready").unwrap();
    assert!(ready.last_transition_time.unwrap() > "9999-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(ready.last_probe_time, None);
    let budget: PdbView = serde_json::from_value(json!({
        "metadata": {"name": "b", "managedFields": [{"manager": "m", "operation": "Update", "time": late}]},
        "status": {"disruptedPods": {"late": late, "zero": null, "granted": "2026-01-01T00:00:00Z"},
            "conditions": [{"type": "DisruptionAllowed", "lastTransitionTime": late}]},
    }))
    .unwrap();
    assert_eq!(budget.metadata.managed_fields, None);
    let times: Vec<&Timestamp> = ["zero", "granted", "late"].map(|pod| &budget.status.disrupted_pods[pod]).to_vec();
    assert!(times.is_sorted() && times[1].to_string() == "2026-01-01T00:00:00Z", "{times:?}");
}

/// The memory of a cluster with 150,000 pods depends on this.
#[test]
fn a_cached_pod_is_small_and_shares_what_others_have() {
    assert!(size_of::<PodView>() <= 224, "{} bytes", size_of::<PodView>());
    let pod = |name: &str| -> PodView {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "labels": {"app": "shares"}, "ownerReferences":
                [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "2", "controller": true}]},
            "spec": {"tolerations": [{"key": "k", "operator": "Exists"}]},
        }))
        .unwrap()
    };
    let one = pod("one");
    let two = pod("two");
    assert!(one.labels().ptr_eq(two.labels()) && one.spec.tolerations.ptr_eq(&two.spec.tolerations));
    assert!(std::ptr::eq(one.controller_ref().unwrap(), two.controller_ref().unwrap()));
}

#[test]
fn conditions_come_back_as_they_came() {
    let conditions = json!([
        {"type": "A", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "B", "status": "False", "reason": "R", "message": "m", "observedGeneration": 7,
            "lastProbeTime": "2026-01-01T00:00:01.5Z", "lastTransitionTime": null},
        {"type": "A", "status": "Unknown", "lastProbeTime": null, "lastTransitionTime": null},
    ]);
    let pod: PodView = serde_json::from_value(json!({"metadata": {}, "status": {"conditions": conditions}})).unwrap();
    assert_eq!(serde_json::to_value(pod.status.to_status()).unwrap(), json!({"conditions": conditions}));
    assert_eq!(pod.condition("A").unwrap().status, "True", "the first");
}

#[test]
fn a_budget_survives_the_round_trip() {
    let json = json!({
        "metadata": {"name": "b", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2,
            "labels": {"a": "b"},
            "annotations": {"c": "d"}, "finalizers": ["f"], "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]},
        "spec": {"maxUnavailable": "30%", "selector": {"matchLabels": {"app": "x"}},
            "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "status": {"conditions": [{"type": "T", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "currentHealthy": 1, "desiredHealthy": 2, "disruptedPods": {"p": "2026-01-01T00:00:00Z"},
                "disruptionsAllowed": 0,
            "expectedPods": 3, "observedGeneration": 2},
    });
    let view: PdbView = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(view).unwrap(), json);
}

fn condition(status: &str, generation: i64) -> PodCondition {
    PodCondition { kind: "T".into(), status: status.into(), observed_generation: generation, ..PodCondition::default() }
}

#[test]
fn pod_conditions_change_as_upstream_changes_them() {
    let mut conditions = Vec::new();
    assert!(update_pod_condition(&mut conditions, condition("True", 1), at(0.7)));
    assert_eq!(conditions[0].last_transition_time, Some(t0()));
    assert!(!update_pod_condition(&mut conditions, condition("True", 2), at(9.0)), "a generation alone is no change");
    assert_eq!(conditions[0].observed_generation, 2);
    assert!(update_pod_condition(&mut conditions, condition("False", 2), at(9.0)));
    assert_eq!(conditions[0].last_transition_time, Some(at(9.0)));
}

#[test]
fn seconds_are_cut_not_rounded() {
    assert_eq!(whole_seconds(at(1.999)), at(1.0));
    assert_eq!(whole_seconds(at(-0.5)), at(-1.0));
}
