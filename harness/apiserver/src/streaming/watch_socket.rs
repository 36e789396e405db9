//! A watch over WebSocket, as browsers open it: each event is a message. Follows `HandleWS` in
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go` of Kubernetes 1.36, and the handshake of
//! `golang.org/x/net/websocket`, whose handler wants the header `Origin`.

use std::sync::Arc;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::header::{ORIGIN, SEC_WEBSOCKET_PROTOCOL};
use parking_lot::Mutex;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::connection::UpgradedStream;
use super::upgrade::{check_key, is_websocket, switch};
use crate::clock::Clock;
use crate::request::{ApiRequest, BodyStream, Reply};
use crate::server::ApiServer;

/// Largest message of a client in bytes. What clients send is ignored.
const IGNORED_MAX: usize = 64 << 10;
/// Length of the size in front of an event in protobuf. Messages have no need of it.
const SIZE_BYTES: usize = 4;

/// The form of a watch's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchMessages {
    /// Texts with JSON.
    Text,
    /// Protobuf.
    Binary,
}

/// Sends the events of a watch over WebSocket if the client wants that; gives them back otherwise.
pub(crate) fn watch_socket(
    server: &ApiServer,
    request: &ApiRequest,
    events: BodyStream,
    messages: WatchMessages,
) -> Result<Reply, BodyStream> {
    if !is_websocket(request) {
        return Err(events);
    }
    if let Some(refusal) = check_key(request) {
        return Ok(refusal);
    }
    if matches!(request.header(ORIGIN), "" | "null") {
        return Ok(Reply::text(403, ""));
    }
    let protocol = request.header(SEC_WEBSOCKET_PROTOCOL).trim();
    // The handler echoes one protocol, and chooses none of many.
    if protocol.contains(',') {
        return Ok(Reply::text(400, ""));
    }
    let events = Arc::new(Mutex::new(Some(events)));
    let clock = server.clock().clone();
    Ok(switch(server, request, protocol, move |stream| {
        let events = events.lock().take();
        let clock = clock.clone();
        async move {
            if let Some(events) = events {
                send_events(stream, events, messages, &clock).await;
            }
        }
    }))
}

/// Sends events until there are no more or the client is gone.
async fn send_events(stream: UpgradedStream, mut events: BodyStream, messages: WatchMessages, clock: &Clock) {
    let config = WebSocketConfig::default()
        .read_buffer_size(super::connection::BUFFER)
        .write_buffer_size(0)
        .max_message_size(Some(IGNORED_MAX))
        .max_frame_size(Some(IGNORED_MAX));
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (mut sink, mut received) = socket.split();
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(Ok(event)) = event else { break };
                if sink.send(messages.frame(event)).await.is_err() {
                    return;
                }
            }
            message = received.next() => match message {
                Some(Ok(Frame::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
    let closing = async {
        let _ = sink.close().await;
        while let Some(Ok(_)) = received.next().await {}
    };
    if clock.timeout(super::connection::CLOSE_TIME, closing).await.is_none() {
        tracing::debug!("a client did not end its watch");
    }
}

impl WatchMessages {
    fn frame(self, event: Bytes) -> Frame {
        match self {
            Self::Text => Frame::text(String::from_utf8_lossy(&event).into_owned()),
            Self::Binary => Frame::binary(event.slice(SIZE_BYTES.min(event.len())..)),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::{CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
    use http::{HeaderMap, Method};
    use rstest::rstest;

    use super::*;

    fn ask(more: &[(HeaderName, &'static str)]) -> u16 {
        let mut request = ApiRequest::new(Method::GET, "/api/v1/namespaces");
        request.headers = HeaderMap::from_iter([
            (UPGRADE, HeaderValue::from_static("websocket")),
            (CONNECTION, HeaderValue::from_static("Upgrade")),
            (SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==")),
            (SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
        ]);
        request.headers.extend(more.iter().map(|(name, value)| (Some(name.clone()), HeaderValue::from_static(value))));
        let server = ApiServer::builder().build();
        let events = Box::pin(futures::stream::empty());
        watch_socket(&server, &request, events, WatchMessages::Text).map_or(200, |reply| reply.status)
    }

    /// `TestWatchWebSocket…` in `watch_test.go` of upstream's endpoints, and `checkOrigin` of Go's library.
    #[rstest]
    #[case::browser(&[(ORIGIN, "http://localhost")], 101)]
    #[case::protocol(&[(ORIGIN, "http://localhost"), (SEC_WEBSOCKET_PROTOCOL, "base64.binary.k8s.io")], 101)]
    #[case::protocols(&[(ORIGIN, "http://localhost"), (SEC_WEBSOCKET_PROTOCOL, "a, b")], 400)]
    #[case::no_origin(&[], 403)]
    #[case::null_origin(&[(ORIGIN, "null")], 403)]
    #[case::no_key(&[(ORIGIN, "http://localhost"), (SEC_WEBSOCKET_KEY, "")], 400)]
    #[case::plain(&[(UPGRADE, "h2c")], 200)]
    fn handshakes(#[case] headers: &[(HeaderName, &'static str)], #[case] expected: u16) {
        assert_eq!(ask(headers), expected);
    }

    #[test]
    fn messages_have_no_size() {
        assert_eq!(WatchMessages::Binary.frame(Bytes::from_static(b"\0\0\0\x02ab")), Frame::binary(&b"ab"[..]));
        assert_eq!(WatchMessages::Text.frame(Bytes::from_static(b"{}\n")), Frame::text("{}\n"));
    }
}
