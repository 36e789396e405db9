//! `node.k8s.io/v1` `RuntimeClass`. See `pkg/registry/node/runtimeclass/strategy.go` and
//! `pkg/apis/node/validation/validation.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{array_field, non_null, str_field};
use crate::json::{Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::internal_json;
use crate::registry::core::node_selector::deprecated_label;
use crate::registry::core::pod::{resources, scheduling};
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::{checks, meta, names};

/// The resource `runtimeclasses` of `node.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", "io.k8s.api.node.v1.RuntimeClass")
        .cluster()
        .hash("WQTu1GL3T2Q=")
        .rules(
            KindStrategy::new(
                Generic {
                    unconditional: false,
                    create_on_update: true,
                    namespaced: false,
                    updates: MetadataRules::ObjectFirst,
                    ..Generic::NEW
                },
                |_| {},
            )
            .check_with(validate)
            .warn_with(warnings)
            .check_update_with(|new, old| checks::unchanged(new, old, &["handler"])),
        )
        .columns(COLUMNS)
}

/// Returns the warnings about deprecated labels of nodes: `GetWarningsForRuntimeClass` in `pkg/api/node/util.go`.
fn warnings(class: &Value, _old: Option<&Value>) -> Vec<String> {
    let labels = class["scheduling"]["nodeSelector"].as_object().into_iter().flatten();
    let texts = labels.filter_map(|(label, _)| deprecated_label(label));
    texts.map(|text| format!("scheduling.nodeSelector: {text}")).collect()
}

/// Validates a `RuntimeClass`, except for its metadata. See `pkg/apis/node/validation/validation.go`.
fn validate(class: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let handler = str_field(class, "handler");
    let path = Path::new("handler");
    if handler.is_empty() {
        errors.required(&path, "");
    } else {
        for why in names::dns1123_label(handler) {
            errors.invalid(&path, handler, why);
        }
    }
    if let Some(overhead) = non_null(class, "overhead") {
        let limits = json!({"limits": overhead["podFixed"]});
        resources::requirements(&limits, false, &Path::new("overhead"), &mut errors);
    }
    if let Some(scheduling) = non_null(class, "scheduling") {
        let path = Path::new("scheduling");
        if let Some(labels) = scheduling.get("nodeSelector").and_then(Value::as_object) {
            meta::validate_labels(labels, &path.child("nodeSelector"), &mut errors);
        }
        let tolerations = array_field(scheduling, "tolerations");
        let path = path.child("tolerations");
        scheduling::tolerations(tolerations, &path, &mut errors);
        let repeated = checks::repeated(tolerations, |one| {
            ["key", "operator", "value", "effect"].map(|field| str_field(one, field))
        });
        for (i, one) in tolerations.iter().enumerate().filter(|(i, _)| repeated[*i]) {
            errors.duplicate(&path.index(i), BadValue::Raw(internal_json::compact("Toleration", one)));
        }
    }
    errors
}

/// The columns of `runtimeclasses`.
const COLUMNS: &[Column] =
    &[NAME, Column::string("Handler", Description::Text(""), CellSource::Text("/handler", "")), AGE];
