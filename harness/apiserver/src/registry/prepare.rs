//! Helpers of `PrepareForCreate` and `PrepareForUpdate` that strategies share: generations, and fields that an endpoint
//! restores. See `staging/src/k8s.io/apiserver/pkg/registry/rest/{create,update}.go`. PURE.

use crate::go_json;
use crate::json::fields::{object_or_insert, semantic_equal, spec_of};
use crate::json::{Key, Map, Value};
use crate::schema::{Schema, TypeKind, TypeRef};

/// Sets `metadata.generation`.
pub(crate) fn set_generation(object: &mut Value, generation: i64) {
    if let Some(metadata) = object_or_insert(object, "metadata") {
        metadata.insert("generation", generation.into());
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

/// Copies `before`'s value of a field to `map`, removing it if `before` has none.
pub(super) fn copy_member(map: &mut Map, before: &Value, field: &str) {
    match before.get(field) {
        Some(value) => {
            map.insert(field.to_owned(), value.clone());
        }
        None => {
            map.remove(field);
        }
    }
}

/// Takes only `status` and `metadata` from `new` and all other fields from `old`.
///
/// Upstream's status strategies restore the spec but not the metadata, except for its system fields, so labels,
/// annotations, owner references and finalizers are writable through most `/status` endpoints.
pub(super) fn reset_all_but_status(new: &mut Value, old: &Value) {
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

/// Returns true if the specs of two objects are semantically equal: a missing and an empty list are equal, a missing
/// and an empty value behind a pointer are not.
pub(super) fn specs_equal(new: &Value, old: &Value) -> bool {
    spec_values_equal(new, spec_of(new), spec_of(old))
}

/// Like [`specs_equal`] for two specs of `object`'s kind.
pub(super) fn spec_values_equal(object: &Value, new: &Value, old: &Value) -> bool {
    values_equal(object, &["spec"], Some(new), Some(old))
}

/// Returns true if two values of the field at `path` of `object`'s kind are semantically equal as Go compares them: a
/// pointer to something empty is not one to nothing.
pub(super) fn values_equal(object: &Value, path: &[&str], new: Option<&Value>, old: Option<&Value>) -> bool {
    let pointers = || {
        let (Some(schema), Some(new), Some(old)) = (go_json::schema_for(object), new, old) else { return true };
        let ty = path.iter().try_fold(schema.root(), |ty, field| schema.field_type(ty, field));
        ty.is_none_or(|ty| same_pointers(&schema, ty, new, old))
    };
    new == old || (semantic_equal(new, old) && pointers())
}

/// Returns true if two values that are [`semantic_equal`] have the same pointers.
fn same_pointers(schema: &Schema, ty: TypeRef, new: &Value, old: &Value) -> bool {
    match (schema.shape(ty), new, old) {
        (TypeKind::Struct(shape), Value::Object(new), Value::Object(old)) => {
            new.keys().chain(old.keys().filter(|key| !new.contains_key(*key))).all(|key| {
                let Some(field) = shape.field(key) else { return true };
                match (new.get(key).filter(|v| !v.is_null()), old.get(key).filter(|v| !v.is_null())) {
                    (Some(new), Some(old)) => same_pointers(schema, field.ty, new, old),
                    (None, None) => true,
                    _ => !field.pointer,
                }
            })
        }
        (TypeKind::List(list), Value::Array(new), Value::Array(old)) => {
            new.iter().zip(old).all(|(new, old)| same_pointers(schema, list.items, new, old))
        }
        // A key with an empty value is not a key that is missing.
        (TypeKind::Map(_), Value::Object(new), Value::Object(old)) => new.keys().eq(old.keys()),
        _ => true,
    }
}

fn is_writable_on_status(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata" | "status")
}

/// Empties the status of a new object; a missing status remains missing.
pub(super) fn drop_status(object: &mut Value) {
    if let Some(map) = object.as_object_mut()
        && map.contains_key("status")
    {
        map.insert("status", Value::Object(Map::new()));
    }
}
