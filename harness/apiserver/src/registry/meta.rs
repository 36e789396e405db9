//! Validation of `metadata`, which is the same for all kinds, and helpers that strategies share.
//!
//! See `staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go` and, for finalizers without a domain,
//! `pkg/apis/core/validation/validation.go`.

use std::fmt::Write;

use super::{NameFormat, names};
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::go_json;
use crate::json::{Key, Map, Value};
pub(crate) use crate::metadata::{generation, name};
use crate::schema::{Schema, TypeKind, TypeRef};
use crate::status::go_quote;

/// Maximum size in bytes of all annotations together.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Returns the string member `key`; empty if it is missing or not a string.
pub(crate) fn str_field<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the member `key` unless it is missing or null.
pub(crate) fn non_null<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|value| !value.is_null())
}

/// Returns `spec`; null if it is missing.
pub(crate) fn spec_of(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

/// Returns the value at a JSON pointer. Faster than [`Value::pointer`] for pointers without escapes and list indexes.
pub(crate) fn value_at_pointer<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.contains('~') {
        return object.pointer(pointer);
    }
    let mut place = object;
    for step in pointer.split('/').skip(1) {
        place = match place {
            Value::Object(map) => map.get(step)?,
            Value::Array(_) => return object.pointer(pointer),
            _ => return None,
        };
    }
    Some(place)
}

/// Sets `metadata.generation`.
pub(crate) fn set_generation(object: &mut Value, generation: i64) {
    if let Some(metadata) = object_or_insert(object, "metadata") {
        metadata.insert("generation", generation.into());
    }
}

/// Returns the object under `key`, inserting it if it is missing or null; `None` if there is a value of another type.
pub(crate) fn object_or_insert<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Map> {
    let map = value.as_object_mut()?;
    if !map.get(key).is_some_and(Value::is_object) {
        if map.get(key).is_some_and(|v| !v.is_null()) {
            return None;
        }
        map.insert(key.to_owned(), Value::Object(Map::new()));
    }
    map.get_mut(key)?.as_object_mut()
}

/// Sets a field that is missing or null.
pub(crate) fn value_default(map: &mut Map, field: &str, value: impl Into<Value>) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field.to_owned(), value.into());
    }
}

/// Sets a string field that is missing or empty.
pub(crate) fn text_default(map: &mut Map, field: &str, value: &str) {
    if is_empty_value(map.get(field)) {
        map.insert(field.to_owned(), value.into());
    }
}

/// Returns true if a field is empty for Go's `omitempty`: missing, null, "", [], {}.
pub(crate) fn is_empty_value(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(str_field)) => str_field.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(_) => false,
    }
}

/// Compares two values semantically: missing, null and empty are equal at every level.
pub(crate) fn semantic_equal(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            left.iter().all(|(k, v)| semantic_equal(Some(v), right.get(k)))
                && right.iter().all(|(k, v)| left.contains_key(k) || is_empty_value(Some(v)))
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            left.len() == right.len() && left.iter().zip(right).all(|(x, y)| semantic_equal(Some(x), Some(y)))
        }
        (Some(left), Some(right)) if !is_empty_value(Some(left)) || !is_empty_value(Some(right)) => left == right,
        (left, right) => is_empty_value(left) && is_empty_value(right),
    }
}

/// Copies `old`'s value of a top-level field to `new`, removing it if `old` has none.
pub(crate) fn copy_field(new: &mut Value, old: &Value, field: &str) {
    let Some(map) = new.as_object_mut() else { return };
    match (old.get(field), map.get_mut(field)) {
        // Comparing is cheaper than copying, and clients mostly send unchanged fields.
        (Some(value), Some(kept)) => {
            if kept != value {
                kept.clone_from(value);
            }
        }
        (Some(value), None) => {
            map.insert(field.to_owned(), value.clone());
        }
        (None, _) => {
            map.remove(field);
        }
    }
}

/// Takes only `status` and `metadata` from `new` and all other fields from `old`.
///
/// Upstream's status strategies restore the spec but not the metadata, except for its system fields, so labels,
/// annotations, owner references and finalizers are writable through most `/status` endpoints.
pub(crate) fn reset_all_but_status(new: &mut Value, old: &Value) {
    let Some(fields) = old.as_object() else { return };
    let extra: Vec<Key> = new.as_object().map_or_else(Vec::new, |m| {
        m.keys().filter(|k| !is_writable_on_status(k) && !fields.contains_key(*k)).cloned().collect()
    });
    if let Some(map) = new.as_object_mut() {
        for key in extra {
            map.remove(&key);
        }
    }
    for key in fields.keys().filter(|k| !is_writable_on_status(k)) {
        copy_field(new, old, key);
    }
}

/// Copies `old`'s values of these metadata fields to `new`.
pub(crate) fn copy_metadata_fields(new: &mut Value, old: &Value, fields: &[&str]) {
    let before = old.get("metadata");
    let Some(metadata) = object_or_insert(new, "metadata") else { return };
    for field in fields {
        match before.and_then(|m| m.get(*field)) {
            Some(value) => {
                metadata.insert((*field).to_owned(), value.clone());
            }
            None => {
                metadata.remove(*field);
            }
        }
    }
}

/// Removes numbers that are 0, which upstream's types omit.
pub(crate) fn drop_zero(map: &mut Map, fields: &[&str]) {
    for field in fields {
        if map.get(*field).and_then(Value::as_i64) == Some(0) {
            map.remove(*field);
        }
    }
}

/// Returns true if the specs of two objects are semantically equal: a missing and an empty list are equal, a missing
/// and an empty struct behind a pointer are not.
pub(crate) fn specs_equal(new: &Value, old: &Value) -> bool {
    spec_values_equal(new, spec_of(new), spec_of(old))
}

/// Like [`specs_equal`] for two specs of `object`'s kind.
pub(crate) fn spec_values_equal(object: &Value, new: &Value, old: &Value) -> bool {
    let pointers = || {
        let Some(schema) = go_json::schema_for(object) else { return true };
        let Some(ty) = schema.field_type(schema.root(), "spec") else { return true };
        same_pointer_structs(&schema, ty, new, old)
    };
    new == old || (semantic_equal(Some(new), Some(old)) && pointers())
}

/// Returns true if two values that are [`semantic_equal`] have the same structs behind pointers.
fn same_pointer_structs(schema: &Schema, ty: TypeRef, new: &Value, old: &Value) -> bool {
    match (schema.shape(ty), new, old) {
        (TypeKind::Struct(shape), Value::Object(new), Value::Object(old)) => {
            new.keys().chain(old.keys().filter(|key| !new.contains_key(*key))).all(|key| {
                let Some(field) = shape.field(key) else { return true };
                match (new.get(key).filter(|v| !v.is_null()), old.get(key).filter(|v| !v.is_null())) {
                    (Some(new), Some(old)) => same_pointer_structs(schema, field.ty, new, old),
                    (None, None) => true,
                    _ => !(field.pointer && matches!(schema.shape(field.ty), TypeKind::Struct(_))),
                }
            })
        }
        (TypeKind::List(list), Value::Array(new), Value::Array(old)) => {
            new.iter().zip(old).all(|(new, old)| same_pointer_structs(schema, list.items, new, old))
        }
        _ => true,
    }
}

/// Requires a number that is not negative.
pub(crate) fn validate_non_negative(value: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let value = value.and_then(Value::as_i64).unwrap_or(0);
    if value < 0 {
        errors.invalid(path, value, NON_NEGATIVE_MESSAGE);
    }
}

/// The message for numbers that must not be negative.
pub(crate) const NON_NEGATIVE_MESSAGE: &str = "must be greater than or equal to 0";

/// The message for numbers that must be positive.
pub(crate) const POSITIVE_MESSAGE: &str = "must be greater than 0";

/// Encodes a `metav1.LabelSelector` like Go.
pub(crate) fn selector_json(selector: Option<&Value>) -> String {
    let Some(selector) = selector.filter(|s| !s.is_null()) else { return "null".to_owned() };
    let mut parts = Vec::new();
    if let Some(labels) = selector.get("matchLabels").filter(|v| !is_empty_value(Some(v))) {
        parts.push(format!("\"matchLabels\":{labels}"));
    }
    if let Some(expressions) = selector.get("matchExpressions").and_then(Value::as_array).filter(|e| !e.is_empty()) {
        let all: Vec<String> = expressions
            .iter()
            .map(|e| {
                let mut out = format!(
                    "{{\"key\":{},\"operator\":{}",
                    Value::from(str_field(e, "key")),
                    Value::from(str_field(e, "operator"))
                );
                if let Some(values) = e.get("values").filter(|v| !is_empty_value(Some(v))) {
                    let _ = write!(out, ",\"values\":{values}");
                }
                out.push('}');
                out
            })
            .collect();
        parts.push(format!("\"matchExpressions\":[{}]", all.join(",")));
    }
    format!("{{{}}}", parts.join(","))
}

fn is_writable_on_status(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata" | "status")
}

/// Validates `metadata` of a new or updated object.
pub(crate) fn validate(object: &Value, namespaced: bool, rule: NameFormat, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let empty = Value::Null;
    let metadata = object.get("metadata").unwrap_or(&empty);
    let generate_name = str_field(metadata, "generateName");
    if !generate_name.is_empty() {
        for message in names::object_name(rule, generate_name, true) {
            errors.invalid(&path.child("generateName"), generate_name, message);
        }
    }
    let name = str_field(metadata, "name");
    if name.is_empty() {
        errors.required(&path.child("name"), "name or generateName is required");
    } else {
        for message in names::object_name(rule, name, false) {
            errors.invalid(&path.child("name"), name, message);
        }
    }
    let namespace = str_field(metadata, "namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.required(&path.child("namespace"), ""),
        (true, false) => {
            for message in names::dns1123_label(namespace) {
                errors.invalid(&path.child("namespace"), namespace, message);
            }
        }
        (false, false) => errors.forbidden(&path.child("namespace"), "not allowed on this type"),
        (false, true) => {}
    }
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation < 0 {
        errors.invalid(&path.child("generation"), generation, NON_NEGATIVE_MESSAGE);
    }
    validate_labels_annotations_owners(metadata, path, &mut errors);
    if let Some(finalizers) = metadata.get("finalizers").and_then(Value::as_array) {
        validate_finalizers(finalizers, &path.child("finalizers"), &mut errors);
        validate_finalizer_names(finalizers, &path.child("finalizers"), &mut errors);
    }
    if let Some(fields) = metadata.get("managedFields").and_then(Value::as_array) {
        validate_managed_fields(fields, &path.child("managedFields"), &mut errors);
    }
    errors
}

fn validate_labels_annotations_owners(metadata: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(labels) = metadata.get("labels").and_then(Value::as_object) {
        validate_labels(labels, &path.child("labels"), errors);
    }
    if let Some(annotations) = metadata.get("annotations").and_then(Value::as_object) {
        validate_annotations(annotations, &path.child("annotations"), errors);
    }
    if let Some(owners) = metadata.get("ownerReferences").and_then(Value::as_array) {
        validate_owners(owners, &path.child("ownerReferences"), errors);
    }
}

/// Validates the change of `metadata` in an update.
pub(crate) fn validate_update(new: &Value, old: &Value, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let empty = Value::Null;
    let new = new.get("metadata").unwrap_or(&empty);
    let old = old.get("metadata").unwrap_or(&empty);
    if !is_empty_value(old.get("deletionTimestamp")) {
        validate_no_new_finalizers(new, old, path, &mut errors);
    }
    if str_field(new, "resourceVersion").is_empty() {
        errors.invalid(&path.child("resourceVersion"), "", "must be specified for an update");
    }
    let (now, before) = (new.get("generation").and_then(Value::as_i64), old.get("generation").and_then(Value::as_i64));
    if now.unwrap_or(0) < before.unwrap_or(0) {
        errors.invalid(&path.child("generation"), now.unwrap_or(0), "must not be decremented");
    }
    for field in ["name", "namespace", "uid"] {
        if str_field(new, field) != str_field(old, field) {
            errors.invalid(&path.child(field), str_field(new, field), IMMUTABLE_MESSAGE);
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        validate_immutable(new.get(field), old.get(field), &path.child(field), &mut errors);
    }
    validate_labels_annotations_owners(new, path, &mut errors);
    if let Some(finalizers) = new.get("finalizers").and_then(Value::as_array) {
        validate_finalizer_names(finalizers, &path.child("finalizers"), &mut errors);
    }
    if let Some(fields) = new.get("managedFields").and_then(Value::as_array) {
        validate_managed_fields(fields, &path.child("managedFields"), &mut errors);
    }
    errors
}

/// The message for immutable fields.
pub(crate) const IMMUTABLE_MESSAGE: &str = "field is immutable";

/// Requires a field to be unchanged.
pub(crate) fn validate_immutable(new: Option<&Value>, old: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    if !semantic_equal(new, old) {
        errors.invalid(path, BadValue::from(new), IMMUTABLE_MESSAGE);
    }
}

fn validate_no_new_finalizers(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Vec::new();
    let before = old.get("finalizers").and_then(Value::as_array).unwrap_or(&none);
    let after = new.get("finalizers").and_then(Value::as_array).unwrap_or(&none);
    let mut added: Vec<String> =
        after.iter().filter(|f| !before.contains(f)).filter_map(Value::as_str).map(go_quote).collect();
    added.sort();
    added.dedup();
    if !added.is_empty() {
        errors.forbidden(
            &path.child("finalizers"),
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            ),
        );
    }
}

/// Validates labels, including a selector's `matchLabels`.
pub(crate) fn validate_labels(labels: &Map, path: &Path<'_>, errors: &mut ErrorList) {
    for (key, value) in labels {
        for message in names::qualified_name(key) {
            errors.invalid(path, key.as_str(), message);
        }
        let value = value.as_str().unwrap_or_default();
        for message in names::label_value(value) {
            errors.invalid(path, value, message);
        }
    }
}

/// Validates annotations.
pub(crate) fn validate_annotations(annotations: &Map, path: &Path<'_>, errors: &mut ErrorList) {
    let mut size = 0_usize;
    for (key, value) in annotations {
        size += key.len() + value.as_str().map_or(0, str::len);
        let messages = if key.bytes().any(|b| b.is_ascii_uppercase()) {
            names::qualified_name(&key.to_lowercase())
        } else {
            names::qualified_name(key)
        };
        for message in messages {
            errors.invalid(path, key.as_str(), message);
        }
    }
    if size > ANNOTATIONS_MAX {
        errors.too_long(path, ANNOTATIONS_MAX);
    }
}

fn validate_owners(owners: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let mut first_controller = None;
    let named = |owner: &Value| format!("{}/{}", str_field(owner, "kind"), str_field(owner, "name"));
    for owner in owners {
        let (api_version, kind) = (str_field(owner, "apiVersion"), str_field(owner, "kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if version.is_empty() || version.contains('/') {
            errors.invalid(&path.child("apiVersion"), api_version, "version must not be empty");
        }
        for field in ["kind", "name", "uid"] {
            if str_field(owner, field).is_empty() {
                errors.invalid(&path.child(field), "", "must not be empty");
            }
        }
        if group.is_empty() && version == "v1" && kind == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.invalid(path, BadValue::Raw(owner_json(owner)), detail);
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            if let Some(first) = first_controller {
                let all: Vec<String> = owners.iter().map(owner_json).collect();
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                    named(first),
                    named(owner)
                );
                errors.invalid(path, BadValue::Raw(format!("[{}]", all.join(","))), detail);
            } else {
                first_controller = Some(owner);
            }
        }
    }
}

/// Encodes an owner reference like Go, fields in declaration order.
fn owner_json(owner: &Value) -> String {
    let mut parts: Vec<String> = ["apiVersion", "kind", "name", "uid"]
        .iter()
        .map(|field| format!("\"{field}\":{}", Value::from(str_field(owner, field))))
        .collect();
    for field in ["controller", "blockOwnerDeletion"] {
        if let Some(flag) = owner.get(field).and_then(Value::as_bool) {
            parts.push(format!("\"{field}\":{flag}"));
        }
    }
    format!("{{{}}}", parts.join(","))
}

/// Returns the error of decoding a value as `ObjectMeta`.
pub(crate) fn decode_error(metadata: &Value) -> Option<String> {
    let schema = crate::schema::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")?;
    schema.decode(metadata.to_string().as_bytes()).err().map(|error| error.message)
}

/// The message for finalizers without a domain, which only `pkg/apis/core/validation` reports.
pub(crate) const UNQUALIFIED_FINALIZER_MESSAGE: &str =
    "name is neither a standard finalizer name nor is it fully qualified";

/// Requires finalizers without a domain to be Kubernetes' own.
fn validate_finalizer_names(finalizers: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (i, finalizer) in finalizers.iter().filter_map(Value::as_str).enumerate() {
        if !finalizer.contains('/') && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion") {
            let why = UNQUALIFIED_FINALIZER_MESSAGE;
            errors.invalid(&path.index(i), finalizer, why);
        }
    }
}

fn validate_finalizers(finalizers: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let (mut orphan, mut foreground) = (false, false);
    for finalizer in finalizers {
        let finalizer = finalizer.as_str().unwrap_or_default();
        for message in names::qualified_name(finalizer) {
            errors.invalid(path, finalizer, message);
        }
        orphan |= finalizer == "orphan";
        foreground |= finalizer == "foregroundDeletion";
    }
    if orphan && foreground {
        let shown = Value::Array(finalizers.to_vec()).to_string();
        errors.invalid(path, BadValue::Raw(shown), "finalizer orphan and foregroundDeletion cannot be both set");
    }
}

fn validate_managed_fields(fields: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (i, entry) in fields.iter().enumerate() {
        let path = path.index(i);
        let operation = str_field(entry, "operation");
        if operation != "Apply" && operation != "Update" {
            errors.invalid(&path.child("operation"), operation, "must be `Apply` or `Update`");
        }
        let kind = str_field(entry, "fieldsType");
        if !kind.is_empty() && kind != "FieldsV1" {
            errors.invalid(&path.child("fieldsType"), kind, "must be `FieldsV1`");
        }
        let manager = str_field(entry, "manager");
        if manager.len() > 128 {
            errors.too_long(&path.child("manager"), 128);
        }
        if str_field(entry, "subresource").len() > 256 {
            errors.too_long(&path.child("subresource"), 256);
        }
    }
}
