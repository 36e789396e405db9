//! `apps/v1` `ControllerRevision`. See `pkg/registry/apps/controllerrevision/strategy.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::{Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{NONE, items, text};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks;
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;

/// The resource `controllerrevisions` of `apps/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("apps", "v1", "controllerrevisions", "ControllerRevision", "io.k8s.api.apps.v1.ControllerRevision")
        .hash("85nkx63pcBU=")
        .rules(
            KindStrategy::new(Generic { updates: MetadataRules::Both, ..Generic::NEW }, |_| {})
                .check_with(validate)
                .check_new_with(validate_data)
                .check_update_with(|new, old| checks::unchanged(new, old, &["data"])),
        )
        .columns(COLUMNS)
}

/// Validates a `ControllerRevision`.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    checks::validate_non_negative(object.get("revision"), &Path::new("revision"), &mut errors);
    errors
}

/// Validates the data of a new `ControllerRevision`.
fn validate_data(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    match object.get("data") {
        None | Some(Value::Null) => errors.required(&Path::new("data"), "data is mandatory"),
        Some(data) if !data.is_object() => errors.required(&Path::new("data"), "data must be a valid JSON object"),
        Some(_) => {}
    }
    errors
}

/// The columns of `controllerrevisions`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Controller",
        Description::Text("Controller of the object"),
        CellSource::Custom(|object, _| json!(controller(object))),
    ),
    Column::string(
        "Revision",
        Description::Field("api.apps.v1.ControllerRevision", "revision"),
        CellSource::Number("/revision"),
    ),
    AGE,
];

fn controller(object: &Value) -> String {
    let Some(owner) = items(object, "/metadata/ownerReferences").iter().find(|o| o["controller"] == json!(true)) else {
        return NONE.to_owned();
    };
    let kind = text(owner, "/kind").to_lowercase();
    match text(owner, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{}/{}", group.to_lowercase(), text(owner, "/name")),
        None => format!("{kind}/{}", text(owner, "/name")),
    }
}
