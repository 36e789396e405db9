//! Stateful sets: pods with ordinals, created and updated in order. See
//! `pkg/controller/statefulset/stateful_set_control.go`.

use super::{NamespaceController, count, desired_replicas, is_active, is_ready};
use crate::json::{Value, json};
use crate::metadata::{self, is_deleted};

/// Syncs the pods and the status of one StatefulSet.
pub(super) async fn keep(desk: &NamespaceController, name: &str) {
    let Some(set) = desk.workload(name) else { return };
    let pods = desk.controlled_objects("", "pods", &set);
    if !is_deleted(&set) {
        move_on(desk, name, &set, &pods).await;
    }
    let Some(set) = desk.workload(name) else { return };
    let pods = desk.controlled_objects("", "pods", &set);
    desk.write_status(&set, &status(&set, &pods)).await;
}

fn number(pod: &Value) -> i64 {
    let name = metadata::name(pod);
    name.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(-1)
}

fn revision(set: &Value) -> String {
    let name = metadata::name(set);
    format!("{name}-{}", super::deployment::template_hash(&set["spec"]["template"]))
}

/// Makes the next step: creates a missing pod, deletes a surplus one, or replaces one of an old template; with the
/// Parallel policy it creates and deletes several at once.
async fn move_on(desk: &NamespaceController, name: &str, set: &Value, pods: &[Value]) {
    let parallel = set["spec"]["podManagementPolicy"] == "Parallel";
    let wanted = desired_replicas(set);
    for index in 0..wanted {
        match pods.iter().find(|pod| number(pod) == index) {
            None => {
                let mut pod = desk.pod(set);
                pod["metadata"]["name"] = json!(format!("{name}-{index}"));
                pod["metadata"]["generateName"] = json!(format!("{name}-"));
                pod["spec"]["hostname"] = json!(format!("{name}-{index}"));
                if let Some(service) = set["spec"]["serviceName"].as_str().filter(|service| !service.is_empty()) {
                    pod["spec"]["subdomain"] = json!(service);
                }
                pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!(format!("{name}-{index}"));
                pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = json!(index.to_string());
                pod["metadata"]["labels"]["controller-revision-hash"] = json!(revision(set));
                desk.agent.create(&desk.pods(""), &pod).await;
            }
            Some(pod) if !is_active(pod) && !is_deleted(pod) => desk.delete_pod(pod).await,
            Some(pod) if is_ready(pod) => continue,
            Some(_) => {}
        }
        if !parallel {
            return;
        }
    }
    let mut surplus: Vec<&Value> = pods.iter().filter(|pod| number(pod) >= wanted).collect();
    surplus.sort_by_key(|pod| std::cmp::Reverse(number(pod)));
    for pod in surplus {
        if !is_deleted(pod) {
            desk.delete_pod(pod).await;
        }
        if !parallel {
            return;
        }
    }
    if set["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return;
    }
    let from = count(set, "/spec/updateStrategy/rollingUpdate/partition");
    let old = |pod: &&Value| {
        pod["metadata"]["labels"]["controller-revision-hash"] != json!(revision(set)) && number(pod) >= from
    };
    if let Some(pod) = pods.iter().filter(old).max_by_key(|pod| number(pod)).filter(|pod| !is_deleted(pod)) {
        desk.delete_pod(pod).await;
    }
}

fn status(set: &Value, pods: &[Value]) -> Value {
    let revision = revision(set);
    let replicas = pods.iter().filter(|pod| is_active(pod)).count();
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    let current =
        |pod: &&Value| is_active(pod) && pod["metadata"]["labels"]["controller-revision-hash"] == json!(revision);
    let updated = pods.iter().filter(current).count();
    let known = set["status"]["currentRevision"].as_str().unwrap_or_default();
    let done = updated == replicas && ready == replicas;
    let current_revision = if known.is_empty() || done { revision.as_str() } else { known };
    json!({"replicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
        "currentReplicas": if done { updated } else { replicas - updated }, "updatedReplicas": updated,
        "currentRevision": current_revision, "updateRevision": revision, "collisionCount": 0,
        "observedGeneration": metadata::generation(set)})
}
