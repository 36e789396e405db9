//! The API access of one controller in one namespace. Follows `pkg/controller/controller_utils.go` and
//! `pkg/controller/controller_ref_manager.go`.

use std::sync::Arc;

use super::pod_state::is_active;
use crate::controllers::{ControllerClient, MERGE_PATCH, path_of};
use crate::event_sink::{Event, component_of};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::registry::{Resource, label_selector};
use crate::server::{ApiServer, storage_id};
use crate::store::ResourceId;
use crate::store::StoredObject;

/// Counters of a status that are pointers in Go, so they are encoded even when they are zero.
const POINTERS: [&str; 2] = ["terminatingReplicas", "collisionCount"];

/// The API access of one controller in one namespace.
pub(super) struct NamespaceController {
    pub(super) agent: ControllerClient,
    pub(super) kind: Arc<Resource>,
    pub(super) namespace: String,
}

impl NamespaceController {
    pub(super) fn new(server: &ApiServer, kind: &Arc<Resource>, namespace: &str) -> Self {
        let name = match kind.plural.as_ref() {
            "deployments" => "plumbline/deployment-controller",
            "statefulsets" => "plumbline/statefulset-controller",
            "replicasets" => "plumbline/replicaset-controller",
            "daemonsets" => "plumbline/daemonset-controller",
            "jobs" => "plumbline/job-controller",
            "cronjobs" => "plumbline/cronjob-controller",
            _ => "plumbline/replication-controller",
        };
        Self { agent: ControllerClient::new(server, name), kind: kind.clone(), namespace: namespace.to_owned() }
    }

    /// Returns the same access under another name.
    pub(super) fn named(&self, name: &'static str) -> Self {
        let agent = self.agent.named(name);
        Self { agent, kind: self.kind.clone(), namespace: self.namespace.clone() }
    }

    pub(super) fn decoded(&self, stored: &StoredObject) -> Value {
        self.agent.server().decoded(stored)
    }

    /// Returns the current state of the workload.
    pub(super) fn workload(&self, name: &str) -> Option<Value> {
        self.agent.server().get(&storage_id(&self.kind), &self.namespace, name).map(|stored| self.decoded(&stored))
    }

    /// Returns the objects of a resource that the workload controls.
    pub(super) fn controlled_objects(&self, group: &str, resource: &str, owner: &Value) -> Vec<Value> {
        let uid = metadata::uid(owner);
        let all = self.agent.server().list(&ResourceId::new(group, resource), Some(&self.namespace));
        all.iter().map(|stored| self.decoded(stored)).filter(|object| controller_uid(object) == Some(uid)).collect()
    }

    /// Adopts the objects without a controller that the workload's selector matches, and releases its own that the
    /// selector does not match any more.
    pub(super) async fn claim(&self, group: &str, resource: &str, owner: &Value) {
        self.claim_members(group, resource, owner, None, |_| true).await;
    }

    /// Adopts and releases objects like [`Self::claim`]; those that are no members do not match. `finalizer` is added
    /// to adopted objects and removed from released ones.
    pub(super) async fn claim_members(
        &self,
        group: &str,
        resource: &str,
        owner: &Value,
        finalizer: Option<&str>,
        is_member: impl Fn(&Value) -> bool,
    ) {
        let all = self.agent.server().list(&ResourceId::new(group, resource), Some(&self.namespace));
        for object in all.iter().map(|stored| self.decoded(stored)) {
            let is_member = is_member(&object);
            self.claim_object((group, resource), &object, owner, finalizer, is_member).await;
        }
    }

    /// Adopts and releases pods like [`Self::claim`]; those that have ended are left alone.
    pub(super) async fn claim_active_pods(&self, owner: &Value) {
        let all = self.agent.server().list(&ResourceId::new("", "pods"), Some(&self.namespace));
        for pod in all.iter().map(|stored| self.decoded(stored)).filter(is_active) {
            self.claim_object(("", "pods"), &pod, owner, None, true).await;
        }
    }

    /// Adopts or releases one object.
    async fn claim_object(
        &self,
        (group, resource): (&str, &str),
        object: &Value,
        owner: &Value,
        finalizer: Option<&str>,
        is_member: bool,
    ) {
        let matches = is_member && selects(&owner["spec"]["selector"], &object["metadata"]["labels"]);
        let mut owners = metadata::owner_references(object).to_vec();
        let mut finalizers: Vec<&str> =
            metadata::finalizers(object).filter(|other| Some(*other) != finalizer).collect();
        match controller_uid(object) {
            _ if metadata::is_deleted(object) => return,
            None if matches && !metadata::is_deleted(owner) => {
                owners.extend(self.owner_references(owner).as_array().cloned().unwrap_or_default());
                finalizers.extend(finalizer);
            }
            Some(uid) if uid == metadata::uid(owner) && !matches => {
                owners.retain(|reference| reference["uid"] != metadata::uid(owner));
            }
            _ => return,
        }
        let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
        let path = format!("{root}/namespaces/{}/{resource}/{}", self.namespace, metadata::name(object));
        let owners = if owners.is_empty() { Value::Null } else { Value::Array(owners) };
        let mut patch = json!({"metadata": {"uid": metadata::uid(object),
            "resourceVersion": metadata::resource_version(object), "ownerReferences": owners}});
        if finalizer.is_some() {
            let left = if finalizers.is_empty() { Value::Null } else { finalizers.into_iter().collect() };
            metadata::set(&mut patch, "finalizers", left);
        }
        self.agent.patch(&path, MERGE_PATCH, &patch).await;
    }

    pub(super) fn path(&self, name: &str) -> String {
        path_of(&self.kind, &self.namespace, name)
    }

    pub(super) fn pods(&self, name: &str) -> String {
        self.core_path("pods", name)
    }

    /// Returns the path of an object of a core resource or, with an empty `name`, of the resource in the namespace.
    pub(super) fn core_path(&self, resource: &str, name: &str) -> String {
        let slash = if name.is_empty() { "" } else { "/" };
        format!("/api/v1/namespaces/{}/{resource}{slash}{name}", self.namespace)
    }

    pub(super) fn owner_references(&self, owner: &Value) -> Value {
        json!([{"apiVersion": self.kind.api_version(), "kind": self.kind.kind, "name": metadata::name(owner),
            "uid": metadata::uid(owner), "controller": true, "blockOwnerDeletion": true}])
    }

    /// Returns a pod of the workload's template.
    pub(super) fn pod(&self, owner: &Value) -> Value {
        let template = &owner["spec"]["template"];
        json!({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": {
            "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
            "namespace": self.namespace, "ownerReferences": self.owner_references(owner)}})
    }

    /// Creates pods of a workload, batch after batch until there is a refusal. Returns their number and the first
    /// error; there is an event about each. An ending namespace is no fault of the workload's.
    pub(super) async fn create_pods(
        &self,
        owner: &Value,
        pods: impl Iterator<Item = Value>,
    ) -> (usize, Option<String>) {
        let mut created = 0;
        let mut first_error = None;
        for (call, pod) in pods.enumerate() {
            let response = self.agent.create(&self.pods(""), &pod).await;
            if response.is_ok() {
                created += 1;
            } else if response.is_for_ending_namespace() {
                break;
            } else {
                let error = response.message();
                self.record(owner, "FailedCreate", format!("Error creating: {error}"));
                first_error.get_or_insert(error);
            }
            if first_error.is_some() && ends_batch(call) {
                break;
            }
        }
        (created, first_error)
    }

    /// Records a warning about a workload.
    pub(super) fn record(&self, workload: &Value, reason: &str, message: String) {
        let event = Event { warning: true, ..self.event(workload, reason, message) };
        self.agent.server().events().record(event);
    }

    /// Records what went well with a workload.
    pub(super) fn record_success(&self, workload: &Value, reason: &str, message: String) {
        self.agent.server().events().record(self.event(workload, reason, message));
    }

    fn event(&self, workload: &Value, reason: &str, message: String) -> Event {
        let about = json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind,
            "namespace": self.namespace, "name": metadata::name(workload), "uid": metadata::uid(workload),
            "resourceVersion": metadata::resource_version(workload)});
        Event::new(about, component_of(&self.kind.kind), reason, message)
    }

    /// Deletes a pod of a workload. Its end, or the error, is an event (`DeletePod` in
    /// `pkg/controller/controller_utils.go` and `pkg/controller/statefulset/stateful_pod_control.go`).
    pub(super) async fn delete_pod(&self, owner: &Value, pod: &Value) -> Result<(), String> {
        let name = metadata::name(pod);
        let options = json!({"preconditions": {"uid": metadata::uid(pod)}});
        let response = self.agent.delete(&self.pods(name), Some(&options)).await;
        let set = (&*self.kind.kind == "StatefulSet").then(|| metadata::name(owner));
        // A pod of another UID has taken the name, or a plugin of admission refuses with the same code.
        let is_gone =
            response.code == 404 || response.code == 409 && response.message().contains("Precondition failed");
        if response.is_ok() {
            let text = set.map(|set| format!("Delete Pod {name} in StatefulSet {set} successful"));
            let text = text.unwrap_or_else(|| format!("Deleted pod: {name}"));
            self.record_success(owner, "SuccessfulDelete", text);
        } else if !is_gone {
            let error = response.message();
            let text = set.map(|set| format!("Delete Pod {name} in StatefulSet {set} failed error: {error}"));
            self.record(owner, "FailedDelete", text.unwrap_or_else(|| format!("Error deleting: {error}")));
            return Err(error);
        }
        Ok(())
    }

    /// Patches the status fields that differ.
    pub(super) async fn write_status(&self, workload: &Value, status: &Value) {
        let known = &workload["status"];
        let fields = status.as_object().into_iter().flatten();
        // Zero counters are not encoded unless the Go field is a pointer, so an absent field equals 0.
        let same = |name: &str, value: &Value| {
            known.get(name).map_or_else(|| *value == json!(0) && !POINTERS.contains(&name), |known| known == value)
        };
        let changed: Map = fields
            .filter(|(name, value)| !same(name, value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !changed.is_empty() {
            let name = metadata::name(workload);
            let patch = json!({"metadata": {"uid": metadata::uid(workload)}, "status": changed});
            self.agent.patch(&format!("{}/status", self.path(name)), MERGE_PATCH, &patch).await;
        }
    }
}

/// Returns true if a call, counted from 0, is the last one of its batch. There are batches of 1, 2, 4, … calls, and
/// none follows one in which a call was refused: `slowStartBatch` in `pkg/controller/replicaset/replica_set.go`.
pub(super) fn ends_batch(call: usize) -> bool {
    (call + 2).is_power_of_two()
}

pub(super) fn controller_uid(object: &Value) -> Option<&str> {
    metadata::controller(object)?["uid"].as_str()
}

/// Returns true if a workload's selector (plain labels for replication controllers) matches an object's labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    if selector.as_object().is_none_or(Map::is_empty) {
        return false;
    }
    let is_plain = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let full = is_plain.then(|| json!({"matchLabels": selector}));
    label_selector::matches(Some(full.as_ref().unwrap_or(selector)), Some(labels)) == Some(true)
}
