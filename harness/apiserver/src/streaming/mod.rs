//! WebSocket: `exec`, `attach` and `portforward` of pods, and watches ([`watch_socket`]). Nothing runs: a command
//! writes what a script in the pod's annotations says, see [`script`], attach shows the lines of the container's log
//! from then on, and a forwarded port leads to an address that an annotation names.
//!
//! Follows `pkg/registry/core/pod/rest/subresources.go`, `pkg/kubelet/server/server.go` and
//! `staging/src/k8s.io/cri-streaming` of Kubernetes 1.36.

mod command;
mod connection;
mod port_forward;
mod protocol;
mod script;
mod watch_socket;

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

use super::container_log;
use super::json::Value;
use super::metadata;
use super::request::{ApiRequest, Query, Reply, asks_for_websocket};
use super::server::ApiServer;
use super::status::Status;
use command::{Command, CommandSession, ContainerRef, StreamOptions};
pub(crate) use connection::UpgradedStream;
use port_forward::{ForwardedPort, PortSession, ports_of};
use protocol::{Protocol, ProtocolVersion};
pub(crate) use watch_socket::{WatchMessages, watch_socket};

/// The annotation with the script of commands.
pub(crate) const EXEC: &str = "plumbline.dev/exec";
/// The start of the annotations with the addresses that ports lead to.
pub(crate) const PORT_FORWARD: &str = "plumbline.dev/port-forward";
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

/// A request to exec or attach whose pod, container and node exist.
pub(crate) struct CommandRequest<'r> {
    pub(crate) server: &'r ApiServer,
    pub(crate) request: &'r ApiRequest,
    pub(crate) query: &'r Query,
    pub(crate) namespace: &'r str,
    pub(crate) pod: &'r Value,
    pub(crate) container: &'r str,
    pub(crate) is_attach: bool,
}

/// Opens a connection to a container: exec, or attach. `None` if the pod has no script for exec, or the client does not
/// speak WebSocket.
pub(crate) fn connect(wanted: &CommandRequest<'_>) -> Option<Reply> {
    let CommandRequest { pod, container, query, is_attach, .. } = *wanted;
    let script = container_log::container_annotation(pod, EXEC, container);
    if script.is_none() && !is_attach || !is_websocket(wanted.request) {
        return None;
    }
    let header = wanted.request.header(SEC_WEBSOCKET_PROTOCOL);
    let protocol = match handshake(wanted.request, || Protocol::of_commands(header)) {
        Ok(protocol) => protocol,
        Err(refusal) => return Some(*refusal),
    };
    let flag = |name: &str| query.flag(name) == Some(true);
    let options =
        StreamOptions { stdin: flag("stdin"), stdout: flag("stdout"), stderr: flag("stderr"), tty: flag("tty") };
    let words: Vec<String> = query.all("command").map(str::to_owned).collect();
    let command = match refusal(wanted, options) {
        // The API server has answered before it asks the kubelet.
        Some((_, why)) if protocol.version == ProtocolVersion::Fifth => {
            Command::Refused(format!("unable to upgrade connection: {why}"))
        }
        Some((code, why)) => return Some(Reply::text(code, why)),
        None if is_attach => Command::Attach,
        None => Command::Exec { steps: script::steps_of(script.unwrap_or_default(), &words), words },
    };
    let target = ContainerRef {
        server: wanted.server.clone(),
        namespace: wanted.namespace.to_owned(),
        pod: metadata::name(pod).to_owned(),
        uid: metadata::uid(pod).to_owned(),
        container: container.to_owned(),
    };
    let session = CommandSession { target, options, protocol, command };
    Some(switch(wanted.server, wanted.request, protocol.name, move |stream| session.clone().serve(stream)))
}

/// Returns why the kubelet refuses, with the code of its reply.
fn refusal(wanted: &CommandRequest<'_>, options: StreamOptions) -> Option<(u16, String)> {
    let CommandRequest { pod, container, is_attach, .. } = *wanted;
    let StreamOptions { stdin, stdout, stderr, tty } = options;
    if !(stdin || stdout || stderr && !tty) {
        return Some((400, "you must specify at least 1 of stdin, stdout, stderr".to_owned()));
    }
    if container_log::is_running(pod, container) {
        return None;
    }
    let why = if is_attach {
        format!("container {container} not found in pod {}_{}", metadata::name(pod), wanted.namespace)
    } else {
        format!("container not found ({container:?})")
    };
    Some((500, why))
}

/// Opens a connection to ports of a pod. `None` if the pod names no address for any of them, or the client does not
/// speak WebSocket.
pub(crate) fn forward(server: &ApiServer, request: &ApiRequest, query: &Query, pod: &Value) -> Option<Reply> {
    if !is_websocket(request) {
        return None;
    }
    let header = request.header(SEC_WEBSOCKET_PROTOCOL);
    if header.contains("SPDY") {
        return None;
    }
    let ports = match ports_of(query) {
        Ok(ports) => ports,
        Err(error) => return Some(Reply::text(400, error.to_string())),
    };
    let address = |port: u16| metadata::annotation(pod, &format!("{PORT_FORWARD}.{port}")).map(str::to_owned);
    let ports: Vec<ForwardedPort> =
        ports.into_iter().map(|port| ForwardedPort { port, address: address(port) }).collect();
    if ports.iter().all(|port| port.address.is_none()) {
        return None;
    }
    let protocol = match handshake(request, || Protocol::of_ports(header)) {
        Ok(protocol) => protocol,
        Err(refusal) => return Some(*refusal),
    };
    if !container_log::has_running(pod) {
        let full_name = format!("{}_{}", metadata::name(pod), metadata::namespace(pod));
        return Some(Reply::text(500, format!("pod not found ({full_name:?})")));
    }
    let session = PortSession {
        protocol,
        ports,
        pod: metadata::name(pod).to_owned(),
        uid: metadata::uid(pod).to_owned(),
        clock: server.clock().clone(),
    };
    Some(switch(server, request, protocol.name, move |stream| session.clone().serve(stream)))
}

/// Returns true if the client wants to speak WebSocket.
fn is_websocket(request: &ApiRequest) -> bool {
    asks_for_websocket(&request.headers)
}

/// Checks the handshake, as `golang.org/x/net/websocket` does.
fn handshake(request: &ApiRequest, choose: impl Fn() -> Option<Protocol>) -> Result<Protocol, Box<Reply>> {
    if let Some(refusal) = check_key(request) {
        return Err(Box::new(refusal));
    }
    choose().ok_or_else(|| Box::new(Reply::text(403, "")))
}

/// Returns the refusal of a handshake, before its protocols are looked at.
fn check_key(request: &ApiRequest) -> Option<Reply> {
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
fn switch<F>(
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
