//! A simulation of the workload controllers, optional. It manages the pods and the status of deployments, replica
//! sets, replication controllers, stateful sets and daemon sets, enough for `kubectl rollout status`, `scale` and
//! `drain`. It covers the main path of `pkg/controller/{deployment,replicaset,replication,statefulset,daemon}`.
//! [`run_job_controllers`] has the jobs.

mod claims;
mod daemon;
mod deployment;
mod failed_pods;
mod jobs;
mod progress;
mod replicas;
mod revisions;
mod scaling;
mod stateful;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::backoff::Retries;
use super::controllers::{ControllerClient, MERGE_PATCH, WatchMux, WatchSet, path_of};
use super::event_sink::Event;
use super::registry::{Resource, label_selector};
use super::server::{ApiServer, storage_id};
use super::store::{ResourceId, StoredObject};
use crate::json::{Map, Value, json};
use crate::metadata;

use failed_pods::FailedPods;

pub use jobs::run_job_controllers;

/// The resources that have pods, directly or through replica sets.
const WORKLOADS: &[(&str, &str)] = &[
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("", "replicationcontrollers"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
];

/// Counters of a status that are pointers in Go, so they are encoded even when they are zero.
const POINTERS: [&str; 2] = ["terminatingReplicas", "collisionCount"];

/// Runs the workload controllers. Never returns.
pub async fn run_workload_controllers(server: ApiServer) {
    let mut resources: Vec<ResourceId> =
        WORKLOADS.iter().map(|(group, resource)| ResourceId::new(group, resource)).collect();
    resources.push(ResourceId::new("", "pods"));
    resources.push(ResourceId::new("", "nodes"));
    resources.push(ResourceId::new("apps", "controllerrevisions"));
    let mut feed = WatchMux::new(&server, WatchSet::Resources(resources));
    // The namespaces with pods that become available, or deployments that are late, by time alone.
    let mut due: BTreeMap<String, Timestamp> = BTreeMap::new();
    let mut pending = Pending::default();
    loop {
        let next = due.values().copied().chain(pending.retries.next()).chain(pending.failed_pods.next()).min();
        let changes = feed.next_until(next).await;
        let now = server.clock().now();
        let mut touched: BTreeSet<String> =
            due.iter().filter(|(_, at)| **at <= now).map(|(namespace, _)| namespace.clone()).collect();
        for (_, change) in changes {
            change.add_namespaces(&mut touched);
        }
        // A node change affects the daemon sets of all namespaces.
        if touched.remove("") {
            let sets = server.list(&ResourceId::new("apps", "daemonsets"), None);
            touched.extend(sets.iter().map(|set| set.namespace().to_owned()));
        }
        for workload in pending.due(now) {
            if !touched.contains(&workload.1) {
                sync(&server, &workload, &mut pending).await;
            }
        }
        for namespace in touched {
            sync_namespace(&server, &namespace, &mut pending).await;
            let checks = [next_availability(&server, &namespace), next_progress_check(&server, &namespace)];
            match checks.into_iter().flatten().min() {
                Some(at) => _ = due.insert(namespace, at),
                None => _ = due.remove(&namespace),
            }
        }
    }
}

/// Returns the next time at which a ready pod of a workload with `minReadySeconds` becomes available.
fn next_availability(server: &ApiServer, namespace: &str) -> Option<Timestamp> {
    let now = server.clock().now();
    let workloads = WORKLOADS.iter().flat_map(|(group, resource)| {
        server
            .list(&ResourceId::new(group, resource), Some(namespace))
            .into_iter()
            .map(|stored| server.decoded(&stored))
    });
    let delays: BTreeMap<String, Duration> = workloads
        .map(|workload| (metadata::uid(&workload).to_owned(), min_ready(&workload)))
        .filter(|(_, delay)| !delay.is_zero())
        .collect();
    if delays.is_empty() {
        return None;
    }
    let pods =
        server.list(&ResourceId::new("", "pods"), Some(namespace)).into_iter().map(|stored| server.decoded(&stored));
    let moments = pods.filter_map(|pod| {
        let delay = delays.get(controller_uid(&pod)?)?;
        ready_since(&pod)?.checked_add(*delay).ok()
    });
    moments.filter(|at| *at > now).min()
}

/// Returns the next time at which a deployment of a namespace may have made no progress for too long.
fn next_progress_check(server: &ApiServer, namespace: &str) -> Option<Timestamp> {
    let now = server.clock().now();
    let deployments = server.list(&ResourceId::new("apps", "deployments"), Some(namespace));
    deployments.iter().filter_map(|stored| progress::next_check(&server.decoded(stored), now)).min()
}

/// A workload: the index of its resource in [`WORKLOADS`], its namespace and its name.
type WorkloadKey = (usize, String, String);

/// The syncs that are due later.
#[derive(Default)]
struct Pending {
    retries: Retries<WorkloadKey>,
    failed_pods: FailedPods,
}

impl Pending {
    /// Takes the workloads that are due.
    fn due(&mut self, now: Timestamp) -> BTreeSet<WorkloadKey> {
        let mut due = self.retries.due(now);
        let daemon_sets = WORKLOADS.iter().position(|(_, plural)| *plural == "daemonsets").unwrap_or_default();
        due.extend(self.failed_pods.take_due(now).into_iter().map(|(namespace, name)| (daemon_sets, namespace, name)));
        due
    }
}

async fn sync_namespace(server: &ApiServer, namespace: &str, pending: &mut Pending) {
    for (index, (group, plural)) in WORKLOADS.iter().enumerate() {
        let names: Vec<String> = server
            .list(&ResourceId::new(group, plural), Some(namespace))
            .iter()
            .map(|stored| stored.name().to_owned())
            .collect();
        for name in names {
            sync(server, &(index, namespace.to_owned(), name), pending).await;
        }
    }
}

/// Syncs a workload, and notes whether to try again.
async fn sync(server: &ApiServer, key: &WorkloadKey, pending: &mut Pending) {
    let (index, namespace, name) = key;
    let (group, plural) = WORKLOADS[*index];
    let Some(kind) = server.registry().get(group, "v1", plural).cloned() else { return };
    let controller = NamespaceController::new(server, &kind, namespace);
    match plural {
        "deployments" => deployment::keep(&controller, name).await,
        "statefulsets" => stateful::keep(&controller, name).await,
        "daemonsets" => daemon::keep(&controller, name, &mut pending.failed_pods).await,
        _ => replicas::keep(&controller, name).await,
    }
    pending.retries.settle(key, controller.agent.take_refusal(), server.clock().now());
}

/// The API access of one controller in one namespace.
struct NamespaceController {
    agent: ControllerClient,
    kind: Arc<Resource>,
    namespace: String,
}

impl NamespaceController {
    fn new(server: &ApiServer, kind: &Arc<Resource>, namespace: &str) -> Self {
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
    fn named(&self, name: &'static str) -> Self {
        let agent = self.agent.named(name);
        Self { agent, kind: self.kind.clone(), namespace: self.namespace.clone() }
    }

    fn decoded(&self, stored: &StoredObject) -> Value {
        self.agent.server().decoded(stored)
    }

    /// Returns the current state of the workload.
    fn workload(&self, name: &str) -> Option<Value> {
        self.agent.server().get(&storage_id(&self.kind), &self.namespace, name).map(|stored| self.decoded(&stored))
    }

    /// Returns the objects of a resource that the workload controls.
    fn controlled_objects(&self, group: &str, resource: &str, owner: &Value) -> Vec<Value> {
        let uid = metadata::uid(owner);
        let all = self.agent.server().list(&ResourceId::new(group, resource), Some(&self.namespace));
        all.iter().map(|stored| self.decoded(stored)).filter(|object| controller_uid(object) == Some(uid)).collect()
    }

    /// Adopts the objects without a controller that the workload's selector matches, and releases its own that the
    /// selector does not match any more.
    async fn claim(&self, group: &str, resource: &str, owner: &Value) {
        self.claim_members(group, resource, owner, None, |_| true).await;
    }

    /// Adopts and releases objects like [`Self::claim`]; those that are no members do not match. `finalizer` is added
    /// to adopted objects and removed from released ones.
    async fn claim_members(
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
    async fn claim_active_pods(&self, owner: &Value) {
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

    fn path(&self, name: &str) -> String {
        path_of(&self.kind, &self.namespace, name)
    }

    fn pods(&self, name: &str) -> String {
        self.core_path("pods", name)
    }

    /// Returns the path of an object of a core resource or, with an empty `name`, of the resource in the namespace.
    fn core_path(&self, resource: &str, name: &str) -> String {
        let slash = if name.is_empty() { "" } else { "/" };
        format!("/api/v1/namespaces/{}/{resource}{slash}{name}", self.namespace)
    }

    fn owner_references(&self, owner: &Value) -> Value {
        json!([{"apiVersion": self.kind.api_version(), "kind": self.kind.kind, "name": metadata::name(owner),
            "uid": metadata::uid(owner), "controller": true, "blockOwnerDeletion": true}])
    }

    /// Returns a pod of the workload's template.
    fn pod(&self, owner: &Value) -> Value {
        let template = &owner["spec"]["template"];
        json!({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": {
            "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
            "namespace": self.namespace, "ownerReferences": self.owner_references(owner)}})
    }

    /// Creates a pod of a workload. There is an event if it is refused, and the error is the message; an ending
    /// namespace is no fault of the workload's.
    async fn create_pod(&self, owner: &Value, pod: &Value) -> Result<(), Option<String>> {
        let response = self.agent.create(&self.pods(""), pod).await;
        if response.is_ok() {
            return Ok(());
        }
        if response.is_for_ending_namespace() {
            return Err(None);
        }
        let error = response.message();
        self.record(owner, "FailedCreate", format!("Error creating: {error}"));
        Err(Some(error))
    }

    /// Records a warning about a workload.
    fn record(&self, workload: &Value, reason: &str, message: String) {
        let event = Event { warning: true, ..self.event(workload, reason, message) };
        self.agent.server().events().record(event);
    }

    /// Records what went well with a workload.
    fn record_success(&self, workload: &Value, reason: &str, message: String) {
        self.agent.server().events().record(self.event(workload, reason, message));
    }

    fn event(&self, workload: &Value, reason: &str, message: String) -> Event {
        let about = json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind,
            "namespace": self.namespace, "name": metadata::name(workload), "uid": metadata::uid(workload),
            "resourceVersion": metadata::resource_version(workload)});
        let component = match self.kind.plural.as_ref() {
            "deployments" => "deployment-controller",
            "statefulsets" => "statefulset-controller",
            "replicasets" => "replicaset-controller",
            "daemonsets" => "daemonset-controller",
            "jobs" => "job-controller",
            "cronjobs" => "cronjob-controller",
            _ => "replication-controller",
        };
        Event::new(about, component, reason, message)
    }

    /// Deletes a pod of a workload. Its end, or the error, is an event (`DeletePod` in
    /// `pkg/controller/controller_utils.go` and `pkg/controller/statefulset/stateful_pod_control.go`).
    async fn delete_pod(&self, owner: &Value, pod: &Value) -> Result<(), String> {
        let name = metadata::name(pod);
        let options = json!({"preconditions": {"uid": metadata::uid(pod)}});
        let response = self.agent.delete(&self.pods(name), Some(&options)).await;
        let set = (&*self.kind.kind == "StatefulSet").then(|| metadata::name(owner));
        if response.is_ok() {
            let text = set.map(|set| format!("Delete Pod {name} in StatefulSet {set} successful"));
            let text = text.unwrap_or_else(|| format!("Deleted pod: {name}"));
            self.record_success(owner, "SuccessfulDelete", text);
        } else if !matches!(response.code, 404 | 409) {
            let error = response.message();
            let text = set.map(|set| format!("Delete Pod {name} in StatefulSet {set} failed error: {error}"));
            self.record(owner, "FailedDelete", text.unwrap_or_else(|| format!("Error deleting: {error}")));
            return Err(error);
        }
        Ok(())
    }

    /// Patches the status fields that differ.
    async fn write_status(&self, workload: &Value, status: &Value) {
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

fn controller_uid(object: &Value) -> Option<&str> {
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

fn count(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns `spec.replicas`; 1 if the field is absent.
fn desired_replicas(workload: &Value) -> i64 {
    workload.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

fn is_active(pod: &Value) -> bool {
    !metadata::is_deleted(pod) && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn is_ready(pod: &Value) -> bool {
    is_active(pod) && ready_condition(pod).is_some()
}

/// Returns true if the pod has been ready for the workload's `minReadySeconds`.
fn is_available(pod: &Value, workload: &Value, now: Timestamp) -> bool {
    is_active(pod) && has_been_ready(pod, workload, now)
}

/// Returns true if the pod has been ready for the workload's `minReadySeconds`, even if it is being deleted:
/// `IsPodAvailable` in `pkg/api/v1/pod/util.go`.
fn has_been_ready(pod: &Value, workload: &Value, now: Timestamp) -> bool {
    let delay = min_ready(workload);
    let since = || ready_since(pod).and_then(|since| since.checked_add(delay).ok());
    ready_condition(pod).is_some() && (delay.is_zero() || since().is_some_and(|at| at <= now))
}

fn min_ready(workload: &Value) -> Duration {
    Duration::from_secs(u64::try_from(count(workload, "/spec/minReadySeconds")).unwrap_or(0))
}

/// Returns the time since which a pod has been ready.
fn ready_since(pod: &Value) -> Option<Timestamp> {
    ready_condition(pod)?["lastTransitionTime"].as_str()?.parse().ok()
}

fn ready_condition(pod: &Value) -> Option<&Value> {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;

    /// A set of one pod with the label `app: s`.
    fn replica_set() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "s"}, "spec": {"replicas": 1,
            "selector": {"matchLabels": {"app": "s"}}, "template": {"metadata": {"labels": {"app": "s"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_no_longer_matches_is_released_and_replaced() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        tokio::spawn(run_workload_controllers(server.clone()));
        let client = ControllerClient::new(&server, "user");
        assert!(client.create("/apis/apps/v1/namespaces/default/replicasets", &replica_set()).await.is_ok());
        server.clock().sleep(Duration::from_secs(1)).await;
        let pods = || -> Vec<Value> {
            let all = server.list(&ResourceId::new("", "pods"), Some("default"));
            all.iter().map(|stored| stored.value()).collect()
        };
        let first = metadata::name(&pods()[0]).to_owned();
        let patch = json!({"metadata": {"labels": {"app": "other"}}});
        client.patch(&format!("/api/v1/namespaces/default/pods/{first}"), MERGE_PATCH, &patch).await;
        server.clock().sleep(Duration::from_secs(1)).await;
        let owned: Vec<(bool, bool)> =
            pods().iter().map(|pod| (metadata::name(pod) == first, controller_uid(pod).is_some())).collect();
        assert_eq!(owned.len(), 2, "{owned:?}");
        assert!(owned.contains(&(true, false)) && owned.contains(&(false, true)), "{owned:?}");
    }

    /// `manageReplicas` in `pkg/controller/replicaset/replica_set.go` overlooks the error of an ending namespace.
    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_namespace_is_no_failure_of_a_set() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        let client = ControllerClient::new(&server, "user");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
        assert!(client.create("/api/v1/namespaces", &namespace).await.is_ok());
        assert!(client.create("/apis/apps/v1/namespaces/n/replicasets", &replica_set()).await.is_ok());
        client.delete("/api/v1/namespaces/n", Some(&json!({}))).await;
        tokio::spawn(run_workload_controllers(server.clone()));
        server.clock().sleep(Duration::from_secs(1)).await;
        let set = server.get(&ResourceId::new("apps", "replicasets"), "n", "s").expect("a set").value();
        assert_eq!((&set["status"]["observedGeneration"], &set["status"]["conditions"]), (&json!(1), &Value::Null));
    }

    /// `syncReplicaSet` in `pkg/controller/replicaset/replica_set.go` claims of the active pods.
    #[tokio::test(start_paused = true)]
    async fn a_set_does_not_adopt_pods_that_have_ended() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        let pod = |name: &str, phase: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
                "labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": phase}})
        };
        server.seed([pod("ended", "Succeeded"), pod("running", "Running")]).expect("seeded");
        tokio::spawn(run_workload_controllers(server.clone()));
        let client = ControllerClient::new(&server, "user");
        assert!(client.create("/apis/apps/v1/namespaces/default/replicasets", &replica_set()).await.is_ok());
        server.clock().sleep(Duration::from_secs(1)).await;
        let all = server.list(&ResourceId::new("", "pods"), Some("default"));
        let owned: Vec<(String, bool)> =
            all.iter().map(|pod| (pod.name().to_owned(), controller_uid(&pod.value()).is_some())).collect();
        assert_eq!(owned, [("ended".to_owned(), false), ("running".to_owned(), true)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rollout_waits_until_pods_have_been_ready_for_long_enough() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        server.seed([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).expect("seeded");
        tokio::spawn(run_workload_controllers(server.clone()));
        tokio::spawn(crate::kubelet::run(server.clone(), crate::kubelet::KubeletOptions::default()));
        let client = ControllerClient::new(&server, "user");
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
            "replicas": 1, "minReadySeconds": 10, "selector": {"matchLabels": {"app": "d"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}}}});
        assert!(client.create(deployments, &deployment).await.is_ok());
        let state = |after: u64| {
            let server = server.clone();
            async move {
                server.clock().sleep(Duration::from_secs(after)).await;
                let stored = server.get(&ResourceId::new("apps", "deployments"), "default", "d");
                let deployment = stored.expect("a deployment").value();
                ["replicas", "readyReplicas", "availableReplicas"]
                    .map(|field| count(&deployment, &format!("/status/{field}")))
            }
        };
        assert_eq!(state(8).await, [1, 1, 0]);
        assert_eq!(state(7).await, [1, 1, 1]);
        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}});
        client.patch(&format!("{deployments}/d"), MERGE_PATCH, &image).await;
        assert_eq!(state(8).await, [2, 2, 1]);
        assert_eq!(state(7).await, [1, 1, 1]);
    }
}
