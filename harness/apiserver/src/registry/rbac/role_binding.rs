//! `rbac.authorization.k8s.io/v1` `RoleBinding`. See `pkg/registry/rbac/rolebinding/strategy.go`.

use crate::field_errors::ErrorList;
use crate::json::Value;
use crate::printers::column::{AGE, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::rbac::common::{self, GROUPS, SERVICE_ACCOUNTS, USERS, binding};

/// The resource `rolebindings` of `rbac.authorization.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", "io.k8s.api.rbac.v1.RoleBinding")
        .hash("eGsCzGH6b1g=")
        .rules(
            KindStrategy::new(common::STRATEGY, common::default_binding)
                .check_with(validate)
                .check_update_with(common::role_stays),
        )
        .columns(COLUMNS)
}

/// Validates a role binding.
fn validate(object: &Value) -> ErrorList {
    binding(object, true)
}

/// The columns of `rolebindings`.
const COLUMNS: &[Column] = &[
    NAME,
    common::role_column("api.rbac.v1.RoleBinding"),
    AGE,
    Column::string("Users", Description::Text("Users in the roleBinding"), USERS).wide(),
    Column::string("Groups", Description::Text("Groups in the roleBinding"), GROUPS).wide(),
    Column::string("ServiceAccounts", Description::Text("ServiceAccounts in the roleBinding"), SERVICE_ACCOUNTS).wide(),
];
