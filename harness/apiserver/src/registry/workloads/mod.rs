//! Strategies of the workload resources, and the parts that they share. See `pkg/apis/apps/validation/validation.go`.

pub(crate) mod daemonset;
pub(crate) mod deployment;
pub(crate) mod replicaset;
pub(crate) mod replicationcontroller;
pub(crate) mod statefulset;

use super::meta::{text_default, value_default};
use super::{label_selector, meta, pod, time};
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::{Map, Value};

/// The path `metadata`.
const METADATA: Path<'static> = Path::new("metadata");

/// The path `spec`.
const SPEC: Path<'static> = Path::new("spec");

/// Sets the template's defaults; a missing template becomes an empty one.
fn template_default(spec: &mut Map) {
    if spec.get("template").is_none_or(Value::is_null) {
        spec.insert("template", Value::Object(Map::new()));
    }
    if let Some(template) = spec.get_mut("template") {
        pod::defaults::template(template);
    }
}

/// Counters that are pointers upstream, so an explicit zero is kept.
const POINTER_COUNTERS: [&str; 2] = ["collisionCount", "terminatingReplicas"];

/// Sets the counters of `shown` to 0 if they are missing, and removes all other numbers that are 0 (`omitempty`).
fn status_default(object: &mut Value, shown: &[&str]) {
    let Some(status) = meta::object_or_insert(object, "status") else { return };
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
fn prepare_new(object: &mut Value, shown: &[&str]) {
    if let Some(map) = object.as_object_mut() {
        map.insert("status", Value::Object(Map::new()));
    }
    status_default(object, shown);
    meta::set_generation(object, 1);
}

/// Prepares an update: keeps the old status and increments the generation if the spec changed.
fn prepare_update(new: &mut Value, old: &Value) {
    meta::copy_field(new, old, "status");
    if !meta::specs_equal(new, old) {
        meta::set_generation(new, meta::generation(old) + 1);
    }
}

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

fn number(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or(0)
}

fn non_negative(value: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    meta::validate_non_negative(value.get(field), &path.child(field), errors);
}

/// Requires a valid and non-empty selector; `what` is the kind in the message.
fn required_selector(spec: &Value, what: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(given) = meta::non_null(spec, "selector") else {
        errors.required(&path.child("selector"), "");
        return;
    };
    errors.append(label_selector::validate(Some(given), false, &path.child("selector")));
    empty_selector(given, what, path, errors);
}

fn empty_selector(given: &Value, what: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if meta::is_empty_value(given.get("matchLabels")) && meta::is_empty_value(given.get("matchExpressions")) {
        let shown = BadValue::Raw(meta::selector_json(Some(given)));
        errors.invalid(&path.child("selector"), shown, format!("empty selector is invalid for {what}"));
    }
}

/// Requires the selector to match the template's labels. Returns false if the selector is invalid.
fn validate_selector_matches_template(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) -> bool {
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

fn labels_json(labels: Option<&Value>) -> BadValue {
    match labels {
        Some(labels) if !meta::is_empty_value(Some(labels)) => BadValue::from(labels),
        _ => BadValue::Raw("null".to_owned()),
    }
}

/// Validates templates of kinds that keep their pods running.
fn validate_restart_policy(spec: &Value, what: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let template = spec.get("template").and_then(|t| t.get("spec")).unwrap_or(&Value::Null);
    let path = path.child("template");
    let path = path.child("spec");
    let policy = meta::str_field(template, "restartPolicy");
    if policy != "Always" {
        errors.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if template.get("activeDeadlineSeconds").is_some_and(|v| !v.is_null()) {
        let why = format!("activeDeadlineSeconds in {what} is not Supported");
        errors.forbidden(&path.child("activeDeadlineSeconds"), why);
    }
}

/// Validates status counters: not negative, `parts` at most `replicas`, available at most ready.
fn validate_status_counters(status: &Value, fields: &[&str], parts: &[&str], ready: &str, errors: &mut ErrorList) {
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

fn validate_collision_count(new: &Value, old: &Value, errors: &mut ErrorList) {
    let of = |object: &Value| object.get("status").and_then(|s| s.get("collisionCount")).and_then(Value::as_i64);
    let before = of(old);
    if before.is_some_and(|before| of(new).is_none_or(|now| now < before)) {
        let path = Path::new("status");
        errors.invalid(&path.child("collisionCount"), of(new).unwrap_or(0), "cannot be decremented");
    }
}

fn status_of(object: &Value) -> &Value {
    object.get("status").unwrap_or(&Value::Null)
}

/// Requires the selector to be unchanged.
fn immutable_selector(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (now, before) = (spec(new).get("selector"), spec(old).get("selector"));
    if !meta::semantic_equal(now, before) {
        errors.invalid(&SPEC.child("selector"), BadValue::Raw(meta::selector_json(now)), meta::IMMUTABLE_MESSAGE);
    }
}

/// Returns the warnings about the template and, with `about_name`, about a name that becomes a part of pod host
/// names.
fn warnings(object: &Value, about_name: bool) -> Vec<String> {
    let mut warnings = Vec::from_iter(pod::warnings::name_warning(object).filter(|_| about_name));
    warnings.extend(pod::warnings::pod_warnings(spec(object).get("template").unwrap_or(&Value::Null), "spec.template"));
    warnings
}

/// Returns the warnings about the template of an update that increments the generation.
fn update_warnings(new: &Value, old: &Value) -> Vec<String> {
    if meta::generation(new) == meta::generation(old) { Vec::new() } else { warnings(new, false) }
}
