//! `storage.k8s.io/v1` `CSINode`. See `pkg/registry/storage/csinode/strategy.go`.

use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::storage::common::CONDITIONAL;

/// The resource `csinodes` of `storage.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("storage.k8s.io", "v1", "csinodes", "CSINode", "io.k8s.api.storage.v1.CSINode")
        .cluster()
        .hash("Pe62DkZtjuo=")
        .rules(CONDITIONAL)
        .columns(COLUMNS)
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
