//! The resources of `admissionregistration.k8s.io`, in discovery's order. See
//! `pkg/registry/admissionregistration/rest/storage_apiserver.go`.

use super::builder::{ResourceBuilder, resource};
use super::defaults::Defaults;
use super::generic::{Generation, Generic};
use super::{admission_defaults, admission_rules};

const GROUP: &str = "admissionregistration.k8s.io";

/// The rules of policies and their bindings.
const POLICY: Generic =
    Generic { generation: Generation::Spec, unconditional: false, namespaced: false, ..Generic::NEW };
/// The rules of policies with a status.
const POLICY_WITH_STATUS: Generic = Generic { status: true, ..POLICY };
/// The rules of webhook configurations.
const WEBHOOKS: Generic = Generic { generation: Generation::AllButStatus, ..POLICY };

/// Returns the webhook configurations, admission policies and bindings.
pub(super) fn resources() -> Vec<ResourceBuilder> {
    use admission_defaults::{admission_policy, admission_policy_binding, mutating_webhooks, validating_webhooks};
    vec![
        configuration(
            ["mutatingadmissionpolicies", "MutatingAdmissionPolicy", "LYmCf+UMVdg="],
            Defaults::new(POLICY, admission_policy).check_with(admission_rules::mutating_policy),
        ),
        configuration(
            ["mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", "90V5FRZZ3Zg="],
            Defaults::new(POLICY, admission_policy_binding).check_with(admission_rules::mutating_binding),
        ),
        configuration(
            ["mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "Sqi0GUgDaX0="],
            Defaults::new(WEBHOOKS, mutating_webhooks).check_with(admission_rules::mutating_webhooks),
        ),
        configuration(
            ["validatingadmissionpolicies", "ValidatingAdmissionPolicy", "6OxvlMmQ6is="],
            Defaults::new(POLICY_WITH_STATUS, admission_policy).check_with(admission_rules::validating_policy),
        )
        .status_without_metadata(),
        configuration(
            ["validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "v9715VZqakg="],
            Defaults::new(POLICY, admission_policy_binding).check_with(admission_rules::validating_binding),
        ),
        configuration(
            ["validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "B0wHjQmsGNk="],
            Defaults::new(WEBHOOKS, validating_webhooks).check_with(admission_rules::validating_webhooks),
        ),
    ]
}

/// Returns a resource of the group from its name, its kind and the hash of its storage version.
fn configuration([name, kind, hash]: [&'static str; 3], rules: Defaults) -> ResourceBuilder {
    let mut resource = resource(GROUP, "v1", name, kind, "");
    resource.0.schema = format!("io.k8s.api.admissionregistration.v1.{kind}").into();
    resource.cluster().categories(&["api-extensions"]).hash(hash).rules(rules)
}
