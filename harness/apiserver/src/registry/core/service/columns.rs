//! Columns of services. See `printService` in `pkg/printers/internalversion/printers.go`. PURE.

use crate::json::{Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::duration;
use crate::printers::format::{NONE, ingress_addresses, items, number, text};

/// The columns of `services`.
pub(super) const COLUMNS: &[Column] = &[
    NAME,
    Column::string("Type", Description::Field("api.core.v1.ServiceSpec", "type"), CellSource::Text("/spec/type", "")),
    Column::string(
        "Cluster-IP",
        Description::Field("api.core.v1.ServiceSpec", "clusterIP"),
        CellSource::Optional("/spec/clusterIPs/0", NONE),
    ),
    Column::string(
        "External-IP",
        Description::Field("api.core.v1.ServiceSpec", "externalIPs"),
        CellSource::Custom(|service, _| json!(external_ip(service))),
    ),
    Column::string(
        "Port(s)",
        Description::Field("api.core.v1.ServiceSpec", "ports"),
        CellSource::Custom(|service, _| json!(service_ports(service))),
    ),
    AGE,
    Column::string(
        "Selector",
        Description::Field("api.core.v1.ServiceSpec", "selector"),
        CellSource::Labels("/spec/selector"),
    )
    .wide(),
];

fn external_ip(service: &Value) -> String {
    let external: Vec<&str> = items(service, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    let or_none =
        |shown: Vec<&str>, otherwise: &str| if shown.is_empty() { otherwise.to_owned() } else { shown.join(",") };
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" => or_none(external, NONE),
        "LoadBalancer" => {
            let mut addresses = ingress_addresses(service);
            addresses.extend(external);
            or_none(addresses, "<pending>")
        }
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        _ => duration::UNKNOWN.to_owned(),
    }
}

fn service_ports(service: &Value) -> String {
    let ports: Vec<String> = items(service, "/spec/ports")
        .iter()
        .map(|port| match (number(port, "/port"), number(port, "/nodePort"), text(port, "/protocol")) {
            (port, 0, protocol) => format!("{port}/{protocol}"),
            (port, node_port, protocol) => format!("{port}:{node_port}/{protocol}"),
        })
        .collect();
    if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
}
