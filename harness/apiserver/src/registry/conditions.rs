//! Status conditions: validation of `metav1.Condition` lists, and upserts by server and controllers.
//!
//! See `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go` and
//! `staging/src/k8s.io/apimachinery/pkg/api/meta/conditions.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, is_empty_value, str_field};
use crate::json::{Value, json};
use crate::registry::{checks, names};

const REASON_FORMAT: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";

const REASON_MESSAGE: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";

const REASON_EXAMPLES: &[&str] = &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];

/// Validates a list of `metav1.Condition` under `path`.
pub(crate) fn validate(conditions: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let repeated = checks::repeated(conditions, |condition| str_field(condition, "type"));
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        let kind = str_field(condition, "type");
        if repeated[i] {
            errors.duplicate(&path.child("type"), kind);
        }
        validate_one(condition, kind, &path, errors);
    }
}

fn validate_one(condition: &Value, kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    for message in names::qualified_name(kind) {
        errors.invalid(&path.child("type"), kind, message);
    }
    let status = str_field(condition, "status");
    if !matches!(status, "True" | "False" | "Unknown") {
        errors.not_supported(&path.child("status"), status, &["False", "True", "Unknown"]);
    }
    let generation = condition.get("observedGeneration").and_then(Value::as_i64).unwrap_or(0);
    if generation < 0 {
        errors.invalid(&path.child("observedGeneration"), generation, "must be greater than or equal to zero");
    }
    if is_empty_value(condition.get("lastTransitionTime")) {
        errors.required(&path.child("lastTransitionTime"), "");
    }
    let reason = str_field(condition, "reason");
    if reason.is_empty() {
        errors.required(&path.child("reason"), "");
    } else {
        if !is_reason(reason) {
            let message = names::regex_error(REASON_MESSAGE, REASON_FORMAT, REASON_EXAMPLES);
            errors.invalid(&path.child("reason"), reason, message);
        }
        if reason.len() > 1024 {
            errors.too_long(&path.child("reason"), 1024);
        }
    }
    if str_field(condition, "message").len() > 32 * 1024 {
        errors.too_long(&path.child("message"), 32 * 1024);
    }
}

fn is_reason(reason: &str) -> bool {
    let bytes = reason.as_bytes();
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|b| word(*b))
        && bytes.iter().all(|b| word(*b) || matches!(b, b',' | b':'))
}

/// Returns the condition of this type in `status`.
pub(crate) fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    array_field(status, "conditions").iter().find(|c| str_field(c, "type") == kind)
}

/// Returns true if the condition of this type is `True`.
pub(crate) fn is_true(status: &Value, kind: &str) -> bool {
    find(status, kind).is_some_and(|c| str_field(c, "status") == "True")
}

/// Sets a condition with the common five fields in a list; the transition time changes only with the status.
pub(crate) fn set(conditions: &mut Vec<Value>, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
    replace(
        conditions,
        json!({"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}),
    );
}

/// Sets a pod condition (with `lastProbeTime`) in `status`; the transition time changes only with the status.
pub(crate) fn upsert_pod_condition(
    status: &mut Value,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let mut condition = json!({"type": kind, "status": value, "lastProbeTime": null, "lastTransitionTime": now});
    if !reason.is_empty() {
        condition["reason"] = reason.into();
    }
    if !message.is_empty() {
        condition["message"] = message.into();
    }
    replace_in(status, condition);
}

/// Sets a `metav1.Condition` in `status`; the transition time changes only with the status.
pub(crate) fn upsert(
    status: &mut Value,
    kind: &str,
    value: &str,
    generation: i64,
    reason: &str,
    message: &str,
    now: &str,
) {
    let mut condition =
        json!({"type": kind, "status": value, "lastTransitionTime": now, "reason": reason, "message": message});
    if generation != 0 {
        condition["observedGeneration"] = generation.into();
    }
    replace_in(status, condition);
}

/// Like [`replace`] in the conditions of `status`.
fn replace_in(status: &mut Value, condition: Value) {
    let Some(map) = status.as_object_mut() else { return };
    let list = map.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    if let Some(list) = list.as_array_mut() {
        replace(list, condition);
    }
}

/// Replaces the condition of the same type, whose transition time stays if the status does, or adds one.
fn replace(conditions: &mut Vec<Value>, mut condition: Value) {
    let Some(old) = conditions.iter_mut().find(|old| str_field(old, "type") == str_field(&condition, "type")) else {
        conditions.push(condition);
        return;
    };
    if str_field(old, "status") == str_field(&condition, "status") {
        condition["lastTransitionTime"] = old.get("lastTransitionTime").cloned().unwrap_or(Value::Null);
    }
    *old = condition;
}
