//! Validation of `metadata`, which is the same for all kinds.
//!
//! See `staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go` and, for finalizers without a domain,
//! `pkg/apis/core/validation/validation.go`.

use crate::field_errors::{BadValue, ErrorList, FieldError, Path};
use crate::json::fields::{is_empty_value, str_field};
use crate::json::{Map, Value};
use crate::registry::checks::{IMMUTABLE_MESSAGE, NON_NEGATIVE_MESSAGE, validate_immutable};
use crate::registry::names::{self, NameFormat};
use crate::schema;
use crate::status::go_quote;

/// Maximum size in bytes of all annotations together.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Validates `metadata` of a new or updated object.
pub(crate) fn validate(object: &Value, namespaced: bool, rule: NameFormat, path: &Path<'_>) -> ErrorList {
    validate_named(object, namespaced, |name, prefix| names::object_name(rule, name, prefix), path)
}

/// Like [`validate`], with a function that returns what is wrong with a name, or with a prefix of names.
pub(crate) fn validate_named(
    object: &Value,
    namespaced: bool,
    wrong: impl Fn(&str, bool) -> Vec<String>,
    path: &Path<'_>,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let empty = Value::Null;
    let metadata = object.get("metadata").unwrap_or(&empty);
    let generate_name = str_field(metadata, "generateName");
    if !generate_name.is_empty() {
        for message in wrong(generate_name, true) {
            errors.invalid(&path.child("generateName"), generate_name, message);
        }
    }
    let name = str_field(metadata, "name");
    if name.is_empty() {
        errors.required(&path.child("name"), "name or generateName is required");
    } else {
        for message in wrong(name, false) {
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
    let now = new.get("generation").and_then(Value::as_i64);
    let before = old.get("generation").and_then(Value::as_i64);
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
        let api_version = str_field(owner, "apiVersion");
        let kind = str_field(owner, "kind");
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
                errors.push_with(|| {
                    let all: Vec<String> = owners.iter().map(owner_json).collect();
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                        named(first),
                        named(owner)
                    );
                    FieldError::invalid(path, BadValue::Raw(format!("[{}]", all.join(","))), detail)
                });
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
    let schema = schema::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")?;
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
    let mut orphan = false;
    let mut foreground = false;
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
