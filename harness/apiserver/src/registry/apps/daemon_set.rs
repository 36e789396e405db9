//! `apps/v1` DaemonSet.
//!
//! See `pkg/registry/apps/daemonset/strategy.go` and `pkg/apis/apps/validation/validation.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{drop_zero, non_null, object_mut, object_or_insert, str_field, value_default};
use crate::json::{Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME, containers, images};
use crate::printers::format::labels;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::workload::{self, CONTAINERS, METADATA, SPEC, non_negative, number, spec};
use crate::registry::names::NameFormat;
use crate::registry::prepare::{reset_all_but_status, values_equal};
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::{int_or_percent, label_selector, meta};

/// The resource `daemonsets` of `apps/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("apps", "v1", "daemonsets", "DaemonSet", "io.k8s.api.apps.v1.DaemonSet")
        .short(&["ds"])
        .categories(&["all"])
        .status()
        .hash("dd7pWHUlMKQ=")
        .rules(DaemonSet)
        .columns(COLUMNS)
}

/// The strategy of daemon sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DaemonSet;

const REQUIRED_COUNTERS: &[&str] =
    &["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];

/// The annotation that holds the template generation in `apps/v1`.
const GENERATION: &str = "deprecated.daemonset.template.generation";

impl Strategy for DaemonSet {
    fn default(&self, object: &mut Value) {
        workload::status_default(object, REQUIRED_COUNTERS);
        // The annotation is always present in `apps/v1`, even for 0, so the object's writer owns it.
        set_template_generation(object, template_generation(object));
        let Some(spec) = object_or_insert(object, "spec") else { return };
        workload::template_default(spec);
        drop_zero(spec, &["minReadySeconds"]);
        let rolling = [("maxUnavailable", 1.into()), ("maxSurge", 0.into())];
        workload::rolling_update_default(spec, "updateStrategy", &rolling);
        if let Some(rolling) = object_mut(spec, "updateStrategy").and_then(|it| object_mut(it, "rollingUpdate")) {
            // With another strategy type there are no defaults, but the encoded struct has both numbers.
            value_default(rolling, "maxUnavailable", 0);
            value_default(rolling, "maxSurge", 0);
        }
        value_default(spec, "revisionHistoryLimit", 10);
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        workload::prepare_new(object, REQUIRED_COUNTERS);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Subdomain, &METADATA);
        validate_spec(spec(object), false, &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        workload::prepare_update(new, old);
        let before = template_generation(old);
        let changed = !values_equal(new, &["spec", "template"], spec(new).get("template"), spec(old).get("template"));
        set_template_generation(new, before + i64::from(changed));
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        reset_all_but_status(new, old);
        set_template_generation(new, template_generation(old));
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        workload::immutable_selector(new, old, &mut errors);
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
            non_negative(workload::status_of(new), field, &path, &mut errors);
        }
        workload::validate_collision_count(new, old, &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        workload::warnings(object, false)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        if template_generation(new) == template_generation(old) {
            return Vec::new();
        }
        workload::warnings(new, false)
    }
}

fn template_generation(object: &Value) -> i64 {
    let text = object.get("metadata").and_then(|m| m.get("annotations")).map_or("", |a| str_field(a, GENERATION));
    text.parse().unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    let Some(metadata) = object.get_mut("metadata") else { return };
    if let Some(annotations) = object_or_insert(metadata, "annotations") {
        annotations.insert(GENERATION, generation.to_string().into());
    }
}

fn validate_spec(spec: &Value, lenient: bool, errors: &mut ErrorList) {
    let given = non_null(spec, "selector");
    errors.append(label_selector::validate(given, lenient, &SPEC.child("selector")));
    workload::validate_selector_matches_template(spec, &SPEC, errors);
    if let Some(given) = given {
        workload::empty_selector(given, "daemonset", &SPEC, errors);
    }
    workload::validate_pod_template(spec, errors);
    workload::validate_restart_policy(spec, "DaemonSet", &SPEC, errors);
    non_negative(spec, "minReadySeconds", &SPEC, errors);
    validate_update_strategy(spec.get("updateStrategy").unwrap_or(&Value::Null), errors);
    non_negative(spec, "revisionHistoryLimit", &SPEC, errors);
}

fn validate_update_strategy(strategy: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("updateStrategy");
    let rolling = non_null(strategy, "rollingUpdate");
    match (str_field(strategy, "type"), rolling) {
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
    let unavailable = rolling.get("maxUnavailable").unwrap_or(&zero);
    let surge = rolling.get("maxSurge").unwrap_or(&zero);
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

/// The columns of `daemonsets`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::integer(
        "Desired",
        Description::Field("api.apps.v1.DaemonSetStatus", "desiredNumberScheduled"),
        CellSource::Number("/status/desiredNumberScheduled"),
    ),
    Column::integer(
        "Current",
        Description::Field("api.apps.v1.DaemonSetStatus", "currentNumberScheduled"),
        CellSource::Number("/status/currentNumberScheduled"),
    ),
    Column::integer(
        "Ready",
        Description::Field("api.apps.v1.DaemonSetStatus", "numberReady"),
        CellSource::Number("/status/numberReady"),
    ),
    Column::integer(
        "Up-to-date",
        Description::Field("api.apps.v1.DaemonSetStatus", "updatedNumberScheduled"),
        CellSource::Number("/status/updatedNumberScheduled"),
    ),
    Column::integer(
        "Available",
        Description::Field("api.apps.v1.DaemonSetStatus", "numberAvailable"),
        CellSource::Number("/status/numberAvailable"),
    ),
    Column::string(
        "Node Selector",
        Description::Field("api.core.v1.PodSpec", "nodeSelector"),
        CellSource::Custom(|object, _| json!(labels(object, "/spec/template/spec/nodeSelector"))),
    ),
    AGE,
    containers(CONTAINERS),
    images(CONTAINERS),
    Column::string(
        "Selector",
        Description::Field("api.apps.v1.DaemonSetSpec", "selector"),
        CellSource::Selector("/spec/selector"),
    )
    .wide(),
];
