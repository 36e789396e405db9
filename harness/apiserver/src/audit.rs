//! The audit log: one line for each request, an `Event` of `audit.k8s.io/v1` at the level `Metadata`, as kube-apiserver
//! writes it with a policy that omits the stage `RequestReceived`. Watches have two lines: `ResponseStarted`, and
//! `ResponseComplete` when they end.
//!
//! Webhooks and policies add annotations, which the transcript has, too: see [`RecordedReply::annotations`].
//! Follows `audit/request.go` and `endpoints/filters/{audit,authorization}.go` in
//! `staging/src/k8s.io/apiserver/pkg`.
//!
//! [`RecordedReply::annotations`]: crate::record::RecordedReply::annotations

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt as _;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::json::{Map, Value, json};
use crate::request::{ApiRequest, Reply, ReplyBody, ResourcePath, Target};
use crate::user::UserInfo;

/// The header with the ID of a request's events.
pub(crate) const ID_HEADER: http::HeaderName = http::HeaderName::from_static("audit-id");
/// The annotation that says if the request was allowed.
const DECISION: &str = "authorization.k8s.io/decision";
/// The annotation with the reason of the authorizer.
const REASON: &str = "authorization.k8s.io/reason";
/// Largest number of bytes of a request's user agent, as upstream.
const USER_AGENT_MAX: usize = 1024;
/// Follows a user agent that was cut off.
const CUT: &str = "...TRUNCATED";

/// A destination of audit events, one JSON document per line. Clones write to the same destination.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use plumbline_apiserver::{ApiRequest, ApiServer, AuditLog, clock};
///
/// let file = tempfile::NamedTempFile::new()?;
/// let log = AuditLog::new(file.reopen()?);
/// clock::run_virtual(async {
///     let server = ApiServer::builder().audit_log(log).build();
///     server.handle(ApiRequest::new(http::Method::GET, "/api/v1/pods")).await;
/// })?;
/// let event: serde_json::Value = serde_json::from_reader(file)?;
/// assert_eq!((&event["verb"], &event["objectRef"]["resource"]), (&"list".into(), &"pods".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AuditLog {
    out: Arc<Mutex<Box<dyn Write + Send>>>,
    /// Number of requests that came without an ID.
    requests: Arc<AtomicU64>,
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditLog")
    }
}

impl AuditLog {
    /// Creates a log that writes each event to `out` at once. An event that cannot be written is lost, which the
    /// program's log says.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self { out: Arc::new(Mutex::new(Box::new(out))), requests: Arc::default() }
    }

    fn write(&self, event: &Value) {
        let mut line = event.to_string();
        line.push('\n');
        let mut out = self.out.lock();
        if let Err(error) = out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
            tracing::error!(%error, uri = event["requestURI"].as_str(), "an event of the audit log is lost");
        }
    }
}

/// Annotations of a request, by key; an extension of its reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditAnnotations(pub(crate) BTreeMap<String, String>);

impl AuditAnnotations {
    /// Adds an annotation. The first value of a key is kept, as upstream.
    pub(crate) fn add(&mut self, key: String, value: String) {
        if let Some(known) = self.0.get(&key) {
            if *known != value {
                tracing::info!(key, value, "audit annotations are not overwritten");
            }
            return;
        }
        self.0.insert(key, value);
    }

    /// Returns the annotations of a reply.
    pub(crate) fn of(reply: &Reply) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        reply.extensions.get::<Self>().map_or(&NONE, |annotations| &annotations.0)
    }
}

/// The decision of the authorizer about a request.
pub(crate) struct Decision {
    /// False if the request was refused.
    pub(crate) allowed: bool,
    /// The reason, such as the binding and the role that allow the request.
    pub(crate) reason: String,
}

/// The event of a request that has no reply yet.
pub(crate) struct PendingEvent {
    log: AuditLog,
    clock: Clock,
    event: Map,
    annotations: BTreeMap<String, String>,
    is_watch: bool,
}

impl PendingEvent {
    /// Creates the event of a request that has arrived.
    pub(crate) fn new(
        (log, clock): (&AuditLog, &Clock),
        request: &ApiRequest,
        target: &Target,
        verb: &str,
        users: (&UserInfo, Option<Value>, &str),
    ) -> Self {
        let (user, impersonated, constraint) = users;
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
        let mut event = Map::new();
        let mut set = |name: &str, value: Value| drop(event.insert(name, value));
        set("kind", "Event".into());
        set("apiVersion", "audit.k8s.io/v1".into());
        set("level", "Metadata".into());
        let id = match request.header(ID_HEADER) {
            "" => new_id(log.requests.fetch_add(1, Ordering::Relaxed) + 1),
            id => id.to_owned(),
        };
        set("auditID", id.into());
        set("stage", "ResponseComplete".into());
        set("requestURI", format!("{}{query}", request.path).into());
        set("verb", verb.into());
        set("user", described_user(user));
        if let Some(user) = impersonated {
            set("impersonatedUser", user);
        }
        if !constraint.is_empty() {
            set("authenticationMetadata", json!({"impersonationConstraint": constraint}));
        }
        let sources = sources(request);
        if !sources.is_empty() {
            set("sourceIPs", json!(sources));
        }
        if !request.user_agent().is_empty() {
            set("userAgent", shortened(request.user_agent()).into());
        }
        if let Target::Resource(path) = target {
            set("objectRef", object_reference(path, request));
        }
        set("requestReceivedTimestamp", micro_time(clock.now()).into());
        let is_watch = verb == "watch";
        Self { log: log.clone(), clock: clock.clone(), event, annotations: BTreeMap::new(), is_watch }
    }

    /// Writes the event of a request that has its reply, with the decision of the authorizer. The end of a watch is
    /// written when its stream is dropped.
    pub(crate) fn replied(mut self, decision: Decision, reply: &mut Reply) {
        let decided = if decision.allowed { "allow" } else { "forbid" };
        self.annotations.insert(DECISION.to_owned(), decided.to_owned());
        self.annotations.insert(REASON.to_owned(), decision.reason);
        self.annotations.extend(AuditAnnotations::of(reply).clone());
        self.event.insert("responseStatus", response_status(reply));
        let ReplyBody::Stream(events) = &mut reply.body else { return self.write("ResponseComplete") };
        if !self.is_watch {
            return self.write("ResponseComplete");
        }
        self.write("ResponseStarted");
        let open = OpenWatch(self);
        let events = std::mem::replace(events, Box::pin(futures::stream::empty()));
        reply.body = ReplyBody::Stream(Box::pin(events.inspect(move |_| _ = &open)));
    }

    fn write(&self, stage: &str) {
        let mut event = self.event.clone();
        event.insert("stage", stage.into());
        event.insert("stageTimestamp", micro_time(self.clock.now()).into());
        if !self.annotations.is_empty() {
            event.insert("annotations", json!(self.annotations));
        }
        self.log.write(&Value::Object(event));
    }
}

/// Writes the last event of a watch when the watch ends, by either side.
struct OpenWatch(PendingEvent);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.write("ResponseComplete");
    }
}

/// Returns the ID of the request with this number, in the form of a UID.
pub(crate) fn new_id(number: u64) -> String {
    // Spread over all digits, because some clients use the first digits as a key.
    let spread = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let high = (spread >> 64) as u64;
    let low = spread as u64;
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

fn micro_time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Returns a user as events show it: without empty fields.
fn described_user(user: &UserInfo) -> Value {
    let mut info = user.info();
    if user.uid.is_empty()
        && let Some(fields) = info.as_object_mut()
    {
        fields.remove("uid");
    }
    info
}

/// Returns the addresses from which a request came: those that proxies have added, and the client's own.
fn sources(request: &ApiRequest) -> Vec<String> {
    let text = |name: &'static str| request.header(http::HeaderName::from_static(name));
    let address = |text: &str| text.trim().parse::<IpAddr>().ok();
    let forwarded = text("x-forwarded-for").split(',').filter_map(address);
    let all: Vec<IpAddr> = forwarded.chain(address(text("x-real-ip"))).chain(request.peer).collect();
    let mut seen = std::collections::BTreeSet::new();
    all.into_iter().filter(|address| seen.insert(*address)).map(|address| address.to_string()).collect()
}

fn shortened(user_agent: &str) -> String {
    if user_agent.len() <= USER_AGENT_MAX {
        return user_agent.to_owned();
    }
    format!("{}{CUT}", &user_agent[..user_agent.floor_char_boundary(USER_AGENT_MAX)])
}

/// Returns the reference to the object of a request. The path of a creation has no name; the body may have one.
fn object_reference(path: &ResourcePath, request: &ApiRequest) -> Value {
    let sends_object = matches!(request.method, http::Method::POST | http::Method::PUT);
    let body: Value =
        if sends_object { serde_json::from_slice(&request.body).unwrap_or_default() } else { Value::Null };
    let sent = |field: &str| body["metadata"][field].as_str().unwrap_or_default().to_owned();
    let or_sent = |own: &str, field: &str| if own.is_empty() { sent(field) } else { own.to_owned() };
    let fields = [
        ("resource", path.resource.clone()),
        ("namespace", or_sent(&path.namespace, "namespace")),
        ("name", or_sent(&path.name, "name")),
        ("uid", sent("uid")),
        ("apiGroup", path.group.clone()),
        ("apiVersion", path.version.clone()),
        ("resourceVersion", sent("resourceVersion")),
        ("subresource", path.subresource.clone()),
    ];
    let set = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(set.map(|(name, value)| (name.to_owned(), Value::from(value))).collect())
}

/// Returns the status of a reply: its code, and the fields of a `Status` in its body.
fn response_status(reply: &Reply) -> Value {
    let mut status = json!({"metadata": {}, "code": reply.status});
    if let ReplyBody::Full(bytes) = &reply.body
        && bytes.starts_with(b"{\"kind\":\"Status\"")
        && let Ok(body) = serde_json::from_slice::<Value>(bytes)
    {
        for field in ["status", "message", "reason", "details"] {
            if let Some(value) = body.get(field) {
                status[field] = value.clone();
            }
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use http::{HeaderValue, Method};

    use super::*;
    use crate::clock::run_virtual;
    use crate::server::ApiServer;

    /// A destination that can be read.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn events(&self) -> Vec<Value> {
            let text = String::from_utf8(self.0.lock().clone()).expect("UTF-8");
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        }
    }

    fn audited<F: Future<Output = ()>>(test: impl FnOnce(ApiServer) -> F) -> Vec<Value> {
        let lines = Lines::default();
        let log = AuditLog::new(lines.clone());
        run_virtual(async move { test(ApiServer::builder().audit_log(log).build()).await }).expect("a runtime");
        lines.events()
    }

    fn request(method: Method, path: &str, headers: &[(&'static str, &'static str)], body: Value) -> ApiRequest {
        let mut request = ApiRequest::new(method, path);
        for (name, value) in headers {
            request.headers.insert(http::HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if !body.is_null() {
            request.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.body = body.to_string().into();
        }
        request
    }

    /// The form of an event of kube-apiserver 1.36 at the level `Metadata`.
    #[test]
    fn a_creation_has_one_event_with_the_name_in_its_body() {
        let events = audited(|server| async move {
            let headers = [("user-agent", "me/1"), ("audit-id", "x"), ("x-forwarded-for", "10.0.0.1, none")];
            let pod = json!({"metadata": {"name": "a"}});
            let path = "/api/v1/namespaces/default/configmaps?fieldManager=me";
            let mut create = request(Method::POST, path, &headers, pod);
            create.peer = Some([127, 0, 0, 1].into());
            assert_eq!(server.handle(create).await.status, 201);
        });
        let time = "2026-01-01T00:00:00.000000Z";
        let mut event = events[0].clone();
        let times: Vec<Value> =
            ["requestReceivedTimestamp", "stageTimestamp"].map(|field| std::mem::take(&mut event[field])).to_vec();
        assert!(times.iter().all(|at| at.as_str().is_some_and(|at| at.len() == time.len())), "{times:?}");
        let expected = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "x",
            "stage": "ResponseComplete", "requestURI": "/api/v1/namespaces/default/configmaps?fieldManager=me",
            "verb": "create",
            "user": {"username": "admin", "uid": "1", "groups": ["system:masters", "system:authenticated"]},
            "sourceIPs": ["10.0.0.1", "127.0.0.1"], "userAgent": "me/1",
            "objectRef": {"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"},
            "requestReceivedTimestamp": null, "responseStatus": {"metadata": {}, "code": 201}, "stageTimestamp": null,
            "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
        });
        assert_eq!((event, events.len()), (expected, 1));
    }

    #[test]
    fn a_refusal_has_its_status_and_the_impersonated_user() {
        let events = audited(|server| async move {
            let path = "/api/v1/namespaces/default/pods/a";
            let refused = request(Method::DELETE, path, &[("impersonate-user", "alice")], Value::Null);
            assert_eq!(server.handle(refused).await.status, 403);
            let allowed = request(Method::GET, "/version", &[("impersonate-user", "alice")], Value::Null);
            assert_eq!(server.handle(allowed).await.status, 200);
        });
        let status = &events[0]["responseStatus"];
        assert_eq!((&status["code"], &status["reason"]), (&json!(403), &json!("Forbidden")));
        assert_eq!(events[0]["impersonatedUser"], json!({"username": "alice", "groups": ["system:authenticated"]}));
        let decided = |event: &Value| event["annotations"].clone();
        assert_eq!(decided(&events[0]), json!({DECISION: "forbid", REASON: ""}));
        let role = "system:public-info-viewer";
        let reason = format!(
            "RBAC: allowed by ClusterRoleBinding \"{role}\" of ClusterRole \"{role}\" to Group \"system:authenticated\""
        );
        assert_eq!(decided(&events[1]), json!({DECISION: "allow", REASON: reason}));
        assert_ne!(events[0]["auditID"], events[1]["auditID"]);
    }

    #[test]
    fn a_watch_has_an_event_at_its_begin_and_one_at_its_end() {
        let events = audited(|server| async move {
            let path = "/api/v1/pods?watch=1&timeoutSeconds=5";
            let reply = server.handle(request(Method::GET, path, &[], Value::Null)).await;
            let ReplyBody::Stream(mut stream) = reply.body else { panic!("no stream") };
            while stream.next().await.is_some() {}
        });
        let stages: Vec<&str> = events.iter().filter_map(|event| event["stage"].as_str()).collect();
        assert_eq!(stages, ["ResponseStarted", "ResponseComplete"]);
        assert_eq!(events[0]["auditID"], events[1]["auditID"]);
        assert_ne!(events[0]["stageTimestamp"], events[1]["stageTimestamp"]);
    }
}
