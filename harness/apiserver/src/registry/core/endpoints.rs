//! Core `v1` Endpoints.
//! See `pkg/registry/core/endpoint/strategy.go` and `pkg/apis/core/validation/validation.go`.

use std::net::IpAddr;

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, items_mut, str_field, text_default};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{NONE, items, number, text};
use crate::registry::addresses;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::meta;
use crate::registry::names::{self, NameFormat};
use crate::registry::prepare::values_equal;
use crate::registry::strategy::Strategy;

/// The resource `endpoints`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "endpoints", "Endpoints", "io.k8s.api.core.v1.Endpoints")
        .short(&["ep"])
        .hash("fWeeMqaN/OA=")
        .rules(Endpoints)
        .columns(COLUMNS)
}

/// Defaults of `Endpoints`.
fn defaults(map: &mut Map) {
    for subset in items_mut(map, "subsets") {
        for port in items_mut(subset, "ports") {
            text_default(port, "protocol", "TCP");
        }
    }
}

/// The strategy of Endpoints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoints;

const METADATA: Path<'static> = Path::new("metadata");

const SUBSETS: Path<'static> = Path::new("subsets");

impl Strategy for Endpoints {
    fn default(&self, object: &mut Value) {
        if let Some(map) = object.as_object_mut() {
            defaults(map);
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Subdomain, &METADATA);
        subsets(object, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        errors.append(meta::validate(new, true, NameFormat::Subdomain, &METADATA));
        // Unchanged subsets are not validated again.
        if !values_equal(new, &["subsets"], new.get("subsets"), old.get("subsets")) {
            subsets(new, &mut errors);
        }
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        warnings(object)
    }

    fn warnings_on_update(&self, new: &Value, _old: &Value) -> Vec<String> {
        warnings(new)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// Returns the warnings about endpoints, except for those of their controller: `endpointsWarnings`.
fn warnings(endpoints: &Value) -> Vec<String> {
    if metadata::label(endpoints, "endpoints.kubernetes.io/managed-by") == Some("endpoint-controller") {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (i, subset) in array_field(endpoints, "subsets").iter().enumerate() {
        for list in ["addresses", "notReadyAddresses"] {
            for (j, address) in array_field(subset, list).iter().enumerate() {
                let path = format!("subsets[{i}].{list}[{j}].ip");
                warnings.extend(addresses::ip_warning(&path, str_field(address, "ip")));
            }
        }
    }
    warnings
}

fn subsets(object: &Value, errors: &mut ErrorList) {
    let lists = ["addresses", "notReadyAddresses"];
    for (i, subset) in array_field(object, "subsets").iter().enumerate() {
        let path = SUBSETS.index(i);
        if lists.iter().all(|list| array_field(subset, list).is_empty()) {
            errors.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in lists {
            let path = path.child(list);
            for (j, found) in array_field(subset, list).iter().enumerate() {
                address(found, &path.index(j), errors);
            }
        }
        let path = path.child("ports");
        let ports = array_field(subset, "ports");
        for (j, found) in ports.iter().enumerate() {
            port(found, ports.len() > 1, &path.index(j), errors);
        }
    }
}

fn address(address: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let ip = str_field(address, "ip");
    let ip_path = path.child("ip");
    addresses::legacy_ip(ip, &ip_path, errors);
    let name = str_field(address, "hostname");
    if !name.is_empty() {
        for message in names::dns1123_label(name) {
            errors.invalid(&path.child("hostname"), name, message);
        }
    }
    if let Some(name) = address.get("nodeName").and_then(Value::as_str) {
        for message in names::dns1123_subdomain(name) {
            errors.invalid(&path.child("nodeName"), name, message);
        }
    }
    endpoint_ip(ip, &ip_path, errors);
}

/// Rejects addresses that cannot be endpoints.
pub(in crate::registry) fn endpoint_ip(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(ip) = addresses::sloppy_ip(text) else {
        errors.invalid(path, text, "must be a valid IP address");
        return;
    };
    let (local, local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if ip.is_unspecified() {
        errors.invalid(path, text, format!("may not be unspecified ({text})"));
    }
    if ip.is_loopback() {
        errors.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if local {
        errors.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if local_multicast {
        errors.invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

fn port(port: &Value, needs_name: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let name = str_field(port, "name");
    if name.is_empty() {
        if needs_name {
            errors.required(&path.child("name"), "");
        }
    } else {
        for message in names::dns1123_label(name) {
            errors.invalid(&path.child("name"), name, message);
        }
    }
    let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
    if let Some(message) = names::port_number(number) {
        errors.invalid(&path.child("port"), number, message);
    }
    let protocol = str_field(port, "protocol");
    if protocol.is_empty() {
        errors.required(&path.child("protocol"), "");
    } else if !matches!(protocol, "SCTP" | "TCP" | "UDP") {
        errors.not_supported(&path.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]);
    }
    if let Some(name) = port.get("appProtocol").and_then(Value::as_str) {
        for message in names::qualified_name(name) {
            errors.invalid(&path.child("appProtocol"), name, message);
        }
    }
}

/// The columns of `endpoints`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Endpoints",
        Description::Field("api.core.v1.Endpoints", "subsets"),
        CellSource::Custom(|object, _| json!(shown_addresses(object))),
    ),
    AGE,
];

const ENDPOINTS_SHOWN: usize = 3;

fn shown_addresses(object: &Value) -> String {
    let mut shown: Vec<String> = Vec::new();
    for subset in items(object, "/subsets") {
        let addresses = || items(subset, "/addresses").iter().map(|address| text(address, "/ip"));
        let ports = items(subset, "/ports");
        if ports.is_empty() {
            shown.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            shown.extend(addresses().map(|ip| join_host_port(ip, number(port, "/port"))));
        }
    }
    match shown.len() {
        0 if items(object, "/subsets").is_empty() => NONE.to_owned(),
        all if all > ENDPOINTS_SHOWN => {
            format!("{} + {} more...", shown[..ENDPOINTS_SHOWN].join(","), all - ENDPOINTS_SHOWN)
        }
        _ => shown.join(","),
    }
}

fn join_host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10.0.0.1", None)]
    #[case("", Some("must be a valid IP address"))]
    #[case("0.0.0.0", Some("may not be unspecified (0.0.0.0)"))]
    #[case("::1", Some("may not be in the loopback range (127.0.0.0/8, ::1/128)"))]
    #[case("fe80::1", Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)"))]
    #[case("224.0.0.9", Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))]
    fn addresses(#[case] ip: &str, #[case] why: Option<&str>) {
        let mut errors = ErrorList::new();
        endpoint_ip(ip, &Path::new("ip"), &mut errors);
        assert_eq!(errors.iter().next().map(|error| error.detail.as_str()), why);
    }

    #[test]
    fn two_ports_need_names() {
        let subset = json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [
            {"port": 80, "protocol": "TCP"}, {"name": "b", "port": 81, "protocol": "TCP"}]});
        let object = json!({"metadata": {"name": "e", "namespace": "n"}, "subsets": [subset]});
        let fields: Vec<String> = Endpoints.validate(&object).iter().map(|error| error.field.clone()).collect();
        assert_eq!(fields, ["subsets[0].ports[0].name"]);
    }
}
