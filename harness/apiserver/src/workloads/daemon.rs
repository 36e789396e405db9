//! Daemon sets: one pod on every node that accepts it. See `pkg/controller/daemon/daemon_controller.go`.

use super::{NamespaceController, is_active, is_ready};
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
pub(super) async fn keep(desk: &NamespaceController, name: &str) {
    let Some(set) = desk.workload(name) else { return };
    let nodes: Vec<Value> =
        desk.agent.server().list(&ResourceId::new("", "nodes"), None).iter().map(|stored| stored.value()).collect();
    let hash = super::deployment::template_hash(&set["spec"]["template"]);
    let wanted: Vec<&str> = nodes.iter().filter(|node| should_run_on(desk, &set, node)).map(metadata::name).collect();
    if !is_deleted(&set) {
        desk.claim("", "pods", &set).await;
        move_on(desk, &set, &wanted, &hash).await;
    }
    let Some(set) = desk.workload(name) else { return };
    let pods = desk.controlled_objects("", "pods", &set);
    desk.write_status(&set, &status(&set, &pods, &wanted, &hash)).await;
}

/// Returns true if the DaemonSet has a pod on the node. A cordoned node is eligible.
fn should_run_on(desk: &NamespaceController, set: &Value, node: &Value) -> bool {
    let mut open = node.clone();
    open["spec"]["unschedulable"] = json!(false);
    !is_deleted(node) && takes(&open, &pod_for(desk, set, metadata::name(node), ""))
}

fn pod_for(desk: &NamespaceController, set: &Value, node: &str, hash: &str) -> Value {
    let mut pod = desk.pod(set);
    pod["metadata"]["generateName"] = json!(format!("{}-", metadata::name(set)));
    pod["metadata"]["labels"]["controller-revision-hash"] = json!(hash);
    pod["metadata"]["labels"]["pod-template-generation"] = json!(metadata::generation(set).to_string());
    pod["spec"]["nodeName"] = json!(node);
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]});
    let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    tolerations
        .extend(DAEMON_TOLERATIONS.map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect})));
    pod["spec"]["tolerations"] = Value::Array(tolerations);
    pod
}

/// Creates missing pods and deletes surplus ones; when all pods are ready, deletes one pod of an old template.
async fn move_on(desk: &NamespaceController, set: &Value, wanted: &[&str], hash: &str) {
    let pods = desk.controlled_objects("", "pods", set);
    let mut settled = true;
    for node in wanted {
        let mut own = pods.iter().filter(|pod| pod["spec"]["nodeName"] == *node && !is_deleted(pod));
        match own.next() {
            None if pods.iter().any(|pod| pod["spec"]["nodeName"] == *node) => settled = false,
            None => {
                settled = false;
                desk.agent.create(&desk.pods(""), &pod_for(desk, set, node, hash)).await;
            }
            Some(pod) if !is_active(pod) => desk.delete_pod(pod).await,
            Some(pod) => settled &= is_ready(pod),
        }
        for surplus in own {
            desk.delete_pod(surplus).await;
        }
    }
    let elsewhere = |pod: &&Value| !pod["spec"]["nodeName"].as_str().is_some_and(|node| wanted.contains(&node));
    for pod in pods.iter().filter(elsewhere).filter(|pod| !is_deleted(pod)) {
        desk.delete_pod(pod).await;
    }
    if settled && set["spec"]["updateStrategy"]["type"] != "OnDelete" {
        let old = pods.iter().find(|pod| !is_deleted(pod) && !is_current(pod, hash));
        if let Some(pod) = old {
            desk.delete_pod(pod).await;
        }
    }
}

fn is_current(pod: &Value, hash: &str) -> bool {
    pod["metadata"]["labels"]["controller-revision-hash"] == hash
}

fn status(set: &Value, pods: &[Value], wanted: &[&str], hash: &str) -> Value {
    let here: Vec<&Value> = pods
        .iter()
        .filter(|pod| is_active(pod) && pod["spec"]["nodeName"].as_str().is_some_and(|node| wanted.contains(&node)))
        .collect();
    let ready = here.iter().filter(|pod| is_ready(pod)).count();
    json!({"currentNumberScheduled": here.len(), "desiredNumberScheduled": wanted.len(), "numberReady": ready,
        "numberAvailable": ready, "numberUnavailable": wanted.len().saturating_sub(ready), "numberMisscheduled": 0,
        "updatedNumberScheduled": here.iter().filter(|pod| is_current(pod, hash)).count(),
        "observedGeneration": metadata::generation(set)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pods_on_wanted_nodes_count() {
        let pod = |node: &str, hash: &str, ready: &str| {
            json!({"metadata": {"labels": {"controller-revision-hash": hash}}, "spec": {"nodeName": node},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}})
        };
        let pods = [pod("a", "new", "True"), pod("b", "old", "False"), pod("gone", "new", "True")];
        let status = status(&json!({"metadata": {"generation": 3}}), &pods, &["a", "b", "c"], "new");
        assert_eq!(
            status,
            json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 3, "numberReady": 1, "numberAvailable": 1,
                "numberUnavailable": 2, "numberMisscheduled": 0, "updatedNumberScheduled": 1, "observedGeneration": 3})
        );
    }
}
