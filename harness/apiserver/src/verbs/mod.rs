//! Handlers of requests for resources. The order of their steps follows
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers` of Kubernetes 1.36.
//!
//! - [`handle`]: records the request, applies faults, dispatches
//! - `read`: get and list, and the start of a watch; [`super::watch`] streams the events
//! - `write`: create, update, patch, and the guaranteed update that they share
//! - `delete`: one object or a collection
//! - `body`: decoding of bodies, encoding of replies; `repeated`: a shortcut for status updates

use crate::request::{ApiRequest, Reply};
use crate::server::ApiServer;

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

impl ApiServer {
    /// Handles a request.
    pub async fn handle(&self, request: ApiRequest) -> Reply {
        handle(self, request).await
    }
}
