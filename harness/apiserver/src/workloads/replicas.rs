//! Replica sets and replication controllers: a fixed number of pods of one template. See
//! `pkg/controller/replicaset/replica_set.go`.

use jiff::Timestamp;

use super::{NamespaceController, desired_replicas, is_active, is_available, is_ready};
use crate::json::{Value, json};
use crate::metadata::{self, is_deleted};
use crate::registry::time::rfc3339;

/// Syncs the pods and the status of one set.
pub(super) async fn keep(controller: &NamespaceController, name: &str) {
    let Some(set) = controller.workload(name) else { return };
    if !is_deleted(&set) {
        controller.claim("", "pods", &set).await;
    }
    let pods = controller.controlled_objects("", "pods", &set);
    let active: Vec<&Value> = pods.iter().filter(|pod| is_active(pod)).collect();
    let mut failure = None;
    if !is_deleted(&set) {
        let missing = desired_replicas(&set) - i64::try_from(active.len()).unwrap_or(i64::MAX);
        for _ in 0..missing {
            let mut pod = controller.pod(&set);
            metadata::set(&mut pod, "generateName", format!("{name}-"));
            if let Err(error) = controller.create_pod(&set, &pod).await {
                failure = Some(error);
                break;
            }
        }
        let surplus = usize::try_from(-missing).unwrap_or(0);
        for pod in deletion_order(active).into_iter().take(surplus) {
            controller.delete_pod(pod).await;
        }
    }
    let Some(set) = controller.workload(name) else { return };
    let pods = controller.controlled_objects("", "pods", &set);
    let now = controller.agent.server().clock().now();
    let mut status = status(&set, &pods, &*controller.kind.kind == "ReplicaSet", now);
    if let Some(conditions) = conditions(&set, failure, &rfc3339(now)) {
        status["conditions"] = conditions;
    }
    controller.write_status(&set, &status).await;
}

/// Sorts pods by deletion order: unassigned before assigned, not running before running, not ready before ready,
/// newest first. It is a part of `ActivePodsWithRanks` in `pkg/controller/controller_utils.go`.
pub(super) fn deletion_order(mut pods: Vec<&Value>) -> Vec<&Value> {
    pods.sort_by_key(|pod| {
        let created = metadata::text(pod, "creationTimestamp").to_owned();
        let name = metadata::name(pod).to_owned();
        (
            pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty()),
            pod["status"]["phase"] == "Running",
            is_ready(pod),
            std::cmp::Reverse(created),
            name,
        )
    });
    pods
}

/// Returns the conditions if they change: `ReplicaFailure` with the reason why pods cannot be created, as long as that
/// is so (`calculateStatus` in `pkg/controller/replicaset/replica_set_utils.go`).
fn conditions(set: &Value, failure: Option<String>, now: &str) -> Option<Value> {
    let known = set["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_failure = |condition: &Value| condition["type"] == "ReplicaFailure";
    let mut others: Vec<Value> = known.iter().filter(|condition| !is_failure(condition)).cloned().collect();
    match (failure, known.iter().any(is_failure)) {
        (Some(message), false) => others.push(json!({"type": "ReplicaFailure", "status": "True",
            "reason": "FailedCreate", "message": message, "lastTransitionTime": now})),
        (None, true) => {}
        _ => return None,
    }
    Some(Value::Array(others))
}

/// Returns true if a pod is being deleted and has not ended: `IsPodTerminating`.
fn is_terminating(pod: &Value) -> bool {
    is_deleted(pod) && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns the status. With `terminating` it counts terminating pods, which replica sets do and replication
/// controllers do not.
fn status(set: &Value, pods: &[Value], terminating: bool, now: Timestamp) -> Value {
    let replicas = pods.iter().filter(|pod| is_active(pod)).count();
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    let available = pods.iter().filter(|pod| is_available(pod, set, now)).count();
    let mut status = json!({"replicas": replicas, "fullyLabeledReplicas": replicas, "readyReplicas": ready,
        "availableReplicas": available, "observedGeneration": metadata::generation(set)});
    if terminating {
        status["terminatingReplicas"] = json!(pods.iter().filter(|pod| is_terminating(pod)).count());
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_condition_until_it_ends() {
        let set = |conditions: Value| json!({"status": {"conditions": conditions}});
        let failed = conditions(&set(Value::Null), Some("no".to_owned()), "t").expect("a change");
        assert_eq!((&failed[0]["reason"], &failed[0]["message"]), (&json!("FailedCreate"), &json!("no")));
        assert_eq!(conditions(&set(failed.clone()), Some("still".to_owned()), "u"), None);
        assert_eq!(conditions(&set(failed), None, "u"), Some(json!([])));
        assert_eq!(conditions(&set(Value::Null), None, "u"), None);
    }

    #[test]
    fn pods_without_a_node_go_first_and_old_ready_ones_last() {
        let pod = |name: &str, node: &str, ready: bool, created: &str| {
            json!({"metadata": {"name": name, "creationTimestamp": created}, "spec": {"nodeName": node},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}})
        };
        let pods = [
            pod("old", "n", true, "2026-01-01"),
            pod("young", "n", true, "2026-01-02"),
            pod("unready", "n", false, "2026-01-01"),
            pod("unbound", "", false, "2026-01-01"),
        ];
        let order: Vec<&str> = deletion_order(pods.iter().collect()).iter().map(|pod| metadata::name(pod)).collect();
        assert_eq!(order, ["unbound", "unready", "young", "old"]);
    }
}
