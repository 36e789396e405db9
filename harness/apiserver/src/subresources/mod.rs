//! Subresources with logic of their own: `/scale`, `/eviction`, `/binding`. Each kind's
//! [`Strategy`](super::registry::Strategy) defines the rules of `/status`; [`status`] applies them.

pub mod binding;
pub mod eviction;
pub mod scale;
pub mod status;
