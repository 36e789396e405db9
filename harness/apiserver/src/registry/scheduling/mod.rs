//! The kinds of `scheduling.k8s.io`. See `pkg/registry/scheduling`.

pub(in crate::registry) mod priority_class;
