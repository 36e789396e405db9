//! Facts about a service that its defaults, its validation and its allocation use. PURE.

use crate::json::Value;
use crate::json::fields::{array_field, spec_of, str_field};

pub(super) fn kind_of(service: &Value) -> &str {
    str_field(spec_of(service), "type")
}

/// Returns true if services of this type have a policy for traffic within the cluster.
pub(super) fn needs_address(kind: &str) -> bool {
    matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer")
}

/// Returns true if a service has a cluster IP, be it `None`. One of an unknown type has, until it is refused.
pub(super) fn has_cluster_ip(service: &Value) -> bool {
    kind_of(service) != "ExternalName"
}

/// Returns true if the ports of a service can have node ports.
pub(super) fn needs_node_port(service: &Value) -> bool {
    matches!(kind_of(service), "NodePort" | "LoadBalancer")
}

/// Returns true if ports without a node port get one.
pub(super) fn allocates_node_ports(service: &Value) -> bool {
    match kind_of(service) {
        "NodePort" => true,
        "LoadBalancer" => spec_of(service).get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    }
}

/// Returns the node port of a port; 0 for none.
pub(super) fn node_port(port: &Value) -> i64 {
    port.get("nodePort").and_then(Value::as_i64).unwrap_or(0)
}

/// Returns true if load balancers must check which nodes have a local endpoint.
pub(super) fn needs_health_check(service: &Value) -> bool {
    kind_of(service) == "LoadBalancer" && str_field(spec_of(service), "externalTrafficPolicy") == "Local"
}

pub(super) fn is_headless(service: &Value) -> bool {
    matches!(array_field(spec_of(service), "clusterIPs"), [only] if only == "None")
}

/// Returns true if the service is externally accessible, so that an external traffic policy applies.
pub(super) fn is_external(service: &Value) -> bool {
    match kind_of(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !array_field(spec_of(service), "externalIPs").is_empty(),
        _ => false,
    }
}
