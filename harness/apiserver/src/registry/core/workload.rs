//! Counters, selectors and templates, for the strategies of workloads. See
//! `pkg/apis/apps/validation/validation.go`. PURE.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{
    is_empty_value, non_null, object_or_default, object_or_insert, semantic_equal, str_field, text_default,
    value_default,
};
use crate::json::{Map, Value};
use crate::metadata;
use crate::registry::core::pod::{defaults, validation, warnings};
use crate::registry::prepare::{copy_field, set_generation, specs_equal};
use crate::registry::{checks, label_selector, time};

/// The path `metadata`.
pub(in crate::registry) const METADATA: Path<'static> = Path::new("metadata");

/// The path `spec`.
pub(in crate::registry) const SPEC: Path<'static> = Path::new("spec");

/// Sets the template's defaults; a missing template becomes an empty one.
pub(in crate::registry) fn template_default(spec: &mut Map) {
    if spec.get("template").is_none_or(Value::is_null) {
        spec.insert("template", Value::Object(Map::new()));
    }
    if let Some(template) = spec.get_mut("template") {
        defaults::template(template);
    }
}

/// Sets the defaults of an update strategy: rolling updates, with these fields.
pub(in crate::registry) fn rolling_update_default(spec: &mut Map, field: &str, rolling: &[(&str, Value)]) {
    let Some(strategy) = object_or_default(spec, field) else { return };
    text_default(strategy, "type", "RollingUpdate");
    if strategy.get("type") == Some(&Value::from("RollingUpdate"))
        && let Some(update) = object_or_default(strategy, "rollingUpdate")
    {
        for (field, value) in rolling {
            value_default(update, field, value.clone());
        }
    }
}

/// Counters that are pointers upstream, so an explicit zero is kept.
const POINTER_COUNTERS: [&str; 2] = ["collisionCount", "terminatingReplicas"];

/// Sets the counters of `shown` to 0 if they are missing, and removes all other numbers that are 0 (`omitempty`).
pub(in crate::registry) fn status_default(object: &mut Value, shown: &[&str]) {
    let Some(status) = object_or_insert(object, "status") else { return };
    status.retain(|field, value| {
        value.as_i64() != Some(0) || shown.contains(&field.as_str()) || POINTER_COUNTERS.contains(&field.as_str())
    });
    for field in shown {
        value_default(status, field, 0);
    }
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.entry("lastTransitionTime").or_insert(Value::Null);
            time::normalize_seconds(condition, &["lastTransitionTime", "lastUpdateTime"]);
        }
    }
}

/// Prepares a new object: empties the status and sets the first generation.
pub(in crate::registry) fn prepare_new(object: &mut Value, shown: &[&str]) {
    if let Some(map) = object.as_object_mut() {
        map.insert("status", Value::Object(Map::new()));
    }
    status_default(object, shown);
    set_generation(object, 1);
}

/// Prepares an update: keeps the old status and increments the generation if the spec changed.
pub(in crate::registry) fn prepare_update(new: &mut Value, old: &Value) {
    copy_field(new, old, "status");
    if !specs_equal(new, old) {
        set_generation(new, metadata::generation(old) + 1);
    }
}

/// Returns the spec; null if it is missing.
pub(in crate::registry) fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

/// Returns a number; 0 if it is missing.
pub(in crate::registry) fn number(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or(0)
}

/// Requires a number that is not negative.
pub(in crate::registry) fn non_negative(value: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    checks::validate_non_negative(value.get(field), &path.child(field), errors);
}

/// Requires a valid and non-empty selector; `what` is the kind in the message.
pub(in crate::registry) fn required_selector(spec: &Value, what: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(given) = non_null(spec, "selector") else {
        errors.required(&path.child("selector"), "");
        return;
    };
    errors.append(label_selector::validate(Some(given), false, &path.child("selector")));
    empty_selector(given, what, path, errors);
}

/// Rejects a selector that selects everything.
pub(in crate::registry) fn empty_selector(given: &Value, what: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if is_empty_value(given.get("matchLabels")) && is_empty_value(given.get("matchExpressions")) {
        let shown = BadValue::Raw(label_selector::selector_json(Some(given)));
        errors.invalid(&path.child("selector"), shown, format!("empty selector is invalid for {what}"));
    }
}

/// Requires the selector to match the template's labels. Returns false if the selector is invalid.
pub(in crate::registry) fn validate_selector_matches_template(
    spec: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> bool {
    let template = spec.get("template").unwrap_or(&Value::Null);
    let labels = template.get("metadata").and_then(|m| m.get("labels"));
    match label_selector::matches(spec.get("selector"), labels) {
        None => return false,
        Some(true) => {}
        Some(false) => {
            let path = path.child("template");
            let path = path.child("metadata");
            errors.invalid(&path.child("labels"), labels_json(labels), "`selector` does not match template `labels`");
        }
    }
    true
}

/// Encodes labels like Go.
pub(in crate::registry) fn labels_json(labels: Option<&Value>) -> BadValue {
    match labels {
        Some(labels) if !is_empty_value(Some(labels)) => BadValue::from(labels),
        _ => BadValue::Raw("null".to_owned()),
    }
}

/// Validates templates of kinds that keep their pods running.
pub(in crate::registry) fn validate_restart_policy(spec: &Value, what: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let template = spec.get("template").and_then(|t| t.get("spec")).unwrap_or(&Value::Null);
    let path = path.child("template");
    let path = path.child("spec");
    let policy = str_field(template, "restartPolicy");
    if policy != "Always" {
        errors.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if template.get("activeDeadlineSeconds").is_some_and(|v| !v.is_null()) {
        let why = format!("activeDeadlineSeconds in {what} is not Supported");
        errors.forbidden(&path.child("activeDeadlineSeconds"), why);
    }
}

/// Validates status counters: not negative, `parts` at most `replicas`, available at most ready.
pub(in crate::registry) fn validate_status_counters(
    status: &Value,
    fields: &[&str],
    parts: &[&str],
    ready: &str,
    errors: &mut ErrorList,
) {
    let path = Path::new("status");
    for field in fields {
        non_negative(status, field, &path, errors);
    }
    let replicas = number(status, "replicas");
    for part in parts {
        let count = number(status, part);
        if count > replicas {
            errors.invalid(&path.child(part), count, "cannot be greater than status.replicas");
        }
    }
    let available = number(status, "availableReplicas");
    if available > number(status, "readyReplicas") {
        errors.invalid(&path.child("availableReplicas"), available, format!("cannot be greater than {ready}"));
    }
}

/// Requires that the count of collisions does not fall.
pub(in crate::registry) fn validate_collision_count(new: &Value, old: &Value, errors: &mut ErrorList) {
    let of = |object: &Value| object.get("status").and_then(|s| s.get("collisionCount")).and_then(Value::as_i64);
    let before = of(old);
    if before.is_some_and(|before| of(new).is_none_or(|now| now < before)) {
        let path = Path::new("status");
        errors.invalid(&path.child("collisionCount"), of(new).unwrap_or(0), "cannot be decremented");
    }
}

/// Returns the status; null if it is missing.
pub(in crate::registry) fn status_of(object: &Value) -> &Value {
    object.get("status").unwrap_or(&Value::Null)
}

/// Requires the selector to be unchanged.
pub(in crate::registry) fn immutable_selector(new: &Value, old: &Value, errors: &mut ErrorList) {
    let now = spec(new).get("selector");
    let before = spec(old).get("selector");
    if !semantic_equal(now, before) {
        errors.invalid(
            &SPEC.child("selector"),
            BadValue::Raw(label_selector::selector_json(now)),
            checks::IMMUTABLE_MESSAGE,
        );
    }
}

/// Returns the warnings about the template and, with `about_name`, about a name that becomes a part of pod host
/// names.
pub(in crate::registry) fn warnings(object: &Value, about_name: bool) -> Vec<String> {
    let mut warnings = Vec::from_iter(warnings::name_warning(object).filter(|_| about_name));
    warnings.extend(warnings::pod_warnings(spec(object).get("template").unwrap_or(&Value::Null), "spec.template"));
    warnings
}

/// Returns the warnings about the template of an update that increments the generation.
pub(in crate::registry) fn update_warnings(new: &Value, old: &Value) -> Vec<String> {
    if metadata::generation(new) == metadata::generation(old) { Vec::new() } else { warnings(new, false) }
}

/// Validates `spec.template`.
pub(in crate::registry) fn validate_pod_template(spec: &Value, errors: &mut ErrorList) {
    let template = spec.get("template").unwrap_or(&Value::Null);
    validation::template(template, &SPEC.child("template"), errors);
}

/// Validates the status counters of replica sets and replication controllers.
pub(in crate::registry) fn validate_replica_status(status: &Value, errors: &mut ErrorList) {
    let fields = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    validate_status_counters(status, &fields, &parts, "readyReplicas", errors);
}

/// Validates the template of replica sets and deployments.
pub(in crate::registry) fn validate_template(spec: &Value, errors: &mut ErrorList) {
    if label_selector::matches(spec.get("selector"), None).is_none() {
        let shown = BadValue::Raw(label_selector::selector_json(spec.get("selector")));
        errors.invalid(&SPEC.child("selector"), shown, "invalid label selector");
        return;
    }
    // A missing selector matches nothing upstream, so the labels cannot match.
    validate_selector_matches_template(spec, &SPEC, errors);
    validate_pod_template(spec, errors);
    validate_restart_policy(spec, "ReplicaSet", &SPEC, errors);
}

/// The containers of the template.
pub(in crate::registry) const CONTAINERS: &str = "/spec/template/spec/containers";
