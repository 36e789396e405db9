//! Strings in definitions, whose fields `pkg/apis/apiextensions/v1/types.go` in
//! `staging/src/k8s.io/apiextensions-apiserver` declares.

use crate::json::Value;
use crate::registry::StaticStr;

pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn texts(value: &Value) -> Vec<StaticStr> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| StaticStr::Owned(name.to_owned()))
        .collect()
}
