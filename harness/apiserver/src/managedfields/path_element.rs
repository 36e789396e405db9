//! Identity of list items: their key fields or their value. Follows `typed/helpers.go` of
//! `sigs.k8s.io/structured-merge-diff/v6`, including its messages.

use super::super::schema::{ElementRelationship, ListType, Schema, TypeKind};
use crate::json::Value;

/// Reasons why an item of a list has no identity, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathElementError {
    #[error("invalid indexing of non-associative list")]
    Atomic,
    #[error("associative list without keys has an element that's a map type")]
    MapInSet,
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
    #[error("associative list with keys may not have a null element")]
    NullItem,
    #[error("associative list with keys may not have non-map elements")]
    NotMap,
    #[error(
        "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
        .0.join(" ")
    )]
    NoKeys(Vec<String>),
    #[error("element {index}: {error}")]
    Item { index: usize, error: Box<Self> },
}

/// Returns the path element of a list item: `k:{"name":"c"}` or `v:"x"`.
///
/// # Errors
/// Upstream's message if the item has no identity.
pub(crate) fn list_item_path_element(
    schema: &Schema,
    list: &ListType,
    item: &Value,
) -> Result<String, PathElementError> {
    match &list.topology {
        ElementRelationship::Atomic => Err(PathElementError::Atomic),
        ElementRelationship::Set => match item {
            Value::Object(_) => Err(PathElementError::MapInSet),
            Value::Array(_) => Err(PathElementError::ListInSet),
            Value::Null => Err(PathElementError::NullInSet),
            scalar => Ok(format!("v:{scalar}")),
        },
        ElementRelationship::Map(keys) => by_keys(schema, list, keys, item),
    }
}

fn by_keys(schema: &Schema, list: &ListType, keys: &[Box<str>], item: &Value) -> Result<String, PathElementError> {
    let map = match item {
        Value::Object(map) => map,
        Value::Null => return Err(PathElementError::NullItem),
        _ => return Err(PathElementError::NotMap),
    };
    let fields = match schema.shape(list.items) {
        TypeKind::Struct(fields) => Some(fields),
        _ => None,
    };
    let mut out = String::from("k:{");
    for key in keys {
        let default = || fields.and_then(|f| f.field(key)).and_then(|f| f.key_default.as_ref());
        let Some(value) = map.get(&**key).or_else(default) else { continue };
        if out.len() > 3 {
            out.push(',');
        }
        out.push('"');
        out.push_str(key);
        out.push_str("\":");
        match value {
            // Most keys need no escaping.
            Value::String(s) if s.bytes().all(|c| c >= 0x20 && c != b'"' && c != b'\\') => {
                out.push('"');
                out.push_str(s);
                out.push('"');
            }
            other => out.push_str(&other.to_string()),
        }
    }
    if out.len() == 3 {
        return Err(PathElementError::NoKeys(keys.iter().map(|key| format!("{key:?}")).collect()));
    }
    out.push('}');
    Ok(out)
}

/// Returns the items of a list with their path elements, in order; upstream's message for the first item without
/// identity.
pub(crate) fn index_key<'v>(
    schema: &Schema,
    list: &ListType,
    items: &'v [Value],
) -> Result<Vec<(String, &'v Value)>, PathElementError> {
    let mut out = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let key = list_item_path_element(schema, list, item)
            .map_err(|error| PathElementError::Item { index, error: Box::new(error) })?;
        out.push((key, item));
    }
    Ok(out)
}
