//! `admissionregistration.k8s.io/v1` `ValidatingWebhookConfiguration`.
//! See `pkg/registry/admissionregistration/validatingwebhookconfiguration/strategy.go`.

use crate::registry::admissionregistration::webhooks::{self, WebhookConfigurations};
use crate::registry::builder::{ResourceBuilder, resource};

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
    .rules(WebhookConfigurations { mutating: false, beta: false })
    .columns(webhooks::COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_errors::ErrorList;
    use crate::json::json;
    use crate::registry::Strategy as _;

    fn described(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    /// Answers of kube-apiserver 1.36.2.
    #[test]
    fn expressions_are_compiled() {
        let rules = WebhookConfigurations { mutating: false, beta: false };
        let hook = json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://x/"}, "matchConditions": [{"name": "n", "expression": "object.x +"}]});
        let errors = described(&rules.validate(&json!({"metadata": {"name": "c"}, "webhooks": [hook]})));
        assert_eq!(errors.len(), 1, "{errors:?}");
        let start =
            "webhooks[0].matchConditions[0].expression: Invalid value: \"object.x +\": compilation failed: ERROR: ";
        assert!(errors[0].starts_with(start), "{errors:?}");
    }
}
