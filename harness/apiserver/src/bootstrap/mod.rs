//! Objects that kube-apiserver creates when it starts, as far as clients look for them: the service
//! `default/kubernetes` with its endpoints and address, the service CIDR, the system's priority classes, roles and
//! bindings. Namespaces exist already. Follows `pkg/controlplane` of Kubernetes 1.36.

mod field_ownership;
mod flow_control;
mod roles;

use std::net::SocketAddr;

use field_ownership::{MANAGER, field_set, labels, manager_entry};
use serde_json::{Value, json};

/// Returns the objects of a server at this address that starts at `now`.
pub fn objects(address: SocketAddr, now: jiff::Timestamp) -> Vec<Value> {
    let mut objects = cluster_objects(now);
    objects.extend(kubernetes_service(address));
    objects.extend(roles::objects());
    objects.extend(flow_control::objects(now));
    for object in &mut objects {
        let api_version = object["apiVersion"].clone();
        let time = format!("{now:.0}");
        for entry in object["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
            entry["apiVersion"] = api_version.clone();
            entry["time"] = time.as_str().into();
            entry["fieldsType"] = "FieldsV1".into();
        }
    }
    objects
}

/// Returns the config map from which servers of aggregated APIs read the authority of client certificates, in PEM
/// (`pkg/controlplane/controller/clusterauthenticationtrust`).
pub fn client_authority(pem: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"client-ca-file": pem},
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"}})
}

fn cluster_objects(now: jiff::Timestamp) -> Vec<Value> {
    let priority = |name: &str, value: i64, description: &str| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name, "generation": 1,
                "managedFields": manager_entry(MANAGER, field_set(&["description", "preemptionPolicy", "value"]))},
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority"})
    };
    let today = now.strftime("%Y-%m-%d").to_string();
    let tracking = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"since": today},
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system",
            "managedFields": manager_entry(MANAGER, json!({"f:data": {".": {}, "f:since": {}}}))}});
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": format!("{now:.0}"), "reason": "",
        "message": "Kubernetes default Service CIDR is ready"});
    let described = json!({"manager": "kubernetes-service-cidr-controller", "operation": "Apply", "subresource": "status",
        "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}":
            {".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:status": {}, "f:type": {}}}}}});
    let made = json!({"manager": MANAGER, "operation": "Update", "fieldsV1": {"f:spec": {"f:cidrs": {}}}});
    let range = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes", "managedFields": [described, made],
            "finalizers": ["networking.k8s.io/service-cidr-finalizer"]},
        "spec": {"cidrs": ["10.0.0.0/24"]}, "status": {"conditions": [ready]}});
    vec![
        tracking,
        range,
        priority(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        priority(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ]
}

/// Returns the service of the API server itself, with its address and endpoints.
fn kubernetes_service(server: SocketAddr) -> [Value; 4] {
    let ip = server.ip().to_string();
    let port = server.port();
    let family = if server.is_ipv4() { "IPv4" } else { "IPv6" };
    let mut spec = field_set(&["clusterIP", "internalTrafficPolicy", "ipFamilyPolicy", "sessionAffinity", "type"]);
    let mut ports = json!({".": {}});
    ports["k:{\"port\":443,\"protocol\":\"TCP\"}"] =
        json!({".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}});
    spec["f:ports"] = ports;
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
            "managedFields": manager_entry(MANAGER, json!({"f:metadata": labels(&["component", "provider"]), "f:spec": spec}))},
        "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]},
        "status": {"loadBalancer": {}}});
    let managed_by = ["ipaddress.kubernetes.io/ip-family", "ipaddress.kubernetes.io/managed-by"];
    let mut parent = field_set(&["name", "namespace", "resource"]);
    parent["."] = json!({});
    let address = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": "10.0.0.1", "labels": {managed_by[0]: "IPv4", managed_by[1]: "ipallocator.k8s.io"},
            "managedFields":
                manager_entry(MANAGER, json!({"f:metadata": labels(&managed_by), "f:spec": {"f:parentRef": parent}}))},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}}});
    let skip = "endpointslice.kubernetes.io/skip-mirror";
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {skip: "true"},
            "managedFields": manager_entry(MANAGER, json!({"f:metadata": labels(&[skip]), "f:subsets": {}}))},
        "subsets": [{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}]});
    let of = "kubernetes.io/service-name";
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "kubernetes", "namespace": "default", "generation": 1, "labels": {of: "kubernetes"},
            "managedFields": manager_entry(MANAGER,
                json!({"f:addressType": {}, "f:endpoints": {}, "f:metadata": labels(&[of]), "f:ports": {}}))},
        "addressType": family, "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "protocol": "TCP", "port": port}]});
    [service, address, endpoints, slice]
}
