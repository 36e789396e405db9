//! The four ways to change an object by describing the change.
//!
//! [`apply_patch`] does what the server does with the body of a PATCH request, up to the point where the patched
//! object goes on like an update: it merges, decodes the outcome as the kind's type and reports unknown fields.
//! Server-side apply has ownership to think of and lives in [`apply`].
//!
//! ```text
//! json.rs       RFC 6902 (application/json-patch+json)
//! merge.rs      RFC 7386 (application/merge-patch+json)
//! strategic.rs  Kubernetes' own (application/strategic-merge-patch+json)
//! shown.rs      the patched document in refusals
//! apply.rs      server-side apply (application/apply-patch+yaml)
//! ```

pub mod apply;
pub mod json;
pub mod merge;
mod shown;
pub mod strategic;

use std::fmt::Write as _;

use super::field::{Error, ErrorList, Path};
use super::schema::{DecodeError, Decoded, FieldValidation, Schema, decode_untyped};
use super::status::Status;
use crate::json::{Map, Value};
use shown::Touched;

/// Kinds of patch that need no ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// A list of operations (RFC 6902).
    Json,
    /// A partial object (RFC 7386).
    Merge,
    /// A partial object with directives and merge keys.
    Strategic,
}

/// The outcome of a patch.
#[derive(Clone, Debug, PartialEq)]
pub struct Patched {
    /// The patched object, decoded and normalized.
    pub value: Value,
    /// Texts for `Warning` headers: unknown and duplicate fields.
    pub warnings: Vec<String>,
}

/// Applies the body of a PATCH request to `live`, which is in the form of the request's version.
///
/// # Errors
/// 400, 422 or 500 as the real server answers them.
pub fn apply_patch(
    patch_type: PatchType,
    schema: &Schema,
    live: Value,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Patched, Status> {
    apply_patch_as(patch_type, schema, live, body, validation, &|_| None)
}

/// The same for an object that `foreign` must not complain about: a patch may not make something else of it.
///
/// # Errors
/// 400, 422 or 500 as the real server answers them.
pub fn apply_patch_as(
    patch_type: PatchType,
    schema: &Schema,
    live: Value,
    body: &[u8],
    validation: FieldValidation,
    foreign: &dyn Fn(&Value) -> Option<String>,
) -> Result<Patched, Status> {
    let judge = |decoded: Decoded| match foreign(&decoded.value) {
        None => Ok(decoded),
        Some(why) => Err(why),
    };
    match patch_type {
        PatchType::Json => {
            let (strict, operations) = json::decode(body, validation)?;
            let paths = operations.clone();
            let value = json::apply(live, operations)?;
            let shown = || shown::show(schema, &value, &Touched::by_operations(&paths, body));
            let decoded = convert(schema, &value, shown).map_err(|error| error.to_string()).and_then(judge);
            finish(decoded, strict, validation, shown)
        }
        PatchType::Merge => {
            let (strict, patch) = merge::decode(body, validation)?;
            let mut value = live;
            // Custom resources have no struct whose field order would show.
            let touched =
                if schema.is_structural() { Touched::Brought(None) } else { Touched::by_merge(&value, &patch) };
            merge::merge(&mut value, patch);
            let shown = || shown::show(schema, &value, &touched);
            let decoded = convert(schema, &value, shown).map_err(|error| error.to_string()).and_then(judge);
            finish(decoded, strict, validation, shown)
        }
        PatchType::Strategic => {
            if schema.is_structural() {
                return Err(Status::bad_request("strategic merge patch format is not supported"));
            }
            let (strict, patch) = strategic::decode(body, validation)?;
            let shown = Value::Object(patch.clone());
            // What comes out is read into the kind's type, whatever the patch says that it is.
            let own = ["apiVersion", "kind"].map(|field| (field, live.get(field).cloned()));
            let mut value = strategic::merge(schema, live, patch)?;
            if let Some(map) = value.as_object_mut() {
                for (field, own) in own {
                    map.remove(field);
                    map.extend(own.map(|own| (field.to_owned(), own)));
                }
            }
            finish(schema.convert_unstructured(value), strict, validation, || go_text(&shown))
        }
    }
}

/// Decodes a patched document; complaints come in the order of its text.
fn convert(schema: &Schema, value: &Value, shown: impl FnOnce() -> String) -> Result<Decoded, DecodeError> {
    match schema.convert(value) {
        Ok(decoded) if decoded.strict.is_empty() => Ok(decoded),
        _ => schema.decode(shown().as_bytes()),
    }
}

/// Turns what decoding the patched object brought to light into warnings or a refusal.
fn finish<E: std::fmt::Display>(
    decoded: Result<Decoded, E>,
    mut strict: Vec<String>,
    validation: FieldValidation,
    shown: impl FnOnce() -> String,
) -> Result<Patched, Status> {
    let refuse = |detail: String| {
        let errors = ErrorList::from(Error::invalid(&Path::new("patch"), shown(), detail));
        Err(Status::invalid("", "", "", &errors))
    };
    let decoded = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return refuse(error.to_string()),
    };
    match validation {
        FieldValidation::Ignore => Ok(Patched { value: decoded.value, warnings: Vec::new() }),
        FieldValidation::Warn => {
            strict.extend(decoded.strict);
            Ok(Patched { value: decoded.value, warnings: strict })
        }
        FieldValidation::Strict => {
            strict.extend(decoded.strict);
            if strict.is_empty() {
                Ok(Patched { value: decoded.value, warnings: strict })
            } else {
                refuse(format!("strict decoding error: {}", strict.join(", ")))
            }
        }
    }
}

/// Duplicate fields of a body, and the object that it is, if it says anything.
type Partial = (Vec<String>, Option<Map>);

/// Decodes a body that must be an object; `null` is one in which nothing is said. Refusals come without a prefix.
fn decode_object(body: &[u8]) -> Result<Partial, String> {
    let decoded = decode_untyped(body).map_err(|e| e.message)?;
    let found = match decoded.value {
        Value::Object(map) => return Ok((decoded.strict, Some(map))),
        Value::Null => return Ok((decoded.strict, None)),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
    };
    Err(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
}

/// A value as Go's `%v` prints it: `map[a:1 b:[x y]]`.
pub(crate) fn go_text(value: &Value) -> String {
    let mut out = String::new();
    write_go(&mut out, value);
    out
}

fn write_go(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(s) => out.push_str(s),
        // Whole floats have no fraction in Go.
        Value::Number(n) if n.is_f64() && n.as_f64().is_some_and(|f| f.fract() == 0.0 && f.abs() < 1e21) => {
            _ = write!(out, "{:.0}", n.as_f64().unwrap_or_default());
        }
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

/// The Go type that holds a decoded JSON value.
fn go_type(value: &Value) -> &'static str {
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

#[cfg(test)]
mod tests;
