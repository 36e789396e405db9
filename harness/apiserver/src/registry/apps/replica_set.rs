//! `apps/v1` ReplicaSet.
//!
//! See `pkg/registry/apps/replicaset/strategy.go` and `pkg/apis/apps/validation/validation.go`.

use crate::field_errors::ErrorList;
use crate::json::Value;
use crate::json::fields::{drop_zero, object_or_insert, value_default};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME, containers, images};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::workload::{self, CONTAINERS, METADATA, SPEC, non_negative, spec, validate_template};
use crate::registry::meta;
use crate::registry::names::NameFormat;
use crate::registry::strategy::{Strategy, StrategyContext};

/// The resource `replicasets` of `apps/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("apps", "v1", "replicasets", "ReplicaSet", "io.k8s.api.apps.v1.ReplicaSet")
        .short(&["rs"])
        .categories(&["all"])
        .scale()
        .status()
        .hash("P1RzHs8/mWQ=")
        .rules(ReplicaSet)
        .columns(COLUMNS)
}

/// The strategy of replica sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn default(&self, object: &mut Value) {
        workload::status_default(object, &["replicas"]);
        let Some(spec) = object_or_insert(object, "spec") else { return };
        value_default(spec, "replicas", 1);
        workload::template_default(spec);
        drop_zero(spec, &["minReadySeconds"]);
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        workload::prepare_new(object, &["replicas"]);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Subdomain, &METADATA);
        validate_spec(spec(object), &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        workload::prepare_update(new, old);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validate_spec(spec(new), &mut errors);
        workload::immutable_selector(new, old, &mut errors);
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        workload::validate_replica_status(workload::status_of(new), &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        workload::warnings(object, true)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        workload::update_warnings(new, old)
    }
}

fn validate_spec(spec: &Value, errors: &mut ErrorList) {
    non_negative(spec, "replicas", &SPEC, errors);
    non_negative(spec, "minReadySeconds", &SPEC, errors);
    workload::required_selector(spec, "deployment", &SPEC, errors);
    validate_template(spec, errors);
}

/// The columns of `replicasets`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::integer(
        "Desired",
        Description::Field("api.apps.v1.ReplicaSetSpec", "replicas"),
        CellSource::Number("/spec/replicas"),
    ),
    Column::integer(
        "Current",
        Description::Field("api.apps.v1.ReplicaSetStatus", "replicas"),
        CellSource::Number("/status/replicas"),
    ),
    Column::integer(
        "Ready",
        Description::Field("api.apps.v1.ReplicaSetStatus", "readyReplicas"),
        CellSource::Number("/status/readyReplicas"),
    ),
    AGE,
    containers(CONTAINERS),
    images(CONTAINERS),
    Column::string(
        "Selector",
        Description::Field("api.apps.v1.ReplicaSetSpec", "selector"),
        CellSource::Selector("/spec/selector"),
    )
    .wide(),
];
