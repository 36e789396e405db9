//! A simulation of kubelets and a scheduler, optional and on the server's clock.
//!
//! - Pods on existing nodes become Running and Ready some time after they are bound, and are removed when they have
//!   been deleted and their grace period is over. No container runs.
//! - Containers of a job's pods end a second after their start. Those with plain commands such as `sleep 300` or
//!   `exit 1` end as these say, the containers of init as well, and start again as the policy says. The annotations
//!   `plumbline.dev/run-for` (such as `30s`, or `forever`) and `plumbline.dev/exit-code` of a pod say otherwise. The
//!   containers of a deleted pod end before it is removed.
//! - Pods wait for the config maps and secrets that they name, and for their readiness gates.
//! - Pods that do not fit on the node that their spec names are rejected, as `OutOfcpu` or `NodeAffinity`.
//! - The kubelet of a node with the annotation `plumbline.dev/kubelet: stopped` does nothing.
//! - Nodes become Ready, lose the taint `not-ready` and renew their leases. Their status has the conditions of
//!   `pkg/kubelet/nodestatus/setters.go`.
//! - Pods without a node are bound, to one node after the other, where there is room. Where there is none, pods of
//!   lower priority are preempted, or the reason is in their status.

mod admission;
mod commands;
mod config_refs;
mod container_status;
mod filters;
mod fit;
mod images;
mod node_status;
mod pod_conditions;
mod pod_status;
mod pod_volumes;
mod pods;
mod preemption;
mod rejection;
mod resize;
#[cfg(test)]
mod resize_tests;
mod restarts;
mod runs;
mod schedule;
mod spread;

use admission::AdmissionFailure;
use fit::Placements;
use node_status::{new_states, node_status, repeated};

pub(super) use filters::takes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;

use super::controllers::{ControllerClient, MERGE_PATCH, STRATEGIC_PATCH, WatchMux, WatchSet};
use super::event_sink::Event;
use super::registry::time::rfc3339;
use super::server::ApiServer;
use super::store::{ResourceId, StoredObject};
use crate::json::{Value, json};
use crate::metadata;

/// The taint of nodes that are not ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The address 10.1.0.1 of the first pod, outside of the services' range.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 1, 0, 1]);

/// The address of the first node: that of the first container in the network of kind.
const FIRST_HOST: u32 = u32::from_be_bytes([172, 18, 0, 2]);

/// The annotation of a node whose kubelet does not work: `stopped`.
const KUBELET: &str = "plumbline.dev/kubelet";

/// Time until a refused write is repeated: `syncPeriod` of `pkg/kubelet/status/status_manager.go`.
const SYNC_PERIOD: Duration = Duration::from_secs(10);

/// Time until a rejected pod has failed. Without it, no time would pass while a replica set replaces pods that fail at
/// once.
const REJECTED_AFTER: Duration = Duration::from_millis(100);

/// The parameters of the simulation.
#[derive(Debug, Clone)]
pub struct KubeletOptions {
    /// Time from a pod's binding until it is ready.
    pub ready_after: Duration,
    /// Time from a pod's deletion until its removal, unless its grace period is shorter.
    pub gone_after: Duration,
    /// Time between two heartbeats of a node.
    pub heartbeat: Duration,
    /// Bind pods that have no node.
    pub bind: bool,
    /// Time after which the containers of pods with the restart policy `Never` or `OnFailure` end, unless their command
    /// or their annotations say otherwise; without it only those of jobs end.
    pub run_for: Option<Duration>,
    /// Images that cannot be pulled: patterns in which `*` is any text, such as `*:broken`. Pods wait for them.
    pub missing_images: Vec<String>,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self {
            ready_after: Duration::from_millis(500),
            gone_after: Duration::from_secs(1),
            heartbeat: Duration::from_secs(10),
            bind: true,
            run_for: None,
            missing_images: Vec::new(),
        }
    }
}

/// A scheduled action.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum KubeletTask {
    /// Starts the containers of a pod (namespace, name, uid).
    Ready(String, String, String),
    /// Removes a deleted pod (namespace, name, uid).
    End(String, String, String),
    /// Reports what is new about a running pod (namespace, name, uid).
    Observe(String, String, String),
    /// Ends or restarts containers of a pod (namespace, name, uid).
    Exit(String, String, String),
    /// Ends a pod for a critical one (namespace, name, uid).
    Preempt(String, String, String),
    /// Reports that a pod is rejected (namespace, name, uid).
    Reject(String, String, String),
    /// Renews the lease of a node (name).
    Heartbeat(String),
}

/// Runs the kubelets and the scheduler. Never returns.
pub async fn run(server: ApiServer, options: KubeletOptions) {
    let [nodes, pods, claims] = ["nodes", "pods", "persistentvolumeclaims"].map(|name| ResourceId::new("", name));
    let volumes = ResourceId::new("", "persistentvolumes");
    let configuration = ["configmaps", "secrets"].map(|name| ResourceId::new("", name));
    let mut watched = vec![nodes.clone(), pods.clone(), claims, volumes];
    watched.extend(configuration.clone());
    let mut feed = WatchMux::new(&server, WatchSet::Resources(watched));
    let bind = options.bind;
    let mut kubelet = Kubelet {
        agent: ControllerClient::new(&server, "plumbline/kubelet"),
        scheduler: schedule::Scheduler::new(&server),
        admitted: Placements::default(),
        arrivals: Vec::new(),
        rejected: BTreeMap::new(),
        nodes: BTreeMap::new(),
        options,
        tasks: BTreeSet::new(),
        planned: BTreeMap::new(),
        unconfigured: BTreeSet::new(),
        deferred: BTreeSet::new(),
        next_address: FIRST_ADDRESS,
        next_host: FIRST_HOST,
        stopped: BTreeSet::new(),
    };
    loop {
        let due = kubelet.tasks.first().map(|(at, _)| *at).into_iter().chain(kubelet.scheduler.next_try()).min();
        let changes = feed.next_until(due).await;
        for (resource, change) in changes {
            let deleted = change.is_deletion();
            for object in change.objects() {
                if configuration.contains(&resource) {
                    kubelet.see_configuration(object.namespace());
                } else if deleted && resource == pods {
                    kubelet.forget(&object);
                } else if deleted || resource != pods && resource != nodes {
                    kubelet.scheduler.room_changed();
                    if resource == nodes {
                        kubelet.nodes.remove(object.name());
                    }
                } else if resource == pods {
                    kubelet.see_pod(&object);
                } else {
                    kubelet.see_node(&object);
                }
            }
        }
        // New nodes lose their taint first, and report their size.
        kubelet.work().await;
        kubelet.admit_arrivals();
        if bind {
            kubelet.scheduler.bind_waiting(&kubelet.agent).await;
        }
    }
}

/// The decision about the resize of a pod.
enum Resize {
    /// None is asked for. These conditions of earlier ones go.
    None(Vec<Value>),
    /// It is done. These conditions go.
    Done(Vec<Value>),
    /// There is no room for it; with the condition that says so, if that is new.
    Deferred(Option<Value>),
}

impl Resize {
    /// Adds the change of the conditions to a patch of the status.
    fn add_conditions(&self, status: &mut Value) {
        let changes = match self {
            Self::None(gone) | Self::Done(gone) => gone.as_slice(),
            Self::Deferred(condition) => condition.as_slice(),
        };
        if let Some(conditions) = status["conditions"].as_array_mut() {
            conditions.extend(changes.iter().cloned());
        }
    }
}

/// Namespace, name and uid of a pod.
type PodId = (String, String, String);

fn id_of(pod: &StoredObject) -> PodId {
    (pod.namespace().to_owned(), pod.name().to_owned(), pod.uid().to_owned())
}

struct Kubelet {
    agent: ControllerClient,
    scheduler: schedule::Scheduler,
    /// The pods that kubelets have taken.
    admitted: Placements,
    /// The pods that came to their nodes, in their order.
    arrivals: Vec<PodId>,
    /// The pods that kubelets do not take, until their status says so.
    rejected: BTreeMap<PodId, AdmissionFailure>,
    /// The nodes whose kubelets have started, and whether they are cordoned.
    nodes: BTreeMap<String, bool>,
    options: KubeletOptions,
    tasks: BTreeSet<(Timestamp, KubeletTask)>,
    planned: BTreeMap<KubeletTask, Timestamp>,
    /// The pods (namespace, name, uid) that wait for config maps or secrets.
    unconfigured: BTreeSet<PodId>,
    /// The pods whose resize waits for room.
    deferred: BTreeSet<PodId>,
    next_address: u32,
    next_host: u32,
    /// Nodes whose kubelets did not work at the last heartbeat.
    stopped: BTreeSet<String>,
}

impl Kubelet {
    /// Plans a task, unless it is planned earlier.
    fn plan(&mut self, after: Duration, task: KubeletTask) {
        let at = self.agent.server().clock().now().checked_add(after).unwrap_or(Timestamp::MAX);
        if let Some(known) = self.planned.get(&task).copied() {
            if known <= at {
                return;
            }
            self.tasks.remove(&(known, task.clone()));
        }
        self.planned.insert(task.clone(), at);
        self.tasks.insert((at, task));
    }

    fn forget(&mut self, pod: &StoredObject) {
        self.scheduler.forget(pod.namespace(), pod.name());
        self.admitted.forget(&(pod.namespace().to_owned(), pod.name().to_owned()));
        self.unconfigured.remove(&id_of(pod));
        self.rejected.remove(&id_of(pod));
        self.deferred.remove(&id_of(pod));
        self.retry_resizes();
    }

    /// Looks again at the resizes that wait, since there may be room: `RetryPendingResizes`.
    fn retry_resizes(&mut self) {
        for (namespace, name, uid) in self.deferred.clone() {
            self.plan(Duration::ZERO, KubeletTask::Observe(namespace, name, uid));
        }
    }

    /// Looks again at the pods of a namespace that wait for config maps or secrets.
    fn see_configuration(&mut self, namespace: &str) {
        let waiting: Vec<_> = self.unconfigured.iter().filter(|(of, _, _)| of == namespace).cloned().collect();
        for (namespace, name, uid) in waiting {
            self.plan(Duration::ZERO, KubeletTask::Ready(namespace, name, uid));
        }
    }

    fn see_node(&mut self, node: &StoredObject) {
        self.scheduler.room_changed();
        if !self.nodes.contains_key(node.name()) {
            self.nodes.insert(node.name().to_owned(), false);
            self.record_node(node.name(), "Starting", "Starting kubelet.".to_owned());
            // Pods can be older than their node.
            for (namespace, name) in self.scheduler.pods_on(node.name()) {
                if let Some(pod) = self.agent.server().get(&ResourceId::new("", "pods"), &namespace, &name) {
                    self.see_pod(&pod);
                }
            }
        }
        self.plan(Duration::ZERO, KubeletTask::Heartbeat(node.name().to_owned()));
    }

    fn see_pod(&mut self, stored: &StoredObject) {
        let pod = self.agent.server().decoded(stored);
        self.scheduler.note(&pod);
        let id = id_of(stored);
        let action = pods::next_action(&pod);
        let is_known = self.admitted.has(&fit::key_of(&pod));
        if is_known || matches!(action, pods::PodAction::Run | pods::PodAction::Observe) {
            let gave_up = self.admitted.note(resize::allocated(&pod).as_ref().unwrap_or(&pod));
            if gave_up {
                self.retry_resizes();
            }
        }
        match action {
            pods::PodAction::Bind => self.scheduler.wait(&pod),
            pods::PodAction::Start if !is_known => self.arrive(id.clone()),
            pods::PodAction::Start => {
                self.plan(self.options.ready_after, KubeletTask::Ready(id.0.clone(), id.1.clone(), id.2.clone()));
            }
            pods::PodAction::Terminate { grace, sleep } => {
                let after = self.options.gone_after.saturating_add(sleep).min(grace);
                self.plan(after, KubeletTask::End(id.0.clone(), id.1.clone(), id.2.clone()));
            }
            pods::PodAction::Observe => {
                self.plan(Duration::ZERO, KubeletTask::Observe(id.0.clone(), id.1.clone(), id.2.clone()));
            }
            pods::PodAction::Run | pods::PodAction::None => {}
        }
        self.plan_exit(&pod, action, id);
    }

    /// Plans the next change of the pod's containers.
    fn plan_exit(&mut self, pod: &Value, action: pods::PodAction, (namespace, name, uid): PodId) {
        let now = self.agent.server().clock().now();
        if matches!(action, pods::PodAction::Start | pods::PodAction::Observe | pods::PodAction::Run)
            && let Some(due) = runs::next_change(pod, self.options.run_for, now)
        {
            self.plan(due.after, KubeletTask::Exit(namespace, name, uid));
        }
    }

    async fn work(&mut self) {
        let now = self.agent.server().clock().now();
        while self.tasks.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, task)) = self.tasks.pop_first() else { return };
            self.planned.remove(&task);
            let again = task.clone();
            match task {
                KubeletTask::Ready(namespace, name, uid) | KubeletTask::Observe(namespace, name, uid) => {
                    self.start((namespace, name, uid)).await;
                }
                KubeletTask::End(namespace, name, uid) => self.end(&namespace, &name, &uid).await,
                KubeletTask::Exit(namespace, name, uid) => self.exit((namespace, name, uid)).await,
                KubeletTask::Preempt(namespace, name, uid) => self.preempt((namespace, name, uid)).await,
                KubeletTask::Reject(namespace, name, uid) => self.reject((namespace, name, uid)).await,
                KubeletTask::Heartbeat(node) => {
                    if self.heartbeat(&node).await {
                        self.plan(self.options.heartbeat, KubeletTask::Heartbeat(node));
                    }
                }
            }
            if self.agent.take_refusal() && !matches!(again, KubeletTask::Heartbeat(_)) {
                self.plan(SYNC_PERIOD, again);
            }
        }
    }

    fn current(&self, namespace: &str, name: &str, uid: &str) -> Option<Value> {
        let stored = self.agent.server().get(&ResourceId::new("", "pods"), namespace, name)?;
        (stored.uid() == uid).then(|| self.agent.server().decoded(&stored))
    }

    fn node(&self, name: &str) -> Option<Value> {
        let stored = self.agent.server().get(&ResourceId::new("", "nodes"), "", name)?;
        Some(self.agent.server().decoded(&stored))
    }

    /// Returns true if the node exists and its kubelet works.
    fn node_works(&self, name: &str) -> bool {
        self.node(name).is_some_and(|node| !is_stopped(&node))
    }

    /// Returns the address of a node.
    fn host_address(&self, name: &str) -> String {
        let node = self.node(name);
        let address = node.as_ref().and_then(internal_address);
        address.unwrap_or("127.0.0.1").to_owned()
    }

    /// Takes or rejects the pods that came to their nodes, the oldest first: `HandlePodAdditions` in
    /// `pkg/kubelet/kubelet.go`.
    fn admit_arrivals(&mut self) {
        let arrivals = std::mem::take(&mut self.arrivals);
        let current = |id: &PodId| Some((self.current(&id.0, &id.1, &id.2)?, id.clone()));
        let mut pods: Vec<(Value, PodId)> = arrivals.iter().filter_map(current).collect();
        // Of those of the same second, the first that was bound comes first.
        let revision = |pod: &Value| metadata::resource_version(pod).parse::<u64>().unwrap_or(0);
        pods.sort_by_key(|(pod, _)| (metadata::text(pod, "creationTimestamp").to_owned(), revision(pod)));
        for (pod, id) in pods {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if pods::next_action(&pod) != pods::PodAction::Start || self.admitted.has(&fit::key_of(&pod)) {
                continue;
            }
            // The pods of others are seen again once their node is there, or its kubelet works.
            let Some(node) = self.node(node).filter(|node| !is_stopped(node)) else { continue };
            let decision =
                if admission::is_mirror(&pod) { Ok(Vec::new()) } else { admission::admit(&pod, &node, &self.admitted) };
            match decision {
                Ok(victims) => {
                    self.end_for(victims);
                    self.admitted.note(&pod);
                    self.plan(self.options.ready_after, KubeletTask::Ready(id.0, id.1, id.2));
                }
                Err(failure) => {
                    self.record(&pod, true, &failure.reason, failure.message.clone());
                    self.rejected.insert(id.clone(), failure);
                    self.plan(REJECTED_AFTER, KubeletTask::Reject(id.0, id.1, id.2));
                }
            }
        }
    }

    /// Notes a pod that came to its node, unless it is rejected already.
    fn arrive(&mut self, id: PodId) {
        if !self.rejected.contains_key(&id) {
            self.arrivals.push(id);
        }
    }

    /// Reports that a node does not take a pod.
    async fn reject(&mut self, id: PodId) {
        let Some(failure) = self.rejected.get(&id) else { return };
        let pod = self.current(&id.0, &id.1, &id.2).filter(|pod| pods::next_action(pod) == pods::PodAction::Start);
        if let Some(pod) = pod {
            let status = admission::rejected_status(&pod, failure, &rfc3339(self.agent.server().clock().now()));
            if !self.patch_status([&id.0, &id.1, &id.2], status).await {
                return;
            }
        }
        self.rejected.remove(&id);
    }

    /// Ends a pod for a critical one: `evictPodsToFreeRequests` in `pkg/kubelet/preemption/preemption.go`.
    async fn preempt(&mut self, id: PodId) {
        let Some(pod) = self.current(&id.0, &id.1, &id.2) else { return };
        let status = pods::preempted_status(&pod, &rfc3339(self.agent.server().clock().now()));
        if self.patch_status([&id.0, &id.1, &id.2], status).await {
            self.record(&pod, true, admission::PREEMPTING, admission::PREEMPTED.to_owned());
        }
    }

    /// Starts what can start of a pod, and reports what is new about it.
    async fn start(&mut self, id: PodId) {
        let Some(pod) = self.current(&id.0, &id.1, &id.2) else { return };
        if pods::next_action(&pod) == pods::PodAction::Start && !self.admitted.has(&fit::key_of(&pod)) {
            return self.arrive(id);
        }
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if matches!(pods::next_action(&pod), pods::PodAction::Start | pods::PodAction::Observe) && self.node_works(node)
        {
            self.sync(&id, &pod, &pod).await;
        }
    }

    /// Writes the status of a pod, which is `after` with what can start; nothing if that is its status already.
    async fn sync(&mut self, id: &PodId, pod: &Value, after: &Value) {
        let (namespace, name, uid) = id;
        let server = self.agent.server().clone();
        let has_address = pod["status"]["podIP"].is_string();
        let host = self.host_address(pod["spec"]["nodeName"].as_str().unwrap_or_default());
        let moment = rfc3339(server.clock().now());
        let resize = self.resize(id, pod, &moment);
        let kept = matches!(resize, Resize::Deferred(_)).then(|| resize::allocated(after)).flatten();
        let after = kept.as_ref().unwrap_or(after);
        let (mut status, unmounted) = {
            let lookup = |kind: config_refs::ConfigKind, name: &str| {
                let stored = server.get(&ResourceId::new("", kind.plural()), namespace, name)?;
                Some(server.decoded(&stored))
            };
            let unmounted = config_refs::unmounted(pod, &lookup);
            let address = match pod["status"]["podIP"].as_str() {
                Some(address) => address.to_owned(),
                None if pod["spec"]["hostNetwork"] == true => host.clone(),
                None if unmounted.is_empty() => self.address(),
                None => String::new(),
            };
            let runtime = pod_status::Runtime { missing_images: &self.options.missing_images, lookup: &lookup };
            (pod_status::synced(after, &runtime, (&address, &host), &moment), unmounted)
        };
        resize.add_conditions(&mut status);
        if config_refs::has_any(pod) && status["phase"] == "Pending" {
            self.unconfigured.insert(id.clone());
        } else {
            self.unconfigured.remove(id);
        }
        if pod_status::is_noop(pod, &status) {
            return;
        }
        if !has_address {
            for (volume, why) in unmounted {
                let message = format!("MountVolume.SetUp failed for volume {volume:?} : {why}");
                self.record(pod, true, "FailedMount", message);
            }
        }
        for replaced in restarts::planned(after) {
            let place = format!("spec.{}{{{}}}", replaced.list, replaced.container);
            self.record_about(pod, &place, false, "Killing", replaced.message);
        }
        if self.patch_status([namespace, name, uid], status).await {
            self.report_resize(pod, resize);
        }
    }

    /// Decides about the resize of a pod, if its spec asks for one.
    fn resize(&mut self, id: &PodId, pod: &Value, moment: &str) -> Resize {
        let known = || resize::without_conditions_of_resize(pod);
        if pod["status"]["phase"] != "Running" || resize::allocated(pod).is_none() {
            self.deferred.remove(id);
            return Resize::None(known());
        }
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let Some(node) = self.node(node) else { return Resize::None(Vec::new()) };
        let own = self.admitted.take(&fit::key_of(pod));
        let decision = admission::admit(pod, &node, &self.admitted);
        if let Some(own) = own {
            self.admitted.add(fit::key_of(pod), own);
        }
        match decision {
            Ok(victims) => {
                self.end_for(victims);
                self.admitted.note(pod);
                self.deferred.remove(id);
                self.retry_resizes();
                Resize::Done(known())
            }
            Err(failure) => {
                self.deferred.insert(id.clone());
                Resize::Deferred(resize::deferred(pod, &failure.message, moment))
            }
        }
    }

    /// Ends the pods that make room for a critical one.
    fn end_for(&mut self, victims: Vec<fit::PodKey>) {
        for (namespace, name) in victims {
            let stored = self.agent.server().get(&ResourceId::new("", "pods"), &namespace, &name);
            self.admitted.forget(&(namespace, name));
            if let Some((namespace, name, uid)) = stored.as_deref().map(id_of) {
                self.plan(Duration::ZERO, KubeletTask::Preempt(namespace, name, uid));
            }
        }
    }

    /// Records what has become of a resize.
    fn report_resize(&self, pod: &Value, resize: Resize) {
        match resize {
            Resize::None(_) | Resize::Deferred(None) => {}
            Resize::Done(_) => {
                for (reason, what) in [("ResizeStarted", "started"), ("ResizeCompleted", "completed")] {
                    self.record(pod, false, reason, resize::event_message(pod, what, ""));
                }
            }
            Resize::Deferred(Some(condition)) => {
                let why = condition["message"].as_str().unwrap_or_default();
                self.record(pod, true, "ResizeDeferred", resize::event_message(pod, "Deferred", why));
            }
        }
    }

    /// Changes the status of a pod (namespace, name, uid). Returns true if that worked.
    async fn patch_status(&self, [namespace, name, uid]: [&str; 3], status: Value) -> bool {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
        let patch = json!({"metadata": {"uid": uid}, "status": status});
        self.agent.patch(&path, STRATEGIC_PATCH, &patch).await.is_ok()
    }

    /// Records an event of the kubelet about a pod.
    fn record(&self, pod: &Value, warning: bool, reason: &str, message: String) {
        self.record_about(pod, "", warning, reason, message);
    }

    /// Records an event of the kubelet about a part of a pod, which is the path of a field; empty for all of it.
    fn record_about(&self, pod: &Value, place: &str, warning: bool, reason: &str, message: String) {
        let mut about = metadata::reference("v1", "Pod", pod);
        if !place.is_empty() {
            about["fieldPath"] = place.into();
        }
        let host = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let event = Event { host, warning, ..Event::new(about, "kubelet", reason, message) };
        self.agent.server().events().record(event);
    }

    /// Records an event of the kubelet about its node; there is no UID in it.
    fn record_node(&self, name: &str, reason: &str, message: String) {
        let about = json!({"apiVersion": "v1", "kind": "Node", "name": name});
        let event = Event { host: name.to_owned(), ..Event::new(about, "kubelet", reason, message) };
        self.agent.server().events().record(event);
    }

    /// Records what a kubelet says about the state of its node.
    fn record_node_status(&self, name: &str, state: &str) {
        self.record_node(name, state, format!("Node {name} status is now: {state}"));
    }

    /// Returns an address that no pod had before.
    fn address(&mut self) -> String {
        let [_, second, third, fourth] = self.next_address.to_be_bytes();
        self.next_address += 1;
        format!("10.{second}.{third}.{fourth}")
    }

    /// Ends or restarts the containers of a pod that are due.
    async fn exit(&mut self, id: PodId) {
        let Some(pod) = self.current(&id.0, &id.1, &id.2) else { return };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let action = pods::next_action(&pod);
        let is_active = matches!(action, pods::PodAction::Start | pods::PodAction::Observe | pods::PodAction::Run);
        let now = self.agent.server().clock().now();
        let due = runs::next_change(&pod, self.options.run_for, now).filter(|_| is_active);
        let Some(due) = due.filter(|_| self.node_works(node)) else { return };
        if due.after >= Duration::from_secs(1) {
            return self.plan(due.after, KubeletTask::Exit(id.0, id.1, id.2));
        }
        let moment = rfc3339(now);
        if !due.is_deadline {
            let after = pod_status::changed(&pod, self.options.run_for, now, &moment);
            return self.sync(&id, &pod, &after).await;
        }
        if self.patch_status([&id.0, &id.1, &id.2], pods::overdue_status(&pod, &moment)).await {
            self.record(&pod, false, "DeadlineExceeded", pods::OVERDUE.to_owned());
        }
    }

    async fn end(&mut self, namespace: &str, name: &str, uid: &str) {
        let Some(pod) = self.current(namespace, name, uid) else { return };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if !matches!(pods::next_action(&pod), pods::PodAction::Terminate { .. }) || !self.node_works(node) {
            return;
        }
        if let Some(status) = pods::killed_status(&pod, &rfc3339(self.agent.server().clock().now())) {
            if !self.patch_status([namespace, name, uid], status).await {
                return;
            }
        } else if pod["metadata"]["deletionGracePeriodSeconds"] == 0 {
            // Only finalizers keep it.
            return;
        }
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
        self.agent.delete(&format!("/api/v1/namespaces/{namespace}/pods/{name}"), Some(&options)).await;
    }

    /// Renews a node's lease and makes the node Ready. Returns false if the node does not exist.
    async fn heartbeat(&mut self, name: &str) -> bool {
        let server = self.agent.server();
        let Some(stored) = server.get(&ResourceId::new("", "nodes"), "", name) else { return false };
        let node = server.decoded(&stored);
        if is_stopped(&node) {
            self.stopped.insert(name.to_owned());
            return true;
        }
        let now = server.clock().now();
        let moment = rfc3339(now);
        self.next_host = self.next_host.max(host_number(&node).map_or(0, |number| number + 1));
        let ready = node["status"]["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Ready");
        if ready.is_none_or(|condition| condition["status"] != "True") {
            let version = server.config().git_version();
            let mut status = node_status(&node, &moment, version);
            if internal_address(&node).is_none() {
                let address = Ipv4Addr::from(self.next_host);
                self.next_host += 1;
                status["addresses"] = json!([{"type": "InternalIP", "address": address.to_string()}, {"type": "Hostname", "address": name}]);
            }
            let path = format!("/api/v1/nodes/{name}/status");
            if self.agent.patch(&path, STRATEGIC_PATCH, &json!({"status": status})).await.is_ok() {
                for state in new_states(&node) {
                    self.record_node_status(name, state);
                }
            }
        } else if let Some(status) = repeated(&node, now) {
            self.agent
                .patch(&format!("/api/v1/nodes/{name}/status"), STRATEGIC_PATCH, &json!({"status": status}))
                .await;
        }
        let is_cordoned = node["spec"]["unschedulable"] == true;
        if self.nodes.get(name).is_some_and(|known| *known != is_cordoned) {
            self.nodes.insert(name.to_owned(), is_cordoned);
            self.record_node_status(name, if is_cordoned { "NodeNotSchedulable" } else { "NodeSchedulable" });
        }
        self.lift_not_ready(name, &node).await;
        self.renew_lease(name, stored.uid(), now).await;
        if self.stopped.remove(name) {
            self.resume(name).await;
        }
        true
    }

    /// Does what the pods of a node need whose kubelet works again.
    async fn resume(&mut self, node: &str) {
        let server = self.agent.server().clone();
        for stored in server.list(&ResourceId::new("", "pods"), None) {
            if stored.field("spec.nodeName") != Some(node) {
                continue;
            }
            if let Some(status) = pods::ready_again(&server.decoded(&stored), &rfc3339(server.clock().now())) {
                self.patch_status([stored.namespace(), stored.name(), stored.uid()], status).await;
            }
            self.see_pod(&stored);
        }
    }

    /// Removes the taint that the admission plugin `TaintNodesByCondition` gives to new nodes. In a cluster the node
    /// lifecycle controller does it as soon as the node is Ready.
    async fn lift_not_ready(&self, name: &str, node: &Value) {
        let taints = node["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice);
        let is_lifted = |taint: &&Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
        if !taints.iter().any(|taint| is_lifted(&taint)) {
            return;
        }
        let left: Vec<Value> = taints.iter().filter(|taint| !is_lifted(taint)).cloned().collect();
        let patch = json!({"metadata": {"uid": metadata::uid(node)}, "spec": {"taints": left}});
        self.agent.patch(&format!("/api/v1/nodes/{name}"), MERGE_PATCH, &patch).await;
    }

    async fn renew_lease(&self, name: &str, uid: &str, now: Timestamp) {
        const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let renewed = format!("{now:.6}");
        let exists = self
            .agent
            .server()
            .get(&ResourceId::new("coordination.k8s.io", "leases"), "kube-node-lease", name)
            .is_some();
        if exists {
            let patch = json!({"spec": {"renewTime": renewed}});
            self.agent.patch(&format!("{LEASES}/{name}"), STRATEGIC_PATCH, &patch).await;
            return;
        }
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}});
        self.agent.create(LEASES, &lease).await;
    }
}

/// Returns true if the kubelet of a node is stopped by an annotation: it sends no heartbeats and does nothing for pods.
fn is_stopped(node: &Value) -> bool {
    metadata::annotation(node, KUBELET) == Some("stopped")
}

/// Returns the address of a node in the cluster.
fn internal_address(node: &Value) -> Option<&str> {
    let mut addresses = node["status"]["addresses"].as_array()?.iter();
    addresses.find(|address| address["type"] == "InternalIP")?["address"].as_str()
}

/// Returns the address of a node as a number, if it is one of ours.
fn host_number(node: &Value) -> Option<u32> {
    let number = u32::from(internal_address(node)?.parse::<Ipv4Addr>().ok()?);
    (number >> 16 == FIRST_HOST >> 16).then_some(number)
}
