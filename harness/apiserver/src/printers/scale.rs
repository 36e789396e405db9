//! Columns of `autoscaling/v1` Scale. PURE.

use crate::printers::column::{AGE, CellSource, Column, Description, NAME_DESCRIPTION};

/// The columns of a `Scale`.
pub(super) const COLUMNS: &[Column] = &[
    Column::string("Name", NAME_DESCRIPTION, CellSource::Text("/metadata/name", "")),
    Column::integer(
        "Desired",
        Description::Field("api.autoscaling.v1.ScaleSpec", "replicas"),
        CellSource::Number("/spec/replicas"),
    ),
    Column::integer(
        "Available",
        Description::Field("api.autoscaling.v1.ScaleStatus", "replicas"),
        CellSource::Number("/status/replicas"),
    ),
    AGE,
];
