//! Core `v1` Service, with the allocation of cluster IPs and node ports.
//!
//! See `pkg/registry/core/service/strategy.go` and `pkg/api/service/warnings.go`.

mod allocate;
mod columns;
mod families;
mod fields;
mod update;
mod validation;

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{
    array_field, drop_zero, is_empty_value, object_or_insert, spec_of, str_field, text_default, value_default,
};
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::addresses;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::service::fields::{is_external, kind_of, needs_address};
use crate::registry::meta;
use crate::registry::names::NameFormat;
use crate::registry::prepare::copy_field;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::status::Status;

/// The resource `services`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "services", "Service", "io.k8s.api.core.v1.Service")
        .short(&["svc"])
        .categories(&["all"])
        .sub("proxy", "", "", "ServiceProxyOptions", &["create", "delete", "get", "patch", "update"])
        .status()
        .hash("0/CO1lhkEBI=")
        .fields(&[("spec.clusterIP", ""), ("spec.type", "")])
        .rules(Service)
        .columns(columns::COLUMNS)
}

/// The strategy of services.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service;

const METADATA: Path<'static> = Path::new("metadata");

/// The annotation that chose the topology mode before another.
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// Returns the warnings about a service: `pkg/api/service/warnings.go`.
fn warnings(service: &Value) -> Vec<String> {
    let spec = spec_of(service);
    let external = kind_of(service) == "ExternalName";
    let name = str_field(spec, "externalName");
    let headless = kind_of(service) == "ClusterIP" && str_field(spec, "clusterIP") == "None";
    let with_ips = !array_field(spec, "externalIPs").is_empty();
    let mut warnings = Vec::new();
    if metadata::annotation(service, TOPOLOGY_HINTS).is_some() {
        let other = "service.kubernetes.io/topology-mode";
        warnings.push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {other} instead"));
    }
    let unusual = |field: &'static str| {
        let listed = array_field(spec, field).iter().filter_map(Value::as_str).enumerate();
        listed.filter_map(move |(i, address)| addresses::ip_warning(&format!("spec.{field}[{i}]"), address))
    };
    if !headless {
        warnings.extend(unusual("clusterIPs"));
    }
    if headless {
        if !str_field(spec, "loadBalancerIP").is_empty() {
            warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if with_ips {
            warnings.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if str_field(spec, "sessionAffinity") != "None" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    warnings.extend(unusual("externalIPs"));
    if with_ips && !external && !headless {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    warnings.extend(addresses::ip_warning("spec.loadBalancerIP", str_field(spec, "loadBalancerIP")));
    for (i, range) in array_field(spec, "loadBalancerSourceRanges").iter().filter_map(Value::as_str).enumerate() {
        warnings.extend(addresses::cidr_warnings(&format!("spec.loadBalancerSourceRanges[{i}]"), range));
    }
    if with_ips && external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !external && !name.is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if str_field(spec, "trafficDistribution") == "PreferClose" {
        let why = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(why.to_owned());
    }
    warnings
}

impl Strategy for Service {
    fn default(&self, object: &mut Value) {
        if let Some(status) = object_or_insert(object, "status") {
            status.entry("loadBalancer").or_insert_with(|| json!({}));
        }
        let Some(spec) = object_or_insert(object, "spec") else { return };
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
            if is_empty_value(target) || target.and_then(Value::as_i64) == Some(0) {
                let own = port.get("port").cloned().unwrap_or_else(|| 0.into());
                port.insert("targetPort", own);
            }
            drop_zero(port, &["nodePort"]);
        }
        if spec.get("publishNotReadyAddresses") == Some(&Value::Bool(false)) {
            spec.remove("publishNotReadyAddresses");
        }
        let external = is_external(object);
        let Some(spec) = object_or_insert(object, "spec") else { return };
        if external {
            text_default(spec, "externalTrafficPolicy", "Cluster");
        }
        let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if needs_address(&kind) {
            value_default(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" && spec.get("allocateLoadBalancerNodePorts").is_none_or(Value::is_null) {
            spec.insert("allocateLoadBalancerNodePorts", true.into());
        }
        drop_zero(spec, &["healthCheckNodePort"]);
        if kind == "LoadBalancer" {
            let points = object.pointer_mut("/status/loadBalancer/ingress").and_then(Value::as_array_mut);
            for point in points.into_iter().flatten().filter_map(Value::as_object_mut) {
                if !is_empty_value(point.get("ip")) && point.get("ipMode").is_none_or(Value::is_null) {
                    point.insert("ipMode", "VIP".into());
                }
            }
        }
    }

    fn begin_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        update::normalize_new_cluster_ips(object);
        allocate::allocate_new(object, ctx)
    }

    fn begin_seed(&self, object: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        update::normalize_new_cluster_ips(object);
        allocate::allocate_missing(object, ctx)?;
        self.canonicalize(object);
        Ok(())
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        if let Some(map) = object.as_object_mut() {
            map.insert("status", json!({"loadBalancer": {}}));
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Label, &METADATA);
        validation::service(object, None, &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        warnings(object)
    }

    fn warnings_on_update(&self, new: &Value, _old: &Value) -> Vec<String> {
        warnings(new)
    }

    fn warnings_on_status_update(&self, new: &Value) -> Vec<String> {
        addresses::load_balancer_warnings(new)
    }

    fn begin_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        allocate::allocate_update(new, old, ctx)
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        copy_field(new, old, "status");
        update::drop_type_dependent_fields(new, old);
        if kind_of(new) != "LoadBalancer"
            && let Some(status) = object_or_insert(new, "status")
        {
            status.insert("loadBalancer", json!({}));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validation::service_update(new, old, &mut errors);
        errors
    }

    /// Drops a field that external names do not have. It is validated, and managers own it: upstream stores it and
    /// drops it when it is read (`defaultOnReadInternalTrafficPolicy`).
    fn canonicalize(&self, object: &mut Value) {
        if kind_of(object) == "ExternalName"
            && let Some(spec) = object_or_insert(object, "spec")
        {
            spec.remove("internalTrafficPolicy");
        }
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
