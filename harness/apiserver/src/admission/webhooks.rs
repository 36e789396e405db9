//! Calls of webhooks: mutating ones one after the other, validating ones at the same time. Follows
//! `plugin/webhook/{mutating,validating}/dispatcher.go` in `staging/src/k8s.io/apiserver/pkg/admission`.

use futures::future::join_all;

use super::attributes::Attributes;
use super::config::{AdmissionConfig, Webhook, WebhookId};
use super::host::AdmissionHost;
use super::matching::{self, Criteria, Invocation};
use super::mutated::{MutatedError, mutated};
use super::reinvocation::Reinvocation;
use super::{conditions, review};
use crate::expressions::admission::Activation;
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::outbound::{CallTime, ClientConfig};
use crate::patch;
use crate::schema::decode_patch_operations;
use crate::status::{GroupResource, Status};

/// The reason why a webhook did not allow a request.
enum WebhookError {
    /// The webhook could not be called, or gave no valid answer: the failure policy decides.
    Failed(String),
    /// The webhook refused the request, or the server cannot use its answer.
    Refused(Status),
}

fn criteria(spec: &Value) -> Criteria<'_> {
    Criteria {
        rules: array_field(spec, "rules"),
        excluded: &[],
        namespace_selector: spec.get("namespaceSelector"),
        object_selector: spec.get("objectSelector"),
        equivalent: spec["matchPolicy"] == "Equivalent",
        open: false,
    }
}

/// Returns how a webhook matches a request, with the objects in the version that it gets; `None` if it is not called.
async fn invocation(
    host: &dyn AdmissionHost,
    hook: &Webhook,
    attributes: &Attributes,
    converted: &mut Vec<Invocation>,
) -> Result<Option<Invocation>, Status> {
    let Some(matched) = matching::matches(host, criteria(&hook.spec), attributes)? else { return Ok(None) };
    let known = converted.iter().find(|known| known.resource == matched.resource).cloned();
    let invocation = match known {
        Some(known) => known,
        None => matched.convert(host).await.map_err(|status| Status::internal(status.message))?,
    };
    converted.push(invocation.clone());
    if hook.conditions.is_empty() {
        return Ok(Some(invocation));
    }
    let values = conditions::RequestValues::of(host, attributes, &invocation, false).with(None, true);
    let holds = conditions::hold(&hook.conditions, &mut Activation::new(values, &[]), hook.ignores_failures);
    match holds {
        Ok(true) => Ok(Some(invocation)),
        Ok(false) => Ok(None),
        Err(error) => {
            let resource = GroupResource::new(&attributes.resource.group, &attributes.resource.resource);
            Err(Status::forbidden(resource, &attributes.name, &error.to_string()))
        }
    }
}

/// Calls the mutating webhooks.
pub(super) async fn mutate(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &mut Attributes,
    again: &mut Reinvocation<WebhookId>,
) -> Result<(), Status> {
    for (index, hook) in config.mutating_webhooks.iter().enumerate() {
        if let Some(invocation) = invocation(host, hook, attributes, &mut Vec::new()).await? {
            call_mutating(host, hook, &mutation_key(0, index), attributes, (invocation, again)).await?;
        }
    }
    again.end_round(attributes.object.as_ref());
    Ok(())
}

/// Calls the webhooks again that ask for it and were called before a later change.
pub(super) async fn mutate_again(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &mut Attributes,
    again: &mut Reinvocation<WebhookId>,
) -> Result<(), Status> {
    again.begin_again(attributes.object.as_ref());
    for (index, hook) in config.mutating_webhooks.iter().enumerate() {
        // As upstream, a condition that fails counts also for webhooks that are not called again.
        let Some(invocation) = invocation(host, hook, attributes, &mut Vec::new()).await? else { continue };
        if again.is_due(&hook.id) {
            call_mutating(host, hook, &mutation_key(1, index), attributes, (invocation, again)).await?;
        }
    }
    Ok(())
}

/// Returns the key of the annotation about a call of a mutating webhook.
fn mutation_key(round: u8, index: usize) -> String {
    format!("mutation.webhook.admission.k8s.io/round_{round}_index_{index}")
}

async fn call_mutating(
    host: &dyn AdmissionHost,
    hook: &Webhook,
    key: &str,
    attributes: &mut Attributes,
    (invocation, again): (Invocation, &mut Reinvocation<WebhookId>),
) -> Result<(), Status> {
    let patched = match call(host, hook, attributes, &invocation, true).await {
        Ok(answer) => patched(host, hook, &invocation, &answer),
        Err(error) => Err(error),
    };
    let mutated = matches!(&patched, Ok(Some(object)) if invocation.object.as_ref() != Some(object));
    let call = json!({"configuration": hook.id.0, "webhook": hook.name, "mutated": mutated});
    host.annotate(key.to_owned(), call.to_string());
    if let Some(Some(object)) = settle(host, hook, key, patched)? {
        attributes.object = Some(invocation.restore(host, object).await?);
        if mutated {
            again.mark_changed();
        }
    }
    if hook.is_reinvoked {
        again.record(hook.id.clone());
    }
    Ok(())
}

/// Applies the failure policy; `None` for a failure that is ignored, about which the audit event has an annotation.
fn settle<T>(
    host: &dyn AdmissionHost,
    hook: &Webhook,
    key: &str,
    result: Result<T, WebhookError>,
) -> Result<Option<T>, Status> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(WebhookError::Refused(status)) => Err(status),
        Err(WebhookError::Failed(why)) => {
            let why = format!("failed calling webhook {:?}: {why}", hook.name);
            if hook.ignores_failures {
                tracing::warn!(why, "admission goes on without a webhook");
                host.annotate(format!("failed-open.{key}"), hook.name.clone());
                return Ok(None);
            }
            Err(Status::internal(why))
        }
    }
}

/// Returns the object that a webhook's patch makes; `None` if it changes nothing.
fn patched(
    host: &dyn AdmissionHost,
    hook: &Webhook,
    invocation: &Invocation,
    answer: &review::ReviewResponse,
) -> Result<Option<Value>, WebhookError> {
    if answer.patch.is_empty() {
        return Ok(None);
    }
    let operations = decode_patch_operations(&answer.patch)
        .map_err(|error| WebhookError::Failed(format!("received undecodable patch in webhook response: {error}")))?;
    if operations.is_empty() {
        return Ok(None);
    }
    let Some(object) = &invocation.object else {
        let name = &hook.name;
        return Err(WebhookError::Refused(Status::internal(format!(
            "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
        ))));
    };
    if answer.patch_type != "JSONPatch" {
        return Err(WebhookError::Failed(format!("unsupported patch type {:?}", answer.patch_type)));
    }
    let refused = |status: Status| WebhookError::Refused(status);
    let changed = patch::json::apply(object.clone(), operations).map_err(|error| refused(Status::internal(error)))?;
    match mutated(host, invocation, &changed) {
        Ok((object, _)) => Ok(Some(object)),
        Err(MutatedError::Decode(why)) => Err(refused(Status::internal(why))),
        // Found when the object is converted back after all webhooks, whose error upstream passes on as it is.
        Err(MutatedError::Foreign(why)) => Err(refused(Status::untyped_error(why))),
    }
}

/// Calls the validating webhooks that match.
pub(super) async fn validate(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &Attributes,
) -> Result<(), Status> {
    let mut called = Vec::new();
    let mut converted = Vec::new();
    for hook in &config.validating_webhooks {
        if let Some(invocation) = invocation(host, hook, attributes, &mut converted).await? {
            called.push((hook, invocation));
        }
    }
    let calls = called.iter().map(|(hook, invocation)| call(host, hook, attributes, invocation, false));
    let answers = join_all(calls).await;
    for (index, ((hook, _), answer)) in called.iter().zip(answers).enumerate() {
        settle(host, hook, &format!("validating.webhook.admission.k8s.io/round_0_index_{index}"), answer)?;
    }
    Ok(())
}

/// Calls one webhook and returns its answer, if it allows the request.
async fn call(
    host: &dyn AdmissionHost,
    hook: &Webhook,
    attributes: &Attributes,
    invocation: &Invocation,
    mutating: bool,
) -> Result<review::ReviewResponse, WebhookError> {
    if attributes.dry_run && !hook.allows_dry_run {
        let why = format!("admission webhook {:?} does not support dry run", hook.name);
        return Err(WebhookError::Refused(Status::bad_request(why)));
    }
    let version = review::version(&hook.versions).ok_or_else(|| {
        let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        WebhookError::Failed(format!("could not create admission objects: {why}"))
    })?;
    let uid = host.uid();
    let body = review::review(attributes, invocation, version, &uid);
    let config = ClientConfig::of(&hook.spec["clientConfig"]);
    let seconds = hook.timeout_seconds;
    let time = CallTime { seconds, shown: host.seconds_left().map_or(seconds, |left| left.min(seconds)) };
    let called = host.outbound().call(host.lister(), host.clock(), &config, (&body, review::TYPE), time).await;
    let answer = called.map_err(|why| WebhookError::Failed(format!("failed to call webhook: {why}")))?;
    let answer = review::response(&answer, version, &uid, mutating)
        .map_err(|why| WebhookError::Failed(format!("received invalid webhook response: {why}")))?;
    for (key, value) in &answer.audit {
        host.annotate(format!("{}/{key}", hook.name), value.clone());
    }
    for warning in &answer.warnings {
        host.warn(warning.clone());
    }
    if answer.allowed { Ok(answer) } else { Err(WebhookError::Refused(review::rejection(&hook.name, &answer.status))) }
}
