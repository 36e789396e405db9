//! What requests do: from a raw request to a reply, in the order of kube-apiserver's handlers.
//!
//! - [`handle`]: records, asks the faults, dispatches
//! - `read`: get and list; `watch` lives in [`super::watch`]
//! - `write`: create, update, patch and the guaranteed update under them
//! - `delete`: one object or a collection
//! - `body`: decoding of bodies, encoding of replies; `repeated`: bodies that need not be decoded whole

mod authorization;
mod body;
mod components;
mod delete;
mod handle;
mod impersonation;
mod log;
mod manage;
mod media;
pub mod options;
mod patch;
mod proxy;
mod quota;
mod read;
mod repeated;
mod reviews;
mod scope;
mod special;
mod write;
mod yaml;

pub(crate) use body::{MEDIA_TYPES, in_yaml};
pub use handle::{describe, describe_reply, handle, read_protobuf};

pub use options::{DeleteOptions, Propagation};
