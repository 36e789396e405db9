//! Conversion webhooks. Follows `pkg/apiserver/conversion/webhook_converter.go` in
//! `staging/src/k8s.io/apiextensions-apiserver` of Kubernetes 1.36.

use super::{WebhookConversion, text};
use crate::json::{Value, json};
use crate::metadata;
use crate::outbound::{CallError, ClientConfig};
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
    #[error("no supported conversion review versions found")]
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
    #[error("invalid groupVersion (expected {wanted}, received {given})")]
    Version { wanted: String, given: String },
    #[error("invalid kind (expected {wanted}, received {given})")]
    Kind { wanted: String, given: String },
    #[error("must have the same {what}: {wanted} != {given}")]
    Identity { what: &'static str, wanted: String, given: String },
    #[error("missing metadata in converted object")]
    NoMetadata,
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
    let mut converted = converted.into_iter().enumerate();
    for object in objects.iter_mut().filter(|object| foreign(object)) {
        let Some((index, new)) = converted.next() else { break };
        let invalid =
            |error: ConversionError| failed(format!("returned invalid converted object at index {index}: {error}"));
        *object = checked(object, new, desired).map_err(invalid)?;
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
    let answer = server.outbound().call(server, server.clock(), &config, (&review, TYPE), TIMEOUT_SECONDS).await?;
    let response = answer.get("response").filter(|response| response.is_object()).ok_or(ConversionError::NoResponse)?;
    if version == "v1" {
        let given = text(response, "uid");
        if given != uid {
            return Err(ConversionError::Uid { wanted: uid, given: given.to_owned() });
        }
        let kind = text(&answer, "kind");
        let given = text(&answer, "apiVersion");
        if kind != "ConversionReview" || given != api_version {
            let kind = kind.to_owned();
            let given = given.to_owned();
            return Err(ConversionError::Review { wanted: api_version, given, kind });
        }
    }
    match (text(&response["result"], "status"), text(&response["result"], "message")) {
        ("Success", _) => Ok(response["convertedObjects"].as_array().cloned().unwrap_or_default()),
        (status, "") => Err(ConversionError::Result(status.to_owned())),
        (_, message) => Err(ConversionError::Refused(message.to_owned())),
    }
}

/// Checks a converted object and gives it the metadata of the original, except for labels and annotations.
fn checked(original: &Value, mut new: Value, desired: &str) -> Result<Value, ConversionError> {
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
    if !new["metadata"].is_object() {
        return Err(ConversionError::NoMetadata);
    }
    let given = std::mem::replace(&mut new["metadata"], original["metadata"].clone());
    let fields = metadata::fields_mut(&mut new);
    for field in FREE_METADATA {
        match given.get(field) {
            Some(value) => fields.insert(field, value.clone()),
            None => fields.remove(field),
        };
    }
    Ok(new)
}
