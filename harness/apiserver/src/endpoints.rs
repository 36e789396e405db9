//! The controllers of endpoints, optional: each service with a selector gets an `Endpoints` object and endpoint slices
//! with the addresses of its pods. They follow `pkg/controller/endpoint/endpoints_controller.go` and
//! `pkg/controller/endpointslice/endpointslice_controller.go`, without topology hints and trigger times.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;

use crate::backoff::Retries;
use crate::controllers::{ControllerClient, WatchMux, WatchSet};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::server::ApiServer;
use crate::store::{ResourceId, StoredObject};

/// Largest number of endpoints of a slice.
const SLICE: usize = 100;

/// Value of `endpointslice.kubernetes.io/managed-by`.
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// Writes endpoints and endpoint slices. Never returns.
pub async fn publish_endpoints(server: ApiServer) {
    let watched = [("", "services"), ("", "pods"), ("", "endpoints"), ("discovery.k8s.io", "endpointslices")];
    let watched = watched.map(|(group, resource)| ResourceId::new(group, resource)).to_vec();
    let mut feed = WatchMux::new(&server, WatchSet::Resources(watched));
    let client = ControllerClient::new(&server, "plumbline/endpoint-controller");
    let services = ResourceId::new("", "services");
    // Namespaces and names of services.
    let mut retries: Retries<(String, String)> = Retries::default();
    loop {
        let mut touched: BTreeSet<String> = BTreeSet::new();
        for (_, change) in feed.next_until(retries.next()).await {
            change.add_namespaces(&mut touched);
        }
        let mut due = retries.due(server.clock().now());
        for namespace in touched {
            let names = server.list(&services, Some(&namespace)).into_iter().map(|service| service.name().to_owned());
            due.extend(names.map(|name| (namespace.clone(), name)));
        }
        for key in due {
            if let Some(service) = server.get(&services, &key.0, &key.1) {
                sync(&client, &key.0, &service.value()).await;
            }
            retries.settle(&key, client.take_refusal(), server.clock().now());
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

/// Writes what a service needs.
async fn sync(client: &ControllerClient, namespace: &str, service: &Value) {
    let server = client.server();
    let spec = &service["spec"];
    let Some(selector) = spec["selector"].as_object().filter(|selector| !selector.is_empty()) else { return };
    if spec["type"] == "ExternalName" || metadata::is_deleted(service) {
        return;
    }
    let mut backends: Vec<Backend> = server
        .list(&ResourceId::new("", "pods"), Some(namespace))
        .iter()
        .filter(|pod| is_selected(selector, pod))
        .filter_map(|pod| backend(pod.value()))
        .collect();
    backends.sort_by(|left, right| left.address.cmp(&right.address));
    let ports = ports(service, &backends);
    write_endpoints(client, namespace, service, &backends, &ports).await;
    write_slices(client, namespace, service, &backends, &ports).await;
}

fn is_selected(selector: &Map, pod: &Arc<StoredObject>) -> bool {
    selector.iter().all(|(name, value)| value.as_str().is_some_and(|value| pod.label(name) == Some(value)))
}

/// Returns the pod if it has an address and has not ended.
fn backend(pod: Value) -> Option<Backend> {
    let status = &pod["status"];
    if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
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

/// Returns the ports of the service as its pods have them.
fn ports(service: &Value, backends: &[Backend]) -> Vec<Value> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports
        .filter_map(|port| {
            let number = backends.iter().find_map(|backend| backend.port(port))?;
            let mut shown = json!({"port": number, "protocol": port["protocol"].as_str().unwrap_or("TCP")});
            for field in ["name", "appProtocol"] {
                if let Some(value) = port.get(field).filter(|value| !value.is_null()) {
                    shown[field] = value.clone();
                }
            }
            Some(shown)
        })
        .collect()
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

async fn write_endpoints(
    client: &ControllerClient,
    namespace: &str,
    service: &Value,
    backends: &[Backend],
    ports: &[Value],
) {
    let server = client.server();
    let name = metadata::name(service);
    let all = publishes_all(service);
    let shown = |is_ready: bool| -> Vec<Value> {
        let fitting = backends.iter().filter(|backend| all || !backend.terminating);
        let fitting = fitting.filter(|backend| (all || backend.ready) == is_ready);
        let address = |backend: &Backend| {
            let node = &backend.pod["spec"]["nodeName"];
            let mut address = json!({"ip": backend.address, "nodeName": node, "targetRef": backend.target()});
            if let Some(hostname) = backend.hostname(service) {
                address["hostname"] = hostname.clone();
            }
            address
        };
        fitting.map(address).collect()
    };
    let mut subset = json!({});
    for (field, values) in [("addresses", shown(true)), ("notReadyAddresses", shown(false)), ("ports", ports.to_vec())]
    {
        if !values.is_empty() {
            subset[field] = Value::Array(values);
        }
    }
    let is_empty = subset.get("addresses").is_none() && subset.get("notReadyAddresses").is_none();
    let labels = labels(service, &[("endpoints.kubernetes.io/managed-by", "endpoint-controller")]);
    let mut wanted = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "labels": labels}});
    if !is_empty {
        wanted["subsets"] = json!([subset]);
    }
    let collection = format!("/api/v1/namespaces/{namespace}/endpoints");
    match server.get(&ResourceId::new("", "endpoints"), namespace, name) {
        None => {
            client.create(&collection, &wanted).await;
        }
        Some(stored) => {
            let known = stored.value();
            let same = |path: &str| known.pointer(path) == wanted.pointer(path);
            if !same("/subsets") || !same("/metadata/labels") {
                metadata::set(&mut wanted, "resourceVersion", metadata::resource_version(&known));
                client.replace(&format!("{collection}/{name}"), &wanted).await;
            }
        }
    }
}

async fn write_slices(
    client: &ControllerClient,
    namespace: &str,
    service: &Value,
    backends: &[Backend],
    ports: &[Value],
) {
    let client = client.named("plumbline/endpoint-slice-controller");
    let server = client.server();
    let name = metadata::name(service);
    let all = publishes_all(service);
    let zone = |node: &str| {
        let stored = server.get(&ResourceId::new("", "nodes"), "", node)?;
        let node = server.decoded(&stored);
        metadata::label(&node, "topology.kubernetes.io/zone").map(str::to_owned)
    };
    let endpoint = |backend: &Backend| {
        let mut endpoint = json!({"addresses": [backend.address], "nodeName": backend.pod["spec"]["nodeName"],
            "targetRef": backend.target(), "conditions": {"ready": all || backend.ready && !backend.terminating,
                "serving": backend.ready, "terminating": backend.terminating}});
        if let Some(hostname) = backend.hostname(service) {
            endpoint["hostname"] = hostname.clone();
        }
        if let Some(zone) = backend.pod["spec"]["nodeName"].as_str().and_then(zone) {
            endpoint["zone"] = json!(zone);
        }
        endpoint
    };
    let endpoints: Vec<Value> = backends.iter().map(endpoint).collect();
    let more = [("kubernetes.io/service-name", name), ("endpointslice.kubernetes.io/managed-by", MANAGER)];
    let labels = labels(service, &more);
    let owner = json!({"apiVersion": "v1", "kind": "Service", "name": name, "uid": metadata::uid(service),
        "controller": true, "blockOwnerDeletion": true});
    // A service without pods has one slice without endpoints, as upstream's.
    let mut chunks: Vec<&[Value]> = endpoints.chunks(SLICE).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let wanted = |chunk: &[Value]| {
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
        .map(|slice| slice.value())
        .collect();
    for (index, chunk) in chunks.iter().enumerate() {
        let mut slice = wanted(chunk);
        let Some(old) = known.get(index) else {
            client.create(&collection, &slice).await;
            continue;
        };
        let list = |object: &Value, field: &str| object[field].as_array().cloned().unwrap_or_default();
        let same = ["endpoints", "ports"].iter().all(|field| list(old, field) == list(&slice, field));
        if !same || metadata::labels(old) != metadata::labels(&slice) {
            metadata::set(&mut slice, "name", metadata::name(old));
            metadata::set(&mut slice, "resourceVersion", metadata::resource_version(old));
            client.replace(&format!("{collection}/{}", metadata::name(old)), &slice).await;
        }
    }
    for old in known.iter().skip(chunks.len()) {
        client.send(Method::DELETE, &format!("{collection}/{}", metadata::name(old)), "", None).await;
    }
}

#[cfg(test)]
mod tests {
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
            server.seed([pod(2, true), pod(1, false)]).unwrap();
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
            let labels = json!({"topology.kubernetes.io/zone": "z1"});
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}});
            let mut named = pod(1, true);
            (named["spec"]["hostname"], named["spec"]["subdomain"]) = (json!("web-0"), json!("s"));
            let mut elsewhere = pod(2, true);
            (elsewhere["spec"]["hostname"], elsewhere["spec"]["subdomain"]) = (json!("web-1"), json!("other"));
            server.seed([node, named, elsewhere, service()]).unwrap();
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

    #[test]
    fn many_pods_need_several_slices() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            server.seed((1..=120).map(|number| pod(number, true)).chain([service()])).unwrap();
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
