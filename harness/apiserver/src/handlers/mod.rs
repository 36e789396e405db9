//! Handlers of requests for resources. The order of their steps follows
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers` of Kubernetes 1.36.
//!
//! A `RequestScope` holds a request for a resource and its context. Every step is a function of its module that takes
//! the scope, so a call such as `write::create(scope)` names the file.
//!
//! - `parsed_request`: what is read from a request, once; `impersonation`: its users; `authorization`: their rights;
//!   `impersonation_modes`: the rights to impersonate
//! - [`handle`]: records the request, applies faults, serves it; `describe`: requests and replies for the transcript
//! - `debug_endpoints`: metrics and the transcript
//! - `route`: dispatch by path and method
//! - `read`: get and list, and the start of a watch; [`super::watch`] streams the events
//! - `write`: create, update, and the guaranteed update that patches and subresources share; `write_outcome`: its data
//! - `patch`: patches and server-side apply; `field_manager`: managed fields; `versions`: conversion for them
//! - `admission`: webhooks and policies; `aggregate`: requests for aggregated APIs; `classify`: flow schemas
//! - `service_account`: the admission plugin that finds the accounts of pods; `certificates`: those of signing requests
//! - `escalation`: the rights that roles and bindings may grant; `claim_rights`: those for the status of claims;
//!   `pod_security`: what namespaces allow in pods
//! - `delete`: one object or a collection; `service_addresses`: the addresses that come and go with services
//! - `subresources`: subresources other than `status`; the larger ones in `scale`, `token`, `log` and `proxy`
//! - `reviews`, `component_status`: kinds that are not stored; `control_rights`: who may control the server itself
//! - `body`: decoding of bodies; `status_update_fast_path`: a shortcut for status updates; `reply`: encoding of replies

use crate::request::{ApiRequest, Reply};
use crate::server::ApiServer;

mod admission;
mod aggregate;
mod authorization;
mod body;
mod body_format;
mod certificates;
mod claim_rights;
#[cfg(feature = "listener")]
mod classify;
mod component_status;
mod control_rights;
mod debug_endpoints;
mod delete;
mod describe;
mod escalation;
mod event_converter;
mod explicit_empties;
mod field_manager;
mod handle;
mod impersonation;
mod impersonation_modes;
mod log;
pub(crate) mod options;
mod parsed_request;
mod patch;
mod pod_security;
mod proxy;
mod quota;
mod rbac;
mod read;
mod reply;
mod request_scope;
mod reviews;
mod route;
mod scale;
mod service_account;
mod service_addresses;
mod status_update_fast_path;
mod subresources;
#[cfg(test)]
mod tests;
mod token;
mod versions;
mod write;
mod write_outcome;

#[cfg(feature = "controllers")]
pub(crate) use aggregate::check_discovery;
pub use describe::{record_reply, record_request};
pub use handle::protobuf_body_to_json;
pub(crate) use parsed_request::ParsedRequest;
pub(crate) use reply::unauthorized;

impl ApiServer {
    /// Handles a request.
    pub async fn handle(&self, request: ApiRequest) -> Reply {
        self.handle_parsed(ParsedRequest::new(self, request)).await
    }

    /// Returns the refusal of a request about the server itself, such as one that injects faults: only members of
    /// `system:masters` may make it, and users whose roles allow its path, as `cluster-admin` does. Needs no clock.
    #[must_use]
    pub fn refuse_control(&self, request: &ApiRequest) -> Option<Reply> {
        control_rights::check(self, request).err().map(Reply::from)
    }

    /// Handles a request that is parsed.
    pub(crate) async fn handle_parsed(&self, parsed: ParsedRequest) -> Reply {
        handle::handle(self, parsed).await
    }
}
