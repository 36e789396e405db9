//! `apps/v1` `ControllerRevision`. See `pkg/registry/apps/controllerrevision/strategy.go`.

use crate::json::{Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{NONE, items, text};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::Generic;

/// The resource `controllerrevisions` of `apps/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("apps", "v1", "controllerrevisions", "ControllerRevision", "io.k8s.api.apps.v1.ControllerRevision")
        .hash("85nkx63pcBU=")
        .rules(Generic { revalidates: true, ..Generic::NEW })
        .columns(COLUMNS)
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
        Some((group, _)) => format!("{kind}.{group}/{}", text(owner, "/name")),
        None => format!("{kind}/{}", text(owner, "/name")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({}), "<none>")]
    #[case(json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": true}]}}),
        "daemonset.apps/d")]
    fn controllers(#[case] object: Value, #[case] shown: &str) {
        assert_eq!(controller(&object), shown);
    }
}
