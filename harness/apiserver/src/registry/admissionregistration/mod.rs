//! The kinds of `admissionregistration.k8s.io`. See `pkg/registry/admissionregistration`.

pub(in crate::registry) mod bindings;
pub(in crate::registry) mod matching;
pub(in crate::registry) mod mutating_admission_policy;
pub(in crate::registry) mod mutating_admission_policy_binding;
pub(in crate::registry) mod mutating_webhook_configuration;
pub(in crate::registry) mod policies;
pub(in crate::registry) mod validating_admission_policy;
pub(in crate::registry) mod validating_admission_policy_binding;
pub(in crate::registry) mod validating_webhook_configuration;
pub(crate) mod webhooks;
