//! The kinds of `apiextensions.k8s.io`. See `staging/src/k8s.io/apiextensions-apiserver/pkg/registry`.

pub(in crate::registry) mod custom_resource_definition;
