//! Connections into pods, nodes and services. Nothing runs behind this server, so a request ends with the code that
//! kube-apiserver returns when the target is unreachable, and says so. For `exec` and `portforward`, annotations of the
//! pod may have an answer.
//!
//! Follows `pkg/registry/core/{pod,node,service}` of Kubernetes 1.36.

use super::authorization;
use super::request_scope::RequestScope;
use crate::json::Value;
use crate::json::fields::{array_field, str_field};
use crate::metadata;
use crate::request::Reply;
use crate::status::Status;
use crate::store::ResourceId;
#[cfg(feature = "listener")]
use crate::streaming;

/// Handles `proxy` of a pod, a node or a service; the name may include a scheme and a port (`https:name:80`).
pub(crate) fn connect(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    let (name, port) = split_name_port(&scope.path.name);
    let target = scope.server.get(&scope.resource, &scope.path.namespace, name);
    let target = scope.value(&*target.ok_or_else(|| scope.not_found(name))?);
    let unreachable = |address: &str| {
        let why = format!("error trying to reach service: dial tcp {address}: no container runs here");
        Status::failure(503, "ServiceUnavailable", why)
    };
    let refused = || Status::bad_request("address not allowed");
    Err(match &*scope.kind.plural {
        "services" => {
            let why = format!("no endpoints available for service {:?}", scope.path.name);
            Status::failure(503, "ServiceUnavailable", why)
        }
        "nodes" => match array_field(&target["status"], "addresses").iter().map(|a| str_field(a, "address")).next() {
            None => Status::untyped_error("no preferred addresses found; known addresses: []"),
            Some(address) if is_public(address) => unreachable(&format!("{address}:10250")),
            Some(_) => refused(),
        },
        _ => match target.pointer("/status/podIP").and_then(Value::as_str) {
            Some(address) if is_public(address) => unreachable(&format!("{address}:{port}")),
            _ => refused(),
        },
    })
}

/// Handles `exec`, `attach` and `portforward` of a pod. GET, as WebSocket clients send it, needs the right to create,
/// too.
pub(crate) fn upgrade(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    authorization::authorize_verb(scope, "create")?;
    let pod = scope.value(&*scope.stored()?);
    if scope.path.subresource != "portforward" {
        check_container(scope, &pod)?;
    }
    let node = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
    if node.is_empty() {
        return Err(Status::bad_request(format!("pod {} does not have a host assigned", scope.path.name)));
    }
    let Some(node) = scope.server.get(&ResourceId::new("", "nodes"), "", node) else {
        return Err(Status::not_found(scope.group_resource(), node));
    };
    if scope.request.header(http::header::UPGRADE).is_empty() {
        return Err(Status::bad_request("Upgrade request required"));
    }
    #[cfg(feature = "listener")]
    if let Some(reply) = open(scope, &pod) {
        return Ok(reply);
    }
    let address = kubelet_address(&node.value());
    Err(Status::untyped_error(format!("error dialing backend: dial tcp {address}: {}", why_not(scope))))
}

/// Opens a connection into a pod whose annotations say what is there. Only sockets can leave HTTP.
#[cfg(feature = "listener")]
fn open(scope: &RequestScope<'_>, pod: &Value) -> Option<Reply> {
    scope.request.peer?;
    if scope.path.subresource == "portforward" {
        return streaming::forward(scope.server, scope.request, scope.query, pod);
    }
    let wanted = streaming::CommandRequest {
        server: scope.server,
        request: scope.request,
        query: scope.query,
        namespace: &scope.path.namespace,
        pod,
        container: container_of(scope, pod),
        is_attach: scope.path.subresource == "attach",
    };
    streaming::connect(&wanted)
}

/// Returns why there is nothing to connect to.
fn why_not(scope: &RequestScope<'_>) -> String {
    let needs = match &*scope.path.subresource {
        "attach" => "attach works over WebSocket only",
        "exec" => "exec needs the annotation plumbline.dev/exec, and WebSocket",
        _ => "port-forward needs the annotation plumbline.dev/port-forward.PORT, and WebSocket (kubectl speaks SPDY)",
    };
    format!("no container runs here: {needs}")
}

/// Returns where the kubelet of a node would listen.
fn kubelet_address(node: &Value) -> String {
    let addresses = array_field(&node["status"], "addresses");
    let internal = addresses.iter().find(|address| address["type"] == "InternalIP").or(addresses.first());
    let address = internal.map_or_else(|| metadata::name(node), |internal| str_field(internal, "address"));
    let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().filter(|port| *port > 0);
    format!("{address}:{}", port.unwrap_or(10_250))
}

/// Returns the container that a checked request names, or the first one.
pub(crate) fn container_of<'s>(scope: &'s RequestScope<'_>, pod: &'s Value) -> &'s str {
    let wanted = scope.query.get("container").filter(|name| !name.is_empty());
    let first = || array_field(&pod["spec"], "containers").first().map(|first| str_field(first, "name"));
    wanted.or_else(first).unwrap_or_default()
}

/// Checks that the request names an existing container; with a single container the name is optional.
pub(crate) fn check_container(scope: &RequestScope<'_>, pod: &Value) -> Result<(), Status> {
    let names = |list: &str| -> Vec<String> {
        let containers = pod.pointer(list).and_then(Value::as_array).into_iter().flatten();
        containers.filter_map(|c| c.get("name").and_then(Value::as_str).map(str::to_owned)).collect()
    };
    let [containers, init, ephemeral] =
        ["/spec/containers", "/spec/initContainers", "/spec/ephemeralContainers"].map(names);
    let wanted = scope.query.get("container").unwrap_or_default();
    if wanted.is_empty() && containers.len() > 1 {
        let mut choices = format!("choose one of: [{}]", containers.join(" "));
        if !init.is_empty() {
            choices = format!("{choices} or one of the init containers: [{}]", init.join(" "));
        }
        let message = format!("a container name must be specified for pod {}, {choices}", scope.path.name);
        return Err(Status::bad_request(message));
    }
    if !wanted.is_empty() && ![containers, init, ephemeral].concat().iter().any(|name| name == wanted) {
        return Err(Status::bad_request(format!("container {wanted} is not valid for pod {}", scope.path.name)));
    }
    Ok(())
}

/// Returns name and port of `[scheme:]name[:port]`.
fn split_name_port(text: &str) -> (&str, &str) {
    match text.split(':').collect::<Vec<_>>().as_slice() {
        [name, port] | [_, name, port] => (name, if port.is_empty() { "80" } else { port }),
        _ => (text, "80"),
    }
}

/// Returns true if proxies may connect to the address: not loopback, unspecified, multicast or (IPv4) link-local.
fn is_public(address: &str) -> bool {
    address.parse::<std::net::IpAddr>().map_or(true, |ip| match ip {
        std::net::IpAddr::V4(ip) => {
            !(ip.is_loopback() || ip.is_link_local() || ip.is_multicast() || ip.is_unspecified())
        }
        std::net::IpAddr::V6(ip) => !(ip.is_loopback() || ip.is_multicast() || ip.is_unspecified()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("p", ("p", "80"))]
    #[case("p:8080", ("p", "8080"))]
    #[case("https:p:", ("p", "80"))]
    fn names_with_ports(#[case] text: &str, #[case] expected: (&str, &str)) {
        assert_eq!(split_name_port(text), expected);
    }

    #[rstest]
    #[case(crate::json::json!({"metadata": {"name": "n"}}), "n:10250")]
    #[case(crate::json::json!({"status": {"addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.9"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10260}}}}), "10.0.0.9:10260")]
    fn kubelets_have_an_address(#[case] node: Value, #[case] expected: &str) {
        assert_eq!(kubelet_address(&node), expected);
    }

    #[test]
    fn proxies_do_not_lead_to_the_servers_host() {
        assert!(!is_public("127.0.0.1") && !is_public("169.254.1.1") && is_public("10.1.2.3"));
    }
}
