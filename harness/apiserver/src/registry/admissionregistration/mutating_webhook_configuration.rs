//! `admissionregistration.k8s.io/v1` `MutatingWebhookConfiguration`.
//! See `pkg/registry/admissionregistration/mutatingwebhookconfiguration/strategy.go`.

use crate::registry::admissionregistration::webhooks::{self, WebhookConfigurations};
use crate::registry::builder::{ResourceBuilder, resource};

/// The resource `mutatingwebhookconfigurations` of `admissionregistration.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
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
    .rules(WebhookConfigurations { mutating: true, beta: false })
    .columns(webhooks::COLUMNS)
}
