//! Encodes the OpenAPI v2 document as protobuf, the only encoding of it that kubectl accepts. PURE.
//! See `ToProtoBinary` in `kube-openapi/pkg/handler/handler.go`.
//!
//! Field numbers are those of gnostic's `OpenAPIv2.proto`. Only the parts that kubectl reads are encoded: definitions
//! with their extensions, in which it looks up lists and kinds without a v3 document. Paths are omitted.

use std::collections::BTreeMap;

use crate::json::{Key, Map, Value};
use crate::yaml;

/// Media type of the reply.
pub(super) const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Media types by which clients request it; kubectl uses the older one, with `@`.
pub(super) const ACCEPTED_V2: [&str; 2] = ["application/com.github.proto-openapi.spec.v2@v1.0+protobuf", MEDIA_TYPE];

/// A message being encoded.
#[derive(Default)]
pub(super) struct MessageWriter(Vec<u8>);

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

    /// Appends the fields of another message.
    pub(super) fn append(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn text(&mut self, field: u64, content: &str) {
        self.bytes(field, content.as_bytes());
    }

    pub(super) fn message(&mut self, field: u64, content: &MessageWriter) {
        self.bytes(field, &content.0);
    }

    pub(super) fn flag(&mut self, field: u64, on: bool) {
        self.varint(field << 3);
        self.varint(on.into());
    }

    pub(super) fn number(&mut self, field: u64, number: i64) {
        self.varint(field << 3);
        self.varint(number.cast_unsigned());
    }

    pub(super) fn double(&mut self, field: u64, number: f64) {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&number.to_le_bytes());
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
            (name, value) => bound(&mut encoded, name, value),
        }
    }
    encoded
}

/// Encodes what restricts a schema's values.
fn bound(encoded: &mut MessageWriter, name: &str, value: &Value) {
    let number = match name {
        "multipleOf" => 6,
        "maximum" => 7,
        "minimum" => 9,
        "maxLength" => 11,
        "minLength" => 12,
        "maxItems" => 14,
        "minItems" => 15,
        "maxProperties" => 17,
        "minProperties" => 18,
        "exclusiveMaximum" => return encoded.flag(8, *value == true),
        "exclusiveMinimum" => return encoded.flag(10, *value == true),
        "pattern" => return encoded.text(13, value.as_str().unwrap_or_default()),
        "uniqueItems" => return encoded.flag(16, *value == true),
        "externalDocs" => {
            let mut docs = MessageWriter::default();
            for (number, field) in [(1, "description"), (2, "url")] {
                if let Some(text) = value[field].as_str() {
                    docs.text(number, text);
                }
            }
            return encoded.message(29, &docs);
        }
        "example" => return encoded.message(30, &any(value)),
        _ => return,
    };
    match number {
        6 | 7 | 9 => encoded.double(number, value.as_f64().unwrap_or_default()),
        _ => encoded.number(number, value.as_i64().unwrap_or_default()),
    }
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

/// Encodes a value as YAML.
pub(super) fn any(value: &Value) -> MessageWriter {
    let mut encoded = MessageWriter::default();
    encoded.text(2, &yaml::to_string(value));
    encoded
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

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

    #[rstest]
    #[case::pattern(json!({"pattern": "a|b"}), b"\x6a\x03a|b")]
    #[case::length(json!({"maxLength": 300}), b"\x58\xac\x02")]
    #[case::items(json!({"minItems": 1, "uniqueItems": true}), b"\x78\x01\x80\x01\x01")]
    #[case::properties(json!({"maxProperties": 2}), b"\x88\x01\x02")]
    #[case::bounds(json!({"exclusiveMinimum": true, "minimum": 0.5}), b"\x50\x01\x49\0\0\0\0\0\0\xe0\x3f")]
    #[case::documents(json!({"externalDocs": {"url": "u"}}), b"\xea\x01\x03\x12\x01u")]
    fn restrictions(#[case] of: Value, #[case] expected: &[u8]) {
        assert_eq!(schema(&of).0, expected);
    }

    #[test]
    fn long_texts_have_long_lengths() {
        let mut message = MessageWriter::default();
        message.text(1, &"x".repeat(300));
        assert_eq!(message.0.get(..3), Some([0x0a, 0xac, 0x02].as_slice()));
    }
}
