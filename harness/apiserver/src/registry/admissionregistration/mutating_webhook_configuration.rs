//! `admissionregistration.k8s.io/v1` `MutatingWebhookConfiguration`.
//! See `pkg/registry/admissionregistration/mutatingwebhookconfiguration/strategy.go`.

use crate::field_errors::ErrorList;
use crate::json::fields::{items_mut, value_default};
use crate::json::{Map, Value};
use crate::registry::admissionregistration::webhooks;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::kind_strategy::KindStrategy;

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
    .rules(KindStrategy::new(webhooks::STRATEGY, defaults).check_with(validate))
    .columns(webhooks::COLUMNS)
}

/// Defaults of `MutatingWebhookConfiguration`.
fn defaults(map: &mut Map) {
    webhooks::defaults(map);
    for webhook in items_mut(map, "webhooks") {
        value_default(webhook, "reinvocationPolicy", "Never");
    }
}

/// Validates a configuration of mutating webhooks.
fn validate(object: &Value) -> ErrorList {
    webhooks::validate(object, true)
}
