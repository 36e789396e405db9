//! Core `v1` `ComponentStatus`, which is not stored. See `pkg/registry/core/componentstatus/rest.go`.

use crate::json::Value;
use crate::printers::column::{CellSource, Column, Description, NAME};
use crate::printers::format::{items, text};
use crate::registry::builder::{ResourceBuilder, resource};

/// The resource `componentstatuses`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "componentstatuses", "ComponentStatus", "io.k8s.api.core.v1.ComponentStatus")
        .cluster()
        .short(&["cs"])
        .verbs(&["get", "list"])
        .columns(COLUMNS)
}

/// The columns of `componentstatuses`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Status",
        Description::Text("Status of the component conditions"),
        CellSource::Custom(|part, _| health(part).0),
    ),
    Column::string(
        "Message",
        Description::Text("Message of the component conditions"),
        CellSource::Custom(|part, _| health(part).1),
    ),
    Column::string(
        "Error",
        Description::Text("Error of the component conditions"),
        CellSource::Custom(|part, _| health(part).2),
    ),
];

/// Returns status, message and error of a component.
fn health(part: &Value) -> (Value, Value, Value) {
    let health = items(part, "/conditions").iter().find(|condition| text(condition, "/type") == "Healthy");
    let Some(health) = health else { return ("Unknown".into(), "".into(), "".into()) };
    let status = if text(health, "/status") == "True" { "Healthy" } else { "Unhealthy" };
    (status.into(), text(health, "/message").into(), text(health, "/error").into())
}
