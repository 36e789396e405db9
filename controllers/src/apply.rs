//! The one door for writes, and the live reads next to it.
//!
//! [`Writer::apply`] executes one [`Action`] with its preconditions, logs it with its reason and its outcome, and returns
//! the class of the error. Time limits, retries the server asks for and the request rate are the client's
//! ([`crate::runtime::client`]).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::api::{DeleteParams, Preconditions};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::actions::{Action, node_ttl_body, pod_status_body};
use crate::error::ApiError;
use crate::runtime::cache::{CacheObject, ObjectKey};
use crate::runtime::clock::Clock;
use crate::views::View as _;

/// How long the answer of discovery is believed.
pub const DISCOVERY_TTL: Duration = Duration::from_secs(30);

const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json";

/// Executes actions as one controller's client. Cheap to clone.
#[derive(Clone)]
pub struct Writer {
    client: Client,
}

impl Writer {
    /// A door that writes through `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Executes `action`; `why` goes to the log.
    ///
    /// # Errors
    /// The class of the failure. After [`ApiError::Timeout`] and [`ApiError::Transport`] the write may have happened.
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
                let (namespace, name) = (pdb.namespace(), pdb.name());
                let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}/status");
                self.send(Method::PUT, &path, JSON, &body).await
            }
            Action::ResetDisruptionTarget { pod, uid, resource_version, condition } => {
                let mut body: Value = request(&self.client, Method::GET, &pod_path(pod, ""), JSON, None).await?;
                check_version(&body, uid, resource_version)?;
                replace_condition(&mut body, json!(condition));
                self.send(Method::PUT, &pod_path(pod, "/status"), JSON, &body).await
            }
            Action::PatchPodStatus { pod, uid, status } => {
                let body = pod_status_body(uid, status);
                self.send(Method::PATCH, &pod_path(pod, "/status"), STRATEGIC_MERGE, &body).await
            }
            Action::DeletePod { pod, uid, grace_seconds } => {
                let preconditions = Preconditions { uid: Some(uid.to_string()), ..Preconditions::default() };
                let options = DeleteParams {
                    grace_period_seconds: *grace_seconds,
                    preconditions: Some(preconditions),
                    ..DeleteParams::default()
                };
                self.send(Method::DELETE, &pod_path(pod, ""), JSON, &json!(options)).await
            }
            Action::PatchNodeTtl { node, ttl_seconds } => {
                let path = format!("/api/v1/nodes/{node}");
                self.send(Method::PATCH, &path, STRATEGIC_MERGE, &node_ttl_body(*ttl_seconds)).await
            }
        }
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Result<(), ApiError> {
        // The answer is the object as written; the cache learns it from the watch.
        request::<serde::de::IgnoredAny>(&self.client, method, path, content_type, Some(body)).await.map(drop)
    }
}

/// Live reads, for decisions that must not rest on a cache. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    client: Client,
    clock: Clock,
    discovered: Arc<Mutex<Vec<Discovered>>>,
}

#[derive(Clone)]
struct Discovered {
    api_version: String,
    at: Duration,
    resources: Arc<APIResourceList>,
}

impl Reader {
    /// Reads through `client`.
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock, discovered: Arc::default() }
    }

    /// GET of the object with this key, as the view `V`.
    ///
    /// # Errors
    /// The class of the failure; [`ApiError::NotFound`] when the server says that it does not exist.
    pub async fn get<V: CacheObject>(&self, key: &ObjectKey) -> Result<V, ApiError> {
        let namespace = (!key.namespace.is_empty()).then_some(&*key.namespace);
        let path = format!("{}/{}", V::Resource::url_path(&(), namespace), key.name);
        request(&self.client, Method::GET, &path, JSON, None).await
    }

    /// GET of the `scale` subresource of any kind, e.g. `("apps/v1", "deployments", …)`.
    ///
    /// # Errors
    /// As [`Self::get`]; also [`ApiError::NotFound`] for a kind without scale.
    pub async fn get_scale<T: DeserializeOwned>(
        &self,
        api_version: &str,
        plural: &str,
        key: &ObjectKey,
    ) -> Result<T, ApiError> {
        let path = format!("{}/namespaces/{}/{plural}/{}/scale", root(api_version), key.namespace, key.name);
        request(&self.client, Method::GET, &path, JSON, None).await
    }

    /// The resources that the server has under `api_version`, at most [`DISCOVERY_TTL`] old.
    ///
    /// # Errors
    /// As [`Self::get`]; [`ApiError::NotFound`] when it does not serve that group and version. Errors are not remembered.
    pub async fn resources(&self, api_version: &str) -> Result<Arc<APIResourceList>, ApiError> {
        let now = self.clock.monotonic();
        let held = {
            let mut discovered = self.discovered.lock().unwrap_or_else(PoisonError::into_inner);
            discovered.retain(|entry| now.saturating_sub(entry.at) < DISCOVERY_TTL);
            discovered.iter().find(|entry| entry.api_version == api_version).map(|entry| Arc::clone(&entry.resources))
        };
        if let Some(held) = held {
            return Ok(held);
        }
        let resources: APIResourceList = request(&self.client, Method::GET, &root(api_version), JSON, None).await?;
        let resources = Arc::new(resources);
        let entry = Discovered { api_version: api_version.to_owned(), at: now, resources: Arc::clone(&resources) };
        self.discovered.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        Ok(resources)
    }
}

async fn request<T: DeserializeOwned>(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: Option<&Value>,
) -> Result<T, ApiError> {
    let bytes = body.map(serde_json::to_vec).transpose().map_err(|error| ApiError::Transport(error.to_string()))?;
    let mut builder = Request::builder().method(method).uri(path).header(http::header::ACCEPT, JSON);
    if bytes.is_some() {
        builder = builder.header(http::header::CONTENT_TYPE, content_type);
    }
    let request = builder.body(bytes.unwrap_or_default()).map_err(kube::Error::HttpError)?;
    Ok(client.request(request).await?)
}

fn root(api_version: &str) -> String {
    if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") }
}

fn pod_path(pod: &ObjectKey, subresource: &str) -> String {
    format!("/api/v1/namespaces/{}/pods/{}{subresource}", pod.namespace, pod.name)
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
    match conditions.iter_mut().find(|held| held["type"] == condition["type"]) {
        Some(held) => *held = condition,
        None => conditions.push(condition),
    }
}
