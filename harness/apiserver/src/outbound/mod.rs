//! Requests that the server makes itself: to webhooks of admission and conversion, and to aggregated API servers.
//! Follows `staging/src/k8s.io/apiserver/pkg/util/webhook/client.go` of Kubernetes 1.36.
//!
//! A target is a URL or a service. A handler in this process, registered for a URL, is asked first; only then sockets
//! are used, which need the feature `listener` and the wall clock.

#[cfg(feature = "listener")]
mod connections;
mod error;
#[cfg(feature = "listener")]
mod https;
#[cfg(not(feature = "listener"))]
#[path = "no_sockets.rs"]
mod https;
mod target;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Clock;
use crate::json::Value;
use crate::registry::ObjectLister;
use crate::schema;

#[cfg(feature = "listener")]
use connections::IdleConnections;
pub(crate) use error::{CallError, OutboundError};
#[cfg(not(feature = "listener"))]
use https::IdleConnections;
use parking_lot::RwLock;
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
        let handlers = self.handlers.read();
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
        self.handlers.write().insert(url.to_owned(), handler);
    }

    /// Posts JSON to a webhook and returns its answer, decoded as the built-in type with this OpenAPI name.
    ///
    /// # Errors
    /// The webhook cannot be reached in time, or its answer is not of the type; in the words of Go's client.
    pub(crate) async fn call(
        &self,
        lister: &dyn ObjectLister,
        clock: &Clock,
        config: &ClientConfig,
        (body, answer_type): (&Value, &str),
        seconds: u64,
    ) -> Result<Value, CallError> {
        let url = config.url();
        let query = format!("{}timeout={seconds}s", if url.contains('?') { "&" } else { "?" });
        let handler = self.handlers.read().get(&url).cloned();
        let answer = async {
            match handler {
                Some(handler) => Ok((200, Bytes::from(handler(body.clone().into()).await.to_string()))),
                None => self.post(lister, clock, config, &query, body).await,
            }
        };
        let url = || format!("{url}{query}");
        match clock.timeout(Duration::from_secs(seconds), answer).await {
            None => Err(CallError::Deadline(url())),
            Some(Err(error)) => Err(CallError::Transport { url: url(), error }),
            Some(Ok((200..300, answer))) => decoded(&answer, answer_type),
            Some(Ok((status, answer))) => Err(CallError::Status { status, body: answer.to_vec() }),
        }
    }

    /// Posts over a socket; returns the status code and the body of the answer.
    async fn post(
        &self,
        lister: &dyn ObjectLister,
        clock: &Clock,
        config: &ClientConfig,
        query: &str,
        body: &Value,
    ) -> Result<(u16, Bytes), OutboundError> {
        use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
        let endpoint = endpoint(lister, clock, config)?;
        let mut headers = http::HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(http::header::USER_AGENT, HeaderValue::from_static("kube-apiserver-admission"));
        let uri = format!("{}{query}", endpoint.path);
        let request =
            OutboundRequest { method: http::Method::POST, uri, headers, body: body.to_string().into_bytes().into() };
        https::send(&self.idle, &endpoint, request, ANSWER_MAX).await
    }
}

/// Decodes an answer as a built-in type.
fn decoded(answer: &[u8], answer_type: &str) -> Result<Value, CallError> {
    let types = schema::builtin(answer_type).ok_or_else(|| CallError::UnknownType(answer_type.to_owned()))?;
    schema::type_meta(answer)?;
    Ok(types.decode(answer)?.value)
}

/// Returns where a target is.
///
/// # Errors
/// The service does not exist, or there are no sockets because time is virtual.
pub(crate) fn endpoint(
    lister: &dyn ObjectLister,
    clock: &Clock,
    config: &ClientConfig,
) -> Result<Endpoint, OutboundError> {
    let endpoint = config.resolve(lister)?;
    if clock.is_virtual() {
        return Err(OutboundError::NoHandler);
    }
    Ok(endpoint)
}

/// Sends a request to a target and returns the response, whose body can be a stream.
pub(crate) async fn forward(
    endpoint: &Endpoint,
    request: OutboundRequest,
) -> Result<(http::response::Parts, crate::request::BodyStream), OutboundError> {
    https::forward(endpoint, request).await
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    const REVIEW: &str = "io.k8s.api.admission.v1.AdmissionReview";
    const CONVERSION: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ConversionReview";

    /// Go's decoder takes an array of numbers for `[]byte` (`array` in `sigs.k8s.io/json/internal/golang/encoding/json/
    /// decode.go`), and `encoding/base64` skips line feeds.
    #[rstest]
    #[case::text(json!("W10="))]
    #[case::line_feeds(json!("W1\n0=\n"))]
    #[case::carriage_returns(json!("W1\r\n0="))]
    #[case::numbers(json!([91, 93]))]
    fn bytes_are_decoded_as_in_go(#[case] patch: Value) {
        let answer = json!({"response": {"uid": "u", "allowed": true, "patch": patch}});
        let decoded = decoded(answer.to_string().as_bytes(), REVIEW).unwrap();
        assert_eq!(decoded["response"]["patch"], "W10=");
    }

    /// Messages of Go's decoder.
    #[rstest]
    #[case::uid(REVIEW, json!({"response": {"uid": 1}}), "json: cannot unmarshal number into Go struct field AdmissionResponse.response.uid of type types.UID")]
    #[case::allowed(REVIEW, json!({"response": {"allowed": "true"}}), "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool")]
    #[case::code(REVIEW, json!({"response": {"status": {"code": "403"}}}), "json: cannot unmarshal string into Go struct field Status.response.status.code of type int32")]
    #[case::large_code(REVIEW, json!({"response": {"status": {"code": 3_000_000_000_u64}}}), "json: cannot unmarshal number 3000000000 into Go struct field Status.response.status.code of type int32")]
    #[case::warnings(REVIEW, json!({"response": {"warnings": "w"}}), "json: cannot unmarshal string into Go struct field AdmissionResponse.response.warnings of type []string")]
    #[case::audit(REVIEW, json!({"response": {"auditAnnotations": {"k": 1}}}), "json: cannot unmarshal number into Go struct field AdmissionResponse.response.auditAnnotations of type string")]
    #[case::large_byte(REVIEW, json!({"response": {"patch": [256]}}), "json: cannot unmarshal number 256 into Go struct field AdmissionResponse.response.patch of type uint8")]
    #[case::no_base64(REVIEW, json!({"response": {"patch": "*"}}), "illegal base64 data at input byte 0")]
    #[case::conversion(CONVERSION, json!({"response": {"result": {"status": 1}}}), "json: cannot unmarshal number into Go struct field Status.response.result.status of type string")]
    #[case::converted(CONVERSION, json!({"response": {"convertedObjects": {}}}), "json: cannot unmarshal object into Go struct field ConversionResponse.response.convertedObjects of type []runtime.RawExtension")]
    fn values_of_other_types_are_refused(#[case] ty: &str, #[case] answer: Value, #[case] why: &str) {
        let refused = decoded(answer.to_string().as_bytes(), ty).unwrap_err();
        assert_eq!(refused.to_string(), why);
    }

    #[test]
    fn an_answer_is_an_object() {
        let why = decoded(b"[1]", REVIEW).unwrap_err().to_string();
        assert!(why.starts_with("couldn't get version/kind; json parse error: json: cannot unmarshal array"), "{why}");
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let why = decoded(b"<html>", REVIEW).unwrap_err().to_string();
        assert!(why.starts_with("couldn't get version/kind; json parse error: invalid character '<'"), "{why}");
    }
}
