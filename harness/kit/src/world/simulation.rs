//! The controllers of a cluster that a world simulates.

use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::World;
use crate::apiserver::ResourceId;
use crate::apiserver::kubelet::{self, KubeletOptions};
use crate::apiserver::{compaction, event_ttl, garbage_collector, node_lifecycle, quota_usage, volumes, workloads};

/// The pause of garbage collection and namespace deletion before a round of writes, as in `plumbline serve`: a client
/// sees the state in between, as in a cluster.
const PAUSE: Duration = Duration::from_millis(300);

/// A part of a cluster that a world simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulation {
    /// Deletes objects whose owners are gone, and handles foreground deletion and orphans.
    Gc,
    /// Empties and removes namespaces that are deleted.
    Namespaces,
    /// Keeps the pods of deployments, replica sets, stateful sets, daemon sets and replication controllers.
    Workloads,
    /// Keeps the pods of jobs, starts the jobs of cron jobs, and removes those whose time to live has passed. With
    /// kubelets, the pods of a job succeed after a second; the annotations `plumbline.dev/run-for: 30s` and
    /// `plumbline.dev/exit-code: "1"` of its template change that.
    Jobs,
    /// Writes the usage of resource quotas. Without it a new quota limits nothing.
    Quotas,
    /// Binds claims to persistent volumes, and lets deleted ones go once they are not used. Without it claims stay
    /// `Pending`, and deleted ones keep their finalizers.
    Volumes,
    /// Adds nodes, `node-1`, `node-2` and so on, with a scheduler and kubelets: pods are bound, become ready after half
    /// a second, and end a second after their deletion. Nodes that are created later work too.
    ///
    /// Nodes send one heartbeat. [`Simulation::Heartbeats`] lets them go on.
    Kubelets(u16),
    /// As [`Simulation::Kubelets`], with a heartbeat of each node every ten seconds.
    Heartbeats(u16),
    /// Taints nodes by their conditions and when they are cordoned; nodes without a heartbeat for 50 s are reported
    /// as unknown and get the taints that evict. Use it with [`Simulation::Heartbeats`]; the annotation
    /// `plumbline.dev/kubelet: stopped` of a node ends its heartbeats.
    NodeLifecycle,
    /// Removes Events an hour after their last write.
    Expiry,
    /// Drops old state every five minutes, as kube-apiserver does: watches from before get 410.
    Compaction,
}

impl World {
    /// Starts controllers of a cluster. Their requests have actors of their own in the transcript.
    ///
    /// ```
    /// # use plumbline::world::{Simulation::{Gc, Kubelets, Workloads}, World, seconds};
    /// # fn main() -> plumbline::Result {
    /// World::test(async |t| {
    ///     t.simulate([Gc, Workloads, Kubelets(1)]);
    ///     t.create(
    ///         "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, \
    ///            selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, \
    ///            spec: {containers: [{name: web, image: nginx}]}}}}",
    ///     )
    ///     .await?;
    ///     t.advance(seconds(5)).await?;
    ///     t.expect("objects: { pods app=web: 2 }, match: { deployments/web: { status: { readyReplicas: 2 } } }")
    /// })
    /// # }
    /// ```
    pub fn simulate(&self, parts: impl IntoIterator<Item = Simulation>) {
        for part in parts {
            let server = self.server().clone();
            match part {
                Simulation::Gc => {
                    self.collects_garbage.set(true);
                    tokio::spawn(garbage_collector::collect_garbage(server, PAUSE));
                }
                Simulation::Namespaces => drop(tokio::spawn(garbage_collector::terminate_namespaces(server, PAUSE))),
                Simulation::Workloads => drop(tokio::spawn(workloads::run_workload_controllers(server))),
                Simulation::Jobs => drop(tokio::spawn(workloads::run_job_controllers(server))),
                Simulation::Quotas => drop(tokio::spawn(quota_usage::publish_quota_usage(server))),
                Simulation::Volumes => {
                    tokio::spawn(volumes::bind_volumes(server.clone()));
                    tokio::spawn(volumes::create_pod_claims(server.clone()));
                    tokio::spawn(volumes::release_volumes(server));
                }
                Simulation::Kubelets(nodes) => {
                    // Longer than any test.
                    let heartbeat = Duration::from_hours(24 * 36_500);
                    self.kubelets(nodes, KubeletOptions { heartbeat, ..KubeletOptions::default() });
                }
                Simulation::Heartbeats(nodes) => self.kubelets(nodes, KubeletOptions::default()),
                Simulation::NodeLifecycle => drop(tokio::spawn(node_lifecycle::watch_node_health(server))),
                Simulation::Expiry => drop(tokio::spawn(event_ttl::expire_events(server))),
                Simulation::Compaction => drop(tokio::spawn(compaction::compact_periodically(server))),
            }
        }
    }

    fn kubelets(&self, nodes: u16, options: KubeletOptions) {
        let node = |number| {
            json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": format!("node-{number}")},
                "status": {
                    "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
                    "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
                },
            })
        };
        // Nodes of a second call have the same names and keep their state.
        let resource = ResourceId::new("", "nodes");
        let is_new = |number: &u16| self.server().get(&resource, "", &format!("node-{number}")).is_none();
        let nodes: Vec<Value> = (1..=nodes).filter(is_new).map(node).collect();
        // New and well-formed, so that nothing refuses them.
        let _ = self.seed(nodes);
        tokio::spawn(kubelet::run(self.server().clone(), options));
    }
}
