//! `AdmissionReview`s: the request that a webhook gets, and its answer. Follows
//! `plugin/webhook/request/admissionreview.go` in `staging/src/k8s.io/apiserver/pkg/admission`. PURE.

use super::attributes::Attributes;
use super::matching::Invocation;
use crate::go_base64;
use crate::json::{Map, Value, json};
use crate::status::Status;

/// OpenAPI name of the reviews; those of `v1beta1` have the same fields.
pub(super) const TYPE: &str = "io.k8s.api.admission.v1.AdmissionReview";

/// The versions of reviews that this server speaks.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Returns the request part of a review as expressions see it: without UID and objects.
pub(super) fn request(attributes: &Attributes, invocation: &Invocation) -> Map {
    let mut request = Map::new();
    request.insert("kind", invocation.kind.to_json());
    request.insert("resource", invocation.resource.to_json());
    request.insert("requestKind", attributes.kind.to_json());
    request.insert("requestResource", attributes.resource.to_json());
    for (field, text) in [
        ("subResource", &attributes.subresource),
        ("requestSubResource", &attributes.subresource),
        ("name", &attributes.name),
        ("namespace", &attributes.namespace),
    ] {
        if !text.is_empty() {
            request.insert(field, text.as_str().into());
        }
    }
    request.insert("operation", attributes.operation.as_str().into());
    request.insert("userInfo", attributes.user.clone());
    request.insert("dryRun", attributes.dry_run.into());
    request.insert("options", attributes.options.clone());
    request
}

/// Returns the first version of reviews that a webhook accepts and this server knows.
pub(super) fn version(accepted: &[String]) -> Option<&str> {
    accepted.iter().map(String::as_str).find(|version| VERSIONS.contains(version))
}

/// Returns the review that is sent.
pub(super) fn review(attributes: &Attributes, invocation: &Invocation, version: &str, uid: &str) -> Value {
    let mut request = request(attributes, invocation);
    request.insert("uid", uid.into());
    request.insert("object", invocation.object.clone().unwrap_or(Value::Null));
    request.insert("oldObject", invocation.old.clone().unwrap_or(Value::Null));
    json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{version}"),
        "request": Value::Object(request),
    })
}

/// The answer of a webhook.
#[derive(Debug, Default)]
pub(super) struct ReviewResponse {
    pub(super) allowed: bool,
    pub(super) status: Value,
    pub(super) warnings: Vec<String>,
    /// Audit annotations by key.
    pub(super) audit: Vec<(String, String)>,
    /// The text of a JSON patch; empty if there is none.
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: String,
}

/// Reasons why an answer is not one to a review, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("webhook response was absent")]
    NoResponse,
    #[error("webhook returned a patch that is not base64")]
    PatchEncoding,
    #[error("expected response.uid={wanted:?}, got {given:?}")]
    Uid { wanted: String, given: String },
    #[error("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {given}, Kind={kind}")]
    Kind { given: String, kind: String },
    #[error("webhook returned response.patch but not response.patchType")]
    PatchWithoutType,
    #[error("webhook returned response.patchType but not response.patch")]
    TypeWithoutPatch,
    #[error("webhook returned invalid response.patchType of {0:?}")]
    PatchType(String),
    #[error("validating webhook may not return response.patch")]
    ValidatingPatch,
    #[error("validating webhook may not return response.patchType")]
    ValidatingPatchType,
}

/// Reads a decoded answer.
///
/// # Errors
/// The answer is not one to this review.
pub(super) fn response(
    answer: &Value,
    version: &str,
    uid: &str,
    mutating: bool,
) -> Result<ReviewResponse, ReviewError> {
    let response = answer.get("response").filter(|response| response.is_object());
    let response = response.ok_or(ReviewError::NoResponse)?;
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let mut patch_type = text(response, "patchType");
    let patch = go_base64::decode(&text(response, "patch")).map_err(|_| ReviewError::PatchEncoding)?;
    if version == "v1" {
        let given = text(response, "uid");
        if given != uid {
            return Err(ReviewError::Uid { wanted: uid.to_owned(), given });
        }
        let api_version = text(answer, "apiVersion");
        let kind = text(answer, "kind");
        if api_version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
            let slash = if api_version.contains('/') { "" } else { "/" };
            return Err(ReviewError::Kind { given: format!("{slash}{api_version}"), kind });
        }
        let typed = response.get("patchType").is_some_and(|given| !given.is_null());
        match (mutating, patch.is_empty(), typed) {
            (true, false, false) => return Err(ReviewError::PatchWithoutType),
            (true, true, true) => return Err(ReviewError::TypeWithoutPatch),
            (true, _, true) if patch_type.is_empty() => return Err(ReviewError::PatchType(patch_type)),
            (false, false, _) => return Err(ReviewError::ValidatingPatch),
            (false, _, true) => return Err(ReviewError::ValidatingPatchType),
            _ => {}
        }
    } else {
        "JSONPatch".clone_into(&mut patch_type);
    }
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let audit = response["auditAnnotations"].as_object().into_iter().flatten();
    Ok(ReviewResponse {
        allowed: response["allowed"] == json!(true),
        status: response.get("status").cloned().unwrap_or(Value::Null),
        warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
        audit: audit.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned()))).collect(),
        patch: if mutating { patch } else { Vec::new() },
        patch_type,
    })
}

/// Returns the refusal of a webhook: its status with the webhook's name before the message.
pub(super) fn rejection(webhook: &str, given: &Value) -> Status {
    let mut given = given.clone();
    if let Some(fields) = given.as_object_mut() {
        // Any other text than Success is a failure, too.
        fields.remove("status");
        fields.retain(|_, value| !value.is_null());
    }
    let mut status: Status = serde_json::from_value(given.into()).unwrap_or_else(|_| Status::failure(0, "", ""));
    let denied = format!("admission webhook {webhook:?} denied the request");
    status.code = if status.code < 400 { 400 } else { status.code };
    status.status = crate::status::StatusKind::Failure;
    status.message = match (status.message.as_str(), status.reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::none(json!({}), "webhook response was absent")]
    #[case::other(json!({"response": {"uid": "x"}}), "expected response.uid=\"u\", got \"x\"")]
    #[case::untyped(
        json!({"response": {"uid": "u"}}),
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="
    )]
    #[case::no_type(
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", "patch": "W10="}}),
        "webhook returned response.patch but not response.patchType"
    )]
    fn answers_to_something_else_are_refused(#[case] answer: Value, #[case] why: &str) {
        assert_eq!(response(&answer, "v1", "u", true).unwrap_err().to_string(), why);
    }

    #[rstest]
    #[case(json!(null), 400, "admission webhook \"h\" denied the request without explanation")]
    #[case(json!({"code": 200, "status": "Success", "reason": "no"}), 400, "admission webhook \"h\" denied the request: no")]
    #[case(json!({"code": 422, "status": "Maybe", "message": "no"}), 422, "admission webhook \"h\" denied the request: no")]
    #[case(json!({"code": 418, "message": "tea"}), 418, "admission webhook \"h\" denied the request: tea")]
    fn rejections_are_failures(#[case] given: Value, #[case] code: u16, #[case] message: &str) {
        let status = rejection("h", &given);
        assert_eq!((status.code, status.message.as_str(), status.is_failure()), (code, message, true));
    }
}
