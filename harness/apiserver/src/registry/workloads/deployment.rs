//! `apps/v1` Deployment.
//!
//! See `pkg/registry/apps/deployment/strategy.go` and `pkg/apis/apps/validation/validation.go`.

use super::{METADATA, SPEC, meta, non_negative, spec, text_default, value_default};
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::{Value, json};
use crate::registry::{NameFormat, Strategy, StrategyContext, int_or_percent, pod};

/// The strategy of deployments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deployment;

impl Strategy for Deployment {
    fn default(&self, object: &mut Value) {
        super::status_default(object, &[]);
        let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
            condition.entry("lastUpdateTime").or_insert(Value::Null);
        }
        let Some(spec) = meta::object_or_insert(object, "spec") else { return };
        value_default(spec, "replicas", 1);
        super::template_default(spec);
        value_default(spec, "strategy", json!({}));
        if let Some(strategy) = spec.get_mut("strategy").and_then(Value::as_object_mut) {
            text_default(strategy, "type", "RollingUpdate");
            if strategy.get("type") == Some(&Value::from("RollingUpdate")) {
                value_default(strategy, "rollingUpdate", json!({}));
                if let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut) {
                    value_default(rolling, "maxUnavailable", "25%");
                    value_default(rolling, "maxSurge", "25%");
                }
            }
        }
        meta::drop_zero(spec, &["minReadySeconds"]);
        value_default(spec, "revisionHistoryLimit", 10);
        value_default(spec, "progressDeadlineSeconds", 600);
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        super::prepare_new(object, &[]);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Subdomain, &METADATA);
        validate_spec(spec(object), &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        super::prepare_update(new, old);
        let annotations = |o: &Value| o.get("metadata").and_then(|m| m.get("annotations")).cloned();
        if !meta::semantic_equal(annotations(new).as_ref(), annotations(old).as_ref()) {
            meta::set_generation(new, meta::generation(old) + 1);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validate_spec(spec(new), &mut errors);
        super::immutable_selector(new, old, &mut errors);
        errors
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        meta::reset_all_but_status(new, old);
        meta::copy_metadata_fields(new, old, &["labels"]);
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
        super::validate_status_counters(super::status_of(new), &fields, &parts, "readyReplicas", &mut errors);
        super::validate_collision_count(new, old, &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        super::warnings(object, true)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        super::update_warnings(new, old)
    }
}

fn validate_spec(spec: &Value, errors: &mut ErrorList) {
    non_negative(spec, "replicas", &SPEC, errors);
    super::required_selector(spec, "deployment", &SPEC, errors);
    super::replicaset::validate_template(spec, errors);
    validate_strategy(spec.get("strategy").unwrap_or(&Value::Null), &SPEC.child("strategy"), errors);
    non_negative(spec, "minReadySeconds", &SPEC, errors);
    non_negative(spec, "revisionHistoryLimit", &SPEC, errors);
    if let Some(deadline) = spec.get("progressDeadlineSeconds").and_then(Value::as_i64) {
        non_negative(spec, "progressDeadlineSeconds", &SPEC, errors);
        if deadline <= super::number(spec, "minReadySeconds") {
            errors.invalid(&SPEC.child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds");
        }
    }
}

fn validate_strategy(strategy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rolling = meta::non_null(strategy, "rollingUpdate");
    match meta::str_field(strategy, "type") {
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
    let (unavailable, surge) =
        (rolling.get("maxUnavailable").unwrap_or(&zero), rolling.get("maxSurge").unwrap_or(&zero));
    int_or_percent::validate_positive(unavailable, &path.child("maxUnavailable"), errors);
    int_or_percent::validate_positive(surge, &path.child("maxSurge"), errors);
    if int_or_percent::value(Some(unavailable)) == 0 && int_or_percent::value(Some(surge)) == 0 {
        errors.invalid(&path.child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0");
    }
    int_or_percent::validate_at_most_100_percent(unavailable, &path.child("maxUnavailable"), errors);
}

/// Validates `spec.template`.
pub(super) fn validate_pod_template(spec: &Value, errors: &mut ErrorList) {
    let template = spec.get("template").unwrap_or(&Value::Null);
    pod::validation::template(template, &SPEC.child("template"), errors);
}
