//! WebSocket: `exec`, `attach` and `portforward` of pods, and watches ([`watch_socket`]). Nothing runs: a command
//! writes what a script in the pod's annotations says, see [`script`], attach shows the lines of the container's log
//! from then on, and a forwarded port leads to an address that an annotation names.
//!
//! Follows `pkg/registry/core/pod/rest/subresources.go`, `pkg/kubelet/server/server.go` and
//! `staging/src/k8s.io/cri-streaming` of Kubernetes 1.36.

mod annotations;
mod command;
mod connection;
mod port_forward;
mod protocol;
mod script;
mod upgrade;
mod watch_socket;

use http::header::SEC_WEBSOCKET_PROTOCOL;

use super::container_log;
use super::json::Value;
use super::metadata;
use super::request::{ApiRequest, Query, Reply};
use super::server::ApiServer;
use annotations::{EXEC, PORT_FORWARD};
use command::{Command, CommandSession, ContainerRef, StreamOptions};
use port_forward::{ForwardedPort, PortSession, ports_of};
use protocol::{Protocol, ProtocolVersion};
pub(crate) use upgrade::UpgradeHandler;
use upgrade::{check_key, is_websocket, switch};
pub(crate) use watch_socket::{WatchMessages, watch_socket};

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

/// Checks the handshake, as `golang.org/x/net/websocket` does.
fn handshake(request: &ApiRequest, choose: impl Fn() -> Option<Protocol>) -> Result<Protocol, Box<Reply>> {
    if let Some(refusal) = check_key(request) {
        return Err(Box::new(refusal));
    }
    choose().ok_or_else(|| Box::new(Reply::text(403, "")))
}
