//! The channels of a WebSocket connection. Limits are those of
//! `staging/src/k8s.io/streaming/pkg/httpstream/wsstream/conn.go` of Kubernetes 1.36, or smaller.

use std::time::Duration;

use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

use super::protocol::{Message, Protocol};
use crate::clock::Clock;

/// Largest message of a client in bytes; upstream's limit is that of Go's library, 32 MiB.
const MESSAGE_MAX: usize = 4 << 20;
/// Size of the buffers of a connection in bytes.
pub(super) const BUFFER: usize = 4 << 10;
/// Time without a message after which a connection ends: the kubelet's `streamingConnectionIdleTimeout`.
const IDLE_TIME: Duration = Duration::from_hours(4);
/// Time that a client has to take the end of a connection.
pub(super) const CLOSE_TIME: Duration = Duration::from_secs(10);

/// A connection that has left HTTP.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// A connection that has left HTTP.
pub(crate) type UpgradedStream = Box<dyn Transport>;

/// The side of a connection that a client reads.
pub(super) struct Sender {
    sink: SplitSink<WebSocketStream<UpgradedStream>, Frame>,
    protocol: Protocol,
}

/// The side of a connection that a client writes.
pub(super) struct Receiver {
    stream: SplitStream<WebSocketStream<UpgradedStream>>,
    protocol: Protocol,
    channels: u8,
    clock: Clock,
    /// The client sent more than is allowed.
    is_too_big: bool,
}

/// The client is gone.
#[derive(Debug)]
pub(super) struct Gone;

/// Begins to speak WebSocket.
pub(super) async fn open(
    stream: UpgradedStream,
    protocol: Protocol,
    channels: u8,
    clock: &Clock,
) -> (Sender, Receiver) {
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(MESSAGE_MAX * 2)
        .max_message_size(Some(MESSAGE_MAX))
        .max_frame_size(Some(MESSAGE_MAX));
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (sink, stream) = socket.split();
    let receiver = Receiver { stream, protocol, channels, clock: clock.clone(), is_too_big: false };
    (Sender { sink, protocol }, receiver)
}

impl Sender {
    /// Sends data on a channel.
    pub(super) async fn send(&mut self, channel: u8, data: &[u8]) -> Result<(), Gone> {
        let message = self.protocol.write(channel, data);
        let frame = if self.protocol.is_base64 {
            Frame::text(String::from_utf8_lossy(&message).into_owned())
        } else {
            Frame::binary(message)
        };
        self.sink.send(frame).await.map_err(|_| Gone)
    }
}

impl Receiver {
    /// Returns the next data or end of a channel.
    pub(super) async fn receive(&mut self) -> Result<Message, Gone> {
        loop {
            let clock = self.clock.clone();
            let message = match clock.timeout(IDLE_TIME, self.stream.next()).await {
                Some(Some(Ok(Frame::Binary(data)))) => self.protocol.read(&data, self.channels),
                Some(Some(Ok(Frame::Text(text)))) => self.protocol.read(text.as_bytes(), self.channels),
                Some(Some(Ok(Frame::Ping(_) | Frame::Pong(_)))) => Message::Nothing,
                Some(Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. })))) => {
                    self.is_too_big = true;
                    Message::Broken
                }
                _ => Message::Broken,
            };
            match message {
                Message::Nothing => {}
                Message::Broken => return Err(Gone),
                message => return Ok(message),
            }
        }
    }
}

/// Ends the connection: says so, and waits until the client has read everything or time is over.
pub(super) async fn close(mut sender: Sender, mut receiver: Receiver) {
    let code = if receiver.is_too_big { CloseCode::Size } else { CloseCode::Normal };
    let clock = receiver.clock.clone();
    let closing = async {
        let _ = sender.sink.send(Frame::Close(Some(CloseFrame { code, reason: "".into() }))).await;
        while let Some(Ok(_)) = receiver.stream.next().await {}
    };
    if clock.timeout(CLOSE_TIME, closing).await.is_none() {
        tracing::debug!("a client did not end its connection");
    }
}
