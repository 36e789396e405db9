//! Connections that leave HTTP: the handshake, the reply with code 101, and its handler. Follows `hybi.go` of
//! `golang.org/x/net/websocket`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::{
    CONNECTION, CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderValue, Method};
use tokio::sync::OwnedSemaphorePermit;

use super::connection::UpgradedStream;
use crate::request::{ApiRequest, Reply, asks_for_websocket};
use crate::server::ApiServer;
use crate::status::Status;

/// The end of every key of WebSocket, by RFC 6455.
const KEY_END: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The protocol version of RFC 6455.
const VERSION: &str = "13";

/// Serves a connection that has left HTTP; an extension of the reply with code 101.
#[derive(Clone)]
pub(crate) struct UpgradeHandler(Arc<dyn Fn(UpgradedStream) -> SessionFuture + Send + Sync>);

type SessionFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl UpgradeHandler {
    /// Serves the connection; it counts as open until then.
    fn new<F>(permit: OwnedSemaphorePermit, serve: impl Fn(UpgradedStream) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let permit = Arc::new(permit);
        Self(Arc::new(move |stream| {
            let session = serve(stream);
            let permit = permit.clone();
            Box::pin(async move {
                session.await;
                drop(permit);
            })
        }))
    }

    /// Serves a connection.
    pub(crate) async fn serve(self, stream: UpgradedStream) {
        (self.0)(stream).await;
    }
}

/// Returns true if the client wants to speak WebSocket.
pub(super) fn is_websocket(request: &ApiRequest) -> bool {
    asks_for_websocket(&request.headers)
}

/// Returns the refusal of a handshake, before its protocols are looked at.
pub(super) fn check_key(request: &ApiRequest) -> Option<Reply> {
    if request.method != Method::GET {
        return Some(Reply::text(405, "bad method"));
    }
    if request.header(SEC_WEBSOCKET_KEY).is_empty() {
        return Some(Reply::text(400, "mismatch challenge/response"));
    }
    if request.header(SEC_WEBSOCKET_VERSION) != VERSION {
        let mut reply = Reply::text(400, "missing or bad WebSocket Version");
        reply.headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
        return Some(reply);
    }
    None
}

/// Replies that the connection leaves HTTP, unless there are too many.
pub(super) fn switch<F>(
    server: &ApiServer,
    request: &ApiRequest,
    protocol: &str,
    serve: impl Fn(UpgradedStream) -> F + Send + Sync + 'static,
) -> Reply
where
    F: Future<Output = ()> + Send + 'static,
{
    let Some(permit) = server.open_session() else {
        return Status::too_many_requests("too many connections into pods are open", 1).into();
    };
    let accept = accept_key(request.header(SEC_WEBSOCKET_KEY));
    let Ok(accept) = HeaderValue::from_str(&accept) else { return Status::internal("the key has no digest").into() };
    let mut reply = Reply::text(101, "");
    reply.headers.clear();
    reply.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    reply.headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    reply.headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(protocol) = HeaderValue::from_str(protocol).ok().filter(|protocol| !protocol.is_empty()) {
        reply.headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    reply.headers.remove(CONTENT_TYPE);
    reply.extensions.insert(UpgradeHandler::new(permit, serve));
    reply
}

/// Returns the server's answer to a client's key.
fn accept_key(key: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{KEY_END}").as_bytes());
    BASE64.encode(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455.
    #[test]
    fn keys_are_answered() {
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
