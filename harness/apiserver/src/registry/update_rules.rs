//! Tests what an update of each served kind may not change: kind, source, and a case that upstream refuses, one row
//! per rule. `Validate…Update` of upstream's `pkg/apis/*/validation/validation.go` was walked for every stored kind of
//! [`Registry::builtin`]; those without a rule of their own are in [`WITHOUT_RULES`], with what upstream does instead.

use std::collections::BTreeSet;

use rstest::rstest;

use crate::json::{Value, json};
use crate::registry::lister::EmptyLister;
use crate::registry::strategy::StrategyContext;
use crate::registry::{Registry, validation};

/// A rule: `group/plural`, the fields that stay, the upstream function, an object before and after, and the beginning
/// of the error.
struct UpdateRule {
    kind: &'static str,
    source: &'static str,
    old: Value,
    new: Value,
    error: &'static str,
}

fn rule(kind: &'static str, source: &'static str, old: Value, new: Value, error: &'static str) -> UpdateRule {
    UpdateRule { kind, source, old, new, error }
}

/// Kinds whose updates are only validated again.
const WITHOUT_RULES: [(&str, &str); 29] = [
    ("/endpoints", "ValidateEndpoints"),
    ("/limitranges", "ValidateLimitRange"),
    ("/namespaces", "the spec is copied: namespaceStrategy.PrepareForUpdate"),
    ("/podtemplates", "ValidatePodTemplateSpec"),
    ("/replicationcontrollers", "ValidateReplicationControllerSpec: the selector may change"),
    ("/serviceaccounts", "ValidateServiceAccount"),
    ("apiregistration.k8s.io/apiservices", "ValidateAPIService"),
    ("autoscaling/horizontalpodautoscalers", "validateHorizontalPodAutoscalerSpec"),
    ("batch/cronjobs", "validateCronJobSpec"),
    ("certificates.k8s.io/certificatesigningrequests", "the spec is copied: csrStrategy.PrepareForUpdate"),
    ("networking.k8s.io/ingresses", "validateIngress"),
    ("networking.k8s.io/networkpolicies", "ValidateNetworkPolicySpec"),
    ("policy/poddisruptionbudgets", "ValidatePodDisruptionBudget"),
    ("rbac.authorization.k8s.io/clusterroles", "ValidateClusterRole"),
    ("rbac.authorization.k8s.io/roles", "ValidateRole"),
    ("admissionregistration.k8s.io/mutatingadmissionpolicies", "validateMutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/mutatingadmissionpolicybindings", "validateMutatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io/mutatingwebhookconfigurations", "validateMutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/validatingadmissionpolicies", "validateValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/validatingadmissionpolicybindings", "validateValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io/validatingwebhookconfigurations", "validateValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io/customresourcedefinitions", "crd/definition_strategy.rs has its tests"),
    ("coordination.k8s.io/leases", "ValidateLeaseSpec"),
    ("resource.k8s.io/deviceclasses", "validateDeviceClassSpec"),
    ("flowcontrol.apiserver.k8s.io/flowschemas", "mandatory objects: registry/flowcontrol has their tests"),
    ("flowcontrol.apiserver.k8s.io/prioritylevelconfigurations", "mandatory objects"),
    ("events.k8s.io/events", "registry/core/event.rs has the tests of both versions"),
    ("/events", "legacyValidateEvent: nothing stays"),
    ("/componentstatuses", "not stored"),
];

fn workload(kind: &str, label: &str) -> Value {
    json!({"kind": kind, "spec": {"selector": {"matchLabels": {"a": label}}, "serviceName": "s", "template": {
        "metadata": {"labels": {"a": label}},
        "spec": {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}]}}}})
}

fn pod(image: &str, node: &str) -> Value {
    let mut pod = json!({"spec": workload("", "b")["spec"]["template"]["spec"]});
    pod["spec"]["containers"][0]["image"] = json!(image);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

fn volume(source: Value, mode: &str) -> Value {
    let mut volume = json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "volumeMode": mode,
        "persistentVolumeReclaimPolicy": "Retain"}});
    for (field, value) in source.as_object().into_iter().flatten() {
        volume["spec"][field.as_str()] = value.clone();
    }
    volume
}

fn claim(class: &str, mode: &str) -> Value {
    json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "volumeMode": mode,
        "resources": {"requests": {"storage": "1Gi"}}}})
}

fn service(ip: &str, class: Option<&str>) -> Value {
    let mut service = json!({"spec": {"type": "LoadBalancer", "clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "externalTrafficPolicy": "Cluster",
        "internalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}});
    if let Some(class) = class {
        service["spec"]["loadBalancerClass"] = json!(class);
    }
    service
}

fn slice(node: &str) -> Value {
    json!({"spec": {"driver": "d.example.com", "nodeName": node, "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}})
}

fn attachment(node: &str) -> Value {
    json!({"spec": {"attacher": "d", "nodeName": node, "source": {"persistentVolumeName": "v"}}})
}

fn binding(kind: &str, name: &str) -> Value {
    json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}})
}

fn rules() -> Vec<UpdateRule> {
    const IMMUTABLE: &str = "field is immutable";
    assert_eq!(IMMUTABLE, super::checks::IMMUTABLE_MESSAGE);
    let parts: [fn() -> Vec<UpdateRule>; 4] = [rules_1, rules_2, rules_3, rules_4];
    parts.into_iter().flat_map(|part| part()).collect()
}

fn rules_1() -> Vec<UpdateRule> {
    vec![
        rule(
            "/configmaps",
            "ValidateConfigMapUpdate",
            json!({"immutable": true, "data": {"a": "1"}}),
            json!({"immutable": true, "data": {"a": "2"}}),
            "data: Forbidden: field is immutable when `immutable` is set",
        ),
        rule(
            "/configmaps",
            "ValidateConfigMapUpdate",
            json!({"immutable": true}),
            json!({}),
            "immutable: Forbidden: field is immutable when `immutable` is set",
        ),
        rule(
            "/secrets",
            "ValidateSecretUpdate",
            json!({"type": "Opaque"}),
            json!({"type": "x"}),
            "type: Invalid value: \"x\": field is immutable",
        ),
        rule(
            "/secrets",
            "ValidateSecretUpdate",
            json!({"type": "Opaque", "immutable": true, "data": {"a": "MQ=="}}),
            json!({"type": "Opaque", "immutable": true, "data": {"a": "Mg=="}}),
            "data: Forbidden: field is immutable when `immutable` is set",
        ),
        rule(
            "/nodes",
            "ValidateNodeUpdate",
            json!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}),
            json!({"spec": {"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"]}}),
            "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
        ),
        rule(
            "/nodes",
            "ValidateNodeUpdate",
            json!({"spec": {"providerID": "a"}}),
            json!({"spec": {"providerID": "b"}}),
            "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
        ),
        rule(
            "/persistentvolumeclaims",
            "ValidatePersistentVolumeClaimUpdate",
            claim("a", "Block"),
            claim("b", "Block"),
            "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ),
        rule(
            "/persistentvolumes",
            "ValidatePersistentVolumeUpdate",
            volume(json!({"hostPath": {"path": "/a"}}), "Block"),
            volume(json!({"hostPath": {"path": "/b"}}), "Block"),
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
        ),
        rule(
            "/persistentvolumes",
            "ValidatePersistentVolumeUpdate",
            volume(json!({"hostPath": {"path": "/a"}}), "Block"),
            volume(json!({"hostPath": {"path": "/a"}}), "Filesystem"),
            "volumeMode: Invalid value: \"Filesystem\": field is immutable",
        ),
        rule(
            "/pods",
            "ValidatePodUpdate",
            pod("i", "n"),
            pod("i", "m"),
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
        ),
    ]
}

fn rules_2() -> Vec<UpdateRule> {
    vec![
        rule(
            "/resourcequotas",
            "ValidateResourceQuotaUpdate",
            json!({"spec": {"scopes": ["BestEffort"]}}),
            json!({"spec": {"scopes": ["Terminating"]}}),
            "spec.scopes: Invalid value: [\"Terminating\"]: field is immutable",
        ),
        rule(
            "/services",
            "validateUpgradeDowngradeClusterIPs",
            service("10.0.0.5", None),
            service("10.0.0.6", None),
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.6\"]: may not change once set",
        ),
        rule(
            "/services",
            "validateLoadBalancerClassField",
            service("10.0.0.5", Some("a.io/b")),
            service("10.0.0.5", Some("a.io/c")),
            "spec.loadBalancerClass: Invalid value: \"a.io/c\": may not change once set",
        ),
        rule(
            "apps/controllerrevisions",
            "ValidateControllerRevisionUpdate",
            json!({"revision": 1, "data": {"a": 1}}),
            json!({"revision": 1, "data": {"a": 2}}),
            "data: Invalid value: {\"a\":2}: field is immutable",
        ),
        rule(
            "apps/daemonsets",
            "ValidateDaemonSetSpecUpdate",
            workload("DaemonSet", "b"),
            workload("DaemonSet", "c"),
            "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable",
        ),
        rule(
            "apps/deployments",
            "deploymentStrategy.ValidateUpdate",
            workload("Deployment", "b"),
            workload("Deployment", "c"),
            "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable",
        ),
        rule(
            "apps/replicasets",
            "rsStrategy.ValidateUpdate",
            workload("ReplicaSet", "b"),
            workload("ReplicaSet", "c"),
            "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable",
        ),
        rule(
            "apps/statefulsets",
            "ValidateStatefulSetUpdate",
            workload("StatefulSet", "b"),
            workload("StatefulSet", "c"),
            "spec: Forbidden: updates to statefulset spec for fields other than",
        ),
        rule(
            "batch/jobs",
            "ValidateJobSpecUpdate",
            job(3),
            job(4),
            "spec.completions: Invalid value: 4: field is immutable",
        ),
        rule(
            "networking.k8s.io/ingressclasses",
            "validateIngressClassSpecUpdate",
            json!({"spec": {"controller": "a.io/b"}}),
            json!({"spec": {"controller": "a.io/c"}}),
            "spec.controller: Invalid value: \"a.io/c\": field is immutable",
        ),
    ]
}

fn rules_3() -> Vec<UpdateRule> {
    vec![
        rule(
            "networking.k8s.io/ipaddresses",
            "ValidateIPAddressUpdate",
            address("a"),
            address("b"),
            "spec.parentRef: Invalid value: ",
        ),
        rule(
            "networking.k8s.io/servicecidrs",
            "ValidateServiceCIDRUpdate",
            json!({"spec": {"cidrs": ["10.0.0.0/24"]}}),
            json!({"spec": {"cidrs": ["10.1.0.0/24"]}}),
            "spec.cidrs[0]: Invalid value: \"10.1.0.0/24\": field is immutable",
        ),
        rule(
            "rbac.authorization.k8s.io/clusterrolebindings",
            "ValidateClusterRoleBindingUpdate",
            binding("ClusterRole", "a"),
            binding("ClusterRole", "b"),
            "roleRef: Invalid value: ",
        ),
        rule(
            "rbac.authorization.k8s.io/rolebindings",
            "ValidateRoleBindingUpdate",
            binding("Role", "a"),
            binding("Role", "b"),
            "roleRef: Invalid value: ",
        ),
        rule(
            "storage.k8s.io/csidrivers",
            "ValidateCSIDriverUpdate",
            json!({"spec": {"attachRequired": true}}),
            json!({"spec": {"attachRequired": false}}),
            "spec.attachedRequired: Invalid value: false: field is immutable",
        ),
        rule(
            "storage.k8s.io/csidrivers",
            "ValidateCSIDriverUpdate",
            json!({"spec": {"volumeLifecycleModes": ["Persistent"]}}),
            json!({"spec": {"volumeLifecycleModes": ["Ephemeral"]}}),
            "spec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: field is immutable",
        ),
        rule(
            "storage.k8s.io/csinodes",
            "ValidateCSINodeUpdate",
            json!({"spec": {"drivers": [{"name": "d", "nodeID": "a"}]}}),
            json!({"spec": {"drivers": [{"name": "d", "nodeID": "b"}]}}),
            "spec.drivers: Invalid value: ",
        ),
        rule(
            "storage.k8s.io/csistoragecapacities",
            "ValidateCSIStorageCapacityUpdate",
            json!({"storageClassName": "a"}),
            json!({"storageClassName": "b"}),
            "storageClassName: Invalid value: \"b\": field is immutable",
        ),
        rule(
            "storage.k8s.io/storageclasses",
            "ValidateStorageClassUpdate",
            json!({"provisioner": "a"}),
            json!({"provisioner": "b"}),
            "provisioner: Invalid value: \"b\": field is immutable",
        ),
        rule(
            "storage.k8s.io/storageclasses",
            "ValidateStorageClassUpdate",
            json!({"provisioner": "a", "parameters": {"a": "b"}}),
            json!({"provisioner": "a", "parameters": {"a": "c"}}),
            "parameters: Invalid value: {\"a\":\"c\"}: field is immutable",
        ),
    ]
}

fn rules_4() -> Vec<UpdateRule> {
    vec![
        rule(
            "storage.k8s.io/volumeattachments",
            "ValidateVolumeAttachmentUpdate",
            attachment("a"),
            attachment("b"),
            "spec: Invalid value: ",
        ),
        rule(
            "storage.k8s.io/volumeattributesclasses",
            "ValidateVolumeAttributesClassUpdate",
            json!({"driverName": "a", "parameters": {"a": "b"}}),
            json!({"driverName": "b", "parameters": {"a": "b"}}),
            "driverName: Forbidden: updates to driverName are forbidden.",
        ),
        rule(
            "scheduling.k8s.io/priorityclasses",
            "ValidatePriorityClassUpdate",
            json!({"value": 1}),
            json!({"value": 2}),
            "value: Forbidden: may not be changed in an update.",
        ),
        rule(
            "node.k8s.io/runtimeclasses",
            "ValidateRuntimeClassUpdate",
            json!({"handler": "a"}),
            json!({"handler": "b"}),
            "handler: Invalid value: \"b\": field is immutable",
        ),
        rule(
            "discovery.k8s.io/endpointslices",
            "ValidateEndpointSliceUpdate",
            json!({"addressType": "IPv4"}),
            json!({"addressType": "IPv6"}),
            "addressType: Invalid value: \"IPv6\": field is immutable",
        ),
        rule(
            "resource.k8s.io/resourceclaims",
            "ValidateResourceClaimUpdate",
            device_claim("a"),
            device_claim("b"),
            "spec: Invalid value: ",
        ),
        rule(
            "resource.k8s.io/resourceclaimtemplates",
            "ValidateResourceClaimTemplateUpdate",
            json!({"spec": device_claim("a")}),
            json!({"spec": device_claim("b")}),
            "spec: Invalid value: ",
        ),
        rule(
            "resource.k8s.io/resourceslices",
            "validateResourceSliceSpec",
            slice("a"),
            slice("b"),
            "spec.nodeName: Invalid value: \"b\": field is immutable",
        ),
    ]
}

fn job(completions: i64) -> Value {
    let mut job = workload("Job", "b");
    job["spec"]["completions"] = json!(completions);
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    job
}

fn address(name: &str) -> Value {
    json!({"metadata": {"name": "10.0.0.9"}, "spec": {"parentRef": {"resource": "services", "namespace": "n", "name": name}}})
}

fn device_claim(class: &str) -> Value {
    json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": class, "allocationMode": "ExactCount", "count": 1}}]}}})
}

fn stored_kinds() -> BTreeSet<String> {
    let registry = Registry::builtin();
    let stored = registry.kinds().filter(|kind| kind.is_stored());
    stored.map(|kind| format!("{}/{}", kind.group, kind.plural)).collect()
}

#[test]
fn every_served_kind_has_its_rules_or_a_reason() {
    let with_rules: BTreeSet<String> = rules().iter().map(|rule| rule.kind.to_owned()).collect();
    let without: BTreeSet<String> = WITHOUT_RULES.iter().map(|(kind, _)| (*kind).to_owned()).collect();
    let both: Vec<&String> = with_rules.intersection(&without).collect();
    assert!(both.is_empty(), "{both:?}");
    let known: BTreeSet<String> = with_rules.union(&without).cloned().collect();
    let missing: Vec<String> = stored_kinds().difference(&known).cloned().collect();
    assert!(missing.is_empty(), "neither a rule nor a reason: {missing:?}");
}

/// Values that errors show as upstream's internal types; recorded from kube-apiserver 1.36.2.
#[rstest]
#[case("resource.k8s.io/resourceclaims",
    json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}), json!({"spec": {}}),
    r#"spec: Invalid value: {"Devices":{"Requests":null,"Constraints":null,"Config":null}}: field is immutable"#)]
#[case("resource.k8s.io/resourceclaimtemplates", json!({"spec": {"spec": {}}}),
    json!({"spec": {"metadata": {"labels": {"a": "b"}}, "spec": {}}}),
    r#"spec: Invalid value: {"labels":{"a":"b"},"Spec":{"Devices":{"Requests":null,"Constraints":null,"Config":null}}}: field is immutable"#)]
#[case("storage.k8s.io/volumeattachments", attachment("a"), attachment("b"),
    r#"spec: Invalid value: {"Attacher":"d","Source":{"PersistentVolumeName":"v","InlineVolumeSpec":null},"NodeName":"b"}: field is immutable"#)]
#[case("storage.k8s.io/csinodes", json!({"spec": {"drivers": [{"name": "d", "nodeID": "a", "topologyKeys": ["k"]}]}}),
    json!({"spec": {"drivers": [{"name": "d", "nodeID": "b"}]}}),
    r#"spec.drivers: Invalid value: {"Name":"d","NodeID":"b","TopologyKeys":null,"Allocatable":null}: field is immutable"#)]
fn internal_types_are_shown(#[case] kind: &str, #[case] old: Value, #[case] new: Value, #[case] expected: &str) {
    let (group, plural) = kind.split_once('/').expect("a group");
    let registry = Registry::builtin();
    let found = registry.kinds().find(|found| found.group == group && found.plural == plural).expect("a kind");
    let errors = found.strategy.validate_update(&new, &old);
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(texts.iter().any(|text| text == expected), "{texts:?}");
}

#[test]
fn updates_are_refused_as_upstream_refuses_them() {
    let registry = Registry::builtin();
    let ctx = StrategyContext::of_test(&EmptyLister);
    let mut wrong = Vec::new();
    for UpdateRule { kind, source, mut old, mut new, error } in rules() {
        let (group, plural) = kind.split_once('/').expect("a group");
        let found = registry.kinds().find(|found| found.group == group && found.plural == plural).expect("a kind");
        for object in [&mut old, &mut new] {
            let name = object["metadata"]["name"].as_str().unwrap_or("x").to_owned();
            object["metadata"] = json!({"name": name, "resourceVersion": "7", "uid": "u"});
            if found.namespaced {
                object["metadata"]["namespace"] = json!("n");
            }
            found.strategy.default(object);
        }
        let texts = |new: &Value| -> Vec<String> {
            validation::validate_update(found, new, &old, &ctx).iter().map(ToString::to_string).collect()
        };
        if !texts(&new).iter().any(|text| text.starts_with(error)) {
            wrong.push(format!("{kind} ({source}): {:?}, expected {error}", texts(&new)));
        }
        // The case is about the change: without it there is no such error.
        if texts(&old.clone()).iter().any(|text| text.starts_with(error)) {
            wrong.push(format!("{kind} ({source}): {error} without a change"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The order of `Validate…Update` and of the strategies that call it, which is visible in the causes: a label that is
/// wrong shows where metadata is validated, as a change (`ValidateObjectMetaUpdate`) and as a whole.
#[rstest]
#[case("networking.k8s.io/ingressclasses", json!({"spec": {"controller": "a.io/b"}}), json!({"spec": {"controller": "c"}}),
    &["metadata.labels", "spec.controller", "metadata.labels", "spec.controller"])]
#[case("networking.k8s.io/ingressclasses", json!({"spec": {"controller": "a.io/b"}}), json!({"spec": {}}),
    &["metadata.labels", "spec.controller", "metadata.labels", "spec.controller"])]
#[case("storage.k8s.io/storageclasses", json!({"provisioner": "a"}), json!({"provisioner": ""}),
    &["metadata.labels", "provisioner", "metadata.labels", "provisioner"])]
#[case("storage.k8s.io/volumeattributesclasses", json!({"driverName": "a.io", "parameters": {"a": "b"}}),
    json!({"driverName": "", "parameters": {"a": "b"}}),
    &["metadata.labels", "driverName", "metadata.labels", "driverName"])]
#[case("storage.k8s.io/csistoragecapacities", json!({"storageClassName": "a"}), json!({"storageClassName": "_"}),
    &["metadata.labels", "storageClassName", "metadata.labels", "storageClassName"])]
#[case("storage.k8s.io/volumeattachments", attachment("a"), attachment("_"), &["metadata.labels", "spec.nodeName", "spec"])]
#[case("rbac.authorization.k8s.io/clusterrolebindings", binding("ClusterRole", "a"), binding("ClusterRole", ""),
    &["metadata.labels", "roleRef.name", "metadata.labels", "roleRef"])]
#[case("node.k8s.io/runtimeclasses", json!({"handler": "a"}), json!({"handler": "_"}),
    &["metadata.labels", "handler", "metadata.labels", "handler"])]
#[case("discovery.k8s.io/endpointslices", json!({"addressType": "IPv4"}), json!({"addressType": "IPv6"}),
    &["metadata.labels", "addressType"])]
#[case("admissionregistration.k8s.io/validatingadmissionpolicybindings", json!({"spec": {"policyName": "a"}}),
    json!({"spec": {"validationActions": ["Deny"]}}), &["metadata.labels", "spec.policyName"])]
#[case("resource.k8s.io/resourceslices", json!({"spec": {"driver": "a", "pool": {"name": "p", "resourceSliceCount": 1}}}),
    json!({"spec": {"driver": "b", "pool": {"name": "q", "resourceSliceCount": 1}}}),
    &["metadata.labels", "spec.pool.name", "spec.driver", "spec"])]
#[case("resource.k8s.io/deviceclasses", json!({"spec": {}}), json!({"spec": {"extendedResourceName": "_"}}),
    &["metadata.labels", "metadata.labels", "spec.extendedResourceName"])]
#[case("/services", service("10.0.0.7", Some("a/b")), service("10.0.0.7", Some("_")),
    &["metadata.labels", "spec.loadBalancerClass", "spec.loadBalancerClass", "spec.loadBalancerClass"])]
fn errors_of_updates_come_in_upstreams_order(
    #[case] kind: &str,
    #[case] mut old: Value,
    #[case] mut new: Value,
    #[case] expected: &[&str],
) {
    let registry = Registry::builtin();
    let (group, plural) = kind.split_once('/').expect("a group");
    let found = registry.kinds().find(|found| found.group == group && found.plural == plural).expect("a kind");
    for object in [&mut old, &mut new] {
        object["metadata"] = json!({"name": "x", "resourceVersion": "7", "uid": "u"});
        if found.namespaced {
            object["metadata"]["namespace"] = json!("n");
        }
        found.strategy.default(object);
    }
    new["metadata"]["labels"] = json!({"-": "b"});
    let fields: Vec<String> =
        found.strategy.validate_update(&new, &old).iter().map(|error| error.field.clone()).collect();
    assert_eq!(fields, expected);
}

/// A name by `k8s-long-name` is judged once it is made, and its length is given in bytes.
#[rstest]
#[case("/replicationcontrollers", "bytes", &["metadata.name"])]
#[case("resource.k8s.io/deviceclasses", "bytes", &["metadata.name"])]
#[case("/limitranges", "characters", &["metadata.generateName", "metadata.name"])]
fn generated_names(#[case] kind: &str, #[case] unit: &str, #[case] expected: &[&str]) {
    let registry = Registry::builtin();
    let (group, plural) = kind.split_once('/').expect("a group");
    let found = registry.kinds().find(|found| found.group == group && found.plural == plural).expect("a kind");
    let of_name = |name: &str, prefix: &str| -> Vec<(String, String)> {
        let object = json!({"metadata": {"name": name, "generateName": prefix, "namespace": "n"}});
        let errors = found.strategy.validate(&object);
        let named = errors.iter().filter(|error| error.field.ends_with("ame"));
        named.map(|error| (error.field.clone(), error.detail.clone())).collect()
    };
    let fields: Vec<String> = of_name("_a", "_").into_iter().map(|(field, _)| field).collect();
    assert_eq!(fields, expected);
    let long = of_name(&"a".repeat(254), "");
    assert_eq!(long, [("metadata.name".to_owned(), format!("must be no more than 253 {unit}"))]);
}
