//! The fields that an update of a service keeps, clears and restores. See
//! `pkg/registry/core/service/storage/storage.go`, and `dropTypeDependentFields` in
//! `pkg/registry/core/service/strategy.go`. PURE.

use crate::json::fields::{array_field, is_empty_value, object_or_insert, spec_of, str_field};
use crate::json::{Map, Value, json};
use crate::registry::core::service::fields::{
    has_cluster_ip, is_external, kind_of, needs_health_check, needs_node_port, node_port,
};

/// Returns true if a list is the same in both specs; a missing one is empty.
fn same_list(new: &Value, old: &Value, field: &str) -> bool {
    array_field(spec_of(new), field) == array_field(spec_of(old), field)
}

/// Returns true if a text, number or flag is the same in both specs.
fn same(new: &Value, old: &Value, field: &str) -> bool {
    let of = |service: &Value| spec_of(service).get(field).filter(|value| !value.is_null()).cloned();
    of(new) == of(old)
}

fn with_spec(service: &mut Value, change: impl FnOnce(&mut Map)) {
    if let Some(spec) = object_or_insert(service, "spec") {
        change(spec);
    }
}

/// Restores allocated values that an update omits: `patchAllocatedValues`. Node ports are known by the names of ports.
pub(super) fn patch_allocated_values(new: &mut Value, old: &Value) {
    if has_cluster_ip(old) && has_cluster_ip(new) {
        for field in ["clusterIP", "clusterIPs"] {
            let before = spec_of(old).get(field).filter(|value| !is_empty_value(Some(value))).cloned();
            if let Some(before) = before.filter(|_| is_empty_value(spec_of(new).get(field))) {
                with_spec(new, |spec| drop(spec.insert(field.to_owned(), before)));
            }
        }
    }
    if needs_node_port(old) && needs_node_port(new) {
        restore_node_ports(new, old);
    }
    let number = |service: &Value| spec_of(service).get("healthCheckNodePort").and_then(Value::as_i64).unwrap_or(0);
    if needs_health_check(old) && needs_health_check(new) && number(new) == 0 && number(old) != 0 {
        let before = number(old);
        with_spec(new, |spec| drop(spec.insert("healthCheckNodePort", before.into())));
    }
}

fn restore_node_ports(new: &mut Value, old: &Value) {
    let before = array_field(spec_of(old), "ports");
    let used: Vec<i64> = array_field(spec_of(new), "ports").iter().map(node_port).collect();
    let ports = new.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter(|port| node_port(port) == 0) {
        // The last one of a name counts.
        let known = before.iter().rev().find(|known| str_field(known, "name") == str_field(port, "name"));
        let number = known.map_or(0, node_port);
        if number != 0 && !used.contains(&number) {
            port["nodePort"] = number.into();
        }
    }
}

/// Keeps `clusterIPs` in step with `clusterIP`: `normalizeClusterIPs` for an update.
pub(super) fn normalize_cluster_ips(new: &mut Value, old: &Value) {
    let [now, before] = [&*new, old].map(|service| str_field(spec_of(service), "clusterIP").to_owned());
    let listed = array_field(spec_of(old), "clusterIPs").to_vec();
    if !listed.is_empty() && array_field(spec_of(new), "clusterIPs").is_empty() && now == before {
        with_spec(new, |spec| drop(spec.insert("clusterIPs", Value::Array(listed))));
    }
    if now == before || !same_list(new, old, "clusterIPs") {
        return;
    }
    with_spec(new, |spec| {
        if now.is_empty() {
            spec.remove("clusterIPs");
        } else {
            spec.insert("clusterIPs", json!([now]));
        }
    });
}

/// Keeps `clusterIPs` in step with `clusterIP`: `normalizeClusterIPs` for a new service.
pub(super) fn normalize_new_cluster_ips(service: &mut Value) {
    let address = str_field(spec_of(service), "clusterIP").to_owned();
    if !address.is_empty() && array_field(spec_of(service), "clusterIPs").is_empty() {
        with_spec(service, |spec| drop(spec.insert("clusterIPs", json!([address]))));
    }
}

/// Removes fields that apply only to the old type of a service, unless the update changes them.
pub(super) fn drop_type_dependent_fields(new: &mut Value, old: &Value) {
    let mut dropped = Vec::new();
    if has_cluster_ip(old) && !has_cluster_ip(new) {
        if same(new, old, "clusterIP") && same_list(new, old, "clusterIPs") {
            dropped.extend(["clusterIP", "clusterIPs"]);
        }
        if same_list(new, old, "ipFamilies") {
            dropped.push("ipFamilies");
        }
        if same(new, old, "ipFamilyPolicy") {
            dropped.push("ipFamilyPolicy");
        }
    }
    if needs_node_port(old) && !needs_node_port(new) {
        let known: Vec<i64> = array_field(spec_of(old), "ports").iter().map(node_port).collect();
        let ports = new.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        let mut ports: Vec<&mut Value> = ports.into_iter().flatten().collect();
        if ports.iter().map(|port| node_port(port)).all(|number| number == 0 || known.contains(&number)) {
            for port in ports.iter_mut().filter_map(|port| port.as_object_mut()) {
                port.remove("nodePort");
            }
        }
    }
    if needs_health_check(old) && !needs_health_check(new) && same(new, old, "healthCheckNodePort") {
        dropped.push("healthCheckNodePort");
    }
    if kind_of(old) == "LoadBalancer" && kind_of(new) != "LoadBalancer" {
        let lost = ["allocateLoadBalancerNodePorts", "loadBalancerClass"];
        dropped.extend(lost.into_iter().filter(|field| same(new, old, field)));
    }
    if is_external(old) && !is_external(new) && same(new, old, "externalTrafficPolicy") {
        dropped.push("externalTrafficPolicy");
    }
    with_spec(new, |spec| {
        for field in dropped {
            spec.remove(field);
        }
    });
}
