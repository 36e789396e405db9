//! The functions that the macro `json` calls. Pure.

use serde::Serialize;

use super::map::Map;
use super::value::Value;

/// Returns any value as JSON.
pub(crate) fn value<T: Serialize + ?Sized>(value: &T) -> Value {
    serde_json::to_value(value).expect("a value that JSON has").into()
}

/// Sets a member of an object.
pub(crate) fn put<K: AsRef<str> + ?Sized, T: Serialize + ?Sized>(members: &mut Map, key: &K, member: &T) {
    put_value(members, key, value(member));
}

/// Sets a member of an object to a list, an object or null.
pub(crate) fn put_value<K: AsRef<str> + ?Sized>(members: &mut Map, key: &K, member: Value) {
    members.insert(key.as_ref(), member);
}

/// Appends an item to a list.
pub(crate) fn push<T: Serialize + ?Sized>(items: &mut Vec<Value>, item: &T) {
    push_value(items, value(item));
}

/// Appends a list, an object or null to a list.
pub(crate) fn push_value(items: &mut Vec<Value>, item: Value) {
    items.push(item);
}
