//! Requests that the server makes itself: to webhooks of admission and conversion, and to aggregated API servers.
//! Follows `staging/src/k8s.io/apiserver/pkg/util/webhook/client.go` of Kubernetes 1.36.
//!
//! A target is a URL or a service. A handler in this process, registered for a URL, is asked first; only then sockets
//! are used, which need the feature `listener` and the wall clock.

#[cfg(feature = "listener")]
mod connections;
mod error;
mod exchange;
#[cfg(feature = "listener")]
mod https;
#[cfg(not(feature = "listener"))]
#[path = "no_sockets.rs"]
mod https;
mod target;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Clock;
use crate::json::Value;
use crate::json::fields::str_field;
use crate::registry::ObjectLister;
use crate::{schema, yaml};

#[cfg(feature = "listener")]
use connections::IdleConnections;
pub(crate) use error::{CallError, OutboundError};
use exchange::Answer;
pub(crate) use exchange::OutboundRequest;
#[cfg(not(feature = "listener"))]
use https::IdleConnections;
use parking_lot::RwLock;
pub(crate) use target::{ClientConfig, Endpoint};

/// The answer of a handler to the JSON body of a request, when it is ready.
pub(crate) type WebhookAnswer = Pin<Box<dyn Future<Output = serde_json::Value> + Send>>;

/// Answers the requests to a webhook in this process.
pub(crate) type WebhookHandler = Arc<dyn Fn(serde_json::Value) -> WebhookAnswer + Send + Sync>;

/// The time that a webhook has for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTime {
    /// Seconds after which the call is given up.
    pub(crate) seconds: u64,
    /// The parameter `timeout` of the call, in seconds; less than the above if the caller has less time.
    pub(crate) shown: u64,
}

impl From<u64> for CallTime {
    fn from(seconds: u64) -> Self {
        Self { seconds, shown: seconds }
    }
}

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
        time: CallTime,
    ) -> Result<Value, CallError> {
        let url = config.url();
        let query = format!("{}timeout={}s", if url.contains('?') { "&" } else { "?" }, time.shown);
        let handler = self.handlers.read().get(&url).cloned();
        let answer = async {
            match handler {
                Some(handler) => Ok(Answer {
                    status: 200,
                    content_type: JSON.to_owned(),
                    body: Bytes::from(handler(body.clone().into()).await.to_string()),
                }),
                None => self.post(lister, clock, config, &query, body).await,
            }
        };
        let url = || format!("{url}{query}");
        match clock.timeout(Duration::from_secs(time.seconds), answer).await {
            None => Err(CallError::Deadline(url())),
            Some(Err(error)) => Err(CallError::Transport { url: url(), error }),
            Some(Ok(answer)) => read_answer(answer, answer_type, version_of(body)),
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
    ) -> Result<Answer, OutboundError> {
        use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
        let endpoint = endpoint(lister, clock, config)?;
        let mut headers = http::HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(http::header::USER_AGENT, HeaderValue::from_static("kube-apiserver-admission"));
        let uri = format!("{}{query}", endpoint.path);
        let request =
            OutboundRequest { method: http::Method::POST, uri, headers, body: body.to_string().into_bytes().into() };
        https::send(&self.idle, &endpoint, request, ANSWER_MAX).await
    }
}

/// The media type of requests to webhooks, and of answers that name none.
const JSON: &str = "application/json";

/// Returns the version of a review.
fn version_of(review: &Value) -> &str {
    str_field(review, "apiVersion").rsplit('/').next().unwrap_or_default()
}

/// Returns the decoded answer to a review of a version, as `Result.Into` of
/// `staging/src/k8s.io/client-go/rest/request.go`.
fn read_answer(answer: Answer, answer_type: &str, version: &str) -> Result<Value, CallError> {
    let Answer { status, content_type, body } = answer;
    if !(200..=206).contains(&status) {
        if let Some(own) = failure(&body) {
            return Err(CallError::Own(own));
        }
        let is_text = content_type.is_empty() || content_type.starts_with("text/");
        let body = if is_text { body.to_vec() } else { b"unknown".to_vec() };
        return Err(CallError::Status { status, body });
    }
    if body.is_empty() {
        let content_type = if content_type.is_empty() { JSON.to_owned() } else { content_type };
        return Err(CallError::Empty { status, content_type });
    }
    decoded(&body, answer_type, version)
}

/// Returns the message of a `Status` that says why a request failed.
fn failure(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let is_status = text("kind") == "Status" && matches!(text("apiVersion"), "" | "v1");
    (is_status && text("status") == "Failure").then(|| text("message").to_owned())
}

/// Decodes an answer as a built-in type.
fn decoded(answer: &[u8], answer_type: &str, version: &str) -> Result<Value, CallError> {
    let types = schema::builtin(answer_type).ok_or_else(|| CallError::UnknownType(answer_type.to_owned()))?;
    let is_json = answer.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let answer = if is_json {
        Cow::Borrowed(answer)
    } else {
        Cow::Owned(yaml::to_json(answer).map_err(|error| CallError::Yaml(error.to_string()))?.json)
    };
    let (kind, api_version) = schema::type_meta(&answer)?;
    check_kind((answer_type, version), &kind, &api_version)?;
    Ok(types.decode(&answer)?.value)
}

/// Checks that an answer is of the kind and version that are asked for, or has none, as the codec of `NewClientManager`
/// in `staging/src/k8s.io/apiserver/pkg/util/webhook/client.go` does.
fn check_kind((answer_type, wanted): (&str, &str), kind: &str, api_version: &str) -> Result<(), CallError> {
    let review = answer_type.rsplit('.').next().unwrap_or_default();
    let group = if review == "ConversionReview" { "apiextensions.k8s.io" } else { "admission.k8s.io" };
    let (given, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // What is missing is taken from the wanted type.
    let (given, version) = if version.is_empty() { (group, wanted) } else { (given, version) };
    let kind = if kind.is_empty() { review } else { kind };
    let converting = |from: String| CallError::Conversion { from, to: format!("{wanted}.{review}") };
    match (given, version, kind) {
        (given, "v1" | "v1beta1", kind) if given == group && kind == review => {
            if version == wanted {
                Ok(())
            } else {
                Err(converting(format!("{version}.{review}")))
            }
        }
        ("", "v1", "Status") => Err(converting("v1.Status".to_owned())),
        _ => {
            let version = if given.is_empty() { version.to_owned() } else { format!("{given}/{version}") };
            Err(CallError::UnknownKind { kind: kind.to_owned(), version })
        }
    }
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
        let decoded = decoded(answer.to_string().as_bytes(), REVIEW, "v1").unwrap();
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
        let refused = decoded(answer.to_string().as_bytes(), ty, "v1").unwrap_err();
        assert_eq!(refused.to_string(), why);
    }

    #[test]
    fn an_answer_is_an_object() {
        let why = decoded(b"[1]", REVIEW, "v1").unwrap_err().to_string();
        assert!(why.starts_with("couldn't get version/kind; json parse error: json: cannot unmarshal array"), "{why}");
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let why = decoded(b"<html>", REVIEW, "v1").unwrap_err().to_string();
        assert!(why.starts_with("couldn't get version/kind; json parse error: json: cannot unmarshal string"), "{why}");
        assert_eq!(decoded(b"response: {uid: u}", REVIEW, "v1").unwrap()["response"]["uid"], "u");
    }

    /// `UseOrCreateObject` and `Scheme.Convert` of apimachinery: a review of another version is not converted.
    #[rstest]
    #[case::bare("", "", "")]
    #[case::version("admission.k8s.io/v1", "", "")]
    #[case::beta(
        "admission.k8s.io/v1beta1",
        "AdmissionReview",
        "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
    )]
    #[case::status("v1", "Status", "converting (v1.Status) to (v1.AdmissionReview): unknown conversion")]
    #[case::other(
        "v1",
        "Pod",
        "no kind \"Pod\" is registered for version \"v1\" in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\""
    )]
    #[case::unknown(
        "admission.k8s.io/v2",
        "AdmissionReview",
        "no kind \"AdmissionReview\" is registered for version \"admission.k8s.io/v2\" in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\""
    )]
    fn an_answer_is_of_the_kind_that_is_asked_for(#[case] api_version: &str, #[case] kind: &str, #[case] why: &str) {
        let answer = json!({"apiVersion": api_version, "kind": kind, "response": {}});
        let error = decoded(answer.to_string().as_bytes(), REVIEW, "v1").err();
        assert_eq!(error.map(|error| error.to_string()).unwrap_or_default(), why);
    }

    /// `transformResponse` and `Into` of `staging/src/k8s.io/client-go/rest/request.go`, and `NewGenericServerResponse`
    /// of `staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go`.
    #[rstest]
    #[case::empty(200, "", "", "0-length response with status code: 200 and content type: application/json")]
    #[case::no_content(204, "text/plain", "", "0-length response with status code: 204 and content type: text/plain")]
    #[case::text(
        500,
        "text/plain; charset=utf-8",
        "boom\n",
        "an error on the server (\"boom\") has prevented the request from succeeding"
    )]
    #[case::json(
        500,
        "application/json",
        "{}",
        "an error on the server (\"unknown\") has prevented the request from succeeding"
    )]
    #[case::own(500, "application/json", r#"{"kind": "Status", "status": "Failure", "message": "own"}"#, "own")]
    #[case::conflict(409, "text/plain", "x", "the server reported a conflict")]
    #[case::too_many(
        429,
        "text/plain",
        "x",
        "the server has received too many requests and has asked us to try again later"
    )]
    #[case::invalid(422, "text/plain", "x", "the server rejected our request due to an error in our request")]
    #[case::unavailable(503, "text/plain", "busy", "the server is currently unable to handle the request")]
    #[case::forbidden(403, "text/plain", "not you", "not you")]
    #[case::unacceptable(
        406,
        "application/json",
        "x",
        "the server was unable to respond with a content type that the client supports"
    )]
    #[case::large(413, "", "x", "the server responded with the status code 413 but did not return more information")]
    fn answers_that_are_no_success(#[case] status: u16, #[case] kind: &str, #[case] body: &str, #[case] why: &str) {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let answer = Answer { status, content_type: kind.to_owned(), body };
        assert_eq!(read_answer(answer, REVIEW, "v1").unwrap_err().to_string(), why);
    }
}
