//! Daemon sets: one pod on every node that accepts it. See `pkg/controller/daemon/daemon_controller.go` and `update.go`
//! there.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::failed_pods::FailedPods;
use super::namespace_controller::NamespaceController;
use super::pod_state::{has_been_ready, ready_condition};
use super::revisions::{REVISION_LABEL, RevisionHistory};
use super::workload_fields::scaled_value;
use crate::json::{Value, json};
use crate::kubelet::takes;
use crate::metadata::{self, is_deleted};
use crate::pod_fields::has_ended;
use crate::store::ResourceId;

/// The taints that every daemon pod tolerates (`AddOrUpdateDaemonPodTolerations` in
/// `pkg/controller/daemon/util/daemonset_util.go`).
const DAEMON_TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The taint that daemon pods in the network of their node tolerate.
const NETWORK_TOLERATION: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// A node, as a DaemonSet sees it.
struct DaemonNode {
    name: String,
    /// The set has a pod on the node.
    runs: bool,
    /// A pod that is there may stay.
    continues: bool,
}

/// Changes of the pods of a set.
#[derive(Default)]
struct DaemonChanges<'a> {
    /// The nodes that get a pod.
    create: Vec<&'a str>,
    delete: Vec<&'a Value>,
}

/// Most pods that one sync creates or deletes; the changes of these pods cause the next sync.
const DAEMON_BURST_REPLICAS: usize = 250;

/// Syncs the pods and the status of one DaemonSet. One that is being deleted is left alone: `syncDaemonSet`.
pub(super) async fn keep(controller: &NamespaceController, name: &str, failed: &mut FailedPods) {
    let Some(set) = controller.workload(name).filter(|set| !is_deleted(set)) else { return };
    let nodes = controller.agent.server().list(&ResourceId::new("", "nodes"), None);
    let pod = tolerant_pod(controller, &set);
    let nodes: Vec<DaemonNode> = nodes.iter().map(|stored| DaemonNode::of(&pod, &controller.decoded(stored))).collect();
    let now = controller.agent.server().clock().now();
    controller.claim("", "pods", &set).await;
    let Some(history) = RevisionHistory::sync(controller, &set).await else { return };
    let hash = history.hash();
    let pods = daemon_pods(controller, &set);
    let changes = SetState::new(&set, &nodes, &pods, hash, now).changes(controller, failed);
    let created =
        changes.create.into_iter().take(DAEMON_BURST_REPLICAS).map(|node| pod_for(controller, &set, node, hash));
    // An event tells of a refusal, and the set is synced again.
    controller.create_pods(&set, created).await;
    for pod in changes.delete.into_iter().take(DAEMON_BURST_REPLICAS) {
        _ = controller.delete_pod(&set, pod).await;
    }
    let Some(set) = controller.workload(name) else { return };
    let pods = daemon_pods(controller, &set);
    let state = SetState::new(&set, &nodes, &pods, hash, now);
    controller.write_status(&set, &state.status()).await;
    let hashes = |pod: &Value| metadata::label(pod, REVISION_LABEL).map(str::to_owned);
    let live: Vec<String> = pods.iter().filter_map(hashes).map(|hash| format!("{name}-{hash}")).collect();
    history.truncate(controller, &set, |name| live.iter().any(|live| live == name)).await;
}

/// Returns the pods of a set, without those that have ended and are being deleted; on a node, those that are bound and
/// the oldest come first.
fn daemon_pods(controller: &NamespaceController, set: &Value) -> Vec<Value> {
    let mut pods = controller.controlled_objects("", "pods", set);
    pods.retain(|pod| !(is_deleted(pod) && has_ended(pod)));
    pods.sort_by_key(|pod| {
        let created = metadata::text(pod, "creationTimestamp").to_owned();
        (pod["spec"]["nodeName"].is_null(), created, metadata::name(pod).to_owned())
    });
    pods
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

/// Returns the name of the node for which a pod was created: `GetTargetNodeName`.
fn target(pod: &Value) -> &str {
    const TERMS: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let bound = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty());
    let wanted = || pod.pointer(TERMS)?.pointer("/0/matchFields/0/values/0")?.as_str();
    bound.or_else(wanted).unwrap_or_default()
}

impl DaemonNode {
    /// Compares a node with a pod of a set: `NodeShouldRunDaemonPod`. A cordoned node is eligible, and pods stay on a
    /// node that gets a taint of the effect `NoSchedule`.
    fn of(pod: &Value, node: &Value) -> Self {
        let mut node = node.clone();
        node["spec"]["unschedulable"] = json!(false);
        let wanted = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let fits = wanted.is_empty() || wanted == metadata::name(&node);
        let runs = fits && takes(&node, pod);
        if let Some(taints) = node["spec"].get_mut("taints").and_then(Value::as_array_mut) {
            taints.retain(|taint| taint["effect"] == "NoExecute");
        }
        Self { name: metadata::name(&node).to_owned(), runs, continues: fits && takes(&node, pod) }
    }
}

/// Returns a pod of the template that tolerates what daemon pods do.
fn tolerant_pod(controller: &NamespaceController, set: &Value) -> Value {
    let mut pod = controller.pod(set);
    let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let network = (pod["spec"]["hostNetwork"] == json!(true)).then_some(NETWORK_TOLERATION);
    for (key, effect) in DAEMON_TOLERATIONS.into_iter().chain(network) {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_same = |known: &Value| ["key", "operator", "effect"].iter().all(|it| known[*it] == toleration[*it]);
        match tolerations.iter_mut().find(|known| is_same(known)) {
            Some(known) => *known = toleration,
            None => tolerations.push(toleration),
        }
    }
    pod["spec"]["tolerations"] = Value::Array(tolerations);
    pod
}

/// Returns a new pod for a node, to which the scheduler binds it.
fn pod_for(controller: &NamespaceController, set: &Value, node: &str, hash: &str) -> Value {
    let mut pod = tolerant_pod(controller, set);
    metadata::set(&mut pod, "generateName", format!("{}-", metadata::name(set)));
    metadata::set_label(&mut pod, REVISION_LABEL, hash);
    if let Some(generation) = metadata::annotation(set, "deprecated.daemonset.template.generation") {
        metadata::set_label(&mut pod, "pod-template-generation", generation);
    }
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]});
    pod
}

/// Returns a limit of the update strategy for a number of nodes; 0 if it is not set.
fn limit(set: &Value, field: &str, nodes: usize) -> usize {
    let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
    let value = scaled_value(&set["spec"]["updateStrategy"]["rollingUpdate"][field], nodes, true);
    value.and_then(|value| usize::try_from(value).ok()).unwrap_or(0)
}

/// A set with its nodes and pods, and the hash of its template.
struct SetState<'a> {
    set: &'a Value,
    nodes: &'a [DaemonNode],
    pods: &'a [Value],
    pods_by_node: BTreeMap<&'a str, Vec<&'a Value>>,
    hash: &'a str,
    now: Timestamp,
}

impl<'a> SetState<'a> {
    fn new(set: &'a Value, nodes: &'a [DaemonNode], pods: &'a [Value], hash: &'a str, now: Timestamp) -> Self {
        let mut pods_by_node: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for pod in pods {
            pods_by_node.entry(target(pod)).or_default().push(pod);
        }
        Self { set, nodes, pods, pods_by_node, hash, now }
    }

    fn pods_on(&self, node: &str) -> Vec<&'a Value> {
        self.pods_by_node.get(node).cloned().unwrap_or_default()
    }

    fn is_current(&self, pod: &Value) -> bool {
        metadata::label(pod, REVISION_LABEL) == Some(self.hash)
    }

    fn is_available(&self, pod: &Value) -> bool {
        has_been_ready(pod, self.set, self.now)
    }

    fn rolls(&self) -> bool {
        self.set["spec"]["updateStrategy"]["type"] != "OnDelete"
    }

    fn wanted(&self) -> usize {
        self.nodes.iter().filter(|node| node.runs).count()
    }

    /// Returns the most pods beside those of an old template.
    fn max_surge(&self, nodes: usize) -> usize {
        if self.rolls() { limit(self.set, "maxSurge", nodes) } else { 0 }
    }

    /// Returns what is missing or too many; if that is nothing, the next step of a rolling update.
    fn changes(&self, controller: &NamespaceController, failed: &mut FailedPods) -> DaemonChanges<'a> {
        let mut changes = DaemonChanges::default();
        let names: BTreeSet<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        let exists = |pod: &&Value| names.contains(target(pod));
        changes.delete.extend(self.pods.iter().filter(|pod| !exists(pod) && !is_deleted(pod)));
        for node in self.nodes {
            self.manage(controller, failed, node, &mut changes);
        }
        if changes.create.is_empty() && changes.delete.is_empty() && self.rolls() {
            let surge = self.max_surge(self.wanted());
            return if surge == 0 { self.replacements() } else { self.surge(surge) };
        }
        changes
    }

    /// Adds the changes on a node for which no update is needed: `podsShouldBeOnNode`.
    fn manage(
        &self,
        controller: &NamespaceController,
        failed: &mut FailedPods,
        node: &'a DaemonNode,
        changes: &mut DaemonChanges<'a>,
    ) {
        let mut pods = self.pods_on(&node.name);
        if pods.is_empty() {
            changes.create.extend(node.runs.then_some(node.name.as_str()));
            return;
        }
        pods.retain(|pod| !is_deleted(pod));
        if !node.continues {
            return changes.delete.extend(pods);
        }
        let (ended, running): (Vec<&Value>, Vec<&Value>) = pods.into_iter().partition(|pod| has_ended(pod));
        for pod in ended {
            let name = format!("{}/{}", controller.namespace, metadata::name(pod));
            let node = &node.name;
            if phase(pod) == "Succeeded" {
                let message = format!("Found succeeded daemon pod {name} on node {node}, will try to delete it");
                controller.record_success(self.set, "SucceededDaemonPod", message);
            } else if failed.may_delete(self.set, node, self.now) {
                let message = format!("Found failed daemon pod {name} on node {node}, will try to kill it");
                controller.record(self.set, "FailedDaemonPod", message);
            } else {
                continue;
            }
            changes.delete.push(pod);
        }
        if self.max_surge(1) == 0 {
            changes.delete.extend(running.into_iter().skip(1));
            return;
        }
        if running.is_empty() && node.runs {
            changes.create.push(&node.name);
        }
        let (mut new, mut old): (Vec<&Value>, Vec<&Value>) = running.into_iter().partition(|pod| self.is_current(pod));
        changes.delete.extend(new.drain(new.len().min(1)..).chain(old.drain(old.len().min(1)..)));
        if let ([new], [old]) = (new.as_slice(), old.as_slice())
            && (ready_condition(old).is_none() || self.is_available(new))
        {
            changes.delete.push(old);
        }
    }

    /// Returns the pod of the present and that of an old template on a node; `None` if there are more.
    fn versions(&self, node: &DaemonNode) -> Option<(Option<&'a Value>, Option<&'a Value>)> {
        let mut pods = self.pods_on(&node.name);
        pods.retain(|pod| !is_deleted(pod));
        let (new, old): (Vec<&Value>, Vec<&Value>) = pods.into_iter().partition(|pod| self.is_current(pod));
        (new.len() <= 1 && old.len() <= 1).then(|| (new.first().copied(), old.first().copied()))
    }

    /// Returns the nodes that the set has, or had, a pod on.
    fn occupied(&self) -> impl Iterator<Item = &'a DaemonNode> {
        self.nodes.iter().filter(|node| node.runs || self.pods_by_node.contains_key(node.name.as_str()))
    }

    /// Returns the old pods to delete so that not too many are unavailable. One that is not available is replaced at
    /// once.
    fn replacements(&self) -> DaemonChanges<'a> {
        let most = limit(self.set, "maxUnavailable", self.wanted()).max(1);
        let mut unavailable = 0;
        let mut delete = Vec::new();
        let mut candidates = Vec::new();
        for node in self.occupied() {
            match self.versions(node) {
                Some((None, Some(old))) if self.is_available(old) => candidates.push(old),
                Some((None, Some(old))) => {
                    unavailable += 1;
                    delete.push(old);
                }
                Some((Some(new), None)) if self.is_available(new) => {}
                _ => unavailable += 1,
            }
        }
        delete.extend(candidates.into_iter().take(most.saturating_sub(unavailable)));
        DaemonChanges { create: Vec::new(), delete }
    }

    /// Returns the nodes that get a new pod beside the old one, and the old pods that are not needed any more.
    fn surge(&self, most: usize) -> DaemonChanges<'a> {
        let mut changes = DaemonChanges::default();
        let (mut surging, mut available) = (0, 0);
        let mut candidates = Vec::new();
        let mut elsewhere = Vec::new();
        for node in self.occupied() {
            let Some((new, old)) = self.versions(node) else {
                surging += 1;
                continue;
            };
            available += usize::from(old.or(new).is_some_and(|pod| self.is_available(pod)));
            match (new, old) {
                (_, None) => {}
                (None, Some(old)) => match (self.is_available(old), node.runs) {
                    (true, true) => candidates.push(node.name.as_str()),
                    (true, false) => elsewhere.push(old),
                    (false, true) => changes.create.push(&node.name),
                    (false, false) => changes.delete.push(old),
                },
                (Some(new), Some(old)) if self.is_available(new) => changes.delete.push(old),
                (Some(_), Some(_)) => surging += 1,
            }
        }
        changes.create.extend(candidates.into_iter().take(most.saturating_sub(surging)));
        changes.delete.extend(elsewhere.into_iter().take(available.saturating_sub(self.wanted())));
        changes
    }

    /// Returns the status: `updateDaemonSetStatus`. Of several pods on a node, the first counts.
    fn status(&self) -> Value {
        let wanted = self.wanted();
        let with_pods = |runs: bool| {
            let nodes = self.nodes.iter().filter(move |node| node.runs == runs);
            nodes.filter_map(|node| self.pods_on(&node.name).first().copied())
        };
        let here: Vec<&Value> = with_pods(true).collect();
        let number = |is_so: &dyn Fn(&Value) -> bool| here.iter().filter(|pod| is_so(pod)).count();
        let available = number(&|pod| self.is_available(pod));
        json!({"currentNumberScheduled": here.len(), "desiredNumberScheduled": wanted,
            "numberReady": number(&|pod| ready_condition(pod).is_some()), "numberAvailable": available,
            "numberUnavailable": wanted - available, "numberMisscheduled": with_pods(false).count(),
            "updatedNumberScheduled": number(&|pod| self.is_current(pod)),
            "observedGeneration": metadata::generation(self.set)})
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::controllers::{ControllerClient, MERGE_PATCH};
    use crate::server::ApiServer;
    use crate::workloads::workload_fields::count;
    use rstest::rstest;

    fn node(name: &str, runs: bool) -> DaemonNode {
        DaemonNode { name: name.to_owned(), runs, continues: true }
    }

    fn pod(node: &str, hash: &str, ready: &str) -> Value {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        json!({"metadata": {"name": format!("{node}-{hash}"), "labels": {"controller-revision-hash": hash}},
            "spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": conditions}})
    }

    #[test]
    fn pods_on_nodes_that_want_none_are_misscheduled() {
        let mut pods = vec![pod("a", "new", "True"), pod("b", "old", "False"), pod("no", "new", "True")];
        metadata::set(&mut pods[0], "deletionTimestamp", "2026-01-01T00:00:00Z");
        let nodes = [node("a", true), node("b", true), node("c", true), node("no", false)];
        let set = json!({"metadata": {"generation": 3}});
        let state = SetState::new(&set, &nodes, &pods, "new", Timestamp::UNIX_EPOCH);
        assert_eq!(
            state.status(),
            json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 3, "numberReady": 1, "numberAvailable": 1,
                "numberUnavailable": 2, "numberMisscheduled": 1, "updatedNumberScheduled": 1, "observedGeneration": 3})
        );
    }

    /// As `TestDaemonSetUpdatesSomeOldPodsNotReady` and others in `pkg/controller/daemon/update_test.go`.
    #[rstest]
    #[case::one_at_a_time(1, 0, &[("a", "old", "True"), ("b", "old", "True")], &[], &["a-old"])]
    #[case::unavailable_at_once(1, 0, &[("a", "old", "False"), ("b", "old", "True")], &[], &["a-old"])]
    #[case::waits(1, 0, &[("a", "new", "False"), ("b", "old", "True")], &[], &[])]
    #[case::surges(0, 1, &[("a", "old", "True"), ("b", "old", "True")], &["a"], &[])]
    #[case::surge_waits(0, 1, &[("a", "old", "True"), ("a", "new", "False"), ("b", "old", "True")], &[], &[])]
    #[case::surge_of_unavailable(0, 1, &[("a", "old", "False"), ("b", "old", "True")], &["a", "b"], &[])]
    fn updates(
        #[case] max_unavailable: usize,
        #[case] max_surge: usize,
        #[case] pods: &[(&str, &str, &str)],
        #[case] create: &[&str],
        #[case] delete: &[&str],
    ) {
        let set = json!({"spec": {"updateStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": max_unavailable, "maxSurge": max_surge}}}});
        let nodes = [node("a", true), node("b", true)];
        let pods: Vec<Value> = pods.iter().map(|(node, hash, ready)| pod(node, hash, ready)).collect();
        let state = SetState::new(&set, &nodes, &pods, "new", Timestamp::UNIX_EPOCH);
        let changes = if max_surge == 0 { state.replacements() } else { state.surge(max_surge) };
        assert_eq!(changes.create, create);
        assert_eq!(changes.delete.into_iter().map(metadata::name).collect::<Vec<_>>(), delete);
    }

    /// See `NodeShouldRunDaemonPod`, and `AddOrUpdateDaemonPodTolerations` in
    /// `pkg/controller/daemon/util/daemonset_util.go`.
    #[rstest]
    #[case::no_taint("", "", (true, true))]
    #[case::schedule("example.com/x", "NoSchedule", (false, true))]
    #[case::execute("example.com/x", "NoExecute", (false, false))]
    #[case::network("node.kubernetes.io/network-unavailable", "NoSchedule", (true, true))]
    fn taints(#[case] key: &str, #[case] effect: &str, #[case] expected: (bool, bool)) {
        let server = ApiServer::builder().build();
        let kind = server.registry().get("apps", "v1", "daemonsets").cloned().expect("a resource");
        let controller = NamespaceController::new(&server, &kind, "default");
        let set = json!({"spec": {"template": {"spec": {"hostNetwork": true}}}});
        let taints = if key.is_empty() { json!([]) } else { json!([{"key": key, "effect": effect}]) };
        let node = json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true, "taints": taints}});
        let node = DaemonNode::of(&tolerant_pod(&controller, &set), &node);
        assert_eq!((node.runs, node.continues), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn each_template_has_a_revision_with_the_labels_of_its_pods() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        tokio::spawn(super::super::run_workload_controllers(server.clone()));
        let client = ControllerClient::new(&server, "user");
        let sets = "/apis/apps/v1/namespaces/default/daemonsets";
        let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {
            "revisionHistoryLimit": 1, "selector": {"matchLabels": {"app": "d"}}, "template": {
                "metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "0"}]}}}});
        assert!(client.create(sets, &set).await.is_ok());
        let revisions = |image: i64| {
            let client = &client;
            let server = &server;
            async move {
                let image = json!({"spec": {"template": {"spec": {"containers": [
                    {"name": "c", "image": image.to_string()}]}}}});
                client.patch(&format!("{sets}/d"), MERGE_PATCH, &image).await;
                server.clock().sleep(Duration::from_secs(1)).await;
                let all = server.list(&ResourceId::new("apps", "controllerrevisions"), Some("default"));
                let mut all: Vec<Value> = all.iter().map(|revision| revision.value()).collect();
                all.sort_by_key(|revision| count(revision, "/revision"));
                all
            }
        };
        let first = revisions(1).await;
        let name = metadata::name(&first[0]).to_owned();
        assert_eq!(metadata::label(&first[0], "app"), Some("d"));
        assert_eq!(
            Some(name.as_str()),
            metadata::label(&first[0], REVISION_LABEL).map(|hash| format!("d-{hash}")).as_deref()
        );
        assert_eq!(first[0]["data"]["spec"]["template"]["$patch"], "replace");
        revisions(2).await;
        let left = revisions(3).await;
        let numbers: Vec<Option<i64>> = left.iter().map(|revision| revision["revision"].as_i64()).collect();
        assert_eq!((numbers.len(), left.iter().any(|one| metadata::name(one) == name)), (2, false), "{numbers:?}");
    }

    /// A pod that fails again and again is replaced after 1, 2, 4 … seconds: the delays of `startDaemonSetController`.
    #[tokio::test(start_paused = true)]
    async fn pods_that_fail_at_once_are_replaced_with_back_off() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        tokio::spawn(super::super::run_workload_controllers(server.clone()));
        let client = ControllerClient::new(&server, "user");
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        server.seed([node]).expect("seeded");
        let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {
            "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        assert!(client.create("/apis/apps/v1/namespaces/default/daemonsets", &set).await.is_ok());
        let mut created: Vec<(String, u128)> = Vec::new();
        let start = server.clock().now();
        for _ in 0..800 {
            server.clock().sleep(Duration::from_millis(10)).await;
            for stored in server.list(&ResourceId::new("", "pods"), Some("default")) {
                if created.iter().any(|(uid, _)| uid == stored.uid()) {
                    continue;
                }
                created.push((
                    stored.uid().to_owned(),
                    server.clock().now().duration_since(start).unsigned_abs().as_millis(),
                ));
                let path = format!("/api/v1/namespaces/default/pods/{}/status", stored.name());
                client.patch(&path, MERGE_PATCH, &json!({"status": {"phase": "Failed"}})).await;
            }
        }
        let seconds: Vec<u128> = created.iter().map(|(_, millis)| millis / 500).collect();
        assert_eq!(seconds, [0, 0, 2, 6, 14], "{created:?}");
    }
}
