//! Names of resources that are counted or measured: of containers, nodes, limits and quotas. See
//! `pkg/apis/core/helper/helpers.go`. PURE.

use crate::field_errors::{ErrorList, Path};
use crate::registry::names;

/// Returns true for huge pages of any size.
pub(super) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Returns true for resources of Kubernetes itself: `IsNativeResource`.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_quota_huge_pages(name: &str) -> bool {
    is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

/// Returns true for resources that may be overcommitted.
pub(super) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Resources that containers use, and that quotas measure: alone, requested and limited.
pub(super) const COMPUTE_RESOURCES: [&str; 9] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// Resources that quotas count.
pub(super) const COUNTED_RESOURCES: [&str; 9] = [
    "pods",
    "services",
    "services.nodeports",
    "services.loadbalancers",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
];

fn is_standard(name: &str) -> bool {
    COMPUTE_RESOURCES.contains(&name)
        || COUNTED_RESOURCES.contains(&name)
        || matches!(name, "storage" | "requests.storage")
}

/// Validates the name of any resource; returns false if it is malformed or unknown.
pub(super) fn any_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let messages = names::qualified_name(name);
    let malformed = !messages.is_empty();
    for message in messages {
        errors.invalid(path, name, message);
    }
    let known = name.contains('/') || is_standard(name) || is_quota_huge_pages(name);
    if !malformed && !known {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
    !malformed && known
}

/// Validates the name of a resource of a pod as a whole: `validatePodResourceName`.
pub(super) fn pod_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if any_name(name, path, errors) && !matches!(name, "cpu" | "memory") && !is_huge_pages(name) {
        errors.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Validates the name of a resource of containers: `validateContainerResourceName`.
pub(super) fn container_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let messages = names::qualified_name(name);
    let malformed = !messages.is_empty();
    for message in messages {
        errors.invalid(path, name, message);
    }
    if name.contains('/') {
        let native = name.contains("kubernetes.io/");
        if !native && !is_extended_resource(name) {
            errors.invalid(path, name, "doesn't follow extended resource name standard");
        }
        return;
    }
    if !malformed && !is_standard(name) && !is_quota_huge_pages(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
    if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_pages(name) {
        errors.invalid(path, name, "must be a standard resource for containers");
    }
}

/// Returns true for resources with integer amounts.
pub(super) fn is_integer_resource(name: &str) -> bool {
    let counted = [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    counted.contains(&name) || is_extended_resource(name)
}

/// Returns true for extended resources: qualified names outside of Kubernetes' own domains.
pub(crate) fn is_extended_resource(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `IsOvercommitAllowed`: also a name that is no resource's is not Kubernetes' own.
    #[test]
    fn only_native_resources_may_be_overcommitted() {
        let names = ["cpu", "kubernetes.io/x", "hugepages-2Mi", "example.com/gpu", "a/b/c"];
        assert_eq!(names.map(may_overcommit), [true, true, false, false, false]);
    }
}
