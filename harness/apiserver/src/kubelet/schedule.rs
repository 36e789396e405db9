//! The scheduler: binds pods to nodes round-robin, preempts pods of lower priority, and says why there is no node for a
//! pod. Of kube-scheduler's filters it has those of the modules `filters`, `fit`, `spread` and `pod_volumes`; it has no
//! scores. Pods of other schedulers are left alone. See `pkg/scheduler/schedule_one.go`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::filters;
use super::fit::{self, Cluster, IncomingPod, NodesByName, Placements, PodKey, key_of};
use super::pod_conditions::set_observed_generation;
use super::pod_volumes::{ClaimStep, PodVolumes, VolumeLister};
use super::preemption::{self, Budgets, Candidate, NoPreemption, Rejections};
use super::rejection::Rejection;
use super::spread::Spread;
use crate::backoff::{Delays, Retries};
use crate::controllers::{ControllerClient, MERGE_PATCH, STRATEGIC_PATCH};
use crate::event_sink::Event;
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::time::rfc3339;
use crate::server::ApiServer;
use crate::store::ResourceId;
use crate::volumes;

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

    /// Returns the pods of a node.
    pub(super) fn pods_on(&self, node: &str) -> Vec<PodKey> {
        self.placements.on_node(node).map(|(key, _)| key.clone()).collect()
    }

    /// Retries all waiting pods in the next round, since nodes or claims have changed.
    pub(super) fn room_changed(&mut self) {
        self.try_all = true;
    }

    /// Returns the time at which a refused request is made again.
    pub(super) fn next_try(&self) -> Option<Timestamp> {
        self.retries.next()
    }

    /// Binds the waiting pods for which there is a node, those of high priority first.
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
        let priority = |key: &PodKey| Reverse(self.waiting.get(key).map_or(0, fit::priority_of));
        let mut keys: Vec<PodKey> = keys.into_iter().collect();
        keys.sort_by_key(priority);
        let nodes = all(&self.server, "", "nodes");
        let by_name = nodes.iter().map(|node| (metadata::name(node), node)).collect();
        for key in keys {
            self.bind(agent, &key, &nodes, &by_name).await;
            self.retries.settle(&key, agent.take_refusal(), self.server.clock().now());
        }
    }

    /// Binds a pod, or says why it cannot be bound.
    async fn bind(&mut self, agent: &ControllerClient, key: &PodKey, nodes: &[Value], by_name: &NodesByName<'_>) {
        let (namespace, name) = key;
        let current = self.server.get(&ResourceId::new("", "pods"), namespace, name);
        let current = current.map(|stored| self.server.decoded(&stored));
        let Some(mut pod) = current.filter(|pod| super::pods::next_action(pod) == super::pods::PodAction::Bind) else {
            self.waiting.remove(key);
            return;
        };
        let (node, volumes) = match self.pick(&pod, nodes, by_name) {
            Ok(picked) => picked,
            Err(failure) => return self.fail(agent, pod, failure).await,
        };
        let steps = volumes.steps(node);
        if !steps.is_empty() {
            // The change of the claims brings the pod back.
            return self.prepare(agent, &steps, metadata::name(node)).await;
        }
        let node = metadata::name(node);
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        if agent.create(&format!("/api/v1/namespaces/{namespace}/pods/{name}/binding"), &binding).await.is_ok() {
            self.waiting.remove(key);
            pod["spec"]["nodeName"] = json!(node);
            self.placements.note(&pod);
        }
    }

    /// Returns the node for a pod: the one that it was promised, or the next one, round-robin, that accepts it.
    fn pick<'n>(
        &mut self,
        pod: &Value,
        nodes: &'n [Value],
        by_name: &NodesByName<'_>,
    ) -> Result<(&'n Value, PodVolumes), Failure> {
        let lister = PodLister { server: &self.server, namespace: metadata::namespace(pod) };
        let named = filters::named_nodes(pod);
        let conflict = named.as_ref().is_some_and(BTreeSet::is_empty).then(|| "pod affinity terms conflict".to_owned());
        let volumes = match conflict.map_or_else(|| PodVolumes::of(pod, &lister).map_err(|why| why.to_string()), Err) {
            _ if nodes.is_empty() => return Err(Failure::of("no nodes available to schedule pods".to_owned())),
            Ok(volumes) => volumes,
            Err(why) => return Err(Failure::of(fit::unresolvable(&why, nodes.len())).without_victims(pod, nodes.len())),
        };
        let labels = |namespace: &str| {
            let stored = self.server.get(&ResourceId::new("", "namespaces"), "", namespace);
            stored.map(|stored| self.server.decoded(&stored)["metadata"]["labels"].clone()).unwrap_or_default()
        };
        let cluster = Cluster { nodes: by_name, namespace_labels: &labels };
        let spread = Spread::of(pod, nodes.iter(), &self.placements);
        let mut incoming = IncomingPod { pod, spread, volumes };
        let promised = pod["status"]["nominatedNodeName"].as_str().unwrap_or_default();
        let nominated = nodes.iter().find(|node| metadata::name(node) == promised);
        if let Some(node) = nominated
            && self.placements.reject(node, &mut incoming, &cluster).is_none()
        {
            return Ok((node, incoming.volumes));
        }
        let mut rejections = Rejections::new();
        for offset in 0..nodes.len() {
            let index = (self.turn + offset) % nodes.len();
            let name = metadata::name(&nodes[index]);
            let is_left_out = named.as_ref().is_some_and(|named| !named.contains(name));
            let rejection = if is_left_out {
                Some(Rejection::of("node(s) didn't satisfy plugin(s) [NodeAffinity]", false))
            } else {
                self.placements.reject(&nodes[index], &mut incoming, &cluster)
            };
            match rejection {
                None => {
                    self.turn = index + 1;
                    return Ok((&nodes[index], incoming.volumes));
                }
                Some(rejection) => rejections.push((name, rejection)),
            }
        }
        let reasons = rejections.iter().flat_map(|(_, rejection)| rejection.reasons.iter().map(String::as_str));
        let failure = Failure::of(fit::message(nodes.len(), reasons));
        let server = self.server.clone();
        let budgets: Budgets = Budgets::new(Box::new(move || all(&server, "policy", "poddisruptionbudgets")));
        let result = preemption::preempt(&mut self.placements, &mut incoming, &cluster, &rejections, &budgets);
        Err(failure.with(pod, result))
    }

    /// Reserves the volumes of claims, or tells their provisioners the node: `BindPodVolumes`.
    async fn prepare(&self, agent: &ControllerClient, steps: &[ClaimStep<'_>], node: &str) {
        for step in steps {
            match step {
                ClaimStep::Wait => {}
                ClaimStep::Reserve(volume, claim) => {
                    let mut patch = json!({"metadata": {"resourceVersion": metadata::resource_version(volume)},
                        "spec": {"claimRef": volumes::reference(claim)}});
                    metadata::set_annotation(&mut patch, volumes::BOUND_BY_CONTROLLER, "yes");
                    let path = format!("/api/v1/persistentvolumes/{}", metadata::name(volume));
                    agent.patch(&path, MERGE_PATCH, &patch).await;
                }
                ClaimStep::Select(claim) => {
                    let mut patch = json!({"metadata": {"uid": metadata::uid(claim)}});
                    metadata::set_annotation(&mut patch, volumes::SELECTED_NODE, node);
                    let claims = format!("/api/v1/namespaces/{}/persistentvolumeclaims", metadata::namespace(claim));
                    agent.patch(&format!("{claims}/{}", metadata::name(claim)), MERGE_PATCH, &patch).await;
                }
            }
        }
    }

    /// Says why a pod has no node, and preempts the pods that keep it from one: `handleSchedulingFailure`.
    async fn fail(&mut self, agent: &ControllerClient, mut pod: Value, failure: Failure) {
        let known = pod["status"]["nominatedNodeName"].as_str().unwrap_or_default().to_owned();
        let nominated = match &failure.candidate {
            Some(candidate) => candidate.node.clone(),
            None if failure.keeps_nomination => known.clone(),
            None => String::new(),
        };
        self.report(agent, &pod, &failure.message, Some(&nominated).filter(|nominated| **nominated != known)).await;
        pod["status"]["nominatedNodeName"] = json!(nominated);
        self.placements.note(&pod);
        let Some(candidate) = failure.candidate else { return };
        for (namespace, name) in self.placements.nominated_below(&candidate.node, fit::priority_of(&pod)) {
            // They may find another place.
            let patch = json!({"status": {"nominatedNodeName": null}});
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
            agent.patch(&path, STRATEGIC_PATCH, &patch).await;
            self.placements.forget(&(namespace, name));
        }
        for (key, placed) in candidate.victims {
            if !placed.is_leaving {
                self.evict(agent, &pod, &key, &candidate.node).await;
            }
        }
    }

    /// Deletes a pod for one of higher priority: `PreemptPod` in `pkg/scheduler/framework/preemption/executor.go`.
    async fn evict(&self, agent: &ControllerClient, preemptor: &Value, (namespace, name): &PodKey, node: &str) {
        let Some(stored) = self.server.get(&ResourceId::new("", "pods"), namespace, name) else { return };
        let victim = self.server.decoded(&stored);
        let moment = rfc3339(self.server.clock().now());
        let mut condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": "default-scheduler: preempting to accommodate a higher priority pod", "lastTransitionTime": moment});
        set_observed_generation(&mut condition, &victim);
        let patch = json!({"metadata": {"uid": stored.uid()}, "status": {"conditions": [condition]}});
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        if !agent.patch(&format!("{path}/status"), STRATEGIC_PATCH, &patch).await.is_ok()
            || !agent.delete(&path, None).await.is_ok()
        {
            return;
        }
        let message = format!("Preempted by pod {} on node {node}", metadata::uid(preemptor));
        let related = reference(preemptor);
        let event = Event { related, ..Event::new(reference(&victim), "default-scheduler", "Preempted", message) };
        self.server.events().record(event);
    }

    /// Writes that a pod is unschedulable, into its status and an Event; and its new nomination, which is empty if it
    /// ends.
    async fn report(&self, agent: &ControllerClient, pod: &Value, message: &str, nominated: Option<&String>) {
        self.server.events().record(Event::warning(
            reference(pod),
            "default-scheduler",
            "FailedScheduling",
            truncated(message),
        ));
        let known = array_field(&pod["status"], "conditions").iter().find(|one| one["type"] == "PodScheduled");
        let is_known = known.is_some_and(|known| known["reason"] == "Unschedulable" && known["message"] == *message);
        if is_known && nominated.is_none() {
            return;
        }
        let since = known.filter(|known| known["status"] == "False").map(|known| known["lastTransitionTime"].clone());
        let since = since.unwrap_or_else(|| rfc3339(self.server.clock().now()).into());
        let mut condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": message, "lastTransitionTime": since});
        set_observed_generation(&mut condition, pod);
        let mut patch = json!({"metadata": {"uid": metadata::uid(pod)}, "status": {"conditions": [condition]}});
        if let Some(nominated) = nominated {
            let nominated = Some(nominated).filter(|nominated| !nominated.is_empty());
            patch["status"]["nominatedNodeName"] = nominated.map_or(Value::Null, |node| node.as_str().into());
        }
        let path = format!("/api/v1/namespaces/{}/pods/{}/status", metadata::namespace(pod), metadata::name(pod));
        agent.patch(&path, STRATEGIC_PATCH, &patch).await;
    }
}

/// Returns all objects of a resource.
fn all(server: &ApiServer, group: &str, resource: &str) -> Vec<Value> {
    let stored = server.list(&ResourceId::new(group, resource), None);
    stored.iter().map(|object| server.decoded(object)).collect()
}

/// The reason why a pod has no node.
struct Failure {
    message: String,
    /// The pods that are preempted.
    candidate: Option<Candidate>,
    /// The pod keeps the node that it was promised.
    keeps_nomination: bool,
}

impl Failure {
    fn of(message: String) -> Self {
        Self { message, candidate: None, keeps_nomination: true }
    }

    /// Adds what the plugins after the filters say: that of dynamic resources (`DynamicResources.PostFilter`), and the
    /// result of the search for pods that can go.
    fn with(self, pod: &Value, result: Result<Candidate, NoPreemption>) -> Self {
        match result {
            Ok(candidate) => Self { candidate: Some(candidate), ..self },
            Err(NoPreemption { message, keeps_nomination }) => {
                let has_claims = !array_field(&pod["spec"], "resourceClaims").is_empty();
                let of_claims = if has_claims { "still not schedulable" } else { "no new claims to deallocate" };
                let message = format!("{} {of_claims}, preemption: {message}", self.message);
                Self { message, keeps_nomination, ..self }
            }
        }
    }

    /// Adds that preemption does not help on any node.
    fn without_victims(self, pod: &Value, nodes: usize) -> Self {
        let reasons = std::iter::repeat_n("Preemption is not helpful for scheduling", nodes);
        let is_never = pod["spec"]["preemptionPolicy"] == "Never";
        let message = if is_never {
            "not eligible due to preemptionPolicy=Never.".to_owned()
        } else {
            fit::message(nodes, reasons)
        };
        self.with(pod, Err(NoPreemption { message, keeps_nomination: is_never }))
    }
}

/// Looks up what the volumes of a pod lead to.
struct PodLister<'s> {
    server: &'s ApiServer,
    namespace: &'s str,
}

impl PodLister<'_> {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let stored = self.server.get(&ResourceId::new(group, resource), namespace, name)?;
        Some(self.server.decoded(&stored))
    }
}

impl VolumeLister for PodLister<'_> {
    fn claim(&self, name: &str) -> Option<Value> {
        self.get("", "persistentvolumeclaims", self.namespace, name)
    }

    fn volume(&self, name: &str) -> Option<Value> {
        self.get("", "persistentvolumes", "", name)
    }

    fn volumes(&self) -> Vec<Value> {
        all(self.server, "", "persistentvolumes")
    }

    fn class(&self, name: &str) -> Option<Value> {
        self.get("storage.k8s.io", "storageclasses", "", name)
    }

    fn binds(&self) -> bool {
        self.server.binds_volumes()
    }
}

/// Most bytes of an event's message (`NoteLengthLimit`).
const NOTE_MAX: usize = 1024;

/// Cuts a message that is too long for an event: `truncateMessage`.
fn truncated(message: &str) -> String {
    const END: &str = " ...";
    if message.len() <= NOTE_MAX {
        return message.to_owned();
    }
    format!("{}{END}", &message[..message.floor_char_boundary(NOTE_MAX - END.len())])
}

/// Returns the reference of an event to a pod.
fn reference(pod: &Value) -> Value {
    metadata::reference("v1", "Pod", pod)
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
        let message = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes \
            are available: 1 No preemption victims found for incoming pod.";
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

    /// `PreemptPod`, and the nomination of `handleSchedulingFailure`: a pod of lower priority does not get the place.
    #[tokio::test(start_paused = true)]
    async fn a_pod_of_higher_priority_takes_the_place_of_another() {
        let server = cluster(vec![pod("low", "1500m", "")]).await;
        let client = ControllerClient::new(&server, "user");
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000});
        assert!(client.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await.is_ok());
        let mut high = pod("high", "1", "");
        high["spec"]["priorityClassName"] = json!("high");
        assert!(client.create("/api/v1/namespaces/default/pods", &high).await.is_ok());
        crate::clock::settle().await;
        let (node, condition) = state(&server, "high");
        assert_eq!((node.as_str(), &condition["reason"]), ("", &json!("Unschedulable")));
        assert_eq!(condition["message"], "0/1 nodes are available: 1 Insufficient cpu.");
        let read = |name: &str| server.get(&ResourceId::new("", "pods"), "default", name).expect("a pod").value();
        assert_eq!(read("high")["status"]["nominatedNodeName"], "n");
        let victim = read("low");
        assert_eq!(
            (metadata::is_deleted(&victim), &victim["metadata"]["deletionGracePeriodSeconds"]),
            (true, &json!(30))
        );
        let conditions = array_field(&victim["status"], "conditions");
        let target = conditions.iter().find(|one| one["type"] == "DisruptionTarget").expect("the condition");
        assert_eq!(
            (&target["reason"], &target["message"]),
            (
                &json!("PreemptionByScheduler"),
                &json!("default-scheduler: preempting to accommodate a higher priority pod")
            )
        );
        let events = server.list(&ResourceId::new("", "events"), Some("default"));
        let event =
            events.iter().map(|event| event.value()).find(|event| event["reason"] == "Preempted").expect("an event");
        assert_eq!(event["message"], format!("Preempted by pod {} on node n", metadata::uid(&read("high"))));
        assert_eq!(
            (&event["involvedObject"]["name"], &event["related"]["name"], &event["action"], &event["type"]),
            (&json!("low"), &json!("high"), &json!("Preempting"), &json!("Normal"))
        );
        assert!(client.create("/api/v1/namespaces/default/pods", &pod("again", "1500m", "")).await.is_ok());
        server.clock().sleep(Duration::from_secs(5)).await;
        assert_eq!((state(&server, "high").0.as_str(), state(&server, "again").0.as_str()), ("n", ""));
        assert_eq!(read("high")["status"].get("nominatedNodeName"), None);
    }

    /// `AnnSelectedNode`: the provisioner learns the node before the pod has it.
    #[tokio::test(start_paused = true)]
    async fn a_claim_that_waits_for_its_pod_gets_a_node_first() {
        let server = cluster(vec![]).await;
        tokio::spawn(volumes::bind_volumes(server.clone()));
        let client = ControllerClient::new(&server, "user");
        for (name, provisioner) in [("theirs", "example.com/p"), ("ours", "rancher.io/local-path")] {
            let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
                "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
            assert!(client.create("/apis/storage.k8s.io/v1/storageclasses", &class).await.is_ok());
            let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": name, "resources": {"requests": {"storage": "1Gi"}}}});
            assert!(client.create("/api/v1/namespaces/default/persistentvolumeclaims", &claim).await.is_ok());
            let mut user = pod(name, "100m", "");
            user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
            assert!(client.create("/api/v1/namespaces/default/pods", &user).await.is_ok());
        }
        server.clock().sleep(Duration::from_secs(5)).await;
        let claim = |name: &str| {
            let stored = server.get(&ResourceId::new("", "persistentvolumeclaims"), "default", name);
            stored.expect("a claim").value()
        };
        for name in ["theirs", "ours"] {
            assert_eq!(metadata::annotation(&claim(name), volumes::SELECTED_NODE), Some("n"), "{name}");
        }
        assert_eq!((state(&server, "theirs").0.as_str(), state(&server, "ours").0.as_str()), ("", "n"));
        assert_eq!(claim("ours")["status"]["phase"], "Bound");
        // As the provisioner of others does.
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {
            "storageClassName": "theirs", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "claimRef": volumes::reference(&claim("theirs")), "hostPath": {"path": "/v"}}});
        assert!(client.create("/api/v1/persistentvolumes", &volume).await.is_ok());
        server.clock().sleep(Duration::from_secs(5)).await;
        assert_eq!(state(&server, "theirs").0, "n");
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
