//! Which fields differ between two objects of one type.

use super::super::schema::{List, ListTopology, Schema, Shape, TypeRef};
use super::element::index_key;
use super::set::{FieldSet, node};
use crate::apiserver::json::{Key, Map, Value};

/// The fields in which the right object differs from the left.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

impl Comparison {
    /// Forgets the fields that an endpoint does not change.
    pub(crate) fn exclude(&mut self, reset: &[&[&str]]) {
        if reset.is_empty() {
            return;
        }
        let reset = FieldSet::of_fields(reset);
        self.removed.recursive_difference(&reset);
        self.modified.recursive_difference(&reset);
        self.added.recursive_difference(&reset);
    }
}

/// Compares two objects of the schema's root type.
///
/// # Errors
/// If items of a list cannot be told apart.
pub(crate) fn compare(schema: &Schema, left: &Value, right: &Value) -> Result<Comparison, String> {
    let mut root = Difference::default();
    walk(schema, schema.root(), Some(left), Some(right), &mut root)?;
    let [removed, modified, added] = root.children.map(FieldSet::from_map);
    Ok(Comparison { removed, modified, added })
}

const REMOVED: usize = 0;
const MODIFIED: usize = 1;
const ADDED: usize = 2;

/// What differs at a node and below it, for each of removed, modified, added.
#[derive(Default)]
struct Difference {
    member: [bool; 3],
    children: [Map; 3],
}

impl Difference {
    /// Takes over what differs at a child.
    fn absorb(&mut self, key: Key, child: Self) {
        let members = child.member;
        for ((ours, member), children) in self.children.iter_mut().zip(members).zip(child.children) {
            if let Some(value) = node(member, children) {
                ours.insert(key.clone(), value);
            }
        }
    }

    fn leaf(&mut self, left: Option<&Value>, right: Option<&Value>) {
        match (left, right) {
            (None, _) => self.member[ADDED] = true,
            (_, None) => self.member[REMOVED] = true,
            (Some(left), Some(right)) => self.member[MODIFIED] |= left != right,
        }
    }
}

/// Whether two values of a type that is no list are compared member by member.
pub(super) fn is_granular(schema: &Schema, ty: TypeRef, sides: [Option<&Value>; 2]) -> bool {
    let atomic = match schema.shape(ty) {
        Shape::Scalar(_) | Shape::List(_) => true,
        Shape::Struct(shape) => shape.atomic,
        Shape::Map(shape) => shape.atomic,
        Shape::Any => schema.is_raw(ty),
    };
    let fits = |v: Option<&Value>| v.is_none_or(|v| matches!(v, Value::Object(_) | Value::Null));
    let filled = |v: Option<&Value>| v.and_then(Value::as_object).is_some_and(|m| !m.is_empty());
    !atomic && sides.into_iter().all(fits) && sides.into_iter().any(filled)
}

fn walk(
    schema: &Schema,
    ty: TypeRef,
    left: Option<&Value>,
    right: Option<&Value>,
    out: &mut Difference,
) -> Result<(), String> {
    if let Shape::List(list) = schema.shape(ty) {
        return walk_list(schema, list, left, right, out);
    }
    if !is_granular(schema, ty, [left, right]) {
        out.leaf(left, right);
        if !matches!(schema.shape(ty), Shape::Any) || schema.is_raw(ty) {
            return Ok(());
        }
        // Free-form values may turn from an object into something else: what was in the object goes, too.
        let filled = |v: Option<&Value>| v.and_then(Value::as_object).is_some_and(|m| !m.is_empty());
        if left.is_none() || right.is_none() || !(filled(left) || filled(right)) {
            return Ok(());
        }
    }
    let shape = match schema.shape(ty) {
        Shape::Struct(shape) => Some(shape),
        _ => None,
    };
    let (left_map, right_map) = (left.and_then(Value::as_object), right.and_then(Value::as_object));
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
        let field = shape.and_then(|shape| shape.field(name));
        let Some(child_type) = field.map(|field| field.ty).or_else(|| schema.field_type(ty, name)) else { continue };
        if ty == schema.root() && l == r {
            // Most writes leave whole parts alone, a status update the spec: comparing values is cheaper than walking types.
            continue;
        }
        let mut child = Difference::default();
        walk(schema, child_type, l, r, &mut child)?;
        if child.member != [false; 3] || child.children.iter().any(|c| !c.is_empty()) {
            let element = field.map_or_else(|| ["f:", name].concat().into(), |field| field.element.clone());
            out.absorb(element, child);
        }
    }
    mark_container(left, right, out);
    Ok(())
}

/// A container that appears or goes is itself added or removed.
fn mark_container(left: Option<&Value>, right: Option<&Value>, out: &mut Difference) {
    if left.is_none() {
        out.member[ADDED] = true;
    } else if right.is_none() {
        out.member[REMOVED] = true;
    }
}

fn walk_list(
    schema: &Schema,
    list: &List,
    left: Option<&Value>,
    right: Option<&Value>,
    out: &mut Difference,
) -> Result<(), String> {
    let left_items = left.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let right_items = right.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if list.topology == ListTopology::Atomic || (left_items.is_empty() && right_items.is_empty()) {
        out.leaf(left, right);
        return Ok(());
    }
    if left == right {
        return Ok(());
    }
    let left_keys = index_key(schema, list, left_items)?;
    let right_keys = index_key(schema, list, right_items)?;
    let mut seen: Vec<&str> = Vec::with_capacity(left_keys.len().max(right_keys.len()));
    for (key, _) in left_keys.iter().chain(&right_keys) {
        if seen.contains(&key.as_str()) {
            continue;
        }
        seen.push(key);
        let lefts = matching(&left_keys, key);
        let rights = matching(&right_keys, key);
        let mut child = Difference::default();
        compare_items(schema, list, &lefts, &rights, &mut child)?;
        if child.member != [false; 3] || child.children.iter().any(|c| !c.is_empty()) {
            out.absorb(key.as_str().into(), child);
        }
    }
    mark_container(left, right, out);
    Ok(())
}

fn matching<'v>(items: &[(String, &'v Value)], key: &str) -> Vec<&'v Value> {
    items.iter().filter(|(k, _)| k == key).map(|(_, v)| *v).collect()
}

/// Items with one key: normally one on each side; more are owned together, as if atomic.
fn compare_items(
    schema: &Schema,
    list: &List,
    left: &[&Value],
    right: &[&Value],
    out: &mut Difference,
) -> Result<(), String> {
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
