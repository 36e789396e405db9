//! Strategic merge patch: a partial object with directives, merged by the kind's merge keys. Follows
//! `staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go` of Kubernetes 1.36.
//!
//! | directive | meaning |
//! | --- | --- |
//! | `$patch: replace` in an object | the object is replaced by the patch |
//! | `$patch: delete` in an object | the object is emptied |
//! | `$patch: delete` in a list item | the item with the same merge key is removed |
//! | `$patch: replace` in a list item | the list is replaced by the patch's other items |
//! | `$retainKeys: […]` | other keys of the object are removed |
//! | `$deleteFromPrimitiveList/x: […]` | these values are removed from the list `x` |
//! | `$setElementOrder/x: […]` | the order of the list `x`; items not in it stay near their neighbours |

use super::super::schema::{FieldValidation, PatchStrategy, Schema, TypeKind, TypeRef};
use super::super::status::Status;
use super::decode::decode_object;
use super::go_text::{go_text, go_type};
use crate::json::{Key, Map, Value};
#[cfg(feature = "controllers")]
use crate::json::{
    fields::{array_field, str_field},
    json,
};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Decodes the body of a strategic merge patch; returns complaints about duplicate fields, and the patch.
///
/// # Errors
/// 400 if it is not a JSON object.
pub(crate) fn decode(body: &[u8], validation: FieldValidation) -> Result<(Vec<String>, Map), Status> {
    let (strict, patch) = decode_object(body).map_err(|error| Status::bad_request(error.to_string()))?;
    let strict = if validation == FieldValidation::Ignore { Vec::new() } else { strict };
    Ok((strict, patch.unwrap_or_default()))
}

/// Merges `patch` into `original`, an object of the schema's root type. Unknown fields of the patch stay in the result;
/// decoding drops them.
///
/// # Errors
/// 400 for malformed directives, 500 for contents that contradict the type, as kube-apiserver answers.
pub(crate) fn merge(schema: &Schema, original: Value, patch: Map) -> Result<Value, Status> {
    let original = match original {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    merge_map(Some(MergeCursor { schema, ty: schema.root() }), original, patch).map(Value::Object)
}

/// A position in the type tree.
#[derive(Clone, Copy)]
struct MergeCursor<'a> {
    schema: &'a Schema,
    ty: TypeRef,
}

impl<'a> MergeCursor<'a> {
    /// Returns the type and patch strategy of a field that holds an object or a list.
    fn field(self, name: &str) -> Result<(TypeRef, &'a PatchStrategy), Status> {
        match self.schema.shape(self.ty) {
            TypeKind::Struct(shape) => shape.field(name).map(|field| (field.ty, &field.patch)).ok_or_else(|| {
                let go = &*self.schema.get(self.ty).go;
                let go = go.rsplit_once('.').map_or(go, |(_, name)| name);
                failed(format!("unable to find api field in struct {go} for the json field {name:?}"))
            }),
            _ if self.schema.is_raw(self.ty) => {
                Err(failed(format!("unable to find api field in struct RawExtension for the json field {name:?}")))
            }
            shape => {
                let kind = match shape {
                    TypeKind::Map(_) => "map",
                    TypeKind::List(_) => "slice",
                    _ => "interface",
                };
                Err(failed(format!("merging an object in json but data type is not struct, instead is: {kind}")))
            }
        }
    }
}

fn failed(message: impl Into<String>) -> Status {
    Status::failure(500, "", message)
}

fn bad_type(expected: &str, found: &Value) -> Status {
    failed(format!("expected a {expected}, but received a {}", go_type(found)))
}

fn no_merge_key(item: &Map, key: &str) -> Status {
    let item = go_text(&Value::Object(item.clone()));
    failed(format!("map: {item} does not contain declared merge key: {key}"))
}

fn unknown_directive(directive: &Value, item: &Map) -> Status {
    let item = go_text(&Value::Object(item.clone()));
    failed(format!("unknown patch type: {} in map: {item}", go_text(directive)))
}

fn merge_map(place: Option<MergeCursor<'_>>, mut original: Map, mut patch: Map) -> Result<Map, Status> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    if patch.keys().any(|k| k.starts_with(ELEMENT_ORDER)) {
        merge_ordered_lists(place, &mut original, &mut patch)?;
    }
    for (key, value) in patch {
        merge_field(place, &mut original, key, value)?;
    }
    Ok(original)
}

fn merge_field(place: Option<MergeCursor<'_>>, original: &mut Map, key: Key, value: Value) -> Result<(), Status> {
    let deletes = key.starts_with(DELETE_FROM);
    let key = if deletes {
        match key.split_once('/') {
            Some((DELETE_FROM, rest)) => rest.into(),
            _ => return Err(Status::bad_request("invalid patch format of primitive list")),
        }
    } else {
        key
    };
    if value.is_null() {
        original.remove(&key);
        return Ok(());
    }
    let lookup = || match place {
        Some(place) => place.field(&key).map(|(ty, strategy)| (Some(MergeCursor { ty, ..place }), Some(strategy))),
        None => Ok((None, None)),
    };
    match (original.get_mut(&key), value) {
        (Some(Value::Object(current)), Value::Object(patch)) => {
            let (place, strategy) = lookup()?;
            let current = std::mem::take(current);
            let merged = if strategy.is_some_and(|s| s.replace) { patch } else { merge_map(place, current, patch)? };
            original.insert(key, Value::Object(merged));
        }
        (Some(Value::Array(current)), Value::Array(patch)) => {
            let (place, strategy) = lookup()?;
            let current = std::mem::take(current);
            let merged = merge_lists(item_cursor(place), strategy, current, patch, deletes)?;
            original.insert(key, Value::Array(merged));
        }
        (_, _) if deletes => {}
        (_, mut value) => {
            discard_nulls(&mut value);
            if remove_directives(&mut value) {
                original.insert(key, value);
            } else {
                original.remove(&key);
            }
        }
    }
    Ok(())
}

/// Returns the type of a list's items.
fn item_cursor(place: Option<MergeCursor<'_>>) -> Option<MergeCursor<'_>> {
    let place = place?;
    match place.schema.shape(place.ty) {
        TypeKind::List(list) => Some(MergeCursor { ty: list.items, ..place }),
        _ => None,
    }
}

/// Applies `$retainKeys`: removes all other keys from the original.
fn retain_keys(original: &mut Map, patch: &mut Map) -> Result<(), Status> {
    let malformed = || Status::bad_request("invalid patch format of retainKeys");
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else { return Err(malformed()) };
    let named = |key: &str| retained.iter().any(|r| r.as_str() == Some(key));
    for (key, value) in patch.iter() {
        let exempt = value.is_null() || key.starts_with(DELETE_FROM) || key.starts_with(ELEMENT_ORDER);
        if !exempt && !named(key) {
            return Err(malformed());
        }
    }
    original.retain(|key, _| named(key));
    Ok(())
}

/// Merges the lists for which the patch has `$setElementOrder`, orders them, and removes them from the patch.
fn merge_ordered_lists(place: Option<MergeCursor<'_>>, original: &mut Map, patch: &mut Map) -> Result<(), Status> {
    let directives: Vec<Key> = patch.keys().filter(|k| k.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            Some(other) => return Err(bad_type("[]interface {}", &other)),
            None => continue,
        };
        let Some((ELEMENT_ORDER, key)) = directive.split_once('/') else {
            return Err(Status::bad_request("invalid patch format of setElementOrder list"));
        };
        for side in [original.get(key), patch.get(key)].into_iter().flatten() {
            if !side.is_array() {
                return Err(bad_type("[]interface {}", side));
            }
        }
        let (place, strategy) = match place {
            Some(place) => {
                let (ty, strategy) = place.field(key)?;
                (item_cursor(Some(MergeCursor { ty, ..place })), Some(strategy))
            }
            None => (None, None),
        };
        let list = |value: Option<Value>| match value {
            Some(Value::Array(items)) => Some(items),
            _ => None,
        };
        let changed = list(patch.remove(key));
        let current = list(original.get(key).cloned());
        let merge_key = strategy.and_then(|s| s.merge_key.as_deref());
        check_order(changed.as_deref().unwrap_or_default(), &order, merge_key)?;
        let before = current.clone().unwrap_or_default();
        let merged = match (current, changed) {
            (None, None) => continue,
            (Some(current), None) => current,
            (None, Some(changed)) => {
                let mut changed = Value::Array(changed);
                remove_directives(&mut changed);
                list(Some(changed)).unwrap_or_default()
            }
            (Some(current), Some(changed)) => merge_lists(place, strategy, current, changed, false)?,
        };
        let sorted =
            if merged.is_empty() { merged } else { sort_by_element_order(merged, &order, &before, merge_key)? };
        original.insert(key.to_owned(), Value::Array(sorted));
    }
    Ok(())
}

/// Checks that the patch's items are in the order that the patch sets.
fn check_order(changed: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), Status> {
    if changed.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut ordered = order.iter();
    for item in changed {
        if item.get(DIRECTIVE).is_some() {
            continue;
        }
        let mut found = false;
        for wanted in ordered.by_ref() {
            if same_item(item, wanted, merge_key)? {
                found = true;
                break;
            }
        }
        if !found {
            let changed = go_text(&Value::from(changed));
            let order = go_text(&Value::from(order));
            return Err(failed(format!(
                "The order in patch list:\n{changed}\n doesn't match {ELEMENT_ORDER} list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

fn same_item(left: &Value, right: &Value, merge_key: Option<&str>) -> Result<bool, Status> {
    match merge_key {
        None => Ok(left == right),
        Some(key) => Ok(key_of(left, key)? == key_of(right, key)?),
    }
}

fn key_of<'v>(item: &'v Value, key: &str) -> Result<&'v Value, Status> {
    let Value::Object(map) = item else { return Err(bad_type("map[string]interface {}", item)) };
    map.get(key).ok_or_else(|| no_merge_key(map, key))
}

/// Looks for the item of an order that has this value of the merge key: `findMapInSliceBasedOnKeyValue`.
fn find_named(order: &[Value], key: &str, wanted: &Value) -> Result<(), Status> {
    for (at, item) in order.iter().enumerate() {
        let Value::Object(map) = item else { return Err(failed(format!("value for key {at} is not a map"))) };
        if map.get(key) == Some(wanted) {
            break;
        }
    }
    Ok(())
}

fn merge_lists(
    place: Option<MergeCursor<'_>>,
    strategy: Option<&PatchStrategy>,
    current: Vec<Value>,
    patch: Vec<Value>,
    deletes: bool,
) -> Result<Vec<Value>, Status> {
    let merges = strategy.is_some_and(|s| s.merge);
    if !merges && !deletes {
        return Ok(patch);
    }
    if current.is_empty() && patch.is_empty() {
        return Ok(current);
    }
    let of_maps = check_items(&current, &patch)?;
    if !of_maps {
        if deletes {
            return Ok(current.into_iter().filter(|v| !patch.contains(v)).collect());
        }
        let before = current.clone();
        let mut merged: Vec<Value> = Vec::with_capacity(current.len() + patch.len());
        for value in current.iter().chain(&patch) {
            if !merged.contains(value) {
                merged.push(value.clone());
            }
        }
        return sort_by_element_order(merged, &patch, &before, None);
    }
    let Some(key) = strategy.and_then(|s| s.merge_key.as_deref()) else {
        return Err(failed("cannot merge lists without merge key for struct"));
    };
    let MergedList { before, merged, order } = merge_items(place, key, current, patch)?;
    sort_by_element_order(merged, &order, &before, Some(key))
}

/// Returns true if the lists hold objects. All items must be of one kind.
fn check_items(current: &[Value], patch: &[Value]) -> Result<bool, Status> {
    let mut all = current.iter().chain(patch);
    let Some(first) = all.next() else { return Ok(false) };
    if first.is_array() {
        return Err(Status::failure(422, "Invalid", "lists of lists are not supported"));
    }
    let kind = go_type(first);
    if all.any(|v| go_type(v) != kind) {
        let current = go_text(&Value::from(current));
        let patch = go_text(&Value::from(patch));
        return Err(failed(format!("list element types are not identical: [{current} {patch}]")));
    }
    Ok(first.is_object())
}

/// The result of merging two lists of objects.
struct MergedList {
    /// The original without the items that the patch deletes.
    before: Vec<Value>,
    /// Items of both lists.
    merged: Vec<Value>,
    /// Items of the patch without directives.
    order: Vec<Value>,
}

/// Merges lists of objects by key.
fn merge_items(
    place: Option<MergeCursor<'_>>,
    key: &str,
    mut current: Vec<Value>,
    patch: Vec<Value>,
) -> Result<MergedList, Status> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replaces = false;
    for item in patch {
        let Value::Object(map) = &item else { continue };
        match map.get(DIRECTIVE) {
            None => plain.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    let gone = key_of(&item, key)?;
                    current.retain(|c| c.get(key) != Some(gone));
                }
                Some("replace") => replaces = true,
                Some("merge") => return Err(failed("merging lists cannot yet be specified in the patch")),
                _ => return Err(unknown_directive(directive, map)),
            },
        }
    }
    if replaces {
        return Ok(MergedList { before: plain.clone(), merged: plain, order: Vec::new() });
    }
    let before = current.clone();
    for item in &plain {
        let wanted = key_of(item, key)?;
        match current.iter_mut().find(|c| c.get(key) == Some(wanted)) {
            Some(found) => {
                if let (Value::Object(found), Value::Object(item)) = (found, item) {
                    let merged = merge_map(place, std::mem::take(found), item.clone())?;
                    *found = merged;
                }
            }
            None => current.push(item.clone()),
        }
    }
    Ok(MergedList { before, merged: current, order: plain })
}

/// Puts the items named by `order` into that order, and inserts the others by their position in `before`.
fn sort_by_element_order(
    items: Vec<Value>,
    order: &[Value],
    before: &[Value],
    merge_key: Option<&str>,
) -> Result<Vec<Value>, Status> {
    let place = |list: &[Value], item: &Value| {
        list.iter().position(|other| match merge_key {
            None => other == item,
            Some(key) => other.get(key) == item.get(key),
        })
    };
    let mut named = Vec::new();
    let mut others = Vec::new();
    for item in items {
        if let Some(key) = merge_key {
            find_named(order, key, key_of(&item, key)?)?;
        }
        if place(order, &item).is_some() { named.push(item) } else { others.push(item) }
    }
    if let Some(key) = merge_key {
        order.iter().chain(before).try_for_each(|item| key_of(item, key).map(drop))?;
    }
    named.sort_by_key(|item| place(order, item));
    others.sort_by_key(|item| place(before, item).map_or(-1, |i| i64::try_from(i).unwrap_or(i64::MAX)));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return Ok(out),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(item)) => {
                matches!((place(before, other), place(before, item)), (Some(l), Some(r)) if l < r)
            }
        };
        out.extend(if other_first { others.next() } else { named.next() });
    }
}

/// Removes nulls from a value that is new to the document.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Removes directives from a value that is new to the document; false if the whole value is one.
fn remove_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(map) => {
            if map.contains_key(DIRECTIVE) {
                return false;
            }
            map.retain(|_, v| remove_directives(v));
        }
        Value::Array(items) => items.retain_mut(remove_directives),
        _ => {}
    }
    true
}

/// Returns the items of a patch that remove conditions of these types from an object's status.
#[cfg(feature = "controllers")]
pub(crate) fn without_conditions(object: &Value, types: &[&str]) -> Vec<Value> {
    let known = array_field(&object["status"], "conditions").iter().map(|condition| str_field(condition, "type"));
    known.filter(|name| types.contains(name)).map(|name| json!({"$patch": "delete", "type": name})).collect()
}
