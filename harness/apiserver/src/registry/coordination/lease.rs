//! `coordination.k8s.io/v1` Lease.
//!
//! See `pkg/registry/coordination/lease/strategy.go` and `pkg/apis/coordination/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::object_or_insert;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::names::NameFormat;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::{checks, meta, time};

/// The resource `leases` of `coordination.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("coordination.k8s.io", "v1", "leases", "Lease", "io.k8s.api.coordination.v1.Lease")
        .hash("gqkMMb/YqFM=")
        .rules(Lease)
        .columns(COLUMNS)
}

/// The strategy of leases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease;

impl Strategy for Lease {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = object_or_insert(object, "spec") {
            time::normalize_micros(spec, &["acquireTime", "renewTime"]);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _: &StrategyContext<'_>) {
        drop_disabled_fields(object);
    }

    fn prepare_for_update(&self, new: &mut Value, _: &Value, _: &StrategyContext<'_>) {
        drop_disabled_fields(new);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Subdomain, &Path::new("metadata"));
        validate_spec(object, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &Path::new("metadata"));
        validate_spec(new, &mut errors);
        errors
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// Drops fields behind a feature gate that is off by default.
fn drop_disabled_fields(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

fn validate_spec(object: &Value, errors: &mut ErrorList) {
    let Some(spec) = object.get("spec") else { return };
    let path = Path::new("spec");
    if let Some(seconds) = spec.get("leaseDurationSeconds").and_then(Value::as_i64)
        && seconds <= 0
    {
        errors.invalid(&path.child("leaseDurationSeconds"), seconds, checks::POSITIVE_MESSAGE);
    }
    checks::validate_non_negative(spec.get("leaseTransitions"), &path.child("leaseTransitions"), errors);
}

/// The columns of `leases`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Holder",
        Description::Field("api.coordination.v1.LeaseSpec", "holderIdentity"),
        CellSource::Text("/spec/holderIdentity", ""),
    ),
    AGE,
];
