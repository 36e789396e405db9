//! Admission by configuration: webhooks and policies of `admissionregistration.k8s.io`. Follows
//! `staging/src/k8s.io/apiserver/pkg/admission` of Kubernetes 1.36.
//!
//! - `host`: the server, as far as admission needs it
//! - `attributes`: what is admitted; `review`: its `AdmissionReview`
//! - `config`: the stored configurations, compiled; `matching`: which of them apply
//! - `conditions`: match conditions and the values that expressions see
//! - `webhooks`: calls of webhooks; `policies`: validating policies; `mutation`: mutating ones
//! - `mutated`: objects that webhooks and policies changed, decoded again
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
mod host;
mod matching;
mod mutated;
mod mutation;
mod policies;
mod reinvocation;
mod review;
#[cfg(test)]
mod tests;
mod webhooks;

use crate::status::Status;

pub(crate) use attributes::{AdmissionOperation, Attributes, Gvk, Gvr};
pub(crate) use config::AdmissionConfig;
pub(crate) use host::AdmissionHost;
use reinvocation::Reinvocation;
#[cfg(feature = "controllers")]
pub(crate) use {attributes::GROUP, config::type_errors};

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
