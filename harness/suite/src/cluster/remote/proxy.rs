//! The proxy between the subject and a real server: records every request and reply, applies the fixture's faults, and
//! forwards in the server's names and in JSON.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::Mutex;
use plumbline::metadata;
use plumbline::time::Clock;
use plumbline::transcript::{Attributed as _, ChangeKind, DeliveredObject, Origin, Transcript};
use plumbline_apiserver::faults::{FaultAction, Faults, execute};
use plumbline_apiserver::listener::RequestHandler;
use plumbline_apiserver::proxy::{self, protobuf_body_to_json, record_reply, record_request};
use plumbline_apiserver::record::RecordedNames;
use plumbline_apiserver::request::{Query, ResourcePath, Target};
use plumbline_apiserver::{ApiRequest, Reply, ReplyBody, ResourceId, Status};
use serde_json::Value;
use tokio_util::task::TaskTracker;

use super::error::ServerError;
use super::names::{NameMapper, query_text};
use super::stream::{ByteStream, LineStream, WatchRelay};
use super::tracker::{ChangeTracker, version};
use crate::cluster::error_chain::chain;

/// Hop-by-hop headers of a response.
const HOP_BY_HOP: [header::HeaderName; 4] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH, header::CONTENT_ENCODING];
/// Message of hyper for a connection that closed before the first byte of a response.
const CLOSED: &str = "connection closed before message completed";

/// The proxy of one fixture. Clones share the same state.
#[derive(Clone)]
pub(super) struct Proxy(Arc<ProxyInner>);

struct ProxyInner {
    client: kube::Client,
    names: NameMapper,
    tracker: ChangeTracker,
    faults: Arc<Faults>,
    transcript: Transcript,
    clock: Clock,
    /// Namespaced custom resources of the fixture: group and plural.
    custom: Vec<(String, String)>,
    /// The fixture's namespace, if it has only one.
    only: Option<String>,
    /// The first sign that the server is gone.
    failure: Mutex<Option<String>>,
    /// Writes of which the server has not answered the head; they go on when who asked for them is dropped.
    writes: TaskTracker,
}

/// Arguments of [`Proxy::new`].
pub(super) struct ProxyConfig {
    pub(super) client: kube::Client,
    pub(super) suffix: String,
    /// Translates the names of the record to those of the fixture.
    pub(super) recorded_names: RecordedNames,
    pub(super) clock: Clock,
    pub(super) custom: Vec<(String, String)>,
    pub(super) only: Option<String>,
}

/// A response of the server: status code, headers, and the body in the server's names.
pub(super) struct ServerResponse {
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl ServerResponse {
    /// Returns the body as JSON; null if it is not JSON.
    pub(super) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns true if the status code is 2xx.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

impl Proxy {
    pub(super) fn new(parts: ProxyConfig) -> Self {
        let ProxyConfig { client, suffix, recorded_names, clock, custom, only } = parts;
        let transcript = Transcript::new().with_names(recorded_names);
        Self(Arc::new(ProxyInner {
            client,
            names: NameMapper::new(suffix),
            tracker: ChangeTracker::new(transcript.clone(), clock.clone()),
            faults: Arc::new(Faults::new(0)),
            transcript,
            clock,
            custom,
            only,
            failure: Mutex::default(),
            writes: TaskTracker::new(),
        }))
    }

    pub(super) fn names(&self) -> &NameMapper {
        &self.0.names
    }

    pub(super) fn tracker(&self) -> &ChangeTracker {
        &self.0.tracker
    }

    pub(super) fn faults(&self) -> &Faults {
        &self.0.faults
    }

    pub(super) fn transcript(&self) -> &Transcript {
        &self.0.transcript
    }

    pub(super) fn only(&self) -> Option<&str> {
        self.0.only.as_deref()
    }

    /// The first sign that the server is gone.
    pub(super) fn failure(&self) -> Option<String> {
        self.0.failure.lock().clone()
    }

    pub(super) fn mark_failed(&self, why: String) {
        self.0.failure.lock().get_or_insert(why);
    }

    /// Sends a request of the harness, in the server's names, and waits for the complete response.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<ServerResponse, ServerError> {
        self.ask_with(method, path, "application/json", body).await
    }

    /// Sends a JSON patch; otherwise like [`Proxy::ask`].
    pub(super) async fn patch(&self, path: &str, body: Option<&Value>) -> Result<ServerResponse, ServerError> {
        self.ask_with(Method::PATCH, path, "application/json-patch+json", body).await
    }

    async fn ask_with(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Option<&Value>,
    ) -> Result<ServerResponse, ServerError> {
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(plumbline::transcript::USER_AGENT_OF_STEPS));
        let response = self.send(method, path, headers, bytes).await?;
        collect(response).await
    }

    /// Opens a stream of lines, in the server's names.
    pub(super) async fn lines(&self, path: &str) -> Result<Result<LineStream, ServerResponse>, ServerError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let response = self.send(Method::GET, path, headers, Bytes::new()).await?;
        if response.status() != http::StatusCode::OK {
            return collect(response).await.map(Err);
        }
        Ok(Ok(LineStream::new(pieces(response.into_body()))))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<http::Response<Body>, ServerError> {
        let uri: http::Uri = path.parse().map_err(|error: http::uri::InvalidUri| ServerError::Path {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
        let client = self.0.client.clone();
        let reads = matches!(method, Method::GET | Method::HEAD | Method::OPTIONS);
        let request = move || {
            let mut request = Request::new(Body::from(body.clone()));
            *request.method_mut() = method.clone();
            *request.uri_mut() = uri.clone();
            *request.headers_mut() = headers.clone();
            request
        };
        let sending = async move {
            match client.send(request()).await.map_err(|error| failed(&error)) {
                // The server closed an idle pooled connection before it read the request, so it is safe to send the
                // request again.
                Err(ServerError::Connection(why)) if why.contains(CLOSED) => {
                    client.send(request()).await.map_err(|error| failed(&error))
                }
                sent => sent,
            }
        };
        if reads {
            return sending.await;
        }
        self.0.writes.spawn(sending).await.unwrap_or_else(|error| Err(ServerError::Connection(error.to_string())))
    }

    /// Waits until the server has answered every write, also those whose caller is gone: their objects can be listed.
    pub(super) async fn writes_answered(&self) {
        self.0.writes.close();
        self.0.writes.wait().await;
    }

    /// Forwards a request and returns the reply in the fixture's names. `number` is its entry in the transcript.
    async fn forward(
        &self,
        request: &ApiRequest,
        target: &Target,
        number: usize,
        break_after: Option<Duration>,
    ) -> Reply {
        if let Target::Resource(resource) = target
            && let Some(refusal) = self.without_watch_list(request, resource)
        {
            return refusal;
        }
        let actor = origin(request).actor();
        let (path, resource) = match target {
            Target::Resource(resource) => (self.path(request, resource), Some(resource)),
            Target::NonResource(_) if request.query.is_empty() => (request.path.clone(), None),
            Target::NonResource(_) => (format!("{}?{}", request.path, request.query), None),
        };
        let body = self.body(request, resource);
        let writes = resource.filter(|_| !matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS));
        let dry_run = Query::parse(&request.query).get("dryRun").is_some();
        let writes = writes.filter(|_| !dry_run);
        if let Some(resource) = writes {
            self.tracker().begin(number, actor, resource);
        }
        let sent = self.send(request.method.clone(), &path, forwarded(request), body).await;
        let response = match sent {
            Ok(response) => response,
            Err(error) => {
                self.tracker().end(number, false, None).await;
                return Self::unreachable(&error.to_string());
            }
        };
        let resource = resource.unwrap_or(&NO_RESOURCE);
        if is_watch(request, resource) && response.status() == http::StatusCode::OK {
            return self.watch(response, resource, number, break_after);
        }
        let answered = match collect(response).await {
            Ok(answered) => answered,
            Err(error) => {
                self.tracker().end(number, false, None).await;
                return Self::unreachable(&error.to_string());
            }
        };
        let reply = self.reply(&answered, resource);
        if writes.is_some() {
            let value = answered.value();
            let object = Some(&value).filter(|value| value["kind"] != "Status");
            self.tracker().end(number, answered.is_success(), object).await;
        }
        reply
    }

    /// Rejects a streaming list, as a server without the feature gate `WatchList` does, while lists are stale or events
    /// are held: the server behind the proxy cannot serve a stale stream, and a list is not held. Clients fall back to
    /// a list.
    fn without_watch_list(&self, request: &ApiRequest, resource: &ResourcePath) -> Option<Reply> {
        let id = ResourceId::new(&resource.group, &resource.resource);
        let gated = || self.faults().is_held(&id) || self.faults().stale_at(&id).is_some();
        (is_streamed_list(request, resource) && gated()).then(|| proxy::watch_list_forbidden().into())
    }

    /// Returns the path and query of a request for the server.
    fn path(&self, request: &ApiRequest, resource: &ResourcePath) -> String {
        let ProxyInner { names, only, faults, .. } = &*self.0;
        let query = Query::parse(&request.query);
        let mut pairs = names.query(&query, resource);
        let lists = resource.name.is_empty() && request.method == Method::GET && !is_watch(request, resource);
        let id = ResourceId::new(&resource.group, &resource.resource);
        if let Some(revision) = faults.stale_at(&id).filter(|_| lists) {
            pairs.retain(|(key, _)| !matches!(key.as_str(), "resourceVersion" | "resourceVersionMatch"));
            pairs.push(("resourceVersion".to_owned(), revision.to_string()));
            pairs.push(("resourceVersionMatch".to_owned(), "Exact".to_owned()));
        }
        names.path(resource, self.is_namespaced(resource), only.as_deref()) + &query_text(&pairs)
    }

    fn is_namespaced(&self, path: &ResourcePath) -> bool {
        proxy::is_namespaced(&path.group, &path.version, &path.resource).unwrap_or_else(|| {
            self.0.custom.iter().any(|(group, plural)| *group == path.group && *plural == path.resource)
        })
    }

    fn body(&self, request: &ApiRequest, resource: Option<&ResourcePath>) -> Bytes {
        let Some(resource) = resource else { return request.body.clone() };
        let Ok(mut body) = serde_json::from_slice::<Value>(&request.body) else { return request.body.clone() };
        self.names().to_cluster(&mut body, resource);
        body.to_string().into()
    }

    /// Returns the reply for the subject.
    fn reply(&self, answered: &ServerResponse, resource: &ResourcePath) -> Reply {
        let mut reply = Reply::json(answered.code, Bytes::new());
        reply.headers = kept(&answered.headers);
        let Ok(mut value) = serde_json::from_slice::<Value>(&answered.body) else {
            let text = String::from_utf8_lossy(&answered.body);
            reply.body = ReplyBody::Full(self.names().to_fixture_text(&text).into());
            return reply;
        };
        self.tracker().saw_revision(version(&value));
        if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
            items.retain(|item| self.names().owns(item, &resource.group, &resource.resource));
        }
        self.names().to_fixture(&mut value);
        reply.body = ReplyBody::Full(value.to_string().into());
        reply
    }

    /// Forwards a watch, request `number` of the transcript.
    fn watch(
        &self,
        response: http::Response<Body>,
        resource: &ResourcePath,
        number: usize,
        break_after: Option<Duration>,
    ) -> Reply {
        let mut reply = Reply::json(200, Bytes::new());
        reply.headers = kept(response.headers());
        let lines = LineStream::new(pieces(response.into_body()));
        let proxy = self.clone();
        let path = resource.clone();
        let sort = Box::new(move |event| proxy.sort(event, &path));
        let proxy = self.clone();
        let record = Box::new(move |event: &Value| proxy.record_delivery(number, event));
        let id = ResourceId::new(&resource.group, &resource.resource);
        let ProxyInner { faults, clock, .. } = &*self.0;
        let gated = WatchRelay::new(lines, (sort, record), faults.clone(), &id, break_after, clock.clone());
        reply.body = ReplyBody::Stream(Box::pin(gated));
        reply
    }

    /// Records an event, in the fixture's names, that the subject gets.
    fn record_delivery(&self, watch: usize, event: &Value) {
        let kind = match event["type"].as_str() {
            Some("ADDED") => ChangeKind::Added,
            Some("MODIFIED") => ChangeKind::Modified,
            Some("DELETED") => ChangeKind::Deleted,
            _ => return,
        };
        let object = &event["object"];
        let object = DeliveredObject {
            kind,
            namespace: metadata::namespace(object).map(Arc::from),
            name: metadata::name(object).into(),
            resource_version: version(object),
        };
        self.transcript().delivery(self.0.clock.elapsed(), watch, object);
    }

    /// Translates an event to the fixture's names; `None` if it is not about the fixture's objects.
    fn sort(&self, mut event: Value, path: &ResourcePath) -> Option<Value> {
        let of_object = matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED" | "DELETED"));
        if of_object && !self.names().owns(&event["object"], &path.group, &path.resource) {
            return None;
        }
        self.names().to_fixture(&mut event);
        Some(event)
    }

    /// Breaks the subject's connection as ours broke. The watches decide whether the server is gone.
    fn unreachable(why: &str) -> Reply {
        tracing::info!(why, "the API server does not respond");
        let mut reply = Reply::text(0, "");
        reply.drop_connection = true;
        reply
    }

    /// Returns the 410 reply of a watch or a list.
    fn gone(request: &ApiRequest) -> Reply {
        let status = Status::expired("The resourceVersion for the provided list is too old.");
        if !Query::parse(&request.query).flag("watch").unwrap_or(false) {
            return status.into();
        }
        let mut reply = Reply::json(200, "");
        reply.body = ReplyBody::Stream(proxy::error_stream(&status));
        reply
    }
}

impl RequestHandler for Proxy {
    async fn handle(&self, mut request: ApiRequest) -> Reply {
        protobuf_body_to_json(&mut request);
        let target = Target::parse(&request.path);
        let origin = origin(&request);
        let ProxyInner { faults, transcript, clock, .. } = &*self.0;
        let arrived = transcript.names().request(record_request(&request, &target, true));
        // A held request is judged when it is released, because faults may be armed in the meantime.
        let waiting = faults.is_blocked(&arrived).then(|| arrived.clone());
        let at_once = waiting.is_none().then(|| faults.judge(&arrived, &origin));
        let number = transcript.request(clock.elapsed(), origin.clone(), arrived);
        let verdict = match (at_once, waiting) {
            (Some(verdict), _) => verdict,
            (None, Some(arrived)) => {
                faults.turn().await;
                faults.judge(&arrived, &origin)
            }
            (None, None) => FaultAction::Pass,
        };
        let fault = verdict.fault();
        let serve = |break_after| self.forward(&request, &target, number, break_after);
        let (reply, lost) = execute(verdict, clock, serve, || Self::gone(&request)).await;
        transcript.reply(number, record_reply(clock.elapsed(), &reply, fault, lost || reply.drop_connection));
        reply
    }

    fn clock(&self) -> &Clock {
        &self.0.clock
    }
}

fn origin(request: &ApiRequest) -> Origin {
    Origin::client(request.user_agent(), "").attributed(request.attribution.clone())
}

/// An empty path, for requests that are not about a resource.
static NO_RESOURCE: ResourcePath = ResourcePath {
    group: String::new(),
    version: String::new(),
    namespace: String::new(),
    resource: String::new(),
    name: String::new(),
    subresource: String::new(),
    rest: Vec::new(),
    watch: false,
};

fn is_watch(request: &ApiRequest, path: &ResourcePath) -> bool {
    request.method == Method::GET
        && (path.watch || Query::parse(&request.query).flag("watch").unwrap_or(false))
        && !path.resource.is_empty()
}

/// Returns true if the request is a streaming list (`sendInitialEvents`).
fn is_streamed_list(request: &ApiRequest, path: &ResourcePath) -> bool {
    is_watch(request, path) && Query::parse(&request.query).flag("sendInitialEvents").unwrap_or(false)
}

/// Returns the headers for the server: credentials are the proxy's own, and bodies are JSON.
fn forwarded(request: &ApiRequest) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in [header::USER_AGENT, header::CONTENT_TYPE] {
        if let Some(value) = request.headers.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let accepted = request.header(header::ACCEPT);
    let readable = |clause: &&str| !["protobuf", "cbor", "yaml"].iter().any(|form| clause.contains(form));
    let mut clauses =
        accepted.split(',').map(str::trim).filter(|clause| !clause.is_empty()).filter(readable).peekable();
    let accept = if clauses.peek().is_some() { clauses.collect::<Vec<_>>().join(",") } else { String::new() };
    let json = HeaderValue::from_static("application/json");
    let accept = HeaderValue::from_str(&accept).ok().filter(|value| !value.is_empty()).unwrap_or(json);
    headers.insert(header::ACCEPT, accept);
    headers
}

/// Returns the headers of a response that the subject gets.
fn kept(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for name in HOP_BY_HOP {
        kept.remove(name);
    }
    kept
}

/// Describes the failure of a connection.
fn failed(error: &dyn std::error::Error) -> ServerError {
    ServerError::Connection(chain(error))
}

async fn collect(response: http::Response<Body>) -> Result<ServerResponse, ServerError> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_err(|error| failed(&error))?.to_bytes();
    Ok(ServerResponse { code: parts.status.as_u16(), headers: parts.headers, body })
}

fn pieces(body: Body) -> ByteStream {
    Box::pin(body.into_data_stream().map(|piece| piece.map_err(|error| failed(&error))))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", true)]
    #[case("/api/v1/pods?watch=true&sendInitialEvents=false", false)]
    #[case("/api/v1/pods?watch=true", false)]
    #[case("/api/v1/pods", false)]
    fn lists_as_streams(#[case] path: &str, #[case] streamed: bool) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut request = ApiRequest::new(Method::GET, path);
        request.query = query.to_owned();
        let Target::Resource(resource) = Target::parse(path) else { panic!("{path} is a resource") };
        assert_eq!(is_streamed_list(&request, &resource), streamed);
    }

    #[rstest]
    #[case("application/vnd.kubernetes.protobuf,application/json", "application/json")]
    #[case("application/vnd.kubernetes.protobuf", "application/json")]
    #[case("application/yaml", "application/json")]
    #[case("", "application/json")]
    #[case("*/*", "*/*")]
    #[case(
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    )]
    fn only_json_is_asked_for(#[case] accept: &str, #[case] expected: &str) {
        let mut request = ApiRequest::new(Method::GET, "/api/v1/pods");
        request.headers.insert(header::ACCEPT, accept.parse().unwrap());
        request.headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer mine"));
        let headers = forwarded(&request);
        assert_eq!(headers[header::ACCEPT], expected);
        assert!(!headers.contains_key(header::AUTHORIZATION), "the subject's token is for the proxy alone");
    }
}
