//! A simulation of the workload controllers, optional. It manages the pods and the status of deployments, replica
//! sets, replication controllers, stateful sets and daemon sets, enough for `kubectl rollout status`, `scale` and
//! `drain`. It covers the main path of `pkg/controller/{deployment,replicaset,replication,statefulset,daemon}`.
//! [`run_job_controllers`] has the jobs.

mod claims;
mod daemon;
mod deployment;
mod failed_pods;
mod jobs;
mod namespace_controller;
mod pod_state;
mod progress;
mod replicas;
mod revisions;
mod scaling;
mod stateful;
mod workload_fields;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::backoff::Retries;
use super::controllers::{WatchMux, WatchSet};
use super::server::ApiServer;
use super::store::ResourceId;
use crate::metadata;

use failed_pods::FailedPods;
use namespace_controller::{NamespaceController, controller_uid};
use pod_state::ready_since;
use workload_fields::min_ready;

pub(crate) use jobs::is_managed_elsewhere;
pub use jobs::run_job_controllers;

/// The resources that have pods, directly or through replica sets.
const WORKLOADS: &[(&str, &str)] = &[
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("", "replicationcontrollers"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
];

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::controllers::{ControllerClient, MERGE_PATCH};
    use crate::json::{Value, json};
    use crate::loop_tests::refuse;
    use workload_fields::count;

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

    fn pods(server: &ApiServer) -> usize {
        server.list(&ResourceId::new("", "pods"), None).len()
    }

    fn controller(server: &ApiServer, plural: &str) -> NamespaceController {
        let kind = server.registry().get("apps", "v1", plural).expect("a kind").clone();
        NamespaceController::new(server, &kind, "default")
    }

    /// `slowStartBatch` in `pkg/controller/replicaset/replica_set.go`: after batches of one and two, that of four has a
    /// refusal, and no batch follows.
    #[tokio::test(start_paused = true)]
    async fn no_batch_follows_one_with_a_refusal() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        let controller = controller(&server, "replicasets");
        let set = replica_set();
        let pod = |number: usize| {
            let mut pod = controller.pod(&set);
            metadata::set(&mut pod, "name", format!("p{number}"));
            pod["metadata"].as_object_mut().expect("metadata").remove("ownerReferences");
            pod
        };
        let on = serde_json::json!({"verbs": ["create"], "resource": "pods"});
        refuse(&server, &on, Some(1), 500);
        let (created, error) = controller.create_pods(&set, (0..10).map(pod)).await;
        assert_eq!((created, error.is_some(), pods(&server)), (0, true, 0));
        let no_name = json!({"metadata": {"namespace": "default"}});
        let all = (0..10).map(|number| if number == 3 { no_name.clone() } else { pod(number) });
        let (created, error) = controller.create_pods(&set, all).await;
        assert_eq!((created, error.is_some(), pods(&server)), (6, true, 6));
    }

    /// `BurstReplicas` in `pkg/controller/replicaset/replica_set.go`.
    #[tokio::test(start_paused = true)]
    async fn one_sync_creates_no_more_than_a_burst() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        let mut set = replica_set();
        set["spec"]["replicas"] = json!(i32::MAX);
        let client = ControllerClient::new(&server, "user");
        assert!(client.create("/apis/apps/v1/namespaces/default/replicasets", &set).await.is_ok());
        replicas::keep(&controller(&server, "replicasets"), "s").await;
        assert_eq!(pods(&server), 500);
    }

    /// `getStatefulSetRevisions` and `constructHistory` return the error of a revision, and the sync ends.
    #[tokio::test(start_paused = true)]
    async fn there_is_no_pod_without_a_revision() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        server.seed([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).expect("seeded");
        let on = serde_json::json!({"verbs": ["create"], "resource": "controllerrevisions"});
        refuse(&server, &on, None, 500);
        tokio::spawn(run_workload_controllers(server.clone()));
        let client = ControllerClient::new(&server, "user");
        for (kind, plural) in [("StatefulSet", "statefulsets"), ("DaemonSet", "daemonsets")] {
            let mut set = replica_set();
            set["kind"] = json!(kind);
            metadata::set(&mut set, "name", plural);
            if kind == "DaemonSet" {
                set["spec"].as_object_mut().expect("a spec").remove("replicas");
            }
            let reply = client.create(&format!("/apis/apps/v1/namespaces/default/{plural}"), &set).await;
            assert!(reply.is_ok(), "{}", reply.body());
        }
        server.clock().sleep(Duration::from_secs(10)).await;
        assert_eq!(pods(&server), 0);
        server.faults().clear(None);
        server.clock().sleep(Duration::from_secs(20)).await;
        assert_eq!(pods(&server), 2);
    }

    /// `syncDaemonSet` in `pkg/controller/daemon/daemon_controller.go`.
    #[tokio::test(start_paused = true)]
    async fn the_status_of_a_daemon_set_that_is_being_deleted_stays() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        tokio::spawn(run_workload_controllers(server.clone()));
        let client = ControllerClient::new(&server, "user");
        let mut set = replica_set();
        set["kind"] = json!("DaemonSet");
        metadata::set(&mut set, "finalizers", json!(["example.com/wait"]));
        set["spec"].as_object_mut().expect("a spec").remove("replicas");
        assert!(client.create("/apis/apps/v1/namespaces/default/daemonsets", &set).await.is_ok());
        server.clock().sleep(Duration::from_secs(1)).await;
        client.delete("/apis/apps/v1/namespaces/default/daemonsets/s", None).await;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        assert!(client.create("/api/v1/nodes", &node).await.is_ok());
        server.clock().sleep(Duration::from_secs(1)).await;
        let set = server.get(&ResourceId::new("apps", "daemonsets"), "default", "s").expect("a set").value();
        assert!(metadata::is_deleted(&set));
        let fields = ["desiredNumberScheduled", "observedGeneration"];
        assert_eq!(fields.map(|field| count(&set, &format!("/status/{field}"))), [0, 1]);
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
