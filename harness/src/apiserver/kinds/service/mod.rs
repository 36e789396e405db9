//! Core `v1` Service, with the allocation of addresses and node ports.

mod allocate;
mod validation;

use serde_json::{Map, Value, json};

use super::field::{ErrorList, Path};
use super::selector::array;
use super::{Context, NameRule, Strategy, meta};
use crate::apiserver::status::Status;

/// Rules of services.
#[derive(Debug, Clone, Copy)]
pub struct Service;

const METADATA: Path<'static> = Path::new("metadata");

fn spec_of(service: &Value) -> &Value {
    service.get("spec").unwrap_or(&Value::Null)
}

fn kind_of(service: &Value) -> &str {
    meta::text(spec_of(service), "type")
}

/// Whether services of this type have an address inside of the cluster.
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

fn is_headless(service: &Value) -> bool {
    array(spec_of(service), "clusterIPs").first().is_some_and(|ip| ip == "None")
}

/// Whether the service can be reached from outside, so that a traffic policy makes sense.
fn is_external(service: &Value) -> bool {
    match kind_of(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !array(spec_of(service), "externalIPs").is_empty(),
        _ => false,
    }
}

fn text_default(map: &mut Map<String, Value>, field: &str, value: &str) {
    if meta::is_empty(map.get(field)) {
        map.insert(field.to_owned(), value.into());
    }
}

impl Strategy for Service {
    fn default(&self, object: &mut Value) {
        if let Some(status) = meta::object_at(object, "status") {
            status.entry("loadBalancer").or_insert_with(|| json!({}));
        }
        let Some(spec) = meta::object_at(object, "spec") else { return };
        text_default(spec, "sessionAffinity", "None");
        match spec.get("sessionAffinity").and_then(Value::as_str) {
            Some("None") => {
                spec.remove("sessionAffinityConfig");
            }
            Some("ClientIP") => {
                let timeout = spec.get("sessionAffinityConfig").and_then(|c| c.pointer("/clientIP/timeoutSeconds"));
                if timeout.is_none_or(Value::is_null) {
                    let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
                    spec.insert("sessionAffinityConfig".to_owned(), config);
                }
            }
            _ => {}
        }
        text_default(spec, "type", "ClusterIP");
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(port) = port.as_object_mut() else { continue };
            text_default(port, "protocol", "TCP");
            let target = port.get("targetPort");
            if meta::is_empty(target) || target.and_then(Value::as_i64) == Some(0) {
                let own = port.get("port").cloned().unwrap_or_else(|| 0.into());
                port.insert("targetPort".to_owned(), own);
            }
            meta::drop_zero(port, &["nodePort"]);
        }
        if spec.get("publishNotReadyAddresses") == Some(&Value::Bool(false)) {
            spec.remove("publishNotReadyAddresses");
        }
        let external = is_external(object);
        let Some(spec) = meta::object_at(object, "spec") else { return };
        if external {
            text_default(spec, "externalTrafficPolicy", "Cluster");
        }
        let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if needs_address(&kind) {
            text_default(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" && spec.get("allocateLoadBalancerNodePorts").is_none_or(Value::is_null) {
            spec.insert("allocateLoadBalancerNodePorts".to_owned(), true.into());
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &Context<'_>) {
        if let Some(map) = object.as_object_mut() {
            map.insert("status".to_owned(), json!({"loadBalancer": {}}));
        }
        if let Some(spec) = meta::object_at(object, "spec") {
            let address = spec.get("clusterIP").filter(|ip| !meta::is_empty(Some(ip))).cloned();
            if let Some(address) = address.filter(|_| meta::is_empty(spec.get("clusterIPs"))) {
                spec.insert("clusterIPs".to_owned(), json!([address]));
            }
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameRule::Label, &METADATA);
        validation::service(object, &mut errors);
        errors
    }

    fn admit_create(&self, object: &mut Value, _ctx: &Context<'_>) -> Result<(), Status> {
        allocate::check_families(object)
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        if array(spec_of(object), "externalIPs").is_empty() {
            return Vec::new();
        }
        vec!["spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned()]
    }

    fn warnings_on_update(&self, new: &Value, _old: &Value) -> Vec<String> {
        self.warnings_on_create(new)
    }

    fn begin_create(&self, object: &mut Value, ctx: &Context<'_>) -> Result<(), Status> {
        allocate::for_new(object, ctx)
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &Context<'_>) {
        meta::keep_field(new, old, "status");
        allocate::normalize_update(new, old);
        allocate::drop_for_type(new, old);
        allocate::carry_over(new, old);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validation::addresses_update(new, old, &mut errors);
        validation::service(new, &mut errors);
        errors
    }

    fn begin_update(&self, new: &mut Value, _old: &Value, ctx: &Context<'_>) -> Result<(), Status> {
        allocate::for_new(new, ctx)
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        let ingress = new.pointer("/status/loadBalancer").map_or(&[][..], |b| array(b, "ingress"));
        let before = old.pointer("/status/loadBalancer").map_or(&[][..], |b| array(b, "ingress"));
        if kind_of(new) != "LoadBalancer" && !ingress.is_empty() && ingress != before {
            let status = Path::new("status");
            let balancer = status.child("loadBalancer");
            let why = "may only be used when `spec.type` is 'LoadBalancer'";
            errors.forbidden(&balancer.child("ingress"), why);
        }
        errors
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }
}

#[cfg(test)]
mod tests;
