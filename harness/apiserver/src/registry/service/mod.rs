//! Core `v1` Service, with the allocation of cluster IPs and node ports.
//!
//! See `pkg/registry/core/service/strategy.go` and `pkg/api/service/warnings.go`.

mod allocate;
mod validation;

pub(super) use validation::is_cidr;

use super::label_selector::array_field;
use super::meta::{spec_of, text_default};
use super::{NameFormat, Strategy, StrategyContext, meta};
use crate::field_errors::{ErrorList, Path};
use crate::json::{Value, json};
use crate::status::Status;

/// The strategy of services.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service;

const METADATA: Path<'static> = Path::new("metadata");

fn kind_of(service: &Value) -> &str {
    meta::str_field(spec_of(service), "type")
}

/// Returns true if services of this type have a cluster IP.
fn needs_address(kind: &str) -> bool {
    matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer")
}

fn needs_node_port(service: &Value) -> bool {
    match kind_of(service) {
        "NodePort" => true,
        "LoadBalancer" => spec_of(service).get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    }
}

/// Returns true if load balancers must check which nodes have a local endpoint.
fn needs_health_check(service: &Value) -> bool {
    kind_of(service) == "LoadBalancer" && meta::str_field(spec_of(service), "externalTrafficPolicy") == "Local"
}

fn is_headless(service: &Value) -> bool {
    array_field(spec_of(service), "clusterIPs").first().is_some_and(|ip| ip == "None")
}

/// Returns true if the service is externally accessible, so that an external traffic policy applies.
fn is_external(service: &Value) -> bool {
    match kind_of(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !array_field(spec_of(service), "externalIPs").is_empty(),
        _ => false,
    }
}

fn warnings(service: &Value) -> Vec<String> {
    let spec = spec_of(service);
    let (external, name) = (kind_of(service) == "ExternalName", meta::str_field(spec, "externalName"));
    let headless = kind_of(service) == "ClusterIP" && meta::str_field(spec, "clusterIP") == "None";
    let with_ips = !array_field(spec, "externalIPs").is_empty();
    let mut warnings = Vec::new();
    if headless {
        if !meta::str_field(spec, "loadBalancerIP").is_empty() {
            warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if with_ips {
            warnings.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if meta::str_field(spec, "sessionAffinity") != "None" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    } else if with_ips && !external {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if with_ips && external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !external && !name.is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if meta::str_field(spec, "trafficDistribution") == "PreferClose" {
        let why = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(why.to_owned());
    }
    warnings
}

impl Strategy for Service {
    fn default(&self, object: &mut Value) {
        if let Some(status) = meta::object_or_insert(object, "status") {
            status.entry("loadBalancer").or_insert_with(|| json!({}));
        }
        let Some(spec) = meta::object_or_insert(object, "spec") else { return };
        text_default(spec, "sessionAffinity", "None");
        match spec.get("sessionAffinity").and_then(Value::as_str) {
            Some("None") => {
                spec.remove("sessionAffinityConfig");
            }
            Some("ClientIP") => {
                let timeout = spec.get("sessionAffinityConfig").and_then(|c| c.pointer("/clientIP/timeoutSeconds"));
                if timeout.is_none_or(Value::is_null) {
                    let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
                    spec.insert("sessionAffinityConfig", config);
                }
            }
            _ => {}
        }
        text_default(spec, "type", "ClusterIP");
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(port) = port.as_object_mut() else { continue };
            text_default(port, "protocol", "TCP");
            let target = port.get("targetPort");
            if meta::is_empty_value(target) || target.and_then(Value::as_i64) == Some(0) {
                let own = port.get("port").cloned().unwrap_or_else(|| 0.into());
                port.insert("targetPort", own);
            }
            meta::drop_zero(port, &["nodePort"]);
        }
        if spec.get("publishNotReadyAddresses") == Some(&Value::Bool(false)) {
            spec.remove("publishNotReadyAddresses");
        }
        let external = is_external(object);
        let Some(spec) = meta::object_or_insert(object, "spec") else { return };
        if external {
            text_default(spec, "externalTrafficPolicy", "Cluster");
        }
        let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if needs_address(&kind) {
            text_default(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" && spec.get("allocateLoadBalancerNodePorts").is_none_or(Value::is_null) {
            spec.insert("allocateLoadBalancerNodePorts", true.into());
        }
        meta::drop_zero(spec, &["healthCheckNodePort"]);
        if kind == "LoadBalancer" {
            let points = object.pointer_mut("/status/loadBalancer/ingress").and_then(Value::as_array_mut);
            for point in points.into_iter().flatten().filter_map(Value::as_object_mut) {
                if !meta::is_empty_value(point.get("ip")) && point.get("ipMode").is_none_or(Value::is_null) {
                    point.insert("ipMode", "VIP".into());
                }
            }
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        if let Some(map) = object.as_object_mut() {
            map.insert("status", json!({"loadBalancer": {}}));
        }
        if let Some(spec) = meta::object_or_insert(object, "spec") {
            let address = spec.get("clusterIP").filter(|ip| !meta::is_empty_value(Some(ip))).cloned();
            if let Some(address) = address.filter(|_| meta::is_empty_value(spec.get("clusterIPs"))) {
                spec.insert("clusterIPs", json!([address]));
            }
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let early = allocate::validate_ip_families(object);
        if !early.is_empty() {
            return early;
        }
        let mut errors = meta::validate(object, true, NameFormat::Label, &METADATA);
        validation::service(object, &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        warnings(object)
    }

    fn warnings_on_update(&self, new: &Value, _old: &Value) -> Vec<String> {
        warnings(new)
    }

    fn begin_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        allocate::allocate(object, ctx)
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        meta::copy_field(new, old, "status");
        allocate::normalize_update(new, old);
        allocate::drop_type_dependent_fields(new, old);
        allocate::patch_allocated_values(new, old);
        if kind_of(new) != "LoadBalancer"
            && let Some(status) = meta::object_or_insert(new, "status")
        {
            status.insert("loadBalancer", json!({}));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let early = allocate::validate_ip_families(new);
        if !early.is_empty() {
            return early;
        }
        let mut errors = meta::validate_update(new, old, &METADATA);
        validation::addresses_update(new, old, &mut errors);
        validation::balancer_class_update(new, old, &mut errors);
        validation::service(new, &mut errors);
        errors
    }

    fn begin_update(&self, new: &mut Value, _old: &Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        allocate::allocate(new, ctx)
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validation::validate_load_balancer_status(new, &mut errors);
        errors
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
