//! Defaults, validation errors and updates, with expectations recorded from kube-apiserver 1.36.

use std::sync::Arc;

use rstest::rstest;

use crate::field_errors::ErrorList;
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::registry::lister::EmptyLister;
use crate::registry::scheme::Registry;
use crate::registry::served_resource::Resource;
use crate::registry::strategy::StrategyContext;
use crate::registry::validation::{validate_create, validate_status_update, validate_update};

/// Returns the first resource with this plural name in any group.
pub(super) fn kind(plural: &str) -> Arc<Resource> {
    let registry = Registry::builtin();
    Arc::clone(registry.kinds().find(|k| k.plural == plural).expect("served"))
}

/// Returns an object with its defaults.
pub(super) fn defaulted(default: fn(&mut Map), object: Value) -> Value {
    let Value::Object(mut map) = object else { return Value::Null };
    default(&mut map);
    Value::Object(map)
}

fn context() -> StrategyContext<'static> {
    StrategyContext::of_test(&EmptyLister)
}

pub(super) fn create(plural: &str, mut object: Value) -> Result<Value, Vec<String>> {
    let kind = kind(plural);
    if kind.namespaced {
        object["metadata"]["namespace"] = "n".into();
    }
    kind.strategy.default(&mut object);
    kind.strategy.admit_create(&mut object, &context()).map_err(|s| vec![s.message])?;
    kind.strategy.prepare_for_create(&mut object, &context());
    let errors = validate_create(&kind, &object, &context());
    if errors.is_empty() { Ok(object) } else { Err(texts(&errors)) }
}

fn texts(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

pub(super) fn created(plural: &str, object: Value) -> Value {
    let mut object = create(plural, object).expect("valid");
    object["metadata"]["uid"] = "u".into();
    object["metadata"]["resourceVersion"] = "1".into();
    object
}

/// Updates `old` by merging `change` into it.
pub(super) fn update(plural: &str, old: &Value, change: &Value, status: bool) -> Result<Value, Vec<String>> {
    let kind = kind(plural);
    let mut new = old.clone();
    merge(&mut new, change);
    kind.strategy.default(&mut new);
    let errors = if status {
        kind.strategy.prepare_for_status_update(&mut new, old, &context());
        validate_status_update(&kind, &new, old)
    } else {
        kind.strategy.admit_update(&mut new, old, &context()).map_err(|s| vec![s.message])?;
        kind.strategy.prepare_for_update(&mut new, old, &context());
        validate_update(&kind, &new, old, &context())
    };
    if errors.is_empty() { Ok(new) } else { Err(texts(&errors)) }
}

fn merge(target: &mut Value, change: &Value) {
    let Some(change) = change.as_object() else {
        *target = change.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let map = target.as_object_mut().expect("object");
    for (key, value) in change {
        if value.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

fn pod() -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn workload() -> Value {
    json!({"metadata": {"name": "w"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

#[test]
fn a_pod_gets_its_defaults() {
    let expected = json!({
        "metadata": {"name": "p", "namespace": "n", "generation": 1},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {}, "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0, "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    });
    assert_eq!(create("pods", pod()).expect("valid"), expected);
}

#[rstest]
#[case::latest("x:latest", "Always")]
#[case::no_tag("reg:5000/x", "Always")]
#[case::tag("reg:5000/x:2", "IfNotPresent")]
#[case::digest("x@sha256:aa", "IfNotPresent")]
#[case::no_reference(" ", "IfNotPresent")]
#[case::too_long(&"x".repeat(240), "IfNotPresent")]
fn images_decide_the_pull_policy(#[case] image: &str, #[case] policy: &str) {
    let mut object = pod();
    object["spec"]["containers"][0]["image"] = image.into();
    kind("pods").strategy.default(&mut object);
    assert_eq!(object["spec"]["containers"][0]["imagePullPolicy"], policy);
}

#[rstest]
#[case::divisor(
    json!({"containers": [{"name": "c", "image": "i", "env": [{"name": "A",
        "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "5"}}}]}]}),
    "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource"
)]
#[case::keys_without_selector(
    json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule",
        "matchLabelKeys": ["a"]}]}),
    "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"
)]
#[case::windows(
    json!({"os": {"name": "windows"}, "securityContext": {"runAsUser": 1}}),
    "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod"
)]
#[case::linux(
    json!({"os": {"name": "linux"}, "containers": [{"name": "c", "image": "i", "securityContext": {"windowsOptions": {}}}]}),
    "spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"
)]
#[case::claim(
    json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}]}),
    "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value"
)]
#[case::paths(
    json!({"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "m", "items": [
        {"key": "a", "path": "x"}, {"key": "b", "path": "x"}]}}]}}]}),
    "spec.volumes[0].projected: Invalid value: \"m\": conflicting duplicate paths"
)]
#[case::profile(
    json!({"securityContext": {"seccompProfile": {"type": "Unconfined", "localhostProfile": "x"}}}),
    "spec.securityContext.seccompProfile.localhostProfile: Invalid value: {\"Type\":\"Unconfined\",\"LocalhostProfile\":\"x\"}: can only be set when seccomp type is Localhost"
)]
fn parts_of_a_pod_must_fit(#[case] spec: Value, #[case] expected: &str) {
    let mut object = pod();
    merge(&mut object["spec"], &spec);
    assert_eq!(create("pods", object).expect_err("refused"), [expected]);
}

#[test]
fn a_bare_selector_is_compared_as_it_is() {
    let mut object = workload();
    object["spec"]["selector"] = json!({"a": "no label"});
    let errors = create("replicationcontrollers", object).expect_err("refused");
    assert_eq!(
        errors,
        ["spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"]
    );
}

#[rstest]
#[case::deployments("deployments", json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}), json!({}))]
#[case::replica_sets("replicasets", json!({"replicas": 1}), json!({"replicas": 0}))]
#[case::stateful_sets("statefulsets", json!({"replicas": 1, "revisionHistoryLimit": 10, "serviceName": "",
    "podManagementPolicy": "OrderedReady",
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}}),
    json!({"replicas": 0, "availableReplicas": 0}))]
#[case::daemon_sets("daemonsets", json!({"revisionHistoryLimit": 10,
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}),
    json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}))]
fn workloads_get_their_defaults(#[case] plural: &str, #[case] expected: Value, #[case] status: Value) {
    let mut object = create(plural, workload()).expect("valid");
    let spec = object["spec"].as_object_mut().expect("spec");
    spec.remove("selector");
    spec.remove("template");
    assert_eq!(object["spec"], expected);
    assert_eq!(object["status"], status);
    assert_eq!(object["metadata"]["generation"], 1);
}

#[rstest]
#[case::namespace("namespaces", json!({"metadata": {"name": "x"}}),
    json!({"metadata": {"name": "x", "labels": {"kubernetes.io/metadata.name": "x"}},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}))]
#[case::budget("poddisruptionbudgets", json!({"metadata": {"name": "b"}, "spec": {}, "status": {"disruptionsAllowed": 7}}),
    json!({"metadata": {"name": "b", "namespace": "n", "generation": 1}, "spec": {},
        "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}}))]
#[case::secret("secrets", json!({"metadata": {"name": "s"}, "stringData": {"k": "v"}}),
    json!({"metadata": {"name": "s", "namespace": "n"}, "data": {"k": "dg=="}, "type": "Opaque"}))]
#[case::lease("leases", json!({"metadata": {"name": "l"}}), json!({"metadata": {"name": "l", "namespace": "n"}, "spec": {}}))]
#[case::attributes("volumeattributesclasses", json!({"metadata": {"name": "v"}, "driverName": "d", "parameters": {"a": "b"}}),
    json!({"metadata": {"name": "v", "finalizers": ["kubernetes.io/vac-protection"]}, "driverName": "d", "parameters": {"a": "b"}}))]
#[case::taint("resourceslices", json!({"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1},
    "allNodes": true, "devices": [{"name": "d", "taints": [{"key": "k", "effect": "NoSchedule"}]}]}}),
    json!({"metadata": {"name": "s", "generation": 1}, "spec": {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1},
    "allNodes": true, "devices": [{"name": "d", "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": "1970-01-01T00:00:00Z"}]}]}}))]
fn other_kinds_get_their_defaults(#[case] plural: &str, #[case] given: Value, #[case] expected: Value) {
    assert_eq!(create(plural, given).expect("valid"), expected);
}

#[test]
fn new_nodes_are_tainted_until_they_are_ready() {
    let node = create("nodes", json!({"metadata": {"name": "n"}})).expect("valid");
    assert_eq!(node["spec"]["taints"], json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]));
    assert_eq!(node["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
}

#[test]
fn replication_controllers_take_labels_and_selector_from_the_template() {
    let mut object = workload();
    object["spec"].as_object_mut().expect("spec").remove("selector");
    let object = create("replicationcontrollers", object).expect("valid");
    assert_eq!(object["spec"]["selector"], json!({"a": "b"}));
    assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
}

#[rstest]
#[case::port(json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 99999}]}]}),
    &["spec.containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive"])]
#[case::twice(json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}),
    &["spec.containers[1].name: Duplicate value: \"c\""])]
#[case::no_containers(json!({"containers": []}), &["spec.containers: Required value"])]
#[case::mount(json!({"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/x"}]}]}),
    &["spec.containers[0].volumeMounts[0].name: Not found: \"v\""])]
#[case::toleration(json!({"containers": [{"name": "c", "image": "i"}],
    "tolerations": [{"key": "b", "effect": "NoSchedule", "tolerationSeconds": 4}]}),
    &["spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"])]
#[case::request(json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}]}),
    &["spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"])]
#[case::probe(json!({"containers": [{"name": "c", "image": "i", "livenessProbe": {}}]}),
    &["spec.containers[0].livenessProbe: Required value: must specify a handler type"])]
#[case::policy(json!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": "X"}),
    &["spec.restartPolicy: Unsupported value: \"X\": supported values: \"Always\", \"OnFailure\", \"Never\""])]
#[case::gated(json!({"containers": [{"name": "c", "image": "i"}], "nodeName": "n", "schedulingGates": [{"name": "g"}]}),
    &["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"])]
#[case::priority(json!({"containers": [{"name": "c", "image": "i"}], "priorityClassName": "x"}),
    &["pods \"p\" is forbidden: no PriorityClass with name x was found"])]
fn pods_are_refused(#[case] spec: Value, #[case] expected: &[&str]) {
    assert_eq!(create("pods", json!({"metadata": {"name": "p"}, "spec": spec})).expect_err("invalid"), expected);
}

#[rstest]
#[case::image(json!({"spec": {"containers": [{"name": "c", "image": "j"}]}}), None)]
#[case::more_tolerations(json!({"spec": {"tolerations": [
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    {"key": "new", "operator": "Exists"}]}}), None)]
#[case::other_node(json!({"spec": {"nodeName": "m"}}),
    Some("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"))]
#[case::containers(json!({"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}}),
    Some("spec.containers: Forbidden: pod updates may not add or remove containers"))]
#[case::deadline(json!({"spec": {"activeDeadlineSeconds": 200}}),
    Some("spec.activeDeadlineSeconds: Invalid value: 200: must be less than or equal to previous value"))]
#[case::uid(json!({"metadata": {"uid": "v"}}), Some("metadata.uid: Invalid value: \"v\": field is immutable"))]
fn pod_updates(#[case] change: Value, #[case] refused: Option<&str>) {
    let mut given = pod();
    given["spec"]["activeDeadlineSeconds"] = 100.into();
    let old = created("pods", given);
    match (update("pods", &old, &change, false), refused) {
        (Ok(new), None) => assert_eq!(new["metadata"]["generation"], 2),
        (Err(texts), Some(start)) => assert!(texts[0].starts_with(start), "{texts:?}"),
        (other, _) => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_status_keeps_spec_owners_and_class() {
    let old = created("pods", pod());
    let change = json!({"status": {"phase": "Running", "podIP": "1.2.3.4", "conditions": [{"type": "Ready", "status": "True"}]},
        "spec": {"nodeName": "m"}, "metadata": {"labels": {"a": "b"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "y"}]}});
    let new = update("pods", &old, &change, true).expect("valid");
    assert_eq!(new["spec"], old["spec"]);
    assert_eq!(new["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(new["metadata"].get("ownerReferences"), None);
    assert_eq!(new["metadata"]["generation"], 1);
    let expected = json!({"phase": "Running", "qosClass": "BestEffort", "podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}],
        "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null}]});
    assert_eq!(new["status"], expected);
}

#[rstest]
#[case::d_083_both(json!({"minAvailable": 1, "maxUnavailable": "10%", "selector": {"matchLabels": {"a": "b"}}}),
    &["spec: Invalid value: {\"MinAvailable\":1,\"Selector\":{\"matchLabels\":{\"a\":\"b\"}},\"MaxUnavailable\":\"10%\",\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set"])]
#[case::d_083_above_100(json!({"minAvailable": "101%"}), &["spec.minAvailable: Invalid value: \"101%\": must not be greater than 100%"])]
#[case::negative(json!({"minAvailable": -1}), &["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"])]
#[case::text(json!({"maxUnavailable": "abc"}), &["spec.maxUnavailable: Invalid value: \"abc\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"])]
#[case::policy(json!({"unhealthyPodEvictionPolicy": "X"}), &["spec.unhealthyPodEvictionPolicy: Unsupported value: \"X\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\""])]
#[case::selector(json!({"selector": {"matchExpressions": [{"key": "k", "operator": "Foo"}]}}), &["spec.selector.matchExpressions[0].operator: Invalid value: \"Foo\": not a valid selector operator"])]
fn budgets_are_refused(#[case] spec: Value, #[case] expected: &[&str]) {
    let object = json!({"metadata": {"name": "b"}, "spec": spec});
    assert_eq!(create("poddisruptionbudgets", object).expect_err("invalid"), expected);
}

#[test]
fn d_080_only_the_spec_of_a_budget_has_generations() {
    let old = created("poddisruptionbudgets", json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}}));
    let new = update("poddisruptionbudgets", &old, &json!({"spec": {"minAvailable": 2}}), false).expect("valid");
    assert_eq!(new["metadata"]["generation"], 2);
    let change = json!({"status": {"currentHealthy": 3}, "spec": {"minAvailable": 9}});
    let new = update("poddisruptionbudgets", &old, &change, true).expect("valid");
    assert_eq!((&new["metadata"]["generation"], &new["spec"]), (&old["metadata"]["generation"], &old["spec"]));
    assert_eq!(new["status"]["currentHealthy"], 3);
}

#[test]
fn d_081_and_d_082_budget_status_needs_a_version_and_no_negative_counts() {
    assert!(!kind("poddisruptionbudgets").strategy.allow_unconditional_status_update());
    let old = created("poddisruptionbudgets", json!({"metadata": {"name": "b"}, "spec": {}}));
    let refused = update("poddisruptionbudgets", &old, &json!({"status": {"expectedPods": -1}}), true);
    let text = "status.expectedPods: Invalid value: -1: must be greater than or equal to 0";
    assert_eq!(refused.expect_err("negative"), [text]);
}

#[rstest]
#[case::no_match("deployments", json!({"spec": {"selector": {"matchLabels": {"a": "c"}}}}),
    &["spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"])]
#[case::empty("statefulsets", json!({"spec": {"selector": {"matchLabels": null}}}),
    &["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"])]
#[case::restart("replicasets", json!({"spec": {"template": {"spec": {"restartPolicy": "Never"}}}}),
    &["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""])]
#[case::deadline("deployments", json!({"spec": {"progressDeadlineSeconds": 5, "minReadySeconds": 5}}),
    &["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"])]
#[case::both("daemonsets", json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}}}),
    &["spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"])]
fn workloads_are_refused(#[case] plural: &str, #[case] change: Value, #[case] expected: &[&str]) {
    let mut object = workload();
    merge(&mut object, &change);
    assert_eq!(create(plural, object).expect_err("invalid"), expected);
}

/// `PrepareForCreate` and `PrepareForUpdate` of `pkg/registry/storage/csidriver/strategy.go` and
/// `pkg/registry/discovery/endpointslice/strategy.go`.
#[rstest]
#[case::driver("csidrivers", json!({"metadata": {"name": "d"}, "spec": {}}), json!({"spec": {"podInfoOnMount": true}}), 0, 1)]
#[case::same_driver("csidrivers", json!({"metadata": {"name": "d"}, "spec": {}}), json!({"metadata": {"labels": {"a": "b"}}}), 0, 0)]
#[case::slice("endpointslices", json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": []}),
    json!({"metadata": {"labels": {"a": "b"}}}), 1, 2)]
#[case::annotated_slice("endpointslices", json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": []}),
    json!({"metadata": {"annotations": {"a": "b"}}}), 1, 1)]
#[case::topology("endpointslices", json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}),
    json!({"endpoints": [{"addresses": ["10.0.0.1"], "deprecatedTopology": {"a": "b"}}]}), 1, 2)]
fn generations_of_others(
    #[case] plural: &str,
    #[case] object: Value,
    #[case] change: Value,
    #[case] first: i64,
    #[case] second: i64,
) {
    let old = created(plural, object);
    assert_eq!(metadata::generation(&old), first);
    let new = update(plural, &old, &change, false).expect("valid");
    assert_eq!(metadata::generation(&new), second);
}

#[rstest]
#[case::replicas("deployments", json!({"spec": {"replicas": 5}}), 2)]
#[case::annotations("deployments", json!({"metadata": {"annotations": {"a": "b"}}}), 2)]
#[case::annotations_of_others("replicasets", json!({"metadata": {"annotations": {"a": "b"}}}), 1)]
#[case::labels("statefulsets", json!({"metadata": {"labels": {"a": "b"}}}), 1)]
#[case::status("replicasets", json!({"status": {"replicas": 5}}), 1)]
#[case::template("daemonsets", json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}}), 2)]
fn generations(#[case] plural: &str, #[case] change: Value, #[case] expected: i64) {
    let old = created(plural, workload());
    let new = update(plural, &old, &change, false).expect("valid");
    assert_eq!(new["metadata"]["generation"], expected);
    assert_eq!(new["status"], old["status"]);
}

#[test]
fn selectors_do_not_change() {
    for plural in ["deployments", "replicasets", "daemonsets"] {
        let old = created(plural, workload());
        let change = json!({"spec": {"selector": {"matchLabels": {"c": "d"}},
            "template": {"metadata": {"labels": {"c": "d"}}}}});
        let refused = update(plural, &old, &change, false).expect_err("immutable");
        let text = "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"c\":\"d\"}}: field is immutable";
        assert_eq!(refused, [text], "{plural}");
    }
}

#[test]
fn statuses_count_up_to_their_replicas() {
    let old = created("deployments", workload());
    let change = json!({"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}});
    let expected = [
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
    ];
    assert_eq!(update("deployments", &old, &change, true).expect_err("invalid"), expected);
}

#[rstest]
#[case::twice(json!([{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}]),
    &["metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoExecute\",\"TimeAdded\":null}: taints must be unique by key and effect pair"])]
#[case::no_effect(json!([{"key": "a"}]), &["metadata.taints[0].effect: Required value"])]
#[case::effect(json!([{"key": "a", "effect": "X"}]), &["metadata.taints[0].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""])]
fn taints_are_refused(#[case] taints: Value, #[case] expected: &[&str]) {
    let object = json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
    assert_eq!(create("nodes", object).expect_err("invalid"), expected);
}

#[rstest]
#[case::label(json!({"labels": {"a b": "x"}}), "metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')")]
#[case::long_value(json!({"labels": {"a": "x".repeat(64)}}), "must be no more than 63 bytes")]
#[case::slashes(json!({"annotations": {"a/b/c": "x"}}), "a valid label key must consist of alphanumeric characters")]
#[case::owner(json!({"ownerReferences": [{"apiVersion": "", "kind": "X", "name": "x", "uid": "y"}]}), "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty")]
#[case::finalizers(json!({"finalizers": ["orphan", "foregroundDeletion"]}), "finalizer orphan and foregroundDeletion cannot be both set")]
#[case::name(json!({"name": "A_"}), "metadata.name: Invalid value: \"A_\": a lowercase RFC 1123 subdomain must consist of")]
#[case::long_name(json!({"name": "a".repeat(254)}), "must be no more than 253 characters")]
fn metadata_is_refused(#[case] metadata: Value, #[case] text: &str) {
    let mut object = json!({"metadata": {"name": "c"}});
    merge(&mut object["metadata"], &metadata);
    let refused = create("configmaps", object).expect_err("invalid");
    assert!(refused[0].contains(text), "{refused:?}");
}

#[test]
fn repeated_metadata_rules_repeat_their_causes() {
    let change = json!({"metadata": {"labels": {"a b": "x"}}});
    for (plural, given, expected) in [
        ("pods", pod(), 4),
        ("deployments", workload(), 3),
        ("configmaps", json!({"metadata": {"name": "c"}}), 4),
        ("poddisruptionbudgets", json!({"metadata": {"name": "c"}, "spec": {}}), 2),
    ] {
        let old = created(plural, given);
        assert_eq!(update(plural, &old, &change, false).expect_err("invalid").len(), expected, "{plural}");
    }
}

#[rstest]
#[case::bound("n", "Running", None, 30)]
#[case::asked("n", "Running", Some(5), 5)]
#[case::negative("n", "Running", Some(-5), 1)]
#[case::unbound("", "Pending", Some(5), 0)]
#[case::finished("n", "Failed", None, 0)]
fn grace_periods(#[case] node: &str, #[case] phase: &str, #[case] wanted: Option<i64>, #[case] expected: i64) {
    let pod = json!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}});
    assert_eq!(kind("pods").strategy.grace_period(&pod, wanted), Some(expected));
}

#[test]
fn every_stored_kind_has_a_schema_and_survives_odd_objects() {
    let registry = Registry::builtin();
    for kind in registry.kinds() {
        assert!(!kind.schema.is_empty(), "{}", kind.plural);
        for odd in [
            json!({}),
            json!({"metadata": [], "spec": 1, "status": "x"}),
            json!({"spec": {"template": 3}, "metadata": {}}),
            json!([1]),
        ] {
            let mut object = odd.clone();
            kind.strategy.default(&mut object);
            let _ = kind.strategy.admit_create(&mut object, &context());
            kind.strategy.prepare_for_create(&mut object, &context());
            let _ = validate_create(kind, &object, &context());
            let _ = kind.strategy.warnings_on_create(&object);
            kind.strategy.prepare_for_update(&mut object, &odd, &context());
            let _ = validate_update(kind, &object, &odd, &context());
            kind.strategy.prepare_for_status_update(&mut object, &odd, &context());
            let _ = validate_status_update(kind, &object, &odd);
        }
    }
}
