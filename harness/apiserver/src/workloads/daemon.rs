//! Daemon sets: one pod on every node that accepts it. See `pkg/controller/daemon/daemon_controller.go`.

use jiff::Timestamp;

use super::revisions::{REVISION_LABEL, RevisionHistory};
use super::{NamespaceController, is_active, is_available, is_ready};
use crate::json::{Value, json};
use crate::kubelet::takes;
use crate::metadata::{self, is_deleted};
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

/// Syncs the pods and the status of one DaemonSet.
pub(super) async fn keep(controller: &NamespaceController, name: &str) {
    let Some(set) = controller.workload(name) else { return };
    let nodes: Vec<Value> = controller
        .agent
        .server()
        .list(&ResourceId::new("", "nodes"), None)
        .iter()
        .map(|stored| stored.value())
        .collect();
    let hash = super::deployment::template_hash(&set["spec"]["template"]);
    let wanted: Vec<&str> =
        nodes.iter().filter(|node| should_run_on(controller, &set, node)).map(metadata::name).collect();
    let now = controller.agent.server().clock().now();
    let mut history = None;
    if !is_deleted(&set) {
        controller.claim("", "pods", &set).await;
        history = Some(RevisionHistory::sync(controller, &set).await);
        move_on(controller, &set, &wanted, &hash, now).await;
    }
    let Some(set) = controller.workload(name) else { return };
    let pods = controller.controlled_objects("", "pods", &set);
    controller.write_status(&set, &status(&set, &pods, &wanted, &hash, now)).await;
    if let Some(history) = history {
        let hashes = |pod: &Value| metadata::label(pod, REVISION_LABEL).map(str::to_owned);
        let live: Vec<String> = pods.iter().filter_map(hashes).map(|hash| format!("{name}-{hash}")).collect();
        history.truncate(controller, &set, |name| live.iter().any(|live| live == name)).await;
    }
}

/// Returns true if the DaemonSet has a pod on the node. A cordoned node is eligible.
fn should_run_on(controller: &NamespaceController, set: &Value, node: &Value) -> bool {
    let mut open = node.clone();
    open["spec"]["unschedulable"] = json!(false);
    !is_deleted(node) && takes(&open, &tolerant_pod(controller, set))
}

/// Returns a pod of the template that tolerates what daemon pods do.
fn tolerant_pod(controller: &NamespaceController, set: &Value) -> Value {
    let mut pod = controller.pod(set);
    let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    tolerations
        .extend(DAEMON_TOLERATIONS.map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect})));
    pod["spec"]["tolerations"] = Value::Array(tolerations);
    pod
}

fn pod_for(controller: &NamespaceController, set: &Value, node: &str, hash: &str) -> Value {
    let mut pod = tolerant_pod(controller, set);
    metadata::set(&mut pod, "generateName", format!("{}-", metadata::name(set)));
    metadata::set_label(&mut pod, REVISION_LABEL, hash);
    metadata::set_label(&mut pod, "pod-template-generation", metadata::generation(set).to_string());
    pod["spec"]["nodeName"] = json!(node);
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]});
    pod
}

/// Creates missing pods and deletes surplus ones and those of old templates.
async fn move_on(controller: &NamespaceController, set: &Value, wanted: &[&str], hash: &str, now: Timestamp) {
    let pods = controller.controlled_objects("", "pods", set);
    let mut unavailable = 0;
    let mut replaced = Vec::new();
    let mut candidates = Vec::new();
    for node in wanted {
        let mut own = pods.iter().filter(|pod| pod["spec"]["nodeName"] == *node && !is_deleted(pod));
        let Some(pod) = own.next() else {
            unavailable += 1;
            if !pods.iter().any(|pod| pod["spec"]["nodeName"] == *node) {
                // An event tells of a refusal, and the set is synced again.
                _ = controller.create_pod(set, &pod_for(controller, set, node, hash)).await;
            }
            continue;
        };
        match (is_active(pod), is_current(pod, hash), is_available(pod, set, now)) {
            (false, ..) => {
                unavailable += 1;
                controller.delete_pod(pod).await;
            }
            (true, true, available) => unavailable += usize::from(!available),
            // An old pod that is not available is replaced at once; another one only if enough others are.
            (true, false, false) => replaced.push(pod),
            (true, false, true) => candidates.push(pod),
        }
        for surplus in own {
            controller.delete_pod(surplus).await;
        }
    }
    let elsewhere = |pod: &&Value| !pod["spec"]["nodeName"].as_str().is_some_and(|node| wanted.contains(&node));
    for pod in pods.iter().filter(elsewhere).filter(|pod| !is_deleted(pod)) {
        controller.delete_pod(pod).await;
    }
    if set["spec"]["updateStrategy"]["type"] != "OnDelete" {
        candidates.truncate(max_unavailable(set, wanted.len()).saturating_sub(unavailable + replaced.len()));
        for pod in replaced.into_iter().chain(candidates) {
            controller.delete_pod(pod).await;
        }
    }
}

/// Returns the number of pods that may be unavailable during an update (`UnavailableCount` in
/// `pkg/controller/daemon/util/daemonset_util.go`).
fn max_unavailable(set: &Value, wanted: usize) -> usize {
    let given = &set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
    let percent = given.as_str().and_then(|text| text.trim_end_matches('%').parse::<usize>().ok());
    let number = given.as_u64().and_then(|number| usize::try_from(number).ok());
    percent.map(|percent| (wanted * percent).div_ceil(100)).or(number).unwrap_or(1)
}

fn is_current(pod: &Value, hash: &str) -> bool {
    metadata::label(pod, REVISION_LABEL) == Some(hash)
}

fn status(set: &Value, pods: &[Value], wanted: &[&str], hash: &str, now: Timestamp) -> Value {
    let here: Vec<&Value> = pods
        .iter()
        .filter(|pod| is_active(pod) && pod["spec"]["nodeName"].as_str().is_some_and(|node| wanted.contains(&node)))
        .collect();
    let ready = here.iter().filter(|pod| is_ready(pod)).count();
    let available = here.iter().filter(|pod| is_available(pod, set, now)).count();
    json!({"currentNumberScheduled": here.len(), "desiredNumberScheduled": wanted.len(), "numberReady": ready,
        "numberAvailable": available, "numberUnavailable": wanted.len().saturating_sub(available), "numberMisscheduled": 0,
        "updatedNumberScheduled": here.iter().filter(|pod| is_current(pod, hash)).count(),
        "observedGeneration": metadata::generation(set)})
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::controllers::{ControllerClient, MERGE_PATCH};
    use crate::server::ApiServer;

    #[test]
    fn only_pods_on_wanted_nodes_count() {
        let pod = |node: &str, hash: &str, ready: &str| {
            json!({"metadata": {"labels": {"controller-revision-hash": hash}}, "spec": {"nodeName": node},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}})
        };
        let pods = [pod("a", "new", "True"), pod("b", "old", "False"), pod("gone", "new", "True")];
        let status =
            status(&json!({"metadata": {"generation": 3}}), &pods, &["a", "b", "c"], "new", Timestamp::UNIX_EPOCH);
        assert_eq!(
            status,
            json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 3, "numberReady": 1, "numberAvailable": 1,
                "numberUnavailable": 2, "numberMisscheduled": 0, "updatedNumberScheduled": 1, "observedGeneration": 3})
        );
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
                all.sort_by_key(|revision| super::super::count(revision, "/revision"));
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
}
