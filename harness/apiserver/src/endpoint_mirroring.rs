//! Mirrors Endpoints that users write into endpoint slices, optional: those of services without a selector. See
//! `pkg/controller/endpointslicemirroring` of Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use http::Method;

use crate::backoff::Retries;
use crate::controllers::{ControllerClient, WatchMux, WatchSet};
use crate::event_sink::Event;
use crate::json::fields::array_field;
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::server::ApiServer;
use crate::store::ResourceId;

const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SERVICE: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Most addresses of a subset that are mirrored: `--mirroring-max-endpoints-per-subset`.
const ADDRESSES_MAX: usize = 1000;

/// Annotations that slices do not get.
const OWN_ANNOTATIONS: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

/// Mirrors Endpoints. Never returns.
pub async fn mirror_endpoints(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/endpointslicemirroring-controller");
    let resources = [("", "endpoints"), ("", "services"), ("discovery.k8s.io", "endpointslices")];
    let [endpoints, services, slices] = resources.map(|(group, plural)| ResourceId::new(group, plural));
    let mut feed = WatchMux::new(&server, WatchSet::Resources(vec![endpoints, services, slices.clone()]));
    let mut retries: Retries<(String, String)> = Retries::default();
    loop {
        let changes = feed.next_until(retries.next()).await;
        let mut due: BTreeSet<(String, String)> = retries.due(server.clock().now());
        for (resource, change) in changes {
            for object in change.objects() {
                let is_mirrored = object.label(MANAGED_BY) == Some(MANAGER);
                let name = match object.label(SERVICE).filter(|_| is_mirrored) {
                    Some(service) if resource == slices => service,
                    _ if resource == slices => continue,
                    _ => object.name(),
                };
                due.insert((object.namespace().to_owned(), name.to_owned()));
            }
        }
        for key in due {
            sync(&agent, &key.0, &key.1).await;
            let refused = agent.take_refusal();
            retries.settle(&key, refused, server.clock().now());
        }
    }
}

async fn sync(agent: &ControllerClient, namespace: &str, name: &str) {
    let server = agent.server();
    let get = |plural: &str| Some(server.decoded(&*server.get(&ResourceId::new("", plural), namespace, name)?));
    let mirrored = get("endpoints").filter(is_mirrored).filter(|_| {
        get("services").is_some_and(|service| service["spec"]["selector"].as_object().is_none_or(Map::is_empty))
    });
    let Mirror { slices: mut wanted, invalid, skipped } = mirrored.as_ref().map(Mirror::of).unwrap_or_default();
    if let Some(endpoints) = &mirrored {
        report(server, endpoints, invalid, skipped);
    }
    let collection = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    for stored in server.list(&ResourceId::new("discovery.k8s.io", "endpointslices"), Some(namespace)) {
        if stored.label(SERVICE) != Some(name) || stored.label(MANAGED_BY) != Some(MANAGER) {
            continue;
        }
        let known = server.decoded(&stored);
        let path = format!("{collection}/{}", stored.name());
        let fits = |slice: &Value| slice["addressType"] == known["addressType"] && slice["ports"] == known["ports"];
        let Some(index) = wanted.iter().position(fits) else {
            agent.send(Method::DELETE, &path, "", None).await;
            continue;
        };
        let mut slice = wanted.swap_remove(index);
        let same_metadata = ["labels", "annotations"].iter().all(|field| {
            let part =
                |object: &Value| object["metadata"].get(*field).and_then(Value::as_object).cloned().unwrap_or_default();
            part(&slice) == part(&known)
        });
        if slice["endpoints"] != known["endpoints"] || !same_metadata {
            metadata::set(&mut slice, "name", stored.name());
            metadata::set(&mut slice, "resourceVersion", metadata::resource_version(&known));
            agent.replace(&path, &slice).await;
        }
    }
    // As `finalize` in `reconciler.go`: nothing is added to what is going.
    if mirrored.is_none_or(|endpoints| metadata::is_deleted(&endpoints)) {
        return;
    }
    for slice in wanted {
        agent.create(&collection, &slice).await;
    }
}

/// Records that addresses are not mirrored: `reconcile` in `pkg/controller/endpointslicemirroring/reconciler.go`.
fn report(server: &ApiServer, endpoints: &Value, invalid: usize, skipped: usize) {
    let record = |reason: &str, message: String| {
        let about = metadata::reference("v1", "Endpoints", endpoints);
        server.events().record(Event::warning(about, "endpoint-slice-mirroring-controller", reason, message));
    };
    if invalid > 0 {
        let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
        record("InvalidIPAddress", message);
    }
    if skipped > invalid {
        let message = format!(
            "A max of {ADDRESSES_MAX} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} \
             addresses were skipped"
        );
        record("TooManyAddressesToMirror", message);
    }
}

/// Returns true unless the Endpoints say that they are not to be mirrored, or are a lock.
fn is_mirrored(endpoints: &Value) -> bool {
    let skips = metadata::labels(endpoints)
        .is_some_and(|labels| labels.get("endpointslice.kubernetes.io/skip-mirror").is_some_and(|skip| skip == "true"));
    !skips && metadata::annotation(endpoints, "control-plane.alpha.kubernetes.io/leader").is_none()
}

/// The contents of a slice.
struct MirroredEndpoints {
    ports: Vec<Value>,
    endpoints: Vec<Value>,
}

/// The slices of Endpoints, and the addresses that are in none.
#[derive(Default)]
struct Mirror {
    slices: Vec<Value>,
    /// Number of addresses that are none.
    invalid: usize,
    /// Number of addresses in no slice, those included.
    skipped: usize,
}

impl Mirror {
    fn of(endpoints: &Value) -> Self {
        let mut found: BTreeMap<(String, &'static str), MirroredEndpoints> = BTreeMap::new();
        let mut mirrored = Self::default();
        for subset in array_field(endpoints, "subsets") {
            let ports: Vec<Value> = array_field(subset, "ports").iter().map(port).collect();
            let key = serde_json::to_string(&ports).unwrap_or_default();
            let both = [("addresses", true), ("notReadyAddresses", false)];
            let addresses =
                both.iter().flat_map(|(field, ready)| array_field(subset, field).iter().map(move |one| (one, *ready)));
            let mut added = 0;
            for (address, ready) in addresses {
                if added >= ADDRESSES_MAX {
                    mirrored.skipped += 1;
                    continue;
                }
                let Some(ip) = address["ip"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok()) else {
                    mirrored.invalid += 1;
                    mirrored.skipped += 1;
                    continue;
                };
                added += 1;
                let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
                let first = || MirroredEndpoints { ports: ports.clone(), endpoints: Vec::new() };
                let group = found.entry((key.clone(), family)).or_insert_with(first);
                group.endpoints.push(endpoint(address, ip, ready));
            }
        }
        mirrored.slices = slices(endpoints, found);
        mirrored
    }
}

/// Returns the slices of Endpoints: one for each set of ports and family of addresses.
fn slices(endpoints: &Value, found: BTreeMap<(String, &'static str), MirroredEndpoints>) -> Vec<Value> {
    let name = metadata::name(endpoints);
    let mut labels = metadata::labels(endpoints).cloned().unwrap_or_default();
    labels.insert(SERVICE, name.into());
    labels.insert(MANAGED_BY, MANAGER.into());
    let annotations = endpoints["metadata"]["annotations"].as_object().into_iter().flatten();
    let annotations: Value = annotations
        .filter(|(key, _)| !OWN_ANNOTATIONS.contains(&key.as_str()))
        .map(|(key, value)| (key.to_string(), value.clone()))
        .collect();
    let owner = json!({"apiVersion": "v1", "kind": "Endpoints", "name": name, "uid": metadata::uid(endpoints),
        "controller": true, "blockOwnerDeletion": true});
    let slice = |(family, MirroredEndpoints { ports, endpoints }): (&str, MirroredEndpoints)| {
        let mut metadata = json!({"generateName": format!("{name}-"), "labels": labels, "ownerReferences": [owner]});
        if annotations.as_object().is_some_and(|annotations| !annotations.is_empty()) {
            metadata["annotations"] = annotations.clone();
        }
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
            "addressType": family, "endpoints": endpoints, "ports": ports})
    };
    found.into_iter().map(|((_, family), mirrored)| slice((family, mirrored))).collect()
}

fn port(port: &Value) -> Value {
    let mut shown = json!({"name": port["name"].as_str().unwrap_or_default(), "port": port["port"],
        "protocol": port["protocol"].as_str().unwrap_or("TCP")});
    if let Some(protocol) = port.get("appProtocol").filter(|protocol| !protocol.is_null()) {
        shown["appProtocol"] = protocol.clone();
    }
    shown
}

fn endpoint(address: &Value, ip: IpAddr, ready: bool) -> Value {
    let mut shown = json!({"addresses": [ip.to_string()], "conditions": {"ready": ready}});
    for field in ["hostname", "nodeName", "targetRef"] {
        if let Some(value) = address.get(field).filter(|value| !value.is_null() && *value != "") {
            shown[field] = value.clone();
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::controllers::MERGE_PATCH;

    fn mirrored(server: &ApiServer) -> Vec<Value> {
        let slices = server.list(&ResourceId::new("discovery.k8s.io", "endpointslices"), Some("default"));
        slices.iter().map(|slice| slice.value()).collect()
    }

    /// Addresses are mirrored, changed, and gone with the Endpoints' reason.
    #[test]
    fn endpoints_without_a_selector_are_mirrored() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            tokio::spawn(mirror_endpoints(server.clone()));
            let client = ControllerClient::new(&server, "user");
            let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "s", "labels": {"a": "b"}},
                "subsets": [{"addresses": [{"ip": "10.1.2.3"}, {"ip": "fd00::1"}], "notReadyAddresses": [{"ip": "10.1.2.4"}],
                    "ports": [{"port": 80, "name": "http"}]}]});
            assert!(client.create("/api/v1/namespaces/default/endpoints", &endpoints).await.is_ok());
            settle().await;
            assert_eq!(mirrored(&server).len(), 0, "without a service");
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
            assert!(client.create("/api/v1/namespaces/default/services", &service).await.is_ok());
            settle().await;
            let slices = mirrored(&server);
            let families: BTreeSet<&str> = slices.iter().filter_map(|slice| slice["addressType"].as_str()).collect();
            assert_eq!((slices.len(), families), (2, BTreeSet::from(["IPv4", "IPv6"])));
            let four = slices.iter().find(|slice| slice["addressType"] == "IPv4").expect("a slice");
            assert_eq!(four["metadata"]["labels"], json!({"a": "b", SERVICE: "s", MANAGED_BY: MANAGER}));
            assert_eq!(four["ports"], json!([{"name": "http", "port": 80, "protocol": "TCP"}]));
            assert_eq!(four["endpoints"], json!([{"addresses": ["10.1.2.3"], "conditions": {"ready": true}},
                {"addresses": ["10.1.2.4"], "conditions": {"ready": false}}]));
            let revision = server.revision();
            settle().await;
            assert_eq!(server.revision(), revision, "nothing more is written");

            let path = "/api/v1/namespaces/default/endpoints/s";
            let patch = json!({"metadata": {"finalizers": ["example.com/f"]}});
            assert!(client.patch(path, MERGE_PATCH, &patch).await.is_ok());
            assert!(client.delete(path, None).await.is_ok());
            let patch = json!({"subsets": [{"addresses": [{"ip": "10.1.2.3"}]}, {"addresses": [{"ip": "10.1.2.5"}],
                "ports": [{"port": 90}]}]});
            assert!(client.patch(path, MERGE_PATCH, &patch).await.is_ok());
            settle().await;
            assert_eq!(mirrored(&server).len(), 0, "no slice is added for Endpoints that are going");

            let patch = json!({"spec": {"selector": {"a": "b"}}});
            assert!(client.patch("/api/v1/namespaces/default/services/s", MERGE_PATCH, &patch).await.is_ok());
            settle().await;
            assert_eq!(mirrored(&server).len(), 0, "with a selector");
        })
        .unwrap();
    }

    /// As `TestReconcile` in `pkg/controller/endpointslicemirroring/reconciler_test.go`.
    #[test]
    fn addresses_that_are_not_mirrored_are_reported() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
            server.events().attach(sender);
            let many: Vec<Value> =
                (0..=ADDRESSES_MAX).map(|number| json!({"ip": format!("10.1.{}.{}", number / 256, number % 256)})).collect();
            let endpoints = |subsets: Value| json!({"apiVersion": "v1", "kind": "Endpoints",
                "metadata": {"name": "s", "namespace": "default"}, "subsets": subsets});
            let full = Mirror::of(&endpoints(json!([{"addresses": many}])));
            assert_eq!(array_field(&full.slices[0], "endpoints").len(), ADDRESSES_MAX);
            let odd = Mirror::of(&endpoints(json!([{"addresses": [{"ip": "10.1.2.3"}, {"ip": "none"}]}])));
            for Mirror { invalid, skipped, .. } in [full, odd] {
                report(&server, &endpoints(json!([])), invalid, skipped);
            }
            let mut shown = Vec::new();
            while let Ok(event) = events.try_recv() {
                shown.push(format!("{}: {}", event.reason, event.message));
            }
            assert_eq!(shown, [
                "TooManyAddressesToMirror: A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 \
                 addresses were skipped",
                "InvalidIPAddress: Skipped 1 invalid IP addresses when mirroring to EndpointSlices",
            ]);
        })
        .unwrap();
    }
}
