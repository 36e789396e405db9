//! Replica sets and replication controllers: a fixed number of pods of one template. See
//! `pkg/controller/replicaset/replica_set.go`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::namespace_controller::{NamespaceController, controller_uid};
use super::pod_state::{is_active, is_available, is_ready, is_terminating, ready_since};
use super::workload_fields::desired_replicas;
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata::{self, is_deleted};
use crate::pod_fields::sidecars;
use crate::registry::time::rfc3339;

/// Most pods that one sync creates or deletes; the changes of these pods cause the next sync.
const BURST_REPLICAS: usize = 500;

/// Syncs the pods and the status of one set.
pub(super) async fn keep(controller: &NamespaceController, name: &str) {
    let Some(set) = controller.workload(name) else { return };
    if !is_deleted(&set) {
        controller.claim_active_pods(&set).await;
    }
    let pods = controller.controlled_objects("", "pods", &set);
    let active: Vec<&Value> = pods.iter().filter(|pod| is_active(pod)).collect();
    let mut failure = None;
    if !is_deleted(&set) {
        let missing = desired_replicas(&set) - i64::try_from(active.len()).unwrap_or(i64::MAX);
        let mut pod = controller.pod(&set);
        metadata::set(&mut pod, "generateName", format!("{name}-"));
        let creations = usize::try_from(missing).unwrap_or(0).min(BURST_REPLICAS);
        let (_, error) = controller.create_pods(&set, std::iter::repeat_n(pod, creations)).await;
        failure = error.map(|error| ("FailedCreate", error));
        let surplus = usize::try_from(-missing).unwrap_or(0).min(BURST_REPLICAS);
        let now = controller.agent.server().clock().now();
        let colocated = if surplus > 0 { related_pods(controller, &set) } else { BTreeMap::new() };
        for pod in ranked_deletion_order(active, &colocated, now).into_iter().take(surplus) {
            if let Err(error) = controller.delete_pod(&set, pod).await {
                failure = Some(("FailedDelete", format!("unable to delete pods: {error}")));
            }
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

/// Returns the number of active pods on each node of the replica sets with the same controller
/// (`getIndirectlyRelatedPods`).
fn related_pods(controller: &NamespaceController, set: &Value) -> BTreeMap<String, usize> {
    let mut related = BTreeMap::new();
    let Some(owner) = controller_uid(set) else { return related };
    let owner = json!({"metadata": {"uid": owner}});
    for set in controller.controlled_objects(&controller.kind.group, &controller.kind.plural, &owner) {
        for pod in controller.controlled_objects("", "pods", &set).iter().filter(|pod| is_active(pod)) {
            *related.entry(node(pod).to_owned()).or_default() += 1;
        }
    }
    related
}

fn node(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

/// The state of a pod, the first to be deleted first: without a node, pending, not ready.
fn progress(pod: &Value) -> (bool, u8, bool) {
    let phase = match pod["status"]["phase"].as_str() {
        Some("Running") => 2,
        Some("Unknown") => 1,
        _ => 0,
    };
    (!node(pod).is_empty(), phase, is_ready(pod))
}

/// Returns the most restarts of a container and of a sidecar; pods with more are deleted first.
fn restarts(pod: &Value) -> Reverse<(i64, i64)> {
    let most = |statuses: &str, counts: &dyn Fn(&Value) -> bool| {
        let statuses = array_field(&pod["status"], statuses).iter().filter(|status| counts(&status["name"]));
        statuses.filter_map(|status| status["restartCount"].as_i64()).max().unwrap_or(0)
    };
    let sidecars: Vec<&Value> = sidecars(pod).map(|container| &container["name"]).collect();
    Reverse((most("containerStatuses", &|_| true), most("initContainerStatuses", &|name| sidecars.contains(&name))))
}

fn created(pod: &Value) -> Option<Timestamp> {
    metadata::text(pod, "creationTimestamp").parse().ok()
}

/// Returns the time since which a ready pod has been ready.
fn ready_at(pod: &Value) -> Option<Timestamp> {
    ready_since(pod).filter(|_| is_ready(pod))
}

/// Sorts pods by deletion order: `ActivePods` in `pkg/controller/controller_utils.go`.
pub(super) fn deletion_order(mut pods: Vec<&Value>) -> Vec<&Value> {
    let newest_first = |at: Option<Timestamp>| at.map(Reverse);
    pods.sort_by_key(|pod| {
        let times = (newest_first(ready_at(pod)), restarts(pod), newest_first(created(pod)));
        (progress(pod), times, metadata::name(pod).to_owned())
    });
    pods
}

/// Returns the value of the annotation `controller.kubernetes.io/pod-deletion-cost`; 0 if it is not valid.
fn deletion_cost(pod: &Value) -> i32 {
    let text = metadata::annotation(pod, "controller.kubernetes.io/pod-deletion-cost").unwrap_or_default();
    let is_number = text == "0" || !text.starts_with(['+', '0']);
    text.parse().ok().filter(|_| is_number).unwrap_or(0)
}

/// Sorts the pods of a set by deletion order: `ActivePodsWithRanks` in `pkg/controller/controller_utils.go`. Ages count
/// by their logarithm, so that of pods of about the same age not always the newest goes. `related` has the number of
/// pods on each node.
fn ranked_deletion_order<'p>(
    mut pods: Vec<&'p Value>,
    related: &BTreeMap<String, usize>,
    now: Timestamp,
) -> Vec<&'p Value> {
    let age = |since: Option<Timestamp>| {
        since.map(|since| u128::try_from(now.duration_since(since).as_nanos()).ok().and_then(u128::checked_ilog2))
    };
    pods.sort_by_key(|pod| {
        let colocated = Reverse(related.get(node(pod)).copied().unwrap_or(0));
        let ages = (age(ready_at(pod)), restarts(pod), age(created(pod)));
        (progress(pod), deletion_cost(pod), colocated, ages, metadata::name(pod).to_owned())
    });
    pods
}

/// Returns the conditions if they change: `ReplicaFailure` with the reason why pods cannot be created or deleted, as
/// long as that is so (`calculateStatus` in `pkg/controller/replicaset/replica_set_utils.go`).
fn conditions(set: &Value, failure: Option<(&str, String)>, now: &str) -> Option<Value> {
    let known = set["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_failure = |condition: &Value| condition["type"] == "ReplicaFailure";
    let mut others: Vec<Value> = known.iter().filter(|condition| !is_failure(condition)).cloned().collect();
    match (failure, known.iter().any(is_failure)) {
        (Some((reason, message)), false) => others.push(json!({"type": "ReplicaFailure", "status": "True",
            "reason": reason, "message": message, "lastTransitionTime": now})),
        (None, true) => {}
        _ => return None,
    }
    Some(Value::Array(others))
}

/// Returns the status. With `terminating` it counts terminating pods, which replica sets do and replication
/// controllers do not.
fn status(set: &Value, pods: &[Value], terminating: bool, now: Timestamp) -> Value {
    let replicas = pods.iter().filter(|pod| is_active(pod)).count();
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    let available = pods.iter().filter(|pod| is_available(pod, set, now)).count();
    let labels = metadata::labels(&set["spec"]["template"]);
    let is_labeled = |pod: &&Value| {
        let own = metadata::labels(pod);
        labels.into_iter().flatten().all(|(key, value)| own.and_then(|own| own.get(key)) == Some(value))
    };
    let labeled = pods.iter().filter(|pod| is_active(pod)).filter(is_labeled).count();
    let mut status = json!({"replicas": replicas, "fullyLabeledReplicas": labeled, "readyReplicas": ready,
        "availableReplicas": available, "observedGeneration": metadata::generation(set)});
    if terminating {
        status["terminatingReplicas"] = json!(pods.iter().filter(|pod| is_terminating(pod)).count());
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn a_failure_is_a_condition_until_it_ends() {
        let set = |conditions: Value| json!({"status": {"conditions": conditions}});
        let failed = conditions(&set(Value::Null), Some(("FailedCreate", "no".to_owned())), "t").expect("a change");
        assert_eq!((&failed[0]["reason"], &failed[0]["message"]), (&json!("FailedCreate"), &json!("no")));
        assert_eq!(conditions(&set(failed.clone()), Some(("FailedCreate", "still".to_owned())), "u"), None);
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
            pod("old", "n", true, "2026-01-01T00:00:00Z"),
            pod("young", "n", true, "2026-01-02T00:00:00Z"),
            pod("unready", "n", false, "2026-01-01T00:00:00Z"),
            pod("unbound", "", false, "2026-01-01T00:00:00Z"),
        ];
        let order: Vec<&str> = deletion_order(pods.iter().collect()).iter().map(|pod| metadata::name(pod)).collect();
        assert_eq!(order, ["unbound", "unready", "young", "old"]);
    }

    /// As `TestSortingActivePodsWithRanks` in `pkg/controller/controller_utils_test.go`.
    #[rstest]
    #[case::cost_before_age(&[("cheap", "-1", "n", 0, 1000), ("plain", "", "n", 0, 10)], &["cheap", "plain"])]
    #[case::no_cost(&[("a", "+5", "n", 0, 10), ("b", "05", "n", 0, 10), ("c", "-5", "n", 0, 10)], &["c", "a", "b"])]
    #[case::crowded_node(&[("alone", "", "n", 0, 10), ("crowded", "", "m", 0, 1000)], &["crowded", "alone"])]
    #[case::much_younger(&[("old", "", "n", 0, 1000), ("young", "", "n", 0, 10)], &["young", "old"])]
    #[case::about_as_old(&[("a", "", "n", 0, 1010), ("b", "", "n", 0, 1000)], &["a", "b"])]
    #[case::restarts(&[("a", "", "n", 1, 1000), ("b", "", "n", 3, 1000)], &["b", "a"])]
    fn replica_sets_delete_cheap_crowded_and_young_pods_first(
        #[case] pods: &[(&str, &str, &str, i64, u64)],
        #[case] expected: &[&str],
    ) {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let pod = |(name, cost, node, restarts, age): &(&str, &str, &str, i64, u64)| {
            let at = rfc3339(now - std::time::Duration::from_secs(*age));
            let mut pod = json!({"metadata": {"name": name, "creationTimestamp": at}, "spec": {"nodeName": node},
                "status": {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": restarts}],
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}]}});
            metadata::set_annotation(&mut pod, "controller.kubernetes.io/pod-deletion-cost", *cost);
            pod
        };
        let pods: Vec<Value> = pods.iter().map(pod).collect();
        let related = BTreeMap::from([("m".to_owned(), 2), ("n".to_owned(), 1)]);
        let order = ranked_deletion_order(pods.iter().collect(), &related, now);
        assert_eq!(order.into_iter().map(metadata::name).collect::<Vec<_>>(), expected);
    }

    /// See `calculateStatus` in `pkg/controller/replicaset/replica_set_utils.go`.
    #[test]
    fn a_pod_without_a_label_of_the_template_is_not_fully_labeled() {
        let pod = |labels: Value| json!({"metadata": {"labels": labels}, "status": {"phase": "Running"}});
        let set = json!({"spec": {"template": {"metadata": {"labels": {"app": "a", "tier": "b"}}}}});
        let pods = [pod(json!({"app": "a"})), pod(json!({"app": "a", "tier": "b", "more": "c"}))];
        let status = status(&set, &pods, true, Timestamp::UNIX_EPOCH);
        assert_eq!((&status["replicas"], &status["fullyLabeledReplicas"]), (&json!(2), &json!(1)));
    }
}
