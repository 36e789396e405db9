//! Removes fields that a manager applied before and now leaves out, unless another manager owns them. Follows `prune`
//! in `merge/update.go` and `typed/remove.go` of `sigs.k8s.io/structured-merge-diff/v6`.

use super::super::super::managedfields::{
    FieldSet, ManagedEntries, OwnershipError, VersionedObject, Versions, is_member, list_item_path_element,
};
use super::super::super::schema::{ElementRelationship, ListType, Schema, TypeKind, TypeRef};
use super::fieldset;
use crate::json::{Map, Value};

/// Prunes `merged`. `last` is the manager's set before this apply, with its version; `entries` has its new set.
///
/// # Errors
/// An object cannot be converted to the version of another manager.
pub(super) fn prune<'v>(
    versions: &Versions<'v>,
    merged: VersionedObject<'v>,
    (last, last_version): (&FieldSet, &str),
    entries: &ManagedEntries,
) -> Result<Value, OwnershipError> {
    let Some(start) = versions.convert(&merged, last_version, "merged object to last applied version")? else {
        return Ok(merged.object);
    };
    let last = ensure_named_fields_are_members(start.schema(), last);
    let pruned = start.with(remove(start.schema(), &start.object, &last));
    let pruned = restore_owned(versions, start.clone(), pruned, entries, last_version)?;
    let Some(pruned) = versions.convert(&pruned, last_version, "pruned object to last applied version")? else {
        return Ok(merged.object);
    };
    // Restores fields that this manager never applied but that were removed with their container.
    let schema = start.schema();
    let mut gone = members(&start);
    gone.difference(&members(&pruned));
    let result = start.with(remove(schema, &start.object, &gone.intersection(&last)));
    let result = versions.convert(&result, versions.own, "pruned object to applied version")?;
    Ok(result.unwrap_or(merged).object)
}

/// Restores the items that a manager owns. The fields of the version that was applied last come first: conversions to
/// the others may need them.
fn restore_owned<'v>(
    versions: &Versions<'v>,
    mut merged: VersionedObject<'v>,
    mut pruned: VersionedObject<'v>,
    entries: &ManagedEntries,
    first: &str,
) -> Result<VersionedObject<'v>, OwnershipError> {
    let mut owned: Vec<(&str, FieldSet)> = Vec::new();
    for entry in entries.iter() {
        match owned.iter_mut().find(|(version, _)| *version == entry.api_version) {
            Some((_, set)) => set.union(entry.set.clone()),
            None => owned.push((&entry.api_version, entry.set.clone())),
        }
    }
    owned.sort_by_key(|(version, _)| *version != first);
    for (version, managed) in owned {
        let Some(all) = versions.convert(&merged, version, "merged object")? else { continue };
        merged = all;
        let Some(rest) = versions.convert(&pruned, version, "pruned object")? else { continue };
        let schema = merged.schema();
        let mut kept = members(&rest);
        kept.union(ensure_named_fields_are_members(schema, &managed));
        let mut unwanted = members(&merged);
        unwanted.difference(&kept);
        pruned = merged.with(remove(schema, &merged.object, &unwanted));
    }
    Ok(pruned)
}

/// Returns the fields of an object, with all declared fields on the way to them.
fn members(object: &VersionedObject<'_>) -> FieldSet {
    let schema = object.schema();
    ensure_named_fields_are_members(schema, &fieldset::to_field_set(schema, &object.object))
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
