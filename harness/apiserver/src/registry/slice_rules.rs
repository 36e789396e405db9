//! Validation of endpoint slices. See `pkg/apis/discovery/validation/validation.go`.

use std::net::IpAddr;

use super::checks;
use super::label_selector::array_field;
use super::meta::{self, non_null};
use super::names;
use crate::field_errors::{ErrorList, Path};
use crate::json::Value;

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
/// Most endpoints and ports of a slice, addresses of an endpoint, and hints.
const ENDPOINTS_MAX: usize = 1000;
const PORTS_MAX: usize = 20_000;
const ADDRESSES_MAX: usize = 100;
const HINTS_MAX: usize = 8;

/// Returns what is wrong with a text.
type Format = fn(&str) -> Vec<String>;

/// Validates an `EndpointSlice`.
pub(super) fn endpoint_slice(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let kind = meta::str_field(object, "addressType");
    match kind {
        "" => errors.required(&Path::new("addressType"), ""),
        _ if !ADDRESS_TYPES.contains(&kind) => {
            errors.not_supported(&Path::new("addressType"), kind, &ADDRESS_TYPES);
        }
        _ => {}
    }
    ports(array_field(object, "ports"), &mut errors);
    let (root, endpoints) = (Path::new("endpoints"), array_field(object, "endpoints"));
    if endpoints.len() > ENDPOINTS_MAX {
        errors.too_many(&root, endpoints.len(), ENDPOINTS_MAX);
        return errors;
    }
    for (index, one) in endpoints.iter().enumerate() {
        endpoint(one, kind, &root.index(index), &mut errors);
    }
    errors
}

fn ports(ports: &[Value], errors: &mut ErrorList) {
    let root = Path::new("ports");
    if ports.len() > PORTS_MAX {
        return errors.too_many(&root, ports.len(), PORTS_MAX);
    }
    for (index, port) in ports.iter().enumerate() {
        let (path, name) = (root.index(index), meta::str_field(port, "name"));
        if !name.is_empty() {
            checks::format(name, names::dns1123_label, &path.child("name"), errors);
        }
        if ports[..index].iter().any(|other| meta::str_field(other, "name") == name) {
            errors.duplicate(&path.child("name"), name);
        }
        checks::required_one_of(port, "protocol", &PROTOCOLS, &path, errors);
        if let Some(protocol) = non_null(port, "appProtocol").and_then(Value::as_str) {
            checks::format(protocol, names::qualified_name, &path.child("appProtocol"), errors);
        }
    }
}

fn endpoint(endpoint: &Value, kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let (root, addresses) = (path.child("addresses"), array_field(endpoint, "addresses"));
    match addresses.len() {
        0 => errors.required(&root, "must contain at least 1 address"),
        count if count > ADDRESSES_MAX => errors.too_many(&root, count, ADDRESSES_MAX),
        _ => {}
    }
    for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
        match (kind, address.parse::<IpAddr>()) {
            ("IPv4" | "IPv6", Err(_)) => {
                let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                errors.invalid(&root.index(index), address, why);
            }
            ("IPv4", Ok(ip)) if !ip.is_ipv4() => errors.invalid(&root, address, "must be an IPv4 address"),
            ("IPv6", Ok(ip)) if !ip.is_ipv6() => errors.invalid(&root, address, "must be an IPv6 address"),
            _ => {}
        }
    }
    if let Some(node) = non_null(endpoint, "nodeName").and_then(Value::as_str) {
        checks::format(node, names::dns1123_subdomain, &path.child("nodeName"), errors);
    }
    if let Some(name) = non_null(endpoint, "hostname").and_then(Value::as_str) {
        checks::format(name, names::dns1123_label, &path.child("hostname"), errors);
    }
    let (hints, root) = (&endpoint["hints"], path.child("hints"));
    for (field, check) in [("forZones", names::label_value as Format), ("forNodes", names::dns1123_subdomain as Format)]
    {
        let (all, path) = (array_field(hints, field), root.child(field));
        if all.len() > HINTS_MAX {
            return errors.too_many(&path, all.len(), HINTS_MAX);
        }
        for (index, hint) in all.iter().enumerate() {
            let name = meta::str_field(hint, "name");
            if all[..index].iter().any(|other| meta::str_field(other, "name") == name) {
                errors.duplicate(&path.index(index).child("name"), name);
            }
            checks::format(name, check, &path.index(index).child("name"), errors);
        }
    }
}
