//! JSON in the form of Go's `encoding/json`: struct fields in declaration order, numbers in Go's notation, `<`, `>`
//! and `&` escaped, a line feed at the end of a document. Pure.
//! See `staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go`.
//!
//! Replies have kube-apiserver's member order and number format, which `serde_json`'s serializer does not produce.
//! Built-in kinds are structs upstream; custom resources and free-form fields are maps with sorted keys.

use std::cmp::Ordering;
use std::sync::Arc;

use smallvec::SmallVec;

use super::schema::{FieldCursor, Schema, StructType, TypeKind, TypeRef, builtin, schema_of};
use crate::byte_scan::{least, min};
use crate::go_float;
use crate::json::{Iter, Key, Map, Number, Value};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata";
/// The fields of `Table` and its parts, which are not in the type tables.
const TABLE: [&str; 5] = ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"];
const COLUMN: [&str; 5] = ["name", "type", "format", "description", "priority"];
const ROW: [&str; 3] = ["cells", "conditions", "object"];
const LIST: [&str; 4] = ["kind", "apiVersion", "metadata", "items"];
const LIST_META: [&str; 4] = ["selfLink", "resourceVersion", "continue", "remainingItemCount"];

/// A type within its schema; `None` for values without a Go struct.
pub(crate) type TypeCursor<'s> = Option<(&'s Schema, TypeRef)>;

/// Encodes a document: the value and a line feed.
pub(crate) fn encode_document(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    write_object(&mut out, value);
    out.push(b'\n');
    out
}

/// Returns the schema that defines the field order of an object; `None` for custom resources.
pub(crate) fn schema_for(object: &Value) -> Option<Arc<Schema>> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    let kind = text("kind");
    match kind {
        "" => None,
        "PartialObjectMetadata" => builtin(META),
        "Status" if api_version == "v1" => builtin("io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
        _ => schema_of(api_version, kind),
    }
}

/// Appends an object, encoded as its `kind` and `apiVersion` require.
pub(crate) fn write_object(out: &mut Vec<u8>, object: &Value) {
    let Value::Object(map) = object else { return write(out, None, object) };
    let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind == "Table" && map.contains_key("rows") {
        return write_table(out, map);
    }
    if let Some(Value::Array(items)) = map.get("items")
        && let Some(item_kind) = kind.strip_suffix("List")
    {
        return write_list(out, map, items, item_kind);
    }
    let schema = schema_for(object);
    write(out, schema.as_deref().map(|schema| (schema, schema.root())), object);
}

/// Encodes an object with its fields in `order`, without a line feed.
pub(crate) fn encode_in_order(value: &Value, order: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    write_in_order(&mut out, value, order);
    out
}

/// Pretty-prints JSON with two spaces per level, without a line feed at the end.
pub(crate) fn pretty_print(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut quoted = false;
    let mut escaped = false;
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    let text = json.trim_ascii_end();
    for (at, &byte) in text.iter().enumerate() {
        if quoted {
            out.push(byte);
            quoted = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                depth += 1;
                if !matches!(text.get(at + 1), Some(b'}' | b']')) {
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !matches!(text.get(at.wrapping_sub(1)), Some(b'{' | b'[')) {
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                quoted = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

/// Encodes the metadata of a list, in field order for built-in kinds and sorted for custom ones.
pub(crate) fn list_metadata(metadata: &Value, custom: bool) -> Vec<u8> {
    let mut out = Vec::new();
    write_in_order(&mut out, metadata, if custom { &[] } else { &LIST_META });
    out
}

/// Encodes an object's metadata.
pub(crate) fn metadata_json(object: &Value) -> String {
    let mut out = Vec::new();
    let schema = builtin(META);
    let place = schema.as_deref().and_then(|schema| Some((schema, schema.field_type(schema.root(), "metadata")?)));
    write(&mut out, place, object.get("metadata").unwrap_or(&Value::Null));
    String::from_utf8_lossy(&out).into_owned()
}

fn write_list(out: &mut Vec<u8>, list: &Map, items: &[Value], item_kind: &str) {
    let mut item = Map::new();
    item.insert("kind", item_kind.into());
    item.insert("apiVersion", list.get("apiVersion").cloned().unwrap_or_default());
    let Some(schema) = schema_for(&Value::Object(item)) else {
        return write(out, None, &Value::Object(list.clone()));
    };
    let place = Some((&*schema, schema.root()));
    write_fields(out, list, &LIST, |out, name, value| match name {
        "items" => write_items(out, items, |out, item| write(out, place, item)),
        "metadata" => write_in_order(out, value, &LIST_META),
        _ => write(out, None, value),
    });
}

fn write_table(out: &mut Vec<u8>, table: &Map) {
    write_fields(out, table, &TABLE, |out, name, value| match (name, value) {
        ("metadata", _) => write_in_order(out, value, &LIST_META),
        ("columnDefinitions", Value::Array(columns)) => {
            write_items(out, columns, |out, column| write_in_order(out, column, &COLUMN));
        }
        ("rows", Value::Array(rows)) => write_items(out, rows, |out, row| match row {
            Value::Object(row) => write_fields(out, row, &ROW, |out, name, value| match (name, value) {
                ("object", object) => write_object(out, object),
                ("conditions", Value::Array(conditions)) => write_items(out, conditions, |out, condition| {
                    write_in_order(out, condition, &["type", "status", "reason", "message"]);
                }),
                _ => write(out, None, value),
            }),
            _ => write(out, None, row),
        }),
        _ => write(out, None, value),
    });
}

fn write_in_order(out: &mut Vec<u8>, value: &Value, order: &[&str]) {
    match value {
        Value::Object(map) => write_fields(out, map, order, |out, _, value| write(out, None, value)),
        _ => write(out, None, value),
    }
}

/// Appends an object with the fields of `order` first and all others after them.
fn write_fields(out: &mut Vec<u8>, map: &Map, order: &[&str], mut field: impl FnMut(&mut Vec<u8>, &str, &Value)) {
    let known = order.iter().filter_map(|name| map.get_key_value(*name));
    let others = map.iter().filter(|(name, _)| !order.contains(&name.as_str()));
    write_separated(out, *b"{}", known.chain(others), |out, (name, value)| {
        write_text(out, name);
        out.push(b':');
        field(out, name, value);
    });
}

fn write_items(out: &mut Vec<u8>, items: &[Value], item: impl FnMut(&mut Vec<u8>, &Value)) {
    write_separated(out, *b"[]", items.iter(), item);
}

/// Appends an object or a list: `part` writes each element between the brackets and commas.
fn write_separated<T>(
    out: &mut Vec<u8>,
    [open, close]: [u8; 2],
    parts: impl Iterator<Item = T>,
    mut part: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(open);
    for (at, value) in parts.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        part(out, value);
    }
    out.push(close);
}

/// Appends a value of the type `place`.
pub(crate) fn write(out: &mut Vec<u8>, place: TypeCursor<'_>, value: &Value) {
    match value {
        Value::Object(map) if map.is_empty() => out.extend_from_slice(b"{}"),
        Value::Object(map) => match place.map(|(schema, ty)| schema.shape(ty)) {
            None | Some(TypeKind::Any) => write_untyped(out, map),
            _ => write_separated(out, *b"{}", fields(place, map), |out, member| {
                member.write_name(out);
                write(out, member.place, member.value);
            }),
        },
        Value::Array(items) => {
            let place = place.and_then(|(schema, ty)| match schema.shape(ty) {
                TypeKind::List(list) => Some((schema, list.items)),
                _ => None,
            });
            write_items(out, items, |out, item| write(out, place, item));
        }
        Value::String(text) => write_text(out, text),
        Value::Number(number) => write_number(out, number),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Null => out.extend_from_slice(b"null"),
    }
}

/// Appends an object without a type, such as a `fieldsV1` set.
fn write_untyped(out: &mut Vec<u8>, map: &Map) {
    let member = |out: &mut Vec<u8>, (name, value): (&Key, &Value)| {
        write_text(out, name);
        out.push(b':');
        write(out, None, value);
    };
    match sorted_field_set(map) {
        Some(sorted) => write_separated(out, *b"{}", sorted.into_iter(), member),
        None => write_separated(out, *b"{}", map.iter(), member),
    }
}

/// A member of an object.
pub(crate) struct EncodedMember<'v> {
    pub(crate) name: &'v Key,
    /// The name is a declared field's, so it needs no escaping.
    plain: bool,
    pub(crate) value: &'v Value,
    /// The type of the value.
    pub(crate) place: TypeCursor<'v>,
}

impl<'v> EncodedMember<'v> {
    /// Creates a member with a client-defined name.
    fn free(name: &'v Key, value: &'v Value, place: TypeCursor<'v>) -> Self {
        Self { name, plain: false, value, place }
    }

    /// Appends the quoted name and a colon.
    pub(crate) fn write_name(&self, out: &mut Vec<u8>) {
        let write = if self.plain { write_plain } else { write_text };
        write(out, self.name);
        out.push(b':');
    }
}

/// Returns the members of an object of type `place` in the order in which they are written.
pub(crate) fn fields<'v>(place: TypeCursor<'v>, map: &'v Map) -> OrderedMembers<'v> {
    match place.map(|(schema, ty)| (schema, ty, schema.shape(ty))) {
        Some((schema, ty, TypeKind::Struct(shape))) => OrderedMembers::declared(schema, ty, shape, map),
        Some((schema, _, TypeKind::Map(shape))) => OrderedMembers::of_one_type(Some((schema, shape.values)), map),
        _ => OrderedMembers::of_one_type(None, map),
    }
}

/// The members of an object, see [`fields`].
pub(crate) enum OrderedMembers<'v> {
    /// The members of a struct in Go's order, followed by those that it does not declare.
    Struct {
        schema: &'v Schema,
        /// The type of free-form fields.
        open: Option<TypeRef>,
        shape: &'v StructType,
        map: &'v Map,
        order: smallvec::IntoIter<[MemberOrder; TURNS]>,
    },
    /// Sorted differently from the map, all values of one type.
    FieldSet(std::vec::IntoIter<(&'v Key, &'v Value)>, TypeCursor<'v>),
    /// In the map's order, all values of one type.
    Map(Iter<'v>, TypeCursor<'v>),
}

/// The sort key of a struct member: the field's position in the Go struct, the member's index and the field's index.
type MemberOrder = (u16, u32, u16);
/// Number of members that are sorted without a heap allocation; few structs have more.
const TURNS: usize = 24;

impl<'v> OrderedMembers<'v> {
    fn declared(schema: &'v Schema, ty: TypeRef, shape: &'v StructType, map: &'v Map) -> Self {
        let mut declared = FieldCursor::new(shape);
        let turn = |(at, name): (usize, &Key)| match declared.index(name) {
            Some(field) => (shape.fields[field].order, at as u32, field as u16),
            None => (u16::MAX, at as u32, u16::MAX),
        };
        let mut order: SmallVec<[MemberOrder; TURNS]> = map.keys().enumerate().map(turn).collect();
        order.sort_unstable();
        // The tables declare as free-form the fields that hold a schema, a list of schemas or a boolean.
        let open = (&*schema.get(ty).go == "v1.JSONSchemaProps").then_some(ty);
        Self::Struct { schema, open, shape, map, order: order.into_iter() }
    }

    fn of_one_type(values: TypeCursor<'v>, map: &'v Map) -> Self {
        match sorted_field_set(map) {
            Some(ordered) => Self::FieldSet(ordered.into_iter(), values),
            None => Self::Map(map.iter(), values),
        }
    }
}

impl<'v> Iterator for OrderedMembers<'v> {
    type Item = EncodedMember<'v>;

    fn next(&mut self) -> Option<EncodedMember<'v>> {
        match self {
            Self::Struct { schema, open, shape, map, order } => {
                let (_, at, field) = order.next()?;
                let (name, value) = map.nth(at as usize)?;
                let place = shape.fields.get(usize::from(field)).map(|field| {
                    let open = open.filter(|_| matches!(name.as_str(), "items" | "additionalProperties"));
                    (*schema, open.unwrap_or(field.ty))
                });
                Some(EncodedMember { name, plain: place.is_some(), value, place })
            }
            Self::FieldSet(members, place) => {
                members.next().map(|(name, value)| EncodedMember::free(name, value, *place))
            }
            Self::Map(members, place) => members.next().map(|(name, value)| EncodedMember::free(name, value, *place)),
        }
    }
}

/// Returns the sorted members of a `fieldsV1` set that has several list items: items sort by value, `80` before
/// `443`.
fn sorted_field_set(map: &Map) -> Option<Vec<(&Key, &Value)>> {
    let is_item = |name: &Key| matches!(name.as_bytes(), [b'k', b':', b'{', ..] | [b'v', b':', ..]);
    if map.keys().filter(|name| is_item(name)).count() < 2 {
        return None;
    }
    let read = |name: &Key| serde_json::from_str::<Value>(name.get(2..).filter(|_| !name.starts_with("f:"))?).ok();
    let mut fields: Vec<_> = map.iter().map(|(name, value)| (read(name), name, value)).collect();
    fields.sort_by(|(one, name, _), (other, other_name, _)| {
        cmp_path_elements((name, one.as_ref()), (other_name, other.as_ref()))
    });
    Some(fields.into_iter().map(|(_, name, value)| (name, value)).collect())
}

/// Compares two path elements of a `fieldsV1` set, each with the identity of its list item.
fn cmp_path_elements((name, one): (&str, Option<&Value>), (other_name, other): (&str, Option<&Value>)) -> Ordering {
    if name.as_bytes().first_chunk::<2>() != other_name.as_bytes().first_chunk::<2>() {
        return name.cmp(other_name);
    }
    match (one, other) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let differing = one.iter().zip(other).map(|(a, b)| a.0.cmp(b.0).then_with(|| cmp_scalars(a.1, b.1)));
            differing.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| one.len().cmp(&other.len()))
        }
        (Some(one), Some(other)) => cmp_scalars(one, other),
        _ => name.cmp(other_name),
    }
}

fn cmp_scalars(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal)
        }
        (Value::String(one), Value::String(other)) => one.cmp(other),
        _ => one.to_string().cmp(&other.to_string()),
    }
}

/// Returns zero for the bytes that may need escaping: control characters, `"`, `&`, `<`, `>`, `\` and the first byte of
/// line separators.
#[expect(clippy::inline_always, reason = "as in `byte_scan`")]
#[inline(always)]
const fn distance_from_special(byte: u8) -> u8 {
    // `"` and `&` differ in one bit, as do `<` and `>`.
    let pairs = min((byte & !0x04) ^ b'"', (byte & !0x02) ^ b'<');
    min(pairs, min(byte & 0xe0, min(byte ^ b'\\', byte ^ 0xe2)))
}

/// The bytes that may need escaping.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        special[byte] = distance_from_special(byte as u8) == 0;
        byte += 1;
    }
    special
};

/// Appends a quoted string.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    // Nearly all strings need no escaping, and checking that first is cheaper than the general path.
    if has_special(text.as_bytes()) { write_escaped(out, text) } else { write_plain(out, text) }
}

/// Appends a quoted string that needs no escaping.
fn write_plain(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

fn has_special(text: &[u8]) -> bool {
    // The last chunk overlaps those before it, so that no bytes are left over.
    if let Some(last) = text.last_chunk::<16>() {
        return is_special_chunk(last) || text.as_chunks::<16>().0.iter().any(is_special_chunk);
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        return is_special_chunk(first) | is_special_chunk(last);
    }
    text.iter().any(|byte| SPECIAL[usize::from(*byte)])
}

/// Returns true if a byte of the chunk may need escaping.
fn is_special_chunk<const N: usize>(chunk: &[u8; N]) -> bool {
    least(chunk, distance_from_special) == 0
}

fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let from = out.len();
    // Encoding into a `Vec` does not fail.
    let _ = serde_json::to_writer(&mut *out, text);
    let special = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xe2);
    if out[from..].iter().any(special) {
        let escaped = escape(&out[from..]);
        out.truncate(from);
        out.extend_from_slice(&escaped);
    }
}

/// Applies the escapes of Go's encoder beyond the JSON standard, which make the text safe inside HTML and scripts.
fn escape(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len() + 32);
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let (replaced, length): (&[u8], usize) = match (byte, text.get(at + 1..at + 3)) {
            (b'<', _) => (b"\\u003c", 1),
            (b'>', _) => (b"\\u003e", 1),
            (b'&', _) => (b"\\u0026", 1),
            (0xe2, Some([0x80, 0xa8])) => (b"\\u2028", 3),
            (0xe2, Some([0x80, 0xa9])) => (b"\\u2029", 3),
            _ => (&text[at..=at], 1),
        };
        escaped.extend_from_slice(replaced);
        at += length;
    }
    escaped
}

fn write_number(out: &mut Vec<u8>, number: &Number) {
    use std::io::Write as _;
    // Writing to a `Vec` does not fail.
    let _ = match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) => out.write_all(go_float::json(float).as_bytes()),
        None => write!(out, "{number}"),
    };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    proptest! {
        #[test]
        fn texts_are_written_alike_the_quick_way_and_the_general_one(text in "([a-z.-]{0,9}|[<>&\"\\\\\u{0}-\u{1f}\u{7f}\u{2028}\u{2029}\u{2713}\u{e9}]|\\PC){0,6}") {
            let mut quick = b"x".to_vec();
            let mut general = b"x".to_vec();
            write_text(&mut quick, &text);
            write_escaped(&mut general, &text);
            prop_assert_eq!(quick, general);
        }
    }

    #[test]
    fn people_get_lines() {
        let json = br#"{"a":{},"b":[1,"x,{\\\":"],"c":[],"d":{"e":null}}
"#;
        let lines = "{\n  \"a\": {},\n  \"b\": [\n    1,\n    \"x,{\\\\\\\":\"\n  ],\n  \"c\": [],\n  \"d\": {\n    \"e\": null\n  }\n}";
        assert_eq!(String::from_utf8(pretty_print(json)).unwrap(), lines);
    }

    #[rstest]
    #[case::built_in(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "<&>", "a": "\u{2028}"}, "immutable": true,
            "metadata": {"labels": {"z": "1", "y": "2"}, "name": "n", "managedFields": [{"time": null, "manager": "m"}]}}),
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"n","labels":{"y":"2","z":"1"},"managedFields":[{"manager":"m","time":null}]},"immutable":true,"data":{"a":"\u2028","b":"\u003c\u0026\u003e"}}"#
    )]
    #[case::custom(
        json!({"kind": "Widget", "apiVersion": "ex.com/v1", "spec": {"b": 1.0, "a": 1.5}, "metadata": {"name": "n", "annotations": {}}}),
        r#"{"apiVersion":"ex.com/v1","kind":"Widget","metadata":{"annotations":{},"name":"n"},"spec":{"a":1.5,"b":1}}"#
    )]
    #[case::elements_of_paths(
        json!({"kind": "Widget", "apiVersion": "ex.com/v1", "f": {"k:{\"containerPort\":443}": {}, "k:{\"containerPort\":80}": {}, ".": {}, "f:a": {}}}),
        r#"{"apiVersion":"ex.com/v1","f":{".":{},"f:a":{},"k:{\"containerPort\":80}":{},"k:{\"containerPort\":443}":{}},"kind":"Widget"}"#
    )]
    #[case::list(
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1", "continue": "c"}, "items": [{"spec": {"nodeName": "n", "containers": []}, "metadata": {}}]}),
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":"c"},"items":[{"metadata":{},"spec":{"containers":[],"nodeName":"n"}}]}"#
    )]
    #[case::table(
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "rows": [{"object": null, "cells": ["<none>"]}], "columnDefinitions": [{"type": "t", "name": "n"}]}),
        r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[{"name":"n","type":"t"}],"rows":[{"cells":["\u003cnone\u003e"],"object":null}]}"#
    )]
    #[case::schema_of_a_definition(
        json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"l": {"items": {"type": "string", "maxLength": 1, "description": "d"}, "type": "array"}}, "type": "object"}}, "name": "v1"}], "group": "g"}}),
        r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","spec":{"group":"g","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","properties":{"l":{"type":"array","items":{"description":"d","type":"string","maxLength":1}}}}}}]}}"#
    )]
    fn documents(#[case] value: Value, #[case] text: &str) {
        assert_eq!(String::from_utf8(encode_document(&value)).unwrap(), format!("{text}\n"));
    }

    #[test]
    fn bytes_that_go_escapes_are_found_at_every_place() {
        let escaped = |byte: u8| byte < 0x20 || matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2);
        for length in [1, 7, 8, 15, 16, 17, 40] {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    assert_eq!(has_special(&text), escaped(byte), "{byte:#x} at {at} of {length}");
                }
            }
        }
    }
}
