//! `admissionregistration.k8s.io/v1` `ValidatingAdmissionPolicyBinding`.
//! See `pkg/registry/admissionregistration/validatingadmissionpolicybinding/strategy.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, spec_of};
use crate::registry::admissionregistration::{bindings, policies};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks;
use crate::registry::kind_strategy::KindStrategy;

const SPEC: Path<'static> = Path::new("spec");

/// The resource `validatingadmissionpolicybindings` of `admissionregistration.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
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
        KindStrategy::new(policies::STRATEGY, bindings::defaults)
            .check_with(validate)
            .warn_with(policies::name_warnings),
    )
    .columns(bindings::COLUMNS)
}

/// Validates a `ValidatingAdmissionPolicyBinding`.
pub(super) fn validate(object: &Value) -> ErrorList {
    const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
    let mut errors = bindings::validate(object, true);
    let spec = spec_of(object);
    let path = SPEC.child("validationActions");
    let actions = array_field(spec, "validationActions");
    if actions.is_empty() {
        errors.required(&path, "at least one validation action is required");
    }
    let repeated = checks::repeated(actions, Value::as_str);
    for (index, action) in actions.iter().enumerate() {
        let text = action.as_str().unwrap_or_default();
        if !ACTIONS.contains(&text) {
            errors.not_supported(&path.index(index), text, &ACTIONS);
        }
        if repeated[index] {
            errors.duplicate(&path.index(index), text);
        }
    }
    if ["Deny", "Warn"].iter().all(|wanted| actions.iter().any(|action| action == wanted)) {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(&path, &spec["validationActions"], why);
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn described(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_binding_has_a_name_or_a_selector() {
        let binding = json!({"spec": {"policyName": "p", "validationActions": ["Deny", "Warn"],
            "paramRef": {"parameterNotFoundAction": "Deny"}}});
        assert_eq!(
            described(&validate(&binding)),
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
            ]
        );
    }
}
