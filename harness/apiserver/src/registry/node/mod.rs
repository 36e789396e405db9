//! The kinds of `node.k8s.io`. See `pkg/registry/node`.

pub(in crate::registry) mod runtime_class;
