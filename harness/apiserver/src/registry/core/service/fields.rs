//! Facts about a service that its defaults, its validation and its allocation use. PURE.

use crate::json::Value;
use crate::json::fields::{array_field, spec_of, str_field};

pub(super) fn kind_of(service: &Value) -> &str {
    str_field(spec_of(service), "type")
}

/// Returns true if services of this type have a cluster IP.
pub(super) fn needs_address(kind: &str) -> bool {
    matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer")
}

pub(super) fn needs_node_port(service: &Value) -> bool {
    match kind_of(service) {
        "NodePort" => true,
        "LoadBalancer" => spec_of(service).get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    }
}

/// Returns true if load balancers must check which nodes have a local endpoint.
pub(super) fn needs_health_check(service: &Value) -> bool {
    kind_of(service) == "LoadBalancer" && str_field(spec_of(service), "externalTrafficPolicy") == "Local"
}

pub(super) fn is_headless(service: &Value) -> bool {
    array_field(spec_of(service), "clusterIPs").first().is_some_and(|ip| ip == "None")
}

/// Returns true if the service is externally accessible, so that an external traffic policy applies.
pub(super) fn is_external(service: &Value) -> bool {
    match kind_of(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !array_field(spec_of(service), "externalIPs").is_empty(),
        _ => false,
    }
}
