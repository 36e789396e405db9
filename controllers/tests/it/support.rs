//! An API server as a closure, in process, on simulated time: for tests of the whole program.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use plumbline_controllers::runtime::client::ClientFactory;
use plumbline_controllers::runtime::clock::Clock;
use serde_json::{Value, json};
use tower::BoxError;

/// The requests: `METHOD path`, with ` (watch)` for watches.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// A simulated clock at the start of 2026.
pub(crate) fn clock() -> Clock {
    Clock::simulated("2026-01-01T00:00:00Z".parse().expect("a timestamp"))
}

/// Awaits `future` and panics if it takes longer than a day of simulated time: a test that waits for what never happens
/// fails instead of hanging.
pub(crate) async fn must_end<F: Future>(future: F) -> F::Output {
    clock().timeout(Duration::from_hours(24), future).await.expect("the test waits for something that never happens")
}

/// Waits for `duration` of simulated time.
pub(crate) async fn pass(duration: Duration) {
    clock().sleep(duration).await;
}

/// Returns clients of a server that responds with `answer(line)`: a status code and a body. Watches stay open and
/// silent.
pub(crate) fn serve(answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> (ClientFactory, Log) {
    serve_with_events(answer, |_| None)
}

/// Does the same as [`serve`]; a watch of `path` sends the event `event(path)` after a second, if there is one.
pub(crate) fn serve_with_events(
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
    event: impl Fn(&str) -> Option<Value> + Send + Sync + 'static,
) -> (ClientFactory, Log) {
    let log = Log::default();
    let answer = Arc::new(answer);
    let event = Arc::new(event);
    let seen = Arc::clone(&log);
    let factory: ClientFactory = Arc::new(move |_| {
        let answer = Arc::clone(&answer);
        let event = Arc::clone(&event);
        let seen = Arc::clone(&seen);
        let service = tower::service_fn(move |request: Request<Body>| {
            let watch = request.uri().query().unwrap_or_default().contains("watch=true");
            let mark = if watch { " (watch)" } else { "" };
            let line = format!("{} {}{mark}", request.method(), request.uri().path());
            let (code, body) = answer(&line);
            let first = if watch { event(request.uri().path()) } else { None };
            seen.lock().push(line);
            async move { respond(code, &body, watch, first) }
        });
        Client::new(service, "default")
    });
    (factory, log)
}

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

fn respond(code: u16, body: &Value, watch: bool, first: Option<Value>) -> Result<Answer, BoxError> {
    let whole = stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from(body.to_string())))]);
    let first = first.map(|event| Frame::data(Bytes::from(format!("{event}\n"))));
    let first = stream::iter(first).then(|event| async {
        pass(Duration::from_secs(1)).await;
        Ok(event)
    });
    let open = first.chain(stream::pending());
    let parts = if watch && code == 200 { open.boxed() } else { whole.boxed() };
    Ok(Response::builder().status(code).body(UnsyncBoxBody::new(StreamBody::new(parts)))?)
}

/// An empty list.
pub(crate) fn empty() -> (u16, Value) {
    list(&[])
}

/// A list of `items`.
pub(crate) fn list(items: &[Value]) -> (u16, Value) {
    (200, json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": "5" }, "items": items }))
}

/// An error response.
pub(crate) fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("{reason} says the server") });
    (code, status)
}
