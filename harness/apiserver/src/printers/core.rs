//! Columns of core kinds, and of budgets, leases, API services and scales. Follows
//! `pkg/printers/internalversion/printers.go` of Kubernetes 1.36. PURE.

use jiff::Timestamp;

use super::column::{AGE, CellSource, Column, Description, NAME, containers, images};
use super::format::{NONE, condition_is_true, count, int_or_string, items, labels, number, text, text_or};
use super::{column, duration};
use crate::json::{Value, json};
use crate::metadata;

/// The columns of `namespaces`.
pub(super) const NAMESPACES: &[Column] = &[
    NAME,
    Column::string("Status", Description::Text("The status of the namespace"), CellSource::Text("/status/phase", "")),
    AGE,
];

/// The columns of `componentstatuses`.
pub(super) const COMPONENT_STATUSES: &[Column] = &[
    NAME,
    Column::string(
        "Status",
        Description::Text("Status of the component conditions"),
        CellSource::Custom(|part, _| health(part).0),
    ),
    Column::string(
        "Message",
        Description::Text("Message of the component conditions"),
        CellSource::Custom(|part, _| health(part).1),
    ),
    Column::string(
        "Error",
        Description::Text("Error of the component conditions"),
        CellSource::Custom(|part, _| health(part).2),
    ),
];

/// Returns status, message and error of a component.
fn health(part: &Value) -> (Value, Value, Value) {
    let health = items(part, "/conditions").iter().find(|condition| text(condition, "/type") == "Healthy");
    let Some(health) = health else { return ("Unknown".into(), "".into(), "".into()) };
    let status = if text(health, "/status") == "True" { "Healthy" } else { "Unhealthy" };
    (status.into(), text(health, "/message").into(), text(health, "/error").into())
}

/// The columns of `configmaps`.
pub(super) const CONFIG_MAPS: &[Column] = &[
    NAME,
    Column::string(
        "Data",
        Description::Field("api.core.v1.ConfigMap", "data"),
        CellSource::Custom(|object, _| json!(count(object, "/data") + count(object, "/binaryData"))),
    ),
    AGE,
];

/// The columns of `secrets`.
pub(super) const SECRETS: &[Column] = &[
    NAME,
    Column::string("Type", Description::Field("api.core.v1.Secret", "type"), CellSource::Text("/type", "")),
    Column::string("Data", Description::Field("api.core.v1.Secret", "data"), CellSource::Count("/data")),
    AGE,
];

/// The columns of kinds that show only their name and age.
pub(super) const NAME_AND_AGE: &[Column] = &[NAME, AGE];

/// The columns of `nodes`.
pub(super) const NODES: &[Column] = &[
    NAME,
    Column::string(
        "Status",
        Description::Text("The status of the node"),
        CellSource::Custom(|node, _| json!(node_status(node))),
    ),
    Column::string(
        "Roles",
        Description::Text("The roles of the node"),
        CellSource::Custom(|node, _| json!(node_roles(node))),
    ),
    AGE,
    Column::string(
        "Version",
        Description::Field("api.core.v1.NodeSystemInfo", "kubeletVersion"),
        CellSource::Text("/status/nodeInfo/kubeletVersion", ""),
    ),
    Column::string(
        "Internal-IP",
        Description::Field("api.core.v1.NodeStatus", "addresses"),
        CellSource::Custom(|node, _| json!(node_address(node, "InternalIP"))),
    )
    .wide(),
    Column::string(
        "External-IP",
        Description::Field("api.core.v1.NodeStatus", "addresses"),
        CellSource::Custom(|node, _| json!(node_address(node, "ExternalIP"))),
    )
    .wide(),
    Column::string(
        "OS-Image",
        Description::Field("api.core.v1.NodeSystemInfo", "osImage"),
        CellSource::Text("/status/nodeInfo/osImage", duration::UNKNOWN),
    )
    .wide(),
    Column::string(
        "Kernel-Version",
        Description::Field("api.core.v1.NodeSystemInfo", "kernelVersion"),
        CellSource::Custom(|node, _| json!(node_kernel(node))),
    )
    .wide(),
    Column::string(
        "Container-Runtime",
        Description::Field("api.core.v1.NodeSystemInfo", "containerRuntimeVersion"),
        CellSource::Text("/status/nodeInfo/containerRuntimeVersion", duration::UNKNOWN),
    )
    .wide(),
];

fn node_status(node: &Value) -> String {
    let ready = items(node, "/status/conditions").iter().rfind(|condition| text(condition, "/type") == "Ready");
    let mut shown = match ready {
        Some(condition) if text(condition, "/status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if super::format::flag(node, "/spec/unschedulable") {
        shown.push_str(",SchedulingDisabled");
    }
    shown
}

fn node_roles(node: &Value) -> String {
    let mut roles: Vec<&str> = metadata::labels(node)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

fn node_address<'a>(node: &'a Value, kind: &str) -> &'a str {
    items(node, "/status/addresses").iter().find(|a| text(a, "/type") == kind).map_or(NONE, |a| text(a, "/address"))
}

fn node_kernel(node: &Value) -> String {
    let kernel = text_or(node, "/status/nodeInfo/kernelVersion", duration::UNKNOWN);
    match text(node, "/status/nodeInfo/architecture") {
        "" => kernel.to_owned(),
        architecture => format!("{kernel} ({architecture})"),
    }
}

/// The columns of `services`.
pub(super) const SERVICES: &[Column] = &[
    NAME,
    Column::string("Type", Description::Field("api.core.v1.ServiceSpec", "type"), CellSource::Text("/spec/type", "")),
    Column::string(
        "Cluster-IP",
        Description::Field("api.core.v1.ServiceSpec", "clusterIP"),
        CellSource::Text("/spec/clusterIPs/0", NONE),
    ),
    Column::string(
        "External-IP",
        Description::Field("api.core.v1.ServiceSpec", "externalIPs"),
        CellSource::Custom(|service, _| json!(external_ip(service))),
    ),
    Column::string(
        "Port(s)",
        Description::Field("api.core.v1.ServiceSpec", "ports"),
        CellSource::Custom(|service, _| json!(service_ports(service))),
    ),
    AGE,
    Column::string(
        "Selector",
        Description::Field("api.core.v1.ServiceSpec", "selector"),
        CellSource::Labels("/spec/selector"),
    )
    .wide(),
];

fn external_ip(service: &Value) -> String {
    let external: Vec<&str> = items(service, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    let or_none =
        |shown: Vec<&str>, otherwise: &str| if shown.is_empty() { otherwise.to_owned() } else { shown.join(",") };
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" => or_none(external, NONE),
        "LoadBalancer" => {
            let mut addresses = ingress_addresses(service);
            addresses.extend(external);
            or_none(addresses, "<pending>")
        }
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        _ => duration::UNKNOWN.to_owned(),
    }
}

/// Returns the addresses of a load balancer's ingress points, sorted and without duplicates.
pub(super) fn ingress_addresses(object: &Value) -> Vec<&str> {
    let mut addresses: Vec<&str> = items(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|ingress| text_or(ingress, "/ip", text(ingress, "/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn service_ports(service: &Value) -> String {
    let ports: Vec<String> = items(service, "/spec/ports")
        .iter()
        .map(|port| match (number(port, "/port"), number(port, "/nodePort"), text(port, "/protocol")) {
            (port, 0, protocol) => format!("{port}/{protocol}"),
            (port, node_port, protocol) => format!("{port}:{node_port}/{protocol}"),
        })
        .collect();
    if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
}

/// The columns of `replicationcontrollers`.
pub(super) const REPLICATION_CONTROLLERS: &[Column] = &[
    NAME,
    Column::integer(
        "Desired",
        Description::Field("api.core.v1.ReplicationControllerSpec", "replicas"),
        CellSource::Number("/spec/replicas"),
    ),
    Column::integer(
        "Current",
        Description::Field("api.core.v1.ReplicationControllerStatus", "replicas"),
        CellSource::Number("/status/replicas"),
    ),
    Column::integer(
        "Ready",
        Description::Field("api.core.v1.ReplicationControllerStatus", "readyReplicas"),
        CellSource::Number("/status/readyReplicas"),
    ),
    AGE,
    containers("/spec/template/spec/containers"),
    images("/spec/template/spec/containers"),
    Column::string(
        "Selector",
        Description::Field("api.core.v1.ReplicationControllerSpec", "selector"),
        CellSource::Labels("/spec/selector"),
    )
    .wide(),
];

/// The columns of `podtemplates`.
pub(super) const POD_TEMPLATES: &[Column] = &[
    NAME,
    Column::string(
        "Containers",
        Description::Text("Names of each container in the template."),
        CellSource::ContainerNames("/template/spec/containers"),
    ),
    Column::string(
        "Images",
        Description::Text("Images referenced by each container in the template."),
        CellSource::ContainerImages("/template/spec/containers"),
    ),
    Column::string(
        "Pod Labels",
        Description::Text("The labels for the pod template."),
        CellSource::Custom(|o, _| json!(labels(o, "/template/metadata/labels"))),
    ),
];

/// The columns of `endpoints`.
pub(super) const ENDPOINTS: &[Column] = &[
    NAME,
    Column::string(
        "Endpoints",
        Description::Field("api.core.v1.Endpoints", "subsets"),
        CellSource::Custom(|object, _| json!(endpoints(object))),
    ),
    AGE,
];

const ENDPOINTS_SHOWN: usize = 3;

fn endpoints(object: &Value) -> String {
    let mut shown: Vec<String> = Vec::new();
    for subset in items(object, "/subsets") {
        let addresses = || items(subset, "/addresses").iter().map(|address| text(address, "/ip"));
        let ports = items(subset, "/ports");
        if ports.is_empty() {
            shown.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            shown.extend(addresses().map(|ip| join_host_port(ip, number(port, "/port"))));
        }
    }
    match shown.len() {
        0 if items(object, "/subsets").is_empty() => NONE.to_owned(),
        all if all > ENDPOINTS_SHOWN => {
            format!("{} + {} more...", shown[..ENDPOINTS_SHOWN].join(","), all - ENDPOINTS_SHOWN)
        }
        _ => shown.join(","),
    }
}

fn join_host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

/// The columns of `events` in both groups.
pub(super) const EVENTS: &[Column] = &[
    Column::string(
        "Last Seen",
        Description::Field("api.core.v1.Event", "lastTimestamp"),
        CellSource::Custom(|event, now| json!(last_seen(event, now))),
    ),
    Column::string("Type", Description::Field("api.core.v1.Event", "type"), CellSource::Text("/type", "")),
    Column::string("Reason", Description::Field("api.core.v1.Event", "reason"), CellSource::Text("/reason", "")),
    Column::string(
        "Object",
        Description::Field("api.core.v1.Event", "involvedObject"),
        CellSource::Custom(|event, _| json!(involved(event))),
    ),
    Column::string(
        "Subobject",
        Description::Field("api.core.v1.ObjectReference", "fieldPath"),
        CellSource::Custom(|event, _| {
            json!(core_or_events_field(event, "/involvedObject/fieldPath", "/regarding/fieldPath"))
        }),
    )
    .wide(),
    Column::string(
        "Source",
        Description::Field("api.core.v1.Event", "source"),
        CellSource::Custom(|event, _| json!(source(event))),
    )
    .wide(),
    Column::string(
        "Message",
        Description::Field("api.core.v1.Event", "message"),
        CellSource::Custom(|event, _| json!(core_or_events_field(event, "/message", "/note").trim())),
    ),
    Column::string(
        "First Seen",
        Description::Field("api.core.v1.Event", "firstTimestamp"),
        CellSource::Custom(|event, now| json!(first_seen(event, now))),
    )
    .wide(),
    Column::string(
        "Count",
        Description::Field("api.core.v1.Event", "count"),
        CellSource::Custom(|event, _| json!(event_count(event))),
    )
    .wide(),
    NAME.wide(),
];

/// Returns a field of an event by its name in the core group, else by its name in `events.k8s.io`.
fn core_or_events_field<'a>(event: &'a Value, core: &str, new: &str) -> &'a str {
    text_or(event, core, text(event, new))
}

fn time<'a>(event: &'a Value, pointers: &[&str]) -> Option<&'a Value> {
    pointers.iter().filter_map(|pointer| event.pointer(pointer)).find(|time| !time.is_null())
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    duration::since(time(event, &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]), now)
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    if event.get("series").is_some_and(Value::is_object) {
        return duration::since(event.pointer("/series/lastObservedTime"), now);
    }
    match time(event, &["/lastTimestamp", "/deprecatedLastTimestamp"]) {
        Some(last) => duration::since(Some(last), now),
        None => first_seen(event, now),
    }
}

fn event_count(event: &Value) -> i64 {
    if event.get("series").is_some_and(Value::is_object) {
        return number(event, "/series/count");
    }
    match number(event, "/count") + number(event, "/deprecatedCount") {
        0 => 1,
        count => count,
    }
}

fn involved(event: &Value) -> String {
    let kind = core_or_events_field(event, "/involvedObject/kind", "/regarding/kind").to_lowercase();
    match core_or_events_field(event, "/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let first = |pointers: [&'static str; 3]| {
        pointers.into_iter().map(|p| text(event, p)).find(|found| !found.is_empty()).unwrap_or_default()
    };
    let component = first(["/source/component", "/deprecatedSource/component", "/reportingComponent"]);
    let component = if component.is_empty() { text(event, "/reportingController") } else { component };
    match first(["/source/host", "/deprecatedSource/host", "/reportingInstance"]) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

/// The columns of `poddisruptionbudgets`.
pub(super) const POD_DISRUPTION_BUDGETS: &[Column] = &[
    NAME,
    Column::string(
        "Min Available",
        Description::Text("The minimum number of pods that must be available."),
        CellSource::Custom(|pdb, _| json!(int_or_string(pdb, "/spec/minAvailable", "N/A"))),
    ),
    Column::string(
        "Max Unavailable",
        Description::Text("The maximum number of pods that may be unavailable."),
        CellSource::Custom(|pdb, _| json!(int_or_string(pdb, "/spec/maxUnavailable", "N/A"))),
    ),
    Column::integer(
        "Allowed Disruptions",
        Description::Text("Calculated number of pods that may be disrupted at this time."),
        CellSource::Number("/status/disruptionsAllowed"),
    ),
    AGE,
];

/// The columns of `leases`.
pub(super) const LEASES: &[Column] = &[
    NAME,
    Column::string(
        "Holder",
        Description::Field("api.coordination.v1.LeaseSpec", "holderIdentity"),
        CellSource::Text("/spec/holderIdentity", ""),
    ),
    AGE,
];

/// The columns of `apiservices`.
pub(super) const API_SERVICES: &[Column] = &[
    NAME,
    Column::string(
        "Service",
        Description::Text("The reference to the service that hosts this API endpoint."),
        CellSource::Custom(|object, _| match object.pointer("/spec/service").filter(|service| service.is_object()) {
            Some(service) => json!(format!("{}/{}", text(service, "/namespace"), text(service, "/name"))),
            None => json!("Local"),
        }),
    ),
    Column::string(
        "Available",
        Description::Text("Whether this service is available."),
        CellSource::Custom(|object, _| json!(if condition_is_true(object, "Available") { "True" } else { "False" })),
    ),
    AGE,
];

/// The columns of a `Scale`.
pub(super) const SCALE: &[Column] = &[
    Column::string("Name", column::NAME_DESCRIPTION, CellSource::Text("/metadata/name", "")),
    Column::integer(
        "Desired",
        Description::Field("api.autoscaling.v1.ScaleSpec", "replicas"),
        CellSource::Number("/spec/replicas"),
    ),
    Column::integer(
        "Available",
        Description::Field("api.autoscaling.v1.ScaleStatus", "replicas"),
        CellSource::Number("/status/replicas"),
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(json!({}), "Unknown", "<none>")]
    #[case(json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}, "spec": {"unschedulable": true}}),
        "NotReady,SchedulingDisabled", "<none>")]
    #[case(json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "",
        "kubernetes.io/role": "old"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        "Ready", "control-plane,old,worker")]
    fn nodes(#[case] node: Value, #[case] status: &str, #[case] roles: &str) {
        assert_eq!((node_status(&node).as_str(), node_roles(&node).as_str()), (status, roles));
    }

    #[rstest]
    #[case(json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}}), "<none>", "80/TCP")]
    #[case(json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]}}), "<pending>", "80:30080/TCP")]
    #[case(json!({"spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}, "status": {"loadBalancer": {"ingress": [
        {"ip": "2.2.2.2"}, {"hostname": "a.b"}, {"ip": "1.1.1.1"}]}}}), "1.1.1.1,2.2.2.2,a.b,9.9.9.9", "<none>")]
    #[case(json!({"spec": {"type": "ExternalName", "externalName": "x.y"}}), "x.y", "<none>")]
    fn services(#[case] service: Value, #[case] external: &str, #[case] ports: &str) {
        assert_eq!((external_ip(&service).as_str(), service_ports(&service).as_str()), (external, ports));
    }

    #[rstest]
    #[case::old_event(json!({"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:01:00Z", "count": 3}), "60s", "2m", 3)]
    #[case::new_singleton(json!({"firstTimestamp": null, "eventTime": "2026-01-01T00:01:00.000000Z"}), "60s", "60s", 1)]
    #[case::series(json!({"eventTime": "2026-01-01T00:00:00.000000Z", "series": {"count": 7, "lastObservedTime": "2026-01-01T00:01:59.000000Z"}}),
        "1s", "2m", 7)]
    #[case::nothing(json!({}), "<unknown>", "<unknown>", 1)]
    fn events(#[case] event: Value, #[case] last: &str, #[case] first: &str, #[case] count: i64) {
        let now = "2026-01-01T00:02:00Z".parse().unwrap();
        assert_eq!(
            (last_seen(&event, now), first_seen(&event, now), event_count(&event)),
            (last.to_owned(), first.to_owned(), count)
        );
    }

    #[rstest]
    #[case(json!({}), "<none>")]
    #[case(json!({"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}], "ports": [{"port": 80}, {"port": 443}]}]}),
        "1.1.1.1:80,1.1.1.2:80,1.1.1.1:443 + 1 more...")]
    #[case(json!({"subsets": [{"addresses": [{"ip": "::1"}], "ports": [{"port": 80}]}]}), "[::1]:80")]
    fn endpoints_are_cut(#[case] object: Value, #[case] shown: &str) {
        assert_eq!(endpoints(&object), shown);
    }
}
