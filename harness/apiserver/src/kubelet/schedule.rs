//! The scheduler: binds pods to nodes round-robin. Of kube-scheduler's filters it has those of the module `filters` and
//! that of host ports: see `nodeports` in `pkg/scheduler/framework/plugins`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::filters::takes;
use crate::backoff::{Delays, Retries};
use crate::controllers::ControllerClient;
use crate::json::{Value, json};
use crate::metadata;
use crate::server::ApiServer;
use crate::store::ResourceId;

/// The pods that wait for a node.
pub(super) struct Scheduler {
    server: ApiServer,
    waiting: BTreeMap<(String, String), Value>,
    turn: usize,
    try_all: bool,
    fresh: Vec<(String, String)>,
    /// The pods whose binding was refused.
    retries: Retries<(String, String)>,
}

/// Delays of the scheduler's queue: `DefaultPodInitialBackoffDuration` and `DefaultPodMaxBackoffDuration` of
/// `pkg/scheduler/backend/queue/scheduling_queue.go`.
const RETRIES: Delays = Delays(Duration::from_secs(1), Duration::from_secs(10));

impl Scheduler {
    pub(super) fn new(server: &ApiServer) -> Self {
        Self {
            server: server.clone(),
            waiting: BTreeMap::new(),
            turn: 0,
            try_all: false,
            fresh: Vec::new(),
            retries: Retries::with(RETRIES),
        }
    }

    /// Queues a pod without a node.
    pub(super) fn wait(&mut self, pod: &Value) {
        let key = (metadata::namespace(pod).to_owned(), metadata::name(pod).to_owned());
        if self.waiting.insert(key.clone(), pod.clone()).is_none() {
            self.fresh.push(key);
        }
    }

    /// Retries all waiting pods in the next round, since nodes have changed or a pod has gone.
    pub(super) fn room_changed(&mut self) {
        self.try_all = true;
    }

    /// Returns the time at which a refused binding is tried again.
    pub(super) fn next_try(&self) -> Option<Timestamp> {
        self.retries.next()
    }

    /// Binds the waiting pods for which there is a node.
    pub(super) async fn bind_waiting(&mut self, agent: &ControllerClient) {
        let keys = if std::mem::take(&mut self.try_all) {
            self.fresh.clear();
            self.waiting.keys().cloned().collect()
        } else {
            // Of pods that came together, the order must not depend on that of their creation.
            let mut keys = BTreeSet::from_iter(std::mem::take(&mut self.fresh));
            keys.extend(self.retries.due(self.server.clock().now()));
            keys.into_iter().collect::<Vec<_>>()
        };
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
            let current = self
                .server
                .get(&ResourceId::new("", "pods"), &key.0, &key.1)
                .map(|stored| self.server.decoded(&stored));
            let Some(pod) = current.filter(|pod| super::pods::next_action(pod) == super::pods::PodAction::Bind) else {
                self.waiting.remove(&key);
                self.retries.settle(&key, false, self.server.clock().now());
                continue;
            };
            let Some(node) = self.pick(&pod, &nodes) else {
                self.retries.settle(&key, false, self.server.clock().now());
                continue;
            };
            let (namespace, name) = &key;
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
            if agent.create(&format!("/api/v1/namespaces/{namespace}/pods/{name}/binding"), &binding).await.is_ok() {
                self.waiting.remove(&key);
            }
            self.retries.settle(&key, agent.take_refusal(), self.server.clock().now());
        }
    }

    /// Returns the next node, round-robin, that accepts the pod.
    fn pick(&mut self, pod: &Value, nodes: &[Value]) -> Option<String> {
        let order = (0..nodes.len()).map(|offset| (self.turn + offset) % nodes.len());
        let taken = if host_ports(pod).next().is_some() { self.taken_ports() } else { Vec::new() };
        let is_free = |node: &Value| {
            let mut others = taken.iter().filter(|(name, _)| name == metadata::name(node));
            !others.any(|(_, other)| host_ports(pod).any(|port| other.conflicts(&port)))
        };
        let index = order.into_iter().find(|&index| takes(&nodes[index], pod) && is_free(&nodes[index]))?;
        self.turn = index + 1;
        Some(metadata::name(&nodes[index]).to_owned())
    }

    /// Returns the host ports of all pods that have not ended, with their nodes.
    fn taken_ports(&self) -> Vec<(String, HostPort)> {
        let pods = self.server.list(&ResourceId::new("", "pods"), None);
        let pods = pods.iter().map(|stored| self.server.decoded(stored));
        let pods = pods.filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")));
        pods.flat_map(|pod| {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
            host_ports(&pod).map(|port| (node.clone(), port)).collect::<Vec<_>>()
        })
        .filter(|(node, _)| !node.is_empty())
        .collect()
    }
}

/// A port of a node that a container wants.
#[derive(Debug, PartialEq, Eq)]
struct HostPort {
    address: String,
    protocol: String,
    port: i64,
}

impl HostPort {
    /// Returns true if both cannot be on one node.
    fn conflicts(&self, other: &Self) -> bool {
        let every = |address: &str| address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || every(&self.address) || every(&other.address))
    }
}

fn host_ports(pod: &Value) -> impl Iterator<Item = HostPort> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    ports.filter_map(|port| {
        let text = |field: &str, default: &str| {
            port[field].as_str().filter(|text| !text.is_empty()).unwrap_or(default).to_owned()
        };
        let number = port["hostPort"].as_i64().filter(|number| *number > 0)?;
        Some(HostPort { address: text("hostIP", "0.0.0.0"), protocol: text("protocol", "TCP"), port: number })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::same(json!({"hostPort": 80}), json!({"hostPort": 80}), true)]
    #[case::other_port(json!({"hostPort": 80}), json!({"hostPort": 81}), false)]
    #[case::other_protocol(json!({"hostPort": 80}), json!({"hostPort": 80, "protocol": "UDP"}), false)]
    #[case::other_address(json!({"hostPort": 80, "hostIP": "10.0.0.1"}), json!({"hostPort": 80, "hostIP": "10.0.0.2"}), false)]
    #[case::every_address(json!({"hostPort": 80, "hostIP": "10.0.0.1"}), json!({"hostPort": 80}), true)]
    #[case::none(json!({"containerPort": 80}), json!({"hostPort": 80}), false)]
    fn host_ports_conflict(#[case] one: Value, #[case] other: Value, #[case] expected: bool) {
        let [one, other] = [one, other].map(|port| json!({"spec": {"containers": [{"ports": [port]}]}}));
        let conflict = host_ports(&one).any(|one| host_ports(&other).any(|other| one.conflicts(&other)));
        assert_eq!(conflict, expected);
    }

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
}
