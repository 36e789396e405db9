//! Sends requests: throttling, timeout, retries, metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{RETRY_AFTER, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tower::BoxError;

use super::{
    ClientBuilder, LastContact, Limits, MAX_RETRIES, RECONNECT_DELAY, RepeatWhile, SHORT_WATCH, StreamResponse,
};
use crate::runtime::backoff::{BACKOFF_BASE, BACKOFF_MAX, exponential};
use crate::runtime::leadership::NotLeader;

/// A response body, complete or streaming.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

pub(super) struct Transport {
    plain: Client,
    builder: ClientBuilder,
    contact: Arc<LastContact>,
    watches: Mutex<BTreeMap<String, WatchBackoff>>,
}

/// Backs off when the server closes watches right after opening them.
#[derive(Clone, Copy, Debug, Default)]
struct WatchBackoff {
    started: Option<Duration>,
    short_in_a_row: u32,
}

impl Transport {
    pub(super) fn new(plain: Client, builder: ClientBuilder, contact: Arc<LastContact>) -> Self {
        Self { plain, builder, contact, watches: Mutex::default() }
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let (mut parts, body) = request.into_parts();
        parts.headers.entry(USER_AGENT).or_insert_with(|| self.builder.user_agent.clone());
        let body = body.collect_bytes().await?;
        let watch = is_watch(parts.uri.query().unwrap_or_default());
        let streamed = watch || parts.extensions.get::<StreamResponse>().is_some();
        if watch {
            self.backoff_short_watch(parts.uri.path()).await;
        }
        let mut attempt = 0;
        loop {
            self.throttle(&parts.method).await;
            let limit = self.time_limit(&parts.method)?;
            let begin = self.builder.clock.monotonic();
            let request = Request::from_parts(parts.clone(), Body::from(body.to_vec()));
            let result = self.builder.clock.timeout(limit, self.exchange(request, streamed));
            let result = result.await.map_err(BoxError::from).flatten();
            self.measure(&parts.method, body.len(), &result, begin);
            attempt += 1;
            let wait = if attempt > MAX_RETRIES { None } else { retry_delay(&parts.method, watch, &result) };
            let Some(wait) = wait else { return result };
            if let Some(metrics) = &self.builder.metrics {
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
            self.builder.clock.sleep(wait).await;
            if parts.extensions.get::<RepeatWhile>().is_some_and(|wanted| !wanted.holds()) {
                return result;
            }
        }
    }

    /// Returns the timeout of the next attempt. A write is not sent without leadership, and its timeout ends with the
    /// leadership.
    fn time_limit(&self, method: &Method) -> Result<Duration, NotLeader> {
        let limit = self.builder.limits.request_timeout;
        if method.is_safe() {
            return Ok(limit);
        }
        self.builder.leadership.remaining(&self.builder.clock).map(|left| left.min(limit)).ok_or(NotLeader)
    }

    fn measure(
        &self,
        method: &Method,
        sent: usize,
        result: &Result<Response<ResponseBody>, BoxError>,
        begin: Duration,
    ) {
        let Some(metrics) = &self.builder.metrics else { return };
        let method = method.as_str();
        let time = self.builder.clock.monotonic().saturating_sub(begin);
        metrics.answered(method, &code(result), time);
        if sent > 0 {
            metrics.sent(method, sent);
        }
        // A watch has no known size.
        if let Some(size) = result.as_ref().ok().and_then(|answer| answer.body().size_hint().exact()) {
            metrics.received(method, usize::try_from(size).unwrap_or(usize::MAX));
        }
    }

    /// Sends the request once. A body that is not `streamed` is read to its end, so that the timeout covers it too.
    async fn exchange(&self, request: Request<Body>, streamed: bool) -> Result<Response<ResponseBody>, BoxError> {
        let response = self.plain.send(request).await?;
        let clock = self.builder.clock.clone();
        let contact = Arc::clone(&self.contact);
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
        let Limits { qps, .. } = self.builder.limits;
        if qps <= 0.0 {
            return;
        }
        let now = self.builder.clock.monotonic();
        let wait = self.builder.bucket.lock().reserve(now);
        if wait > Duration::from_secs(1) {
            tracing::info!(wait_ms = wait.as_millis(), "waiting for the client-side rate limit");
        }
        if let Some(metrics) = &self.builder.metrics {
            metrics.throttled(method.as_str(), wait);
        }
        self.builder.clock.sleep(wait).await;
    }

    async fn backoff_short_watch(&self, path: &str) {
        let delay = {
            let now = self.builder.clock.monotonic();
            let mut watches = self.watches.lock();
            let backoff = watches.entry(path.to_owned()).or_default();
            let short = backoff.started.is_some_and(|started| now.saturating_sub(started) < SHORT_WATCH);
            backoff.short_in_a_row = if short { backoff.short_in_a_row + 1 } else { 0 };
            // A single short watch is tolerated; the delay starts with the second one in a row.
            let delay = match backoff.short_in_a_row {
                0 | 1 => Duration::ZERO,
                n => exponential(BACKOFF_BASE, BACKOFF_MAX, n - 2),
            };
            backoff.started = Some(now + delay);
            delay
        };
        if !delay.is_zero() {
            tracing::warn!(
                path,
                delay_ms = delay.as_millis(),
                "the server closes watches right after opening them, slowing down"
            );
        }
        self.builder.clock.sleep(delay).await;
    }
}

pub(super) fn is_watch(query: &str) -> bool {
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// Returns the delay before the request is repeated; `None` if the result is final.
fn retry_delay(method: &Method, watch: bool, result: &Result<Response<ResponseBody>, BoxError>) -> Option<Duration> {
    match result {
        Ok(response) => {
            let status = response.status();
            let asks = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            asks.then(|| retry_after(response.headers())).flatten()
        }
        // The informer resumes watches itself.
        Err(error) => (method == Method::GET && !watch && connection_broke(error.as_ref())).then_some(RECONNECT_DELAY),
    }
}

fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// Returns true if an established connection broke during the request, as opposed to a connection that could not be
/// established.
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

/// Copies the `Retry-After` header into the Status, from which [`ApiError`](crate::runtime::error::ApiError) takes it.
fn with_retry_after(body: Bytes, after: Option<Duration>) -> Bytes {
    let Some(after) = after else { return body };
    let Ok(serde_json::Value::Object(mut status)) = serde_json::from_slice(&body) else { return body };
    let details = status.entry("details").or_insert_with(|| serde_json::json!({}));
    if let Some(details) = details.as_object_mut() {
        details.entry("retryAfterSeconds").or_insert_with(|| after.as_secs().into());
    }
    serde_json::to_vec(&status).map_or(body, Bytes::from)
}

/// Returns the code label as client-go's metrics have it.
fn code(result: &Result<Response<ResponseBody>, BoxError>) -> String {
    result.as_ref().map_or_else(|_| "<error>".to_owned(), |answer| answer.status().as_str().to_owned())
}

fn describe(result: &Result<Response<ResponseBody>, BoxError>) -> String {
    match result {
        Ok(response) => response.status().to_string(),
        Err(error) => crate::runtime::error::chain(error.as_ref()),
    }
}
