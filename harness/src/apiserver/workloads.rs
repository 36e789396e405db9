//! Stand-in for the workload controllers: an optional loop that keeps the pods of deployments, replica sets, replication
//! controllers and stateful sets, and their status, so that `kubectl rollout status`, `scale` and `drain` have something
//! to work on. It is a simulation for tools, not a copy: no adoption, no history limits, no progress deadline.

mod deployment;
mod replicas;
mod stateful;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::Kind;
use super::loops::{Agent, Change, Feed, Follow, MERGE_PATCH, path_of};
use super::server::{ApiServer, storage_id};
use super::store::ResourceId;

/// A kind that owns pods, or sets that do.
const WORKLOADS: &[(&str, &str)] =
    &[("apps", "deployments"), ("apps", "replicasets"), ("", "replicationcontrollers"), ("apps", "statefulsets")];

/// Keeps the pods of workloads. Never returns.
pub async fn keep_workloads(server: ApiServer) {
    let mut resources: Vec<ResourceId> =
        WORKLOADS.iter().map(|(group, resource)| ResourceId::new(group, resource)).collect();
    resources.push(ResourceId::new("", "pods"));
    let mut feed = Feed::new(&server, Follow::Only(resources));
    loop {
        let mut touched: BTreeSet<String> = BTreeSet::new();
        for (_, change) in feed.next().await {
            match change {
                Change::All(objects) => touched.extend(objects.iter().map(|object| object.namespace().to_owned())),
                Change::Event(event) => {
                    touched.insert(event.current.namespace().to_owned());
                }
            }
        }
        for namespace in touched {
            keep_namespace(&server, &namespace).await;
        }
    }
}

async fn keep_namespace(server: &ApiServer, namespace: &str) {
    let registry = server.registry();
    for (group, plural) in WORKLOADS {
        let Some(kind) = registry.lookup(group, "v1", plural).cloned() else { continue };
        let names: Vec<String> =
            server.list(&storage_id(&kind), Some(namespace)).iter().map(|stored| stored.name().to_owned()).collect();
        for name in names {
            let desk = Desk::new(server, &kind, namespace);
            match *plural {
                "deployments" => deployment::keep(&desk, &name).await,
                "statefulsets" => stateful::keep(&desk, &name).await,
                _ => replicas::keep(&desk, &name).await,
            }
        }
    }
}

/// One controller's view of a namespace.
struct Desk {
    agent: Agent,
    kind: Arc<Kind>,
    namespace: String,
}

impl Desk {
    fn new(server: &ApiServer, kind: &Arc<Kind>, namespace: &str) -> Self {
        let name = match kind.plural.as_ref() {
            "deployments" => "plumbline/deployment-controller",
            "statefulsets" => "plumbline/statefulset-controller",
            "replicasets" => "plumbline/replicaset-controller",
            _ => "plumbline/replication-controller",
        };
        Self { agent: Agent::new(server, name), kind: kind.clone(), namespace: namespace.to_owned() }
    }

    /// The workload, as it is now.
    fn workload(&self, name: &str) -> Option<Value> {
        self.agent.server().get(&storage_id(&self.kind), &self.namespace, name).map(|stored| stored.value())
    }

    /// The objects of a resource that the workload controls.
    fn controlled(&self, group: &str, resource: &str, owner: &Value) -> Vec<Value> {
        let uid = &owner["metadata"]["uid"];
        let all = self.agent.server().list(&ResourceId::new(group, resource), Some(&self.namespace));
        all.iter().map(|stored| stored.value()).filter(|object| controller_uid(object) == Some(uid)).collect()
    }

    fn path(&self, name: &str) -> String {
        path_of(&self.kind, &self.namespace, name)
    }

    fn pods(&self, name: &str) -> String {
        let slash = if name.is_empty() { "" } else { "/" };
        format!("/api/v1/namespaces/{}/pods{slash}{name}", self.namespace)
    }

    fn reference(&self, owner: &Value) -> Value {
        json!([{"apiVersion": self.kind.api_version(), "kind": self.kind.kind, "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}])
    }

    /// A pod of the workload's template.
    fn pod(&self, owner: &Value) -> Value {
        let template = &owner["spec"]["template"];
        json!({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": {
            "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
            "namespace": self.namespace, "ownerReferences": self.reference(owner)}})
    }

    async fn delete_pod(&self, pod: &Value) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        self.agent.delete(&self.pods(name), Some(&json!({"preconditions": {"uid": pod["metadata"]["uid"]}}))).await;
    }

    /// Writes the fields of a status that differ.
    async fn write_status(&self, workload: &Value, status: &Value) {
        let known = &workload["status"];
        let fields = status.as_object().into_iter().flatten();
        // Zero counts are not encoded: an absent field equals 0.
        let same =
            |name: &str, value: &Value| known.get(name).map_or_else(|| *value == json!(0), |known| known == value);
        let changed: serde_json::Map<String, Value> = fields
            .filter(|(name, value)| !same(name, value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !changed.is_empty() {
            let name = workload["metadata"]["name"].as_str().unwrap_or_default();
            let patch = json!({"metadata": {"uid": workload["metadata"]["uid"]}, "status": changed});
            self.agent.patch(&format!("{}/status", self.path(name)), MERGE_PATCH, &patch).await;
        }
    }
}

fn controller_uid(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == json!(true)).map(|owner| &owner["uid"])
}

fn count(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// The wanted replicas; one when the field is absent.
fn wanted(workload: &Value) -> i64 {
    workload.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

fn is_active(pod: &Value) -> bool {
    !super::loops::is_deleted(pod) && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    is_active(pod)
        && conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
