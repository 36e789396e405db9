//! The entries of managedFields of the objects that `pkg/controlplane` of kube-apiserver creates.

use serde_json::{Value, json};

/// The manager of most fields.
pub(super) const MANAGER: &str = "kube-apiserver";

/// Returns an entry of managedFields without the fields that all entries have in common.
pub(super) fn manager_entry(manager: &str, fields: Value) -> Value {
    json!([{"manager": manager, "operation": "Update", "fieldsV1": fields}])
}

/// Returns the field set of some names.
pub(super) fn field_set(names: &[&str]) -> Value {
    names.iter().map(|name| (format!("f:{name}"), json!({}))).collect::<serde_json::Map<_, _>>().into()
}

/// Returns the field set of some labels.
pub(super) fn labels(names: &[&str]) -> Value {
    let mut set = field_set(names);
    set["."] = json!({});
    json!({"f:labels": set})
}
