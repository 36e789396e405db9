//! Allocation of cluster IPs and node ports of services, and their handling in updates.
//!
//! See `pkg/registry/core/service/storage/{alloc,storage}.go` and `pkg/registry/core/service/strategy.go`. Upstream
//! allocates at random; here the lowest free one of the dynamic range is used, so that runs are reproducible.

use std::net::Ipv4Addr;

use crate::field_errors::{BadValue, ErrorList, FieldError, Path};
use crate::json::fields::{array_field, is_empty_value, object_or_insert, semantic_equal, spec_of, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::core::service::fields::{
    is_external, is_headless, kind_of, needs_address, needs_health_check, needs_node_port,
};
use crate::registry::core::service::validation;
use crate::registry::strategy::StrategyContext;
use crate::status::Status;

/// The first three octets of the service network 10.0.0.0/24, kube-apiserver's default.
const NETWORK: [u8; 3] = [10, 0, 0];

/// The first address for dynamic allocation; lower ones are reserved for static requests as long as possible.
const FIRST_DYNAMIC_ADDRESS: u8 = 17;

/// The node port range; ports below [`FIRST_DYNAMIC_PORT`] are allocated only on explicit request.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

const FIRST_DYNAMIC_PORT: i64 = 30_086;

/// Synchronizes `clusterIPs` with `clusterIP`: clearing one clears the other, a change replaces the first entry.
pub(super) fn normalize_update(new: &mut Value, old: &Value) {
    let text = |service: &Value| str_field(spec_of(service), "clusterIP").to_owned();
    let now = text(new);
    let before = text(old);
    let same_list = semantic_equal(spec_of(new).get("clusterIPs"), spec_of(old).get("clusterIPs"));
    let Some(spec) = object_or_insert(new, "spec") else { return };
    if now.is_empty() && !before.is_empty() && same_list {
        spec.remove("clusterIPs");
        spec.remove("clusterIP");
    } else if !now.is_empty() && ((now != before && same_list) || is_empty_value(spec.get("clusterIPs"))) {
        spec.insert("clusterIPs", json!([now]));
    }
}

/// Removes fields that apply only to the old type of a service, unless the update changes them.
pub(super) fn drop_type_dependent_fields(new: &mut Value, old: &Value) {
    let now = kind_of(new).to_owned();
    let before = kind_of(old).to_owned();
    let same = |new: &Value, field: &str| semantic_equal(spec_of(new).get(field), spec_of(old).get(field));
    let drop = |new: &mut Value, field: &str| {
        if let Some(spec) = object_or_insert(new, "spec") {
            spec.remove(field);
        }
    };
    if needs_address(&before) && !needs_address(&now) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if same(new, field) || is_empty_value(spec_of(new).get(field)) {
                drop(new, field);
            }
        }
    }
    if needs_node_port(old) && !needs_node_port(new) {
        let before = array_field(spec_of(old), "ports");
        let ports = new.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        for (port, old) in ports.into_iter().flatten().zip(before) {
            if port.get("nodePort") == old.get("nodePort")
                && let Some(port) = port.as_object_mut()
            {
                port.remove("nodePort");
            }
        }
    }
    if before == "LoadBalancer" && now != before {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(new, field) {
                drop(new, field);
            }
        }
    }
    if is_external(old) && !is_external(new) && same(new, "externalTrafficPolicy") {
        drop(new, "externalTrafficPolicy");
    }
    let local = |service: &Value| needs_health_check(service);
    if local(old) && !local(new) && same(new, "healthCheckNodePort") {
        drop(new, "healthCheckNodePort");
    }
}

/// Restores allocated values that an update omits (`patchAllocatedValues`).
pub(super) fn patch_allocated_values(new: &mut Value, old: &Value) {
    let addressed = needs_address(kind_of(new)) && needs_address(kind_of(old));
    let with_ports = needs_node_port(new) && needs_node_port(old);
    let checked = needs_health_check(new) && needs_health_check(old);
    let before = spec_of(old).clone();
    let Some(spec) = object_or_insert(new, "spec") else { return };
    if addressed {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if is_empty_value(spec.get(field))
                && let Some(value) = before.get(field)
            {
                spec.insert(field.to_owned(), value.clone());
            }
        }
    }
    if checked
        && is_empty_value(spec.get("healthCheckNodePort"))
        && let Some(number) = before.get("healthCheckNodePort")
    {
        spec.insert("healthCheckNodePort", number.clone());
    }
    if with_ports {
        let key = |port: &Value| (port.get("protocol").cloned(), port.get("port").cloned());
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) != 0 {
                continue;
            }
            let same = array_field(&before, "ports").iter().find(|p| key(p) == key(port));
            if let Some(number) = same.and_then(|p| p.get("nodePort")).cloned() {
                port["nodePort"] = number;
            }
        }
    }
}

/// Allocates the IP addresses, families and ports that a valid service lacks.
pub(super) fn allocate(service: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    if !needs_address(kind_of(service)) {
        return Ok(());
    }
    let name = metadata::name(service).to_owned();
    let invalid = |error: FieldError| Status::invalid("", "Service", &name, &ErrorList::from(error));
    default_ip_families(service);
    let mut others = AllocatedAddresses::find(service, ctx);
    if !is_headless(service) {
        let given = str_field(spec_of(service), "clusterIP").to_owned();
        let address = if given.is_empty() { others.free_address() } else { others.check_address(&given) };
        let address = address.map_err(&invalid)?;
        if let Some(spec) = object_or_insert(service, "spec") {
            spec.insert("clusterIP", address.as_str().into());
            spec.insert("clusterIPs", json!([address]));
        }
    }
    if needs_node_port(service) {
        allocate_node_ports(service, &mut others).map_err(&invalid)?;
    }
    if needs_health_check(service) && is_empty_value(spec_of(service).get("healthCheckNodePort")) {
        let free = |number: &i64| others.ports.iter().all(|(_, taken)| taken != number);
        let number = (FIRST_DYNAMIC_PORT..=*NODE_PORTS.end())
            .find(free)
            .ok_or_else(|| Status::internal("failed to allocate a HealthCheck NodePort : range is full"))?;
        if let Some(spec) = object_or_insert(service, "spec") {
            spec.insert("healthCheckNodePort", number.into());
        }
    }
    Ok(())
}

/// Like [`allocate`], but takes a service that has its addresses and ports as it is, which is quick for thousands.
pub(super) fn allocate_missing(service: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    if !needs_address(kind_of(service)) {
        return Ok(());
    }
    default_ip_families(service);
    let spec = spec_of(service);
    let without_port = |port: &Value| port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) == 0;
    let is_missing = (!is_headless(service) && is_empty_value(spec.get("clusterIP")))
        || (needs_node_port(service) && array_field(spec, "ports").iter().any(without_port))
        || (needs_health_check(service) && is_empty_value(spec.get("healthCheckNodePort")));
    if is_missing { allocate(service, ctx) } else { Ok(()) }
}

/// Validates IP addresses and families, which upstream checks first, for a cluster with IPv4 only.
pub(super) fn validate_ip_families(service: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(service);
    if kind_of(service) == "ExternalName" {
        return errors;
    }
    validation::addresses(spec, kind_of(service), &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    let path = Path::new("spec");
    let policy_path = path.child("ipFamilyPolicy");
    let families = array_field(spec, "ipFamilies");
    let both = str_field(spec, "clusterIP") == "None" && is_empty_value(spec.get("selector"));
    let policy = match str_field(spec, "ipFamilyPolicy") {
        "" if both => "RequireDualStack",
        "" => "SingleStack",
        policy => policy,
    };
    let addresses = array_field(spec, "clusterIPs");
    if policy == "SingleStack" {
        for (what, list) in [("cluster IPs", addresses), ("IP families", families)] {
            if list.len() == 2 {
                let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                errors.invalid(&policy_path, policy, why);
            }
        }
    }
    let list = path.child("clusterIPs");
    for (i, address) in addresses.iter().enumerate().skip(families.len()) {
        if address.as_str().is_some_and(|address| address.contains(':')) {
            let shown = BadValue::Raw(Value::Array(addresses.to_vec()).to_string());
            errors.invalid(&list.index(i), shown, "IPv6 is not configured on this cluster");
        }
    }
    if !errors.is_empty() || both {
        return errors;
    }
    if policy == "RequireDualStack" {
        errors.invalid(&policy_path, policy, "this cluster is not configured for dual-stack services");
    }
    let path = path.child("ipFamilies");
    for (i, family) in families.iter().enumerate().filter(|(_, family)| *family != "IPv4") {
        errors.invalid(&path.index(i), family.clone(), "not configured on this cluster");
    }
    errors
}

/// Fills in IP families and policy after [`validate_ip_families`].
fn default_ip_families(service: &mut Value) {
    let headless = is_headless(service);
    let selects = !is_empty_value(spec_of(service).get("selector"));
    let policy = str_field(spec_of(service), "ipFamilyPolicy").to_owned();
    // Without a selector the endpoints are managed externally and may be of both families.
    let both = headless && !selects;
    let Some(spec) = object_or_insert(service, "spec") else { return };
    if policy.is_empty() {
        let policy = if both { "RequireDualStack" } else { "SingleStack" };
        spec.insert("ipFamilyPolicy", policy.into());
    }
    if is_empty_value(spec.get("ipFamilies")) {
        let families = if both && policy != "SingleStack" { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
        spec.insert("ipFamilies", families);
    }
}

/// The addresses and ports of other services.
struct AllocatedAddresses {
    addresses: Vec<String>,
    ports: Vec<(String, i64)>,
}

impl AllocatedAddresses {
    fn find(service: &Value, ctx: &StrategyContext<'_>) -> Self {
        let id = |s: &Value| {
            let metadata = s.get("metadata").unwrap_or(&Value::Null);
            (str_field(metadata, "namespace").to_owned(), str_field(metadata, "name").to_owned())
        };
        let own = id(service);
        let mut others = Self { addresses: Vec::new(), ports: Vec::new() };
        for other in ctx.lookup.list("", "services", "").iter().filter(|s| id(s) != own) {
            let spec = spec_of(other);
            others
                .addresses
                .extend(array_field(spec, "clusterIPs").iter().filter_map(Value::as_str).map(str::to_owned));
            for port in array_field(spec, "ports") {
                if let Some(number) = port.get("nodePort").and_then(Value::as_i64) {
                    others.ports.push((str_field(port, "protocol").to_owned(), number));
                }
            }
            others.health_check(spec);
        }
        let is_own = |address: &Value| {
            let parent = &spec_of(address)["parentRef"];
            str_field(parent, "resource") == "services"
                && (str_field(parent, "namespace"), str_field(parent, "name")) == (own.0.as_str(), own.1.as_str())
        };
        let objects = ctx.lookup.list("networking.k8s.io", "ipaddresses", "");
        let foreign = objects.iter().filter(|address| !is_own(address));
        others.addresses.extend(foreign.map(|address| metadata::name(address).to_owned()));
        others
    }

    /// Health check ports are from the same range and conflict with all protocols.
    fn health_check(&mut self, spec: &Value) {
        if let Some(number) = spec.get("healthCheckNodePort").and_then(Value::as_i64) {
            self.ports.extend(["TCP", "UDP", "SCTP"].map(|protocol| (protocol.to_owned(), number)));
        }
    }

    fn free_address(&self) -> Result<String, FieldError> {
        let [a, b, c] = NETWORK;
        // Host 1 is the API server's service, host 255 the broadcast address.
        let dynamic = FIRST_DYNAMIC_ADDRESS..=254;
        dynamic
            .chain(2..FIRST_DYNAMIC_ADDRESS)
            .map(|host| Ipv4Addr::new(a, b, c, host).to_string())
            .find(|address| !self.addresses.contains(address))
            .ok_or_else(|| {
                let path = Path::new("spec");
                FieldError::internal(&path.child("clusterIPs"), "failed to allocate a serviceIP: range is full")
            })
    }

    fn check_address(&self, given: &str) -> Result<String, FieldError> {
        let path = Path::new("spec");
        let refuse = |why: String| {
            let shown = BadValue::Raw(json!([given]).to_string());
            FieldError::invalid(&path.child("clusterIPs"), shown, format!("failed to allocate IP {given}: {why}"))
        };
        let [a, b, c] = NETWORK;
        let Ok(address) = given.parse::<Ipv4Addr>() else { return Ok(given.to_owned()) };
        if address.octets()[..3] != [a, b, c] {
            return Err(refuse("the provided network does not match the current range".to_owned()));
        }
        if self.addresses.iter().any(|taken| taken == given) {
            return Err(refuse("provided IP is already allocated".to_owned()));
        }
        Ok(given.to_owned())
    }
}

fn allocate_node_ports(service: &mut Value, others: &mut AllocatedAddresses) -> Result<(), FieldError> {
    let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for (i, port) in ports.into_iter().flatten().enumerate() {
        let protocol = str_field(port, "protocol").to_owned();
        let wanted = port.get("nodePort").and_then(Value::as_i64).unwrap_or(0);
        let spec = Path::new("spec");
        let all = spec.child("ports");
        let item = all.index(i);
        let path = item.child("nodePort");
        let taken = |number: i64| others.ports.iter().any(|(p, n)| *p == protocol && *n == number);
        let number = if wanted == 0 {
            let free = (FIRST_DYNAMIC_PORT..=*NODE_PORTS.end()).find(|n| !taken(*n));
            free.ok_or_else(|| FieldError::internal(&path, "failed to allocate a nodePort: range is full"))?
        } else if !NODE_PORTS.contains(&wanted) {
            let why = format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                NODE_PORTS.start(),
                NODE_PORTS.end()
            );
            return Err(FieldError::invalid(&path, wanted, why));
        } else if taken(wanted) {
            return Err(FieldError::invalid(&path, wanted, "provided port is already allocated"));
        } else {
            wanted
        };
        port["nodePort"] = number.into();
        others.ports.push((protocol, number));
    }
    Ok(())
}
