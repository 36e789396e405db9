//! Tests what a new object of each kind may not have at once: pairs that exclude each other, names that come twice,
//! and parts that do not fit together. One row per rule: kind, upstream's function, an object that it refuses, and its
//! error.

use crate::json::{Value, json};
use crate::registry::lister::EmptyLister;
use crate::registry::strategy::StrategyContext;
use crate::registry::{Registry, validation};

/// A rule: `group/plural`, the upstream function, the object, and a part of the error.
type CreationRule = (&'static str, &'static str, Value, &'static str);

fn pod(change: Value) -> Value {
    let mut pod = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (field, value) in change.as_object().into_iter().flatten() {
        pod["spec"][field.as_str()] = value.clone();
    }
    pod
}

fn container(change: Value) -> Value {
    let mut container = json!({"name": "c", "image": "i"});
    for (field, value) in change.as_object().into_iter().flatten() {
        container[field.as_str()] = value.clone();
    }
    pod(json!({"containers": [container]}))
}

fn workload(change: Value) -> Value {
    let mut workload = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    for (field, value) in change.as_object().into_iter().flatten() {
        workload["spec"][field.as_str()] = value.clone();
    }
    workload
}

fn service(spec: Value) -> Value {
    json!({"spec": spec})
}

fn policy(rule: Value) -> Value {
    json!({"spec": {"podSelector": {}, "ingress": [rule]}})
}

fn rules() -> Vec<CreationRule> {
    let mut rules = core_rules();
    rules.extend(other_rules());
    rules
}

fn core_rules() -> Vec<CreationRule> {
    let parts: [fn() -> Vec<CreationRule>; 2] = [core_rules_1, core_rules_2];
    parts.into_iter().flat_map(|part| part()).collect()
}

fn core_rules_1() -> Vec<CreationRule> {
    vec![
        (
            "/configmaps",
            "ValidateConfigMap",
            json!({"data": {"a": "1"}, "binaryData": {"a": "MQ=="}}),
            "data[a]: Invalid value: \"a\": duplicate of key present in binaryData",
        ),
        (
            "/secrets",
            "ValidateSecret",
            json!({"type": "kubernetes.io/tls", "data": {}}),
            "data[tls.crt]: Required value",
        ),
        (
            "/limitranges",
            "ValidateLimitRange",
            json!({"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}}),
            "min value 2 is greater than max value 1",
        ),
        (
            "/resourcequotas",
            "validateResourceQuotaScopes",
            json!({"spec": {"scopes": ["BestEffort", "NotBestEffort"]}}),
            "conflicting scopes",
        ),
        (
            "/nodes",
            "validateNodeTaints",
            json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]}}),
            "metadata.taints[1]: Duplicate value",
        ),
        (
            "/persistentvolumes",
            "ValidatePersistentVolumeSpec",
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/a"}, "nfs": {"server": "s", "path": "/p"}}}),
            "spec.nfs: Forbidden: may not specify more than 1 volume type",
        ),
        (
            "/persistentvolumeclaims",
            "ValidatePersistentVolumeClaimSpec",
            json!({"spec": {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}}),
            "may not use ReadWriteOncePod with other access modes",
        ),
        (
            "/pods",
            "validateVolumes",
            pod(json!({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/a"}}]})),
            "may not specify more than 1 volume type",
        ),
        (
            "/pods",
            "validateVolumes",
            pod(json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]})),
            "spec.volumes[1].name: Duplicate value: \"v\"",
        ),
        (
            "/pods",
            "validateContainers",
            pod(json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]})),
            "spec.containers[1].name: Duplicate value: \"c\"",
        ),
        (
            "/pods",
            "validateEnvVarValueFrom",
            container(
                json!({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            ),
            "may not be specified when `value` is not empty",
        ),
    ]
}

fn core_rules_2() -> Vec<CreationRule> {
    vec![
        (
            "/pods",
            "validateHandler",
            container(json!({"livenessProbe": {"httpGet": {"port": 80, "path": "/"}, "tcpSocket": {"port": 80}}})),
            "may not specify more than 1 handler type",
        ),
        (
            "/pods",
            "ValidateVolumeMounts",
            container(json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]})),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        ("/services", "ValidateService", service(json!({"type": "ExternalName"})), "spec.externalName: Required value"),
        (
            "/services",
            "ValidateService",
            service(
                json!({"type": "LoadBalancer", "clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]}),
            ),
            "may not be set to 'None' for LoadBalancer services",
        ),
        (
            "/services",
            "ValidateService",
            service(json!({"ports": [{"port": 80}, {"port": 81}]})),
            "spec.ports[0].name: Required value",
        ),
        (
            "/services",
            "ValidateService",
            service(json!({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]})),
            "spec.ports[1]: Duplicate value",
        ),
        (
            "/services",
            "ValidateService",
            service(json!({"ports": [{"port": 80}], "loadBalancerClass": "a.io/b"})),
            "may only be used when `type` is 'LoadBalancer'",
        ),
    ]
}

fn other_rules() -> Vec<CreationRule> {
    let parts: [fn() -> Vec<CreationRule>; 3] = [other_rules_1, other_rules_2, other_rules_3];
    parts.into_iter().flat_map(|part| part()).collect()
}

fn other_rules_1() -> Vec<CreationRule> {
    vec![
        (
            "apps/deployments",
            "ValidateDeploymentSpec",
            workload(json!({"selector": {"matchLabels": {"a": "c"}}})),
            "`selector` does not match template `labels`",
        ),
        (
            "apps/deployments",
            "ValidateDeploymentStrategy",
            workload(json!({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}})),
            "may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            "apps/deployments",
            "ValidateRollingUpdateDeployment",
            workload(
                json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}),
            ),
            "may not be 0 when `maxSurge` is 0",
        ),
        (
            "apps/daemonsets",
            "ValidateRollingUpdateDaemonSet",
            workload(
                json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}),
            ),
            "may not be set when maxUnavailable is non-zero",
        ),
        (
            "batch/jobs",
            "ValidateJobSpec",
            json!({"spec": {"template": {"spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]}}}}),
            "spec.template.spec.restartPolicy",
        ),
        (
            "batch/cronjobs",
            "validateScheduleFormat",
            json!({"spec": {"schedule": "x", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i"}]}}}}}}),
            "spec.schedule: Invalid value: \"x\"",
        ),
        (
            "autoscaling/horizontalpodautoscalers",
            "validateHorizontalPodAutoscalerSpec",
            json!({"spec": {"minReplicas": 3, "maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
            "must be greater than or equal to `minReplicas`",
        ),
        (
            "policy/poddisruptionbudgets",
            "ValidatePodDisruptionBudgetSpec",
            json!({"spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {}}}),
            "minAvailable and maxUnavailable cannot be both set",
        ),
        (
            "networking.k8s.io/networkpolicies",
            "ValidateNetworkPolicyPeer",
            policy(json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]})),
            "may not specify both ipBlock and another peer",
        ),
        (
            "networking.k8s.io/networkpolicies",
            "ValidateNetworkPolicyPort",
            policy(json!({"ports": [{"endPort": 90}]})),
            "may not be specified when `port` is not specified",
        ),
    ]
}

fn other_rules_2() -> Vec<CreationRule> {
    vec![
        (
            "networking.k8s.io/ingresses",
            "validateIngressBackend",
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}},
                "resource": {"apiGroup": "a.io", "kind": "K", "name": "n"}}}}),
            "cannot set both resource and service backends",
        ),
        (
            "networking.k8s.io/ingressclasses",
            "validateIngressClassParametersReference",
            json!({"spec": {"controller": "a.io/b", "parameters": {"kind": "K", "name": "n", "scope": "Cluster", "namespace": "n"}}}),
            "`parameters.scope` is set to 'Cluster'",
        ),
        (
            "networking.k8s.io/servicecidrs",
            "validateServiceCIDRSpec",
            json!({"spec": {"cidrs": ["10.0.0.0/24", "10.1.0.0/24"]}}),
            "may specify no more than one IP for each IP family",
        ),
        (
            "storage.k8s.io/volumeattachments",
            "validateVolumeAttachmentSource",
            json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v", "inlineVolumeSpec": {}}}}),
            "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
        ),
        (
            "storage.k8s.io/csinodes",
            "validateCSINodeDriver",
            json!({"spec": {"drivers": [{"name": "d", "nodeID": "a"}, {"name": "d", "nodeID": "b"}]}}),
            "spec.drivers[1].name: Duplicate value: \"d\"",
        ),
        (
            "storage.k8s.io/csidrivers",
            "validateTokenRequests",
            json!({"spec": {"tokenRequests": [{"audience": "a"}, {"audience": "a"}]}}),
            "spec.tokenRequests[1].audience: Duplicate value",
        ),
        (
            "discovery.k8s.io/endpointslices",
            "validatePorts",
            json!({"addressType": "IPv4", "endpoints": [], "ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}),
            "ports[1].name: Duplicate value: \"a\"",
        ),
        (
            "scheduling.k8s.io/priorityclasses",
            "ValidatePriorityClass",
            json!({"value": 1_000_000_001}),
            "maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            "coordination.k8s.io/leases",
            "ValidateLeaseSpec",
            json!({"spec": {"leaseDurationSeconds": 0}}),
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "apps/controllerrevisions",
            "ValidateControllerRevisionCreate",
            json!({"revision": 1}),
            "data: Required value: data is mandatory",
        ),
        (
            "admissionregistration.k8s.io/validatingwebhookconfigurations",
            "validateValidatingWebhook",
            json!({"webhooks": [{"name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {
                "url": "https://a.example.com", "service": {"namespace": "n", "name": "s"}}}]}),
            "exactly one of url or service is required",
        ),
    ]
}

fn other_rules_3() -> Vec<CreationRule> {
    let annotations = vec![json!({"key": "k", "valueExpression": "'v'"}); 21];
    let conditions = vec![json!({"name": "c", "expression": "true"}); 65];
    let policy = |spec: Value| {
        let mut policy = json!({"spec": {"matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""],
            "apiVersions": ["v1"], "resources": ["pods"]}]}, "validations": [{"expression": "true"}]}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            policy["spec"][field.as_str()] = value.clone();
        }
        policy
    };
    vec![
        (
            "resource.k8s.io/resourceclaims",
            "validateDeviceRequest",
            json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"},
                "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}]}}}),
            "exactly one of `exactly` or `firstAvailable` is required",
        ),
        (
            "admissionregistration.k8s.io/validatingadmissionpolicies",
            "validateValidatingAdmissionPolicySpec: maxAuditAnnotations",
            policy(json!({"auditAnnotations": annotations})),
            r#"spec.auditAnnotations: Invalid value: [{"Key":"k","ValueExpression":"'v'"},{"Key":"k","#,
        ),
        (
            "admissionregistration.k8s.io/validatingadmissionpolicies",
            "validateAuditAnnotation: maxAuditAnnotationValueExpressionLength",
            policy(json!({"auditAnnotations": [{"key": "k", "valueExpression": " ".repeat(9) + &"1".repeat(5121)}]})),
            "spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length",
        ),
        (
            "admissionregistration.k8s.io/validatingadmissionpolicies",
            "validateValidatingAdmissionPolicySpec: FailurePolicy is a pointer",
            policy(json!({"failurePolicy": ""})),
            r#"spec.failurePolicy: Unsupported value: "": supported values: "Fail", "Ignore""#,
        ),
        (
            "admissionregistration.k8s.io/validatingadmissionpolicies",
            "validateMatchConditions: too many are still validated",
            policy(json!({"matchConditions": conditions})),
            r#"spec.matchConditions[64].name: Duplicate value: "c""#,
        ),
        (
            "admissionregistration.k8s.io/validatingwebhookconfigurations",
            "ValidateWebhookService: the first byte of a path is dropped",
            json!({"webhooks": [{"name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"service": {"namespace": "n", "name": "s", "path": "\u{e9}"}}}]}),
            "clientConfig.service.path: Invalid value: \"\u{e9}\": segment[0]: a lowercase RFC 1123 subdomain",
        ),
        (
            "certificates.k8s.io/certificatesigningrequests",
            "validateCertificateSigningRequest: no bytes",
            json!({"spec": {"request": null, "signerName": "a.io/b", "usages": ["client auth"]}}),
            "spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST",
        ),
        (
            "resource.k8s.io/resourceslices",
            "validateRequestPolicyValidValues: values of too long a list are not looked at",
            json!({"spec": {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "allNodes": true, "devices": [
                {"name": "d", "allowMultipleAllocations": true, "capacity": {"c": {"value": "1", "requestPolicy":
                    {"default": "1", "validValues": vec!["1"; 11]}}}}]}}),
            "validValues: Invalid value: \"1\": default value is not valid according to the requestPolicy",
        ),
        (
            "resource.k8s.io/resourceslices",
            "validateResourceSliceSpec",
            json!({"spec": {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeSelector":
                {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}]}}}),
            r#"[{"MatchExpressions":[{"Key":"a","Operator":"Exists","Values":null}],"MatchFields":null},{"MatchExpressions":null,"MatchFields":null}]: must have exactly one node selector term"#,
        ),
    ]
}

#[test]
fn what_excludes_each_other_is_refused() {
    let registry = Registry::builtin();
    let ctx = StrategyContext::of_test(&EmptyLister);
    let mut wrong = Vec::new();
    for (kind, source, mut object, error) in rules() {
        let (group, plural) = kind.split_once('/').expect("a group");
        let found = registry.kinds().find(|found| found.group == group && found.plural == plural).expect("a kind");
        object["metadata"] = json!({"name": "x"});
        if found.namespaced {
            object["metadata"]["namespace"] = json!("n");
        }
        found.strategy.default(&mut object);
        let errors = validation::validate_create(found, &object, &ctx);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        if !texts.iter().any(|text| text.contains(error)) {
            wrong.push(format!("{kind} ({source}): {texts:?}, expected {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
