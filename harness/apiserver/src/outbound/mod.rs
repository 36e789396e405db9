//! Requests that the server makes itself: to webhooks of admission and conversion, and to aggregated API servers.
//! Follows `staging/src/k8s.io/apiserver/pkg/util/webhook/client.go` of Kubernetes 1.36.
//!
//! A target is a URL or a service. A handler in this process, registered for a URL, is asked first; only then sockets
//! are used, which need the feature `listener` and the wall clock.

#[cfg(feature = "listener")]
mod connections;
#[cfg(feature = "listener")]
mod https;
#[cfg(not(feature = "listener"))]
#[path = "no_sockets.rs"]
mod https;
mod target;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Clock;
use crate::json::Value;
use crate::registry::ObjectLister;

#[cfg(feature = "listener")]
use connections::IdleConnections;
#[cfg(not(feature = "listener"))]
use https::IdleConnections;
pub(crate) use target::{ClientConfig, Endpoint};

/// The answer of a handler to the JSON body of a request, when it is ready.
pub(crate) type WebhookAnswer = Pin<Box<dyn Future<Output = serde_json::Value> + Send>>;

/// Answers the requests to a webhook in this process.
pub(crate) type WebhookHandler = Arc<dyn Fn(serde_json::Value) -> WebhookAnswer + Send + Sync>;

/// Largest answer of a webhook in bytes.
const ANSWER_MAX: usize = 16 << 20;

/// The handlers in this process, and the client of all others.
#[derive(Default)]
pub(crate) struct Outbound {
    handlers: RwLock<BTreeMap<String, WebhookHandler>>,
    idle: IdleConnections,
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Outbound").field("handlers", &handlers.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

/// A request to a target.
#[derive(Debug)]
#[cfg_attr(not(feature = "listener"), expect(dead_code, reason = "read by `https` only"))]
pub(crate) struct OutboundRequest {
    pub(crate) method: http::Method,
    /// Path and query.
    pub(crate) uri: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Outbound {
    /// Registers the handler of a URL without query; it replaces the one before.
    pub(crate) fn register(&self, url: &str, handler: WebhookHandler) {
        self.handlers.write().unwrap_or_else(PoisonError::into_inner).insert(url.to_owned(), handler);
    }

    /// Posts JSON to a webhook and returns the JSON of its answer.
    ///
    /// # Errors
    /// The webhook cannot be reached in time, or its answer is not JSON; in the words of Go's client.
    pub(crate) async fn call(
        &self,
        lister: &dyn ObjectLister,
        clock: &Clock,
        config: &ClientConfig,
        body: &Value,
        seconds: u64,
    ) -> Result<Value, String> {
        let url = config.url();
        let query = format!("{}timeout={seconds}s", if url.contains('?') { "&" } else { "?" });
        let handler = self.handlers.read().unwrap_or_else(PoisonError::into_inner).get(&url).cloned();
        let answer = async {
            match handler {
                Some(handler) => Ok(Value::from(handler(body.clone().into()).await)),
                None => self.post(lister, clock, config, &query, body).await,
            }
        };
        let answer = clock.timeout(Duration::from_secs(seconds), answer).await;
        let failed = |why: String| format!("Post \"{url}{query}\": {why}");
        match answer {
            None => Err(failed("context deadline exceeded".to_owned())),
            Some(Err(CallFailure::Transport(why))) => Err(failed(why)),
            Some(Err(CallFailure::Answer(why))) => Err(why),
            Some(Ok(answer)) => Ok(answer),
        }
    }

    /// Posts over a socket.
    async fn post(
        &self,
        lister: &dyn ObjectLister,
        clock: &Clock,
        config: &ClientConfig,
        query: &str,
        body: &Value,
    ) -> Result<Value, CallFailure> {
        use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
        let endpoint = endpoint(lister, clock, config).map_err(CallFailure::Transport)?;
        let mut headers = http::HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(http::header::USER_AGENT, HeaderValue::from_static("kube-apiserver-admission"));
        let uri = format!("{}{query}", endpoint.path);
        let request =
            OutboundRequest { method: http::Method::POST, uri, headers, body: body.to_string().into_bytes().into() };
        let (status, answer) =
            https::send(&self.idle, &endpoint, request, ANSWER_MAX).await.map_err(CallFailure::Transport)?;
        if !(200..300).contains(&status) {
            return Err(CallFailure::Answer(status_error(status, &answer)));
        }
        serde_json::from_slice(&answer)
            .map_err(|error| CallFailure::Answer(format!("couldn't get version/kind; json parse error: {error}")))
    }
}

/// Returns where a target is.
///
/// # Errors
/// The service does not exist, or there are no sockets because time is virtual.
pub(crate) fn endpoint(lister: &dyn ObjectLister, clock: &Clock, config: &ClientConfig) -> Result<Endpoint, String> {
    let endpoint = config.resolve(lister)?;
    if clock.is_virtual() {
        return Err(NO_HANDLER.to_owned());
    }
    Ok(endpoint)
}

/// Sends a request to a target and returns the response, whose body can be a stream.
pub(crate) async fn forward(
    endpoint: &Endpoint,
    request: OutboundRequest,
) -> Result<(http::response::Parts, crate::request::BodyStream), String> {
    https::forward(endpoint, request).await
}

/// The error of a call that would need sockets where there are none.
const NO_HANDLER: &str = "no handler is registered for this URL, and a server in virtual time opens no connections; register one with ApiServer::handle_webhook";

/// The reason why a call has no answer.
enum CallFailure {
    /// There was no answer.
    Transport(String),
    /// The answer is not usable.
    Answer(String),
}

/// Returns the error of an answer that is no success: `NewGenericServerResponse`.
fn status_error(status: u16, body: &[u8]) -> String {
    /// Longest part of a body that is shown.
    const SHOWN: usize = 2048;
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).trim().to_owned();
    match status {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        503 if text.is_empty() => "the server is currently unable to handle the request".to_owned(),
        403 | 503 => text,
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        500.. => format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        _ => format!("the server responded with the status code {status} but did not return more information"),
    }
}
