//! Encodes documents of OpenAPI v3 as protobuf. See `ToV3ProtoBinary` in `kube-openapi/pkg/handler3/handler.go`. PURE.
//!
//! The messages are those of gnostic's `OpenAPIv3.proto`, as far as Kubernetes' documents have them. Fields are in the
//! order of their numbers, and values that are zero are absent, as Go encodes them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::protobuf::{MessageWriter, any};
use crate::json::Value;

/// Media type of the reply.
pub(super) const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// Media types by which clients request it.
pub(super) const ACCEPTED: [&str; 2] = ["application/com.github.proto-openapi.spec.v3@v1.0+protobuf", MEDIA_TYPE];

/// Messages: the name, and for each field its name in JSON, its number and its type. A type is a scalar (`text`,
/// `flag`, `whole`, `float`, `any`, and `default`, `items` and `additional`, which have shapes of their own), a
/// message, `?` and a message that a reference may replace, or `[]` and the type of the items. The field `*` means all
/// others, which become named values; extensions (`x-`) are such values in each message with a field of that name.
const MESSAGES: &str = "
Document openapi:1:text info:2:Info paths:4:Paths components:5:Components x-:9:any
Info title:1:text description:2:text version:6:text x-:7:any
Paths *:1:PathItem x-:2:any
PathItem summary:2:text description:3:text get:4:Operation put:5:Operation post:6:Operation delete:7:Operation \
options:8:Operation head:9:Operation patch:10:Operation trace:11:Operation parameters:13:[]?Parameter x-:14:any
Operation tags:1:[]text summary:2:text description:3:text externalDocs:4:ExternalDocs operationId:5:text \
parameters:6:[]?Parameter requestBody:7:?RequestBody responses:8:Responses deprecated:10:flag x-:13:any
Parameter name:1:text in:2:text description:3:text required:4:flag deprecated:5:flag allowEmptyValue:6:flag \
style:7:text explode:8:flag allowReserved:9:flag schema:10:?Schema example:11:any content:13:MediaTypes x-:14:any
RequestBody description:1:text content:2:MediaTypes required:3:flag x-:4:any
Responses default:1:?Response *:2:?Response x-:3:any
Response description:1:text content:3:MediaTypes x-:5:any
MediaTypes *:1:MediaType
MediaType schema:1:?Schema example:2:any x-:5:any
Components schemas:1:Schemas x-:10:any
Schemas *:1:?Schema
ExternalDocs description:1:text url:2:text x-:3:any
Schema nullable:1:flag readOnly:3:flag writeOnly:4:flag externalDocs:6:ExternalDocs example:7:any deprecated:8:flag \
title:9:text multipleOf:10:float maximum:11:float exclusiveMaximum:12:flag minimum:13:float exclusiveMinimum:14:flag \
maxLength:15:whole minLength:16:whole pattern:17:text maxItems:18:whole minItems:19:whole uniqueItems:20:flag \
maxProperties:21:whole minProperties:22:whole required:23:[]text enum:24:[]any type:25:text allOf:26:[]?Schema \
oneOf:27:[]?Schema anyOf:28:[]?Schema not:29:Schema items:30:items properties:31:Schemas \
additionalProperties:32:additional default:33:default description:34:text format:35:text x-:36:any
";

/// A field: its number and its type.
type Field = (u64, &'static str);

/// The fields of each message.
static FIELDS: LazyLock<BTreeMap<&str, BTreeMap<&str, Field>>> = LazyLock::new(|| {
    let field = |text: &'static str| {
        let mut parts = text.rsplitn(3, ':');
        let (kind, number) = (parts.next()?, parts.next()?.parse().ok()?);
        Some((parts.next()?, (number, kind)))
    };
    let message = |line: &'static str| {
        let (name, fields) = line.split_once(' ')?;
        Some((name, fields.split(' ').filter_map(field).collect()))
    };
    MESSAGES.lines().filter_map(message).collect()
});

/// Encodes a document.
pub(super) fn document(document: &Value) -> Vec<u8> {
    message("Document", document).into_bytes()
}

/// Encodes an object as a message.
fn message(name: &str, object: &Value) -> MessageWriter {
    let mut found: Vec<(u64, MessageWriter)> = Vec::new();
    let known = FIELDS.get(name);
    for (key, value) in object.as_object().into_iter().flatten() {
        let Some(known) = known else { break };
        let key = key.as_str();
        let mut encoded = MessageWriter::default();
        let number = if let Some((number, kind)) = known.get(key) {
            field(&mut encoded, *number, kind, value);
            *number
        } else {
            let all = if key.starts_with("x-") { "x-" } else { "*" };
            let Some((number, kind)) = known.get(all) else { continue };
            let mut pair = MessageWriter::default();
            pair.text(1, key);
            field(&mut pair, 2, kind, value);
            encoded.message(*number, &pair);
            *number
        };
        found.push((number, encoded));
    }
    found.sort_by_key(|(number, _)| *number);
    let mut whole = MessageWriter::default();
    for (_, encoded) in &found {
        whole.append(encoded);
    }
    whole
}

/// Appends a field, unless it has the zero value.
fn field(to: &mut MessageWriter, number: u64, kind: &str, value: &Value) {
    if let Some(kind) = kind.strip_prefix("[]") {
        for item in value.as_array().into_iter().flatten() {
            field(to, number, kind, item);
        }
        return;
    }
    match (kind, value) {
        ("text", Value::String(text)) if !text.is_empty() => to.text(number, text),
        ("flag", Value::Bool(true)) => to.flag(number, true),
        ("whole", Value::Number(whole)) => {
            if let Some(whole) = whole.as_i64().filter(|whole| *whole != 0) {
                to.number(number, whole);
            }
        }
        ("float", Value::Number(float)) => {
            if let Some(float) = float.as_f64().filter(|float| *float != 0.0) {
                to.double(number, float);
            }
        }
        ("text" | "flag" | "whole" | "float", _) => {}
        ("any", value) => to.message(number, &any(value)),
        ("default", value) => to.message(number, &default(value)),
        ("items", value) => {
            let mut items = MessageWriter::default();
            field(&mut items, 1, "?Schema", value);
            to.message(number, &items);
        }
        ("additional", Value::Bool(on)) => {
            let mut either = MessageWriter::default();
            either.flag(2, *on);
            to.message(number, &either);
        }
        ("additional", schema) => {
            let mut either = MessageWriter::default();
            field(&mut either, 1, "?Schema", schema);
            to.message(number, &either);
        }
        (name, value) => to.message(number, &own_or_reference(name, value)),
    }
}

/// Encodes a message; if the name begins with `?`, as an alternative to a reference.
fn own_or_reference(name: &str, value: &Value) -> MessageWriter {
    let Some(name) = name.strip_prefix('?') else { return message(name, value) };
    let mut either = MessageWriter::default();
    if let Some(target) = value["$ref"].as_str() {
        let mut reference = MessageWriter::default();
        reference.text(1, target);
        for (number, field) in [(2, "summary"), (3, "description")] {
            if let Some(text) = value[field].as_str() {
                reference.text(number, text);
            }
        }
        either.message(2, &reference);
    } else {
        either.message(1, &message(name, value));
    }
    either
}

/// Encodes a default. Those that are lists or objects are present, but empty.
fn default(value: &Value) -> MessageWriter {
    let mut encoded = MessageWriter::default();
    match value {
        Value::Number(number) => encoded.double(1, number.as_f64().unwrap_or_default()),
        Value::Bool(on) => encoded.flag(2, *on),
        Value::String(text) => encoded.text(3, text),
        _ => {}
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    /// Encoded by hand from the field numbers of gnostic's `OpenAPIv3.proto`.
    #[test]
    fn small_messages_byte_by_byte() {
        let schema = |schema: Value| message("Schema", &schema).into_bytes();
        let integer = b"\xca\x01\x07integer";
        let property = [b"\xfa\x01\x13\x0a\x11\x0a\x01p\x12\x0c\x0a\x0a".as_slice(), integer].concat();
        let extended = [property.as_slice(), b"\xa2\x02\x0e\x0a\x03x-a\x12\x07\x12\x05true\x0a"].concat();
        let cases: [(Value, &[u8]); 9] = [
            (json!({"type": "object", "nullable": true, "description": ""}), b"\x08\x01\xca\x01\x06object"),
            (json!({"maxLength": 300, "minLength": 0, "minimum": 0.5}), b"\x69\0\0\0\0\0\0\xe0\x3f\x78\xac\x02"),
            (json!({"items": {"$ref": "#/a"}}), b"\xf2\x01\x09\x0a\x07\x12\x05\x0a\x03#/a"),
            (json!({"default": {}}), b"\x8a\x02\x00"),
            (json!({"default": false}), b"\x8a\x02\x02\x10\x00"),
            (json!({"default": "a"}), b"\x8a\x02\x03\x1a\x01a"),
            (json!({"additionalProperties": false}), b"\x82\x02\x02\x10\x00"),
            (json!({"required": ["a", "b"], "enum": ["c"]}), b"\xba\x01\x01a\xba\x01\x01b\xc2\x01\x04\x12\x02c\x0a"),
            (json!({"properties": {"p": {"type": "integer"}}, "x-a": true}), &extended),
        ];
        for (value, expected) in cases {
            assert_eq!(schema(value.clone()), expected, "{value}");
        }
        let whole =
            json!({"openapi": "3.0.0", "paths": {"/a": {"get": {"responses": {"200": {"description": "OK"}}}}}});
        let operation = b"\x42\x0f\x12\x0d\x0a\x03200\x12\x06\x0a\x04\x0a\x02OK";
        let item = [b"\x22\x11".as_slice(), operation].concat();
        let path = [b"\x0a\x02/a\x12\x13".as_slice(), &item].concat();
        let paths = [b"\x0a\x19".as_slice(), &path].concat();
        assert_eq!(document(&whole), [b"\x0a\x053.0.0\x22\x1b".as_slice(), &paths].concat());
    }
}
