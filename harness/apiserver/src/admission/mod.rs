//! Admission by configuration: webhooks and policies of `admissionregistration.k8s.io`. Follows
//! `staging/src/k8s.io/apiserver/pkg/admission` of Kubernetes 1.36.
//!
//! - `attributes`: what is admitted; `review`: its `AdmissionReview`
//! - `config`: the stored configurations, compiled; `matching`: which of them apply
//! - `conditions`: match conditions and the values that expressions see
//! - `webhooks`: calls of webhooks; `policies`: validating policies; `mutation`: mutating ones
//! - `reinvocation`: which mutations are made again after a later change
//!
//! A request passes [`mutate`] before the strategy prepares it and [`validate`] after its validation. Without stored
//! configurations neither is called.

#[cfg(test)]
mod answer_tests;
mod attributes;
mod conditions;
mod config;
#[cfg(test)]
mod fuzz;
mod matching;
mod mutation;
mod policies;
mod reinvocation;
mod review;
#[cfg(test)]
mod tests;
mod webhooks;

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::clock::Clock;
use crate::expressions::AccessReviewer;
use crate::json::Value;
use crate::outbound::Outbound;
use crate::registry::{ObjectLister, Registry, Resource};
use crate::schema::{self, Schema};
use crate::status::Status;

pub(crate) use attributes::{AdmissionOperation, Attributes, Gvk, Gvr};
pub(crate) use config::AdmissionConfig;
use matching::Invocation;
use reinvocation::Reinvocation;
#[cfg(feature = "controllers")]
pub(crate) use {attributes::GROUP, config::type_errors};

/// The server, as far as admission needs it.
pub(crate) trait AdmissionHost: Sync {
    /// Returns read access to the stored objects.
    fn lister(&self) -> &dyn ObjectLister;
    /// Returns the served resources.
    fn registry(&self) -> Arc<Registry>;
    /// Returns the client of webhooks.
    fn outbound(&self) -> &Outbound;
    /// Returns the server's clock.
    fn clock(&self) -> &Clock;
    /// Returns the function that answers access reviews.
    fn reviewer(&self) -> AccessReviewer;
    /// Returns the seconds that the request has left, rounded up; `None` for requests without a limit.
    fn seconds_left(&self) -> Option<u64>;
    /// Returns a new UID.
    fn uid(&self) -> String;
    /// Adds a warning to the reply.
    fn warn(&self, text: String);
    /// Adds an annotation to the request's audit event.
    fn annotate(&self, key: String, value: String);
    /// Returns the schema of the objects that are admitted.
    fn schema(&self) -> Arc<Schema>;
    /// Returns the reason why an object is not of the kind that is admitted, in the version of the request or another.
    fn kind_error(&self, kind: Option<&Resource>, object: &Value) -> Option<String>;
    /// Returns the kind that is admitted; `None` for a body of another kind, such as an eviction.
    fn own_kind<'k>(&'k self, kind: Option<&'k Resource>) -> Option<&'k Resource>;
    /// Fills in the defaults of the object that is admitted, or of one of its other versions.
    fn default(&self, kind: Option<&Resource>, object: &mut Value);
    /// Converts an object from a version of its resource to another one.
    fn convert<'c>(
        &'c self,
        own: &'c Resource,
        other: &'c Resource,
        object: Value,
    ) -> BoxFuture<'c, Result<Value, Status>>;
    /// Runs the mutating admission plugins again, after a webhook or a policy changed the object.
    fn admit_again(&self, object: &mut Value) -> Result<(), Status>;
}

/// Runs mutating policies and webhooks. Those that ask for it see the changes of later ones in a second round.
pub(crate) async fn mutate(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &mut Attributes,
) -> Result<(), Status> {
    if attributes.is_exempt() {
        return Ok(());
    }
    let mut policies = Reinvocation::default();
    let mut webhooks = Reinvocation::default();
    let seen = attributes.is_seen_by_policies();
    if seen {
        mutation::run(host, config, attributes, &mut policies).await?;
    }
    webhooks::mutate(host, config, attributes, &mut webhooks).await?;
    if !policies.is_wanted() && !webhooks.is_wanted() {
        return Ok(());
    }
    if let Some(object) = &mut attributes.object {
        host.admit_again(object)?;
    }
    if seen {
        mutation::run_again(host, config, attributes, &mut policies).await?;
    }
    webhooks::mutate_again(host, config, attributes, &mut webhooks).await
}

/// Runs validating policies and webhooks.
pub(crate) async fn validate(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &Attributes,
) -> Result<(), Status> {
    if attributes.is_exempt() {
        return Ok(());
    }
    if attributes.is_seen_by_policies() {
        policies::validate(host, config, attributes).await?;
    }
    webhooks::validate(host, config, attributes).await
}

/// Reasons why what a mutation made is not an object of the kind, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum MutatedError {
    /// It cannot be decoded.
    #[error("{0}")]
    Decode(String),
    /// It is an object of another kind.
    #[error("{0}")]
    Foreign(String),
}

/// Returns the object that a mutation made, decoded and with its defaults, in the version of the invocation, and the
/// complaints of strict decoding.
///
/// # Errors
/// The object is not one of its kind any more.
fn mutated(
    host: &dyn AdmissionHost,
    invocation: &Invocation,
    changed: &Value,
) -> Result<(Value, Vec<String>), MutatedError> {
    let other = invocation.other().map(|other| &**other);
    let (mut object, strict) = match other {
        // Custom resources are pruned in the version of the request.
        Some(other) if other.is_unstructured() => (changed.clone(), Vec::new()),
        _ => {
            let decoded = schema_of(host, invocation).convert(changed);
            let decoded = decoded.map_err(|error| MutatedError::Decode(error.to_string()))?;
            (decoded.value, decoded.strict)
        }
    };
    if let Some(why) = host.kind_error(other, &object) {
        let is_known = why.ends_with("unknown conversion");
        return Err(if is_known { MutatedError::Foreign(why) } else { MutatedError::Decode(why) });
    }
    if let Some(kind) = host.own_kind(other)
        && object.get("kind").is_none_or(|given| *given == "")
    {
        object["kind"] = kind.kind.as_ref().into();
        object["apiVersion"] = kind.api_version().into();
    }
    host.default(other, &mut object);
    Ok((object, strict))
}

/// Returns the schema of the objects of an invocation.
fn schema_of(host: &dyn AdmissionHost, invocation: &Invocation) -> Arc<Schema> {
    let Some(other) = invocation.other() else { return host.schema() };
    match &other.custom {
        Some(custom) => custom.types.clone(),
        None => schema::builtin(&other.schema).unwrap_or_else(|| host.schema()),
    }
}
