//! `admissionregistration.k8s.io/v1` `MutatingAdmissionPolicyBinding`.
//! See `pkg/registry/admissionregistration/mutatingadmissionpolicybinding/strategy.go`.

use crate::field_errors::ErrorList;
use crate::json::Value;
use crate::registry::admissionregistration::{bindings, policies};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::kind_strategy::KindStrategy;

/// The resource `mutatingadmissionpolicybindings` of `admissionregistration.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
    )
    .cluster()
    .categories(&["api-extensions"])
    .hash("90V5FRZZ3Zg=")
    .rules(
        KindStrategy::new(policies::STRATEGY, bindings::defaults)
            .check_with(validate)
            .warn_with(policies::name_warnings),
    )
    .columns(bindings::COLUMNS)
}

/// Validates a `MutatingAdmissionPolicyBinding`.
fn validate(object: &Value) -> ErrorList {
    bindings::validate(object, false)
}
