//! `apps/v1` DaemonSet.
//!
//! See `pkg/registry/apps/daemonset/strategy.go` and `pkg/apis/apps/validation/validation.go`.

use super::{METADATA, SPEC, meta, non_negative, number, spec, text_default, value_default};
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::{Value, json};
use crate::registry::{NameFormat, Strategy, StrategyContext, int_or_percent, label_selector};

/// The strategy of daemon sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DaemonSet;

const REQUIRED_COUNTERS: &[&str] =
    &["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];

/// The annotation that holds the template generation in `apps/v1`.
const GENERATION: &str = "deprecated.daemonset.template.generation";

impl Strategy for DaemonSet {
    fn default(&self, object: &mut Value) {
        super::status_default(object, REQUIRED_COUNTERS);
        // The annotation is always present in `apps/v1`, even for 0, so the object's writer owns it.
        set_template_generation(object, template_generation(object));
        let Some(spec) = meta::object_or_insert(object, "spec") else { return };
        super::template_default(spec);
        meta::drop_zero(spec, &["minReadySeconds"]);
        value_default(spec, "updateStrategy", json!({}));
        if let Some(strategy) = spec.get_mut("updateStrategy").and_then(Value::as_object_mut) {
            text_default(strategy, "type", "RollingUpdate");
            if strategy.get("type") == Some(&Value::from("RollingUpdate")) {
                value_default(strategy, "rollingUpdate", json!({}));
                if let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut) {
                    value_default(rolling, "maxUnavailable", 1);
                    value_default(rolling, "maxSurge", 0);
                }
            } else if let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut) {
                // With another strategy type there are no defaults, but the encoded struct has both numbers.
                value_default(rolling, "maxUnavailable", 0);
                value_default(rolling, "maxSurge", 0);
            }
        }
        value_default(spec, "revisionHistoryLimit", 10);
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        super::prepare_new(object, REQUIRED_COUNTERS);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Subdomain, &METADATA);
        validate_spec(spec(object), false, &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        super::prepare_update(new, old);
        let before = template_generation(old);
        let changed = !meta::semantic_equal(spec(new).get("template"), spec(old).get("template"));
        set_template_generation(new, before + i64::from(changed));
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        meta::reset_all_but_status(new, old);
        set_template_generation(new, template_generation(old));
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        super::immutable_selector(new, old, &mut errors);
        let lenient = label_selector::has_invalid_value(spec(old).get("selector"));
        validate_spec(spec(new), lenient, &mut errors);
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        let path = Path::new("status");
        let fields = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        for field in fields {
            non_negative(super::status_of(new), field, &path, &mut errors);
        }
        super::validate_collision_count(new, old, &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        super::warnings(object, false)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        if template_generation(new) == template_generation(old) {
            return Vec::new();
        }
        super::warnings(new, false)
    }
}

fn template_generation(object: &Value) -> i64 {
    let text = object.get("metadata").and_then(|m| m.get("annotations")).map_or("", |a| meta::str_field(a, GENERATION));
    text.parse().unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    let Some(metadata) = object.get_mut("metadata") else { return };
    if let Some(annotations) = meta::object_or_insert(metadata, "annotations") {
        annotations.insert(GENERATION, generation.to_string().into());
    }
}

fn validate_spec(spec: &Value, lenient: bool, errors: &mut ErrorList) {
    let given = meta::non_null(spec, "selector");
    errors.append(label_selector::validate(given, lenient, &SPEC.child("selector")));
    super::validate_selector_matches_template(spec, &SPEC, errors);
    if let Some(given) = given {
        super::empty_selector(given, "daemonset", &SPEC, errors);
    }
    super::deployment::validate_pod_template(spec, errors);
    super::validate_restart_policy(spec, "DaemonSet", &SPEC, errors);
    non_negative(spec, "minReadySeconds", &SPEC, errors);
    validate_update_strategy(spec.get("updateStrategy").unwrap_or(&Value::Null), errors);
    non_negative(spec, "revisionHistoryLimit", &SPEC, errors);
}

fn validate_update_strategy(strategy: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("updateStrategy");
    let rolling = meta::non_null(strategy, "rollingUpdate");
    match (meta::str_field(strategy, "type"), rolling) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.required(&path.child("rollingUpdate"), ""),
        ("RollingUpdate", Some(rolling)) => validate_rolling(rolling, &path.child("rollingUpdate"), errors),
        (other, rolling) => {
            let shown = format!(
                "{{\"Type\":{},\"RollingUpdate\":{}}}",
                Value::from(other),
                rolling.map_or_else(
                    || "null".to_owned(),
                    |r| format!(
                        "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
                        r.get("maxUnavailable").unwrap_or(&Value::Null),
                        r.get("maxSurge").unwrap_or(&Value::Null)
                    )
                )
            );
            errors.not_supported(&path, BadValue::Raw(shown), &["RollingUpdate", "OnDelete"]);
        }
    }
}

fn validate_rolling(rolling: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let zero = Value::from(number(rolling, ""));
    let (unavailable, surge) =
        (rolling.get("maxUnavailable").unwrap_or(&zero), rolling.get("maxSurge").unwrap_or(&zero));
    for (value, field) in [(unavailable, "maxUnavailable"), (surge, "maxSurge")] {
        int_or_percent::validate_positive(value, &path.child(field), errors);
    }
    for (value, field) in [(unavailable, "maxUnavailable"), (surge, "maxSurge")] {
        int_or_percent::validate_at_most_100_percent(value, &path.child(field), errors);
    }
    match (int_or_percent::value(Some(unavailable)) != 0, int_or_percent::value(Some(surge)) != 0) {
        (true, true) => {
            errors.invalid(&path.child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero");
        }
        (false, false) => errors.required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}
