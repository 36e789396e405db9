//! Decoded JSON values as Go prints them in messages of errors, such as those of
//! `staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go`.

use std::fmt::Write as _;

use crate::go_float;
use crate::json::Value;

/// Formats a value as Go's `%v` does: `map[a:1 b:[x y]]`.
pub(crate) fn go_text(value: &Value) -> String {
    let mut out = String::new();
    write_go(&mut out, value);
    out
}

fn write_go(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(s) => out.push_str(s),
        Value::Number(n) if n.is_f64() => out.push_str(&go_float::plain(n.as_f64().unwrap_or_default())),
        Value::Bool(_) | Value::Number(_) => _ = write!(out, "{value}"),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write_go(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push_str("map[");
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_go(out, item);
            }
            out.push(']');
        }
    }
}

/// Returns the Go type of a decoded JSON value.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
