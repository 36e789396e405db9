//! The scheduler: binds pods to nodes round-robin, and says why there is none for a pod. Of kube-scheduler's filters it
//! has those of the modules `filters` and `fit`. Pods of other schedulers are left alone.
//! See `pkg/scheduler/schedule_one.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::fit::{self, Cluster, Placements, PodKey, key_of};
use crate::backoff::{Delays, Retries};
use crate::controllers::{ControllerClient, STRATEGIC_PATCH};
use crate::event_sink::Event;
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::time::rfc3339;
use crate::server::ApiServer;
use crate::store::ResourceId;

/// The pods that wait for a node.
pub(super) struct Scheduler {
    server: ApiServer,
    waiting: BTreeMap<PodKey, Value>,
    placements: Placements,
    turn: usize,
    try_all: bool,
    fresh: BTreeSet<PodKey>,
    /// The pods for which a request was refused.
    retries: Retries<PodKey>,
}

/// Delays of the scheduler's queue: `DefaultPodInitialBackoffDuration` and `DefaultPodMaxBackoffDuration` of
/// `pkg/scheduler/backend/queue/scheduling_queue.go`.
const RETRIES: Delays = Delays(Duration::from_secs(1), Duration::from_secs(10));

impl Scheduler {
    pub(super) fn new(server: &ApiServer) -> Self {
        Self {
            server: server.clone(),
            waiting: BTreeMap::new(),
            placements: Placements::default(),
            turn: 0,
            try_all: false,
            fresh: BTreeSet::new(),
            retries: Retries::with(RETRIES),
        }
    }

    /// Queues a pod without a node, if it is new or has another spec.
    pub(super) fn wait(&mut self, pod: &Value) {
        let key = key_of(pod);
        let known = self.waiting.insert(key.clone(), pod.clone());
        let same = |known: &Value| {
            metadata::uid(known) == metadata::uid(pod)
                && known["spec"] == pod["spec"]
                && metadata::labels(known) == metadata::labels(pod)
        };
        if !known.as_ref().is_some_and(same) {
            self.fresh.insert(key);
        }
    }

    /// Notes the state of a pod, which can make room for others.
    pub(super) fn note(&mut self, pod: &Value) {
        self.try_all |= self.placements.note(pod);
    }

    /// Notes that a pod is gone.
    pub(super) fn forget(&mut self, namespace: &str, name: &str) {
        self.placements.forget(&(namespace.to_owned(), name.to_owned()));
        self.try_all = true;
    }

    /// Retries all waiting pods in the next round, since nodes or claims have changed.
    pub(super) fn room_changed(&mut self) {
        self.try_all = true;
    }

    /// Returns the time at which a refused request is made again.
    pub(super) fn next_try(&self) -> Option<Timestamp> {
        self.retries.next()
    }

    /// Binds the waiting pods for which there is a node.
    pub(super) async fn bind_waiting(&mut self, agent: &ControllerClient) {
        // Of pods that came together, the order must not depend on that of their creation.
        let mut keys = std::mem::take(&mut self.fresh);
        if std::mem::take(&mut self.try_all) {
            keys.extend(self.waiting.keys().cloned());
        }
        keys.extend(self.retries.due(self.server.clock().now()));
        if keys.is_empty() {
            return;
        }
        let nodes: Vec<Value> = self
            .server
            .list(&ResourceId::new("", "nodes"), None)
            .iter()
            .map(|node| self.server.decoded(node))
            .collect();
        for key in keys {
            self.bind(agent, &key, &nodes).await;
            self.retries.settle(&key, agent.take_refusal(), self.server.clock().now());
        }
    }

    /// Binds a pod, or says why it cannot be bound.
    async fn bind(&mut self, agent: &ControllerClient, key: &PodKey, nodes: &[Value]) {
        let (namespace, name) = key;
        let current = self.server.get(&ResourceId::new("", "pods"), namespace, name);
        let current = current.map(|stored| self.server.decoded(&stored));
        let Some(mut pod) = current.filter(|pod| super::pods::next_action(pod, None) == super::pods::PodAction::Bind)
        else {
            self.waiting.remove(key);
            return;
        };
        let node = match self.pick(&pod, nodes) {
            Ok(node) => node,
            Err(message) => return self.report(agent, &pod, &message).await,
        };
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        if agent.create(&format!("/api/v1/namespaces/{namespace}/pods/{name}/binding"), &binding).await.is_ok() {
            self.waiting.remove(key);
            pod["spec"]["nodeName"] = json!(node);
            self.placements.note(&pod);
        }
    }

    /// Returns the next node, round-robin, that accepts the pod, or the message about all of them.
    fn pick(&mut self, pod: &Value, nodes: &[Value]) -> Result<String, String> {
        if let Some(why) = self.claim_error(pod).filter(|_| !nodes.is_empty()) {
            return Err(fit::unresolvable(&why, nodes.len()));
        }
        let labels = |namespace: &str| {
            let stored = self.server.get(&ResourceId::new("", "namespaces"), "", namespace);
            stored.map(|stored| self.server.decoded(&stored)["metadata"]["labels"].clone()).unwrap_or_default()
        };
        let cluster = Cluster {
            nodes: nodes.iter().map(|node| (metadata::name(node), node)).collect(),
            namespace_labels: &labels,
        };
        let mut rejections = Vec::new();
        for offset in 0..nodes.len() {
            let index = (self.turn + offset) % nodes.len();
            match self.placements.reject(&nodes[index], pod, &cluster) {
                None => {
                    self.turn = index + 1;
                    return Ok(metadata::name(&nodes[index]).to_owned());
                }
                Some(rejection) => rejections.push((metadata::name(&nodes[index]), rejection)),
            }
        }
        Err(self.placements.message(pod, &rejections))
    }

    /// Returns the reason why the claims of a pod cannot be used (`podHasPVCs` of the plugin `VolumeBinding`). Claims
    /// that are not bound do not keep a pod waiting here.
    fn claim_error(&self, pod: &Value) -> Option<String> {
        let claims = array_field(&pod["spec"], "volumes").iter();
        let mut names = claims.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
        names.find_map(|name| {
            let resource = ResourceId::new("", "persistentvolumeclaims");
            match self.server.get(&resource, metadata::namespace(pod), name) {
                None => Some(format!("persistentvolumeclaim {name:?} not found")),
                Some(claim) if claim.is_terminating() => {
                    Some(format!("persistentvolumeclaim {name:?} is being deleted"))
                }
                Some(_) => None,
            }
        })
    }

    /// Writes that a pod is unschedulable, into its status and an Event.
    async fn report(&self, agent: &ControllerClient, pod: &Value, message: &str) {
        let namespace = metadata::namespace(pod);
        let name = metadata::name(pod);
        let uid = metadata::uid(pod);
        let about = json!({"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid,
            "resourceVersion": metadata::resource_version(pod)});
        // Longer ones are cut off, as in `truncateMessage`.
        let shown: String = message.chars().take(1024).collect();
        self.server.events().record(Event::warning(about, "default-scheduler", "FailedScheduling", shown));
        let known = array_field(&pod["status"], "conditions").iter().find(|one| one["type"] == "PodScheduled");
        if known.is_some_and(|known| known["reason"] == "Unschedulable" && known["message"] == *message) {
            return;
        }
        let since = known.filter(|known| known["status"] == "False").map(|known| known["lastTransitionTime"].clone());
        let since = since.unwrap_or_else(|| rfc3339(self.server.clock().now()).into());
        let mut condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": message, "lastTransitionTime": since});
        let generation = metadata::generation(pod);
        if generation > 0 {
            condition["observedGeneration"] = json!(generation);
        }
        let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
        agent.patch(&path, STRATEGIC_PATCH, &patch).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[tokio::test(start_paused = true)]
    async fn a_pod_waits_until_its_host_port_is_free() {
        use crate::ApiServerConfig;
        use crate::clock::Clock;
        use crate::kubelet::{KubeletOptions, run};

        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        server.seed([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).expect("seeded");
        tokio::spawn(run(server.clone(), KubeletOptions::default()));
        server.clock().sleep(Duration::from_secs(1)).await;
        let client = ControllerClient::new(&server, "user");
        for name in ["a", "b"] {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]}});
            assert!(client.create("/api/v1/namespaces/default/pods", &pod).await.is_ok());
            server.clock().sleep(Duration::from_secs(1)).await;
        }
        let node_of = |name: &str| {
            let pod = server.get(&ResourceId::new("", "pods"), "default", name).expect("a pod").value();
            pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()
        };
        assert_eq!((node_of("a"), node_of("b")), ("n".to_owned(), String::new()));
        client.delete("/api/v1/namespaces/default/pods/a", None).await;
        server.clock().sleep(Duration::from_secs(5)).await;
        assert_eq!(node_of("b"), "n");
    }

    /// Runs a node of two processors and these pods; returns the server.
    async fn cluster(pods: Vec<Value>) -> ApiServer {
        use crate::ApiServerConfig;
        use crate::clock::Clock;
        use crate::kubelet::{KubeletOptions, run};

        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "2", "pods": "110"}}});
        server.seed([node]).expect("seeded");
        tokio::spawn(crate::events::publish_events(server.clone()));
        tokio::spawn(run(server.clone(), KubeletOptions::default()));
        server.clock().sleep(Duration::from_secs(1)).await;
        let client = ControllerClient::new(&server, "user");
        for pod in pods {
            assert!(client.create("/api/v1/namespaces/default/pods", &pod).await.is_ok());
            server.clock().sleep(Duration::from_secs(1)).await;
        }
        server
    }

    fn pod(name: &str, cpu: &str, scheduler: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"schedulerName": scheduler,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
    }

    fn state(server: &ApiServer, name: &str) -> (String, Value) {
        let pod = server.get(&ResourceId::new("", "pods"), "default", name).expect("a pod").value();
        let condition = array_field(&pod["status"], "conditions").iter().find(|one| one["type"] == "PodScheduled");
        (pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned(), condition.cloned().unwrap_or_default())
    }

    /// `responsibleForPod` of `pkg/scheduler/eventhandlers.go`.
    #[tokio::test(start_paused = true)]
    async fn pods_of_other_schedulers_are_left_alone() {
        let server = cluster(vec![pod("p", "1", "my-scheduler")]).await;
        assert_eq!(state(&server, "p"), (String::new(), Value::Null));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unschedulable_pod_says_why_until_there_is_room() {
        let server = cluster(vec![pod("a", "1500m", ""), pod("b", "1", "")]).await;
        let (node, condition) = state(&server, "b");
        assert_eq!(
            (node.as_str(), &condition["status"], &condition["reason"]),
            ("", &json!("False"), &json!("Unschedulable"))
        );
        let message = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption \
            victims found for incoming pod.";
        assert_eq!(condition["message"], message);
        let events = server.list(&ResourceId::new("", "events"), Some("default"));
        let event = events.iter().map(|event| event.value()).find(|event| event["reason"] == "FailedScheduling");
        let event = event.expect("an event");
        assert_eq!(
            (&event["message"], &event["action"], &event["type"]),
            (&json!(message), &json!("Scheduling"), &json!("Warning"))
        );
        let client = ControllerClient::new(&server, "user");
        client.delete("/api/v1/namespaces/default/pods/a", None).await;
        server.clock().sleep(Duration::from_secs(5)).await;
        let (node, condition) = state(&server, "b");
        assert_eq!((node.as_str(), &condition["status"]), ("n", &json!("True")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_waits_for_its_claim() {
        let mut waiting = pod("p", "1", "");
        waiting["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
        let server = cluster(vec![waiting]).await;
        let (_, condition) = state(&server, "p");
        let message = condition["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("0/1 nodes are available: persistentvolumeclaim \"c\" not found."), "{message}");
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        let client = ControllerClient::new(&server, "user");
        client.create("/api/v1/namespaces/default/persistentvolumeclaims", &claim).await;
        server.clock().sleep(Duration::from_secs(5)).await;
        assert_eq!(state(&server, "p").0, "n");
    }
}
