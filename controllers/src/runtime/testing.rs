//! An API server for unit tests: a closure that responds to requests, in process, on simulated time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::BoxError;

use super::clock::Clock;

/// A received request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReceivedRequest {
    /// Time of arrival, on the server's clock.
    pub(crate) at: Duration,
    /// `METHOD path?query`
    pub(crate) line: String,
    /// The body, `Null` without one.
    pub(crate) body: Value,
    pub(crate) user_agent: String,
    /// The header `Authorization`.
    pub(crate) authorization: String,
}

/// The server's reaction to a request.
pub(crate) enum MockResponse {
    /// A complete response.
    Json(u16, Value),
    /// A response with `Retry-After`.
    RetryAfter(u16, u64),
    /// No response, ever.
    Hang,
    /// The connection breaks before the response.
    Reset,
    /// Lines of a watch, each after a pause; then the stream stays open (`true`) or ends.
    Watch(Vec<(Duration, Value)>, bool),
    /// Half a response, then the connection breaks.
    Torn,
}

/// Longer than anything that a test waits for.
const TIME_LIMIT: Duration = Duration::from_hours(24 * 30);

/// Awaits `future` and panics if it would never complete.
///
/// The limit is in virtual time. On a paused clock it passes as soon as no other timer is left, so that a test whose
/// event never comes fails within milliseconds instead of hanging.
pub(crate) async fn must_end<F: Future>(future: F) -> F::Output {
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    clock.timeout(TIME_LIMIT, future).await.expect("the test waits for something that never happens")
}

pub(crate) type RequestLog = Arc<Mutex<Vec<ReceivedRequest>>>;

/// Returns a client of a server that responds with `answer`, and the log of received requests.
pub(crate) fn serve(
    clock: &Clock,
    answer: impl Fn(&ReceivedRequest) -> MockResponse + Send + Sync + 'static,
) -> (Client, RequestLog) {
    let log = RequestLog::default();
    let answer = Arc::new(answer);
    let clock = clock.clone();
    let seen_log = Arc::clone(&log);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = Arc::clone(&answer);
        let clock = clock.clone();
        let log = Arc::clone(&seen_log);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let header = |name| parts.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
            let seen = ReceivedRequest {
                at: clock.monotonic(),
                line: format!("{} {}", parts.method, parts.uri),
                body: serde_json::from_slice(&body).unwrap_or(Value::Null),
                user_agent: header("user-agent"),
                authorization: header("authorization"),
            };
            log.lock().push(seen.clone());
            respond(answer(&seen), clock).await
        }
    });
    (Client::new(service, "default"), log)
}

/// Responds from a list; hangs when it is exhausted.
pub(crate) fn script(answers: Vec<MockResponse>) -> impl Fn(&ReceivedRequest) -> MockResponse + Send + Sync + 'static {
    let answers = Mutex::new(VecDeque::from(answers));
    move |_| answers.lock().pop_front().unwrap_or(MockResponse::Hang)
}

/// A `metav1.Status` failure.
pub(crate) fn failure(code: u16, reason: &str) -> MockResponse {
    MockResponse::Json(code, status(code, reason))
}

pub(crate) fn status(code: u16, reason: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": reason })
}

type MockHttpResponse = Response<UnsyncBoxBody<Bytes, BoxError>>;

fn reset() -> BoxError {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer").into()
}

async fn respond(answer: MockResponse, clock: Clock) -> Result<MockHttpResponse, BoxError> {
    let whole = |code: u16, value: &Value| {
        let body = Full::new(Bytes::from(value.to_string())).map_err(|never| match never {}).boxed_unsync();
        Response::builder().status(code).body(body)
    };
    match answer {
        MockResponse::Json(code, value) => Ok(whole(code, &value)?),
        MockResponse::RetryAfter(code, seconds) => {
            let mut response = whole(code, &status(code, "TooManyRequests"))?;
            response.headers_mut().insert("retry-after", seconds.into());
            Ok(response)
        }
        MockResponse::Hang => std::future::pending().await,
        MockResponse::Reset => Err(reset()),
        MockResponse::Torn => {
            let parts = stream::iter([Ok(Frame::data(Bytes::from_static(b"{\"kind\": \"Lis"))), Err(reset())]);
            Ok(Response::new(StreamBody::new(parts).boxed_unsync()))
        }
        MockResponse::Watch(lines, open) => {
            let lines = stream::iter(lines).then(move |(pause, line)| {
                let clock = clock.clone();
                async move {
                    clock.sleep(pause).await;
                    Ok::<_, BoxError>(Frame::data(Bytes::from(format!("{line}\n"))))
                }
            });
            let rest: stream::BoxStream<'static, Result<Frame<Bytes>, BoxError>> =
                if open { stream::pending().boxed() } else { stream::empty().boxed() };
            Ok(Response::new(StreamBody::new(lines.chain(rest)).boxed_unsync()))
        }
    }
}
