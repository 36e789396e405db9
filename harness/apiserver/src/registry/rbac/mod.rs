//! The kinds of `rbac.authorization.k8s.io`. See `pkg/registry/rbac`.

pub(in crate::registry) mod cluster_role;
pub(in crate::registry) mod cluster_role_binding;
pub(in crate::registry) mod common;
pub(in crate::registry) mod role;
pub(in crate::registry) mod role_binding;
