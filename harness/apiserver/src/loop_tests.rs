//! Every loop repeats what was refused: a table of loops, in which each kind of request that they make is refused with
//! each status code.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::clock::{Clock, epoch, run_virtual};
use crate::controllers::{ControllerClient, MERGE_PATCH};
use crate::faults::FaultRuleSpec;
use crate::json::{Value, json};
use crate::kubelet::{self, KubeletOptions};
use crate::record::EntryKind;
use crate::server::{ApiServer, ApiServerConfig};
use crate::store::ResourceId;
use crate::{
    api_services, endpoints, garbage_collector, policy_status, quota_usage, service_accounts, volumes, workloads,
};

/// Status codes with which requests are refused; with 0 the connection is lost. With 404 the object is taken to be
/// gone, except at creations.
const CODES: [u16; 9] = [0, 400, 403, 404, 409, 422, 429, 500, 503];

/// Time for the loops: nine refusals take more than six minutes in that of the namespaces.
const TIME: Duration = Duration::from_mins(10);

/// A loop with something to do.
struct Scenario {
    name: &'static str,
    /// Objects that exist.
    seed: fn() -> Vec<Value>,
    start: fn(&ApiServer),
    /// Requests of a user: method, path and body.
    requests: fn() -> Vec<(&'static str, &'static str, Value)>,
    /// Returns what the loop brings about, as a text that is the same in each run.
    outcome: fn(&ApiServer) -> String,
}

fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn spec(more: &Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": template()});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field.as_str()] = value.clone();
    }
    spec
}

fn apps(kind: &str, more: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": spec(more)})
}

fn pod(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
}

fn list(server: &ApiServer, group: &str, resource: &str) -> Vec<Value> {
    server.list(&ResourceId::new(group, resource), None).iter().map(|stored| stored.value()).collect()
}

/// Returns these fields of all objects of a resource, without those of the server itself.
fn fields(server: &ApiServer, group: &str, resource: &str, pointers: &[&str]) -> String {
    let mut shown: Vec<String> = list(server, group, resource)
        .iter()
        .map(|object| {
            let values =
                pointers.iter().map(|pointer| object.pointer(pointer).cloned().unwrap_or_default().to_string());
            values.collect::<Vec<_>>().join(" ")
        })
        .collect();
    shown.sort();
    format!("{resource}: {}\n", shown.join(", "))
}

fn count(server: &ApiServer, group: &str, resource: &str) -> String {
    format!("{resource}: {}\n", list(server, group, resource).len())
}

fn start_workloads(server: &ApiServer) {
    tokio::spawn(workloads::run_workload_controllers(server.clone()));
}

fn start_jobs(server: &ApiServer) {
    tokio::spawn(workloads::run_job_controllers(server.clone()));
    tokio::spawn(kubelet::run(server.clone(), KubeletOptions::default()));
}

fn start_collector(server: &ApiServer) {
    tokio::spawn(garbage_collector::collect_garbage(server.clone(), Duration::from_millis(10)));
}

fn map(name: &str, owner: Option<&str>) -> Value {
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "uid": name}});
    if let Some(owner) = owner {
        map["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner, "blockOwnerDeletion": true}]);
    }
    map
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "as.ex.io"},
        "spec": {"group": "ex.io", "scope": "Cluster", "names": {"plural": "as", "kind": "A"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn scenarios() -> Vec<Scenario> {
    let all: &[fn() -> Scenario] = &[
        replica_sets,
        replication_controllers,
        stateful_sets,
        daemon_sets,
        deployments,
        jobs,
        endpoints,
        service_accounts,
        token_secrets,
        cluster_roles,
        quotas,
        policies,
        volumes,
        growing_claims,
        attributes,
        kubelet_and_scheduler,
        rejected_pods,
        api_services,
        garbage,
        foreground_deletion,
        orphans,
        namespaces,
        definitions,
    ];
    all.iter().map(|scenario| scenario()).collect()
}

fn replica_sets() -> Scenario {
    Scenario {
        name: "replica sets",
        seed: Vec::new,
        start: start_workloads,
        requests: || {
            let scale = json!({"spec": {"replicas": 1}});
            vec![
                ("POST", "/apis/apps/v1/namespaces/default/replicasets", apps("ReplicaSet", &json!({"replicas": 3}))),
                ("PATCH", "/apis/apps/v1/namespaces/default/replicasets/w", scale),
            ]
        },
        outcome: |server| {
            count(server, "", "pods")
                + &fields(server, "apps", "replicasets", &["/status/replicas", "/status/conditions"])
        },
    }
}

fn replication_controllers() -> Scenario {
    Scenario {
        name: "replication controllers",
        seed: || vec![pod("stray", "")],
        start: start_workloads,
        requests: || {
            let controller = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "w"},
                    "spec": {"replicas": 2, "selector": {"app": "x"}, "template": template()}});
            vec![("POST", "/api/v1/namespaces/default/replicationcontrollers", controller)]
        },
        outcome: |server| {
            fields(server, "", "pods", &["/metadata/ownerReferences/0/name"])
                + &fields(server, "", "replicationcontrollers", &["/status/replicas"])
        },
    }
}

fn stateful_sets() -> Scenario {
    Scenario {
        name: "stateful sets",
        seed: Vec::new,
        start: start_workloads,
        requests: || {
            let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}}});
            let set = apps("StatefulSet", &json!({"replicas": 1, "volumeClaimTemplates": [claim]}));
            vec![("POST", "/apis/apps/v1/namespaces/default/statefulsets", set)]
        },
        outcome: |server| {
            fields(server, "", "pods", &["/metadata/name"])
                + &count(server, "", "persistentvolumeclaims")
                + &count(server, "apps", "controllerrevisions")
                + &fields(server, "apps", "statefulsets", &["/status/replicas", "/status/currentRevision"])
        },
    }
}

fn daemon_sets() -> Scenario {
    Scenario {
        name: "daemon sets",
        seed: || vec![node()],
        start: start_workloads,
        requests: || vec![("POST", "/apis/apps/v1/namespaces/default/daemonsets", apps("DaemonSet", &json!({})))],
        outcome: |server| {
            count(server, "", "pods")
                + &count(server, "apps", "controllerrevisions")
                + &fields(server, "apps", "daemonsets", &["/status/currentNumberScheduled"])
        },
    }
}

fn deployments() -> Scenario {
    Scenario {
        name: "deployments",
        seed: Vec::new,
        start: start_workloads,
        requests: || {
            let image =
                json!({"spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}});
            vec![
                ("POST", "/apis/apps/v1/namespaces/default/deployments", apps("Deployment", &json!({"replicas": 2}))),
                ("PATCH", "/apis/apps/v1/namespaces/default/deployments/w", image),
            ]
        },
        outcome: |server| {
            count(server, "", "pods")
                + &fields(server, "apps", "replicasets", &["/spec/replicas", "/spec/template/spec/containers/0/image"])
                + &fields(server, "apps", "deployments", &["/status/observedGeneration", "/status/updatedReplicas"])
        },
    }
}

fn jobs() -> Scenario {
    Scenario {
        name: "jobs",
        seed: || vec![node()],
        start: start_jobs,
        requests: || {
            let mut template = template();
            template["spec"]["restartPolicy"] = json!("Never");
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
                    "spec": {"completions": 2, "parallelism": 2, "template": template}});
            vec![("POST", "/apis/batch/v1/namespaces/default/jobs", job)]
        },
        outcome: |server| {
            fields(server, "batch", "jobs", &["/status/succeeded", "/status/conditions/1/type"])
                + &fields(server, "", "pods", &["/status/phase", "/metadata/finalizers"])
        },
    }
}

fn endpoints() -> Scenario {
    Scenario {
        name: "endpoints",
        seed: || {
            let mut pod = pod("p", "n");
            pod["status"] = json!({"phase": "Running", "podIP": "10.0.0.1",
                    "conditions": [{"type": "Ready", "status": "True"}]});
            vec![node(), pod]
        },
        start: |server| _ = tokio::spawn(endpoints::publish_endpoints(server.clone())),
        requests: || {
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                    "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}});
            vec![("POST", "/api/v1/namespaces/default/services", service)]
        },
        outcome: |server| {
            fields(server, "", "endpoints", &["/subsets/0/addresses/0/ip"])
                + &fields(server, "discovery.k8s.io", "endpointslices", &["/endpoints/0/addresses/0"])
        },
    }
}

fn service_accounts() -> Scenario {
    Scenario {
        name: "service accounts",
        seed: Vec::new,
        start: |server| {
            let authority = Some("pem".to_owned());
            tokio::spawn(service_accounts::publish_service_accounts(server.clone(), authority));
        },
        requests: || {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}});
            vec![("POST", "/api/v1/namespaces", namespace)]
        },
        outcome: |server| {
            fields(server, "", "serviceaccounts", &["/metadata/namespace"])
                + &fields(server, "", "configmaps", &["/metadata/namespace"])
        },
    }
}

fn token_secrets() -> Scenario {
    Scenario {
        name: "token secrets",
        seed: || vec![json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})],
        start: |server| {
            tokio::spawn(service_accounts::publish_service_accounts(server.clone(), None));
        },
        requests: || {
            let secret = |name: &str, account: &str| {
                json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                        "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}}})
            };
            let secrets = "/api/v1/namespaces/default/secrets";
            vec![("POST", secrets, secret("filled", "robot")), ("POST", secrets, secret("lost", "missing"))]
        },
        outcome: |server| fields(server, "", "secrets", &["/metadata/name", "/data/namespace"]),
    }
}

fn cluster_roles() -> Scenario {
    Scenario {
        name: "cluster roles",
        seed: Vec::new,
        start: |server| {
            tokio::spawn(service_accounts::publish_service_accounts(server.clone(), None));
        },
        requests: || {
            let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
            let part = json!({"metadata": {"name": "part", "labels": {"part": "yes"}},
                    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
            let whole = json!({"metadata": {"name": "whole"}, "rules": null,
                    "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]}});
            vec![("POST", path, part), ("POST", path, whole)]
        },
        outcome: |server| fields(server, "rbac.authorization.k8s.io", "clusterroles", &["/metadata/name", "/rules"]),
    }
}

fn quotas() -> Scenario {
    Scenario {
        name: "quotas",
        seed: || vec![pod("p", "")],
        start: |server| _ = tokio::spawn(quota_usage::publish_quota_usage(server.clone())),
        requests: || {
            let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
                    "spec": {"hard": {"pods": "2"}}});
            vec![("POST", "/api/v1/namespaces/default/resourcequotas", quota)]
        },
        outcome: |server| fields(server, "", "resourcequotas", &["/status"]),
    }
}

fn policies() -> Scenario {
    Scenario {
        name: "policies",
        seed: Vec::new,
        start: |server| _ = tokio::spawn(policy_status::publish_policy_status(server.clone())),
        requests: || {
            let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                    "metadata": {"name": "p"}, "spec": {"validations": [{"expression": "true"}], "matchConstraints": {
                        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                            "resources": ["pods"]}]}}});
            vec![("POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", policy)]
        },
        outcome: |server| {
            let group = "admissionregistration.k8s.io";
            fields(server, group, "validatingadmissionpolicies", &["/status/observedGeneration"])
        },
    }
}

fn volumes() -> Scenario {
    Scenario {
        name: "volumes",
        seed: || {
            let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {
                    "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"},
                    "persistentVolumeReclaimPolicy": "Delete"}});
            vec![volume]
        },
        start: |server| {
            tokio::spawn(volumes::bind_volumes(server.clone()));
            tokio::spawn(volumes::release_volumes(server.clone()));
        },
        requests: || {
            let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
            let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
            vec![
                ("POST", claims, claim),
                ("DELETE", "/api/v1/namespaces/default/persistentvolumeclaims/c", Value::Null),
            ]
        },
        outcome: |server| count(server, "", "persistentvolumeclaims") + &count(server, "", "persistentvolumes"),
    }
}

fn growing_claims() -> Scenario {
    Scenario {
        name: "growing claims",
        seed: || {
            let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
            let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "uid": "c",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": spec});
            claim["spec"]["volumeName"] = json!("v");
            claim["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
            let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "hostPath": {"path": "/x"},
                "claimRef": {"namespace": "default", "name": "c", "uid": "c"}}});
            let mut user = pod("p", "n");
            user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
            vec![claim, volume, user]
        },
        start: |server| _ = tokio::spawn(volumes::bind_volumes(server.clone())),
        requests: || {
            let status = json!({"status": {"allocatedResourceStatuses": {"storage": "NodeResizePending"}}});
            vec![("PATCH", "/api/v1/namespaces/default/persistentvolumeclaims/c/status", status)]
        },
        outcome: |server| {
            fields(server, "", "persistentvolumeclaims", &["/status/capacity", "/status/allocatedResourceStatuses"])
        },
    }
}

fn attributes() -> Scenario {
    Scenario {
        name: "attributes classes",
        seed: Vec::new,
        start: |server| _ = tokio::spawn(volumes::release_volumes(server.clone())),
        requests: || {
            let class = |name: &str| {
                json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": name},
                    "driverName": "a.b", "parameters": {"iops": "1"}})
            };
            let path = "/apis/storage.k8s.io/v1/volumeattributesclasses";
            vec![
                ("POST", path, class("stays")),
                ("POST", path, class("goes")),
                ("DELETE", "/apis/storage.k8s.io/v1/volumeattributesclasses/goes", Value::Null),
            ]
        },
        outcome: |server| {
            fields(server, "storage.k8s.io", "volumeattributesclasses", &["/metadata/name", "/metadata/finalizers"])
        },
    }
}

fn rejected_pods() -> Scenario {
    Scenario {
        name: "rejected pods",
        seed: || vec![node()],
        start: |server| _ = tokio::spawn(kubelet::run(server.clone(), KubeletOptions::default())),
        requests: || {
            let mut rejected = pod("p", "n");
            rejected["spec"]["nodeSelector"] = json!({"zone": "a"});
            vec![("POST", "/api/v1/namespaces/default/pods", rejected)]
        },
        outcome: |server| fields(server, "", "pods", &["/status/phase", "/status/reason"]),
    }
}

fn kubelet_and_scheduler() -> Scenario {
    Scenario {
        name: "kubelet and scheduler",
        seed: || vec![node()],
        start: |server| _ = tokio::spawn(kubelet::run(server.clone(), KubeletOptions::default())),
        requests: || {
            let pods = "/api/v1/namespaces/default/pods";
            vec![
                ("POST", pods, pod("stays", "")),
                ("POST", pods, pod("goes", "")),
                ("DELETE", "/api/v1/namespaces/default/pods/goes", Value::Null),
            ]
        },
        outcome: |server| {
            fields(server, "", "pods", &["/metadata/name", "/spec/nodeName", "/status/phase"])
                + &fields(server, "", "nodes", &["/spec/taints"])
        },
    }
}

fn api_services() -> Scenario {
    Scenario {
        name: "API services",
        seed: Vec::new,
        start: |server| _ = tokio::spawn(api_services::publish_api_services(server.clone())),
        requests: || vec![("POST", DEFINITIONS, definition())],
        outcome: |server| {
            fields(server, "apiregistration.k8s.io", "apiservices", &["/metadata/name", "/status/conditions/0/status"])
        },
    }
}

fn garbage() -> Scenario {
    Scenario {
        name: "garbage",
        seed: || vec![map("owner", None), map("dependent", Some("owner"))],
        start: start_collector,
        requests: || vec![("DELETE", "/api/v1/namespaces/default/configmaps/owner", Value::Null)],
        outcome: |server| count(server, "", "configmaps"),
    }
}

fn foreground_deletion() -> Scenario {
    Scenario {
        name: "foreground deletion",
        seed: || vec![map("owner", None), map("dependent", Some("owner"))],
        start: start_collector,
        requests: || {
            let options = json!({"propagationPolicy": "Foreground"});
            vec![("DELETE", "/api/v1/namespaces/default/configmaps/owner", options)]
        },
        outcome: |server| count(server, "", "configmaps"),
    }
}

fn orphans() -> Scenario {
    Scenario {
        name: "orphans",
        seed: || vec![map("owner", None), map("dependent", Some("owner"))],
        start: start_collector,
        requests: || {
            let options = json!({"propagationPolicy": "Orphan"});
            vec![("DELETE", "/api/v1/namespaces/default/configmaps/owner", options)]
        },
        outcome: |server| fields(server, "", "configmaps", &["/metadata/name", "/metadata/ownerReferences"]),
    }
}

fn namespaces() -> Scenario {
    Scenario {
        name: "namespaces",
        seed: || {
            let mut map = map("m", None);
            map["metadata"]["namespace"] = json!("shop");
            vec![map]
        },
        start: |server| {
            tokio::spawn(garbage_collector::terminate_namespaces(server.clone(), Duration::from_millis(10)));
        },
        requests: || vec![("DELETE", "/api/v1/namespaces/shop", Value::Null)],
        outcome: |server| count(server, "", "namespaces"),
    }
}

fn definitions() -> Scenario {
    Scenario {
        name: "definitions",
        seed: Vec::new,
        start: |_| {},
        requests: || {
            let object = json!({"apiVersion": "ex.io/v1", "kind": "A", "metadata": {"name": "a"}});
            vec![
                ("POST", DEFINITIONS, definition()),
                ("POST", "/apis/ex.io/v1/as", object),
                ("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/as.ex.io", Value::Null),
            ]
        },
        outcome: |server| {
            count(server, "apiextensions.k8s.io", "customresourcedefinitions") + &count(server, "ex.io", "as")
        },
    }
}

/// A kind of request: user agent, verb, group, resource and subresource.
type RequestKind = (String, String, String, String, String);

/// Makes a server refuse requests with a status code, the first ones or all; with 0 the connection is lost.
pub(crate) fn refuse(server: &ApiServer, on: &serde_json::Value, count: Option<u32>, code: u16) {
    let verdict = match code {
        0 => serde_json::json!({"drop": {}}),
        code => serde_json::json!({"reply": {"code": code}}),
    };
    let rule = serde_json::json!({"name": "refused", "on": on, "count": count, "verdict": verdict});
    server.faults().arm(serde_json::from_value::<FaultRuleSpec>(rule).expect("a rule").into());
}

/// Runs a scenario in which the first requests of a kind are refused, one with each code. Returns the outcome and the
/// kinds of the loops' requests.
fn run(scenario: &Scenario, refused: Option<&RequestKind>) -> (String, BTreeSet<RequestKind>) {
    run_virtual(async {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        server.seed((scenario.seed)()).expect("seeded");
        if let Some((agent, verb, group, resource, subresource)) = refused {
            for code in CODES.into_iter().filter(|code| *code != 404 || verb == "create") {
                let on = serde_json::json!({"userAgent": agent, "verbs": [verb], "group": group, "resource": resource,
                    "subresource": subresource});
                refuse(&server, &on, Some(1), code);
            }
        }
        (scenario.start)(&server);
        let client = ControllerClient::new(&server, "user");
        for (method, path, body) in (scenario.requests)() {
            let method: http::Method = method.parse().expect("a method");
            let content = if method == http::Method::PATCH { MERGE_PATCH } else { "application/json" };
            // A definition whose status was refused serves nothing yet.
            for _ in 0..20 {
                let body = Some(&body).filter(|body| !body.is_null());
                if client.send(method.clone(), path, content, body).await.is_ok() {
                    break;
                }
                server.clock().sleep(Duration::from_secs(1)).await;
            }
            server.clock().sleep(Duration::from_secs(20)).await;
        }
        server.clock().sleep(TIME).await;
        let made = server.transcript().with(|entries| {
            let requests = entries.iter().filter_map(|entry| match &entry.what {
                EntryKind::Request(exchange) => Some(&exchange.request),
                _ => None,
            });
            let own = requests.filter(|request| request.user_agent != "user" && request.is_write());
            let kind = |request: &crate::record::RecordedRequest| {
                (
                    request.user_agent.clone(),
                    request.verb.clone(),
                    request.group.clone(),
                    request.resource.clone(),
                    request.subresource.clone().unwrap_or_default(),
                )
            };
            own.map(kind).collect()
        });
        ((scenario.outcome)(&server), made)
    })
    .expect("a runtime")
}

#[test]
fn refused_requests_are_repeated_by_every_loop() {
    let mut failed = Vec::new();
    for scenario in scenarios() {
        let (expected, kinds) = run(&scenario, None);
        assert!(!kinds.is_empty(), "{} writes nothing", scenario.name);
        for kind in &kinds {
            let (found, _) = run(&scenario, Some(kind));
            if found != expected {
                failed.push(format!("{}: {kind:?} refused: {found}instead of {expected}", scenario.name));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
