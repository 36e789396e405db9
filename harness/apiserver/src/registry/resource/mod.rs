//! The kinds of `resource.k8s.io`. See `pkg/registry/resource`.

pub(in crate::registry) mod claim_spec;
mod claim_status;
pub(in crate::registry) mod device_class;
pub(in crate::registry) mod resource_claim;
pub(in crate::registry) mod resource_claim_template;
pub(in crate::registry) mod resource_slice;
