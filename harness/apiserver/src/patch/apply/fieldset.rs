//! The field set of an object, which its applier comes to own. Follows `typed/tofieldset.go` of
//! `sigs.k8s.io/structured-merge-diff/v6`.

use super::super::super::managedfields::{FieldSet, list_key, node};
use super::super::super::schema::{List, ListTopology, Schema, Shape, TypeRef};
use crate::json::{Map, Value};

/// Returns the fields that `value`, of the schema's root type, sets.
pub(super) fn of(schema: &Schema, value: &Value) -> FieldSet {
    FieldSet::from_map(walk(schema, schema.root(), value).1)
}

/// Returns true if the value itself is a member, and the fields below it.
fn walk(schema: &Schema, ty: TypeRef, value: &Value) -> (bool, Map) {
    match (schema.shape(ty), value) {
        (Shape::List(list), _) if list.topology == ListTopology::Atomic => (true, Map::new()),
        (Shape::List(list), Value::Array(items)) => (false, walk_list(schema, list, items)),
        (Shape::Struct(shape), _) if shape.atomic => (true, Map::new()),
        (Shape::Map(shape), _) if shape.atomic => (true, Map::new()),
        (Shape::Any, _) if schema.is_raw(ty) => (true, Map::new()),
        (Shape::Struct(_) | Shape::Map(_) | Shape::Any, Value::Object(map)) => (false, walk_object(schema, ty, map)),
        (Shape::Struct(_) | Shape::Map(_) | Shape::List(_), Value::Null) => (false, Map::new()),
        _ => (true, Map::new()),
    }
}

fn walk_object(schema: &Schema, ty: TypeRef, map: &Map) -> Map {
    let mut out = Map::new();
    for (name, value) in map {
        let Some(child) = schema.field_type(ty, name) else { continue };
        let declared = matches!(schema.shape(ty), Shape::Struct(shape) if shape.field(name).is_some());
        let (member, children) = walk(schema, child, value);
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if let Some(value) = node(member || empty || !declared, children) {
            out.insert(format!("f:{name}"), value);
        }
    }
    out
}

fn walk_list(schema: &Schema, list: &List, items: &[Value]) -> Map {
    let mut out = Map::new();
    for item in items {
        let Ok(key) = list_key(schema, list, item) else { continue };
        let children = if out.contains_key(&key) { Map::new() } else { walk(schema, list.items, item).1 };
        if let Some(value) = node(true, children) {
            // Items with the same key are owned as a whole.
            out.insert(key, value);
        }
    }
    out
}
