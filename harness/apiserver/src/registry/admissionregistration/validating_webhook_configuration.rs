//! `admissionregistration.k8s.io/v1` `ValidatingWebhookConfiguration`.
//! See `pkg/registry/admissionregistration/validatingwebhookconfiguration/strategy.go`.

use crate::field_errors::ErrorList;
use crate::json::Value;
use crate::registry::admissionregistration::webhooks;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::kind_strategy::KindStrategy;

/// The resource `validatingwebhookconfigurations` of `admissionregistration.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
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
    .rules(KindStrategy::new(webhooks::STRATEGY, webhooks::defaults).check_with(validate))
    .columns(webhooks::COLUMNS)
}

/// Validates a webhook configuration.
fn validate(object: &Value) -> ErrorList {
    webhooks::validate(object, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn described(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    /// Answers of kube-apiserver 1.36.2.
    #[test]
    fn expressions_are_compiled() {
        let hook = json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://x/"}, "matchConditions": [{"name": "n", "expression": "object.x +"}]});
        let errors = described(&validate(&json!({"webhooks": [hook]})));
        assert_eq!(errors.len(), 1, "{errors:?}");
        let start =
            "webhooks[0].matchConditions[0].expression: Invalid value: \"object.x +\": compilation failed: ERROR: ";
        assert!(errors[0].starts_with(start), "{errors:?}");
    }
}
