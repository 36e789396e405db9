//! Node lifecycle, optional: the taint of a cordon, the taints of conditions, older labels, and what happens to nodes
//! whose kubelets stop sending heartbeats. Their conditions become `Unknown`, their pods not ready, and they get the
//! taints after which pods are evicted.
//!
//! Follows `pkg/controller/nodelifecycle/node_lifecycle_controller.go` of Kubernetes 1.36, with its default periods and
//! rates. The node and its lease are read at the moment of the decision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::backoff::Retries;
use crate::controllers::{ControllerClient, MERGE_PATCH, STRATEGIC_PATCH, WatchMux, WatchSet};
use crate::event_sink::Event;
use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::object_lifecycle::rfc3339;
use crate::registry::conditions;
use crate::server::ApiServer;
use crate::store::ResourceId;

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The taints of conditions: type, status, taint (`nodeConditionToTaintKeyStatusMap`).
const CONDITION_TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Labels of nodes, each with the older one that has the same value (`labelReconcileInfo`).
const OLDER_LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// The conditions that become unknown without heartbeats.
const WATCHED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// `--node-monitor-period`.
const MONITOR_PERIOD: Duration = Duration::from_secs(5);
/// `--node-monitor-grace-period`.
const MONITOR_GRACE: Duration = Duration::from_secs(50);
/// `--node-startup-grace-period`.
const STARTUP_GRACE: Duration = Duration::from_mins(1);
/// Time between two nodes of a zone that get a taint: `--node-eviction-rate=0.1`.
const EVICTION_PAUSE: Duration = Duration::from_secs(10);
/// The same in large zones most of whose nodes are unhealthy: `--secondary-node-eviction-rate=0.01`.
const SECONDARY_PAUSE: Duration = Duration::from_secs(100);
/// `--large-cluster-size-threshold`.
const LARGE_ZONE: usize = 50;

/// The last sign of life of a node.
struct NodeHealth {
    probe: Timestamp,
    heartbeat: String,
    has_ready: bool,
    lease: String,
}

/// The health of a zone: `ComputeZoneState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZoneState {
    Normal,
    Partial,
    Full,
}

impl ZoneState {
    fn of(ready: usize, unready: usize) -> Self {
        match (ready, unready) {
            (0, 1..) => Self::Full,
            // 55 %: `--unhealthy-zone-threshold`.
            (_, 3..) if unready * 100 >= (ready + unready) * 55 => Self::Partial,
            _ => Self::Normal,
        }
    }

    /// Returns the time between two nodes of a zone of this size that get a taint; `None` if none do.
    fn pause(self, size: usize) -> Option<Duration> {
        match self {
            Self::Normal | Self::Full => Some(EVICTION_PAUSE),
            Self::Partial if size > LARGE_ZONE => Some(SECONDARY_PAUSE),
            Self::Partial => None,
        }
    }
}

/// Watches the nodes. Never returns.
pub async fn watch_node_health(server: ApiServer) {
    let nodes = ResourceId::new("", "nodes");
    let mut feed = WatchMux::new(&server, WatchSet::Resources(vec![nodes.clone()]));
    let mut monitor = Monitor {
        agent: ControllerClient::new(&server, "plumbline/node-controller"),
        health: BTreeMap::new(),
        known: BTreeMap::new(),
        last_taint: BTreeMap::new(),
        all_down: false,
        unmarked: BTreeSet::new(),
    };
    let mut retries: Retries<String> = Retries::default();
    let mut next_check: Option<Timestamp> = None;
    loop {
        let changes = feed.next_until(retries.next().into_iter().chain(next_check).min()).await;
        let now = server.clock().now();
        let mut due: BTreeSet<String> = retries.due(now);
        for (_, change) in changes {
            let is_gone = change.is_deletion();
            for node in change.objects() {
                if is_gone {
                    monitor.health.remove(node.name());
                    monitor.unmarked.remove(node.name());
                } else {
                    due.insert(node.name().to_owned());
                }
            }
        }
        for name in due {
            monitor.update_labels(&name).await;
            monitor.taint_by_conditions(&name).await;
            let refused = monitor.agent.take_refusal();
            retries.settle(&name, refused, now);
        }
        if next_check.is_none_or(|at| at <= now) {
            let present: BTreeMap<String, String> =
                server.list(&nodes, None).iter().map(|node| (node.name().to_owned(), node.uid().to_owned())).collect();
            let names: Vec<String> = present.keys().cloned().collect();
            let is_any_known = !monitor.known.is_empty();
            monitor.classify(&present);
            monitor.check(&names).await;
            // What was refused is tried at the next check.
            monitor.agent.take_refusal();
            next_check =
                (is_any_known || !names.is_empty()).then(|| now.checked_add(MONITOR_PERIOD).unwrap_or(Timestamp::MAX));
        }
    }
}

struct Monitor {
    agent: ControllerClient,
    health: BTreeMap<String, NodeHealth>,
    /// The nodes at the last check: name and UID.
    known: BTreeMap<String, String>,
    /// The time at which a node of a zone got a taint.
    last_taint: BTreeMap<String, Timestamp>,
    /// All nodes were unhealthy at the last check.
    all_down: bool,
    /// The nodes with pods that could not be reported as not ready: `nodesToRetry`.
    unmarked: BTreeSet<String>,
}

impl Monitor {
    /// Records Events about nodes that came and went since the last check: `classifyNodes`. A node that has the name of
    /// an earlier one is the same.
    fn classify(&mut self, present: &BTreeMap<String, String>) {
        let absent_in = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| -> Vec<(String, String)> {
            let absent = one.iter().filter(|(name, _)| !other.contains_key(*name));
            absent.map(|(name, uid)| (name.clone(), uid.clone())).collect()
        };
        let added = absent_in(present, &self.known);
        let removed = absent_in(&self.known, present);
        for (name, uid) in &added {
            self.record(
                name,
                uid,
                "RegisteredNode",
                format!("Node {name} event: Registered Node {name} in Controller"),
            );
        }
        for (name, uid) in &removed {
            self.record(name, uid, "RemovingNode", format!("Node {name} event: Removing Node {name} from Controller"));
            self.known.remove(name);
        }
        self.known.extend(added);
    }

    /// Records an event about a node.
    fn record(&self, name: &str, uid: &str, reason: &str, message: String) {
        let about = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
        self.agent.server().events().record(Event::new(about, "node-controller", reason, message));
    }

    fn node(&self, name: &str) -> Option<Value> {
        let stored = self.agent.server().get(&ResourceId::new("", "nodes"), "", name)?;
        Some(self.agent.server().decoded(&stored))
    }

    /// Gives a node the older labels of its operating system and architecture: `reconcileNodeLabels`.
    async fn update_labels(&self, name: &str) {
        let Some(node) = self.node(name) else { return };
        let mut patch = json!({"metadata": {"uid": metadata::uid(&node)}});
        let mut is_changed = false;
        for (label, older) in OLDER_LABELS {
            if let Some(value) =
                metadata::label(&node, label).filter(|value| metadata::label(&node, older) != Some(*value))
            {
                metadata::set_label(&mut patch, older, value);
                is_changed = true;
            }
        }
        if is_changed {
            self.agent.patch(&format!("/api/v1/nodes/{name}"), STRATEGIC_PATCH, &patch).await;
        }
    }

    /// Gives a node the taints `NoSchedule` of its conditions and of a cordon, and takes those of others:
    /// `doNoScheduleTaintingPass`.
    async fn taint_by_conditions(&self, name: &str) {
        let Some(node) = self.node(name) else { return };
        let conditions = array_field(&node["status"], "conditions");
        let holds =
            |kind: &str, status: &str| conditions.iter().any(|one| one["type"] == kind && one["status"] == status);
        let mut wanted: Vec<&str> = CONDITION_TAINTS
            .iter()
            .filter(|(kind, status, _)| holds(kind, status))
            .map(|(_, _, taint)| *taint)
            .collect();
        if node["spec"]["unschedulable"] == true {
            wanted.push(UNSCHEDULABLE);
        }
        let known: Vec<&str> = CONDITION_TAINTS.iter().map(|(_, _, taint)| *taint).chain([UNSCHEDULABLE]).collect();
        let unwanted: Vec<&str> = known.into_iter().filter(|taint| !wanted.contains(taint)).collect();
        self.swap_taints(&node, &wanted, &unwanted, "NoSchedule").await;
    }

    /// Adds and removes taints of an effect; nothing is written if nothing changes: `SwapNodeControllerTaint`.
    async fn swap_taints(&self, node: &Value, wanted: &[&str], unwanted: &[&str], effect: &str) {
        let before = array_field(&node["spec"], "taints");
        let is_unwanted = |taint: &Value| taint["effect"] == effect && unwanted.iter().any(|key| taint["key"] == *key);
        let mut after: Vec<Value> = before.iter().filter(|taint| !is_unwanted(taint)).cloned().collect();
        let moment = rfc3339(self.agent.server().clock().now());
        for key in wanted.iter().filter(|key| !has_taint(node, key, effect)) {
            after.push(json!({"key": key, "effect": effect, "timeAdded": moment}));
        }
        if after == before {
            return;
        }
        let metadata = json!({"uid": metadata::uid(node), "resourceVersion": metadata::resource_version(node)});
        let patch = json!({"metadata": metadata, "spec": {"taints": after}});
        self.agent.patch(&format!("/api/v1/nodes/{}", metadata::name(node)), MERGE_PATCH, &patch).await;
    }

    /// Looks for nodes without heartbeats, and gives unhealthy nodes the taints that evict: `monitorNodeHealth` and
    /// `doNoExecuteTaintingPass`.
    async fn check(&mut self, names: &[String]) {
        let mut zones: BTreeMap<String, Vec<(String, bool)>> = BTreeMap::new();
        for name in names {
            self.update_health(name).await;
            let Some(node) = self.node(name) else { continue };
            let is_ready = condition(&node, "Ready").is_some_and(|ready| ready["status"] == "True");
            if is_ready {
                self.swap_taints(&node, &[], &[NOT_READY, UNREACHABLE], "NoExecute").await;
            }
            if !is_excluded(&node) {
                zones.entry(zone_of(&node)).or_default().push((name.clone(), is_ready));
            }
        }
        let states: BTreeMap<&String, ZoneState> = zones
            .iter()
            .map(|(zone, nodes)| {
                let ready = nodes.iter().filter(|(_, is_ready)| *is_ready).count();
                (zone, ZoneState::of(ready, nodes.len() - ready))
            })
            .collect();
        let all_down = !states.is_empty() && states.values().all(|state| *state == ZoneState::Full);
        if all_down {
            // The fault may be in this controller: no pod is evicted.
            for name in names {
                if let Some(node) = self.node(name) {
                    self.swap_taints(&node, &[], &[NOT_READY, UNREACHABLE], "NoExecute").await;
                }
            }
        } else if self.all_down {
            let now = self.agent.server().clock().now();
            self.health.values_mut().for_each(|health| health.probe = now);
        } else {
            for (zone, nodes) in &zones {
                let pause = states.get(zone).and_then(|state| state.pause(nodes.len()));
                self.evict(zone, nodes, pause).await;
            }
        }
        self.all_down = all_down;
    }

    /// Gives unhealthy nodes of a zone the taint that evicts, one node per pause.
    async fn evict(&mut self, zone: &str, nodes: &[(String, bool)], pause: Option<Duration>) {
        for (name, _) in nodes.iter().filter(|(_, is_ready)| !is_ready) {
            let Some(node) = self.node(name) else { continue };
            let Some(ready) = condition(&node, "Ready") else { continue };
            let (wanted, opposite) =
                if ready["status"] == "Unknown" { (UNREACHABLE, NOT_READY) } else { (NOT_READY, UNREACHABLE) };
            // A node that has one of the two is not a new one.
            if has_taint(&node, wanted, "NoExecute") || has_taint(&node, opposite, "NoExecute") {
                self.swap_taints(&node, &[wanted], &[opposite], "NoExecute").await;
                continue;
            }
            let now = self.agent.server().clock().now();
            let last = self.last_taint.get(zone).copied();
            let may = pause.is_some_and(|pause| last.is_none_or(|at| now.duration_since(at).unsigned_abs() >= pause));
            if may {
                self.last_taint.insert(zone.to_owned(), now);
                self.swap_taints(&node, &[wanted], &[], "NoExecute").await;
            }
        }
    }

    /// Makes the conditions of a node unknown if its kubelet has sent nothing for too long: `tryUpdateNodeHealth`.
    async fn update_health(&mut self, name: &str) {
        let Some(node) = self.node(name) else { return };
        let server = self.agent.server();
        let now = server.clock().now();
        let lease = server.get(&ResourceId::new("coordination.k8s.io", "leases"), "kube-node-lease", name);
        let lease = lease.map(|lease| str_field(&server.decoded(&lease)["spec"], "renewTime").to_owned());
        let lease = lease.unwrap_or_default();
        let ready = condition(&node, "Ready");
        let heartbeat = ready.map_or("", |ready| str_field(ready, "lastHeartbeatTime")).to_owned();
        let created = metadata::text(&node, "creationTimestamp").parse().unwrap_or(now);
        let first = NodeHealth {
            probe: if ready.is_some() { now } else { created },
            heartbeat: heartbeat.clone(),
            has_ready: ready.is_some(),
            lease: String::new(),
        };
        let health = self.health.entry(name.to_owned()).or_insert(first);
        if health.heartbeat != heartbeat || health.has_ready != ready.is_some() {
            health.heartbeat = heartbeat;
            health.has_ready = ready.is_some();
            health.probe = now;
        }
        if health.lease < lease {
            health.lease = lease;
            health.probe = now;
        }
        let grace = if ready.is_some() { MONITOR_GRACE } else { STARTUP_GRACE };
        let is_silent = now.duration_since(health.probe).unsigned_abs() > grace;
        let was_ready = ready.is_some_and(|ready| ready["status"] == "True");
        let mut marks = !was_ready && self.unmarked.contains(name);
        if is_silent && ready.is_none_or(|ready| ready["status"] != "Unknown") {
            marks = self.lose(&node).await && (was_ready || marks);
            if marks && was_ready {
                let message = format!("Node {name} status is now: NodeNotReady");
                self.record(name, metadata::uid(&node), "NodeNotReady", message);
            }
        }
        if marks && !self.mark_pods(name).await {
            self.unmarked.insert(name.to_owned());
        } else if marks || was_ready && !is_silent {
            self.unmarked.remove(name);
        }
    }

    /// Reports a node whose kubelet is silent. Returns false if that was refused.
    async fn lose(&self, node: &Value) -> bool {
        let name = metadata::name(node);
        let server = self.agent.server();
        let moment = rfc3339(server.clock().now());
        let conditions: Vec<Value> = WATCHED
            .iter()
            .filter_map(|kind| match condition(node, kind) {
                None => Some(json!({"type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.", "lastTransitionTime": moment,
                    "lastHeartbeatTime": metadata::text(node, "creationTimestamp")})),
                Some(known) if known["status"] == "Unknown" => None,
                Some(_) => Some(json!({"type": kind, "status": "Unknown", "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.", "lastTransitionTime": moment})),
            })
            .collect();
        let patch = json!({"metadata": {"uid": metadata::uid(node)}, "status": {"conditions": conditions}});
        let path = format!("/api/v1/nodes/{name}/status");
        self.agent.patch(&path, STRATEGIC_PATCH, &patch).await.is_ok()
    }

    /// Reports the pods of a silent kubelet as not ready: `MarkPodsNotReady`. Returns false if one of them was refused.
    async fn mark_pods(&self, node: &str) -> bool {
        let server = self.agent.server();
        let moment = rfc3339(server.clock().now());
        let mut all = true;
        for pod in server.list(&ResourceId::new("", "pods"), None) {
            if pod.field("spec.nodeName") == Some(node) {
                all &= self.mark_pod(&server.decoded(&pod), &moment).await;
            }
        }
        all
    }

    /// Reports a pod as not ready, unless it is not. Returns false if that was refused.
    async fn mark_pod(&self, pod: &Value, moment: &str) -> bool {
        if condition(pod, "Ready").is_none_or(|ready| ready["status"] == "False") {
            return true;
        }
        let namespace = metadata::namespace(pod);
        let name = metadata::name(pod);
        let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": moment});
        let patch = json!({"metadata": {"uid": metadata::uid(pod)}, "status": {"conditions": [ready]}});
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
        let reply = self.agent.patch(&path, STRATEGIC_PATCH, &patch).await;
        if reply.code != 404 {
            let about = json!({"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name,
                "uid": metadata::uid(pod)});
            let event = Event::warning(about, "node-controller", "NodeNotReady", "Node is not ready".to_owned());
            self.agent.server().events().record(event);
        }
        reply.is_ok() || reply.code == 404
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions::find(&object["status"], kind)
}

fn has_taint(node: &Value, key: &str, effect: &str) -> bool {
    array_field(&node["spec"], "taints").iter().any(|taint| taint["key"] == key && taint["effect"] == effect)
}

/// Returns true for nodes that do not count in the health of their zone: `isNodeExcludedFromDisruptionChecks`.
fn is_excluded(node: &Value) -> bool {
    metadata::labels(node).is_some_and(|labels| labels.get("node.kubernetes.io/exclude-disruption").is_some())
}

/// Returns region and zone of a node.
fn zone_of(node: &Value) -> String {
    let label = |key: &str| {
        let labels = metadata::labels(node);
        labels.and_then(|labels| labels.get(key)?.as_str()).unwrap_or_default().to_owned()
    };
    format!("{}:\0:{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::kubelet::{self, KubeletOptions};
    use crate::loop_tests::refuse;
    use crate::{AdmissionPlugin, ApiServerConfig};

    /// `TestComputeZoneState` and the functions for its rates.
    #[rstest]
    #[case(0, 0, ZoneState::Normal, 1, Some(10))]
    #[case(0, 1, ZoneState::Full, 1, Some(10))]
    #[case(1, 2, ZoneState::Normal, 3, Some(10))]
    #[case(2, 3, ZoneState::Partial, 5, None)]
    #[case(3, 3, ZoneState::Normal, 6, Some(10))]
    #[case(20, 40, ZoneState::Partial, 60, Some(100))]
    fn zones(
        #[case] ready: usize,
        #[case] unready: usize,
        #[case] expected: ZoneState,
        #[case] size: usize,
        #[case] pause: Option<u64>,
    ) {
        let state = ZoneState::of(ready, unready);
        assert_eq!((state, state.pause(size)), (expected, pause.map(Duration::from_secs)));
    }

    fn node(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    }

    /// Returns a server with the loop, kubelets and these nodes.
    async fn cluster(nodes: &[&str]) -> (ApiServer, ControllerClient) {
        let mut config = ApiServerConfig::new(Clock::virtual_from(epoch()));
        config.disabled.retain(|plugin| *plugin == AdmissionPlugin::ServiceAccount);
        let server = ApiServer::new(config);
        tokio::spawn(watch_node_health(server.clone()));
        tokio::spawn(kubelet::run(server.clone(), KubeletOptions::default()));
        let client = ControllerClient::new(&server, "user");
        for name in nodes {
            assert!(client.create("/api/v1/nodes", &node(name)).await.is_ok());
        }
        settle().await;
        (server, client)
    }

    fn taints(server: &ApiServer, name: &str) -> Vec<String> {
        let node = server.get(&ResourceId::new("", "nodes"), "", name).expect("a node").value();
        let show = |taint: &Value| format!("{}:{}", str_field(taint, "key"), str_field(taint, "effect"));
        array_field(&node["spec"], "taints").iter().map(show).collect()
    }

    async fn annotate(client: &ControllerClient, name: &str, value: Value) {
        let patch = json!({"metadata": {"annotations": {"plumbline.dev/kubelet": value}}});
        assert!(client.patch(&format!("/api/v1/nodes/{name}"), MERGE_PATCH, &patch).await.is_ok());
    }

    #[test]
    fn a_cordon_is_a_taint() {
        run_virtual(async {
            let (server, client) = cluster(&["n1"]).await;
            assert_eq!(taints(&server, "n1"), [""; 0]);
            for (unschedulable, expected) in
                [(true, vec!["node.kubernetes.io/unschedulable:NoSchedule"]), (false, vec![])]
            {
                let patch = json!({"spec": {"unschedulable": unschedulable}});
                assert!(client.patch("/api/v1/nodes/n1", MERGE_PATCH, &patch).await.is_ok());
                settle().await;
                assert_eq!(taints(&server, "n1"), expected);
            }
        })
        .unwrap();
    }

    /// As `TestReconcileNodeLabels` in `node_lifecycle_controller_test.go`.
    #[test]
    fn older_labels_follow_the_present_ones() {
        run_virtual(async {
            let (server, client) = cluster(&[]).await;
            let mut one = node("n1");
            one["metadata"]["labels"] = json!({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows",
                "kubernetes.io/arch": "amd64"});
            assert!(client.create("/api/v1/nodes", &one).await.is_ok());
            settle().await;
            let found = server.get(&ResourceId::new("", "nodes"), "", "n1").expect("a node").value();
            let labels = OLDER_LABELS.map(|(_, older)| metadata::label(&found, older));
            assert_eq!(labels, [Some("linux"), Some("amd64")]);
        })
        .unwrap();
    }

    /// 50 s after the last heartbeat the node is unknown; its pods are not ready; it gets both taints, and loses them
    /// when the kubelet is back.
    #[test]
    fn a_silent_node_is_unreachable() {
        run_virtual(async {
            let (server, client) = cluster(&["n1", "n2"]).await;
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}});
            assert!(client.create("/api/v1/namespaces/default/pods", &pod).await.is_ok());
            server.clock().sleep(Duration::from_secs(20)).await;
            settle().await;
            let ready = || {
                let pod = server.get(&ResourceId::new("", "pods"), "default", "p").expect("a pod").value();
                condition(&pod, "Ready").map(|ready| ready["status"].clone())
            };
            assert_eq!(ready(), Some(json!("True")));
            annotate(&client, "n1", json!("stopped")).await;
            server.clock().sleep(Duration::from_secs(45)).await;
            settle().await;
            assert_eq!(taints(&server, "n1"), [""; 0]);
            server.clock().sleep(Duration::from_secs(20)).await;
            settle().await;
            let mut expected =
                ["node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"];
            let mut found = taints(&server, "n1");
            found.sort();
            expected.sort_unstable();
            assert_eq!(found, expected);
            assert_eq!(ready(), Some(json!("False")));
            let node = server.get(&ResourceId::new("", "nodes"), "", "n1").expect("a node").value();
            let condition = condition(&node, "Ready").expect("a condition");
            assert_eq!(condition["message"], "Kubelet stopped posting node status.");
            assert_eq!(taints(&server, "n2"), [""; 0]);

            annotate(&client, "n1", Value::Null).await;
            server.clock().sleep(Duration::from_secs(20)).await;
            settle().await;
            assert_eq!(taints(&server, "n1"), [""; 0]);
            assert_eq!(ready(), Some(json!("True")));
        })
        .unwrap();
    }

    /// `nodesToRetry` in `pkg/controller/nodelifecycle/node_lifecycle_controller.go`.
    #[test]
    fn pods_that_could_not_be_reported_are_reported_later() {
        run_virtual(async {
            let (server, client) = cluster(&["n1", "n2"]).await;
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"nodeName": "n1", "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "c", "image": "i"}]}});
            assert!(client.create("/api/v1/namespaces/default/pods", &pod).await.is_ok());
            server.clock().sleep(Duration::from_secs(20)).await;
            let ready = || {
                let pod = server.get(&ResourceId::new("", "pods"), "default", "p").expect("a pod").value();
                condition(&pod, "Ready").map(|ready| ready["status"].clone())
            };
            assert_eq!(ready(), Some(json!("True")));
            let on = serde_json::json!({"userAgent": "node-controller", "resource": "pods"});
            refuse(&server, &on, Some(2), 500);
            annotate(&client, "n1", json!("stopped")).await;
            server.clock().sleep(Duration::from_secs(80)).await;
            assert_eq!((server.faults().hits("refused"), ready()), (2, Some(json!("False"))));
        })
        .unwrap();
    }

    /// None is evicted where no node answers.
    #[test]
    fn no_pod_is_evicted_where_all_nodes_are_silent() {
        run_virtual(async {
            let (server, client) = cluster(&["n1"]).await;
            annotate(&client, "n1", json!("stopped")).await;
            server.clock().sleep(Duration::from_mins(5)).await;
            settle().await;
            assert_eq!(taints(&server, "n1"), ["node.kubernetes.io/unreachable:NoSchedule"]);
        })
        .unwrap();
    }

    /// One node per ten seconds.
    #[test]
    fn nodes_are_evicted_one_after_the_other() {
        run_virtual(async {
            let names = ["n1", "n2", "n3", "n4", "n5"];
            let (server, client) = cluster(&names).await;
            for name in &names[..2] {
                annotate(&client, name, json!("stopped")).await;
            }
            let evicted =
                || names.iter().filter(|name| taints(&server, name).iter().any(|t| t.ends_with("NoExecute"))).count();
            server.clock().sleep(Duration::from_secs(66)).await;
            settle().await;
            assert_eq!(evicted(), 1);
            server.clock().sleep(Duration::from_secs(12)).await;
            settle().await;
            assert_eq!(evicted(), 2);
        })
        .unwrap();
    }

    /// Returns the Events of nodes: source, reason, message.
    fn events(server: &ApiServer) -> Vec<String> {
        let all = server.list(&ResourceId::new("", "events"), None);
        let mut shown: Vec<String> = all
            .iter()
            .map(|stored| stored.value())
            .filter(|event| event["involvedObject"]["kind"] == "Node")
            .map(|event| {
                let source = str_field(&event["source"], "component");
                format!("{source} {}: {}", str_field(&event, "reason"), str_field(&event, "message"))
            })
            .collect();
        shown.sort();
        shown
    }

    /// Events of `monitorNodeHealth`, and of the setters in `pkg/kubelet/nodestatus/setters.go`.
    #[test]
    fn nodes_have_events() {
        run_virtual(async {
            let (server, client) = cluster(&[]).await;
            tokio::spawn(crate::events::publish_events(server.clone()));
            settle().await;
            assert!(client.create("/api/v1/nodes", &node("n1")).await.is_ok());
            server.clock().sleep(Duration::from_secs(6)).await;
            settle().await;
            let begin = [
                "kubelet NodeHasNoDiskPressure: Node n1 status is now: NodeHasNoDiskPressure",
                "kubelet NodeHasSufficientMemory: Node n1 status is now: NodeHasSufficientMemory",
                "kubelet NodeHasSufficientPID: Node n1 status is now: NodeHasSufficientPID",
                "kubelet NodeReady: Node n1 status is now: NodeReady",
                "kubelet Starting: Starting kubelet.",
                "node-controller RegisteredNode: Node n1 event: Registered Node n1 in Controller",
            ];
            assert_eq!(events(&server), begin);
            let cordon = json!({"spec": {"unschedulable": true}});
            assert!(client.patch("/api/v1/nodes/n1", MERGE_PATCH, &cordon).await.is_ok());
            server.clock().sleep(Duration::from_secs(20)).await;
            assert!(client.delete("/api/v1/nodes/n1", None).await.is_ok());
            server.clock().sleep(Duration::from_secs(6)).await;
            settle().await;
            let end: Vec<String> = events(&server).into_iter().filter(|line| !begin.contains(&line.as_str())).collect();
            assert_eq!(
                end,
                [
                    "kubelet NodeNotSchedulable: Node n1 status is now: NodeNotSchedulable",
                    "node-controller RemovingNode: Node n1 event: Removing Node n1 from Controller",
                ]
            );
        })
        .unwrap();
    }
}
