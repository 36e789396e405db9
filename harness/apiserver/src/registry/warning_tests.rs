//! Warnings about valid objects and errors of single fields, by kind. The texts are those of `WarningsOnCreate` and
//! `WarningsOnUpdate` of each kind's `strategy.go` in upstream's `pkg/registry`, and of the files that they call:
//! `pkg/api/service/warnings.go`, `pkg/api/node/util.go`, `pkg/api/storage/util.go` and others.

use std::sync::Arc;

use rstest::rstest;

use crate::json::{Value, json};
use crate::registry::scheme::Registry;
use crate::registry::served_resource::Resource;

fn kind(plural: &str) -> Arc<Resource> {
    let registry = Registry::builtin();
    Arc::clone(registry.kinds().find(|kind| kind.plural == plural).expect("served"))
}

const CLASS: &str = "kubernetes.io/ingress.class";
const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";
const TOKENS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
const OLD_ZONE: &str = "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead";
const STATIC: &str = "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and cannot be managed via the API";

#[rstest]
#[case::endpoints("endpoints", json!({"subsets": [{"addresses": [{"ip": "FD00::1"}], "notReadyAddresses": [{"ip": "10.0.0.1"}]}]}),
    &["subsets[0].addresses[0].ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"])]
#[case::endpoints_of_the_controller("endpoints", json!({"metadata": {"labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
    "subsets": [{"addresses": [{"ip": "FD00::1"}]}]}), &[])]
#[case::quota("resourcequotas", json!({"spec": {"hard": {"memory": "2Gi", "limits.memory": "1024Mi", "requests.cpu": "1",
    "limits.cpu": "1"}}}), &["ResourceQuota memory (2Gi) should be less than limits.memory (1Gi)"])]
#[case::node("nodes", json!({"spec": {"podCIDRs": ["FD00::/64"]}}),
    &["spec.podCIDRs[0]: IPv6 CIDR value \"FD00::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")"])]
#[case::service("services", json!({"metadata": {"annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}},
    "spec": {"type": "LoadBalancer", "clusterIPs": ["FD00::1"], "loadBalancerIP": "1.2.03.4", "loadBalancerSourceRanges": ["10.1.2.3/8"]}}), &[
    "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
    "spec.clusterIPs[0]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")",
    "spec.loadBalancerIP: non-standard IP address \"1.2.03.4\" is invalid: use \"1.2.3.4\"",
    "spec.loadBalancerSourceRanges[0]: CIDR value \"10.1.2.3/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?)",
])]
#[case::headless_service("services", json!({"spec": {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "sessionAffinity": "None"}}), &[])]
#[case::network_policy("networkpolicies", json!({"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "FD00::/8", "except": ["FD01::/16"]}}]}]}}), &[
    "spec.egress[0].to[0].ipBlock.cidr: IPv6 CIDR value \"FD00::/8\" should be in RFC 5952 canonical format (\"fd00::/8\")",
    "spec.egress[0].to[0].ipBlock.except[0]: IPv6 CIDR value \"FD01::/16\" should be in RFC 5952 canonical format (\"fd01::/16\")",
])]
#[case::ingress("ingresses", json!({"metadata": {"annotations": {CLASS: "nginx"}}}),
    &["annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"])]
#[case::ingress_with_both("ingresses", json!({"metadata": {"annotations": {CLASS: "nginx"}}, "spec": {"ingressClassName": "nginx"}}), &[])]
#[case::storage_class("storageclasses", json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone"}]}]}),
    &[&*format!("allowedTopologies[0].matchLabelExpressions[0].key: {OLD_ZONE}")])]
#[case::capacity("csistoragecapacities", json!({"nodeTopology": {"matchLabels": {"failure-domain.beta.kubernetes.io/zone": "a"},
    "matchExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone"}]}}), &[
    &*format!("nodeTopology.matchExpressions[0].key: failure-domain.beta.kubernetes.io/zone is {OLD_ZONE}"),
    &*format!("nodeTopology.matchLabels.failure-domain.beta.kubernetes.io/zone: {OLD_ZONE}"),
])]
#[case::runtime_class("runtimeclasses", json!({"scheduling": {"nodeSelector": {"node-role.kubernetes.io/master": ""}}}),
    &["scheduling.nodeSelector: use \"node-role.kubernetes.io/control-plane\" instead"])]
#[case::driver("csidrivers", json!({"spec": {"tokenRequests": [{"audience": "a"}]}}), &[TOKENS])]
#[case::driver_with_secrets("csidrivers", json!({"spec": {"tokenRequests": [{"audience": "a"}], "serviceAccountTokenInSecrets": false}}), &[])]
#[case::account("serviceaccounts", json!({"metadata": {"annotations": {MOUNTABLE: "true"}}}),
    &[&*format!("metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets")])]
#[case::slice("resourceslices", json!({"spec": {"driver": "Gpu.example.com"}}),
    &["spec.driver: driver names should be lowercase; \"Gpu.example.com\" contains uppercase characters"])]
#[case::policy("validatingadmissionpolicies", json!({"metadata": {"name": "a.static.k8s.io"}}), &[STATIC])]
#[case::webhook("mutatingwebhookconfigurations", json!({"metadata": {"name": "a.static.k8s.io"}}), &[STATIC])]
#[case::volume("persistentvolumes", json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "failure-domain.beta.kubernetes.io/zone"}]}]}}}}),
    &[&*format!("spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: failure-domain.beta.kubernetes.io/zone is {OLD_ZONE}")])]
#[case::names("endpointslices", json!({"addressType": "FQDN", "endpoints": []}), &["spec.addressType: FQDN endpoints are deprecated"])]
#[case::addresses("endpointslices", json!({"addressType": "IPv6", "endpoints": [{"addresses": ["FD00::1"]}]}),
    &["endpoints[0].addresses[0]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"])]
#[case::secret("secrets", json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "aGVsbG8=", "tls.key": "aGVsbG8="}}),
    &["tls: failed to find any PEM data in certificate input"])]
fn new_objects(#[case] plural: &str, #[case] object: Value, #[case] expected: &[&str]) {
    assert_eq!(kind(plural).strategy.warnings_on_create(&object), expected);
}

/// Some warnings are about what an update adds.
#[rstest]
#[case::ingress("ingresses", json!({"metadata": {"annotations": {CLASS: "nginx"}}}), json!({}), 0)]
#[case::account("serviceaccounts", json!({"metadata": {"annotations": {MOUNTABLE: "true"}}}), json!({}), 1)]
#[case::known_account("serviceaccounts", json!({"metadata": {"annotations": {MOUNTABLE: "true"}}}),
    json!({"metadata": {"annotations": {MOUNTABLE: "false"}}}), 0)]
#[case::driver("csidrivers", json!({"spec": {"tokenRequests": [{"audience": "a"}]}}), json!({"spec": {}}), 1)]
#[case::known_driver("csidrivers", json!({"spec": {"tokenRequests": [{"audience": "a"}]}}),
    json!({"spec": {"tokenRequests": [{"audience": "a"}]}}), 0)]
fn updates(#[case] plural: &str, #[case] new: Value, #[case] old: Value, #[case] expected: usize) {
    assert_eq!(kind(plural).strategy.warnings_on_update(&new, &old).len(), expected);
}

/// `WarningsOnUpdate` of `podStatusStrategy`, `ingressStatusStrategy` and `serviceStatusStrategy` in upstream's
/// `strategy.go` of each kind.
#[rstest]
#[case::pod("pods", json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "FD00::1"}], "hostIPs": [{"ip": "1.2.03.4"}]}), &[
    "status.podIPs[1].ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")",
    "status.hostIPs[0].ip: non-standard IP address \"1.2.03.4\" is invalid: use \"1.2.3.4\"",
])]
#[case::ingress("ingresses", json!({"loadBalancer": {"ingress": [{"hostname": "a.io"}, {"ip": "FD00::1"}]}}),
    &["status.loadBalancer.ingress[1]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"])]
#[case::service("services", json!({"loadBalancer": {"ingress": [{"ip": "FD00::1"}]}}),
    &["status.loadBalancer.ingress[0]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"])]
#[case::nothing("nodes", json!({"addresses": [{"address": "FD00::1"}]}), &[])]
fn writes_of_a_status(#[case] plural: &str, #[case] status: Value, #[case] expected: &[&str]) {
    assert_eq!(kind(plural).strategy.warnings_on_status_update(&json!({"status": status})), expected);
}

/// `ValidateIPBlock` and `ValidateIngressCreate` in `pkg/apis/networking/validation/validation.go`,
/// `ValidateEndpointSlice` in `pkg/apis/discovery/validation/validation.go`, `ValidateRuntimeClass`, and
/// `ValidateService`.
#[rstest]
#[case::block("networkpolicies", json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8",
    "except": ["11.0.0.0/16", "10.0.0.0/8", "10.1.0.0/16", "x"]}}]}], "policyTypes": ["Ingress"]}}), &[
    "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
    "spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
    "spec.ingress[0].from[0].ipBlock.except[3]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
])]
#[case::slice("endpointslices", json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["127.0.0.1"]},
    {"addresses": ["010.0.0.1"]}, {"addresses": ["fd00::1"]}]}), &[
    "endpoints[1].addresses[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
    "endpoints[2].addresses[0]: Invalid value: \"010.0.0.1\": must not have leading 0s",
    "endpoints[3].addresses: Invalid value: \"fd00::1\": must be an IPv4 address",
])]
#[case::slice_of_names("endpointslices", json!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.b."]}, {"addresses": ["a"]}]}), &[
    "endpoints[1].addresses[0]: Invalid value: \"a\": should be a domain with at least two segments separated by dots",
])]
#[case::api("apiservices", json!({"spec": {"group": "x.io", "version": "v1", "groupPriorityMinimum": 20001, "versionPriority": 1,
    "service": {"name": "s", "namespace": "n", "port": 0}, "caBundle": "YWJj", "insecureSkipTLSVerify": true}}), &[
    "metadata.namespace: Forbidden: not allowed on this type",
    "metadata.name: Invalid value: \"a\": must be `spec.version+\".\"+spec.group`: \"v1.x.io\"",
    "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
    "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
    "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
])]
#[case::driver("csidrivers", json!({"spec": {"serviceAccountTokenInSecrets": true, "fsGroupPolicy": "File"}}), &[
    "metadata.namespace: Forbidden: not allowed on this type",
    "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified",
])]
#[case::tolerations("runtimeclasses", json!({"handler": "h", "scheduling": {"tolerations": [
    {"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists", "tolerationSeconds": null}]}}), &[
    "metadata.namespace: Forbidden: not allowed on this type",
    "scheduling.tolerations[1]: Duplicate value: {\"Key\":\"a\",\"Operator\":\"Exists\",\"Value\":\"\",\"Effect\":\"\",\"TolerationSeconds\":null}",
])]
#[case::ranges("services", json!({"metadata": {"annotations": {"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8, x"}},
    "spec": {"type": "LoadBalancer", "ports": [{"port": 1, "protocol": "TCP", "targetPort": 1}], "sessionAffinity": "None",
    "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true}}), &[
    "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
])]
fn errors(#[case] plural: &str, #[case] mut object: Value, #[case] expected: &[&str]) {
    object["metadata"]["name"] = "a".into();
    object["metadata"]["namespace"] = "n".into();
    let errors = kind(plural).strategy.validate(&object);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

/// `ValidateIngressLoadBalancerStatus`, `ValidateHorizontalPodAutoscalerStatusUpdate`,
/// `ValidateResourceQuotaStatusUpdate`, `validateVolumeAttachmentStatus`, `validateValidatingAdmissionPolicyStatus`,
/// and `ValidateCustomResourceDefinitionStatus` of apiextensions-apiserver.
#[rstest]
#[case::ingress("ingresses", json!({"loadBalancer": {"ingress": [{"ip": "x"}, {"hostname": "1.2.3.4"}]}}), &[
    "status.loadBalancer.ingress[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    "status.loadBalancer.ingress[1].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
])]
#[case::autoscaler("horizontalpodautoscalers", json!({"desiredReplicas": -1}), &[
    "status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0",
])]
#[case::quota("resourcequotas", json!({"used": {"pods": "-1"}}), &[
    "status.used[pods]: Invalid value: \"-1\": must be greater than or equal to 0",
])]
#[case::definition("customresourcedefinitions", json!({"acceptedNames": {"plural": "", "kind": "A", "listKind": "A"}}),
    &["status.acceptedNames.listKind: Invalid value: \"A\": kind and listKind may not be the same"])]
#[case::policy("validatingadmissionpolicies", json!({"typeChecking": {"expressionWarnings": [{"warning": "w", "fieldRef": " "}]},
    "conditions": [{"type": "A", "status": "True", "reason": "-", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}), &[
    "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
    "status.conditions[0].reason: Invalid value: \"-\": a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
])]
#[case::attachment("volumeattachments", json!({"attachError": {"message": "m".repeat(1025), "errorCode": -1}}), &[
    "status.attachError.message: Too long: may not be more than 262144 bytes",
    "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
])]
fn statuses(#[case] plural: &str, #[case] status: Value, #[case] expected: &[&str]) {
    let object = json!({"metadata": {"name": "a", "namespace": "n"}, "status": status});
    let errors = kind(plural).strategy.validate_status_update(&object, &object);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn an_ingress_names_one_class() {
    let object = json!({"metadata": {"annotations": {CLASS: "a"}}, "spec": {"ingressClassName": "b"}});
    let context = crate::registry::strategy::StrategyContext::of_test(&crate::registry::lister::EmptyLister);
    let errors = kind("ingresses").strategy.validate_among_others(&object, &context);
    let why = "annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when both are specified";
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [why]);
}
