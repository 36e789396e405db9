//! Answers of kube-apiserver 1.36.2 to objects as those in upstream's own tables of validation, by kind. A case names
//! the test in `pkg/apis/*/validation/validation_test.go` with its like.

use std::collections::BTreeMap;

use rstest::rstest;

use super::tests::{create, created, kind, update};
use crate::json::{Value, json};

fn pod(spec: &Value) -> Value {
    let mut object = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Always"}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][&**field] = value.clone();
    }
    object
}

const CLAIM_SPEC: &str = r#"{"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}"#;

fn ephemeral(metadata: &Value) -> Value {
    let spec: Value = serde_json::from_str(CLAIM_SPEC).expect("JSON");
    let template = json!({"metadata": metadata, "spec": spec});
    json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]})
}

/// `TestValidateVolumes`, `TestValidatePod` and `TestValidateInitContainers`.
#[rstest]
#[case::generation(&ephemeral(&json!({"generation": 1})),
    "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.generation: Forbidden: cannot be set")]
#[case::uid(&ephemeral(&json!({"uid": "u"})),
    "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.uID: Forbidden: cannot be set")]
#[case::finalizers(&ephemeral(&json!({"finalizers": ["a.b/c"]})),
    "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.finalizers: Forbidden: cannot be set")]
#[case::created_claim(&json!({"volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": "p-v"}},
        ephemeral(&json!({}))["volumes"][0]]}),
    "spec.volumes[0].persistentVolumeClaim.claimName: Invalid value: \"p-v\": must not reference a PVC that gets created for an ephemeral volume")]
#[case::mode(&json!({"volumes": [{"name": "v", "downwardAPI": {"items": [{"path": "a", "mode": 512,
        "fieldRef": {"fieldPath": "metadata.name"}}]}}]}),
    "spec.volumes[0].downwardAPI.mode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive")]
#[case::two_in_one(&json!({"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"},
        "downwardAPI": {}}]}}]}),
    "spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source")]
#[case::long_token(&json!({"serviceAccountName": "s", "volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t",
        "expirationSeconds": 4_294_967_297_i64}}]}}]}),
    "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds")]
#[case::padded_profile(&json!({"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "a "}}}),
    "spec.securityContext.appArmorProfile.localhostProfile: Invalid value: \"a \": must not be padded with whitespace")]
#[case::long_profile(&json!({"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "a".repeat(4096)}}}),
    "spec.securityContext.appArmorProfile.localhostProfile: Too long: may not be more than 4095 bytes")]
#[case::resized_init(&json!({"initContainers": [{"name": "i", "image": "i", "resizePolicy": [
        {"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}]}),
    "spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: \"RestartContainer\": must not be set to 'RestartContainer' for non-sidecar initContainers")]
#[case::nameless_csi_secret(&json!({"volumes": [{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {}}}]}),
    "spec.volumes[0].csi.nodePublishSecretRef.name: Required value")]
#[case::long_csi_secret(&json!({"volumes": [{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "a".repeat(254)}}}]}),
    &format!("spec.volumes[0].csi.name: Invalid value: \"{}\": must be no more than 253 characters", "a".repeat(254)))]
#[case::sysctl_of_the_node(&json!({"hostIPC": true, "securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}]}}),
    "spec.securityContext.sysctls[0].name: Invalid value: \"kernel.shm_rmid_forced\": may not be specified when 'hostIPC' is true")]
#[case::network_of_the_node(&json!({"hostNetwork": true, "securityContext": {"sysctls": [{"name": "net/ipv4/ip_forward", "value": "0"}]}}),
    "spec.securityContext.sysctls[0].name: Invalid value: \"net/ipv4/ip_forward\": may not be specified when 'hostNetwork' is true")]
#[case::no_system(&json!({"os": {"name": ""}}), "spec.os.name: Required value")]
#[case::native_resource_of_the_pod(&json!({"resources": {"limits": {"kubernetes.io/x": "1"}}}),
    "spec.resources.limits[kubernetes.io/x]: Unsupported value: \"kubernetes.io/x\": supported values: \"cpu\", \"hugepages-\", \"memory\"")]
fn pods(#[case] spec: &Value, #[case] expected: &str) {
    assert_eq!(create("pods", pod(spec)).expect_err("refused"), [expected]);
}

/// `validateFieldAllowList`: a list without items is another value than none.
#[test]
fn ephemeral_containers_with_empty_lists() {
    let ephemeral = json!([{"name": "e", "image": "i", "ports": [], "restartPolicyRules": []}]);
    let errors = create("pods", pod(&json!({"ephemeralContainers": ephemeral}))).expect_err("refused");
    let refused = ["ports", "restartPolicyRules"].map(|field| {
        format!("spec.ephemeralContainers[0].{field}: Forbidden: cannot be set for an Ephemeral Container")
    });
    assert_eq!(errors[..2], refused);
}

/// Fields behind feature gates that are off in 1.36 are dropped.
#[test]
fn pods_without_disabled_fields() {
    let sources =
        json!([{"clusterTrustBundle": {"path": "a", "name": "b"}, "secret": {"name": "s"}}, {"podCertificate": {}}]);
    let container = json!({"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGTERM"}});
    let object = create(
        "pods",
        pod(&json!({"schedulingGroup": {"podGroupName": "g"}, "containers": [container],
        "volumes": [{"name": "v", "projected": {"sources": sources}}]})),
    );
    let spec = &object.expect("valid")["spec"];
    assert_eq!(spec["volumes"][0]["projected"]["sources"], json!([{"secret": {"name": "s"}}, {}]));
    assert_eq!((spec.get("schedulingGroup"), spec["containers"][0].get("lifecycle")), (None, None));
}

/// `TestValidatePersistentVolumes`, `TestValidatePersistentVolumeClaim`, `TestValidateServiceCreate`,
/// `TestValidateLimitRange`, `TestValidateServiceCIDR`, `TestValidateStorageClass` and others.
#[rstest]
#[case::volume_without_capacity("persistentvolumes", json!({"accessModes": ["ReadWriteOnce"], "nfs": {"server": "s", "path": "/"}}), &[
    "spec.capacity: Required value", "spec.capacity: Unsupported value: null: supported values: \"storage\""])]
#[case::volume_mode("persistentvolumes", json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}, "volumeMode": "",
    "nfs": {"server": "s", "path": "/"}}), &["spec.volumeMode: Unsupported value: \"\": supported values: \"Block\", \"Filesystem\""])]
#[case::claim_mode("persistentvolumeclaims", json!({"accessModes": ["ReadWriteOnce"], "volumeMode": "",
    "resources": {"requests": {"storage": "1"}}}), &["spec.volumeMode: Unsupported value: \"\": supported values: \"Block\", \"Filesystem\""])]
#[case::ratio("limitranges", json!({"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "0.5"}}]}), &[
    "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1"])]
#[case::three_addresses("services", json!({"type": "ClusterIP", "ports": [{"port": 80}], "sessionAffinity": "None",
    "ipFamilyPolicy": "PreferDualStack", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "2001::1", "10.0.0.2"]}), &[
    "spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"2001::1\",\"10.0.0.2\"]: may only hold up to 2 values"])]
#[case::host_bits("servicecidrs", json!({"cidrs": ["192.168.0.1/24"]}), &[
    "spec.cidrs[0]: Invalid value: \"192.168.0.1/24\": must not have bits set beyond the prefix length"])]
#[case::form("servicecidrs", json!({"cidrs": ["FD00:1234::/64"]}), &[
    "spec.cidrs[0]: Invalid value: \"FD00:1234::/64\": must be in canonical form (\"fd00:1234::/64\")"])]
#[case::zeros("servicecidrs", json!({"cidrs": ["192.168.007.0/24"]}), &[
    "spec.cidrs[0]: Invalid value: \"192.168.007.0/24\": must not have leading 0s in IP or prefix length"])]
#[case::resource_of_a_container("horizontalpodautoscalers", json!({"maxReplicas": 1, "minReplicas": 1,
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "metrics": [{"type": "ContainerResource",
        "containerResource": {"name": "odd", "container": "-", "target": {"type": "Utilization", "averageUtilization": 1}}}]}), &[
    "spec.metrics[0].containerResource.name: Invalid value: \"odd\": must be a standard resource type or fully qualified",
    "spec.metrics[0].containerResource.name: Invalid value: \"odd\": must be a standard resource for containers",
    "spec.metrics[0].containerResource.container: Invalid value: \"-\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"])]
#[case::tolerance("horizontalpodautoscalers", json!({"maxReplicas": 1, "minReplicas": 1,
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "behavior": {"scaleUp": {"tolerance": "-10m",
        "selectPolicy": "Max", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 1}]}}}), &[
    "spec.behavior.scaleUp.tolerance: Invalid value: \"-10m\": must be greater than or equal to 0"])]
#[case::policy_of_a_name("services", json!({"type": "ExternalName", "externalName": "a.b", "sessionAffinity": "None",
    "internalTrafficPolicy": "x"}), &[
    "spec.internalTrafficPolicy: Unsupported value: \"x\": supported values: \"Cluster\", \"Local\""])]
fn specs(#[case] plural: &str, #[case] spec: Value, #[case] expected: &[&str]) {
    let object = json!({"metadata": {"name": "a"}, "spec": spec});
    assert_eq!(create(plural, object).expect_err("refused"), expected);
}

#[test]
fn topologies_and_annotations() {
    let class = json!({"metadata": {"name": "a"}, "provisioner": "a.b", "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate", "allowedTopologies": [{}]});
    let errors = create("storageclasses", class).expect_err("refused");
    assert_eq!(errors, ["allowedTopologies[0].matchLabelExpressions: Duplicate value: \"\""]);
    let service = json!({"metadata": {"name": "a", "annotations": {"service.kubernetes.io/topology-aware-hints": "a",
        "service.kubernetes.io/topology-mode": "b"}}, "spec": {"ports": [{"port": 80}]}});
    let errors = create("services", service).expect_err("refused");
    assert_eq!(
        errors,
        [
            "metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: \"b\": must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified"
        ]
    );
}

/// Fields that these versions do not keep.
#[rstest]
#[case::driver("csidrivers", json!({"spec": {"preventPodSchedulingIfMissing": true}}), "/spec/preventPodSchedulingIfMissing")]
#[case::slice("endpointslices", json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"],
    "deprecatedTopology": {"a": "b"}}]}), "/endpoints/0/deprecatedTopology")]
fn dropped(#[case] plural: &str, #[case] mut object: Value, #[case] pointer: &str) {
    object["metadata"] = json!({"name": "a"});
    assert_eq!(create(plural, object).expect("valid").pointer(pointer), None);
}

/// `TestValidatePersistentVolumeUpdate` of `nodeAffinity`: only the names of labels may change, to final ones.
#[rstest]
#[case::final_name(json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]), None)]
#[case::back(json!([{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["b"]}]),
    Some("nodeAffinity: Invalid value: {\"Required\":{\"NodeSelectorTerms\":[{\"MatchExpressions\":[{\"Key\":\"failure-domain.beta.kubernetes.io/zone\",\"Operator\":\"In\",\"Values\":[\"b\"]}],\"MatchFields\":null}]}}: field is immutable, except for updating from beta label to GA"))]
fn nodes_of_a_volume(#[case] expressions: Value, #[case] expected: Option<&str>) {
    let affinity =
        |expressions: &Value| json!({"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}});
    let before = json!([{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"]}]);
    let volume = json!({"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"},
        "nfs": {"server": "s", "path": "/"}, "nodeAffinity": affinity(&before)}});
    let old = created("persistentvolumes", volume);
    let updated = update("persistentvolumes", &old, &json!({"spec": {"nodeAffinity": affinity(&expressions)}}), false);
    assert_eq!(updated.err(), expected.map(|expected| vec![expected.to_owned()]));
}

/// `TestValidatePersistentVolumeClaimUpdate`: the class in the annotation stays.
#[test]
fn the_class_of_a_claim() {
    const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    let spec: Value = serde_json::from_str(CLAIM_SPEC).expect("JSON");
    let claim = json!({"metadata": {"name": "c", "annotations": {CLASS: "a"}}, "spec": spec});
    let old = created("persistentvolumeclaims", claim);
    let change = json!({"metadata": {"annotations": {CLASS: "b"}}, "spec": {"storageClassName": "a"}});
    let errors = update("persistentvolumeclaims", &old, &change, false).expect_err("refused");
    assert!(
        errors.contains(&format!("metadata.annotations.{CLASS}: Invalid value: \"b\": field is immutable")),
        "{errors:?}"
    );
}

/// Checks of lists take one pass. Before, each of these took minutes, during which the server answered others late.
#[rstest]
#[case::env("pods", |n| json!({"spec": {"containers": [{"name": "c", "image": "i",
    "env": (0..n).map(|i| json!({"name": format!("a{i}")})).collect::<Vec<_>>()}]}}))]
#[case::ports("pods", |n| json!({"spec": {"containers": [{"name": "c", "image": "i",
    "ports": (0..n).map(|i| json!({"containerPort": 1 + i % 60_000, "hostPort": 1 + i % 60_000})).collect::<Vec<_>>()}]}}))]
#[case::mounts("pods", |n| json!({"spec": {"volumes": [{"name": "v"}], "containers": [{"name": "c", "image": "i",
    "volumeMounts": (0..n).map(|i| json!({"name": "v", "mountPath": format!("/{i}")})).collect::<Vec<_>>()}]}}))]
#[case::volumes("pods", |n| json!({"spec": {"containers": [{"name": "c", "image": "i"}],
    "volumes": (0..n).map(|i| json!({"name": format!("v{i}")})).collect::<Vec<_>>()}}))]
#[case::files("pods", |n| json!({"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "configMap":
    {"name": "m", "items": (0..n).map(|i| json!({"key": "k", "path": format!("{i}")})).collect::<Vec<_>>()}}]}}))]
#[case::slice("endpointslices", |_| json!({"addressType": "IPv4", "endpoints": [],
    "ports": (0..20_000).map(|i| json!({"name": format!("p{i}")})).collect::<Vec<_>>()}))]
#[case::service("services", |n| json!({"spec": {
    "ports": (0..n).map(|i| json!({"name": format!("p{i}"), "port": 1 + i % 60_000})).collect::<Vec<_>>()}}))]
#[case::taints("nodes", |n| json!({"spec": {
    "taints": (0..n).map(|i| json!({"key": format!("k{i}"), "effect": "NoSchedule"})).collect::<Vec<_>>()}}))]
#[case::owners("configmaps", |n| json!({"metadata": {"ownerReferences": (0..n).map(|i| json!({"apiVersion": "v1", "kind": "A",
    "name": "a", "uid": format!("u{i}")})).collect::<Vec<_>>()}}))]
#[case::webhooks("validatingwebhookconfigurations", |n| json!({
    "webhooks": (0..n).map(|i| json!({"name": format!("h{i}.a.b")})).collect::<Vec<_>>()}))]
#[case::resources_of_a_rule("validatingwebhookconfigurations", |n| json!({"webhooks": [{"name": "a.b.c", "rules": [{
    "resources": (0..n).map(|i| format!("a{i}/b{i}")).collect::<Vec<_>>()}]}]}))]
#[case::usages("certificatesigningrequests", |n| json!({"spec": {
    "usages": (0..n).map(|i| format!("u{i}")).collect::<Vec<_>>()}}))]
#[case::drivers("csinodes", |n| json!({"spec": {
    "drivers": (0..n).map(|i| json!({"name": format!("d{i}"), "nodeID": "n"})).collect::<Vec<_>>()}}))]
#[case::keys_of_a_driver("csinodes", |n| json!({"spec": {"drivers": [{"name": "d", "nodeID": "n",
    "topologyKeys": (0..n).map(|i| format!("k{i}")).collect::<Vec<_>>()}]}}))]
#[case::topologies("storageclasses", |n| json!({"provisioner": "a.b",
    "allowedTopologies": (0..n).map(|_| json!({})).collect::<Vec<_>>()}))]
#[case::audiences("csidrivers", |n| json!({"spec": {
    "tokenRequests": (0..n).map(|i| json!({"audience": format!("a{i}")})).collect::<Vec<_>>()}}))]
#[case::tolerations("runtimeclasses", |n| json!({"handler": "h", "scheduling": {
    "tolerations": (0..n).map(|i| json!({"key": format!("k{i}"), "operator": "Exists"})).collect::<Vec<_>>()}}))]
#[case::claims("pods", |n| json!({"spec": {
    "resourceClaims": (0..n).map(|i| json!({"name": format!("c{i}")})).collect::<Vec<_>>(),
    "containers": [{"name": "c", "image": "i", "resources": {
        "claims": (0..n).map(|i| json!({"name": format!("x{i}")})).collect::<Vec<_>>()}}]}}))]
#[case::keys_of_a_term("pods", |n| json!({"spec": {"containers": [{"name": "c", "image": "i"}], "affinity": {"podAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k", "labelSelector": {},
        "matchLabelKeys": (0..n).map(|i| format!("a{i}")).collect::<Vec<_>>(),
        "mismatchLabelKeys": (0..n).map(|i| format!("b{i}")).collect::<Vec<_>>()}]}}}}))]
#[case::limits("limitranges", |n| json!({"spec": {
    "limits": (0..n).map(|i| json!({"type": format!("a.b/t{i}")})).collect::<Vec<_>>()}}))]
#[case::scopes("resourcequotas", |n| json!({"spec": {"scopes": (0..n).map(|_| "BestEffort").collect::<Vec<_>>(),
    "hard": (0..n).map(|i| (format!("requests.a.b/r{i}"), "1")).collect::<BTreeMap<_, _>>()}}))]
#[case::scope_selectors("resourcequotas", |n| json!({"spec": {
    "scopeSelector": {"matchExpressions": (0..n).map(|_| json!({"scopeName": "BestEffort"})).collect::<Vec<_>>()},
    "hard": (0..n).map(|i| (format!("requests.a.b/r{i}"), "1")).collect::<BTreeMap<_, _>>()}}))]
fn long_lists(#[case] plural: &str, #[case] object: fn(i64) -> Value) {
    let mut object = object(20_000);
    object["metadata"]["name"] = "a".into();
    crate::object_lifecycle::dedup_owners(&mut object);
    let refused = create(plural, object.clone()).is_err();
    let warnings = kind(plural).strategy.warnings_on_create(&object);
    assert!(refused || warnings.len() < 200_000);
}

/// Each error shows all claims of the pod; together they have a bound.
#[test]
fn many_long_errors_have_a_bound() {
    let names = |letter: char, count: usize| -> Vec<Value> {
        (0..count).map(|number| json!({"name": format!("{letter}{number}")})).collect()
    };
    let containers: Vec<Value> = (0..500)
        .map(|number| json!({"name": format!("c{number}"), "image": "i", "resources": {"claims": names('x', 20)}}))
        .collect();
    let spec = json!({"resourceClaims": names('a', 10_000), "containers": containers});
    let errors = create("pods", json!({"metadata": {"name": "a"}, "spec": spec})).expect_err("refused");
    let size: usize = errors.iter().map(String::len).sum();
    assert!(size < 2 << 20, "{size}");
}

/// Answers of kube-apiserver 1.36.2 to objects with one field changed: `validateBasicResource`, `validateAzureFilePV`,
/// `validateCinderPersistentVolumeSource` and `ValidatePreemptionPolicy` in `pkg/apis/core/validation/validation.go`.
#[rstest]
#[case::negative_capacity("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "-1m"},
    "nfs": {"server": "s", "path": "/"}}}), &["spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
    "spec.capacity[storage]: Invalid value: \"-1m\": must be greater than zero"])]
#[case::empty_capacity("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {},
    "nfs": {"server": "s", "path": "/"}}}), &["spec.capacity: Required value",
    "spec.capacity: Unsupported value: {}: supported values: \"storage\""])]
#[case::disk_of_a_default_kind("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"},
    "azureDisk": {"diskName": "d", "diskURI": "u"}}}), &["spec.azureDisk.diskURI: Unsupported value: \"u\": supported values: \"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd\""])]
#[case::empty_namespace("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"},
    "azureFile": {"secretName": "s", "shareName": "s", "secretNamespace": ""}}}), &["spec.azureFile.secretNamespace: Required value"])]
#[case::no_namespace("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"},
    "cinder": {"volumeID": "v", "secretRef": {"name": "s"}}}}), &["spec.cinder.secretRef.namespace: Required value"])]
#[case::empty_policy("priorityclasses", json!({"value": 1, "preemptionPolicy": ""}), &["preemptionPolicy: Required value"])]
#[case::empty_mode("storageclasses", json!({"provisioner": "a.b", "volumeBindingMode": ""}),
    &["volumeBindingMode: Unsupported value: \"\": supported values: \"Immediate\", \"WaitForFirstConsumer\""])]
#[case::empty_protocol("networkpolicies", json!({"spec": {"ingress": [{"ports": [{"port": 1, "protocol": ""}]}]}}),
    &["spec.ingress[0].ports[0].protocol: Unsupported value: \"\": supported values: \"TCP\", \"UDP\", \"SCTP\""])]
#[case::empty_protocol_of_a_slice("endpointslices", json!({"addressType": "IPv4", "ports": [{"port": 1, "protocol": ""}]}),
    &["ports[0].protocol: Unsupported value: \"\": supported values: \"SCTP\", \"TCP\", \"UDP\""])]
#[case::empty_internal_policy("services", json!({"spec": {"ports": [{"port": 80}], "internalTrafficPolicy": ""}}),
    &["spec.internalTrafficPolicy: Unsupported value: \"\": supported values: \"Cluster\", \"Local\""])]
fn one_field_of_a_new_object(#[case] plural: &str, #[case] mut object: Value, #[case] expected: &[&str]) {
    object["metadata"] = json!({"name": "a"});
    assert_eq!(create(plural, object).expect_err("refused"), expected);
}

/// `SetObjectDefaults_PersistentVolume` in `pkg/apis/core/v1/zz_generated.defaults.go`.
#[test]
fn sources_of_persistent_volumes_have_defaults() {
    let sources = json!({"azureDisk": {}, "iscsi": {}, "rbd": {}, "scaleIO": {}});
    let mut volume = json!({"metadata": {"name": "a"}, "spec": sources});
    kind("persistentvolumes").strategy.default(&mut volume);
    let expected = json!({
        "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": false},
        "iscsi": {"iscsiInterface": "default"},
        "rbd": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
        "scaleIO": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
    });
    for (source, fields) in expected.as_object().expect("sources") {
        assert_eq!(&volume["spec"][source.as_str()], fields);
    }
}

/// `ValidateUpdate` in `pkg/registry/core/limitrange/strategy.go` and `pkg/registry/node/runtimeclass/strategy.go`: the
/// errors of the kind come after those of all kinds.
#[rstest]
#[case::range("limitranges", json!({}), &[
    "metadata.generateName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"])]
#[case::node("csinodes", json!({}), &[
    "metadata.generateName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"])]
#[case::class("runtimeclasses", json!({"handler": "h"}), &[
    "metadata.generateName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"])]
fn generated_names_in_updates(#[case] plural: &str, #[case] mut object: Value, #[case] expected: &[&str]) {
    object["metadata"] = json!({"name": "a", "finalizers": ["b.c/d"]});
    let old = created(plural, object);
    let change = json!({"metadata": {"generateName": "A"}});
    assert_eq!(update(plural, &old, &change, false).expect_err("refused"), expected);
}

/// `nodeStatusConfigInUse` in `pkg/registry/core/node/strategy.go`, and `ValidatePersistentVolumeClaimUpdate`.
#[test]
fn removed_fields_of_a_status_and_of_a_spec() {
    let node = created("nodes", json!({"metadata": {"name": "a"}}));
    let written = update("nodes", &node, &json!({"status": {"config": {"error": "e"}}}), true).expect("valid");
    assert_eq!(written["status"].get("config"), None);
    let claim = json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = created("persistentvolumeclaims", claim);
    let change = json!({"spec": {"resources": {"requests": {"storage": null}}}});
    let errors = update("persistentvolumeclaims", &claim, &change, false).expect_err("refused");
    let last = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity";
    assert_eq!(errors.last().map(String::as_str), Some(last));
}

/// `ValidateVolumeDevices`, `ValidateRuntimeClassName` and `validateInitContainerRestartPolicy` in
/// `pkg/apis/core/validation/validation.go`.
#[rstest]
#[case::devices(&json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], "containers": [{"name": "c", "image": "i",
        "volumeMounts": [{"name": "w", "mountPath": "/d"}],
        "volumeDevices": [{"name": "v", "devicePath": "/d"}, {"name": "x", "devicePath": "/d"}]}]}), &[
    "spec.containers[0].volumeMounts[0].name: Not found: \"w\"",
    "spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/d\": must not already exist as a path in volumeDevices",
    "spec.containers[0].volumeDevices[0].devicePath: Invalid value: \"/d\": must not already exist as a path in volumeMounts",
    "spec.containers[0].volumeDevices[1].name: Not found: \"x\"",
    "spec.containers[0].volumeDevices[1].devicePath: Invalid value: \"/d\": must be unique",
    "spec.containers[0].volumeDevices[1].devicePath: Invalid value: \"/d\": must not already exist as a path in volumeMounts"])]
#[case::rules_without_policy(&json!({"initContainers": [{"name": "i", "image": "i", "restartPolicyRules": [{"action": "x"}]}]}), &[
    "spec.initContainers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used"])]
fn containers_of_a_pod(#[case] spec: &Value, #[case] expected: &[&str]) {
    assert_eq!(create("pods", pod(spec)).expect_err("refused"), expected);
}
