//! The kinds of `coordination.k8s.io`. See `pkg/registry/coordination`.

pub(in crate::registry) mod lease;
