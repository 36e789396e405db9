//! `componentstatuses`: the health of the control plane, as a kube-apiserver reports it with other components beside it
//! or without. Follows `pkg/registry/core/componentstatus/rest.go` of Kubernetes 1.36.

use http::Method;

use super::options::ListOptions;
use super::reply::{self, ReplyContent};
use super::request_scope::RequestScope;
use crate::json::{Value, json};
use crate::metadata;
use crate::request::Reply;
use crate::status::{GroupResource, Status};

/// Names of the components, and the ports that upstream probes.
const COMPONENTS: [(&str, Option<u16>); 3] =
    [("scheduler", Some(10259)), ("controller-manager", Some(10257)), ("etcd-0", None)];

/// Returns a component. Those with a port run if the server has a control plane beside it.
fn component(scope: &RequestScope<'_>, name: &str, port: Option<u16>) -> Value {
    let (status, message) = match port.filter(|_| !scope.server.config().control_plane) {
        None => ("True", "ok".to_owned()),
        Some(port) => {
            // Nothing listens there: programs tested against this server provide no health endpoint at these ports.
            let why = format!(
                "Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: connection refused"
            );
            ("False", why)
        }
    };
    json!({
        "kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": status, "message": message}],
    })
}

/// Answers requests for this kind, whose objects are generated for each request.
pub(crate) fn handle(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    if scope.request.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    if scope.path.watch {
        return Err(Status::unknown_resource());
    }
    let name = &scope.path.name;
    if name.is_empty() {
        return component_list(scope);
    }
    let negotiated = reply::negotiate(scope)?;
    let (name, port) = COMPONENTS
        .into_iter()
        .find(|(part, _)| part == name)
        .ok_or_else(|| Status::not_found(GroupResource::new("", "componentstatus"), name))?;
    reply::object(scope, 200, ReplyContent::Value(&component(scope, name, port)), negotiated)
}

fn component_list(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    let options = ListOptions::parse(scope.query, &scope.kind, "", false)?;
    if options.watch {
        return Err(Status::method_not_supported(scope.group_resource(), "watch"));
    }
    let negotiated = reply::negotiate(scope)?;
    let selection = &options.selection;
    let mut items: Vec<Value> = COMPONENTS.into_iter().map(|(name, port)| component(scope, name, port)).collect();
    items.retain(|item| {
        let value = |field: &str| if field == "metadata.name" { metadata::name(item).into() } else { "".into() };
        selection.labels.matches(|_| None) && selection.fields.matches(value)
    });
    reply::values(scope, json!({}), items, negotiated)
}
