//! `metav1.Status`, the body of every error reply, with one constructor per API reason.
//!
//! The constructors agree with `staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go`: clients match on messages,
//! reasons and details. All fallible functions of the server return `Result<_, Status>`; a `Status` is also the body
//! of successful deletions.

use serde::{Deserialize, Serialize};

pub use super::field_errors::go_quote;
use super::field_errors::{self, ErrorList};
use crate::json::Value;

/// The error of Go's `strconv` about a text that is no number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.{function}: parsing {}: {}", go_quote(.text), if *.out_of_range { "value out of range" } else { "invalid syntax" })]
pub(crate) struct NumberError {
    /// `ParseInt` or `ParseUint`.
    pub function: &'static str,
    /// The text.
    pub text: String,
    /// The text is a number, but too large or too small.
    pub out_of_range: bool,
}

/// A `metav1.Status` object: an error, or the reply to a deletion that removed its object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// List metadata; empty in practice.
    #[serde(default)]
    pub metadata: StatusMeta,
    /// Success or failure.
    #[serde(default)]
    pub status: StatusKind,
    /// Human-readable message.
    #[serde(default)]
    pub message: String,
    /// Machine-readable reason, such as `NotFound`.
    #[serde(default)]
    pub reason: String,
    /// Data that belongs to the reason.
    #[serde(default)]
    pub details: Option<Box<Details>>,
    /// HTTP status code; 0 if the reply does not carry it.
    #[serde(default)]
    pub code: u16,
}

/// The `status` field of a [`Status`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatusKind {
    /// The request succeeded.
    Success,
    /// The request failed.
    #[default]
    Failure,
}

impl Serialize for Status {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", "Status")?;
        map.serialize_entry("apiVersion", "v1")?;
        map.serialize_entry("metadata", &self.metadata)?;
        map.serialize_entry("status", &self.status)?;
        for (name, text) in [("message", &self.message), ("reason", &self.reason)] {
            if !text.is_empty() {
                map.serialize_entry(name, text)?;
            }
        }
        if let Some(details) = &self.details {
            map.serialize_entry("details", details)?;
        }
        if self.code != 0 {
            map.serialize_entry("code", &self.code)?;
        }
        map.end()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes references")]
fn is_zero_seconds(seconds: &i32) -> bool {
    *seconds == 0
}

/// The `metadata` field of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusMeta {
    /// The continue token returned with an expired one (inconsistent continuation).
    #[serde(default, rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// The `details` field of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Resource (plural) for most reasons, kind for `Invalid`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Uid of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The causes, one per field for `Invalid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds to wait before a retry; also sent as the `Retry-After` header.
    #[serde(default, skip_serializing_if = "is_zero_seconds")]
    pub retry_after_seconds: i32,
}

/// An entry of `causes` in [`Details`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Cause type, such as `FieldValueInvalid` (`reason` on the wire).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl field_errors::FieldError {
    /// Returns the error as a cause of a Status.
    pub fn cause(&self) -> Cause {
        Cause { reason: self.error_type.reason().to_owned(), message: self.body(), field: self.field.clone() }
    }
}

/// A group and resource, displayed like `schema.GroupResource`: `deployments.apps`, `pods`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupResource<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Plural resource name.
    pub resource: &'a str,
}

impl<'a> GroupResource<'a> {
    /// Creates the pair.
    pub fn new(group: &'a str, resource: &'a str) -> Self {
        Self { group, resource }
    }
}

impl std::fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() { f.write_str(self.resource) } else { write!(f, "{}.{}", self.resource, self.group) }
    }
}

/// The message of optimistic-lock conflicts.
pub const OPTIMISTIC_LOCK_MESSAGE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl Status {
    /// Returns a failure with code, reason and message but no details.
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            metadata: StatusMeta::default(),
            status: StatusKind::Failure,
            message: message.into(),
            reason: reason.to_owned(),
            details: None,
            code,
        }
    }

    /// Returns the reply to a deletion: `Success` with the deleted object's name, group, kind and uid.
    pub fn success(details: Details) -> Self {
        Self {
            metadata: StatusMeta::default(),
            status: StatusKind::Success,
            message: String::new(),
            reason: String::new(),
            details: Some(Box::new(details)),
            code: 0,
        }
    }

    fn about(mut self, resource: GroupResource<'_>, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: resource.group.to_owned(),
            kind: resource.resource.to_owned(),
            ..Details::default()
        }));
        self
    }

    /// Replaces the details.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Adds a cause, and the details if there are none.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: impl Into<String>, field: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.causes.push(Cause { reason: reason.to_owned(), message: message.into(), field: field.to_owned() });
        self
    }

    /// Sets `retryAfterSeconds`, which is also sent as the `Retry-After` header.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: i32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// 404 `NotFound` for an object.
    pub fn not_found(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!("{resource} {} not found", go_quote(name));
        Self::failure(404, "NotFound", message).about(resource, name)
    }

    /// 404 for a path that is not served (`the server could not find the requested resource`).
    pub fn unknown_resource() -> Self {
        Self::with_empty_details(404, "NotFound", "the server could not find the requested resource")
    }

    fn with_empty_details(code: u16, reason: &str, message: &str) -> Self {
        Self::failure(code, reason, message).with_details(Details::default())
    }

    /// 409 `AlreadyExists`.
    pub fn already_exists(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!("{resource} {} already exists", go_quote(name));
        Self::failure(409, "AlreadyExists", message).about(resource, name)
    }

    /// 409 `AlreadyExists` after all generated names were taken.
    pub fn generate_name_conflict(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            go_quote(name)
        );
        Self::failure(409, "AlreadyExists", message).about(resource, name).with_retry_after(1)
    }

    /// 401 `Unauthorized`.
    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized")
    }

    /// 403 `Forbidden` for an object (`name` may be empty).
    pub fn forbidden(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = if resource.resource.is_empty() && resource.group.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", go_quote(name))
        };
        Self::failure(403, "Forbidden", message).about(resource, name)
    }

    /// 409 `Conflict`: `Operation cannot be fulfilled on …: why`.
    pub fn conflict(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", go_quote(name));
        Self::failure(409, "Conflict", message).about(resource, name)
    }

    /// 409 `Conflict` because the resourceVersion of the request is not the current one.
    pub fn resource_version_conflict(resource: GroupResource<'_>, name: &str) -> Self {
        Self::conflict(resource, name, OPTIMISTIC_LOCK_MESSAGE)
    }

    /// 409 `Conflict` of server-side apply, with one cause per conflicting field.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Self {
        Self::failure(409, "Conflict", message).with_details(Details { causes, ..Details::default() })
    }

    /// 410 `Expired`: the resourceVersion has been compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message)
    }

    /// 410 `Gone`.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, "Gone", message)
    }

    /// 422 `Invalid` with one cause per error. The details carry the kind, not the resource.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &ErrorList) -> Self {
        let qualified = GroupResource::new(group, kind);
        let head = format!("{qualified} {} is invalid", go_quote(name));
        let message = match errors.to_aggregate_message() {
            None => head,
            Some(all) => format!("{head}: {all}"),
        };
        let causes = errors.iter().map(field_errors::FieldError::cause).collect();
        Self::failure(422, "Invalid", message).with_details(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        })
    }

    /// 400 `BadRequest`.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    /// 429 `TooManyRequests` with `retryAfterSeconds` (0 = no hint).
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: i32) -> Self {
        Self::failure(429, "TooManyRequests", message).with_retry_after(retry_after_seconds)
    }

    /// 405 `MethodNotAllowed` for a verb that the resource does not support.
    pub fn method_not_allowed() -> Self {
        Self::with_empty_details(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// 405 `MethodNotAllowed` that names the action.
    pub fn method_not_supported(resource: GroupResource<'_>, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind {}", go_quote(&resource.to_string()));
        Self::failure(405, "MethodNotAllowed", message).about(resource, "")
    }

    /// 406 `NotAcceptable` that lists the media types the server can produce.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::failure(406, "NotAcceptable", message)
    }

    /// 406 `NotAcceptable` from the router, before a handler is reached.
    pub fn not_acceptable_route(produced: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", produced.join(", "));
        Self::failure(406, "NotAcceptable", message).with_details(Details::default())
    }

    /// 415 `UnsupportedMediaType` that lists the media types the server can read.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, "UnsupportedMediaType", message)
    }

    /// 413 `RequestEntityTooLarge`.
    pub fn too_large(limit_bytes: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit_bytes}");
        Self::failure(413, "RequestEntityTooLarge", message)
    }

    /// 500 without a reason: an error that upstream passes on unchanged.
    pub fn untyped_error(message: impl Into<String>) -> Self {
        Self::failure(500, "", message)
    }

    /// 422 with empty details: a patch that cannot be applied.
    pub fn unprocessable() -> Self {
        Self::with_empty_details(422, "Invalid", "the server rejected our request due to an error in our request")
    }

    /// 500 `InternalError`.
    pub fn internal(why: impl std::fmt::Display) -> Self {
        Self::failure(500, "InternalError", format!("Internal error occurred: {why}")).with_cause(
            "",
            why.to_string(),
            "",
        )
    }

    /// 504 `Timeout`.
    pub fn timeout(message: &str, retry_after_seconds: i32) -> Self {
        Self::failure(504, "Timeout", format!("Timeout: {message}")).with_retry_after(retry_after_seconds)
    }

    /// 504 `Timeout` for a list or watch from a resourceVersion that has not been reached.
    pub fn too_large_resource_version(wanted: u64, current: u64) -> Self {
        Self::failure(504, "Timeout", format!("Timeout: Too large resource version: {wanted}, current: {current}"))
            .with_retry_after(1)
            .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
    }

    /// Returns the status as JSON with the fields in upstream's order.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the status as a JSON value.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).map_or(Value::Null, Value::from)
    }

    /// Returns true for a failure.
    pub fn is_failure(&self) -> bool {
        self.status == StatusKind::Failure
    }

    /// Returns `retryAfterSeconds` if it is set.
    pub fn retry_after(&self) -> Option<i32> {
        self.details.as_ref().map(|d| d.retry_after_seconds).filter(|&s| s > 0)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    #[test]
    fn not_found_has_the_wire_shape_and_order() {
        let status = Status::not_found(GroupResource::new("apps", "deployments"), "w");
        assert_eq!(
            String::from_utf8(status.to_bytes()).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"w\" not found","reason":"NotFound","details":{"name":"w","group":"apps","kind":"deployments"},"code":404}"#
        );
    }

    #[test]
    fn invalid_lists_every_cause_and_repeats_no_message() {
        let spec = field_errors::Path::new("spec");
        let mut errors = ErrorList::new();
        errors.push(field_errors::FieldError::required(&spec.child("a"), ""));
        errors.push(field_errors::FieldError::required(&spec.child("a"), ""));
        errors.push(field_errors::FieldError::invalid(&spec.child("b").index(0), -1, "must be positive"));
        let status = Status::invalid("policy", "PodDisruptionBudget", "b", &errors);
        assert_eq!(
            status.message,
            r#"PodDisruptionBudget.policy "b" is invalid: [spec.a: Required value, spec.b[0]: Invalid value: -1: must be positive]"#
        );
        assert_eq!(status.details.unwrap().causes.len(), 3);
    }

    #[test]
    fn success_has_no_code() {
        let status = Status::success(Details { name: "a".into(), kind: "pods".into(), ..Details::default() });
        assert_eq!(
            status.to_value(),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {"name": "a", "kind": "pods"}})
        );
    }

    #[rstest]
    #[case::plain("a b", r#""a b""#)]
    #[case::quotes("a\"b\\", r#""a\"b\\""#)]
    #[case::control("\u{1}\n", r#""\x01\n""#)]
    #[case::unicode("ü", r#""ü""#)]
    fn quoting_is_gos(#[case] text: &str, #[case] quoted: &str) {
        assert_eq!(go_quote(text), quoted);
    }
}
