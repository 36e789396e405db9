//! `storage.k8s.io/v1` `VolumeAttributesClass`. See `pkg/registry/storage/volumeattributesclass/strategy.go` and
//! `pkg/apis/storage/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::semantic_equal;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::storage::common::{parameters, provisioner};

/// The resource `volumeattributesclasses` of `storage.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "storage.k8s.io",
        "v1",
        "volumeattributesclasses",
        "VolumeAttributesClass",
        "io.k8s.api.storage.v1.VolumeAttributesClass",
    )
    .cluster()
    .short(&["vac"])
    .hash("tIjydgKBC5w=")
    .rules(
        KindStrategy::new(Generic { namespaced: false, updates: MetadataRules::ChangesFirst, ..Generic::NEW }, |_| {})
            .check_with(validate)
            .check_update_with(validate_update)
            .with_finalizer(ATTRIBUTES_FINALIZER),
    )
    .columns(COLUMNS)
}

/// The finalizer that admission adds: `StorageObjectInUseProtection` in
/// `plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go`.
pub(crate) const ATTRIBUTES_FINALIZER: &str = "kubernetes.io/vac-protection";

/// Validates an update of a `VolumeAttributesClass`.
fn validate_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    for field in ["driverName", "parameters"] {
        if !semantic_equal(new.get(field), old.get(field)) {
            errors.forbidden(&Path::new(field), format!("updates to {field} are forbidden."));
        }
    }
    errors
}

/// Validates a `VolumeAttributesClass`.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    provisioner(object, "driverName", &mut errors);
    parameters(object, false, &mut errors);
    errors
}

/// The columns of `volumeattributesclasses`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "DriverName",
        Description::Field("api.storage.v1.VolumeAttributesClass", "driverName"),
        CellSource::Text("/driverName", ""),
    ),
    AGE,
];
