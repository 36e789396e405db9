//! `rbac.authorization.k8s.io/v1` `ClusterRole`. See `pkg/registry/rbac/clusterrole/strategy.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, non_null};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::Generic;
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::label_selector;
use crate::registry::rbac::common::{self, rules};

/// The resource `clusterroles` of `rbac.authorization.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", "io.k8s.api.rbac.v1.ClusterRole")
        .cluster()
        .hash("bYE5ZWDrJ44=")
        .rules(KindStrategy::new(Generic { namespaced: false, ..common::STRATEGY }, |_| {}).check_with(validate))
}

/// Validates a cluster role.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    rules(object, false, &mut errors);
    let Some(aggregation) = non_null(object, "aggregationRule") else { return errors };
    let root = Path::new("aggregationRule");
    let path = root.child("clusterRoleSelectors");
    let selectors = array_field(aggregation, "clusterRoleSelectors");
    if selectors.is_empty() {
        errors.required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, selector) in selectors.iter().enumerate() {
        let wrong = label_selector::validate(Some(selector), false, &path.index(index));
        if !wrong.is_empty() {
            errors.append(wrong);
            errors.invalid(&path.index(index), Value::Null, "invalid label selector.");
        }
    }
    errors
}
