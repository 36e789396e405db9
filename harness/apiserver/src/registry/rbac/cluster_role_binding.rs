//! `rbac.authorization.k8s.io/v1` `ClusterRoleBinding`. See `pkg/registry/rbac/clusterrolebinding/strategy.go`.

use crate::field_errors::ErrorList;
use crate::json::Value;
use crate::printers::column::{AGE, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::Generic;
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::rbac::common::{self, GROUPS, SERVICE_ACCOUNTS, USERS, binding};

/// The resource `clusterrolebindings` of `rbac.authorization.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "rbac.authorization.k8s.io",
        "v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        "io.k8s.api.rbac.v1.ClusterRoleBinding",
    )
    .cluster()
    .hash("48tpQ8gZHFc=")
    .rules(
        KindStrategy::new(Generic { namespaced: false, ..common::STRATEGY }, common::default_binding)
            .check_with(validate)
            .check_update_with(common::role_stays),
    )
    .columns(COLUMNS)
}

/// Validates a cluster role binding.
fn validate(object: &Value) -> ErrorList {
    binding(object, false)
}

/// The columns of `clusterrolebindings`.
const COLUMNS: &[Column] = &[
    NAME,
    common::role_column("api.rbac.v1.ClusterRoleBinding"),
    AGE,
    Column::string("Users", Description::Text("Users in the clusterRoleBinding"), USERS).wide(),
    Column::string("Groups", Description::Text("Groups in the clusterRoleBinding"), GROUPS).wide(),
    Column::string("ServiceAccounts", Description::Text("ServiceAccounts in the clusterRoleBinding"), SERVICE_ACCOUNTS)
        .wide(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn a_cluster_role_binding_names_a_cluster_role() {
        let object = json!({"roleRef": {"apiGroup": "x", "kind": "Role", "name": "a"},
            "subjects": [{"kind": "Robot", "name": "r"}, {"kind": "ServiceAccount", "name": "s"}]});
        let described: Vec<String> = validate(&object).iter().map(ToString::to_string).collect();
        assert_eq!(
            described,
            [
                r#"roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io""#,
                r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#,
                r#"subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
                "subjects[1].namespace: Required value",
            ]
        );
    }
}
