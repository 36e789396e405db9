//! Conversion webhooks. Follows `pkg/apiserver/conversion/webhook_converter.go` in
//! `staging/src/k8s.io/apiextensions-apiserver` of Kubernetes 1.36.

use super::text_fields::text;
use crate::json::{Value, json};
use crate::metadata;
use crate::outbound::{CallError, ClientConfig};
use crate::registry::custom::WebhookConversion;
use crate::registry::{ErrorList, Path, meta};
use crate::server::ApiServer;
use crate::status::Status;

/// Versions of conversion reviews that this server speaks.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// OpenAPI name of conversion reviews.
const TYPE: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ConversionReview";

/// Seconds that a webhook has for its answer.
const TIMEOUT_SECONDS: u64 = 30;

/// Metadata that a conversion may change.
const FREE_METADATA: [&str; 2] = ["labels", "annotations"];

/// Reasons why a webhook did not convert objects, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum ConversionError {
    #[error("no supported conversion review versions")]
    NoVersion,
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("no response provided")]
    NoResponse,
    #[error("expected response.uid={wanted:?}, got {given:?}")]
    Uid { wanted: String, given: String },
    #[error("expected webhook response of {wanted}, Kind=ConversionReview, got {given}, Kind={kind}")]
    Review { wanted: String, given: String, kind: String },
    #[error("response.result.status was '{0}', not 'Success'")]
    Result(String),
    /// The webhook's own message.
    #[error("{0}")]
    Refused(String),
    /// The converted object cannot be read.
    #[error("{0}")]
    Object(String),
    // Upstream asks for one object after the other, so that each of them is the first.
    #[error("returned invalid object at index 0: invalid groupVersion (expected {wanted}, received {given})")]
    Version { wanted: String, given: String },
    #[error("returned invalid object at index 0: invalid kind (expected {wanted}, received {given})")]
    Kind { wanted: String, given: String },
    #[error("returned invalid object: must have the same {what}: {wanted} != {given}")]
    Identity { what: &'static str, wanted: String, given: String },
    #[error("returned invalid metadata: {0}")]
    Metadata(String),
}

/// Converts the objects that are of another version, all of them in one call.
///
/// # Errors
/// The webhook cannot be called, or its answer does not fit.
pub(crate) async fn convert(
    server: &ApiServer,
    webhook: &WebhookConversion,
    mut objects: Vec<Value>,
    desired: &str,
) -> Result<Vec<Value>, Status> {
    let foreign = |object: &Value| text(object, "apiVersion") != desired;
    let sent: Vec<Value> = objects.iter().filter(|object| foreign(object)).cloned().collect();
    let Some(first) = sent.first() else { return Ok(objects) };
    let about = format!("{}, Kind={}", text(first, "apiVersion"), text(first, "kind"));
    let failed = |why: String| Status::untyped_error(format!("conversion webhook for {about} {why}"));
    let converted = ask(server, webhook, &sent, desired).await.map_err(|error| failed(format!("failed: {error}")))?;
    if converted.len() != sent.len() {
        return Err(failed(format!("returned {} objects, expected {}", converted.len(), sent.len())));
    }
    let mut converted = converted.into_iter();
    for object in objects.iter_mut().filter(|object| foreign(object)) {
        let Some(new) = converted.next() else { break };
        *object = checked(object, new, desired).map_err(|error| match error {
            ConversionError::Object(why) => Status::untyped_error(why),
            error => failed(error.to_string()),
        })?;
    }
    Ok(objects)
}

/// Sends the review; returns the converted objects.
async fn ask(
    server: &ApiServer,
    webhook: &WebhookConversion,
    objects: &[Value],
    desired: &str,
) -> Result<Vec<Value>, ConversionError> {
    let version = webhook.review_versions.iter().find(|version| VERSIONS.contains(&version.as_str()));
    let version = version.ok_or(ConversionError::NoVersion)?;
    let uid = server.ids().uid();
    let api_version = format!("apiextensions.k8s.io/{version}");
    let review = json!({
        "kind": "ConversionReview",
        "apiVersion": api_version,
        "request": {"uid": uid, "desiredAPIVersion": desired, "objects": objects},
    });
    let config = ClientConfig::of(&webhook.client_config);
    let answer =
        server.outbound().call(server, server.clock(), &config, (&review, TYPE), TIMEOUT_SECONDS.into()).await?;
    let kind = text(&answer, "kind");
    let given = text(&answer, "apiVersion");
    if version == "v1" && (kind != "ConversionReview" || given != api_version) {
        let slash = if given.contains('/') { "" } else { "/" };
        let given = format!("{slash}{given}");
        return Err(ConversionError::Review { wanted: api_version, given, kind: kind.to_owned() });
    }
    let response = answer.get("response").filter(|response| response.is_object()).ok_or(ConversionError::NoResponse)?;
    let given = text(response, "uid");
    if version == "v1" && given != uid {
        return Err(ConversionError::Uid { wanted: uid, given: given.to_owned() });
    }
    match (text(&response["result"], "status"), text(&response["result"], "message")) {
        ("Success", _) => Ok(response["convertedObjects"].as_array().cloned().unwrap_or_default()),
        (status, "") => Err(ConversionError::Result(status.to_owned())),
        (_, message) => Err(ConversionError::Refused(message.to_owned())),
    }
}

/// Checks a converted object and gives it the metadata of the original, except for labels and annotations.
fn checked(original: &Value, mut new: Value, desired: &str) -> Result<Value, ConversionError> {
    if new.is_null() {
        return Err(ConversionError::Object("unexpected end of JSON input".to_owned()));
    }
    if !new.is_object() {
        let why = format!("json: cannot unmarshal {} into Go value of type unstructured.detector", new.json_type());
        return Err(ConversionError::Object(why));
    }
    if text(&new, "kind").is_empty() {
        return Err(ConversionError::Object(format!("Object 'Kind' is missing in '{new}'")));
    }
    let version = text(&new, "apiVersion");
    if version != desired {
        return Err(ConversionError::Version { wanted: desired.to_owned(), given: version.to_owned() });
    }
    let wanted = text(original, "kind");
    let given = text(&new, "kind");
    if wanted != given {
        return Err(ConversionError::Kind { wanted: wanted.to_owned(), given: given.to_owned() });
    }
    let same = |what: &'static str, wanted: &str, given: &str| {
        let differs = || ConversionError::Identity { what, wanted: wanted.to_owned(), given: given.to_owned() };
        (wanted == given).then_some(()).ok_or_else(differs)
    };
    same("name", metadata::name(original), metadata::name(&new))?;
    same("namespace", metadata::namespace(original), metadata::namespace(&new))?;
    same("UID", metadata::uid(original), metadata::uid(&new))?;
    let given = match new.as_object_mut().and_then(|fields| fields.remove("metadata")) {
        Some(given @ Value::Object(_)) => given,
        None => return Err(ConversionError::Metadata("missing metadata in converted object".to_owned())),
        Some(other) => {
            let why = format!("invalid metadata of type {} in converted object", go_type(&other));
            return Err(ConversionError::Metadata(why));
        }
    };
    new["metadata"] = original["metadata"].clone();
    for field in FREE_METADATA {
        let old = original["metadata"].get(field);
        match given.get(field).filter(|value| !value.is_null()) {
            Some(value) => {
                check_texts(field, value, old).map_err(ConversionError::Metadata)?;
                metadata::fields_mut(&mut new).insert(field, value.clone());
            }
            None => {
                metadata::fields_mut(&mut new).remove(field);
            }
        }
    }
    Ok(new)
}

/// Checks labels or annotations: texts, which are valid if they are not the old ones.
fn check_texts(field: &str, given: &Value, old: Option<&Value>) -> Result<(), String> {
    let Value::Object(entries) = given else {
        return Err(format!("invalid metadata.{field} of type {} in converted object", go_type(given)));
    };
    for (key, value) in entries {
        if !value.is_string() {
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {} in converted object",
                go_type(value)
            ));
        }
    }
    if old == Some(given) {
        return Ok(());
    }
    let mut errors = ErrorList::new();
    let path = Path::new("metadata");
    if field == "labels" {
        meta::validate_labels(entries, &path.child("labels"), &mut errors);
    } else {
        meta::validate_annotations(entries, &path.child("annotation"), &mut errors);
    }
    errors.to_aggregate_message().map_or(Ok(()), Err)
}

/// Returns the type of a JSON value that Go decoded without a type.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) if value.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Messages of `Convert`, `validateConvertedObject` and `restoreObjectMeta` in `webhook_converter.go` for one
    /// object.
    #[rstest]
    #[case::version(json!({"apiVersion": "a/v1"}), "returned invalid object at index 0: invalid groupVersion (expected a/v2, received a/v1)")]
    #[case::kind(json!({"kind": "B"}), "returned invalid object at index 0: invalid kind (expected A, received B)")]
    #[case::no_kind(json!({"kind": null}), "Object 'Kind' is missing in '{\"apiVersion\":\"a/v2\",\"kind\":null,\"metadata\":{\"name\":\"n\"}}'")]
    #[case::name(json!({"metadata": {"name": "m"}}), "returned invalid object: must have the same name: n != m")]
    #[case::namespace(json!({"metadata": {"name": "n", "namespace": "x"}}), "returned invalid object: must have the same namespace:  != x")]
    #[case::labels(json!({"metadata": {"name": "n", "labels": "x"}}), "returned invalid metadata: invalid metadata.labels of type string in converted object")]
    #[case::label(json!({"metadata": {"name": "n", "labels": {"a": 1}}}), "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object")]
    #[case::key(json!({"metadata": {"name": "n", "annotations": {"a !": "1"}}}), "returned invalid metadata: metadata.annotation: Invalid value: \"a !\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')")]
    #[case::old_key(json!({"metadata": {"name": "n", "labels": {"old !": "1"}}}), "")]
    fn a_converted_object_that_does_not_fit(#[case] changed: Value, #[case] why: &str) {
        let original = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "n", "labels": {"old !": "1"}}});
        let mut new = json!({"apiVersion": "a/v2", "kind": "A", "metadata": {"name": "n"}});
        for (field, value) in changed.as_object().into_iter().flatten() {
            new[field.as_str()] = value.clone();
        }
        let refused = checked(&original, new, "a/v2").err().map(|error| error.to_string());
        assert_eq!(refused.unwrap_or_default(), why);
    }

    #[test]
    fn only_labels_and_annotations_are_converted() {
        let original = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "n", "generation": 1, "labels": {"a": "b"}}});
        let new = json!({"apiVersion": "a/v2", "kind": "A", "metadata": {"name": "n", "generation": 2, "labels": null, "annotations": {"c": "d"}}});
        let metadata = json!({"name": "n", "generation": 1, "annotations": {"c": "d"}});
        assert_eq!(checked(&original, new, "a/v2").unwrap()["metadata"], metadata);
    }
}
