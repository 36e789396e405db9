//! The pods of jobs. See `pkg/controller/job/{job_controller,tracking_utils,indexed_job_utils}.go`.

use std::time::Duration;

use jiff::Timestamp;

use super::super::namespace_controller::NamespaceController;
use super::times::time_of;
use crate::controllers::MERGE_PATCH;
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata;
use crate::pod_fields::sidecars;

/// The finalizer of pods that are not counted yet.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label with the index of a pod.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The environment variable with the index of a pod.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Longest prefix of a generated name.
const PREFIX_MAX: usize = 58;

/// Returns true if the pod is not counted yet.
pub(super) fn is_tracked(pod: &Value) -> bool {
    metadata::finalizers(pod).any(|finalizer| finalizer == FINALIZER)
}

/// Returns the completion index of a pod.
pub(super) fn index(pod: &Value) -> Option<i64> {
    metadata::annotation(pod, INDEX)?.parse().ok()
}

pub(super) fn has_phase(pod: &Value, phase: &str) -> bool {
    pod["status"]["phase"] == phase
}

/// Returns the time at which a failed pod has ended: `getFinishedTime` in `pkg/controller/job/backoff_utils.go`.
pub(super) fn finish_time(pod: &Value) -> Option<Timestamp> {
    let statuses = |list: &'static str| array_field(&pod["status"], list).iter();
    let sidecars: Vec<&Value> = sidecars(pod).map(|container| &container["name"]).collect();
    let beside = statuses("initContainerStatuses").filter(|status| sidecars.contains(&&status["name"]));
    let containers = latest_end(None, statuses("containerStatuses"));
    let last = latest_end(containers, beside);
    let unready = || {
        let mut conditions = array_field(&pod["status"], "conditions").iter();
        let ready = conditions.find(|one| one["type"] == "Ready" && one["status"] == "False")?;
        time_of(ready, "/lastTransitionTime")
    };
    let deleted = || {
        let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
        time_of(pod, "/metadata/deletionTimestamp")?.checked_sub(Duration::from_secs(grace)).ok()
    };
    last.or_else(unready).or_else(deleted).or_else(|| time_of(pod, "/metadata/creationTimestamp"))
}

/// Returns the latest end of the containers and of those before; `None` if one of them has not ended:
/// `latestFinishTime`.
fn latest_end<'p>(before: Option<Timestamp>, statuses: impl Iterator<Item = &'p Value>) -> Option<Timestamp> {
    let ends: Option<Vec<Timestamp>> = statuses.map(|status| time_of(status, "/state/terminated/finishedAt")).collect();
    ends?.into_iter().chain(before).max()
}

/// Removes the finalizer of a pod.
pub(super) async fn release(controller: &NamespaceController, pod: &Value) -> bool {
    let left: Vec<&str> = metadata::finalizers(pod).filter(|finalizer| *finalizer != FINALIZER).collect();
    let left = if left.is_empty() { Value::Null } else { left.into_iter().collect() };
    let patch = json!({"metadata": {"uid": metadata::uid(pod), "finalizers": left}});
    let reply = controller.agent.patch(&controller.pods(metadata::name(pod)), MERGE_PATCH, &patch).await;
    reply.is_ok() || reply.code == 404
}

/// Returns a new pod of a job; with an index, for jobs of mode Indexed.
pub(super) fn pod(controller: &NamespaceController, job: &Value, index: Option<i64>) -> Value {
    let name = metadata::name(job);
    let mut pod = controller.pod(job);
    metadata::set(&mut pod, "finalizers", json!([FINALIZER]));
    metadata::set(&mut pod, "generateName", format!("{name}-"));
    let Some(index) = index else { return pod };
    let suffix = format!("-{index}-");
    let prefix: String = name.chars().take(PREFIX_MAX - suffix.len()).collect();
    metadata::set(&mut pod, "generateName", format!("{prefix}{suffix}"));
    metadata::set_annotation(&mut pod, INDEX, index.to_string());
    metadata::set_label(&mut pod, INDEX, index.to_string());
    pod["spec"]["hostname"] = json!(format!("{name}-{index}"));
    for list in ["initContainers", "containers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            add_index_variable(container);
        }
    }
    pod
}

fn add_index_variable(container: &mut Value) {
    let mut variables = container["env"].as_array().cloned().unwrap_or_default();
    if variables.iter().all(|variable| variable["name"] != INDEX_VARIABLE) {
        let path = format!("metadata.labels['{INDEX}']");
        variables.push(json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
        container["env"] = Value::Array(variables);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// As `TestGetFinishedTime` in `pkg/controller/job/backoff_utils_test.go`: sidecars end after the containers.
    #[rstest]
    #[case::containers(Some(10), Some(20), None, Some(20))]
    #[case::sidecar(Some(10), Some(20), Some(30), Some(30))]
    #[case::container_runs(Some(10), None, None, Some(50))]
    #[case::sidecar_alone(Some(10), None, Some(30), Some(30))]
    fn a_pod_ends_with_its_last_container(
        #[case] first: Option<i64>,
        #[case] second: Option<i64>,
        #[case] sidecar: Option<i64>,
        #[case] expected: Option<i64>,
    ) {
        let time = |second: i64| Timestamp::from_second(second).expect("a time").to_string();
        let state = |end: Option<i64>| {
            end.map_or_else(|| json!({"running": {}}), |end| json!({"terminated": {"finishedAt": time(end)}}))
        };
        let beside = if sidecar.is_some() { json!("Always") } else { Value::Null };
        let pod = json!({
            "spec": {"initContainers": [{"name": "s", "restartPolicy": beside}, {"name": "i"}]},
            "status": {
                "containerStatuses": [{"name": "a", "state": state(first)}, {"name": "b", "state": state(second)}],
                "initContainerStatuses": [{"name": "s", "state": state(sidecar)}, {"name": "i", "state": state(Some(90))}],
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": time(50)}],
            },
        });
        let expected = expected.map(|second| Timestamp::from_second(second).expect("a time"));
        assert_eq!(finish_time(&pod), expected);
    }
}
