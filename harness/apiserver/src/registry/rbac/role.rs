//! `rbac.authorization.k8s.io/v1` Role. See `pkg/registry/rbac/role/strategy.go`.

use crate::field_errors::ErrorList;
use crate::json::Value;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::rbac::common::{self, rules};

/// The resource `roles` of `rbac.authorization.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("rbac.authorization.k8s.io", "v1", "roles", "Role", "io.k8s.api.rbac.v1.Role")
        .hash("7FuwZcIIItM=")
        .rules(KindStrategy::new(common::STRATEGY, |_| {}).check_with(validate))
}

/// Validates a role.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    rules(object, true, &mut errors);
    errors
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    /// Answers of kube-apiserver 1.36.2.
    #[rstest]
    #[case::both(
        json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["/x"]}]}),
        &[r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs"#,
            r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs"#]
    )]
    #[case::nothing(
        json!({"rules": [{}]}),
        &["rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource"]
    )]
    #[case::fine(json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}), &[])]
    fn roles(#[case] object: Value, #[case] expected: &[&str]) {
        let described: Vec<String> = validate(&object).iter().map(ToString::to_string).collect();
        assert_eq!(described, expected);
    }
}
