//! `discovery.k8s.io/v1` `EndpointSlice`. See `pkg/registry/discovery/endpointslice/strategy.go` and
//! `pkg/apis/discovery/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, items_mut, non_null, str_field, value_default};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{UNSET, items};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::endpoints;
use crate::registry::generic::{Generation, Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::{addresses, checks, names};

/// The resource `endpointslices` of `discovery.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "io.k8s.api.discovery.v1.EndpointSlice")
        .hash("qgS0xkrxYAI=")
        .rules(
            KindStrategy::new(
                Generic {
                    generation: Generation::LabelsAndAllButStatus,
                    updates: MetadataRules::Whole,
                    ..Generic::NEW
                },
                defaults,
            )
            .check_with(validate)
            .warn_with(warnings)
            .drop_late_with(drop_topology)
            .check_update_with(validate_update),
        )
        .columns(COLUMNS)
}

/// Defaults of `EndpointSlice`.
fn defaults(map: &mut Map) {
    for port in items_mut(map, "ports") {
        value_default(port, "name", "");
        value_default(port, "protocol", "TCP");
    }
}

/// Drops what is not a part of v1: `dropTopologyOnV1`.
fn drop_topology(object: &mut Value) {
    let Some(map) = object.as_object_mut() else { return };
    for endpoint in items_mut(map, "endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Most endpoints and ports of a slice, addresses of an endpoint, and hints.
const ENDPOINTS_MAX: usize = 1000;

const PORTS_MAX: usize = 20_000;

const ADDRESSES_MAX: usize = 100;

const HINTS_MAX: usize = 8;

/// Returns what is wrong with a text.
type TextCheck = fn(&str) -> Vec<String>;

/// Validates an `EndpointSlice`.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let kind = str_field(object, "addressType");
    match kind {
        "" => errors.required(&Path::new("addressType"), ""),
        _ if !ADDRESS_TYPES.contains(&kind) => {
            errors.not_supported(&Path::new("addressType"), kind, &ADDRESS_TYPES);
        }
        _ => {}
    }
    ports(array_field(object, "ports"), &mut errors);
    let root = Path::new("endpoints");
    let endpoints = array_field(object, "endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        errors.too_many(&root, endpoints.len(), ENDPOINTS_MAX);
        return errors;
    }
    for (index, one) in endpoints.iter().enumerate() {
        endpoint(one, kind, &root.index(index), &mut errors);
    }
    errors
}

/// Validates an update of an `EndpointSlice`.
fn validate_update(new: &Value, old: &Value) -> ErrorList {
    checks::unchanged(new, old, &["addressType"])
}

/// Returns the warnings about slices, except for those of their controllers: `warnOnDeprecatedAddressType` and
/// `warnOnBadIPs`.
fn warnings(slice: &Value, _old: Option<&Value>) -> Vec<String> {
    const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    const CONTROLLERS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
    let mut warnings = Vec::new();
    if str_field(slice, "addressType") == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    if metadata::label(slice, MANAGED_BY).is_some_and(|name| CONTROLLERS.contains(&name)) {
        return warnings;
    }
    for (i, endpoint) in array_field(slice, "endpoints").iter().enumerate() {
        for (j, address) in array_field(endpoint, "addresses").iter().filter_map(Value::as_str).enumerate() {
            warnings.extend(addresses::ip_warning(&format!("endpoints[{i}].addresses[{j}]"), address));
        }
    }
    warnings
}

fn ports(ports: &[Value], errors: &mut ErrorList) {
    let root = Path::new("ports");
    if ports.len() > PORTS_MAX {
        return errors.too_many(&root, ports.len(), PORTS_MAX);
    }
    let again = checks::repeated(ports, |port| str_field(port, "name"));
    for (index, port) in ports.iter().enumerate() {
        let path = root.index(index);
        let name = str_field(port, "name");
        if !name.is_empty() {
            checks::format(name, names::dns1123_label, &path.child("name"), errors);
        }
        if again[index] {
            errors.duplicate(&path.child("name"), name);
        }
        match port["protocol"].as_str() {
            None => errors.required(&path.child("protocol"), ""),
            Some(protocol) if !PROTOCOLS.contains(&protocol) => {
                errors.not_supported(&path.child("protocol"), protocol, &PROTOCOLS);
            }
            Some(_) => {}
        }
        if let Some(protocol) = non_null(port, "appProtocol").and_then(Value::as_str) {
            checks::format(protocol, names::qualified_name, &path.child("appProtocol"), errors);
        }
    }
}

/// Validates one address. Errors about its family name the list.
fn slice_address(address: &str, kind: &str, (list, path): (&Path<'_>, &Path<'_>), errors: &mut ErrorList) {
    match kind {
        "IPv4" => {
            if !addresses::legacy_ip(address, path, errors) {
                return;
            }
            if address.contains(':') {
                errors.invalid(list, address, "must be an IPv4 address");
            }
        }
        "IPv6" => {
            let wrong = names::object_name(names::NameFormat::Address, address, false);
            if !wrong.is_empty() {
                return wrong.into_iter().for_each(|why| errors.invalid(path, address, why));
            }
            if !address.contains(':') {
                errors.invalid(list, address, "must be an IPv6 address");
            }
        }
        "FQDN" => return domain(address, path, errors),
        _ => return,
    }
    endpoints::endpoint_ip(address, path, errors);
}

/// Validates a fully qualified domain name: `IsFullyQualifiedDomainName`.
fn domain(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong = names::dns1123_subdomain(name);
    if !wrong.is_empty() {
        return errors.invalid(path, name, wrong.join(","));
    }
    if !name.contains('.') {
        return errors.invalid(path, name, "should be a domain with at least two segments separated by dots");
    }
    for label in name.split('.') {
        let wrong = names::dns1123_label(label);
        if !wrong.is_empty() {
            return errors.invalid(path, label, wrong.join(","));
        }
    }
}

fn endpoint(endpoint: &Value, kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let root = path.child("addresses");
    let addresses = array_field(endpoint, "addresses");
    match addresses.len() {
        0 => errors.required(&root, "must contain at least 1 address"),
        count if count > ADDRESSES_MAX => errors.too_many(&root, count, ADDRESSES_MAX),
        _ => {}
    }
    for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
        slice_address(address, kind, (&root, &root.index(index)), errors);
    }
    if let Some(node) = non_null(endpoint, "nodeName").and_then(Value::as_str) {
        checks::format(node, names::dns1123_subdomain, &path.child("nodeName"), errors);
    }
    if let Some(name) = non_null(endpoint, "hostname").and_then(Value::as_str) {
        checks::format(name, names::dns1123_label, &path.child("hostname"), errors);
    }
    let hints = &endpoint["hints"];
    let root = path.child("hints");
    for (field, check) in
        [("forZones", names::label_value as TextCheck), ("forNodes", names::dns1123_subdomain as TextCheck)]
    {
        let all = array_field(hints, field);
        let path = root.child(field);
        if all.len() > HINTS_MAX {
            return errors.too_many(&path, all.len(), HINTS_MAX);
        }
        for (index, hint) in all.iter().enumerate() {
            let name = str_field(hint, "name");
            if all[..index].iter().any(|other| str_field(other, "name") == name) {
                errors.duplicate(&path.index(index).child("name"), name);
            }
            checks::format(name, check, &path.index(index).child("name"), errors);
        }
    }
}

/// The columns of `endpointslices`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "AddressType",
        Description::Field("api.discovery.v1.EndpointSlice", "addressType"),
        CellSource::Text("/addressType", ""),
    ),
    Column::string(
        "Ports",
        Description::Field("api.discovery.v1.EndpointSlice", "ports"),
        CellSource::Custom(|slice, _| json!(join_truncated(items(slice, "/ports").iter().map(slice_port).collect()))),
    ),
    Column::string(
        "Endpoints",
        Description::Field("api.discovery.v1.EndpointSlice", "endpoints"),
        CellSource::Custom(|slice, _| {
            let addresses = items(slice, "/endpoints").iter().flat_map(|endpoint| items(endpoint, "/addresses"));
            json!(join_truncated(addresses.filter_map(Value::as_str).map(str::to_owned).collect()))
        }),
    ),
    AGE,
];

fn slice_port(port: &Value) -> String {
    match (port.get("port").and_then(Value::as_i64), port.get("name").and_then(Value::as_str)) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    }
}

fn join_truncated(all: Vec<String>) -> String {
    const SHOWN: usize = 3;
    match all.len() {
        count if count > SHOWN => format!("{} + {} more...", all[..SHOWN].join(","), count - SHOWN),
        // The only port may have an empty name.
        _ => Some(all.join(",")).filter(|list| !list.is_empty()).unwrap_or_else(|| UNSET.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&[], "<unset>")]
    #[case(&["1", "2", "3"], "1,2,3")]
    #[case(&["1", "2", "3", "4", "5"], "1,2,3 + 2 more...")]
    fn three_are_shown(#[case] all: &[&str], #[case] shown: &str) {
        assert_eq!(join_truncated(all.iter().map(|&text| text.to_owned()).collect()), shown);
    }
}
