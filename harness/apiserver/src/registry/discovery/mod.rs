//! The kinds of `discovery.k8s.io`. See `pkg/registry/discovery`.

pub(in crate::registry) mod endpoint_slice;
