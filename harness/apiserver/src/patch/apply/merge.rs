//! Merges the applied object into the live one: fields and items of both, of which the applied ones win. Follows
//! `typed/merge.go` of `sigs.k8s.io/structured-merge-diff/v6`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::managedfields::{PathElementError, index_key};
use super::super::super::schema::{ElementRelationship, ListType, Schema, TypeKind, TypeRef};
use crate::json::{Map, Value};

/// Merges two objects of the schema's root type.
///
/// # Errors
/// Items of a list cannot be identified.
pub(crate) fn merge(schema: &Schema, live: &Value, applied: &Value) -> Result<Value, PathElementError> {
    let merged = walk(schema, schema.root(), Some(live), Some(applied))?;
    Ok(merged.unwrap_or_else(|| Value::Object(Map::new())))
}

fn walk(
    schema: &Schema,
    ty: TypeRef,
    left: Option<&Value>,
    right: Option<&Value>,
) -> Result<Option<Value>, PathElementError> {
    let keep = || right.or(left).cloned();
    let granular = match schema.shape(ty) {
        TypeKind::Scalar(_) => false,
        TypeKind::Struct(shape) => !shape.atomic,
        TypeKind::Map(shape) => !shape.atomic,
        TypeKind::Any | TypeKind::SchemaForm(_) => true,
        TypeKind::List(list) => {
            return if list.topology == ElementRelationship::Atomic {
                Ok(keep())
            } else {
                walk_list(schema, list, left, right)
            };
        }
    };
    let object = |v: Option<&Value>| v.is_none_or(|v| matches!(v, Value::Object(_) | Value::Null));
    let left_map = left.and_then(Value::as_object);
    let right_map = right.and_then(Value::as_object);
    let empty = |m: Option<&Map>| m.is_none_or(Map::is_empty);
    if !granular || !object(left) || !object(right) || (empty(left_map) && empty(right_map)) {
        return Ok(keep());
    }
    let mut out = Map::new();
    for (name, value) in left_map.into_iter().flatten() {
        let other = right_map.and_then(|m| m.get(name));
        let merged = match (schema.field_type(ty, name), other) {
            (Some(child), Some(_)) => walk(schema, child, Some(value), other)?,
            (_, other) => other.or(Some(value)).cloned(),
        };
        out.extend(merged.map(|m| (name.clone(), m)));
    }
    for (name, value) in right_map.into_iter().flatten() {
        if left_map.is_none_or(|m| !m.contains_key(name)) {
            out.insert(name.clone(), value.clone());
        }
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

/// Merges the items of both lists: in the applied order, with live items near their former neighbours.
fn walk_list(
    schema: &Schema,
    list: &ListType,
    left: Option<&Value>,
    right: Option<&Value>,
) -> Result<Option<Value>, PathElementError> {
    let items = |v: Option<&'_ Value>| v.and_then(Value::as_array).cloned().unwrap_or_default();
    let left_items = items(left);
    let right_items = items(right);
    if left_items.is_empty() && right_items.is_empty() {
        return Ok(right.or(left).cloned());
    }
    let right_keys = index_key(schema, list, &right_items)?;
    let left_keys = index_key(schema, list, &left_items)?;
    let rights: BTreeSet<&str> = right_keys.iter().map(|(key, _)| key.as_str()).collect();
    // An item that occurs twice in the live list is replaced by the applied one, not merged with it.
    let mut lefts: BTreeMap<&str, Option<&Value>> = BTreeMap::new();
    for (key, item) in &left_keys {
        lefts.entry(key).and_modify(|found| *found = None).or_insert(Some(*item));
    }
    let in_left = |key: &str| lefts.contains_key(key);
    let in_right = |key: &str| rights.contains(key);
    let unique_left = |key: &str| lefts.get(key).copied().flatten();
    let mut shared = right_keys.iter().map(|(k, _)| k.as_str()).filter(|k| in_left(k)).peekable();
    let mut merged: BTreeSet<&str> = BTreeSet::new();
    let mut out = Vec::with_capacity(left_keys.len().max(right_keys.len()));
    let mut l = 0;
    let mut r = 0;
    while l < left_keys.len() || r < right_keys.len() {
        if let (Some((left_key, _)), Some((right_key, right_item))) = (left_keys.get(l), right_keys.get(r)) {
            if left_key == right_key {
                merged.insert(left_key);
                out.extend(walk(schema, list.items, unique_left(left_key), Some(right_item))?);
                l += 1;
                r += 1;
                shared.next();
                continue;
            }
            if in_right(left_key) && shared.peek().is_some_and(|next| *next != left_key) {
                l += 1;
                continue;
            }
        }
        if let Some((left_key, left_item)) = left_keys.get(l) {
            if !in_right(left_key) {
                out.push((*left_item).clone());
                l += 1;
                continue;
            }
            if merged.contains(left_key.as_str()) {
                l += 1;
            }
        }
        if let Some((right_key, right_item)) = right_keys.get(r) {
            merged.insert(right_key);
            out.extend(walk(schema, list.items, unique_left(right_key), Some(right_item))?);
            r += 1;
            if shared.peek() == Some(&right_key.as_str()) {
                shared.next();
            }
        }
    }
    Ok((!out.is_empty()).then_some(Value::Array(out)))
}
