//! Tests what seeding as created adds to objects, and what it leaves as it is.

use crate::clock::run_virtual;
use crate::json::{Value, json};
use crate::server::ApiServer;
use crate::store::ResourceId;

/// A kind's `group/plural`, the upstream source, an object, and fields of what is stored; null for a field that is
/// missing.
type Row = (&'static str, &'static str, Value, Value);

/// A template of pods.
fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Always",
        "containers": [{"name": "c", "image": "i"}]}})
}

/// The spec of a workload.
fn workload() -> Value {
    json!({"selector": {"matchLabels": {"a": "b"}}, "template": template()})
}

fn job() -> Value {
    json!({"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}}})
}

fn volume() -> Value {
    json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}})
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}},
                    "status": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}})
}

fn workloads() -> Vec<Row> {
    let generation = json!({"/metadata/generation": 1});
    vec![
        ("apps/v1 Deployment deployments", "deployment/strategy.go", json!({"spec": workload()}), generation.clone()),
        ("apps/v1 ReplicaSet replicasets", "replicaset/strategy.go", json!({"spec": workload()}), generation.clone()),
        (
            "apps/v1 StatefulSet statefulsets",
            "statefulset/strategy.go",
            json!({"spec": workload()}),
            generation.clone(),
        ),
        ("apps/v1 DaemonSet daemonsets", "daemonset/strategy.go", json!({"spec": workload()}), generation.clone()),
        (
            "batch/v1 CronJob cronjobs",
            "cronjob/strategy.go",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job()}}}),
            generation,
        ),
        (
            "batch/v1 Job jobs",
            "generateSelector of job/strategy.go",
            json!({"metadata": {"uid": "u"}, "spec": job()}),
            json!({
                "/metadata/generation": 1,
                "/spec/selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
                "/spec/template/metadata/labels": {"a": "b", "controller-uid": "u", "job-name": "x",
                    "batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "x"},
            }),
        ),
        (
            "v1 Pod pods",
            "pod/strategy.go",
            json!({"spec": template()["spec"], "status": {"phase": "Running"}}),
            json!({"/metadata/generation": 1, "/status": {"phase": "Running", "qosClass": "BestEffort"},
                "/spec/priority": 0}),
        ),
        (
            "v1 Pod pods",
            "a class that is not there is left to the test",
            json!({"spec": {"priorityClassName": "none", "containers": [{"name": "c", "image": "i"}]}}),
            json!({"/spec/priorityClassName": "none", "/spec/priority": null}),
        ),
    ]
}

fn addresses() -> Vec<Row> {
    let ports = json!([{"port": 80}]);
    let service = |spec: Value| json!({"spec": spec});
    let source = "service/storage/alloc.go";
    let rows = vec![
        (
            service(json!({"ports": ports, "type": "NodePort"})),
            json!({"/spec/clusterIP": "10.0.0.17", "/spec/clusterIPs": ["10.0.0.17"], "/spec/ipFamilies": ["IPv4"],
                "/spec/ipFamilyPolicy": "SingleStack", "/spec/ports/0/nodePort": 30_086}),
        ),
        (
            service(json!({"ports": ports, "clusterIP": "10.96.0.10"})),
            json!({"/spec/clusterIP": "10.96.0.10", "/spec/clusterIPs": ["10.96.0.10"], "/spec/ipFamilies": ["IPv4"]}),
        ),
        (
            service(json!({"ports": ports, "clusterIP": "None", "selector": {"a": "b"}})),
            json!({"/spec/clusterIPs": ["None"], "/spec/ipFamilyPolicy": "SingleStack"}),
        ),
        (
            service(json!({"type": "ExternalName", "externalName": "a.example.com"})),
            json!({"/spec/clusterIP": null, "/spec/ipFamilies": null}),
        ),
    ];
    rows.into_iter().map(|(given, stored)| ("v1 Service services", source, given, stored)).collect()
}

fn others() -> Vec<Row> {
    vec![
        (
            "v1 Namespace namespaces",
            "namespace/strategy.go",
            json!({}),
            json!({"/spec/finalizers": ["kubernetes"], "/status/phase": "Active"}),
        ),
        (
            "v1 Namespace namespaces",
            "an ending namespace",
            json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}, "spec": {"finalizers": ["a.io/b"]},
                "status": {"phase": "Terminating"}}),
            json!({"/metadata/deletionTimestamp": "2030-01-01T00:00:00Z", "/spec/finalizers": ["a.io/b"],
                "/status/phase": "Terminating"}),
        ),
        (
            "v1 PersistentVolumeClaim persistentvolumeclaims",
            "StorageObjectInUseProtection",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
            json!({"/metadata/finalizers": ["kubernetes.io/pvc-protection"], "/status/phase": "Pending"}),
        ),
        (
            "v1 PersistentVolume persistentvolumes",
            "StorageObjectInUseProtection",
            json!({"spec": volume()}),
            json!({"/metadata/finalizers": ["kubernetes.io/pv-protection"], "/status/phase": "Pending"}),
        ),
        (
            "v1 PersistentVolume persistentvolumes",
            "finalizers and a status of its own",
            json!({"metadata": {"finalizers": ["a.io/b"]}, "spec": volume(), "status": {"phase": "Released"}}),
            json!({"/metadata/finalizers": ["a.io/b"], "/status/phase": "Released"}),
        ),
        ("v1 Node nodes", "no taint of TaintNodesByCondition", json!({}), json!({"/spec/taints": null})),
        (
            "v1 Secret secrets",
            "Convert_v1_Secret_To_core_Secret of core/v1/conversion.go",
            json!({"stringData": {"a": "b"}}),
            json!({"/data": {"a": "Yg=="}, "/stringData": null}),
        ),
        (
            "scheduling.k8s.io/v1 PriorityClass priorityclasses",
            "priorityclass/strategy.go",
            json!({"value": 1}),
            json!({"/metadata/generation": 1}),
        ),
        (
            "policy/v1 PodDisruptionBudget poddisruptionbudgets",
            "poddisruptionbudget/strategy.go",
            json!({"metadata": {"generation": 4}, "spec": {"minAvailable": 1}, "status": {"expectedPods": 2}}),
            json!({"/metadata/generation": 4, "/status/expectedPods": 2, "/status/currentHealthy": 0}),
        ),
        (
            "networking.k8s.io/v1 NetworkPolicy networkpolicies",
            "networkpolicy/strategy.go",
            json!({"spec": {"podSelector": {}}}),
            json!({"/metadata/generation": 1, "/spec/policyTypes": ["Ingress"]}),
        ),
        (
            "networking.k8s.io/v1 Ingress ingresses",
            "ingress/strategy.go",
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
            json!({"/metadata/generation": 1}),
        ),
        (
            "certificates.k8s.io/v1 CertificateSigningRequest certificatesigningrequests",
            "certificates/strategy.go",
            json!({"spec": {"signerName": "a.io/b", "request": "YQ==", "usages": ["client auth"]}}),
            json!({"/spec/username": "admin", "/spec/groups": ["system:masters", "system:authenticated"]}),
        ),
        (
            "certificates.k8s.io/v1 CertificateSigningRequest certificatesigningrequests",
            "a requester that the file names",
            json!({"spec": {"signerName": "a.io/b", "request": "YQ==", "usages": ["client auth"], "username": "u"}}),
            json!({"/spec/username": "u", "/spec/groups": null}),
        ),
        (
            "example.com/v1 Thing things",
            "apiextensions-apiserver/pkg/registry/customresource/strategy.go",
            json!({"spec": {}, "status": {"size": 2}}),
            json!({"/metadata/generation": 1, "/spec/size": 3, "/status/size": 2}),
        ),
    ]
}

#[test]
fn seeded_objects_are_as_created_and_keep_what_they_have() {
    let rows: Vec<Row> = [workloads(), addresses(), others()].concat();
    let wrong = run_virtual(async {
        let mut wrong = Vec::new();
        for (kind, source, mut object, stored) in rows {
            let server = ApiServer::builder().build();
            let words: Vec<&str> = kind.split(' ').collect();
            let [api_version, kind, plural] = words[..] else { panic!("{kind}") };
            object["apiVersion"] = api_version.into();
            object["kind"] = kind.into();
            object["metadata"]["name"] = "x".into();
            if let Err(error) = server.seed_as_created([definition(), object]) {
                wrong.push(format!("{kind} ({source}): {error}"));
                continue;
            }
            let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
            let resource = ResourceId::new(group, plural);
            let found = ["default", ""].iter().find_map(|namespace| server.get(&resource, namespace, "x"));
            let found = found.expect("stored").value();
            for (pointer, expected) in stored.as_object().into_iter().flatten() {
                let own = found.pointer(pointer.as_str()).unwrap_or(&Value::Null);
                if own != expected {
                    wrong.push(format!("{kind} ({source}): {} is {own}, expected {expected}", pointer.as_str()));
                }
            }
        }
        wrong
    });
    let wrong = wrong.expect("a runtime");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn bad_objects_are_named_with_what_to_do() {
    let errors = run_virtual(async {
        let server = ApiServer::builder().build();
        let service = |n: usize| {
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{n}")},
                "spec": {"ports": [{"port": 80}]}})
        };
        let bad = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containrs": []}});
        let full = server.seed_as_created((0..300).map(service)).unwrap_err().to_string();
        [full, server.seed_as_created([bad]).unwrap_err().to_string()]
    });
    let [full, unknown] = errors.expect("a runtime");
    assert!(full.starts_with("Service \"default/s253\": ") && full.contains("range is full; set the field"), "{full}");
    assert_eq!(unknown, "Pod \"default/p\": unknown field \"spec.containrs\"; correct the field or remove it");
}

#[test]
fn thousands_of_services_with_addresses_are_not_compared() {
    let server = run_virtual(async {
        let server = ApiServer::builder().build();
        let service = |n: usize| {
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{n}")},
                "spec": {"ports": [{"port": 80}], "clusterIP": if n.is_multiple_of(2) { "None" } else { "10.96.0.1" }}})
        };
        server.seed_as_created((0..4_000).map(service)).map(|()| server)
    });
    let server = server.expect("a runtime").expect("seeded");
    assert_eq!(server.list(&ResourceId::new("", "services"), None).len(), 4_000);
}
