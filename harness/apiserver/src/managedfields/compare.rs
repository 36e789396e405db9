//! Compares two objects of one type by field. Follows `typed/compare.go` of `sigs.k8s.io/structured-merge-diff/v6`.

use std::collections::BTreeMap;

use super::super::schema::{ElementRelationship, FieldCursor, ListType, Schema, StructType, TypeKind, TypeRef};
use super::path_element::{PathElementError, index_key};
use super::set::{FieldSet, build_node};
use crate::json::{Key, Map, Value};

/// The fields in which the right object differs from the left.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

impl Comparison {
    /// Ignores the fields that an endpoint does not change.
    pub(crate) fn exclude(&mut self, reset: Option<&FieldSet>) {
        let Some(reset) = reset else { return };
        self.removed.recursive_difference(reset);
        self.modified.recursive_difference(reset);
        self.added.recursive_difference(reset);
    }
}

/// Compares two objects of the schema's root type.
///
/// # Errors
/// Items of a list cannot be identified.
pub(crate) fn compare(schema: &Schema, left: &Value, right: &Value) -> Result<Comparison, PathElementError> {
    let mut root = NodeDifference::default();
    walk(schema, schema.root(), Some(left), Some(right), &mut root)?;
    let [removed, modified, added] = root.children.map(FieldSet::from_map);
    Ok(Comparison { removed, modified, added })
}

const REMOVED: usize = 0;
const MODIFIED: usize = 1;
const ADDED: usize = 2;

/// The differences at a node and below it, indexed by `REMOVED`, `MODIFIED` and `ADDED`.
#[derive(Default)]
struct NodeDifference {
    member: [bool; 3],
    children: [Map; 3],
}

impl NodeDifference {
    /// Adds the differences of a child.
    fn merge_child(&mut self, key: Key, child: Self) {
        let members = child.member;
        for ((ours, member), children) in self.children.iter_mut().zip(members).zip(child.children) {
            if let Some(value) = build_node(member, children) {
                ours.insert(key.clone(), value);
            }
        }
    }
}

/// Returns true if two values of a type other than a list are compared member by member.
fn is_granular(schema: &Schema, ty: TypeRef, sides: [Option<&Value>; 2]) -> bool {
    let atomic = match schema.shape(ty) {
        TypeKind::Scalar(_) | TypeKind::List(_) => true,
        TypeKind::Struct(shape) => shape.atomic,
        TypeKind::Map(shape) => shape.atomic,
        TypeKind::Any | TypeKind::SchemaForm(_) => schema.is_raw(ty),
    };
    let fits = |v: Option<&Value>| v.is_none_or(|v| matches!(v, Value::Object(_) | Value::Null));
    let filled = |v: Option<&Value>| v.and_then(Value::as_object).is_some_and(|m| !m.is_empty());
    !atomic && sides.into_iter().all(fits) && sides.into_iter().any(filled)
}

/// Returns the fields below a value that is added or removed as a whole. All of them are members of the set.
fn whole(schema: &Schema, ty: TypeRef, value: &Value) -> Result<Map, PathElementError> {
    // With room for one more, the mark of a member with children.
    let mut parts = Map::new();
    match (schema.shape(ty), value) {
        (TypeKind::List(list), Value::Array(items)) if list.topology != ElementRelationship::Atomic => {
            let items = index_key(schema, list, items)?;
            parts = Map::with_capacity(items.len() + 1);
            let mut by_key: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
            for (key, item) in &items {
                by_key.entry(key).or_default().push(item);
            }
            for (key, same) in by_key {
                // Items with the same key are owned together, as if atomic.
                let below = if let [item] = *same { whole(schema, list.items, item)? } else { Map::new() };
                parts.insert(key, member(below));
            }
        }
        (_, Value::Object(map)) if is_granular(schema, ty, [Some(value), None]) => {
            let mut declared = struct_of(schema, ty).map(FieldCursor::new);
            parts = Map::with_capacity(map.len() + 1);
            for (name, value) in map {
                if let Some((element, ty)) = child(schema, ty, declared.as_mut(), name) {
                    parts.insert(element, member(whole(schema, ty, value)?));
                }
            }
        }
        _ => {}
    }
    Ok(parts)
}

/// Returns a member of a field set, with the fields below it.
fn member(below: Map) -> Value {
    build_node(true, below).unwrap_or_default()
}

fn struct_of(schema: &Schema, ty: TypeRef) -> Option<&StructType> {
    match schema.shape(ty) {
        TypeKind::Struct(shape) => Some(shape),
        _ => None,
    }
}

/// Returns the path element of an object's member, and the member's type; `None` if it is not declared.
fn child(schema: &Schema, ty: TypeRef, declared: Option<&mut FieldCursor<'_>>, name: &str) -> Option<(Key, TypeRef)> {
    match declared.and_then(|declared| declared.field(name)) {
        Some(field) => Some((field.element.clone(), field.ty)),
        None => schema.field_type(ty, name).map(|ty| (["f:", name].concat().into(), ty)),
    }
}

fn walk(
    schema: &Schema,
    ty: TypeRef,
    left: Option<&Value>,
    right: Option<&Value>,
    out: &mut NodeDifference,
) -> Result<(), PathElementError> {
    let (side, value) = match (left, right) {
        (Some(left), Some(right)) => return walk_both(schema, ty, left, right, out),
        (None, Some(value)) => (ADDED, value),
        (Some(value), None) => (REMOVED, value),
        (None, None) => return Ok(()),
    };
    out.member[side] = true;
    out.children[side] = whole(schema, ty, value)?;
    Ok(())
}

fn walk_both(
    schema: &Schema,
    ty: TypeRef,
    left: &Value,
    right: &Value,
    out: &mut NodeDifference,
) -> Result<(), PathElementError> {
    if let TypeKind::List(list) = schema.shape(ty) {
        return walk_list(schema, list, left, right, out);
    }
    if !is_granular(schema, ty, [Some(left), Some(right)]) {
        out.member[MODIFIED] |= left != right;
        if !matches!(schema.shape(ty), TypeKind::Any) || schema.is_raw(ty) {
            return Ok(());
        }
        // A free-form value may change from an object to something else: then its fields are removed.
        let filled = |v: &Value| v.as_object().is_some_and(|m| !m.is_empty());
        if !(filled(left) || filled(right)) {
            return Ok(());
        }
    }
    let mut declared = struct_of(schema, ty).map(FieldCursor::new);
    let left_map = left.as_object();
    let right_map = right.as_object();
    let mut left_items = left_map.into_iter().flatten().peekable();
    let mut right_items = right_map.into_iter().flatten().peekable();
    loop {
        let order = match (left_items.peek(), right_items.peek()) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((l, _)), Some((r, _))) => l.cmp(r),
        };
        let left_item = if order.is_le() { left_items.next() } else { None };
        let right_item = if order.is_ge() { right_items.next() } else { None };
        let (Some((name, _)), (l, r)) = (left_item.or(right_item), (left_item.map(|i| i.1), right_item.map(|i| i.1)))
        else {
            break;
        };
        let Some((element, child_type)) = child(schema, ty, declared.as_mut(), name) else { continue };
        if ty == schema.root() && l == r {
            // Most writes leave whole parts unchanged, a status update the spec; comparing values is cheaper than
            // walking types.
            continue;
        }
        let mut child = NodeDifference::default();
        walk(schema, child_type, l, r, &mut child)?;
        if child.member != [false; 3] || child.children.iter().any(|c| !c.is_empty()) {
            out.merge_child(element, child);
        }
    }
    Ok(())
}

fn walk_list(
    schema: &Schema,
    list: &ListType,
    left: &Value,
    right: &Value,
    out: &mut NodeDifference,
) -> Result<(), PathElementError> {
    let left_items = left.as_array().map(Vec::as_slice).unwrap_or_default();
    let right_items = right.as_array().map(Vec::as_slice).unwrap_or_default();
    if list.topology == ElementRelationship::Atomic || (left_items.is_empty() && right_items.is_empty()) {
        out.member[MODIFIED] |= left != right;
        return Ok(());
    }
    if left == right {
        return Ok(());
    }
    let left_keys = index_key(schema, list, left_items)?;
    let right_keys = index_key(schema, list, right_items)?;
    let mut by_key: BTreeMap<&str, [Vec<&Value>; 2]> = BTreeMap::new();
    for (side, keys) in [&left_keys, &right_keys].into_iter().enumerate() {
        for (key, item) in keys {
            by_key.entry(key).or_default()[side].push(item);
        }
    }
    for (key, [lefts, rights]) in by_key {
        let mut child = NodeDifference::default();
        compare_items(schema, list, &lefts, &rights, &mut child)?;
        if child.member != [false; 3] || child.children.iter().any(|c| !c.is_empty()) {
            out.merge_child(key.into(), child);
        }
    }
    Ok(())
}

/// Compares items with the same key: normally one on each side; several are owned together, as if atomic.
fn compare_items(
    schema: &Schema,
    list: &ListType,
    left: &[&Value],
    right: &[&Value],
    out: &mut NodeDifference,
) -> Result<(), PathElementError> {
    match (left.len(), right.len()) {
        (0 | 1, 0 | 1) => walk(schema, list.items, left.first().copied(), right.first().copied(), out)?,
        (2.., 2..) => out.member[MODIFIED] |= left != right,
        (2.., _) => {
            if let Some(right) = right.first() {
                walk(schema, list.items, None, Some(right), out)?;
            }
            out.member[REMOVED] = true;
        }
        _ => {
            if let Some(left) = left.first() {
                walk(schema, list.items, Some(left), None, out)?;
            }
            out.member[ADDED] = true;
        }
    }
    Ok(())
}
