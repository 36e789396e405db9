//! The controllers of endpoints, optional: each service with a selector gets an `Endpoints` object and endpoint slices
//! with the addresses of its pods. They follow `pkg/controller/endpoint/endpoints_controller.go` and
//! `pkg/controller/endpointslice/endpointslice_controller.go`, without hints by the sizes of zones and trigger times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::Method;

use crate::backoff::{Delays, Retries};
use crate::controllers::{ControllerClient, WatchMux, WatchSet};
use crate::event_sink::Event;
use crate::json::fields::{array_field, str_field};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::pod_fields::has_ended;
use crate::server::ApiServer;
use crate::store::{ResourceId, StoredObject};

/// Largest number of endpoints of a slice.
const SLICE: usize = 100;

/// Value of `endpointslice.kubernetes.io/managed-by`.
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// Delays of the work queue of slices: `defaultSyncBackOff` and `maxSyncBackOff`.
const OF_SLICES: Delays = Delays(Duration::from_secs(1), Duration::from_secs(1000));

/// Writes endpoints and endpoint slices. Never returns.
pub async fn publish_endpoints(server: ApiServer) {
    let watched = [("", "services"), ("", "pods"), ("", "endpoints"), ("discovery.k8s.io", "endpointslices")];
    let watched = watched.map(|(group, resource)| ResourceId::new(group, resource)).to_vec();
    let mut feed = WatchMux::new(&server, WatchSet::Resources(watched));
    let client = ControllerClient::new(&server, "plumbline/endpoint-controller");
    let services = ResourceId::new("", "services");
    // Namespaces and names of services.
    let mut retries: Retries<(String, String)> = Retries::default();
    let mut without_nodes: Retries<(String, String)> = Retries::with(OF_SLICES);
    loop {
        let mut touched: BTreeSet<String> = BTreeSet::new();
        for (_, change) in feed.next_until(retries.next().into_iter().chain(without_nodes.next()).min()).await {
            change.add_namespaces(&mut touched);
        }
        let mut due = retries.due(server.clock().now());
        due.extend(without_nodes.due(server.clock().now()));
        for namespace in touched {
            let names = server.list(&services, Some(&namespace)).into_iter().map(|service| service.name().to_owned());
            due.extend(names.map(|name| (namespace.clone(), name)));
        }
        for key in due {
            let service = server.get(&services, &key.0, &key.1);
            let placed = match service {
                Some(service) => sync(&client, &key.0, &service.value()).await,
                None => true,
            };
            retries.settle(&key, client.take_refusal(), server.clock().now());
            without_nodes.settle(&key, !placed, server.clock().now());
        }
    }
}

/// A pod that a service selects.
struct Backend {
    pod: Value,
    address: String,
    ready: bool,
    terminating: bool,
}

/// Writes what a service needs. Returns false if a pod was left out because its node is missing.
async fn sync(client: &ControllerClient, namespace: &str, service: &Value) -> bool {
    let server = client.server();
    let spec = &service["spec"];
    let Some(selector) = spec["selector"].as_object().filter(|selector| !selector.is_empty()) else { return true };
    if spec["type"] == "ExternalName" {
        return true;
    }
    let mut backends: Vec<Backend> = server
        .list(&ResourceId::new("", "pods"), Some(namespace))
        .iter()
        .filter(|pod| is_selected(selector, pod))
        .filter_map(|pod| backend(pod.value()))
        .collect();
    backends.sort_by(|left, right| left.address.cmp(&right.address));
    write_endpoints(client, namespace, service, &backends).await;
    let why = if publishes_all(service) { Vec::new() } else { leave_out_without_nodes(server, service, &mut backends) };
    write_slices(client, namespace, service, &backends).await;
    report(server, service, &why);
    why.is_empty()
}

/// Leaves out the pods whose nodes are missing, and returns the reasons: `reconcileByAddressType` in
/// `staging/src/k8s.io/endpointslice/reconciler.go`.
fn leave_out_without_nodes(server: &ApiServer, service: &Value, backends: &mut Vec<Backend>) -> Vec<String> {
    let nodes = ResourceId::new("", "nodes");
    let mut why = Vec::new();
    backends.retain(|backend| {
        let node = str_field(&backend.pod["spec"], "nodeName");
        let is_placed = server.get(&nodes, "", node).is_some();
        if !is_placed {
            let (namespace, name) = (metadata::namespace(service), metadata::name(service));
            let pod = metadata::name(&backend.pod);
            why.push(format!("skipping Pod {pod} for Service {namespace}/{name}: Node {node} Not Found"));
        }
        is_placed
    });
    why
}

/// Records the reasons why slices are not complete: `syncService` in
/// `pkg/controller/endpointslice/endpointslice_controller.go`.
fn report(server: &ApiServer, service: &Value, why: &[String]) {
    let why = match why {
        [] => return,
        [why] => why.clone(),
        // An aggregate of errors names each once.
        all => format!("[{}]", all.join(", ")),
    };
    let (namespace, name) = (metadata::namespace(service), metadata::name(service));
    let message = format!("Error updating Endpoint Slices for Service {namespace}/{name}: {why}");
    let about = metadata::reference("v1", "Service", service);
    server.events().record(Event::warning(about, "endpoint-slice-controller", "FailedToUpdateEndpointSlices", message));
}

fn is_selected(selector: &Map, pod: &Arc<StoredObject>) -> bool {
    selector.iter().all(|(name, value)| value.as_str().is_some_and(|value| pod.label(name) == Some(value)))
}

/// Returns the pod if it has an address and has not ended.
fn backend(pod: Value) -> Option<Backend> {
    let status = &pod["status"];
    if has_ended(&pod) {
        return None;
    }
    let address = status["podIP"].as_str().filter(|address| !address.is_empty())?.to_owned();
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    let terminating = metadata::is_deleted(&pod);
    Some(Backend { pod, address, ready, terminating })
}

impl Backend {
    /// Returns the pod's host name, if it has one in the domain of the service: `ShouldSetHostname` in
    /// `staging/src/k8s.io/endpointslice/util/controller_utils.go`.
    fn hostname(&self, service: &Value) -> Option<&Value> {
        let spec = &self.pod["spec"];
        let is_named = spec["hostname"].as_str().is_some_and(|name| !name.is_empty());
        (is_named && spec["subdomain"] == metadata::name(service)).then_some(&spec["hostname"])
    }

    fn target(&self) -> Value {
        json!({"kind": "Pod", "namespace": metadata::namespace(&self.pod), "name": metadata::name(&self.pod),
            "uid": metadata::uid(&self.pod)})
    }

    /// Returns the number of a service's target port; `None` if the pod has no port of that name.
    fn port(&self, port: &Value) -> Option<i64> {
        let wanted = port.get("targetPort").filter(|wanted| !wanted.is_null()).unwrap_or(&port["port"]);
        let Some(name) = wanted.as_str() else { return wanted.as_i64() };
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        let containers = self.pod["spec"]["containers"].as_array().into_iter().flatten();
        let mut ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
        let found = ports.find(|port| port["name"] == name && port["protocol"].as_str().unwrap_or("TCP") == protocol);
        found.and_then(|port| port["containerPort"].as_i64())
    }
}

/// Returns the ports of a service as a pod has them; those with names that the pod does not have are left out.
fn ports(service: &Value, backend: &Backend) -> Vec<Value> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports
        .filter_map(|port| {
            let mut shown =
                json!({"port": backend.port(port)?, "protocol": port["protocol"].as_str().unwrap_or("TCP")});
            for field in ["name", "appProtocol"] {
                if let Some(value) = port.get(field).filter(|value| !value.is_null()) {
                    shown[field] = value.clone();
                }
            }
            Some(shown)
        })
        .collect()
}

/// Returns the subsets of endpoints: ports with the same pods are together. See `RepackSubsets` in
/// `pkg/api/v1/endpoints/util.go`; a port that no pod has is in none.
fn subsets(service: &Value, backends: &[Backend]) -> Vec<Value> {
    let all = publishes_all(service);
    let shown: Vec<&Backend> = backends.iter().filter(|backend| all || !backend.terminating).collect();
    // The pods of each port, by their indexes.
    let mut of_ports: BTreeMap<String, (Value, Vec<usize>)> = BTreeMap::new();
    for (index, backend) in shown.iter().enumerate() {
        let own =
            if array_field(&service["spec"], "ports").is_empty() { vec![Value::Null] } else { ports(service, backend) };
        for mut port in own {
            if let Some(port) = port.as_object_mut().filter(|port| port.get("name") == Some(&json!(""))) {
                port.remove("name");
            }
            of_ports.entry(port.to_string()).or_insert_with(|| (port, Vec::new())).1.push(index);
        }
    }
    let mut of_pods: BTreeMap<Vec<usize>, Vec<Value>> = BTreeMap::new();
    for (port, pods) in of_ports.into_values() {
        of_pods.entry(pods).or_default().extend(Some(port).filter(|port| !port.is_null()));
    }
    let address = |backend: &Backend| {
        let node = &backend.pod["spec"]["nodeName"];
        let mut address = json!({"ip": backend.address, "nodeName": node, "targetRef": backend.target()});
        if let Some(hostname) = backend.hostname(service) {
            address["hostname"] = hostname.clone();
        }
        address
    };
    let subset = |(pods, mut ports): (Vec<usize>, Vec<Value>)| {
        ports.sort_by_key(|port| order_in_service(service, port));
        let pods = || pods.iter().filter_map(|index| shown.get(*index));
        let addresses = |is_ready: bool| -> Vec<Value> {
            pods().filter(|backend| (all || backend.ready) == is_ready).map(|backend| address(backend)).collect()
        };
        let mut subset = json!({});
        for (field, values) in
            [("addresses", addresses(true)), ("notReadyAddresses", addresses(false)), ("ports", ports)]
        {
            if !values.is_empty() {
                subset[field] = Value::Array(values);
            }
        }
        subset
    };
    of_pods.into_iter().map(subset).collect()
}

/// Returns the place of a port in the spec of its service.
fn order_in_service(service: &Value, port: &Value) -> Option<usize> {
    let name = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    array_field(&service["spec"], "ports").iter().position(|one| name(one) == name(port))
}

fn publishes_all(service: &Value) -> bool {
    service["spec"]["publishNotReadyAddresses"] == true
}

/// Returns the labels of the service's endpoints: its own, and these.
fn labels(service: &Value, more: &[(&str, &str)]) -> Map {
    let mut labels = metadata::labels(service).cloned().unwrap_or_default();
    let headless = (service["spec"]["clusterIP"] == "None").then_some(("service.kubernetes.io/headless", ""));
    for (name, value) in more.iter().copied().chain(headless) {
        labels.insert(name.to_owned(), json!(value));
    }
    labels
}

async fn write_endpoints(client: &ControllerClient, namespace: &str, service: &Value, backends: &[Backend]) {
    let server = client.server();
    let name = metadata::name(service);
    let subsets = subsets(service, backends);
    let labels = labels(service, &[("endpoints.kubernetes.io/managed-by", "endpoint-controller")]);
    let collection = format!("/api/v1/namespaces/{namespace}/endpoints");
    let known = server.get(&ResourceId::new("", "endpoints"), namespace, name).map(|stored| server.decoded(&stored));
    if known.as_ref().is_some_and(|known| {
        array_field(known, "subsets") == subsets && metadata::labels(known).is_some_and(|known| *known == labels)
    }) {
        return;
    }
    let is_new = known.is_none();
    // What others wrote to the other fields stays.
    let mut endpoints = known
        .unwrap_or_else(|| json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}, "subsets": []}));
    metadata::set(&mut endpoints, "labels", labels);
    endpoints["subsets"] = if subsets.is_empty() { Value::Null } else { subsets.into() };
    if is_new {
        client.create(&collection, &endpoints).await;
    } else {
        client.replace(&format!("{collection}/{name}"), &endpoints).await;
    }
}

/// Returns an endpoint of a slice.
fn slice_endpoint(server: &ApiServer, service: &Value, backend: &Backend) -> Value {
    let zone = |node: &str| {
        let stored = server.get(&ResourceId::new("", "nodes"), "", node)?;
        let node = server.decoded(&stored);
        metadata::label(&node, "topology.kubernetes.io/zone").map(str::to_owned)
    };
    let is_ready = publishes_all(service) || backend.ready && !backend.terminating;
    let mut endpoint = json!({"addresses": [backend.address], "nodeName": backend.pod["spec"]["nodeName"],
        "targetRef": backend.target(), "conditions": {"ready": is_ready, "serving": backend.ready,
            "terminating": backend.terminating}});
    if let Some(hostname) = backend.hostname(service) {
        endpoint["hostname"] = hostname.clone();
    }
    if let Some(zone) = backend.pod["spec"]["nodeName"].as_str().and_then(zone) {
        endpoint["zone"] = json!(zone);
    }
    if let Some(hints) = hints(service, &endpoint) {
        endpoint["hints"] = hints;
    }
    endpoint
}

/// Returns the ports and the endpoints of the slices by the key of their ports: pods with other ports are in other
/// slices (`NewPortMapKey`).
fn endpoints_by_ports(
    server: &ApiServer,
    service: &Value,
    backends: &[Backend],
) -> BTreeMap<String, (Vec<Value>, Vec<Value>)> {
    let mut by_ports: BTreeMap<String, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
    for backend in backends {
        let ports = slice_ports(service, backend);
        let group = by_ports.entry(port_key(&ports)).or_insert_with(|| (ports, Vec::new()));
        group.1.push(slice_endpoint(server, service, backend));
    }
    if by_ports.is_empty() {
        // A service without pods has one slice without endpoints, as upstream's.
        by_ports.insert(String::new(), (Vec::new(), Vec::new()));
    }
    by_ports
}

async fn write_slices(client: &ControllerClient, namespace: &str, service: &Value, backends: &[Backend]) {
    let client = client.named("plumbline/endpoint-slice-controller");
    let server = client.server();
    let name = metadata::name(service);
    let by_ports = endpoints_by_ports(server, service, backends);
    let more = [("kubernetes.io/service-name", name), ("endpointslice.kubernetes.io/managed-by", MANAGER)];
    let labels = labels(service, &more);
    let owner = json!({"apiVersion": "v1", "kind": "Service", "name": name, "uid": metadata::uid(service),
        "controller": true, "blockOwnerDeletion": true});
    let wanted = |ports: &[Value], chunk: &[Value]| {
        let metadata = json!({"generateName": format!("{name}-"), "labels": labels, "ownerReferences": [owner]});
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
            "addressType": "IPv4", "endpoints": chunk, "ports": ports})
    };
    let collection = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    let known: Vec<Value> = server
        .list(&ResourceId::new("discovery.k8s.io", "endpointslices"), Some(namespace))
        .iter()
        .filter(|slice| slice.label("kubernetes.io/service-name") == Some(name))
        .filter(|slice| slice.label("endpointslice.kubernetes.io/managed-by") == Some(MANAGER))
        .map(|slice| server.decoded(slice))
        .filter(|slice| !metadata::is_deleted(slice))
        .collect();
    let (mut known_by_ports, mut surplus): (BTreeMap<String, Vec<Value>>, Vec<Value>) = Default::default();
    for slice in known {
        let key = port_key(array_field(&slice, "ports"));
        // Those with other ports, or of an earlier service of this name, are replaced.
        let is_own = metadata::controller(&slice).is_some_and(|owner| owner["uid"] == metadata::uid(service));
        let is_kept = is_own && by_ports.contains_key(&key);
        let place = if is_kept { known_by_ports.entry(key).or_default() } else { &mut surplus };
        place.push(slice);
    }
    for (key, (ports, endpoints)) in &by_ports {
        let mut chunks: Vec<&[Value]> = endpoints.chunks(SLICE).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        let mut known = known_by_ports.remove(key).unwrap_or_default().into_iter();
        for chunk in chunks {
            let slice = wanted(ports, chunk);
            let Some(mut old) = known.next() else {
                // Those of a service that is being deleted would be new garbage: `finalize`.
                if !metadata::is_deleted(service) {
                    client.create(&collection, &slice).await;
                }
                continue;
            };
            let same = array_field(&old, "endpoints") == array_field(&slice, "endpoints");
            if !same || metadata::labels(&old) != metadata::labels(&slice) {
                // What others wrote to the other fields stays.
                old["endpoints"] = slice["endpoints"].clone();
                metadata::set(&mut old, "labels", labels.clone());
                client.replace(&format!("{collection}/{}", metadata::name(&old)), &old).await;
            }
        }
        surplus.extend(known);
    }
    for old in surplus {
        client.send(Method::DELETE, &format!("{collection}/{}", metadata::name(&old)), "", None).await;
    }
}

/// Returns the zone and the node that an endpoint is meant for, if its service wants traffic to stay near: `update` in
/// `staging/src/k8s.io/endpointslice/trafficdist/trafficdist.go`.
fn hints(service: &Value, endpoint: &Value) -> Option<Value> {
    /// Asks for hints by the sizes of zones, which are not simulated.
    const TOPOLOGY: [&str; 2] = ["service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"];
    let distribution = str_field(&service["spec"], "trafficDistribution");
    let mode = TOPOLOGY.iter().find_map(|name| metadata::annotation(service, name));
    let by_size = matches!(mode, Some("Auto" | "auto"));
    let is_near = matches!(distribution, "PreferClose" | "PreferSameZone" | "PreferSameNode");
    if !is_near || by_size || endpoint["conditions"]["ready"] != true {
        return None;
    }
    let mut hints = json!({});
    let node = &endpoint["nodeName"];
    if let Some(zone) = endpoint.get("zone") {
        hints["forZones"] = json!([{"name": zone}]);
    }
    if distribution == "PreferSameNode" && node.is_string() {
        hints["forNodes"] = json!([{"name": node}]);
    }
    hints.as_object().is_some_and(|hints| !hints.is_empty()).then_some(hints)
}

/// Returns the ports of a service in a slice with a pod; each has a name, which may be empty.
fn slice_ports(service: &Value, backend: &Backend) -> Vec<Value> {
    let mut ports = ports(service, backend);
    for port in ports.iter_mut().filter(|port| port.get("name").is_none()) {
        port["name"] = "".into();
    }
    ports
}

/// Returns a text that is the same for lists of the same ports.
fn port_key(ports: &[Value]) -> String {
    let fields = ["name", "protocol", "port", "appProtocol"];
    let mut keys: Vec<String> =
        ports.iter().map(|port| fields.map(|field| port[field].to_string()).join(" ")).collect();
    keys.sort();
    keys.join(",")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::controllers::MERGE_PATCH;

    fn pod(number: usize, is_ready: bool) -> Value {
        let status = if is_ready { "True" } else { "False" };
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{number}"), "labels": {"app": "x"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i",
                "ports": [{"name": "web", "containerPort": 8080}]}]},
            "status": {"phase": "Running", "podIP": format!("10.0.0.{number}"),
                "conditions": [{"type": "Ready", "status": status}]}})
    }

    fn node() -> Value {
        let labels = json!({"topology.kubernetes.io/zone": "z1"});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}})
    }

    fn service() -> Value {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "labels": {"tier": "web"}}, "spec": {
            "selector": {"app": "x"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]}})
    }

    fn of(server: &ApiServer, group: &str, resource: &str) -> Vec<Value> {
        server.list(&ResourceId::new(group, resource), Some("default")).iter().map(|stored| stored.value()).collect()
    }

    #[test]
    fn services_follow_their_pods() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            server.seed([node(), pod(2, true), pod(1, false)]).unwrap();
            tokio::spawn(publish_endpoints(server.clone()));
            let client = ControllerClient::new(&server, "user");
            assert!(client.create("/api/v1/namespaces/default/services", &service()).await.is_ok());
            settle().await;
            let endpoints = of(&server, "", "endpoints");
            let subset = &endpoints[0]["subsets"][0];
            assert_eq!(subset["addresses"][0]["ip"], "10.0.0.2");
            assert_eq!(subset["notReadyAddresses"][0]["targetRef"]["name"], "p1");
            assert_eq!(subset["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
            let slices = of(&server, "discovery.k8s.io", "endpointslices");
            assert_eq!(slices.len(), 1);
            assert_eq!(slices[0]["metadata"]["labels"]["tier"], "web");
            let ready: Vec<_> =
                slices[0]["endpoints"].as_array().unwrap().iter().map(|e| &e["conditions"]["ready"]).collect();
            assert_eq!(ready, [&json!(false), &json!(true)]);

            // A pod that leaves leaves the endpoints; nothing is written once all is well.
            assert!(
                client
                    .delete("/api/v1/namespaces/default/pods/p2", Some(&json!({"gracePeriodSeconds": 0})))
                    .await
                    .is_ok()
            );
            settle().await;
            let endpoints = of(&server, "", "endpoints");
            assert_eq!(endpoints[0]["subsets"][0].get("addresses"), None);
            let revision = server.revision();
            client
                .patch("/api/v1/namespaces/default/pods/p1", MERGE_PATCH, &json!({"metadata": {"labels": {"b": "c"}}}))
                .await;
            settle().await;
            assert_eq!(server.revision(), revision + 1, "only the patch");
        })
        .unwrap();
    }

    /// See `podToEndpoint` in `staging/src/k8s.io/endpointslice/utils.go`, and `podToEndpointAddressForService` in
    /// `pkg/controller/endpoint/endpoints_controller.go`.
    #[test]
    fn endpoints_have_host_names_and_zones() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            let mut named = pod(1, true);
            (named["spec"]["hostname"], named["spec"]["subdomain"]) = (json!("web-0"), json!("s"));
            let mut elsewhere = pod(2, true);
            (elsewhere["spec"]["hostname"], elsewhere["spec"]["subdomain"]) = (json!("web-1"), json!("other"));
            server.seed([node(), named, elsewhere, service()]).unwrap();
            tokio::spawn(publish_endpoints(server.clone()));
            settle().await;
            let slice = &of(&server, "discovery.k8s.io", "endpointslices")[0]["endpoints"];
            let subset = &of(&server, "", "endpoints")[0]["subsets"][0]["addresses"];
            for list in [slice, subset] {
                assert_eq!((&list[0]["hostname"], list[1].get("hostname")), (&json!("web-0"), None), "{list}");
            }
            assert_eq!(slice[1]["zone"], "z1");
        })
        .unwrap();
    }

    /// As `TestReconcileHints` in `staging/src/k8s.io/endpointslice/trafficdist/trafficdist_test.go`.
    #[rstest]
    #[case::anywhere("", true, json!({"nodeName": "n", "zone": "z"}), None)]
    #[case::close("PreferClose", true, json!({"nodeName": "n", "zone": "z"}), Some(json!({"forZones": [{"name": "z"}]})))]
    #[case::zone("PreferSameZone", true, json!({"nodeName": "n", "zone": "z"}), Some(json!({"forZones": [{"name": "z"}]})))]
    #[case::node("PreferSameNode", true, json!({"nodeName": "n", "zone": "z"}),
        Some(json!({"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]})))]
    #[case::no_zone("PreferSameNode", true, json!({"nodeName": "n"}), Some(json!({"forNodes": [{"name": "n"}]})))]
    #[case::unready("PreferClose", false, json!({"nodeName": "n", "zone": "z"}), None)]
    fn endpoints_have_hints(
        #[case] distribution: &str,
        #[case] ready: bool,
        #[case] endpoint: Value,
        #[case] expected: Option<Value>,
    ) {
        let mut service = json!({"spec": {"trafficDistribution": distribution}});
        let mut endpoint = endpoint;
        endpoint["conditions"] = json!({"ready": ready});
        assert_eq!(hints(&service, &endpoint), expected);
        metadata::set_annotation(&mut service, "service.kubernetes.io/topology-mode", "Auto");
        assert_eq!(hints(&service, &endpoint), None);
    }

    /// A rollout that changes the number of a named port: `reconcileByAddressType` in
    /// `staging/src/k8s.io/endpointslice/reconciler.go`, `RepackSubsets` in `pkg/api/v1/endpoints/util.go`.
    #[test]
    fn pods_whose_named_ports_differ_are_in_other_slices() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            let mut new = pod(2, true);
            new["spec"]["containers"][0]["ports"] = json!([{"name": "web", "containerPort": 8081}]);
            let mut without = pod(3, true);
            without["spec"]["containers"][0]["ports"] = json!([]);
            let mut both = service();
            both["spec"]["ports"] = json!([{"name": "http", "port": 80, "targetPort": "web"},
                {"name": "metrics", "port": 9090}]);
            server.seed([node(), pod(1, true), new, without, both]).unwrap();
            tokio::spawn(publish_endpoints(server.clone()));
            settle().await;
            let numbers = |list: &Value| -> Vec<i64> {
                list.as_array().into_iter().flatten().filter_map(|port| port["port"].as_i64()).collect()
            };
            let mut slices: Vec<(String, Vec<i64>)> = of(&server, "discovery.k8s.io", "endpointslices")
                .iter()
                .map(|slice| {
                    let addresses = slice["endpoints"].as_array().into_iter().flatten();
                    let addresses: Vec<&str> = addresses.filter_map(|one| one["addresses"][0].as_str()).collect();
                    (addresses.join(" "), numbers(&slice["ports"]))
                })
                .collect();
            slices.sort();
            let expected = [("10.0.0.1", vec![8080, 9090]), ("10.0.0.2", vec![8081, 9090]), ("10.0.0.3", vec![9090])];
            assert_eq!(slices, expected.map(|(address, ports)| (address.to_owned(), ports)));
            let mut subsets: Vec<(usize, Vec<i64>)> = of(&server, "", "endpoints")[0]["subsets"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|subset| (subset["addresses"].as_array().map_or(0, Vec::len), numbers(&subset["ports"])))
                .collect();
            subsets.sort();
            assert_eq!(subsets, [(1, vec![8080]), (1, vec![8081]), (3, vec![9090])]);
            let revision = server.revision();
            let client = ControllerClient::new(&server, "user");
            let path = "/api/v1/namespaces/default/pods/p1";
            client.patch(path, MERGE_PATCH, &json!({"metadata": {"labels": {"b": "c"}}})).await;
            settle().await;
            assert_eq!(server.revision(), revision + 1, "only the patch");
        })
        .unwrap();
    }

    /// The cases "Node doesn't exist" of `TestReconcile…MissingNode…` in
    /// `staging/src/k8s.io/endpointslice/reconciler_test.go`: the pod is left out of the slices, and comes back later.
    #[test]
    fn pods_of_missing_nodes_are_not_in_slices() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            let mut lost = pod(2, true);
            lost["spec"]["nodeName"] = "n2".into();
            let mut all = service();
            (all["metadata"]["name"], all["spec"]["publishNotReadyAddresses"]) = ("all".into(), true.into());
            server.seed([node(), pod(1, true), lost, service(), all]).unwrap();
            let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
            server.events().attach(sender);
            tokio::spawn(publish_endpoints(server.clone()));
            settle().await;
            let listed = |service: &str| -> Vec<String> {
                let slices = of(&server, "discovery.k8s.io", "endpointslices");
                let own =
                    slices.iter().filter(|slice| metadata::label(slice, "kubernetes.io/service-name") == Some(service));
                let endpoints = own.flat_map(|slice| array_field(slice, "endpoints").to_vec());
                endpoints.map(|endpoint| str_field(&endpoint["targetRef"], "name").to_owned()).collect()
            };
            assert_eq!((listed("s"), listed("all").len()), (vec!["p1".to_owned()], 2));
            let subset = of(&server, "", "endpoints")[1]["subsets"][0]["addresses"].clone();
            assert_eq!(subset.as_array().map(Vec::len), Some(2), "endpoints do not ask for nodes");
            let event = events.recv().await.expect("an event");
            assert_eq!((&*event.reason, &event.about["name"]), ("FailedToUpdateEndpointSlices", &json!("s")));
            let why = "Error updating Endpoint Slices for Service default/s: skipping Pod p2 for Service default/s: \
                       Node n2 Not Found";
            assert_eq!(event.message, why);
            let client = ControllerClient::new(&server, "user");
            let mut second = node();
            second["metadata"]["name"] = "n2".into();
            assert!(client.create("/api/v1/nodes", &second).await.is_ok());
            server.clock().sleep(Duration::from_secs(2)).await;
            settle().await;
            assert_eq!(listed("s"), ["p1", "p2"]);
        })
        .unwrap();
    }

    /// `finalize` in `staging/src/k8s.io/endpointslice/reconciler.go` skips only creations, and both controllers start
    /// from a copy of what is stored.
    #[test]
    fn a_service_that_is_being_deleted_follows_its_pods_and_leaves_other_fields_alone() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            server.seed([node(), pod(1, true), pod(2, true), service()]).unwrap();
            tokio::spawn(publish_endpoints(server.clone()));
            settle().await;
            let client = ControllerClient::new(&server, "user");
            let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
            let slice = of(&server, "discovery.k8s.io", "endpointslices").remove(0);
            let slice = format!("{slices}/{}", metadata::name(&slice));
            let endpoints = "/api/v1/namespaces/default/endpoints/s".to_owned();
            let wait = json!({"metadata": {"finalizers": ["example.com/wait"], "annotations": {"a": "b"}}});
            for path in ["/api/v1/namespaces/default/services/s", &slice, &endpoints] {
                assert!(client.patch(path, MERGE_PATCH, &wait).await.is_ok());
            }
            assert!(client.delete("/api/v1/namespaces/default/services/s", None).await.is_ok());
            let at_once = json!({"gracePeriodSeconds": 0});
            client.delete("/api/v1/namespaces/default/pods/p1", Some(&at_once)).await;
            settle().await;
            let slice_now = of(&server, "discovery.k8s.io", "endpointslices").remove(0);
            let endpoints_now = of(&server, "", "endpoints").remove(0);
            assert_eq!(array_field(&slice_now, "endpoints").len(), 1);
            assert_eq!(array_field(&endpoints_now["subsets"][0], "addresses").len(), 1);
            for object in [&slice_now, &endpoints_now] {
                assert_eq!(metadata::annotation(object, "a"), Some("b"));
                assert!(metadata::has_finalizers(object));
            }
            client.delete(&slice, None).await;
            client.delete("/api/v1/namespaces/default/pods/p2", Some(&at_once)).await;
            settle().await;
            let slices = of(&server, "discovery.k8s.io", "endpointslices");
            assert_eq!((slices.len(), array_field(&slices[0], "endpoints").len()), (1, 1), "it is not used any more");
        })
        .unwrap();
    }

    #[test]
    fn many_pods_need_several_slices() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            server.seed((1..=120).map(|number| pod(number, true)).chain([node(), service()])).unwrap();
            tokio::spawn(publish_endpoints(server.clone()));
            settle().await;
            let sizes = |server: &ApiServer| -> Vec<usize> {
                let slices = of(server, "discovery.k8s.io", "endpointslices");
                slices.iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).collect()
            };
            assert_eq!(sizes(&server).iter().sum::<usize>(), 120);
            assert_eq!(sizes(&server).len(), 2);
            let client = ControllerClient::new(&server, "user");
            for number in 21..=120 {
                let path = format!("/api/v1/namespaces/default/pods/p{number}");
                assert!(client.delete(&path, Some(&json!({"gracePeriodSeconds": 0}))).await.is_ok());
            }
            settle().await;
            assert_eq!(sizes(&server), [20], "the second slice is deleted");
        })
        .unwrap();
    }
}
