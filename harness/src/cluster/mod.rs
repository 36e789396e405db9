//! Where fixtures run. Today: [`Embedded`], the server of [`crate::apiserver`] in this very process and in virtual time.
//!
//! Another place (sockets, a real API server) answers the same questions: what it can do ([`Embedded::capabilities`]), how
//! a step's request is sent ([`Embedded::send`]), what time it is. A fixture never names a place, it requires capabilities.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::apiserver::service::into_response;
use crate::apiserver::{ApiRequest, ApiServer, ApiServerConfig, ResourceId};
use crate::fixture::{Capability, Resource};
use crate::time::Clock;

/// The answer to a request of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status code; 0 when the connection broke.
    pub code: u16,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// Decoded body; a string if it is no JSON.
    pub body: Value,
}

/// A request of a step, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Body and its content type.
    pub body: Option<(&'static str, Value)>,
    /// Who asks.
    pub user_agent: String,
}

/// The embedded API server.
#[derive(Clone, Debug)]
pub struct Embedded {
    server: ApiServer,
}

impl Embedded {
    /// Name in reports.
    pub const NAME: &'static str = "embedded";

    /// A fresh, empty server on `clock`.
    #[must_use]
    pub fn new(clock: &Clock) -> Self {
        Self { server: ApiServer::new(ApiServerConfig::new(clock.clone())) }
    }

    /// Everything: it lives in virtual time and obeys.
    #[must_use]
    pub fn capabilities() -> BTreeSet<Capability> {
        Capability::ALL.into_iter().collect()
    }

    /// The server itself.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Plants `objects` and returns everything that the server has then, as stored.
    ///
    /// # Errors
    ///
    /// When an object is of an unknown kind or cannot be stored; the text names it.
    pub fn seed(&self, objects: Vec<Value>) -> Result<Vec<Value>, String> {
        self.server.seed(objects)?;
        let store = self.server.store();
        let resources = store.resources();
        let stored = resources.iter().flat_map(|resource| self.server.list(resource, None));
        Ok(stored.map(|object| object.value()).collect())
    }

    /// Sends `call` and waits for the whole answer.
    pub async fn send(&self, call: Call) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Ok(user_agent) = HeaderValue::from_str(&call.user_agent) {
            headers.insert(header::USER_AGENT, user_agent);
        }
        let body = match call.body {
            Some((content_type, body)) => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
                body.to_string().into()
            }
            None => bytes::Bytes::new(),
        };
        let request = ApiRequest { headers, body, ..ApiRequest::new(call.method, &call.path) };
        let reply = self.server.handle(request).await;
        if reply.drop_connection {
            return Answer { code: 0, retry_after: None, body: Value::Null };
        }
        let response = into_response(reply);
        let code = response.status().as_u16();
        let retry_after =
            response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let bytes = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Answer { code, retry_after, body }
    }
}

/// The server's name for a resource of a fixture.
#[must_use]
pub fn resource_id(resource: &Resource) -> ResourceId {
    ResourceId::new(&resource.group, &resource.plural)
}
