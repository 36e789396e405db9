//! `storage.k8s.io/v1` `CSIStorageCapacity`. See `pkg/registry/storage/csistoragecapacity/strategy.go` and
//! `pkg/apis/storage/validation/validation.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{non_null, semantic_equal, str_field};
use crate::quantity::Quantity;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::node_selector::{self, deprecated_label};
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::{checks, label_selector, names};

/// The resource `csistoragecapacities` of `storage.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "storage.k8s.io",
        "v1",
        "csistoragecapacities",
        "CSIStorageCapacity",
        "io.k8s.api.storage.v1.CSIStorageCapacity",
    )
    .hash("xeVl+2Ly1kE=")
    .rules(
        KindStrategy::new(
            Generic { unconditional: false, updates: MetadataRules::ObjectFirst, ..Generic::NEW },
            |_| {},
        )
        .check_with(validate)
        .check_update_with(validate_update)
        .warn_with(warnings),
    )
}

/// Returns the warnings about deprecated labels of nodes: `GetWarningsForNodeSelector` in `pkg/api/node/util.go`.
fn warnings(capacity: &Value, _old: Option<&Value>) -> Vec<String> {
    let topology = &capacity["nodeTopology"];
    let mut warnings = node_selector::term_warnings(topology, false, "nodeTopology");
    for (label, _) in topology["matchLabels"].as_object().into_iter().flatten() {
        warnings.extend(deprecated_label(label).map(|text| format!("nodeTopology.matchLabels.{label}: {text}")));
    }
    warnings
}

/// Validates a `CSIStorageCapacity`.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let topology = Path::new("nodeTopology");
    errors.append(label_selector::validate(non_null(object, "nodeTopology"), false, &topology));
    let class = str_field(object, "storageClassName");
    checks::format(class, names::dns1123_subdomain, &Path::new("storageClassName"), &mut errors);
    if let Some(capacity) = Quantity::of(&object["capacity"]).filter(|capacity| capacity.sign() < 0) {
        let why = "must be greater than or equal to 0";
        errors.invalid(&Path::new("capacity"), capacity.to_string(), why);
    }
    errors
}

/// Validates an update of a `CSIStorageCapacity`.
fn validate_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if !semantic_equal(new.get("nodeTopology"), old.get("nodeTopology")) {
        let shown = BadValue::Raw(label_selector::selector_json(non_null(new, "nodeTopology")));
        errors.invalid(&Path::new("nodeTopology"), shown, checks::IMMUTABLE_MESSAGE);
    }
    let field = "storageClassName";
    if str_field(new, field) != str_field(old, field) {
        errors.invalid(&Path::new(field), str_field(new, field), checks::IMMUTABLE_MESSAGE);
    }
    errors
}
