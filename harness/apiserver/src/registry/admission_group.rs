//! The resources of `admissionregistration.k8s.io`, in discovery's order. See
//! `pkg/registry/admissionregistration/rest/storage_apiserver.go`.

use super::builder::{ResourceBuilder, resource};
use super::defaults::Defaults;
use super::generic::{Generation, Generic};
use super::{admission_defaults, admission_rules};

/// Returns the webhook configurations, admission policies and bindings.
pub(super) fn resources() -> Vec<ResourceBuilder> {
    vec![
        resource(
            "admissionregistration.k8s.io",
            "v1",
            "mutatingadmissionpolicies",
            "MutatingAdmissionPolicy",
            "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
        )
        .cluster()
        .categories(&["api-extensions"])
        .hash("LYmCf+UMVdg=")
        .rules(
            Defaults::new(
                Generic { generation: Generation::Spec, unconditional: false, namespaced: false, ..Generic::NEW },
                admission_defaults::admission_policy,
            )
            .check_with(admission_rules::mutating_policy),
        ),
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
            Defaults::new(
                Generic { generation: Generation::Spec, unconditional: false, namespaced: false, ..Generic::NEW },
                admission_defaults::admission_policy_binding,
            )
            .check_with(admission_rules::mutating_binding),
        ),
        resource(
            "admissionregistration.k8s.io",
            "v1",
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
        )
        .cluster()
        .categories(&["api-extensions"])
        .hash("Sqi0GUgDaX0=")
        .rules(
            Defaults::new(
                Generic {
                    generation: Generation::AllButStatus,
                    unconditional: false,
                    namespaced: false,
                    ..Generic::NEW
                },
                admission_defaults::mutating_webhooks,
            )
            .check_with(admission_rules::mutating_webhooks),
        ),
        resource(
            "admissionregistration.k8s.io",
            "v1",
            "validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
        )
        .cluster()
        .categories(&["api-extensions"])
        .status()
        .hash("6OxvlMmQ6is=")
        .rules(
            Defaults::new(
                Generic {
                    generation: Generation::Spec,
                    status: true,
                    unconditional: false,
                    namespaced: false,
                    ..Generic::NEW
                },
                admission_defaults::admission_policy,
            )
            .check_with(admission_rules::validating_policy),
        ),
        resource(
            "admissionregistration.k8s.io",
            "v1",
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        )
        .cluster()
        .categories(&["api-extensions"])
        .hash("v9715VZqakg=")
        .rules(
            Defaults::new(
                Generic { generation: Generation::Spec, unconditional: false, namespaced: false, ..Generic::NEW },
                admission_defaults::admission_policy_binding,
            )
            .check_with(admission_rules::validating_binding),
        ),
        resource(
            "admissionregistration.k8s.io",
            "v1",
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
        )
        .cluster()
        .categories(&["api-extensions"])
        .hash("B0wHjQmsGNk=")
        .rules(
            Defaults::new(
                Generic {
                    generation: Generation::AllButStatus,
                    unconditional: false,
                    namespaced: false,
                    ..Generic::NEW
                },
                admission_defaults::validating_webhooks,
            )
            .check_with(admission_rules::validating_webhooks),
        ),
    ]
}
