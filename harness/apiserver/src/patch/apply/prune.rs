//! Removes fields that a manager applied before and now leaves out, unless another manager owns them. Follows `prune`
//! in `merge/update.go` and `typed/remove.go` of `sigs.k8s.io/structured-merge-diff/v6`.

use super::super::super::managedfields::{FieldSet, ManagedEntries, is_member, list_item_path_element};
use super::super::super::schema::{ElementRelationship, ListType, Schema, TypeKind, TypeRef};
use super::fieldset;
use crate::json::{Map, Value};

/// Prunes `merged`. `last` is the manager's set before this apply; `entries` has its new set.
pub(super) fn prune(schema: &Schema, merged: Value, last: &FieldSet, entries: &ManagedEntries) -> Value {
    let last = ensure_named_fields_are_members(schema, last);
    let pruned = remove(schema, &merged, &last);
    let mut managed = FieldSet::default();
    for entry in entries.iter() {
        managed.union(entry.set.clone());
    }
    // Restores items that a manager owns.
    let all = ensure_named_fields_are_members(schema, &fieldset::to_field_set(schema, &merged));
    let mut kept = ensure_named_fields_are_members(schema, &fieldset::to_field_set(schema, &pruned));
    kept.union(ensure_named_fields_are_members(schema, &managed));
    let mut unwanted = all.clone();
    unwanted.difference(&kept);
    let pruned = remove(schema, &merged, &unwanted);
    // Restores fields that this manager never applied but that were removed with their container.
    let mut gone = all;
    gone.difference(&ensure_named_fields_are_members(schema, &fieldset::to_field_set(schema, &pruned)));
    remove(schema, &merged, &gone.intersection(&last))
}

/// Adds all declared fields on the way to the set's members.
fn ensure_named_fields_are_members(schema: &Schema, set: &FieldSet) -> FieldSet {
    FieldSet::from_map(containers(schema, Some(schema.root()), set.as_map()))
}

fn containers(schema: &Schema, ty: Option<TypeRef>, map: &Map) -> Map {
    let mut out = Map::new();
    for (key, child) in map {
        let Value::Object(child) = child else { continue };
        if key == "." {
            out.insert(key.clone(), Value::Object(child.clone()));
            continue;
        }
        let name = key.strip_prefix("f:");
        let shape = ty.map(|ty| (ty, schema.shape(ty)));
        let child_type = match (shape, name) {
            (Some((ty, _)), Some(name)) => schema.field_type(ty, name),
            (Some((_, TypeKind::List(list))), None) if key.starts_with("k:") => Some(list.items),
            _ => None,
        };
        let declared = matches!((shape, name), (Some((_, TypeKind::Struct(s))), Some(name)) if s.field(name).is_some());
        let mut child = containers(schema, child_type, child);
        if declared && !child.is_empty() {
            child.insert(".", Value::Object(Map::new()));
        }
        out.insert(key.clone(), Value::Object(child));
    }
    out
}

/// Returns the value without the members of `set`.
fn remove(schema: &Schema, value: &Value, set: &FieldSet) -> Value {
    walk(schema, schema.root(), value, set.as_map()).unwrap_or_else(|| Value::Object(Map::new()))
}

fn walk(schema: &Schema, ty: TypeRef, value: &Value, set: &Map) -> Option<Value> {
    match (schema.shape(ty), value) {
        (TypeKind::List(list), Value::Array(items)) => {
            if list.topology == ElementRelationship::Atomic {
                return None;
            }
            walk_list(schema, list, items, set)
        }
        (TypeKind::Struct(shape), _) if shape.atomic => None,
        (TypeKind::Map(shape), _) if shape.atomic => None,
        (TypeKind::Struct(_) | TypeKind::Map(_) | TypeKind::Any, Value::Object(map)) => {
            walk_object(schema, ty, map, set)
        }
        (TypeKind::Struct(_) | TypeKind::Map(_) | TypeKind::List(_), _) => None,
        (_, scalar) => Some(scalar.clone()),
    }
}

/// Returns a part of the value, and whether it changed inside; `None` if it is a member of the set.
fn part(schema: &Schema, ty: Option<TypeRef>, value: &Value, node: Option<&Value>) -> Option<(Value, bool)> {
    let Some(Value::Object(node)) = node else { return Some((value.clone(), false)) };
    if is_member(node) {
        return None;
    }
    let Some(ty) = ty else { return Some((value.clone(), true)) };
    let inside = walk(schema, ty, value, node);
    // A container whose parts are removed stays, even if it becomes empty.
    let emptied = match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        _ => Value::Null,
    };
    Some((inside.unwrap_or(emptied), true))
}

fn walk_object(schema: &Schema, ty: TypeRef, map: &Map, set: &Map) -> Option<Value> {
    let mut out = Map::new();
    let mut touched = false;
    for (name, value) in map {
        let child = schema.field_type(ty, name);
        if let Some((value, changed)) = part(schema, child, value, set.get(format!("f:{name}"))) {
            touched |= changed;
            out.insert(name.clone(), value);
        }
    }
    (!out.is_empty() || touched).then_some(Value::Object(out))
}

fn walk_list(schema: &Schema, list: &ListType, items: &[Value], set: &Map) -> Option<Value> {
    let mut out = Vec::new();
    let mut touched = false;
    for item in items {
        let key = list_item_path_element(schema, list, item).unwrap_or_default();
        if let Some((item, changed)) = part(schema, Some(list.items), item, set.get(&key)) {
            touched |= changed;
            out.push(item);
        }
    }
    (!out.is_empty() || touched).then_some(Value::Array(out))
}
