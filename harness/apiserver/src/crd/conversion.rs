//! Conversion webhooks. Follows `pkg/apiserver/conversion/webhook_converter.go` in
//! `staging/src/k8s.io/apiextensions-apiserver` of Kubernetes 1.36.

use super::{WebhookConversion, text};
use crate::json::{Value, json};
use crate::metadata;
use crate::outbound::ClientConfig;
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
    let converted = ask(server, webhook, &sent, desired).await.map_err(|why| failed(format!("failed: {why}")))?;
    if converted.len() != sent.len() {
        return Err(failed(format!("returned {} objects, expected {}", converted.len(), sent.len())));
    }
    let mut converted = converted.into_iter().enumerate();
    for object in objects.iter_mut().filter(|object| foreign(object)) {
        let Some((index, new)) = converted.next() else { break };
        let invalid = |why: String| failed(format!("returned invalid converted object at index {index}: {why}"));
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
) -> Result<Vec<Value>, String> {
    let version = webhook.review_versions.iter().find(|version| VERSIONS.contains(&version.as_str()));
    let version = version.ok_or("no supported conversion review versions found")?;
    let uid = server.ids().uid();
    let api_version = format!("apiextensions.k8s.io/{version}");
    let review = json!({
        "kind": "ConversionReview",
        "apiVersion": api_version,
        "request": {"uid": uid, "desiredAPIVersion": desired, "objects": objects},
    });
    let config = ClientConfig::of(&webhook.client_config);
    let answer = server.outbound().call(server, server.clock(), &config, (&review, TYPE), TIMEOUT_SECONDS).await?;
    let response = answer.get("response").filter(|response| response.is_object()).ok_or("no response provided")?;
    if version == "v1" {
        let given = text(response, "uid");
        if given != uid {
            return Err(format!("expected response.uid={uid:?}, got {given:?}"));
        }
        let (kind, given) = (text(&answer, "kind"), text(&answer, "apiVersion"));
        if kind != "ConversionReview" || given != api_version {
            let wanted = format!("{api_version}, Kind=ConversionReview");
            return Err(format!("expected webhook response of {wanted}, got {given}, Kind={kind}"));
        }
    }
    match (text(&response["result"], "status"), text(&response["result"], "message")) {
        ("Success", _) => Ok(response["convertedObjects"].as_array().cloned().unwrap_or_default()),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

/// Checks a converted object and gives it the metadata of the original, except for labels and annotations.
fn checked(original: &Value, mut new: Value, desired: &str) -> Result<Value, String> {
    let version = text(&new, "apiVersion");
    if version != desired {
        return Err(format!("invalid groupVersion (expected {desired}, received {version})"));
    }
    let (wanted, given) = (text(original, "kind"), text(&new, "kind"));
    if wanted != given {
        return Err(format!("invalid kind (expected {wanted}, received {given})"));
    }
    let same = |what: &str, one: &str, other: &str| {
        if one == other { Ok(()) } else { Err(format!("must have the same {what}: {one} != {other}")) }
    };
    same("name", metadata::name(original), metadata::name(&new))?;
    same("namespace", metadata::namespace(original), metadata::namespace(&new))?;
    same("UID", metadata::uid(original), metadata::uid(&new))?;
    if !new["metadata"].is_object() {
        return Err("missing metadata in converted object".to_owned());
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
