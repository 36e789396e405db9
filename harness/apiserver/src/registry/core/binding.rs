//! Core `v1` Binding, which is not stored. See `pkg/registry/core/pod/storage/storage.go`.

use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::served_resource::CREATE_ONLY_VERBS;

/// The resource `bindings`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "bindings", "Binding", "io.k8s.api.core.v1.Binding").verbs(CREATE_ONLY_VERBS)
}
