//! Subresources with a meaning of their own: `/scale`, `/eviction`, `/binding`. The rules of `/status` are each kind's
//! (see [`Strategy`](super::kinds::Strategy)); [`status`] says in one place what it lets through.

pub mod binding;
pub mod eviction;
pub mod scale;
pub mod status;
