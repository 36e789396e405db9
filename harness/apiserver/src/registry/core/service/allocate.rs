//! Allocation of cluster IPs and node ports of services, which comes before validation as upstream.
//!
//! See `pkg/registry/core/service/storage/{alloc,storage}.go`. Upstream allocates at random; here the lowest free one
//! of the dynamic range is used, so that runs are reproducible. A dry run shows placeholders, as upstream, and does not
//! check what a request asks for.

use std::net::Ipv4Addr;

use crate::field_errors::{BadValue, ErrorList, FieldError, Path};
use crate::json::fields::{array_field, is_empty_value, object_or_insert, spec_of, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::core::service::fields::{
    allocates_node_ports, has_cluster_ip, is_headless, needs_health_check, needs_node_port, node_port,
};
use crate::registry::core::service::{families, update};
use crate::registry::strategy::StrategyContext;
use crate::status::Status;

/// The first three octets of the service network 10.0.0.0/24, kube-apiserver's default.
const NETWORK: [u8; 3] = [10, 0, 0];

/// The first address for dynamic allocation; lower ones are reserved for static requests as long as possible.
const FIRST_DYNAMIC_ADDRESS: u8 = 17;

/// The node port range; ports below [`FIRST_DYNAMIC_PORT`] are allocated only on explicit request.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

const FIRST_DYNAMIC_PORT: i64 = 30_086;

/// The number before the first node port that a dry run shows: `AllocateNext` in
/// `pkg/registry/core/service/portallocator/operation.go`.
const PLACEHOLDER_PORT: i64 = 32_768;

/// Allocates the IP addresses, families and ports that a new service lacks: `beginCreate`.
pub(super) fn allocate_new(service: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    families::init(service, None)?;
    // A service that has the name of the new one holds what it has: this comes before the conflict of names.
    give_out(service, Pool::new(None, ctx))
}

/// Allocates the address and the ports that a service lacks.
fn give_out(service: &mut Value, mut pool: Pool<'_>) -> Result<(), Status> {
    allocate_address(service, &mut pool)?;
    if needs_node_port(service) {
        allocate_node_ports(service, &mut pool)?;
    }
    if needs_health_check(service) {
        allocate_health_check_port(service, &mut pool)?;
    }
    Ok(())
}

/// Allocates what an update of a service adds: `beginUpdate`.
pub(super) fn allocate_update(new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    update::patch_allocated_values(new, old);
    update::normalize_cluster_ips(new, old);
    let families_stay = families::is_matching_dual_stack(new, old);
    if !families_stay {
        families::init(new, Some(old))?;
    }
    let mut pool = Pool::new(Some(new), ctx);
    if !families_stay && !has_cluster_ip(old) && has_cluster_ip(new) {
        allocate_address(new, &mut pool)?;
    }
    if needs_node_port(new) {
        update_node_ports(new, old, &mut pool)?;
    }
    if !needs_health_check(old) && needs_health_check(new) {
        allocate_health_check_port(new, &mut pool)?;
    }
    Ok(())
}

/// Like [`allocate_new`], but takes a service that has its addresses and ports as it is, which is quick for thousands.
/// Families that this cluster does not have stay.
pub(super) fn allocate_missing(service: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    if !has_cluster_ip(service) {
        return Ok(());
    }
    if is_empty_value(spec_of(service).get("ipFamilies")) {
        families::init(service, None).ok();
    }
    let spec = spec_of(service);
    let ports = array_field(spec, "ports");
    let is_missing = (!is_headless(service) && is_empty_value(spec.get("clusterIP")))
        || (allocates_node_ports(service) && ports.iter().any(|port| node_port(port) == 0))
        || (needs_health_check(service) && is_empty_value(spec.get("healthCheckNodePort")));
    let pool = Pool::new(Some(service), ctx);
    if is_missing { give_out(service, pool) } else { Ok(()) }
}

fn invalid(service: &Value, error: FieldError) -> Status {
    Status::invalid("", "Service", metadata::name(service), &ErrorList::from(error))
}

/// Allocates the address of a service: `allocClusterIPs` for a cluster with IPv4 only.
fn allocate_address(service: &mut Value, pool: &mut Pool<'_>) -> Result<(), Status> {
    if !has_cluster_ip(service) || is_headless(service) {
        return Ok(());
    }
    let list = array_field(spec_of(service), "clusterIPs");
    let given = list.first().and_then(Value::as_str).unwrap_or_default().to_owned();
    if !given.is_empty() {
        return pool.check_address(&given).map_err(|error| invalid(service, error));
    }
    let address = pool.free_address()?;
    if let Some(spec) = object_or_insert(service, "spec") {
        spec.insert("clusterIP", address.as_str().into());
        spec.insert("clusterIPs", json!([address]));
    }
    Ok(())
}

/// Returns the error of a node port that cannot be had.
fn port_error(service: &Value, index: usize, number: i64, why: &str) -> Status {
    let spec = Path::new("spec");
    let ports = spec.child("ports");
    let path = ports.index(index);
    invalid(service, FieldError::invalid(&path.child("nodePort"), number, why))
}

/// Allocates the node ports of a new service: `initNodePorts`. Ports of one number share a node port.
fn allocate_node_ports(service: &mut Value, pool: &mut Pool<'_>) -> Result<(), Status> {
    let mut ports = array_field(spec_of(service), "ports").to_vec();
    let is_automatic = allocates_node_ports(service);
    let mut shared: Vec<(i64, i64)> = Vec::new();
    for i in 0..ports.len() {
        let given = node_port(&ports[i]);
        if given == 0 && !is_automatic {
            continue;
        }
        let port = number_of(&ports[i]);
        let known = shared.iter().find(|(of, _)| *of == port).map(|(_, number)| *number);
        let mut take = |number: i64| -> Result<i64, Status> {
            pool.take_port(number).map_err(|why| port_error(service, i, number, &why))?;
            Ok(number)
        };
        let number = match known {
            Some(known) if given == 0 || given == known => known,
            Some(_) => take(given)?,
            None => {
                // One that is asked for by a later port of the same number counts.
                let same = ports.iter().filter(|other| number_of(other) == port);
                let wanted = same.map(node_port).find(|number| *number != 0);
                match wanted {
                    Some(wanted) => take(wanted)?,
                    None => pool.free_port("nodePort")?,
                }
            }
        };
        if known.is_none() {
            shared.push((port, number));
        }
        ports[i]["nodePort"] = number.into();
    }
    set_ports(service, ports);
    Ok(())
}

/// Allocates the node ports of an updated service: `updateNodePorts`.
fn update_node_ports(new: &mut Value, old: &Value, pool: &mut Pool<'_>) -> Result<(), Status> {
    let own: Vec<i64> =
        array_field(spec_of(old), "ports").iter().map(node_port).filter(|number| *number != 0).collect();
    // What the service has is released once the update is stored.
    pool.held.extend(&own);
    pool.held.extend(spec_of(old).get("healthCheckNodePort").and_then(Value::as_i64));
    let mut ports = array_field(spec_of(new), "ports").to_vec();
    let is_automatic = allocates_node_ports(new);
    let mut seen: Vec<(String, i64)> = Vec::new();
    for (i, port) in ports.iter_mut().enumerate() {
        let mut number = node_port(port);
        if number == 0 && !is_automatic {
            continue;
        }
        if number == 0 {
            number = pool.free_port("nodePort")?;
            port["nodePort"] = number.into();
        } else if !own.contains(&number) && seen.iter().all(|(_, taken)| *taken != number) {
            pool.take_port(number).map_err(|why| port_error(new, i, number, &why))?;
        }
        let pair = (str_field(port, "protocol").to_owned(), number);
        if seen.contains(&pair) {
            return Err(Status::untyped_error(format!("duplicate nodePort: {{{} {}}}", pair.0, pair.1)));
        }
        seen.push(pair);
    }
    set_ports(new, ports);
    Ok(())
}

fn number_of(port: &Value) -> i64 {
    port.get("port").and_then(Value::as_i64).unwrap_or(0)
}

fn set_ports(service: &mut Value, ports: Vec<Value>) {
    if !ports.is_empty()
        && let Some(spec) = object_or_insert(service, "spec")
    {
        spec.insert("ports", Value::Array(ports));
    }
}

/// Allocates the port of health checks: `allocHealthCheckNodePort`.
fn allocate_health_check_port(service: &mut Value, pool: &mut Pool<'_>) -> Result<(), Status> {
    let wanted = spec_of(service).get("healthCheckNodePort").and_then(Value::as_i64).unwrap_or(0);
    if wanted != 0 {
        return pool.take_port(wanted).map_err(|why| {
            Status::internal(format!("failed to allocate requested HealthCheck NodePort {wanted}: {why}"))
        });
    }
    let number = pool.free_port("HealthCheck NodePort 0")?;
    if let Some(spec) = object_or_insert(service, "spec") {
        spec.insert("healthCheckNodePort", number.into());
    }
    Ok(())
}

/// The addresses and ports that are taken: of other services and `IPAddress` objects, and those given out by now.
struct Pool<'a> {
    ctx: &'a StrategyContext<'a>,
    /// Namespace and name of the service, if it exists.
    own: Option<(String, String)>,
    /// The addresses and node ports of others, once they are asked for.
    others: Option<(Vec<String>, Vec<i64>)>,
    /// The node ports of the service itself.
    held: Vec<i64>,
}

impl<'a> Pool<'a> {
    fn new(own: Option<&Value>, ctx: &'a StrategyContext<'a>) -> Self {
        let own = own.map(|own| (metadata::namespace(own).to_owned(), metadata::name(own).to_owned()));
        Self { ctx, own, others: None, held: Vec::new() }
    }

    fn others(&mut self) -> &(Vec<String>, Vec<i64>) {
        let Self { ctx, own, others, .. } = self;
        others.get_or_insert_with(|| {
            let of = |service: &Value| (metadata::namespace(service).to_owned(), metadata::name(service).to_owned());
            let mut addresses: Vec<String> = Vec::new();
            let mut ports = Vec::new();
            for other in ctx.lookup.list("", "services", "").iter().filter(|service| Some(of(service)) != *own) {
                let spec = spec_of(other);
                let listed = array_field(spec, "clusterIPs").iter().filter_map(Value::as_str);
                addresses.extend(listed.map(str::to_owned));
                ports.extend(array_field(spec, "ports").iter().map(node_port).filter(|number| *number != 0));
                ports.extend(spec.get("healthCheckNodePort").and_then(Value::as_i64));
            }
            let is_own = |address: &Value| {
                let parent = &spec_of(address)["parentRef"];
                let holder = (str_field(parent, "namespace"), str_field(parent, "name"));
                str_field(parent, "resource") == "services"
                    && own.as_ref().is_some_and(|(namespace, name)| holder == (namespace.as_str(), name.as_str()))
            };
            let objects = ctx.lookup.list("networking.k8s.io", "ipaddresses", "");
            let foreign = objects.iter().filter(|address| !is_own(address));
            addresses.extend(foreign.map(|address| metadata::name(address).to_owned()));
            (addresses, ports)
        })
    }

    fn free_address(&mut self) -> Result<String, Status> {
        let [a, b, c] = NETWORK;
        if self.ctx.dry_run {
            // A placeholder: the address of the network itself.
            return Ok(Ipv4Addr::new(a, b, c, 0).to_string());
        }
        // Host 1 is the API server's service, host 255 the broadcast address.
        let dynamic = FIRST_DYNAMIC_ADDRESS..=254;
        let taken = &self.others().0;
        dynamic
            .chain(2..FIRST_DYNAMIC_ADDRESS)
            .map(|host| Ipv4Addr::new(a, b, c, host).to_string())
            .find(|address| !taken.contains(address))
            .ok_or_else(|| Status::internal("failed to allocate a serviceIP: range is full"))
    }

    fn check_address(&mut self, given: &str) -> Result<(), FieldError> {
        let path = Path::new("spec");
        let refuse = |why: &str| {
            let shown = BadValue::Raw(json!([given]).to_string());
            Err(FieldError::invalid(&path.child("clusterIPs"), shown, format!("failed to allocate IP {given}: {why}")))
        };
        let Ok(address) = given.parse::<Ipv4Addr>() else { return Ok(()) };
        if address.octets()[..3] != NETWORK {
            return refuse("the provided network does not match the current range");
        }
        if !self.ctx.dry_run && self.others().0.iter().any(|taken| taken == given) {
            return refuse("provided IP is already allocated");
        }
        Ok(())
    }

    /// Takes a node port. A number is taken for all protocols.
    fn take_port(&mut self, number: i64) -> Result<(), String> {
        if !self.ctx.dry_run && !NODE_PORTS.contains(&number) {
            let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
            return Err(format!("provided port is not in the valid range. The range of valid ports is {first}-{last}"));
        }
        if self.held.contains(&number) || self.others().1.contains(&number) {
            return Err("provided port is already allocated".to_owned());
        }
        self.held.push(number);
        Ok(())
    }

    fn free_port(&mut self, what: &str) -> Result<i64, Status> {
        if self.ctx.dry_run {
            // A placeholder: the number after the highest one of this request.
            let number = self.held.iter().max().copied().unwrap_or(PLACEHOLDER_PORT) + 1;
            self.held.push(number);
            return Ok(number);
        }
        let dynamic = (FIRST_DYNAMIC_PORT..=*NODE_PORTS.end()).chain(*NODE_PORTS.start()..FIRST_DYNAMIC_PORT);
        let own = self.held.clone();
        let taken = &self.others().1;
        let free = dynamic.into_iter().find(|number| !own.contains(number) && !taken.contains(number));
        let number = free.ok_or_else(|| Status::internal(format!("failed to allocate a {what}: range is full")))?;
        self.held.push(number);
        Ok(number)
    }
}
