//! Requests for aggregated APIs, which go to the service of an `APIService`. Follows
//! `staging/src/k8s.io/kube-aggregator/pkg/apiserver/handler_proxy.go` of Kubernetes 1.36.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::parsed_request::ParsedRequest;
use crate::json::{Value, json};
#[cfg(feature = "controllers")]
use crate::outbound::OutboundError;
use crate::outbound::{self, ClientConfig, OutboundRequest};
use crate::registry::Registry;
use crate::request::{ApiRequest, Reply, ReplyBody};
use crate::server::ApiServer;
use crate::status::Status;
use crate::store::ResourceId;

const GROUP: &str = "apiregistration.k8s.io";
const RESOURCE: &str = "apiservices";

/// Time that an aggregated API has for its list of resources, and the list's largest size in bytes.
const DISCOVERY_TIME: Duration = Duration::from_secs(5);
const DISCOVERY_BYTES: usize = 16 << 20;

/// Headers that belong to one connection, or say who the client is.
static DROPPED: [HeaderName; 8] = [
    header::AUTHORIZATION,
    header::CONNECTION,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Answers a request for an aggregated API; `None` if the path belongs to none.
pub(super) async fn forward(server: &ApiServer, registry: &Registry, parsed: &ParsedRequest) -> Option<Reply> {
    let config = target(server, registry, &parsed.request.path)?;
    Some(Box::pin(send(server, parsed, &config)).await)
}

async fn send(server: &ApiServer, parsed: &ParsedRequest, config: &ClientConfig) -> Reply {
    let request = &parsed.request;
    let endpoint = match outbound::endpoint(server, server.clock(), config) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            tracing::info!(path = request.path, %error, "an aggregated API is not available");
            return Reply::text(503, "service unavailable\n");
        }
    };
    let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
    let outbound = OutboundRequest {
        method: request.method.clone(),
        uri: format!("{}{query}", request.path),
        headers: headers(&request.headers, &parsed.user_info()),
        body: request.body.clone(),
    };
    match outbound::forward(&endpoint, outbound).await {
        Ok((parts, _)) if parts.status == StatusCode::SWITCHING_PROTOCOLS => {
            let mut reply = Reply::json(parts.status.as_u16(), "");
            (reply.headers, reply.extensions) = (parts.headers, parts.extensions);
            reply
        }
        Ok((parts, body)) => {
            let mut reply = Reply::json(parts.status.as_u16(), "");
            reply.headers = parts.headers;
            for name in &DROPPED {
                reply.headers.remove(name);
            }
            reply.headers.remove(header::CONTENT_LENGTH);
            reply.body = ReplyBody::Stream(body);
            reply
        }
        Err(why) => {
            let why = format!("error trying to reach service: {why}");
            Status::failure(503, "ServiceUnavailable", why).into()
        }
    }
}

/// Returns the aggregated APIs: group, version and where each is.
fn aggregated(server: &ApiServer, registry: &Registry) -> Vec<(String, String, ClientConfig)> {
    let stored = server.list(&ResourceId::new(GROUP, RESOURCE), None);
    let of = |service: Value| {
        let text = |field: &str| service["spec"][field].as_str().unwrap_or_default().to_owned();
        let group = text("group");
        let version = text("version");
        let config = client_config(&service)?;
        (!registry.has_version(&group, &version)).then_some((group, version, config))
    };
    stored.iter().filter_map(|stored| of(stored.value())).collect()
}

/// Returns true for a request for the list of groups.
pub(super) fn lists_groups(request: &ApiRequest) -> bool {
    request.path.trim_end_matches('/') == "/apis"
}

/// Adds the aggregated APIs to the list of groups; those that do not answer without their resources.
pub(super) async fn extend_discovery(
    server: &ApiServer,
    registry: &Registry,
    parsed: &ParsedRequest,
    reply: &mut Reply,
) {
    let apis = aggregated(server, registry);
    let user = parsed.user.info();
    let ReplyBody::Full(body) = &reply.body else { return };
    let Some(mut document) = serde_json::from_slice::<Value>(body).ok().filter(|_| !apis.is_empty()) else { return };
    let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (group, version, config) in apis {
        let path = format!("/apis/{group}/{version}");
        let asked = ask_for_resources(server, &user, &config, &path);
        let found = match server.clock().timeout(DISCOVERY_TIME, asked).await.flatten() {
            Some(resources) => json!({"version": version, "resources": discovered(&resources, &group, &version),
                "freshness": "Current"}),
            // It is known, but not what it has: `syncAPIService` of kube-aggregator's discovery manager.
            None => json!({"version": version, "freshness": "Stale"}),
        };
        groups.entry(group).or_default().push(found);
    }
    let modern = document["kind"] == "APIGroupDiscoveryList";
    let list = if modern { "items" } else { "groups" };
    let Some(known) = document.get_mut(list).and_then(Value::as_array_mut) else { return };
    for (group, versions) in groups {
        known.push(if modern {
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
        } else {
            let of = |version: &Value| {
                let number = version["version"].as_str().unwrap_or_default();
                json!({"groupVersion": format!("{group}/{number}"), "version": number})
            };
            let versions: Vec<Value> = versions.iter().map(of).collect();
            json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
        });
    }
    reply.headers.remove(header::ETAG);
    reply.body = ReplyBody::Full(format!("{document}\n").into());
}

/// Returns the `APIResourceList` of an aggregated API; `None` if it does not answer.
async fn ask_for_resources(server: &ApiServer, user: &Value, config: &ClientConfig, path: &str) -> Option<Value> {
    let endpoint = outbound::endpoint(server, server.clock(), config).ok()?;
    let headers = headers(&HeaderMap::new(), user);
    let outbound = OutboundRequest { method: http::Method::GET, uri: path.to_owned(), headers, body: Bytes::new() };
    let (parts, mut body) = outbound::forward(&endpoint, outbound).await.ok()?;
    let mut text = Vec::new();
    while let Some(chunk) = body.next().await {
        text.extend_from_slice(&chunk.ok()?);
        if text.len() > DISCOVERY_BYTES {
            return None;
        }
    }
    parts.status.is_success().then(|| serde_json::from_slice(&text).ok()).flatten()
}

/// Reasons why an aggregated API does not answer, in upstream's words.
#[cfg(feature = "controllers")]
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    #[error("failing or missing response from {url}: {error}")]
    Unreachable { url: String, error: OutboundError },
    #[error("failing or missing response from {url}: bad status from {url}: {status}")]
    Status { url: String, status: u16 },
    #[error("failing or missing response from {url}: Get {url:?}: {error}")]
    Failed { url: String, error: OutboundError },
    #[error("failing or missing response from {0}: Get {0:?}: context deadline exceeded")]
    Deadline(String),
}

/// Requests the resources of an aggregated API, as kube-aggregator does to see whether it is available.
///
/// # Errors
/// The API does not answer in time, or not with success.
#[cfg(feature = "controllers")]
pub(crate) async fn check_discovery(server: &ApiServer, service: &Value) -> Result<(), DiscoveryError> {
    let (spec, Some(config)) = (&service["spec"], client_config(service)) else { return Ok(()) };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let path = format!("/apis/{}/{}", text(&spec["group"]), text(&spec["version"]));
    let namespace = text(&spec["service"]["namespace"]);
    let name = text(&spec["service"]["name"]);
    let stored = server.get(&ResourceId::new("", "services"), &namespace, &name).map(|stored| stored.value());
    let address = stored.map(|stored| text(&stored["spec"]["clusterIP"])).unwrap_or_default();
    let url = format!("https://{address}:{}{path}", spec["service"]["port"].as_u64().unwrap_or(443));
    let endpoint = match outbound::endpoint(server, server.clock(), &config) {
        Ok(endpoint) => endpoint,
        Err(error) => return Err(DiscoveryError::Unreachable { url, error }),
    };
    let mut headers = HeaderMap::new();
    headers.insert("x-remote-user", HeaderValue::from_static("system:kube-aggregator"));
    headers.insert("x-remote-group", HeaderValue::from_static("system:masters"));
    let outbound = OutboundRequest { method: http::Method::GET, uri: path, headers, body: Bytes::new() };
    match server.clock().timeout(DISCOVERY_TIME, outbound::forward(&endpoint, outbound)).await {
        Some(Ok((parts, _))) if parts.status.is_success() => Ok(()),
        Some(Ok((parts, _))) => Err(DiscoveryError::Status { url, status: parts.status.as_u16() }),
        Some(Err(error)) => Err(DiscoveryError::Failed { url, error }),
        None => Err(DiscoveryError::Deadline(url)),
    }
}

/// Returns the resources of an `APIResourceList` in the form of aggregated discovery.
fn discovered(list: &Value, group: &str, version: &str) -> Vec<Value> {
    let all = list["resources"].as_array().map_or(&[][..], Vec::as_slice);
    let name_of = |resource: &Value| resource["name"].as_str().unwrap_or_default().to_owned();
    let own = |resource: &Value, field: &str, other: &str| {
        resource[field].as_str().filter(|text| !text.is_empty()).unwrap_or(other).to_owned()
    };
    let kind_of = |resource: &Value| {
        json!({"group": own(resource, "group", group), "version": own(resource, "version", version),
            "kind": resource["kind"]})
    };
    let of = |resource: &Value| {
        let name = name_of(resource);
        let prefix = format!("{name}/");
        let subresources: Vec<Value> = all
            .iter()
            .filter_map(|other| Some((name_of(other).strip_prefix(&prefix)?.to_owned(), other)))
            .map(|(name, other)| json!({"subresource": name, "responseKind": kind_of(other), "verbs": other["verbs"]}))
            .collect();
        let scope = if resource["namespaced"] == json!(true) { "Namespaced" } else { "Cluster" };
        let mut shown = json!({"resource": name, "responseKind": kind_of(resource), "scope": scope,
            "singularResource": resource["singularName"], "verbs": resource["verbs"]});
        for field in ["shortNames", "categories"] {
            if resource[field].is_array() {
                shown[field] = resource[field].clone();
            }
        }
        if !subresources.is_empty() {
            shown["subresources"] = subresources.into();
        }
        shown
    };
    all.iter().filter(|resource| !name_of(resource).contains('/')).map(of).collect()
}

/// Returns where the API of a path is, if it is an aggregated one.
fn target(server: &ApiServer, registry: &Registry, path: &str) -> Option<ClientConfig> {
    let mut parts = path.strip_prefix("/apis/")?.split('/');
    let group = parts.next()?;
    let version = parts.next()?;
    if registry.has_version(group, version) {
        return None;
    }
    client_config(&server.get(&ResourceId::new(GROUP, RESOURCE), "", &format!("{version}.{group}"))?.value())
}

/// Returns where the service of an `APIService` is; `None` for those that this server serves itself.
fn client_config(service: &Value) -> Option<ClientConfig> {
    let spec = &service["spec"];
    if !spec["service"].is_object() {
        return None;
    }
    let config: Value = json!({
        "service": spec["service"],
        "caBundle": spec["caBundle"],
        "insecureSkipTLSVerify": spec["insecureSkipTLSVerify"],
    });
    Some(ClientConfig::of(&config))
}

/// Returns the headers for the aggregated API server: those of the request, and its user.
fn headers(sent: &HeaderMap, user: &Value) -> HeaderMap {
    let mut headers = sent.clone();
    let upgrade = headers.get(header::UPGRADE).cloned();
    for name in &DROPPED {
        headers.remove(name);
    }
    // A WebSocket, or SPDY: the connections are joined if the server agrees.
    if let Some(upgrade) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, upgrade);
    }
    let foreign = |name: &&HeaderName| {
        let name = name.as_str();
        name.starts_with("x-remote-") || name.starts_with("impersonate-")
    };
    let foreign: Vec<HeaderName> = headers.keys().filter(foreign).cloned().collect();
    for name in foreign {
        headers.remove(name);
    }
    let mut add = |name: &'static str, value: &Value| {
        if let Some(value) = value.as_str().and_then(|text| HeaderValue::from_str(text).ok()) {
            headers.append(HeaderName::from_static(name), value);
        }
    };
    add("x-remote-user", &user["username"]);
    add("x-remote-uid", &user["uid"]);
    for group in user["groups"].as_array().into_iter().flatten() {
        add("x-remote-group", group);
    }
    headers
}
