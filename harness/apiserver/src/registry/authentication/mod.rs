//! The kinds of `authentication.k8s.io`. See `pkg/registry/authentication`.

pub(in crate::registry) mod reviews;
