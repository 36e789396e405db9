//! Validation of services, in upstream's order.
//!
//! See `ValidateServiceCreate` and `ValidateServiceUpdate` in `pkg/apis/core/validation/validation.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, is_empty_value, non_null, spec_of, str_field};
use crate::metadata;
use crate::registry::core::endpoints;
use crate::registry::core::service::fields::{is_external, is_headless, kind_of, needs_address, needs_health_check};
use crate::registry::meta;
use crate::registry::{addresses, checks, names};

const METADATA: Path<'static> = Path::new("metadata");
const SPEC: Path<'static> = Path::new("spec");

/// Returns a list of the spec as it is shown in errors: `null` if it is missing, `[]` if it is empty.
fn shown_list(service_spec: &Value, field: &str) -> BadValue {
    BadValue::from(service_spec.get(field))
}

/// Validates an update of a service, except for its metadata: `ValidateServiceUpdate`.
pub(super) fn service_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    if kind_of(new) != "ExternalName" && kind_of(old) != "ExternalName" {
        cluster_ips_update(new, old, errors);
        ip_families_update(new, old, errors);
    }
    balancer_class_update(new, old, errors);
    let port = |service: &Value| number(spec_of(service), "healthCheckNodePort");
    if needs_health_check(old) && needs_health_check(new) && port(old) != port(new) {
        errors.forbidden(&SPEC.child("healthCheckNodePort"), checks::IMMUTABLE_MESSAGE);
    }
    service(new, Some(old), errors);
}

const ONCE: &str = "may not change once set";

/// Requires the policy `SingleStack` where the second address or family is given up.
fn released(spec: &Value, what: &str, errors: &mut ErrorList) {
    if str_field(spec, "ipFamilyPolicy") != "SingleStack" {
        let why = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errors.invalid(&SPEC.child("ipFamilyPolicy"), BadValue::json(spec.get("ipFamilyPolicy")), why);
    }
}

/// Requires addresses to stay, but for a second one: `validateUpgradeDowngradeClusterIPs`.
fn cluster_ips_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    if is_headless(new) && is_headless(old) {
        return;
    }
    let path = SPEC.child("clusterIPs");
    let [now, before] = [new, old].map(|service| array_field(spec_of(service), "clusterIPs"));
    let shown = || shown_list(spec_of(new), "clusterIPs");
    if now.len() == before.len() {
        for (i, _) in now.iter().zip(before).enumerate().filter(|(_, (now, before))| now != before) {
            errors.invalid(&path.index(i), shown(), ONCE);
        }
        return;
    }
    if now.is_empty() {
        errors.invalid(&path.index(0), shown(), "primary clusterIP can not be unset");
    }
    if let (Some(now), Some(before)) = (now.first(), before.first())
        && now != before
    {
        errors.invalid(&path.index(0), shown(), ONCE);
    }
    if now.len() == 1 && before.len() > 1 {
        released(spec_of(new), "clusterIP", errors);
    }
}

/// Requires families to stay, but for a second one: `validateUpgradeDowngradeIPFamilies`.
fn ip_families_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    if is_headless(new) || is_headless(old) {
        return;
    }
    let path = SPEC.child("ipFamilies");
    let path = path.index(0);
    let [now, before] = [new, old].map(|service| array_field(spec_of(service), "ipFamilies"));
    let shown = |field: &str| shown_list(spec_of(new), field);
    if now.len() == before.len() {
        for _ in now.iter().zip(before).filter(|(now, before)| now != before) {
            errors.invalid(&path, shown("ipFamilies"), ONCE);
        }
        return;
    }
    if now.len() < before.len() && array_field(spec_of(new), "clusterIPs").is_empty() {
        errors.invalid(&path, shown("ipFamilies"), "primary ipFamily can not be unset");
    }
    if let (Some(now), Some(before)) = (now.first(), before.first())
        && now != before
    {
        // Upstream shows the addresses.
        errors.invalid(&path, shown("clusterIPs"), ONCE);
    }
    if now.len() == 1 && before.len() > 1 {
        released(spec_of(new), "ipFamily", errors);
    }
}

/// Requires both annotations about topology to agree.
fn topology_annotations(service: &Value, errors: &mut ErrorList) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    const MODE: &str = "service.kubernetes.io/topology-mode";
    let (Some(hints), Some(mode)) = (metadata::annotation(service, HINTS), metadata::annotation(service, MODE)) else {
        return;
    };
    if hints != mode {
        let why = format!("must match annotations[{HINTS}] when both are specified");
        let path = Path::new("metadata");
        errors.invalid(&path.child("annotations").key(MODE), mode, why);
    }
}

/// Validates a service, except for its metadata. Addresses and ranges that the old one has are not judged again.
pub(super) fn service(service: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    topology_annotations(service, errors);
    let spec = spec_of(service);
    let kind = kind_of(service);
    let ports = array_field(spec, "ports");
    if ports.is_empty() && !is_headless(service) && kind != "ExternalName" {
        errors.required(&SPEC.child("ports"), "");
    }
    validate_type(service, kind, errors);
    let ports_path = SPEC.child("ports");
    let again = checks::repeated(ports, |port| str_field(port, "name"));
    for (i, port) in ports.iter().enumerate() {
        validate_port(port, again[i], ports.len() > 1, &ports_path.index(i), errors);
    }
    if let Some(labels) = spec.get("selector").and_then(Value::as_object) {
        meta::validate_labels(labels, &SPEC.child("selector"), errors);
    }
    validate_session_affinity(spec, errors);
    addresses(spec, kind, errors);
    external_addresses(spec, old, errors);
    if !matches!(kind, "ClusterIP" | "ExternalName" | "LoadBalancer" | "NodePort") {
        let allowed = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        errors.not_supported(&SPEC.child("type"), kind, &allowed);
    }
    unique_ports(ports, kind, &ports_path, errors);
    source_ranges(service, old, errors);
    if spec.get("allocateLoadBalancerNodePorts").is_some_and(|v| !v.is_null()) && kind != "LoadBalancer" {
        let why = "may only be used when `type` is 'LoadBalancer'";
        errors.forbidden(&SPEC.child("allocateLoadBalancerNodePorts"), why);
    }
    balancer_class(spec, kind, errors);
    validate_policies(service, spec, errors);
}

fn validate_type(service: &Value, kind: &str, errors: &mut ErrorList) {
    let spec = spec_of(service);
    let list = SPEC.child("clusterIPs");
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(service) => {
            errors.invalid(&list.index(0), "None", format!("may not be set to 'None' for {kind} services"));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let is_given = field == "ipFamilyPolicy" && non_null(spec, field).is_some();
                if is_given || !is_empty_value(spec.get(field)) {
                    errors.forbidden(&SPEC.child(field), "may not be set for ExternalName services");
                }
            }
            let name = str_field(spec, "externalName");
            let name = name.strip_suffix('.').unwrap_or(name);
            let path = SPEC.child("externalName");
            if name.is_empty() {
                errors.required(&path, "");
            } else {
                for message in names::dns1123_subdomain(name) {
                    errors.invalid(&path, name, message);
                }
            }
        }
        _ => {}
    }
}

fn number(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or(0)
}

fn validate_port(port: &Value, again: bool, named: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let name = str_field(port, "name");
    if name.is_empty() {
        if named {
            errors.required(&path.child("name"), "");
        }
    } else {
        for message in names::dns1123_label(name) {
            errors.invalid(&path.child("name"), name, message);
        }
        if again {
            errors.duplicate(&path.child("name"), name);
        }
    }
    let own = number(port, "port");
    if let Some(message) = names::port_number(own) {
        errors.invalid(&path.child("port"), own, message);
    }
    let protocol = str_field(port, "protocol");
    if protocol.is_empty() {
        errors.required(&path.child("protocol"), "");
    } else if !matches!(protocol, "SCTP" | "TCP" | "UDP") {
        errors.not_supported(&path.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]);
    }
    let target_path = path.child("targetPort");
    match port.get("targetPort") {
        Some(Value::String(name)) => {
            for message in names::port_name(name) {
                errors.invalid(&target_path, name.as_str(), message);
            }
        }
        target => {
            let target = target.and_then(Value::as_i64).unwrap_or(0);
            if let Some(message) = names::port_number(target) {
                errors.invalid(&target_path, target, message);
            }
        }
    }
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        for message in names::qualified_name(protocol) {
            errors.invalid(&path.child("appProtocol"), protocol, message);
        }
    }
}

fn validate_session_affinity(spec: &Value, errors: &mut ErrorList) {
    let affinity = str_field(spec, "sessionAffinity");
    if affinity.is_empty() {
        errors.required(&SPEC.child("sessionAffinity"), "");
    } else if !matches!(affinity, "ClientIP" | "None") {
        errors.not_supported(&SPEC.child("sessionAffinity"), affinity, &["ClientIP", "None"]);
    }
    if affinity == "ClientIP" {
        let timeout = spec.pointer("/sessionAffinityConfig/clientIP/timeoutSeconds").and_then(Value::as_i64);
        if let Some(timeout) = timeout.filter(|t| !(1..=86_400).contains(t)) {
            let config = SPEC.child("sessionAffinityConfig");
            let client = config.child("clientIP");
            let why = "must be greater than 0 and less than 86400";
            errors.invalid(&client.child("timeoutSeconds"), timeout, why);
        }
    }
}

/// Validates `loadBalancerClass`, which is allowed only for load balancers.
fn balancer_class(spec: &Value, kind: &str, errors: &mut ErrorList) {
    let Some(class) = spec.get("loadBalancerClass").and_then(Value::as_str) else { return };
    let path = SPEC.child("loadBalancerClass");
    if kind == "LoadBalancer" {
        for message in names::qualified_name(class) {
            errors.invalid(&path, class, message);
        }
    } else {
        errors.forbidden(&path, "may only be used when `type` is 'LoadBalancer'");
    }
}

/// Requires `loadBalancerClass` to be unchanged while the service is a load balancer; upstream validates it here, too.
fn balancer_class_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let class = |service: &Value| non_null(spec_of(service), "loadBalancerClass").cloned();
    if kind_of(new) == "LoadBalancer" && kind_of(old) == "LoadBalancer" && class(new) != class(old) {
        errors.invalid(&SPEC.child("loadBalancerClass"), BadValue::json(class(new).as_ref()), ONCE);
    }
    balancer_class(spec_of(new), kind_of(new), errors);
}

/// The annotation that held the ranges before the field.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

fn source_ranges(service: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let spec = spec_of(service);
    let is_balancer = kind_of(service) == "LoadBalancer";
    let ranges = array_field(spec, "loadBalancerSourceRanges");
    // Upstream's path has the field's Go name.
    let path = SPEC.child("LoadBalancerSourceRanges");
    if !ranges.is_empty() && !is_balancer {
        errors.forbidden(&path, "may only be used when `type` is 'LoadBalancer'");
    }
    let text = |range: &Value| range.as_str().unwrap_or_default().trim().to_owned();
    let known = old.map_or(&[][..], |old| array_field(spec_of(old), "loadBalancerSourceRanges"));
    for (i, range) in ranges.iter().map(text).enumerate() {
        if !known.iter().any(|known| text(known) == range) {
            addresses::legacy_cidr(&range, &path.index(i), errors);
        }
    }
    let annotated = metadata::annotation(service, SOURCE_RANGES).filter(|_| ranges.is_empty());
    let Some(annotated) = annotated else { return };
    let annotations = METADATA.child("annotations");
    let path = annotations.key(SOURCE_RANGES);
    if !is_balancer {
        errors.forbidden(&path, "may only be used when `type` is 'LoadBalancer'");
    }
    if old.and_then(|old| metadata::annotation(old, SOURCE_RANGES)) == Some(annotated) {
        return;
    }
    for range in annotated.split(',').filter(|_| !annotated.trim().is_empty()) {
        addresses::legacy_cidr(range.trim(), &path, errors);
    }
}

/// Validates the load balancer status.
pub(super) fn validate_load_balancer_status(service: &Value, errors: &mut ErrorList) {
    let status = Path::new("status");
    let balancer = status.child("loadBalancer");
    let path = balancer.child("ingress");
    let points = service.pointer("/status/loadBalancer").map_or(&[][..], |balancer| array_field(balancer, "ingress"));
    if kind_of(service) != "LoadBalancer" {
        if !points.is_empty() {
            errors.forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        return;
    }
    for (i, point) in points.iter().enumerate() {
        let path = path.index(i);
        let ip = str_field(point, "ip");
        let host = str_field(point, "hostname");
        if !ip.is_empty() {
            addresses::legacy_ip(ip, &path.child("ip"), errors);
        }
        match point.get("ipMode").and_then(Value::as_str) {
            Some(_) if ip.is_empty() => {
                errors.forbidden(&path.child("ipMode"), "may not be specified when `ip` is not set");
            }
            Some(mode) if !matches!(mode, "Proxy" | "VIP") => {
                errors.not_supported(&path.child("ipMode"), mode, &["Proxy", "VIP"]);
            }
            _ => {}
        }
        if !host.is_empty() {
            for message in names::dns1123_subdomain(host) {
                errors.invalid(&path.child("hostname"), host, message);
            }
            if host.parse::<std::net::IpAddr>().is_ok() {
                errors.invalid(&path.child("hostname"), host, "must be a DNS name, not an IP address");
            }
        }
    }
}

/// Validates cluster IPs, IP families and their policy.
pub(super) fn addresses(spec: &Value, kind: &str, errors: &mut ErrorList) {
    if kind == "ExternalName" {
        return;
    }
    let path = SPEC.child("clusterIPs");
    let single = str_field(spec, "clusterIP");
    let list = array_field(spec, "clusterIPs");
    match (single.is_empty(), list.first()) {
        (false, None) => errors.required(&path, ""),
        (false, Some(first)) if first != single => {
            errors.invalid(&path, shown_list(spec, "clusterIPs"), "first value must match `clusterIP`");
        }
        (true, Some(_)) => {
            let why = "must be empty when `clusterIP` is not specified";
            errors.invalid(&path, shown_list(spec, "clusterIPs"), why);
        }
        _ => {}
    }
    let families = SPEC.child("ipFamilies");
    let all = array_field(spec, "ipFamilies");
    let repeated = checks::repeated(all, Value::as_str);
    for (i, family) in all.iter().enumerate() {
        let family = family.as_str().unwrap_or_default();
        if !matches!(family, "IPv4" | "IPv6") {
            errors.not_supported(&families.index(i), family, &["IPv4", "IPv6"]);
        }
        if repeated[i] {
            errors.duplicate(&families.index(i), family);
        }
    }
    let policy = non_null(spec, "ipFamilyPolicy");
    let allowed = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if policy.is_some_and(|policy| !allowed.contains(&policy.as_str().unwrap_or_default())) {
        errors.not_supported(&SPEC.child("ipFamilyPolicy"), BadValue::json(policy), &allowed);
    }
    let mut bad = false;
    for (i, address) in list.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        if i == 0 && address == "None" {
            if list.len() > 1 {
                bad = true;
                let why = "'None' must be the first and only value";
                errors.invalid(&path, shown_list(spec, "clusterIPs"), why);
            }
        } else {
            bad |= !addresses::legacy_ip(address, &path.index(i), errors);
        }
    }
    if list.len() > 2 {
        errors.invalid(&path, shown_list(spec, "clusterIPs"), "may only hold up to 2 values");
    }
    if !bad {
        validate_families(spec, errors);
    }
}

/// Requires one cluster IP per family, matching `ipFamilies`.
fn validate_families(spec: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("clusterIPs");
    let texts =
        |field: &str| array_field(spec, field).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    let list = texts("clusterIPs");
    let families = texts("ipFamilies");
    let is_v6 = |address: &str| address.contains(':');
    if list.len() > 1 && list.iter().all(|address| is_v6(address) == is_v6(&list[0])) {
        let why = "may specify no more than one IP for each IP family";
        errors.invalid(&path, shown_list(spec, "clusterIPs"), why);
    }
    if list.first().is_none_or(|first| first == "None") {
        return;
    }
    for (i, (address, family)) in list.iter().zip(&families).enumerate() {
        let expected = match (family.as_str(), is_v6(address)) {
            ("IPv4", true) => "an IPv4",
            ("IPv6", false) => "an IPv6",
            _ => continue,
        };
        let why = format!("expected {expected} value as indicated by `ipFamilies[{i}]`");
        errors.invalid(&path.index(i), address.as_str(), why);
    }
}

fn external_addresses(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let path = SPEC.child("externalIPs");
    let known = old.map_or(&[][..], |old| array_field(spec_of(old), "externalIPs"));
    for (i, address) in array_field(spec, "externalIPs").iter().enumerate() {
        let path = path.index(i);
        let text = address.as_str().unwrap_or_default();
        if known.contains(address) || addresses::legacy_ip(text, &path, errors) {
            endpoints::endpoint_ip(text, &path, errors);
        }
    }
}

fn unique_ports(ports: &[Value], kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if kind == "ClusterIP" {
        for (i, port) in ports.iter().enumerate() {
            if number(port, "nodePort") != 0 {
                let why = "may not be used when `type` is 'ClusterIP'";
                errors.forbidden(&path.index(i).child("nodePort"), why);
            }
        }
    }
    let again = |field: &str| checks::repeated(ports, |port| (str_field(port, "protocol"), number(port, field)));
    let (same_node_port, same_port) = (again("nodePort"), again("port"));
    for (i, port) in ports.iter().enumerate() {
        let node_port = number(port, "nodePort");
        if node_port != 0 && same_node_port[i] {
            errors.duplicate(&path.index(i).child("nodePort"), node_port);
        }
    }
    for (i, port) in ports.iter().enumerate() {
        if same_port[i] {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                Value::from(str_field(port, "protocol")),
                number(port, "port")
            );
            errors.duplicate(&path.index(i), BadValue::Raw(shown));
        }
    }
}

fn validate_policies(service: &Value, spec: &Value, errors: &mut ErrorList) {
    let external = str_field(spec, "externalTrafficPolicy");
    let path = SPEC.child("externalTrafficPolicy");
    if is_external(service) {
        if external.is_empty() {
            errors.required(&path, "");
        } else if !matches!(external, "Cluster" | "Local") {
            errors.not_supported(&path, external, &["Cluster", "Local"]);
        }
    } else if !external.is_empty() {
        errors.invalid(&path, external, "may only be set for externally-accessible services");
    }
    let path = SPEC.child("healthCheckNodePort");
    let port = number(spec, "healthCheckNodePort");
    if port != 0 {
        if !needs_health_check(service) {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&path, port, why);
        } else if let Some(message) = names::port_number(port) {
            errors.invalid(&path, port, message);
        }
    }
    let path = SPEC.child("internalTrafficPolicy");
    match spec["internalTrafficPolicy"].as_str() {
        None if needs_address(kind_of(service)) => errors.required(&path, ""),
        None | Some("Cluster" | "Local") => {}
        Some(internal) => errors.not_supported(&path, internal, &["Cluster", "Local"]),
    }
    if let Some(wish) = spec.get("trafficDistribution").and_then(Value::as_str) {
        let allowed = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        if !allowed.contains(&wish) {
            errors.not_supported(&SPEC.child("trafficDistribution"), wish, &allowed);
        }
    }
}
