//! The kinds of `apiregistration.k8s.io`. See `staging/src/k8s.io/kube-aggregator/pkg/registry`.

pub(in crate::registry) mod api_service;
