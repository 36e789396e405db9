//! Encodes the OpenAPI v2 document as protobuf, the only encoding of it that kubectl accepts. PURE.
//! See `ToProtoBinary` in `kube-openapi/pkg/handler/handler.go`.
//!
//! Field numbers are those of gnostic's `OpenAPIv2.proto`. Only the parts that kubectl reads are encoded: definitions
//! with their extensions, in which it looks up lists and kinds without a v3 document. Paths are omitted.

use std::collections::BTreeMap;

use crate::json::{Key, Map, Value};

/// Media type of the reply.
pub(super) const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Media types by which clients request it; kubectl uses the older one, with `@`.
pub(super) const ACCEPTED: [&str; 2] = ["application/com.github.proto-openapi.spec.v2@v1.0+protobuf", MEDIA_TYPE];

/// A message being encoded.
#[derive(Default)]
struct MessageWriter(Vec<u8>);

impl MessageWriter {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
            number >>= 7;
        }
        self.0.push(u8::try_from(number).unwrap_or_default());
    }

    fn bytes(&mut self, field: u64, content: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(u64::try_from(content.len()).unwrap_or(u64::MAX));
        self.0.extend_from_slice(content);
    }

    fn text(&mut self, field: u64, content: &str) {
        self.bytes(field, content.as_bytes());
    }

    fn message(&mut self, field: u64, content: &MessageWriter) {
        self.bytes(field, &content.0);
    }

    fn flag(&mut self, field: u64, on: bool) {
        self.varint(field << 3);
        self.varint(on.into());
    }

    /// Appends a message `{name = 1, value = 2}`.
    fn named(&mut self, field: u64, name: &str, value: &MessageWriter) {
        let mut pair = MessageWriter::default();
        pair.text(1, name);
        pair.message(2, value);
        self.message(field, &pair);
    }
}

/// Encodes the definitions of `document` with its title and version.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut encoded = MessageWriter::default();
    encoded.text(1, document["swagger"].as_str().unwrap_or("2.0"));
    let mut info = MessageWriter::default();
    info.text(1, document["info"]["title"].as_str().unwrap_or_default());
    info.text(2, document["info"]["version"].as_str().unwrap_or_default());
    encoded.message(2, &info);
    // Must be present, even if empty: readers iterate over it.
    encoded.message(8, &MessageWriter::default());
    encoded.message(9, &schemas(&document["definitions"]));
    encoded.0
}

/// Encodes named schemas in the order of their names.
fn schemas(of: &Value) -> MessageWriter {
    let sorted: BTreeMap<&Key, &Value> = of.as_object().into_iter().flatten().collect();
    let mut all = MessageWriter::default();
    for (name, value) in sorted {
        all.named(1, name, &schema(value));
    }
    all
}

fn schema(of: &Value) -> MessageWriter {
    let none = Map::new();
    let fields = of.as_object().unwrap_or(&none);
    let mut encoded = MessageWriter::default();
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("$ref", Value::String(text)) => encoded.text(1, text),
            ("format", Value::String(text)) => encoded.text(2, text),
            ("title", Value::String(text)) => encoded.text(3, text),
            ("description", Value::String(text)) => encoded.text(4, text),
            ("default", value) => encoded.message(5, &any(value)),
            ("required", Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).for_each(|text| encoded.text(19, text));
            }
            ("enum", Value::Array(list)) => list.iter().for_each(|value| encoded.message(20, &any(value))),
            ("additionalProperties", value) => encoded.message(21, &additional(value)),
            ("type", value) => encoded.message(22, &type_item(value)),
            ("items", value) => {
                let mut item = MessageWriter::default();
                item.message(1, &schema(value));
                encoded.message(23, &item);
            }
            ("allOf", Value::Array(list)) => list.iter().for_each(|value| encoded.message(24, &schema(value))),
            ("properties", value) => encoded.message(25, &schemas(value)),
            (extension, value) if extension.starts_with("x-") => encoded.named(31, extension, &any(value)),
            // Bounds and patterns: kubectl reads none of them.
            _ => {}
        }
    }
    encoded
}

fn additional(of: &Value) -> MessageWriter {
    let mut encoded = MessageWriter::default();
    match of {
        Value::Bool(on) => encoded.flag(2, *on),
        other => encoded.message(1, &schema(other)),
    }
    encoded
}

fn type_item(of: &Value) -> MessageWriter {
    let mut encoded = MessageWriter::default();
    match of {
        Value::String(text) => encoded.text(1, text),
        Value::Array(list) => list.iter().filter_map(Value::as_str).for_each(|text| encoded.text(1, text)),
        _ => {}
    }
    encoded
}

/// Encodes a value as YAML, of which JSON is a subset.
fn any(value: &Value) -> MessageWriter {
    let mut encoded = MessageWriter::default();
    encoded.text(2, &value.to_string());
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn small_documents_byte_by_byte() {
        let definition = json!({"swagger": "2.0", "info": {"title": "K", "version": "1"},
            "definitions": {"a": {"type": "object", "properties": {"b": {"$ref": "#/definitions/c"}}}}});
        let mut expected = b"\x0a\x032.0\x12\x06\x0a\x01K\x12\x011\x42\x00".to_vec();
        // Definitions { NamedSchema { "a", Schema { properties { NamedSchema { "b", Schema { $ref } } }, type } } }
        let reference = b"\x0a\x0f#/definitions/c";
        let named = [b"\x0a\x01b\x12\x11".as_slice(), reference].concat();
        let properties = [b"\x0a\x16".as_slice(), &named].concat();
        let own = [b"\xca\x01\x18".as_slice(), &properties, b"\xb2\x01\x08\x0a\x06object"].concat();
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
        let pair = [b"\x0a\x01a\x12".as_slice(), &[length(&own)], &own].concat();
        let all = [b"\x0a".as_slice(), &[length(&pair)], &pair].concat();
        expected.extend([b"\x4a".as_slice(), &[length(&all)], &all].concat());
        assert_eq!(document(&definition), expected);
    }

    #[test]
    fn long_texts_have_long_lengths() {
        let mut message = MessageWriter::default();
        message.text(1, &"x".repeat(300));
        assert_eq!(message.0.get(..3), Some([0x0a, 0xac, 0x02].as_slice()));
    }
}
