//! The kinds of `networking.k8s.io`. See `pkg/registry/networking`.

pub(in crate::registry) mod ingress;
pub(in crate::registry) mod ingress_class;
pub(in crate::registry) mod ip_address;
pub(in crate::registry) mod network_policy;
pub(in crate::registry) mod reference;
pub(in crate::registry) mod service_cidr;
