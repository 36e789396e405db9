//! `apps/v1` Deployment.
//!
//! See `pkg/registry/apps/deployment/strategy.go` and `pkg/apis/apps/validation/validation.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{drop_zero, non_null, object_or_insert, semantic_equal, str_field, value_default};
use crate::json::{Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME, containers, images};
use crate::printers::format::selector;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::workload::{self, CONTAINERS, METADATA, SPEC, non_negative, spec};
use crate::registry::names::NameFormat;
use crate::registry::prepare::{copy_metadata_fields, reset_all_but_status, set_generation};
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::{int_or_percent, meta};

/// The resource `deployments` of `apps/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("apps", "v1", "deployments", "Deployment", "io.k8s.api.apps.v1.Deployment")
        .short(&["deploy"])
        .categories(&["all"])
        .scale()
        .status()
        .resets("status", &[&["spec"], &["metadata", "labels"]])
        .hash("8aSe+NMegvE=")
        .rules(Deployment)
        .columns(COLUMNS)
}

/// The strategy of deployments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deployment;

impl Strategy for Deployment {
    fn default(&self, object: &mut Value) {
        workload::status_default(object, &[]);
        let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
            condition.entry("lastUpdateTime").or_insert(Value::Null);
        }
        let Some(spec) = object_or_insert(object, "spec") else { return };
        value_default(spec, "replicas", 1);
        workload::template_default(spec);
        let rolling = [("maxUnavailable", "25%".into()), ("maxSurge", "25%".into())];
        workload::rolling_update_default(spec, "strategy", &rolling);
        drop_zero(spec, &["minReadySeconds"]);
        value_default(spec, "revisionHistoryLimit", 10);
        value_default(spec, "progressDeadlineSeconds", 600);
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        workload::prepare_new(object, &[]);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Subdomain, &METADATA);
        validate_spec(spec(object), &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        workload::prepare_update(new, old);
        let annotations = |o: &Value| o.get("metadata").and_then(|m| m.get("annotations")).cloned();
        if !semantic_equal(annotations(new).as_ref(), annotations(old).as_ref()) {
            set_generation(new, metadata::generation(old) + 1);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validate_spec(spec(new), &mut errors);
        workload::immutable_selector(new, old, &mut errors);
        errors
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        reset_all_but_status(new, old);
        copy_metadata_fields(new, old, &["labels"]);
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        let fields = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        workload::validate_status_counters(workload::status_of(new), &fields, &parts, "readyReplicas", &mut errors);
        workload::validate_collision_count(new, old, &mut errors);
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
    workload::required_selector(spec, "deployment", &SPEC, errors);
    workload::validate_template(spec, errors);
    validate_strategy(spec.get("strategy").unwrap_or(&Value::Null), &SPEC.child("strategy"), errors);
    non_negative(spec, "minReadySeconds", &SPEC, errors);
    non_negative(spec, "revisionHistoryLimit", &SPEC, errors);
    if let Some(deadline) = spec.get("progressDeadlineSeconds").and_then(Value::as_i64) {
        non_negative(spec, "progressDeadlineSeconds", &SPEC, errors);
        if deadline <= workload::number(spec, "minReadySeconds") {
            errors.invalid(&SPEC.child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds");
        }
    }
}

fn validate_strategy(strategy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rolling = non_null(strategy, "rollingUpdate");
    match str_field(strategy, "type") {
        "Recreate" => {
            if rolling.is_some() {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                errors.forbidden(&path.child("rollingUpdate"), why);
            }
        }
        "RollingUpdate" => match rolling {
            None => errors.required(&path.child("rollingUpdate"), "this should be defaulted and never be nil"),
            Some(rolling) => validate_rolling(rolling, &path.child("rollingUpdate"), errors),
        },
        other => {
            let shown = format!(
                "{{\"Type\":{},\"RollingUpdate\":{}}}",
                Value::from(other),
                rolling.map_or_else(|| "null".to_owned(), rolling_json)
            );
            errors.not_supported(path, BadValue::Raw(shown), &["Recreate", "RollingUpdate"]);
        }
    }
}

fn rolling_json(rolling: &Value) -> String {
    let field = |name: &str| rolling.get(name).unwrap_or(&Value::Null);
    format!("{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}", field("maxUnavailable"), field("maxSurge"))
}

fn validate_rolling(rolling: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let zero = Value::from(0);
    let unavailable = rolling.get("maxUnavailable").unwrap_or(&zero);
    let surge = rolling.get("maxSurge").unwrap_or(&zero);
    int_or_percent::validate_positive(unavailable, &path.child("maxUnavailable"), errors);
    int_or_percent::validate_positive(surge, &path.child("maxSurge"), errors);
    if int_or_percent::value(Some(unavailable)) == 0 && int_or_percent::value(Some(surge)) == 0 {
        errors.invalid(&path.child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0");
    }
    int_or_percent::validate_at_most_100_percent(unavailable, &path.child("maxUnavailable"), errors);
}

/// The columns of `deployments`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Ready",
        Description::Text("Number of the pod with ready state"),
        CellSource::Ratio("/status/readyReplicas", "/spec/replicas"),
    ),
    Column::string(
        "Up-to-date",
        Description::Field("api.apps.v1.DeploymentStatus", "updatedReplicas"),
        CellSource::Number("/status/updatedReplicas"),
    ),
    Column::string(
        "Available",
        Description::Field("api.apps.v1.DeploymentStatus", "availableReplicas"),
        CellSource::Number("/status/availableReplicas"),
    ),
    AGE,
    containers(CONTAINERS),
    images(CONTAINERS),
    Column::string(
        "Selector",
        Description::Field("api.apps.v1.DeploymentSpec", "selector"),
        CellSource::Custom(|object, _| json!(selector(object, "/spec/selector"))),
    )
    .wide(),
];
