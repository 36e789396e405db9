//! Writes of controllers.
//!
//! [`Writer::apply`] executes one [`Action`] with its preconditions, logs it with its reason and result, and returns
//! the class of the error. Timeouts, retries and the request rate are the client's ([`crate::runtime::client`]).

use http::Method;
use kube::Client;
use kube::api::{DeleteParams, Preconditions};
use serde_json::{Value, json};

use super::actions::{Action, node_ttl_body, pod_status_body};
use super::request::{JSON, request, request_while};
use crate::api::View as _;
use crate::api::object_key::ObjectKey;
use crate::runtime::client::RepeatWhile;
use crate::runtime::error::ApiError;
use crate::runtime::url;

const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";

/// Executes actions with one controller's client. Cheap to clone.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    wanted: Option<RepeatWhile>,
}

impl Writer {
    /// Creates a writer that uses `client`.
    pub fn new(client: Client) -> Self {
        Self { client, wanted: None }
    }

    /// Returns a writer whose requests the client repeats only while `wanted` holds. A busy server may ask for a pause
    /// of any length before the next attempt.
    #[must_use]
    pub fn repeating_while(&self, wanted: RepeatWhile) -> Self {
        Self { wanted: Some(wanted), ..self.clone() }
    }

    /// Executes `action`; `why` is logged.
    ///
    /// # Errors
    /// [`ApiError`]. After [`ApiError::Timeout`] and [`ApiError::Transport`] the write may have happened.
    pub async fn apply(&self, action: &Action, why: &str) -> Result<(), ApiError> {
        let result = self.execute(action).await;
        match &result {
            Ok(()) => tracing::info!(%action, why, "written"),
            Err(error @ (ApiError::NotFound(_) | ApiError::Conflict(_))) => {
                tracing::info!(%action, why, class = error.class(), %error, "not written");
            }
            Err(error) => tracing::warn!(%action, why, class = error.class(), %error, "write failed"),
        }
        result
    }

    async fn execute(&self, action: &Action) -> Result<(), ApiError> {
        match action {
            Action::UpdatePdbStatus { pdb } => {
                let mut body = json!(pdb);
                body["apiVersion"] = "policy/v1".into();
                body["kind"] = "PodDisruptionBudget".into();
                let namespace = pdb.namespace();
                let name = pdb.name();
                let path = ["apis", "policy", "v1", "namespaces", namespace, "poddisruptionbudgets", name, "status"];
                self.send(Method::PUT, &url::path(&path), JSON, &body).await
            }
            Action::ResetDisruptionTarget { pod, uid, resource_version, condition } => {
                let mut body: Value = request(&self.client, Method::GET, &pod_path(pod, &[]), JSON, None).await?;
                check_version(&body, uid, resource_version)?;
                replace_condition(&mut body, json!(condition));
                self.send(Method::PUT, &pod_path(pod, &["status"]), JSON, &body).await
            }
            Action::PatchPodStatus { pod, uid, status } => {
                let body = pod_status_body(uid, status);
                self.send(Method::PATCH, &pod_path(pod, &["status"]), STRATEGIC_MERGE, &body).await
            }
            Action::DeletePod { pod, uid, grace_seconds } => {
                let preconditions = Preconditions { uid: Some(uid.to_string()), ..Preconditions::default() };
                let options = DeleteParams {
                    grace_period_seconds: *grace_seconds,
                    preconditions: Some(preconditions),
                    ..DeleteParams::default()
                };
                self.send(Method::DELETE, &pod_path(pod, &[]), JSON, &json!(options)).await
            }
            Action::PatchNodeTtl { node, ttl_seconds } => {
                let path = url::path(&["api", "v1", "nodes", node]);
                self.send(Method::PATCH, &path, STRATEGIC_MERGE, &node_ttl_body(*ttl_seconds)).await
            }
        }
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Result<(), ApiError> {
        // The response is the written object, which the cache receives through the watch.
        let written = match self.wanted.clone() {
            Some(wanted) => request_while(&self.client, (method, path), content_type, Some(body), wanted).await,
            None => request(&self.client, method, path, content_type, Some(body)).await,
        };
        written.map(|serde::de::IgnoredAny| ())
    }
}

fn pod_path(pod: &ObjectKey, subresource: &[&str]) -> String {
    let pod: [&str; 6] = ["api", "v1", "namespaces", &pod.namespace, "pods", &pod.name];
    url::path(&[&pod, subresource].concat())
}

fn check_version(live: &Value, uid: &str, resource_version: &str) -> Result<(), ApiError> {
    let metadata = &live["metadata"];
    if metadata["uid"] == uid && metadata["resourceVersion"] == resource_version {
        return Ok(());
    }
    Err(ApiError::stale("the live object is not the one in the cache"))
}

fn replace_condition(pod: &mut Value, condition: Value) {
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|existing| existing["type"] == condition["type"]) {
        Some(existing) => *existing = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::condition::PodCondition;
    use crate::api::pdb::PdbView;
    use crate::runtime::clock::Clock;
    use crate::runtime::testing::{MockResponse, ReceivedRequest, RequestLog, serve};

    fn writer_with_log(
        answer: impl Fn(&ReceivedRequest) -> MockResponse + Send + Sync + 'static,
    ) -> (Writer, RequestLog) {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let (client, log) = serve(&clock, answer);
        (Writer::new(client), log)
    }

    fn seen(log: &RequestLog) -> Vec<(String, Value)> {
        log.lock().iter().map(|seen| (seen.line.clone(), seen.body.clone())).collect()
    }

    fn live_pod() -> Value {
        json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": { "namespace": "ns", "name": "p", "uid": "u1", "resourceVersion": "7",
                "annotations": { "a": "b" } },
            "spec": { "containers": [{ "name": "c" }] },
            "status": { "phase": "Running", "conditions": [
                { "type": "Ready", "status": "True" }, { "type": "DisruptionTarget", "status": "True", "reason": "r" },
            ] },
        })
    }

    fn reset(resource_version: &str) -> Action {
        let condition =
            PodCondition { kind: "DisruptionTarget".into(), status: "False".into(), ..PodCondition::default() };
        Action::ResetDisruptionTarget {
            pod: ObjectKey::new("ns", "p"),
            uid: "u1".into(),
            resource_version: resource_version.into(),
            condition: Box::new(condition),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_names_the_uid_and_the_grace_only_when_there_is_one() {
        let (writer, log) = writer_with_log(|_| MockResponse::Json(200, json!({})));
        for grace_seconds in [Some(0), None] {
            let action = Action::DeletePod { pod: ObjectKey::new("ns", "p"), uid: "u1".into(), grace_seconds };
            writer.apply(&action, "test").await.unwrap();
        }
        let path = "DELETE /api/v1/namespaces/ns/pods/p".to_owned();
        let preconditions = json!({ "uid": "u1" });
        assert_eq!(seen(&log)[0], (path.clone(), json!({ "gracePeriodSeconds": 0, "preconditions": preconditions })));
        assert_eq!(seen(&log)[1], (path, json!({ "preconditions": preconditions })));
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_is_written_whole() {
        let (writer, log) = writer_with_log(|_| MockResponse::Json(200, json!({})));
        let body = json!({
            "metadata": { "namespace": "ns", "name": "b", "uid": "u", "resourceVersion": "7", "labels": { "a": "b" },
                "annotations": { "c": "d" }, "finalizers": ["e"],
                "ownerReferences": [{ "apiVersion": "v1", "kind": "K", "name": "o", "uid": "x" }] },
            "spec": { "minAvailable": "50%", "selector": { "matchLabels": { "a": "b" } } },
            "status": { "currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1 },
        });
        let pdb: PdbView = serde_json::from_value(body.clone()).unwrap();
        writer.apply(&Action::UpdatePdbStatus { pdb: Box::new(pdb) }, "test").await.unwrap();
        let (line, sent) = seen(&log).remove(0);
        assert_eq!(line, "PUT /apis/policy/v1/namespaces/ns/poddisruptionbudgets/b/status");
        assert_eq!(sent["metadata"], body["metadata"], "a PUT drops what it leaves out");
        assert_eq!((&sent["apiVersion"], &sent["kind"]), (&json!("policy/v1"), &json!("PodDisruptionBudget")));
        assert_eq!(sent["spec"]["minAvailable"], "50%");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reset_puts_the_live_pod_with_one_condition_replaced() {
        let (writer, log) = writer_with_log(|_| MockResponse::Json(200, live_pod()));
        writer.apply(&reset("7"), "test").await.unwrap();
        let seen = seen(&log);
        assert_eq!(seen[0].0, "GET /api/v1/namespaces/ns/pods/p");
        assert_eq!(seen[1].0, "PUT /api/v1/namespaces/ns/pods/p/status");
        let mut expected = live_pod();
        expected["status"]["conditions"][1] =
            json!({ "type": "DisruptionTarget", "status": "False", "lastProbeTime": null, "lastTransitionTime": null });
        assert_eq!(seen[1].1, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reset_of_another_version_is_a_conflict_and_writes_nothing() {
        let (writer, log) = writer_with_log(|_| MockResponse::Json(200, live_pod()));
        assert!(writer.apply(&reset("6"), "test").await.unwrap_err().is_conflict());
        assert_eq!(log.lock().len(), 1);
    }
}
