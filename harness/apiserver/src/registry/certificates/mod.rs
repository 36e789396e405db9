//! The kinds of `certificates.k8s.io`. See `pkg/registry/certificates`.

pub(in crate::registry) mod certificate_signing_request;
