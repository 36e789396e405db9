//! Requests to targets, and the answers of webhooks: `Request` and `Result` of
//! `staging/src/k8s.io/client-go/rest/request.go`.

use bytes::Bytes;

/// The answer of a webhook.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Media type with parameters; empty if the answer has none.
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
}

/// A request to a target.
#[derive(Debug)]
#[cfg_attr(not(feature = "listener"), expect(dead_code, reason = "read by `https` only"))]
pub(crate) struct OutboundRequest {
    pub(crate) method: http::Method,
    /// Path and query.
    pub(crate) uri: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}
