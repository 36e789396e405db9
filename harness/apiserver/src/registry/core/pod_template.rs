//! Core `v1` `PodTemplate`. See `pkg/registry/core/podtemplate/strategy.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::{Map, Value, json};
use crate::printers::column::{CellSource, Column, Description, NAME};
use crate::printers::format::labels;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::pod::{defaults, validation, warnings};
use crate::registry::generic::{Generation, Generic};
use crate::registry::kind_strategy::KindStrategy;

/// The resource `podtemplates`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "podtemplates", "PodTemplate", "io.k8s.api.core.v1.PodTemplate")
        .hash("LIXB2x4IFpk=")
        .rules(
            KindStrategy::new(Generic { generation: Generation::AllButStatus, ..Generic::NEW }, defaults)
                .check_with(validate)
                .warn_with(warnings::pod_template_warnings),
        )
        .columns(COLUMNS)
}

/// Defaults of `PodTemplate`.
fn defaults(map: &mut Map) {
    if let Some(template) = map.get_mut("template") {
        defaults::template(template);
    }
}

/// Validates a `PodTemplate`, except for its metadata.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    validation::template(&object["template"], &Path::new("template"), &mut errors);
    errors
}

/// The columns of `podtemplates`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Containers",
        Description::Text("Names of each container in the template."),
        CellSource::ContainerNames("/template/spec/containers"),
    ),
    Column::string(
        "Images",
        Description::Text("Images referenced by each container in the template."),
        CellSource::ContainerImages("/template/spec/containers"),
    ),
    Column::string(
        "Pod Labels",
        Description::Text("The labels for the pod template."),
        CellSource::Custom(|o, _| json!(labels(o, "/template/metadata/labels"))),
    ),
];
