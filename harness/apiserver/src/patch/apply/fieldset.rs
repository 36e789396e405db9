//! The field set of an object, which its applier comes to own. Follows `typed/tofieldset.go` of
//! `sigs.k8s.io/structured-merge-diff/v6`.

use super::super::super::managedfields::{FieldSet, build_node, list_item_path_element};
use super::super::super::schema::{ElementRelationship, ListType, Schema, TypeKind, TypeRef};
use crate::json::{Map, Value};

/// Returns the fields that `value`, of the schema's root type, sets.
pub(super) fn to_field_set(schema: &Schema, value: &Value) -> FieldSet {
    FieldSet::from_map(walk(schema, schema.root(), value).1)
}

/// Returns true if the value itself is a member, and the fields below it.
fn walk(schema: &Schema, ty: TypeRef, value: &Value) -> (bool, Map) {
    match (schema.shape(ty), value) {
        (TypeKind::List(list), _) if list.topology == ElementRelationship::Atomic => (true, Map::new()),
        (TypeKind::List(list), Value::Array(items)) => (false, walk_list(schema, list, items)),
        (TypeKind::Struct(shape), _) if shape.atomic => (true, Map::new()),
        (TypeKind::Map(shape), _) if shape.atomic => (true, Map::new()),
        (TypeKind::Any, _) if schema.is_raw(ty) => (true, Map::new()),
        (TypeKind::Struct(_) | TypeKind::Map(_) | TypeKind::Any, Value::Object(map)) => {
            (false, walk_object(schema, ty, map))
        }
        (TypeKind::Struct(_) | TypeKind::Map(_) | TypeKind::List(_), Value::Null) => (false, Map::new()),
        _ => (true, Map::new()),
    }
}

fn walk_object(schema: &Schema, ty: TypeRef, map: &Map) -> Map {
    let mut out = Map::new();
    for (name, value) in map {
        let Some(child) = schema.field_type(ty, name) else { continue };
        let declared = matches!(schema.shape(ty), TypeKind::Struct(shape) if shape.field(name).is_some());
        let (member, children) = walk(schema, child, value);
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if let Some(value) = build_node(member || empty || !declared, children) {
            out.insert(format!("f:{name}"), value);
        }
    }
    out
}

fn walk_list(schema: &Schema, list: &ListType, items: &[Value]) -> Map {
    let mut out = Map::new();
    for item in items {
        let Ok(key) = list_item_path_element(schema, list, item) else { continue };
        let children = if out.contains_key(&key) { Map::new() } else { walk(schema, list.items, item).1 };
        if let Some(value) = build_node(true, children) {
            // Items with the same key are owned as a whole.
            out.insert(key, value);
        }
    }
    out
}
