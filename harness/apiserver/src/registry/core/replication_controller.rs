//! Core `v1` `ReplicationController`.
//!
//! See `pkg/registry/core/replicationcontroller/strategy.go` and `ValidateReplicationController` in
//! `pkg/apis/core/validation/validation.go`.

use crate::field_errors::ErrorList;
use crate::json::Value;
use crate::json::fields::{drop_zero, is_empty_value, non_null, object_or_insert, value_default};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME, containers, images};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::workload::{self, CONTAINERS, METADATA, SPEC, non_negative, spec};
use crate::registry::meta;
use crate::registry::names::NameFormat;
use crate::registry::prepare::reset_all_but_status;
use crate::registry::strategy::{Strategy, StrategyContext};

/// The resource `replicationcontrollers`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "replicationcontrollers", "ReplicationController", "io.k8s.api.core.v1.ReplicationController")
        .short(&["rc"])
        .categories(&["all"])
        .scale()
        .status()
        .hash("Jond2If31h0=")
        .fields(&[("status.replicas", "0")])
        .rules(ReplicationController)
        .columns(COLUMNS)
}

/// The strategy of replication controllers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplicationController;

impl Strategy for ReplicationController {
    fn default(&self, object: &mut Value) {
        workload::status_default(object, &["replicas"]);
        let Some(spec) = object_or_insert(object, "spec") else { return };
        value_default(spec, "replicas", 1);
        drop_zero(spec, &["minReadySeconds"]);
        let mut labels = None;
        if spec.get("template").is_some_and(Value::is_object) {
            workload::template_default(spec);
            labels = spec.get("template").and_then(|t| t.pointer("/metadata/labels")).cloned();
        }
        let Some(labels) = labels.filter(|l| !is_empty_value(Some(l))) else { return };
        if is_empty_value(spec.get("selector")) {
            spec.insert("selector", labels.clone());
        }
        if let Some(metadata) = object_or_insert(object, "metadata")
            && is_empty_value(metadata.get("labels"))
        {
            metadata.insert("labels", labels);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        workload::prepare_new(object, &["replicas"]);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::LongName, &METADATA);
        validate_spec(spec(object), &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        workload::prepare_update(new, old);
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        reset_all_but_status(new, old);
        // Missing labels default to those of the template, which is the old one.
        self.default(new);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validate_spec(spec(new), &mut errors);
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
        // Upstream swaps the old and the new object too.
        workload::update_warnings(old, new)
    }

    fn orphans_by_default(&self) -> bool {
        true
    }
}

fn validate_spec(spec: &Value, errors: &mut ErrorList) {
    non_negative(spec, "minReadySeconds", &SPEC, errors);
    let wanted = spec.get("selector").filter(|s| !is_empty_value(Some(s)));
    if wanted.is_none() {
        errors.required(&SPEC.child("selector"), "");
    }
    non_negative(spec, "replicas", &SPEC, errors);
    let Some(template) = non_null(spec, "template") else {
        errors.required(&SPEC.child("template"), "");
        return;
    };
    if let Some(wanted) = wanted {
        let labels = template.pointer("/metadata/labels");
        // The selector is a plain map: its entries are compared without validation.
        let mut pairs = wanted.as_object().into_iter().flatten();
        if pairs.any(|(key, value)| labels.and_then(|l| l.get(key)) != Some(value)) {
            let path = SPEC.child("template");
            let path = path.child("metadata");
            let shown = workload::labels_json(labels);
            errors.invalid(&path.child("labels"), shown, "`selector` does not match template `labels`");
        }
    }
    workload::validate_pod_template(spec, errors);
    workload::validate_restart_policy(spec, "ReplicationController", &SPEC, errors);
}

/// The columns of `replicationcontrollers`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::integer(
        "Desired",
        Description::Field("api.core.v1.ReplicationControllerSpec", "replicas"),
        CellSource::Number("/spec/replicas"),
    ),
    Column::integer(
        "Current",
        Description::Field("api.core.v1.ReplicationControllerStatus", "replicas"),
        CellSource::Number("/status/replicas"),
    ),
    Column::integer(
        "Ready",
        Description::Field("api.core.v1.ReplicationControllerStatus", "readyReplicas"),
        CellSource::Number("/status/readyReplicas"),
    ),
    AGE,
    containers(CONTAINERS),
    images(CONTAINERS),
    Column::string(
        "Selector",
        Description::Field("api.core.v1.ReplicationControllerSpec", "selector"),
        CellSource::Labels("/spec/selector"),
    )
    .wide(),
];
