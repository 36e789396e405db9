//! The four patch formats. Follows `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go` of Kubernetes 1.36.
//!
//! [`apply_patch`] handles the body of a PATCH request up to the point from which the patched object is treated like an
//! update: it merges, decodes the result as the kind's type and reports unknown fields. Server-side apply also tracks
//! ownership and is in [`apply`].
//!
//! ```text
//! json.rs       RFC 6902 (application/json-patch+json)
//! merge.rs      RFC 7386 (application/merge-patch+json)
//! strategic.rs  Kubernetes' own (application/strategic-merge-patch+json)
//! go_rendering.rs the patched document in error messages
//! go_text.rs    values in error messages, as Go prints them
//! decode.rs     bodies that must be objects
//! apply/        server-side apply (application/apply-patch+yaml)
//! ```

pub(crate) mod apply;
mod decode;
mod go_rendering;
mod go_text;
pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod strategic;

use super::field_errors::{ErrorList, FieldError, Path};
use super::schema::{DecodedBody, FieldValidation, Schema, type_meta};
use super::status::Status;
use crate::json::{Map, Value};
use go_rendering::PatchTrace;
pub(crate) use go_text::go_text;

/// The patch formats other than server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// A list of operations (RFC 6902).
    Json,
    /// A partial object (RFC 7386).
    Merge,
    /// A partial object with directives and merge keys.
    Strategic,
}

/// The result of a patch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PatchResult {
    /// The patched object, decoded and normalized.
    pub value: Value,
    /// `Warning` headers: unknown and duplicate fields.
    pub warnings: Vec<String>,
}

/// Applies the body of a PATCH request to `live`, which is in the request's version.
///
/// # Errors
/// 400, 422 or 500, as kube-apiserver answers.
pub(crate) fn apply_patch(
    patch_type: PatchType,
    schema: &Schema,
    live: Value,
    body: &[u8],
    validation: FieldValidation,
) -> Result<PatchResult, Status> {
    apply_checked_patch(patch_type, schema, live, body, validation, &|_| None)
}

/// Like [`apply_patch`], but rejects results for which `foreign` returns an error: a patch may not change the kind.
///
/// # Errors
/// 400, 422 or 500, as kube-apiserver answers.
pub(crate) fn apply_checked_patch(
    patch_type: PatchType,
    schema: &Schema,
    live: Value,
    body: &[u8],
    validation: FieldValidation,
    foreign: &dyn Fn(&Value) -> Option<String>,
) -> Result<PatchResult, Status> {
    let judge = |decoded: DecodedBody| match foreign(&decoded.value) {
        None => Ok(decoded),
        Some(why) => Err(why),
    };
    match patch_type {
        PatchType::Json => {
            let (strict, operations) = json::decode(body, validation)?;
            let paths = operations.clone();
            let before = live.clone();
            let value = json::apply(live, operations).map_err(|_| json::unprocessable())?;
            let trace = || PatchTrace::by_operations(schema, &before, &paths, body);
            let shown = || go_rendering::show(schema, &value, &trace());
            let decoded = convert(schema, &value, shown).and_then(judge);
            finish(decoded, strict, validation, shown)
        }
        PatchType::Merge => {
            let (strict, patch) = merge::decode(body, validation)?;
            let mut value = live;
            // Custom resources have no struct whose field order could show.
            let touched =
                if schema.is_structural() { PatchTrace::Added(None) } else { PatchTrace::by_merge(&value, &patch) };
            merge::merge(&mut value, patch);
            let shown = || go_rendering::show(schema, &value, &touched);
            let decoded = convert(schema, &value, shown).and_then(judge);
            finish(decoded, strict, validation, shown)
        }
        PatchType::Strategic => {
            if schema.is_structural() {
                return Err(Status::bad_request("strategic merge patch format is not supported"));
            }
            let (strict, patch) = strategic::decode(body, validation)?;
            let shown = Value::Object(patch.clone());
            // The result is decoded as the kind's type even if the patch changes apiVersion or kind.
            let own = ["apiVersion", "kind"].map(|field| (field, live.get(field).cloned()));
            let mut value = strategic::merge(schema, live, patch)?;
            let typed = Schema::check_type_meta(&value);
            if let Some(map) = value.as_object_mut() {
                for (field, own) in own {
                    map.remove(field);
                    map.extend(own.map(|own| (field.to_owned(), own)));
                }
            }
            let decoded = typed.and_then(|()| schema.convert_unstructured(value));
            finish(decoded, strict, validation, || go_text(&shown))
        }
    }
}

/// Decodes a patched document; errors are in the order of its text. Kind and apiVersion are read first.
fn convert(schema: &Schema, value: &Value, shown: impl FnOnce() -> String) -> Result<DecodedBody, String> {
    if is_unversioned(schema, value) {
        type_meta(shown().as_bytes()).map_err(|error| error.to_string())?;
        return Ok(decode_unversioned(value));
    }
    match schema.convert(value) {
        Ok(decoded) if decoded.strict.is_empty() => Ok(decoded),
        _ => {
            let text = shown();
            if !schema.is_structural() {
                type_meta(text.as_bytes()).map_err(|error| error.to_string())?;
            }
            schema.decode(text.as_bytes()).map_err(|error| error.to_string())
        }
    }
}

/// Returns true if a patched object of a built-in kind has lost its apiVersion.
fn is_unversioned(schema: &Schema, value: &Value) -> bool {
    let version = &value["apiVersion"];
    !schema.is_structural() && (version.is_null() || version == "")
}

/// Decodes an object without an apiVersion as upstream does: into the internal type, which has no field of JSON.
fn decode_unversioned(value: &Value) -> DecodedBody {
    let fields = value.as_object().into_iter().flat_map(Map::keys);
    let unknown = fields.filter(|field| !matches!(field.as_str(), "kind" | "apiVersion"));
    let strict = unknown.map(|field| format!("unknown field \"{field}\"")).collect();
    DecodedBody { value: value.clone(), strict }
}

/// Turns the errors of decoding a patched object into warnings or an error Status.
fn finish<E: std::fmt::Display>(
    decoded: Result<DecodedBody, E>,
    mut strict: Vec<String>,
    validation: FieldValidation,
    shown: impl FnOnce() -> String,
) -> Result<PatchResult, Status> {
    let refuse = |detail: String| {
        let errors = ErrorList::from(FieldError::invalid(&Path::new("patch"), shown(), detail));
        Err(Status::invalid("", "", "", &errors))
    };
    let decoded = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return refuse(error.to_string()),
    };
    match validation {
        FieldValidation::Ignore => Ok(PatchResult { value: decoded.value, warnings: Vec::new() }),
        FieldValidation::Warn => {
            strict.extend(decoded.strict);
            Ok(PatchResult { value: decoded.value, warnings: strict })
        }
        FieldValidation::Strict => {
            strict.extend(decoded.strict);
            if strict.is_empty() {
                Ok(PatchResult { value: decoded.value, warnings: strict })
            } else {
                refuse(format!("strict decoding error: {}", strict.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests;
