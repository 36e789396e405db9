//! Columns of workloads: deployments, replica sets, stateful sets, daemon sets, jobs. Follows
//! `pkg/printers/internalversion/printers.go` of Kubernetes 1.36. PURE.

use jiff::Timestamp;

use super::column::{AGE, CellSource, Column, Description, NAME, containers, images};
use super::duration;
use super::format::{NONE, UNSET, condition_is_true, items, labels, number, selector, text};
use crate::json::{Value, json};
use crate::metadata;

const CONTAINERS: &str = "/spec/template/spec/containers";

/// The columns of `deployments`.
pub(super) const DEPLOYMENTS: &[Column] = &[
    NAME,
    Column::string(
        "Ready",
        Description::Text("Number of the pod with ready state"),
        CellSource::Ratio("/status/readyReplicas", "/spec/replicas"),
    ),
    Column::string(
        "Up-to-date",
        Description::Field("api.apps.v1.DeploymentStatus", "updatedReplicas"),
        CellSource::Number("/status/updatedReplicas"),
    ),
    Column::string(
        "Available",
        Description::Field("api.apps.v1.DeploymentStatus", "availableReplicas"),
        CellSource::Number("/status/availableReplicas"),
    ),
    AGE,
    containers(CONTAINERS),
    images(CONTAINERS),
    Column::string(
        "Selector",
        Description::Field("api.apps.v1.DeploymentSpec", "selector"),
        CellSource::Custom(|object, _| json!(selector(object, "/spec/selector"))),
    )
    .wide(),
];

/// The columns of `replicasets`.
pub(super) const REPLICA_SETS: &[Column] = &[
    NAME,
    Column::integer(
        "Desired",
        Description::Field("api.apps.v1.ReplicaSetSpec", "replicas"),
        CellSource::Number("/spec/replicas"),
    ),
    Column::integer(
        "Current",
        Description::Field("api.apps.v1.ReplicaSetStatus", "replicas"),
        CellSource::Number("/status/replicas"),
    ),
    Column::integer(
        "Ready",
        Description::Field("api.apps.v1.ReplicaSetStatus", "readyReplicas"),
        CellSource::Number("/status/readyReplicas"),
    ),
    AGE,
    containers(CONTAINERS),
    images(CONTAINERS),
    Column::string(
        "Selector",
        Description::Field("api.apps.v1.ReplicaSetSpec", "selector"),
        CellSource::Selector("/spec/selector"),
    )
    .wide(),
];

/// The columns of `statefulsets`.
pub(super) const STATEFUL_SETS: &[Column] = &[
    NAME,
    Column::string(
        "Ready",
        Description::Text("Number of the pod with ready state"),
        CellSource::Ratio("/status/readyReplicas", "/spec/replicas"),
    ),
    AGE,
    containers(CONTAINERS),
    images(CONTAINERS),
];

/// The columns of `daemonsets`.
pub(super) const DAEMON_SETS: &[Column] = &[
    NAME,
    Column::integer(
        "Desired",
        Description::Field("api.apps.v1.DaemonSetStatus", "desiredNumberScheduled"),
        CellSource::Number("/status/desiredNumberScheduled"),
    ),
    Column::integer(
        "Current",
        Description::Field("api.apps.v1.DaemonSetStatus", "currentNumberScheduled"),
        CellSource::Number("/status/currentNumberScheduled"),
    ),
    Column::integer(
        "Ready",
        Description::Field("api.apps.v1.DaemonSetStatus", "numberReady"),
        CellSource::Number("/status/numberReady"),
    ),
    Column::integer(
        "Up-to-date",
        Description::Field("api.apps.v1.DaemonSetStatus", "updatedNumberScheduled"),
        CellSource::Number("/status/updatedNumberScheduled"),
    ),
    Column::integer(
        "Available",
        Description::Field("api.apps.v1.DaemonSetStatus", "numberAvailable"),
        CellSource::Number("/status/numberAvailable"),
    ),
    Column::string(
        "Node Selector",
        Description::Field("api.core.v1.PodSpec", "nodeSelector"),
        CellSource::Custom(|object, _| json!(labels(object, "/spec/template/spec/nodeSelector"))),
    ),
    AGE,
    containers(CONTAINERS),
    images(CONTAINERS),
    Column::string(
        "Selector",
        Description::Field("api.apps.v1.DaemonSetSpec", "selector"),
        CellSource::Selector("/spec/selector"),
    )
    .wide(),
];

/// The columns of `controllerrevisions`.
pub(super) const CONTROLLER_REVISIONS: &[Column] = &[
    NAME,
    Column::string(
        "Controller",
        Description::Text("Controller of the object"),
        CellSource::Custom(|object, _| json!(controller(object))),
    ),
    Column::string(
        "Revision",
        Description::Field("api.apps.v1.ControllerRevision", "revision"),
        CellSource::Number("/revision"),
    ),
    AGE,
];

fn controller(object: &Value) -> String {
    let Some(owner) = items(object, "/metadata/ownerReferences").iter().find(|o| o["controller"] == json!(true)) else {
        return NONE.to_owned();
    };
    let kind = text(owner, "/kind").to_lowercase();
    match text(owner, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text(owner, "/name")),
        None => format!("{kind}/{}", text(owner, "/name")),
    }
}

/// The columns of `jobs`.
pub(super) const JOBS: &[Column] = &[
    NAME,
    Column::string(
        "Status",
        Description::Text("Status of the job."),
        CellSource::Custom(|job, _| json!(job_status(job))),
    ),
    Column::string(
        "Completions",
        Description::Field("api.batch.v1.JobStatus", "succeeded"),
        CellSource::Custom(|job, _| json!(completions(job))),
    ),
    Column::string(
        "Duration",
        Description::Text("Time required to complete the job."),
        CellSource::Custom(|job, now| json!(job_duration(job, now))),
    ),
    AGE,
    containers(CONTAINERS),
    images(CONTAINERS),
    Column::string(
        "Selector",
        Description::Field("api.batch.v1.JobSpec", "selector"),
        CellSource::Selector("/spec/selector"),
    )
    .wide(),
];

fn completions(job: &Value) -> String {
    let succeeded = number(job, "/status/succeeded");
    match (job.pointer("/spec/completions").and_then(Value::as_i64), number(job, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let time = |pointer| text(job, pointer).parse::<Timestamp>().ok();
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => duration::human_duration(duration::seconds_between(start, end.unwrap_or(now))),
    }
}

fn job_status(job: &Value) -> &'static str {
    let deleted = metadata::is_deleted(job);
    let conditions = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"];
    match conditions.into_iter().find(|condition| condition_is_true(job, condition)) {
        Some(ended @ ("Complete" | "Failed")) => ended,
        _ if deleted => "Terminating",
        Some(condition) => condition,
        None => "Running",
    }
}

/// The columns of `cronjobs`.
pub(super) const CRON_JOBS: &[Column] = &[
    NAME,
    Column::string(
        "Schedule",
        Description::Field("api.batch.v1.CronJobSpec", "schedule"),
        CellSource::Text("/spec/schedule", ""),
    ),
    Column::string(
        "Timezone",
        Description::Field("api.batch.v1.CronJobSpec", "timeZone"),
        CellSource::Text("/spec/timeZone", NONE),
    ),
    Column::boolean(
        "Suspend",
        Description::Field("api.batch.v1.CronJobSpec", "suspend"),
        CellSource::Custom(|job, _| json!(suspended(job))),
    ),
    Column::integer(
        "Active",
        Description::Field("api.batch.v1.CronJobStatus", "active"),
        CellSource::Count("/status/active"),
    ),
    Column::string(
        "Last Schedule",
        Description::Field("api.batch.v1.CronJobStatus", "lastScheduleTime"),
        CellSource::Custom(|job, now| match job.pointer("/status/lastScheduleTime") {
            None | Some(Value::Null) => json!(NONE),
            time => json!(duration::since(time, now)),
        }),
    ),
    AGE,
    containers("/spec/jobTemplate/spec/template/spec/containers"),
    images("/spec/jobTemplate/spec/template/spec/containers"),
    Column::string(
        "Selector",
        Description::Field("api.batch.v1.JobSpec", "selector"),
        CellSource::Selector("/spec/jobTemplate/spec/selector"),
    )
    .wide(),
];

fn suspended(job: &Value) -> &'static str {
    match job.pointer("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(json!({}), "Running", "0/1", "")]
    #[case(json!({"spec": {"completions": 3}, "status": {"succeeded": 3, "startTime": "2026-01-01T00:00:00Z",
        "completionTime": "2026-01-01T00:00:30Z", "conditions": [{"type": "Complete", "status": "True"}]}}), "Complete", "3/3", "30s")]
    #[case(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"parallelism": 4},
        "status": {"startTime": "2026-01-01T00:00:00Z"}}), "Terminating", "0/1 of 4", "60s")]
    fn jobs(#[case] job: Value, #[case] status: &str, #[case] done: &str, #[case] duration: &str) {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(
            (job_status(&job), completions(&job).as_str(), job_duration(&job, now).as_str()),
            (status, done, duration)
        );
    }

    #[rstest]
    #[case(json!({}), "")]
    #[case(json!({"s": {"matchLabels": {"b": "1", "a": "2"}}}), "a=2,b=1")]
    #[case(json!({"s": {"matchLabels": {"b": "1"}, "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "c", "operator": "DoesNotExist"},
        {"key": "d", "operator": "Exists"}, {"key": "e", "operator": "NotIn", "values": ["z"]}]}}), "a in (x,y),b=1,!c,d,e notin (z)")]
    fn selectors_are_canonical(#[case] object: Value, #[case] shown: &str) {
        assert_eq!(selector(&object, "/s"), shown);
    }

    #[rstest]
    #[case(json!({}), "<none>")]
    #[case(json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": true}]}}),
        "daemonset.apps/d")]
    fn controllers(#[case] object: Value, #[case] shown: &str) {
        assert_eq!(controller(&object), shown);
    }
}
