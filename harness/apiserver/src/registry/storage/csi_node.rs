//! `storage.k8s.io/v1` `CSINode`. See `pkg/registry/storage/csinode/strategy.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, non_null, spec_of, str_field};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::internal_json;
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::storage::common::{CONDITIONAL, csi_driver_name};
use crate::registry::{checks, names};

/// The resource `csinodes` of `storage.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("storage.k8s.io", "v1", "csinodes", "CSINode", "io.k8s.api.storage.v1.CSINode")
        .cluster()
        .hash("Pe62DkZtjuo=")
        .rules(KindStrategy::new(RULES, |_| {}).check_with(validate).check_update_with(validate_update))
        .columns(COLUMNS)
}

/// `ValidateCSINodeUpdate` validates the whole object.
const RULES: Generic = Generic { updates: MetadataRules::Whole, ..CONDITIONAL };

const SPEC: Path<'static> = Path::new("spec");

/// Longest ID of a node in bytes.
const ID_MAX: usize = 256;

/// Validates a `CSINode`.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let root = SPEC.child("drivers");
    let drivers = array_field(spec_of(object), "drivers");
    let repeated = checks::repeated(drivers, |driver| str_field(driver, "name"));
    for (index, driver) in drivers.iter().enumerate() {
        let path = root.index(index);
        let name = str_field(driver, "name");
        csi_driver_name(name, &path.child("name"), &mut errors);
        let id = str_field(driver, "nodeID");
        if id.is_empty() {
            errors.required(&path.child("nodeID"), "");
        }
        if id.len() > ID_MAX {
            errors.invalid(&path.child("nodeID"), id, format!("must be {ID_MAX} characters or less"));
        }
        if let Some(allocatable) = non_null(driver, "allocatable") {
            let path = path.child("allocatable");
            checks::validate_non_negative(allocatable.get("count"), &path.child("count"), &mut errors);
        }
        if repeated[index] {
            errors.duplicate(&path.child("name"), name);
        }
        let keys: Vec<&str> = array_field(driver, "topologyKeys").iter().filter_map(Value::as_str).collect();
        let repeated = checks::repeated(&keys, |key| *key);
        for (number, key) in keys.iter().enumerate() {
            if key.is_empty() {
                errors.required(&path, "");
            }
            if repeated[number] {
                errors.duplicate(&path, *key);
            }
            checks::format(key, names::qualified_name, &path, &mut errors);
        }
    }
    errors
}

/// Validates an update of a `CSINode`: a driver stays as it is, except for the number of its volumes.
fn validate_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let without_count = |driver: &Value| {
        let mut driver = driver.clone();
        if let Some(driver) = driver.as_object_mut() {
            driver.remove("allocatable");
        }
        driver
    };
    let drivers = array_field(spec_of(new), "drivers");
    for before in array_field(spec_of(old), "drivers") {
        for after in drivers.iter().filter(|driver| driver["name"] == before["name"]) {
            let after = without_count(after);
            let before = without_count(before);
            let path = SPEC.child("drivers");
            internal_json::immutable("=CSINodeDriver", Some(&after), Some(&before), &path, &mut errors);
        }
    }
    errors
}

/// The columns of `csinodes`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::integer(
        "Drivers",
        Description::Text("Drivers indicates the number of CSI drivers registered on the node"),
        CellSource::Count("/spec/drivers"),
    ),
    AGE,
];
