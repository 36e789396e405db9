//! The kinds of `authorization.k8s.io`. See `pkg/registry/authorization`.

pub(in crate::registry) mod reviews;
