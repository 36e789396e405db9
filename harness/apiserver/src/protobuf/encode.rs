//! Encodes replies as protobuf, which typed Go clients prefer. The reverse of
//! [`super::to_json`], by the same table. PURE.
//! See `staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use jiff::Timestamp;

use super::{MAGIC, MESSAGES, find_message};
use crate::json::{Map, Value};
use crate::request::{PIECE, ROOM};

/// Deepest message that is encoded.
const MAX_DEPTH: usize = 200;

/// Returns the message of an object without its envelope.
pub(crate) fn object_message(object: &Value) -> Vec<u8> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut raw = Vec::new();
    if let (Some((package, name)), Some(fields)) = (find_message(text("apiVersion"), text("kind")), object.as_object())
    {
        message(&mut raw, package, name, fields, 0);
    }
    raw
}

/// Returns the body with a message of a kind: its envelope.
pub(crate) fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(raw.len() + kind.len() + api_version.len() + 32);
    body.extend_from_slice(&envelope_head(api_version, kind, raw.len()));
    body.extend_from_slice(raw);
    body.extend_from_slice(&ENVELOPE_END);
    body
}

/// Empty content encoding and content type.
const ENVELOPE_END: [u8; 4] = [0x1a, 0, 0x22, 0];

fn envelope_head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    nested(&mut head, 1, |out| {
        bytes(out, 1, api_version.as_bytes());
        bytes(out, 2, kind.as_bytes());
    });
    varint(&mut head, 2 << 3 | 2);
    varint(&mut head, u64::try_from(length).unwrap_or(u64::MAX));
    head
}

/// The body of a list, made in pieces from the messages of its items.
pub(crate) struct ListPieces {
    /// The piece under construction; at first the envelope's head and the list's metadata.
    piece: Vec<u8>,
    items: std::vec::IntoIter<Bytes>,
    /// Number of bytes that are in no piece yet.
    left: usize,
}

impl ListPieces {
    /// Creates the body of a list. Only its length is computed here.
    pub(crate) fn new(api_version: &str, kind: &str, metadata: &Value, items: Vec<Bytes>) -> Self {
        let mut own = Vec::new();
        let none = Map::new();
        nested(&mut own, 1, |out| message(out, "meta", "ListMeta", metadata.as_object().unwrap_or(&none), 1));
        let length: usize = items.iter().map(|item| 1 + varint_length(item.len()) + item.len()).sum();
        let mut piece = envelope_head(api_version, kind, own.len() + length);
        piece.append(&mut own);
        Self { piece, items: items.into_iter(), left: length + ENVELOPE_END.len() }
    }

    /// Returns true if there are no more pieces.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }
}

impl Iterator for ListPieces {
    type Item = Bytes;

    /// Returns the next piece, of about [`PIECE`] bytes.
    fn next(&mut self) -> Option<Bytes> {
        if self.is_over() {
            return None;
        }
        let mut piece = std::mem::take(&mut self.piece);
        piece.reserve_exact(self.left.min(PIECE + ROOM));
        let begin = piece.len();
        while piece.len() < PIECE && self.left > piece.len() - begin {
            match self.items.next() {
                Some(item) => bytes(&mut piece, 2, &item),
                None => piece.extend_from_slice(&ENVELOPE_END),
            }
        }
        self.left -= piece.len() - begin;
        Some(piece.into())
    }
}

/// Returns a watch event as a frame: its length, and the event with the object in its envelope.
pub(crate) fn event_frame(event_type: &str, object: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(object.len() + event_type.len() + 32);
    bytes(&mut event, 1, event_type.as_bytes());
    nested(&mut event, 2, |out| bytes(out, 1, object));
    let mut frame = Vec::with_capacity(event.len() + 4);
    frame.extend_from_slice(&u32::try_from(event.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(&event);
    frame.into()
}

/// Returns the body for an object or a list; `None` if no protobuf message is known for its kind.
pub(crate) fn from_json(object: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    let kind = text("kind");
    let fields = object.as_object()?;
    let mut raw = Vec::new();
    match (find_message(api_version, kind), object.get("items").and_then(Value::as_array)) {
        (Some((package, name)), _) => message(&mut raw, package, name, fields, 0),
        // All lists have the same form.
        (None, items) => {
            let (package, name) = find_message(api_version, kind.strip_suffix("List")?)?;
            let metadata = fields.get("metadata").and_then(Value::as_object);
            nested(&mut raw, 1, |out| message(out, "meta", "ListMeta", metadata.unwrap_or(&Map::new()), 1));
            for item in items.into_iter().flatten().filter_map(Value::as_object) {
                nested(&mut raw, 2, |out| message(out, package, name, item, 1));
            }
        }
    }
    Some(envelope(api_version, kind, &raw))
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Returns the number of bytes of a varint.
fn varint_length(number: usize) -> usize {
    (number | 1).ilog2() as usize / 7 + 1
}

fn bytes(out: &mut Vec<u8>, number: u64, content: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, u64::try_from(content.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(content);
}

fn integer(out: &mut Vec<u8>, number: u64, value: i64) {
    varint(out, number << 3);
    varint(out, value.cast_unsigned());
}

/// Writes a nested message.
fn nested(out: &mut Vec<u8>, number: u64, write: impl FnOnce(&mut Vec<u8>)) {
    varint(out, number << 3 | 2);
    // Most messages are short, so that their length has one byte.
    let at = out.len();
    out.push(0);
    write(out);
    let length = out.len() - at - 1;
    if let Ok(short @ 0..0x80) = u8::try_from(length) {
        out[at] = short;
    } else {
        let mut long = Vec::with_capacity(10);
        varint(&mut long, u64::try_from(length).unwrap_or(u64::MAX));
        out.splice(at..=at, long);
    }
}

/// Writes the known fields of a message in the order of their numbers.
fn message(out: &mut Vec<u8>, package: &'static str, name: &'static str, fields: &Map, depth: usize) {
    let Some(known) = MESSAGES.get(&(package, name)).filter(|_| depth <= MAX_DEPTH) else { return };
    for (&number, field) in known {
        if field.name == "&" {
            let (home, name) = home_of(package, field.kind);
            nested(out, number, |out| message(out, home, name, fields, depth + 1));
            continue;
        }
        let Some(value) = fields.get(field.name).filter(|value| !value.is_null()) else { continue };
        if let Some(item) = field.kind.strip_prefix("[]") {
            for one in value.as_array().into_iter().flatten() {
                write(out, number, package, item, one, depth);
            }
        } else if let Some(item) = field.kind.strip_prefix("{}") {
            for (key, one) in value.as_object().into_iter().flatten() {
                nested(out, number, |out| {
                    bytes(out, 1, key.as_bytes());
                    write(out, 2, package, item, one, depth);
                });
            }
        } else {
            write(out, number, package, field.kind, value, depth);
        }
    }
}

fn home_of(package: &'static str, kind: &'static str) -> (&'static str, &'static str) {
    kind.split_once('.').unwrap_or((package, kind))
}

/// Writes one value; a value of another type than the table says is left out.
fn write(out: &mut Vec<u8>, number: u64, package: &'static str, kind: &'static str, value: &Value, depth: usize) {
    let (home, name) = home_of(package, kind);
    match (name, value) {
        ("bool", Value::Bool(flag)) => integer(out, number, i64::from(*flag)),
        ("int32" | "int64", Value::Number(value)) => integer(out, number, value.as_i64().unwrap_or(0)),
        ("double", Value::Number(value)) => {
            varint(out, number << 3 | 1);
            out.extend_from_slice(&value.as_f64().unwrap_or(0.0).to_le_bytes());
        }
        ("string", Value::String(text)) => bytes(out, number, text.as_bytes()),
        ("bytes", Value::String(text)) => bytes(out, number, &BASE64.decode(text.as_bytes()).unwrap_or_default()),
        ("quantity", Value::String(text)) => nested(out, number, |out| bytes(out, 1, text.as_bytes())),
        ("raw" | "FieldsV1" | "JSON", value) => {
            nested(out, number, |out| bytes(out, 1, value.to_string().as_bytes()));
        }
        ("intorstr", value) => nested(out, number, |out| int_or_string(out, value)),
        ("Time" | "MicroTime", Value::String(text)) => {
            let Ok(moment) = text.parse::<Timestamp>() else { return };
            nested(out, number, |out| {
                integer(out, 1, moment.as_second());
                integer(out, 2, i64::from(if name == "Time" { 0 } else { moment.subsec_nanosecond() }));
            });
        }
        ("ExtraValue", Value::Array(texts)) => nested(out, number, |out| {
            texts.iter().filter_map(Value::as_str).for_each(|text| bytes(out, 1, text.as_bytes()));
        }),
        (wrapper, value) if wrapper.starts_with("JSONSchemaPropsOr") => {
            nested(out, number, |out| schema_or_other(out, package, wrapper, value, depth));
        }
        (_, Value::Object(fields)) => nested(out, number, |out| message(out, home, name, fields, depth + 1)),
        _ => {}
    }
}

fn int_or_string(out: &mut Vec<u8>, value: &Value) {
    integer(out, 1, i64::from(value.is_string()));
    integer(out, 2, value.as_i64().unwrap_or(0));
    bytes(out, 3, value.as_str().unwrap_or_default().as_bytes());
}

/// Writes `JSONSchemaPropsOrArray`, `JSONSchemaPropsOrBool` or `JSONSchemaPropsOrStringArray`.
fn schema_or_other(out: &mut Vec<u8>, package: &'static str, wrapper: &str, value: &Value, depth: usize) {
    let flag = wrapper == "JSONSchemaPropsOrBool";
    let schema = |out: &mut Vec<u8>, number: u64, fields: &Map| {
        nested(out, number, |out| message(out, package, "JSONSchemaProps", fields, depth + 1));
    };
    match value {
        Value::Bool(allows) if flag => integer(out, 1, i64::from(*allows)),
        Value::Object(fields) if flag => {
            integer(out, 1, 1);
            schema(out, 2, fields);
        }
        Value::Object(fields) => schema(out, 1, fields),
        Value::Array(list) => {
            for item in list {
                match item {
                    Value::Object(fields) => schema(out, 2, fields),
                    other => bytes(out, 2, other.as_str().unwrap_or_default().as_bytes()),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::to_json;
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    /// Encoded objects are read back unchanged.
    #[rstest]
    #[case(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "creationTimestamp": "1970-01-01T00:01:40Z",
            "labels": {"a": "b"}}, "spec": {"nodeSelector": {"k": "v"}, "containers": [{"name": "c", "image": "i",
                "resources": {"limits": {"cpu": "10m"}},
                "livenessProbe": {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 300}}]}}))]
    #[case(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}}))]
    #[case(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "d"},
        "spec": {"group": "g", "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "l": {"type": "array", "items": {"type": "string"}}, "m": {"type": "object", "additionalProperties": {"type": "integer", "default": 3}}}}}}]}}))]
    fn objects(#[case] object: Value) {
        let body = from_json(&object).expect("a message");
        let read: Value = serde_json::from_slice(&to_json(&body).expect("readable")).expect("JSON");
        contains(&read, &object, "");
    }

    /// Checks that all of `part` is in `whole`; reading adds empty fields.
    fn contains(whole: &Value, part: &Value, path: &str) {
        match part {
            Value::Object(fields) => {
                for (name, value) in fields {
                    contains(&whole[name.as_str()], value, &format!("{path}.{name}"));
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    contains(&whole[index], item, &format!("{path}[{index}]"));
                }
            }
            other => assert_eq!(whole, other, "{path}"),
        }
    }

    #[test]
    fn a_list_of_messages_is_that_of_its_values() {
        let item = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let metadata = json!({"resourceVersion": "7"});
        let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": [item, item]});
        let items = vec![Bytes::from(object_message(&item)); 2];
        let body: Vec<Bytes> = ListPieces::new("v1", "ConfigMapList", &metadata, items).collect();
        assert_eq!(body.concat(), from_json(&list).expect("a message"));
    }

    #[rstest]
    #[case(0, 1)]
    #[case(100, 1)]
    #[case(130, 130)]
    #[case(20_000, 200)]
    fn pieces_of_a_list_join_to_its_body(#[case] size: usize, #[case] count: usize) {
        let metadata = json!({"resourceVersion": "7"});
        let data = json!({"k": "v".repeat(size)});
        let item = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata,
            "items": vec![item.clone(); count]});
        let items = vec![Bytes::from(object_message(&item)); count];
        let pieces: Vec<Bytes> = ListPieces::new("v1", "ConfigMapList", &metadata, items).collect();
        assert_eq!(pieces.concat(), from_json(&list).expect("a message"));
        assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() < PIECE + 2 * size + 200));
        assert_eq!(pieces.len() > 1, size * count > PIECE);
    }

    #[rstest]
    #[case(0)]
    #[case(127)]
    #[case(128)]
    #[case(16_383)]
    #[case(16_384)]
    #[case(usize::MAX)]
    fn a_varint_has_the_computed_length(#[case] number: usize) {
        let mut out = Vec::new();
        varint(&mut out, number as u64);
        assert_eq!(out.len(), varint_length(number));
    }

    #[test]
    fn a_frame_begins_with_its_length() {
        let frame = event_frame("ADDED", b"xy");
        assert_eq!(&frame[..], b"\0\0\0\x0d\x0a\x05ADDED\x12\x04\x0a\x02xy");
    }

    #[test]
    fn lists_have_the_items_in_the_second_field() {
        let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "a"}}]});
        let body = from_json(&list).expect("a message");
        let at = |wanted: &[u8]| body.windows(wanted.len()).any(|part| part == wanted);
        assert!(body.starts_with(MAGIC) && at(b"ConfigMapList") && at(&[0x12, 5, 0x0a, 3, 0x0a, 1, b'a']));
        assert_eq!(from_json(&json!({"apiVersion": "x/v1", "kind": "Thing"})), None);
    }
}
