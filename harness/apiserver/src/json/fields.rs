//! Access to the members of JSON objects: reading, defaults, and Go's notion of empty values. PURE.

use crate::json::json;
use crate::json::map::Map;
use crate::json::value::Value;

/// Returns the string member `key`; empty if it is missing or not a string.
pub(crate) fn str_field<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the member `key` unless it is missing or null.
pub(crate) fn non_null<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|value| !value.is_null())
}

/// Returns `spec`; null if it is missing.
pub(crate) fn spec_of(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

/// Returns the value at a JSON pointer. Faster than [`Value::pointer`] for pointers without escapes and list indexes.
pub(crate) fn value_at_pointer<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.contains('~') {
        return object.pointer(pointer);
    }
    let mut place = object;
    for step in pointer.split('/').skip(1) {
        place = match place {
            Value::Object(map) => map.get(step)?,
            Value::Array(_) => return object.pointer(pointer),
            _ => return None,
        };
    }
    Some(place)
}

/// Returns the object under `key`, inserting it if it is missing or null; `None` if there is a value of another type.
pub(crate) fn object_or_insert<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Map> {
    let map = value.as_object_mut()?;
    if !map.get(key).is_some_and(Value::is_object) {
        if map.get(key).is_some_and(|v| !v.is_null()) {
            return None;
        }
        map.insert(key.to_owned(), Value::Object(Map::new()));
    }
    map.get_mut(key)?.as_object_mut()
}

/// Sets a field that is missing or null.
pub(crate) fn value_default(map: &mut Map, field: &str, value: impl Into<Value>) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field.to_owned(), value.into());
    }
}

/// Sets a string field that is missing or empty.
pub(crate) fn text_default(map: &mut Map, field: &str, value: &str) {
    if is_empty_value(map.get(field)) {
        map.insert(field.to_owned(), value.into());
    }
}

/// Returns true if a field is empty for Go's `omitempty`: missing, null, "", [], {}.
pub(crate) fn is_empty_value(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(str_field)) => str_field.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(_) => false,
    }
}

/// Compares two values semantically: missing, null and empty are equal at every level.
pub(crate) fn semantic_equal(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            left.iter().all(|(k, v)| semantic_equal(Some(v), right.get(k)))
                && right.iter().all(|(k, v)| left.contains_key(k) || is_empty_value(Some(v)))
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            left.len() == right.len() && left.iter().zip(right).all(|(x, y)| semantic_equal(Some(x), Some(y)))
        }
        (Some(left), Some(right)) if !is_empty_value(Some(left)) || !is_empty_value(Some(right)) => left == right,
        (left, right) => is_empty_value(left) && is_empty_value(right),
    }
}

/// Removes numbers that are 0, which upstream's types omit.
pub(crate) fn drop_zero(map: &mut Map, fields: &[&str]) {
    for field in fields {
        if map.get(*field).and_then(Value::as_i64) == Some(0) {
            map.remove(*field);
        }
    }
}

/// Returns the items of an array field; empty if it is missing.
pub(crate) fn array_field<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn object_mut<'a>(map: &'a mut Map, field: &str) -> Option<&'a mut Map> {
    map.get_mut(field).and_then(Value::as_object_mut)
}

pub(crate) fn items_mut<'a>(map: &'a mut Map, field: &str) -> impl Iterator<Item = &'a mut Map> {
    map.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

pub(crate) fn object_or_default<'a>(map: &'a mut Map, field: &str) -> Option<&'a mut Map> {
    value_default(map, field, json!({}));
    object_mut(map, field)
}
