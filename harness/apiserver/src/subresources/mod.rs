//! Subresources with logic of their own: `/scale`, `/eviction`, `/binding`. Each kind's
//! [`Strategy`](super::registry::Strategy) defines the rules of `/status`.
//! See `pkg/registry/core/pod/storage` and `pkg/registry/autoscaling`.

pub(crate) mod binding;
pub(crate) mod eviction;
pub(crate) mod scale;
