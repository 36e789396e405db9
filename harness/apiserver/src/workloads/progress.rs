//! The status of deployments: counters, progress with its deadline, pauses and failures of their replica sets. PURE.
//! Follows `pkg/controller/deployment/{progress,sync}.go` and `util/deployment_util.go` there.

use std::time::Duration;

use jiff::Timestamp;

use super::scaling::resolve_fenceposts;
use super::workload_fields::{count, desired_replicas};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::registry::time::rfc3339;

/// The rollout is done.
const AVAILABLE: &str = "NewReplicaSetAvailable";
/// The rollout made no progress in time.
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
/// The deployment is paused.
const PAUSED: &str = "DeploymentPaused";

/// Returns the time that a rollout may take without progress; `None` if it is not limited.
fn deadline(deployment: &Value) -> Option<Duration> {
    let seconds = deployment.pointer("/spec/progressDeadlineSeconds")?.as_u64()?;
    (seconds != u64::from(i32::MAX.unsigned_abs())).then(|| Duration::from_secs(seconds))
}

/// The conditions of a deployment's status.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Conditions {
    all: Vec<Value>,
    now: String,
}

impl Conditions {
    fn of(deployment: &Value, now: Timestamp) -> Self {
        let all = deployment["status"]["conditions"].as_array().cloned().unwrap_or_default();
        Self { all, now: rfc3339(now) }
    }

    fn get(&self, kind: &str) -> Option<&Value> {
        self.all.iter().find(|condition| condition["type"] == kind)
    }

    fn remove(&mut self, kind: &str) {
        self.all.retain(|condition| condition["type"] != kind);
    }

    /// Sets a condition, unless it has this status and reason already: `SetDeploymentCondition`.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let condition = json!({"type": kind, "status": status, "lastUpdateTime": self.now,
            "lastTransitionTime": self.now, "reason": reason, "message": message});
        self.put(condition);
    }

    fn put(&mut self, mut condition: Value) {
        let kind = condition["type"].as_str().unwrap_or_default().to_owned();
        if let Some(known) = self.get(&kind)
            && known["status"] == condition["status"]
        {
            if known["reason"] == condition["reason"] {
                return;
            }
            condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
        }
        self.remove(&kind);
        self.all.push(condition);
    }

    /// Sets the condition `Progressing` because of progress, which changes its time even if it was so before.
    fn progressed(&mut self, message: &str) {
        let known = self.get("Progressing").filter(|known| known["status"] == "True").cloned();
        self.remove("Progressing");
        self.set("Progressing", "True", "ReplicaSetUpdated", message);
        if let (Some(known), Some(condition)) = (known, self.all.last_mut()) {
            condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
        }
    }

    pub(super) fn into_json(self) -> Value {
        Value::Array(self.all)
    }
}

/// Returns the conditions of a deployment that was paused or resumed since the last look, if they change:
/// `checkPausedConditions`.
pub(super) fn paused(deployment: &Value, now: Timestamp) -> Option<Conditions> {
    deadline(deployment)?;
    let mut conditions = Conditions::of(deployment, now);
    let reason = conditions.get("Progressing").and_then(|known| known["reason"].as_str()).unwrap_or_default();
    match (deployment["spec"]["paused"] == json!(true), reason) {
        (_, TIMED_OUT) | (true, PAUSED) => return None,
        (true, _) => conditions.set("Progressing", "Unknown", PAUSED, "Deployment is paused"),
        (false, PAUSED) => conditions.set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed"),
        (false, _) => return None,
    }
    Some(conditions)
}

/// Returns the conditions after the creation of a replica set; `error` is why it failed. `None` without a deadline.
pub(super) fn created(deployment: &Value, set: &str, error: Option<&str>, now: Timestamp) -> Option<Conditions> {
    deadline(deployment)?;
    let mut conditions = Conditions::of(deployment, now);
    match error {
        None => {
            let message = format!("Created new replica set {set:?}");
            conditions.set("Progressing", "True", "NewReplicaSetCreated", &message);
        }
        Some(error) => conditions.set("Progressing", "False", "ReplicaSetCreateError", &failed_creation(set, error)),
    }
    Some(conditions)
}

/// Returns the message about a replica set that cannot be created.
pub(super) fn failed_creation(set: &str, error: &str) -> String {
    format!("Failed to create new replica set {set:?}: {error}")
}

/// Returns the conditions of a deployment whose replica set exists, but of whose progress nothing is known.
pub(super) fn found(deployment: &Value, set: &str, now: Timestamp) -> Option<Conditions> {
    deadline(deployment)?;
    let mut conditions = Conditions::of(deployment, now);
    if conditions.get("Progressing").is_some() {
        return None;
    }
    conditions.set("Progressing", "True", "FoundNewReplicaSet", &format!("Found new replica set {set:?}"));
    Some(conditions)
}

/// Returns the status of a deployment without an estimate of its progress: `calculateStatus`.
pub(super) fn status(deployment: &Value, sets: &[Value], new: Option<&Value>, now: Timestamp) -> Value {
    let mut conditions = Conditions::of(deployment, now);
    let mut status = counters(deployment, sets, new);
    set_available(&mut conditions, deployment, &status);
    status.insert("conditions", conditions.into_json());
    Value::Object(status)
}

/// Returns the status of a deployment during a rollout: `syncRolloutStatus`.
pub(super) fn rollout_status(deployment: &Value, sets: &[Value], new: Option<&Value>, now: Timestamp) -> Value {
    let mut conditions = Conditions::of(deployment, now);
    let mut status = counters(deployment, sets, new);
    set_available(&mut conditions, deployment, &status);
    let counters = Value::Object(status.clone());
    set_progress(&mut conditions, deployment, &counters, new, now);
    match replica_failure(sets, new) {
        Some(failure) => conditions.put(failure),
        None => conditions.remove("ReplicaFailure"),
    }
    status.insert("conditions", conditions.into_json());
    Value::Object(status)
}

fn counters(deployment: &Value, sets: &[Value], new: Option<&Value>) -> Map {
    let sum = |field: &str| sets.iter().map(|set| count(set, field)).sum::<i64>();
    let available = sum("/status/availableReplicas");
    let fields = [
        ("observedGeneration", metadata::generation(deployment)),
        ("replicas", sum("/status/replicas")),
        ("updatedReplicas", new.map_or(0, |set| count(set, "/status/replicas"))),
        ("readyReplicas", sum("/status/readyReplicas")),
        ("availableReplicas", available),
        ("terminatingReplicas", sum("/status/terminatingReplicas")),
        ("unavailableReplicas", (sum("/spec/replicas") - available).max(0)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

fn set_available(conditions: &mut Conditions, deployment: &Value, status: &Map) {
    let available = status.get("availableReplicas").and_then(Value::as_i64).unwrap_or(0);
    let (_, unavailable) = resolve_fenceposts(deployment);
    if available >= desired_replicas(deployment) - unavailable {
        let message = "Deployment has minimum availability.";
        conditions.set("Available", "True", "MinimumReplicasAvailable", message);
    } else {
        let message = "Deployment does not have minimum availability.";
        conditions.set("Available", "False", "MinimumReplicasUnavailable", message);
    }
}

fn set_progress(conditions: &mut Conditions, deployment: &Value, status: &Value, new: Option<&Value>, now: Timestamp) {
    let Some(deadline) = deadline(deployment) else { return conditions.remove("Progressing") };
    let reason = |conditions: &Conditions| {
        conditions.get("Progressing").and_then(|known| known["reason"].as_str()).unwrap_or_default().to_owned()
    };
    if status["replicas"] == status["updatedReplicas"] && reason(conditions) == AVAILABLE {
        return;
    }
    let rolled_out = match new {
        Some(set) => format!("ReplicaSet {:?}", metadata::name(set)),
        None => format!("Deployment {:?}", metadata::name(deployment)),
    };
    if is_complete(deployment, status) {
        let message = format!("{rolled_out} has successfully progressed.");
        conditions.set("Progressing", "True", AVAILABLE, &message);
    } else if has_progressed(&deployment["status"], status) {
        conditions.progressed(&format!("{rolled_out} is progressing."));
    } else if is_timed_out(conditions, deadline, now) {
        conditions.set("Progressing", "False", TIMED_OUT, &format!("{rolled_out} has timed out progressing."));
    }
}

/// Returns true if all pods are new and available, as of the present generation: `DeploymentComplete`.
pub(super) fn is_complete(deployment: &Value, status: &Value) -> bool {
    let wanted = desired_replicas(deployment);
    let known = |field: &str| status[field].as_i64().unwrap_or(0);
    known("observedGeneration") >= metadata::generation(deployment)
        && ["updatedReplicas", "replicas", "availableReplicas"].iter().all(|field| known(field) == wanted)
}

fn has_progressed(old: &Value, new: &Value) -> bool {
    let number = |status: &Value, field: &str| status[field].as_i64().unwrap_or(0);
    let of_old_sets = |status: &Value| number(status, "replicas") - number(status, "updatedReplicas");
    let grows = |field: &str| number(new, field) > number(old, field);
    grows("updatedReplicas")
        || of_old_sets(new) < of_old_sets(old)
        || grows("readyReplicas")
        || grows("availableReplicas")
}

fn is_timed_out(conditions: &Conditions, deadline: Duration, now: Timestamp) -> bool {
    let Some(known) = conditions.get("Progressing") else { return false };
    match known["reason"].as_str().unwrap_or_default() {
        AVAILABLE => false,
        TIMED_OUT => true,
        _ => updated_at(known).and_then(|at| at.checked_add(deadline).ok()).is_some_and(|at| at < now),
    }
}

fn updated_at(condition: &Value) -> Option<Timestamp> {
    condition["lastUpdateTime"].as_str()?.parse().ok()
}

/// Returns the failure of the new replica set, or of another one, as a condition of the deployment.
fn replica_failure(sets: &[Value], new: Option<&Value>) -> Option<Value> {
    let mut failures = new.into_iter().chain(sets).flat_map(|set| {
        let conditions = set["status"]["conditions"].as_array().into_iter().flatten();
        conditions.filter(|condition| condition["type"] == "ReplicaFailure")
    });
    let failure = failures.next()?;
    Some(json!({"type": "ReplicaFailure", "status": failure["status"],
        "lastTransitionTime": failure["lastTransitionTime"], "lastUpdateTime": failure["lastTransitionTime"],
        "reason": failure["reason"], "message": failure["message"]}))
}

/// Returns the time at which a deployment without progress has to be looked at again: `requeueStuckDeployment`.
pub(super) fn next_check(deployment: &Value, now: Timestamp) -> Option<Timestamp> {
    let deadline = deadline(deployment)?;
    let conditions = Conditions::of(deployment, now);
    let known = conditions.get("Progressing")?;
    let settled = matches!(known["reason"].as_str(), Some(TIMED_OUT | PAUSED));
    if settled || deployment["spec"]["paused"] == json!(true) || is_complete(deployment, &deployment["status"]) {
        return None;
    }
    // The second makes up for the fraction that times in the API do not have.
    let at = updated_at(known)?.checked_add(deadline + Duration::from_secs(1)).ok()?;
    (at > now).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const START: &str = "2026-01-01T00:00:00Z";

    fn at(seconds: i64) -> Timestamp {
        START.parse::<Timestamp>().unwrap() + Duration::from_secs(seconds.unsigned_abs())
    }

    fn deployment(status: &Value, reason: &str) -> Value {
        let mut deployment = json!({"metadata": {"name": "d", "generation": 1}, "status": status, "spec": {"replicas": 2,
            "progressDeadlineSeconds": 60, "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}});
        let condition = json!({"type": "Progressing", "status": "True", "reason": reason, "message": "m",
            "lastUpdateTime": START, "lastTransitionTime": START});
        deployment["status"]["conditions"] = json!([condition]);
        deployment
    }

    fn set(name: &str, size: i64, replicas: i64, available: i64) -> Value {
        json!({"metadata": {"name": name, "uid": name}, "spec": {"replicas": size},
            "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available}})
    }

    /// As `TestSyncRolloutStatus` in `pkg/controller/deployment/progress_test.go`.
    #[rstest]
    #[case::created(&json!({}), "NewReplicaSetCreated", set("n", 2, 0, 0), 30, "True", "NewReplicaSetCreated")]
    #[case::progresses(&json!({}), "NewReplicaSetCreated", set("n", 2, 1, 0), 30, "True", "ReplicaSetUpdated")]
    #[case::complete(&json!({"updatedReplicas": 2}), "ReplicaSetUpdated", set("n", 2, 2, 2), 30, "True", "NewReplicaSetAvailable")]
    #[case::stuck(&json!({"replicas": 2, "updatedReplicas": 2}), "ReplicaSetUpdated", set("n", 2, 2, 0), 60, "True", "ReplicaSetUpdated")]
    #[case::timed_out(&json!({"replicas": 2, "updatedReplicas": 2}), "ReplicaSetUpdated", set("n", 2, 2, 0), 61, "False", "ProgressDeadlineExceeded")]
    #[case::done_before(&json!({"replicas": 2, "updatedReplicas": 2}), "NewReplicaSetAvailable", set("n", 2, 2, 0), 90, "True", "NewReplicaSetAvailable")]
    fn rollouts(
        #[case] old: &Value,
        #[case] reason: &str,
        #[case] new: Value,
        #[case] seconds: i64,
        #[case] status: &str,
        #[case] expected: &str,
    ) {
        let deployment = deployment(old, reason);
        let found = rollout_status(&deployment, std::slice::from_ref(&new), Some(&new), at(seconds));
        let progressing = found["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Progressing");
        let progressing = progressing.unwrap();
        assert_eq!((&progressing["status"], &progressing["reason"]), (&json!(status), &json!(expected)));
    }

    #[test]
    fn unavailable_replicas_are_those_of_the_specs() {
        let old = set("o", 1, 1, 1);
        let new = set("n", 1, 0, 0);
        let found = status(&deployment(&json!({}), "ReplicaSetUpdated"), &[old, new.clone()], Some(&new), at(0));
        assert_eq!((&found["unavailableReplicas"], &found["replicas"]), (&json!(1), &json!(1)));
    }

    #[test]
    fn failures_of_replica_sets_are_those_of_the_deployment() {
        let mut new = set("n", 1, 0, 0);
        new["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
            "message": "pods \"n-\" is forbidden: no", "lastTransitionTime": START}]);
        let mut deployment = deployment(&json!({}), "ReplicaSetUpdated");
        let found = rollout_status(&deployment, std::slice::from_ref(&new), Some(&new), at(1));
        let failure = found["conditions"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&failure["type"], &failure["reason"]), (&json!("ReplicaFailure"), &json!("FailedCreate")));
        assert_eq!(failure["lastUpdateTime"], START);
        deployment["status"] = found;
        new["status"]["conditions"] = json!([]);
        let found = rollout_status(&deployment, std::slice::from_ref(&new), Some(&new), at(2));
        assert!(found["conditions"].as_array().unwrap().iter().all(|one| one["type"] != "ReplicaFailure"));
    }

    #[test]
    fn pauses_are_conditions() {
        let mut deployment = deployment(&json!({}), "ReplicaSetUpdated");
        assert_eq!(paused(&deployment, at(1)), None);
        deployment["spec"]["paused"] = json!(true);
        let conditions = paused(&deployment, at(1)).unwrap().into_json();
        assert_eq!((&conditions[0]["status"], &conditions[0]["reason"]), (&json!("Unknown"), &json!(PAUSED)));
        deployment["status"]["conditions"] = conditions;
        assert_eq!((paused(&deployment, at(2)), next_check(&deployment, at(2))), (None, None));
        deployment["spec"]["paused"] = json!(false);
        let conditions = paused(&deployment, at(3)).unwrap().into_json();
        assert_eq!(conditions[0]["reason"], "DeploymentResumed");
        assert_eq!(conditions[0]["lastTransitionTime"], rfc3339(at(1)));
        deployment["status"]["conditions"] = conditions;
        assert_eq!(next_check(&deployment, at(3)), Some(at(64)));
    }

    #[test]
    fn without_a_deadline_nothing_is_estimated() {
        for none in [Value::Null, json!(i32::MAX)] {
            let mut deployment = deployment(&json!({}), "ReplicaSetUpdated");
            deployment["spec"]["progressDeadlineSeconds"] = none;
            let new = set("n", 2, 1, 0);
            let found = rollout_status(&deployment, std::slice::from_ref(&new), Some(&new), at(1));
            assert!(found["conditions"].as_array().unwrap().iter().all(|one| one["type"] != "Progressing"));
            assert_eq!(next_check(&deployment, at(1)), None);
        }
    }
}
