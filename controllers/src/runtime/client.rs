//! One dressed kube client per controller.
//!
//! The factory the program was given makes plain clients: over TLS in the binary, in process in simulations. Here each
//! gets what client-go gives its clients: a user agent, a request rate, a limit on waiting for an answer, and retries
//! where the server asks for them (`Retry-After`). Everything waits on our [`Clock`], without jitter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use tower::BoxError;

use super::clock::Clock;
use super::leadership::{Leadership, NotLeader};
use super::listwatch::Encoding;
use super::metrics::RequestMetrics;
use super::queue::rate_limit::{TokenBucket, exponential};

/// Makes a plain client for the user named last in the user agent, e.g. `disruption-controller`.
pub type ClientFactory = Arc<dyn Fn(&str) -> Client + Send + Sync>;

/// Client names: the last segment of the user agent, as kube-controller-manager names its clients.
pub mod names {
    /// The disruption controller.
    pub const DISRUPTION: &str = "disruption-controller";
    /// The pod garbage collector.
    pub const PODGC: &str = "pod-garbage-collector";
    /// The taint-eviction controller. (Upstream it shares `node-controller` with node lifecycle.)
    pub const TAINT_EVICTION: &str = "taint-eviction-controller";
    /// The ttl controller.
    pub const TTL: &str = "ttl-controller";
    /// Lists and watches of all controllers.
    pub const INFORMERS: &str = "shared-informers";
    /// The lease, and the events about it.
    pub const LEADER_ELECTION: &str = "leader-election";
}

/// How often a request is repeated when the server asks to come back later, as client-go.
pub const MAX_RETRIES: u32 = 10;
/// Wait before a GET is repeated after its connection broke, as client-go.
pub const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Longest wait for an answer. kube-apiserver ends a request after 60 s (its `--request-timeout`), slow admission included,
/// and says so: giving up before would mean trying again what was about to succeed, for ever. client-go waits for any time.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);
/// A watch that lasts less than this counts as short; the next one of its path is delayed.
pub const SHORT_WATCH: Duration = Duration::from_secs(1);

/// Limits of one client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests per second in the long run; zero or less means unlimited.
    pub qps: f64,
    /// Requests that may be sent at once.
    pub burst: u32,
    /// Longest wait for an answer: for the whole of it, or for the headers of a watch.
    pub request_timeout: Duration,
}

/// kube-controller-manager's defaults: 20 requests per second, 30 at once.
impl Default for Limits {
    fn default() -> Self {
        Self { qps: 20.0, burst: 30, request_timeout: REQUEST_TIMEOUT }
    }
}

/// The user agent of the client called `name`.
pub fn user_agent(name: &str) -> String {
    format!(
        "plumbline-controllers/{} ({}/{}) kubernetes/1.36/{name}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    )
}

/// When a client last heard from the server. Shared between a client and its observer.
#[derive(Debug, Default)]
pub struct Contact {
    last: Mutex<Option<Timestamp>>,
}

impl Contact {
    /// The last successful answer, or the last piece of a watch.
    pub fn last(&self) -> Option<Timestamp> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self, now: Timestamp) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}

/// Dresses clients; those made by one `Dresser` share a request rate, as the clients of one controller do.
#[derive(Clone, Debug)]
pub struct Dresser {
    user_agent: HeaderValue,
    clock: Clock,
    limits: Limits,
    bucket: Arc<Mutex<TokenBucket>>,
    leadership: Leadership,
    metrics: Option<RequestMetrics>,
    encoding: Encoding,
}

/// Marks a request (as an extension of it) whose answer is to be handed on while it arrives, as a watch's. The limit on
/// waiting is then one for its beginning only; whoever reads it limits the pauses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streamed;

impl Dresser {
    /// For the clients of the controller called `name` in user agents.
    pub fn new(name: &str, clock: Clock, limits: Limits) -> Self {
        let user_agent = HeaderValue::try_from(user_agent(name)).unwrap_or(HeaderValue::from_static("plumbline"));
        let bucket = Arc::new(Mutex::new(TokenBucket::new(limits.qps, limits.burst)));
        Self {
            user_agent,
            clock,
            limits,
            bucket,
            leadership: Leadership::always(),
            metrics: None,
            encoding: Encoding::Json,
        }
    }

    /// Clients that count their requests in `metrics`.
    #[must_use]
    pub fn measured_by(self, metrics: RequestMetrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Clients that write only while `leadership` says so; whoever asks it answers for each try of each request.
    #[must_use]
    pub fn writing_only_as(self, leadership: Leadership) -> Self {
        Self { leadership, ..self }
    }

    /// For informers that ask for their lists and watches in `encoding`.
    #[must_use]
    pub fn speaking(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// The encoding of lists and watches.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// A client that sends through `plain`.
    pub fn dress(&self, plain: Client) -> Client {
        self.dress_observed(plain, Arc::default())
    }

    /// A client that sends through `plain` and notes in `contact` when it heard from the server.
    pub fn dress_observed(&self, plain: Client, contact: Arc<Contact>) -> Client {
        let namespace = plain.default_namespace().to_owned();
        let transport = Arc::new(Transport { plain, dresser: self.clone(), contact, watches: Mutex::default() });
        let service = tower::service_fn(move |request| {
            let transport = Arc::clone(&transport);
            async move { transport.send(request).await }
        });
        Client::new(service, namespace)
    }
}

/// The body of an answer, whole or streaming.
type Answer = UnsyncBoxBody<Bytes, BoxError>;

struct Transport {
    plain: Client,
    dresser: Dresser,
    contact: Arc<Contact>,
    watches: Mutex<BTreeMap<String, WatchPace>>,
}

/// Keeps a server that ends every watch at once from being asked again at once.
#[derive(Clone, Copy, Debug, Default)]
struct WatchPace {
    started: Option<Duration>,
    short_in_a_row: u32,
}

impl Transport {
    async fn send(&self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let (mut parts, body) = request.into_parts();
        parts.headers.entry(USER_AGENT).or_insert_with(|| self.dresser.user_agent.clone());
        let body = body.collect_bytes().await?;
        let watch = is_watch(parts.uri.query().unwrap_or_default());
        let streamed = watch || parts.extensions.get::<Streamed>().is_some();
        if watch {
            self.pace(parts.uri.path()).await;
        }
        let mut attempt = 0;
        loop {
            self.throttle(&parts.method).await;
            let limit = self.time_limit(&parts.method)?;
            let begin = self.dresser.clock.monotonic();
            let request = Request::from_parts(parts.clone(), Body::from(body.to_vec()));
            let result = self.dresser.clock.timeout(limit, self.exchange(request, streamed));
            let result = result.await.map_err(BoxError::from).flatten();
            self.measure(&parts.method, body.len(), &result, begin);
            attempt += 1;
            let wait = if attempt > MAX_RETRIES { None } else { retry_delay(&parts.method, watch, &result) };
            let Some(wait) = wait else { return result };
            if let Some(metrics) = &self.dresser.metrics {
                metrics.repeated(parts.method.as_str(), &code(&result));
            }
            tracing::info!(
                method = %parts.method,
                path = parts.uri.path(),
                answer = describe(&result),
                attempt,
                wait_s = wait.as_secs(),
                "request will be repeated"
            );
            self.dresser.clock.sleep(wait).await;
        }
    }

    /// How long the request may take that is about to be sent. A write is not sent without leadership, and not waited
    /// for beyond it.
    fn time_limit(&self, method: &Method) -> Result<Duration, NotLeader> {
        let limit = self.dresser.limits.request_timeout;
        if method.is_safe() {
            return Ok(limit);
        }
        self.dresser.leadership.left(&self.dresser.clock).map(|left| left.min(limit)).ok_or(NotLeader)
    }

    fn measure(&self, method: &Method, sent: usize, result: &Result<Response<Answer>, BoxError>, begin: Duration) {
        let Some(metrics) = &self.dresser.metrics else { return };
        let (method, time) = (method.as_str(), self.dresser.clock.monotonic().saturating_sub(begin));
        metrics.answered(method, &code(result), time);
        if sent > 0 {
            metrics.sent(method, sent);
        }
        // Of a watch the size is not known: it has none.
        if let Some(size) = result.as_ref().ok().and_then(|answer| answer.body().size_hint().exact()) {
            metrics.received(method, usize::try_from(size).unwrap_or(usize::MAX));
        }
    }

    /// Sends once. A body that is not `streamed` is read to its end, so that the time limit covers it too.
    async fn exchange(&self, request: Request<Body>, streamed: bool) -> Result<Response<Answer>, BoxError> {
        let response = self.plain.send(request).await?;
        let (clock, contact) = (self.dresser.clock.clone(), Arc::clone(&self.contact));
        if response.status().is_success() {
            contact.touch(clock.now());
            if streamed {
                let noted = move |frame| {
                    contact.touch(clock.now());
                    frame
                };
                return Ok(response.map(|body| body.map_frame(noted).map_err(BoxError::from).boxed_unsync()));
            }
        }
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let bytes =
            if parts.status.is_success() { bytes } else { with_retry_after(bytes, retry_after(&parts.headers)) };
        Ok(Response::from_parts(parts, Full::new(bytes).map_err(|never| match never {}).boxed_unsync()))
    }

    async fn throttle(&self, method: &Method) {
        let Limits { qps, .. } = self.dresser.limits;
        if qps <= 0.0 {
            return;
        }
        let now = self.dresser.clock.monotonic();
        let wait = self.dresser.bucket.lock().unwrap_or_else(PoisonError::into_inner).reserve(now);
        if wait > Duration::from_secs(1) {
            tracing::info!(wait_ms = wait.as_millis(), "requests wait for the client-side rate limit");
        }
        if let Some(metrics) = &self.dresser.metrics {
            metrics.throttled(method.as_str(), wait);
        }
        self.dresser.clock.sleep(wait).await;
    }

    async fn pace(&self, path: &str) {
        let delay = {
            let now = self.dresser.clock.monotonic();
            let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
            let pace = watches.entry(path.to_owned()).or_default();
            let short = pace.started.is_some_and(|started| now.saturating_sub(started) < SHORT_WATCH);
            pace.short_in_a_row = if short { pace.short_in_a_row + 1 } else { 0 };
            // One short watch is an accident; from the second on it is a habit.
            let delay = match pace.short_in_a_row {
                0 | 1 => Duration::ZERO,
                n => exponential(super::informer::BACKOFF_BASE, super::informer::BACKOFF_MAX, n - 2),
            };
            pace.started = Some(now + delay);
            delay
        };
        if !delay.is_zero() {
            tracing::warn!(path, delay_ms = delay.as_millis(), "watches end as soon as they begin, slowing down");
        }
        self.dresser.clock.sleep(delay).await;
    }
}

fn is_watch(query: &str) -> bool {
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// How long to wait before repeating the request; `None` when its result stands.
fn retry_delay(method: &Method, watch: bool, result: &Result<Response<Answer>, BoxError>) -> Option<Duration> {
    match result {
        Ok(response) => {
            let status = response.status();
            let asks = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            asks.then(|| retry_after(response.headers())).flatten()
        }
        // The informer repeats watches itself, from where it was.
        Err(error) => (method == Method::GET && !watch && connection_broke(error.as_ref())).then_some(RECONNECT_DELAY),
    }
}

fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// Whether an established connection broke under the request (as against: none could be made).
fn connection_broke(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && matches!(io.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
        {
            return true;
        }
        let text = error.to_string();
        if text.contains("connection closed before message completed") || text.contains("unexpected EOF during chunk") {
            return true;
        }
        next = error.source();
    }
    false
}

/// Puts the `Retry-After` header into the Status, where [`crate::error::ApiError`] finds it.
fn with_retry_after(body: Bytes, after: Option<Duration>) -> Bytes {
    let Some(after) = after else { return body };
    let Ok(serde_json::Value::Object(mut status)) = serde_json::from_slice(&body) else { return body };
    let details = status.entry("details").or_insert_with(|| serde_json::json!({}));
    if let Some(details) = details.as_object_mut() {
        details.entry("retryAfterSeconds").or_insert_with(|| after.as_secs().into());
    }
    serde_json::to_vec(&status).map_or(body, Bytes::from)
}

/// As client-go's metrics have it.
fn code(result: &Result<Response<Answer>, BoxError>) -> String {
    result.as_ref().map_or_else(|_| "<error>".to_owned(), |answer| answer.status().as_str().to_owned())
}

fn describe(result: &Result<Response<Answer>, BoxError>) -> String {
    match result {
        Ok(response) => response.status().to_string(),
        Err(error) => crate::error::chain(error.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::runtime::testing::{Answer, failure, script, serve};

    async fn get(client: &Client) -> Result<serde_json::Value, crate::error::ApiError> {
        Ok(client.request(Request::get("/api/v1/nodes/n1").body(Vec::new()).unwrap()).await?)
    }

    fn clock() -> Clock {
        Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_are_spaced_by_the_rate_in_order() {
        let clock = clock();
        let (plain, log) = serve(&clock, |_| Answer::Json(200, json!({})));
        let limits = Limits { qps: 10.0, burst: 2, ..Limits::default() };
        let client = Dresser::new(names::TTL, clock.clone(), limits).dress(plain);
        futures::future::join_all((0..5).map(|_| get(&client))).await;
        let at: Vec<_> = log.lock().unwrap().iter().map(|seen| seen.at.as_millis()).collect();
        assert_eq!(at, [0, 0, 100, 200, 300]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_is_asked_at_most_eleven_times() {
        let clock = clock();
        let (plain, log) = serve(&clock, |_| Answer::RetryAfter(429, 2));
        let client = Dresser::new(names::TTL, clock.clone(), Limits::default()).dress(plain);
        let error = get(&client).await.unwrap_err();
        assert_eq!(log.lock().unwrap().len(), 11);
        let crate::error::ApiError::TooManyRequests { after, .. } = error else { panic!("{error:?}") };
        assert_eq!(after, Some(Duration::from_secs(2)), "from the header into the class");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_not_sent_without_leadership_and_not_repeated_beyond_it() {
        let clock = clock();
        let (plain, log) = serve(&clock, |_| Answer::RetryAfter(429, 4));
        let leadership = Leadership::candidate();
        let dresser = Dresser::new(names::TTL, clock.clone(), Limits::default());
        let client = dresser.writing_only_as(leadership.clone()).dress(plain);
        let patch = || Request::patch("/api/v1/nodes/n1").body(Vec::new()).unwrap();
        let write =
            async || crate::error::ApiError::from(client.request::<serde_json::Value>(patch()).await.unwrap_err());
        assert_eq!(write().await.class(), "not-leader");
        assert_eq!(log.lock().unwrap().len(), 0);
        leadership.renew((clock.monotonic(), clock.now()), Duration::from_secs(10));
        assert_eq!(write().await.class(), "not-leader", "sent at 0, 4 and 8 s, not at 12 s");
        assert_eq!(log.lock().unwrap().len(), 3);
        assert!(get(&client).await.is_err());
        assert_eq!(log.lock().unwrap().len(), 3 + 11, "whoever does not lead may read");
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_to_a_write_is_not_waited_for_beyond_leadership() {
        let clock = clock();
        let (plain, _) = serve(&clock, |_| Answer::Hang);
        let leadership = Leadership::candidate();
        let dresser = Dresser::new(names::TTL, clock.clone(), Limits::default());
        let client = dresser.writing_only_as(leadership.clone()).dress(plain);
        leadership.renew((clock.monotonic(), clock.now()), Duration::from_secs(10));
        let write = client.request::<serde_json::Value>(Request::delete("/api/v1/nodes/n1").body(Vec::new()).unwrap());
        assert_eq!(crate::error::ApiError::from(write.await.unwrap_err()).class(), "timeout");
        assert_eq!(clock.monotonic(), Duration::from_secs(10));
    }

    #[rstest]
    #[case::client_error(failure(409, "Conflict"))]
    #[case::no_header(failure(503, "ServiceUnavailable"))]
    #[case::not_asked_to(Answer::RetryAfter(404, 1))]
    #[tokio::test(start_paused = true)]
    async fn other_answers_stand(#[case] answer: Answer) {
        let clock = clock();
        let (plain, log) = serve(&clock, script(vec![answer]));
        let client = Dresser::new(names::TTL, clock.clone(), Limits::default()).dress(plain);
        assert!(get(&client).await.is_err());
        assert_eq!(log.lock().unwrap().len(), 1);
    }

    #[rstest]
    #[case("watch=true", true)]
    #[case("limit=5&watch=1", true)]
    #[case("watch=false", false)]
    #[case("rewatch=true", false)]
    #[case("", false)]
    fn watches_are_known_by_their_query(#[case] query: &str, #[case] expected: bool) {
        assert_eq!(is_watch(query), expected);
    }
}
