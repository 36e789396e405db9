//! Handlers of requests for resources. The order of their steps follows
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers` of Kubernetes 1.36.
//!
//! A `Scope` holds a request and its context. Every step is a function of its module that takes the scope, so a call
//! such as `write::create(scope)` names the file.
//!
//! - [`handle`]: records the request, applies faults, serves it; `describe`: requests and replies for the transcript
//! - `route`: dispatch by path and method
//! - `read`: get and list, and the start of a watch; [`super::watch`] streams the events
//! - `write`: create, update, and the guaranteed update that patches and subresources share
//! - `patch`: patches and server-side apply; `manage`: managed fields
//! - `delete`: one object or a collection
//! - `special`: subresources other than `status`; the larger ones in `scale`, `token`, `log` and `proxy`
//! - `reviews`, `components`: kinds that are not stored
//! - `body`: decoding of bodies; `repeated`: a shortcut for status updates; `reply`: encoding of replies

use crate::request::{ApiRequest, Reply};
use crate::server::ApiServer;

mod authorization;
mod body;
mod components;
mod delete;
mod describe;
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
mod reply;
mod reviews;
mod route;
mod scale;
mod scope;
mod special;
mod token;
mod write;

pub use describe::{describe, describe_reply};
pub use handle::{handle, read_protobuf};

pub use options::{DeleteOptions, Propagation};

impl ApiServer {
    /// Handles a request.
    pub async fn handle(&self, request: ApiRequest) -> Reply {
        handle(self, request).await
    }
}
