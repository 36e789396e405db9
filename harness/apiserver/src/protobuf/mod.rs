//! Converts request bodies in protobuf, as typed Go clients send them, to JSON. Follows
//! `staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go` of Kubernetes 1.36. PURE.
//!
//! Replies to clients that prefer protobuf are made by [`from_json`] and its neighbours. `protobuf/fields.txt` lists
//! the field numbers, one line per message: `Name: number field type; …`; `legacy.txt` adds the messages of removed
//! versions that differ. A type is a message of the same package, `package.Name`, `[]T`, `{}T` (map by string) or a
//! scalar; the field `&` inlines a message.
//!
//! This is own code because `prost-reflect` would decode into messages of its own, from which the JSON of Kubernetes
//! (quantities, times, `IntOrString`, raw objects, maps in the order of their keys) has to be made in a second step,
//! and because it needs the descriptors of all packages, several times as large as the table.

mod encode;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;

use super::schema::{ZERO_TIME, schema_of};
use crate::json::{Map, Value, json};

pub(crate) use encode::{ListPieces, envelope, event_frame, from_json, object_message};

/// Media type of the frames of a watch.
pub(crate) const STREAM_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Media type of protobuf bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Prefix of every body.
const MAGIC: &[u8] = b"k8s\0";

/// Deepest message that is decoded. A schema in a definition is two messages on each level.
const MAX_DEPTH: usize = 200;

/// The reason why a body cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    /// The prefix is missing.
    #[error("the body does not begin with the protobuf prefix of Kubernetes")]
    Prefix,
    /// The message is truncated or nested too deeply.
    #[error("the protobuf message is malformed")]
    Malformed,
    /// An embedded object (`RawExtension`) is no JSON.
    #[error("an embedded object is no JSON")]
    Raw,
    /// The kind is unknown.
    #[error("no protobuf message is known for kind {kind:?} in {api_version:?}")]
    Unknown {
        /// `kind` of the envelope.
        kind: String,
        /// `apiVersion` of the envelope.
        api_version: String,
    },
}

#[derive(Debug)]
struct FieldType {
    name: &'static str,
    kind: &'static str,
}

type MessageFields = BTreeMap<u64, FieldType>;

static MESSAGES: LazyLock<BTreeMap<(&'static str, &'static str), MessageFields>> = LazyLock::new(|| {
    let mut messages = BTreeMap::new();
    let mut package = "";
    for line in include_str!("fields.txt").lines().chain(include_str!("legacy.txt").lines()) {
        if let Some(name) = line.strip_prefix("# ") {
            package = name;
        } else if let Some((name, body)) = line.split_once(':') {
            let fields = body.split(';').filter_map(|field| {
                let mut words = field.split_whitespace();
                let number = words.next()?.parse().ok()?;
                Some((number, FieldType { name: words.next()?, kind: words.next()? }))
            });
            messages.insert((package, name), fields.collect());
        }
    }
    messages
});

/// Returns the JSON text of a body.
///
/// # Errors
///
/// The body is malformed or of an unknown kind.
pub(crate) fn to_json(body: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    let Envelope { api_version, kind, raw } = Envelope::read(body)?;
    let unknown = || ProtobufError::Unknown { kind: kind.clone(), api_version: api_version.clone() };
    let (package, name) = find_message(&api_version, &kind).ok_or_else(unknown)?;
    let mut object = Value::Object(message(package, name, raw, 0)?);
    object["kind"] = json!(kind);
    object["apiVersion"] = json!(api_version);
    if let Some(schema) = schema_of(&api_version, &kind) {
        schema.normalize(&mut object);
    }
    serde_json::to_vec(&object).map_err(|_| ProtobufError::Malformed)
}

/// Returns the kind of the object in a body; `None` if the body is malformed.
pub(crate) fn kind_of(body: &[u8]) -> Option<String> {
    Envelope::read(body).ok().map(|envelope| envelope.kind)
}

/// `runtime.Unknown`, which wraps each object.
struct Envelope<'b> {
    api_version: String,
    kind: String,
    raw: &'b [u8],
}

impl<'b> Envelope<'b> {
    fn read(body: &'b [u8]) -> Result<Self, ProtobufError> {
        let mut envelope = WireReader { rest: body.strip_prefix(MAGIC).ok_or(ProtobufError::Prefix)? };
        let mut found = Self { api_version: String::new(), kind: String::new(), raw: &[] };
        while let Some((number, value)) = envelope.next()? {
            match (number, value) {
                (1, WireValue::Bytes(bytes)) => {
                    let mut types = WireReader { rest: bytes };
                    while let Some((number, value)) = types.next()? {
                        match (number, value) {
                            (1, WireValue::Bytes(text)) => found.api_version = utf8(text)?,
                            (2, WireValue::Bytes(text)) => found.kind = utf8(text)?,
                            _ => {}
                        }
                    }
                }
                (2, WireValue::Bytes(bytes)) => found.raw = bytes,
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Returns package and name of the message of a kind.
fn find_message(api_version: &str, kind: &str) -> Option<(&'static str, &'static str)> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let package = match (group.split('.').next().unwrap_or_default(), version) {
        ("", _) => "core",
        ("autoscaling", "v2" | "v2beta2") => "autoscalingv2",
        ("apiextensions", "v1beta1") => "apiextensionsv1beta1",
        ("networking", "v1beta1") => "networkingv1beta1",
        (first, _) => first,
    };
    let known = |package: &str| MESSAGES.keys().find(|(known, name)| *known == package && *name == kind).copied();
    known(package).or_else(|| known("meta"))
}

fn utf8(bytes: &[u8]) -> Result<String, ProtobufError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| ProtobufError::Malformed)
}

/// A value on the wire.
#[derive(Debug, Clone, Copy)]
enum WireValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

struct WireReader<'a> {
    rest: &'a [u8],
}

impl<'a> WireReader<'a> {
    fn next(&mut self) -> Result<Option<(u64, WireValue<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => WireValue::Number(self.varint()?),
            1 => WireValue::Number(u64::from_le_bytes(self.take(8)?.try_into().map_err(|_| ProtobufError::Malformed)?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Malformed)?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => WireValue::Number(
                u32::from_le_bytes(self.take(4)?.try_into().map_err(|_| ProtobufError::Malformed)?).into(),
            ),
            _ => return Err(ProtobufError::Malformed),
        };
        Ok(Some((tag >> 3, value)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(ProtobufError::Malformed)
    }
}

fn message(package: &'static str, name: &'static str, bytes: &[u8], depth: usize) -> Result<Map, ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::Malformed);
    }
    let mut fields = Map::new();
    let Some(known) = MESSAGES.get(&(package, name)) else { return Ok(fields) };
    let mut reader = WireReader { rest: bytes };
    while let Some((number, wire)) = reader.next()? {
        let Some(field) = known.get(&number) else { continue };
        if name == "JSONSchemaProps" && is_unset(field, wire) {
            continue;
        }
        if let Some(item) = field.kind.strip_prefix("[]") {
            let list = fields.entry(field.name).or_insert_with(|| json!([]));
            let value = value(package, item, wire, depth)?;
            list.as_array_mut().ok_or(ProtobufError::Malformed)?.push(value);
        } else if let Some(item) = field.kind.strip_prefix("{}") {
            let (key, value) = entry(package, item, wire, depth)?;
            let map = fields.entry(field.name).or_insert_with(|| json!({}));
            map.as_object_mut().ok_or(ProtobufError::Malformed)?.insert(key, value);
        } else {
            let value = value(package, field.kind, wire, depth)?;
            match (field.name, value) {
                ("&", Value::Object(inner)) => fields.extend(inner),
                (_, Value::Null) => {}
                (name, value) => {
                    fields.insert(name.to_owned(), value);
                }
            }
        }
    }
    Ok(fields)
}

/// Returns true for a text or flag of a schema that Go's encoder writes although it is not set. Elsewhere the type of
/// the field says so, but not below `items` and the like, which hold a schema or something else.
fn is_unset(field: &FieldType, wire: WireValue<'_>) -> bool {
    const POINTERS: [&str; 4] =
        ["$ref", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields"];
    let is_zero = matches!((field.kind, wire), ("bool", WireValue::Number(0)) | ("string", WireValue::Bytes([])));
    is_zero && !POINTERS.contains(&field.name)
}

/// Decodes one entry of a map: its key and its value.
fn entry(
    package: &'static str,
    kind: &'static str,
    wire: WireValue<'_>,
    depth: usize,
) -> Result<(String, Value), ProtobufError> {
    let WireValue::Bytes(bytes) = wire else { return Err(ProtobufError::Malformed) };
    let mut key = String::new();
    let mut found = None;
    let mut reader = WireReader { rest: bytes };
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, WireValue::Bytes(text)) => key = utf8(text)?,
            (2, wire) => found = Some(value(package, kind, wire, depth)?),
            _ => {}
        }
    }
    Ok((key, found.unwrap_or_else(|| json!(""))))
}

fn value(package: &'static str, kind: &'static str, wire: WireValue<'_>, depth: usize) -> Result<Value, ProtobufError> {
    let (home, name) = match kind.split_once('.') {
        Some((home, name)) => (home, name),
        None => (package, kind),
    };
    Ok(match (name, wire) {
        ("bool", WireValue::Number(number)) => json!(number != 0),
        ("int32" | "int64", WireValue::Number(number)) => json!(number.cast_signed()),
        ("double", WireValue::Number(number)) => json!(f64::from_bits(number)),
        ("string", WireValue::Bytes(bytes)) => json!(utf8(bytes)?),
        ("bytes", WireValue::Bytes(bytes)) => json!(BASE64.encode(bytes)),
        ("raw", WireValue::Bytes(bytes)) => match last_field(bytes, 1)? {
            Some(WireValue::Bytes(text)) => serde_json::from_slice(text).map_err(|_| ProtobufError::Raw)?,
            _ => Value::Null,
        },
        ("FieldsV1" | "JSON", WireValue::Bytes(bytes)) => match last_field(bytes, 1)? {
            Some(WireValue::Bytes(text)) if !text.is_empty() => {
                serde_json::from_slice(text).map_err(|_| ProtobufError::Malformed)?
            }
            _ => Value::Null,
        },
        (wrapper, WireValue::Bytes(bytes)) if wrapper.starts_with("JSONSchemaPropsOr") => {
            schema_or_other(package, wrapper, bytes, depth)?
        }
        ("quantity", WireValue::Bytes(bytes)) => match last_field(bytes, 1)? {
            Some(WireValue::Bytes(text)) => json!(utf8(text)?),
            _ => json!("0"),
        },
        ("intorstr", WireValue::Bytes(bytes)) => int_or_string(bytes)?,
        ("Time", WireValue::Bytes(bytes)) => time(bytes, false)?,
        ("MicroTime", WireValue::Bytes(bytes)) => time(bytes, true)?,
        ("ExtraValue", WireValue::Bytes(bytes)) => {
            let mut items = Vec::new();
            let mut reader = WireReader { rest: bytes };
            while let Some((_, wire)) = reader.next()? {
                if let WireValue::Bytes(text) = wire {
                    items.push(json!(utf8(text)?));
                }
            }
            Value::Array(items)
        }
        (name, WireValue::Bytes(bytes)) => Value::Object(message(home, name, bytes, depth + 1)?),
        (_, WireValue::Number(_)) => return Err(ProtobufError::Malformed),
    })
}

/// Decodes `JSONSchemaPropsOrArray`, `JSONSchemaPropsOrBool` or `JSONSchemaPropsOrStringArray`, whose JSON is one of
/// the two.
fn schema_or_other(package: &'static str, wrapper: &str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let schema = |bytes| Ok(Value::Object(message(package, "JSONSchemaProps", bytes, depth + 1)?));
    let mut single = None;
    let mut list = Vec::new();
    let mut allows = false;
    let mut reader = WireReader { rest: bytes };
    while let Some((number, wire)) = reader.next()? {
        match (wrapper, number, wire) {
            ("JSONSchemaPropsOrBool", 1, WireValue::Number(flag)) => allows = flag != 0,
            ("JSONSchemaPropsOrBool", 2, WireValue::Bytes(bytes)) => single = Some(schema(bytes)?),
            ("JSONSchemaPropsOrBool", ..) => {}
            (_, 1, WireValue::Bytes(bytes)) => single = Some(schema(bytes)?),
            ("JSONSchemaPropsOrArray", 2, WireValue::Bytes(bytes)) => list.push(schema(bytes)?),
            (_, 2, WireValue::Bytes(text)) => list.push(json!(utf8(text)?)),
            _ => {}
        }
    }
    Ok(match single {
        Some(schema) => schema,
        None if wrapper == "JSONSchemaPropsOrBool" => json!(allows),
        None => Value::Array(list),
    })
}

/// Returns the last value of a field in a small message.
fn last_field(bytes: &[u8], wanted: u64) -> Result<Option<WireValue<'_>>, ProtobufError> {
    let mut reader = WireReader { rest: bytes };
    let mut found = None;
    while let Some((number, wire)) = reader.next()? {
        if number == wanted {
            found = Some(wire);
        }
    }
    Ok(found)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let is_text = matches!(last_field(bytes, 1)?, Some(WireValue::Number(1)));
    Ok(match (is_text, last_field(bytes, 2)?, last_field(bytes, 3)?) {
        (true, _, Some(WireValue::Bytes(text))) => json!(utf8(text)?),
        (true, ..) => json!(""),
        (false, Some(WireValue::Number(number)), _) => json!(number.cast_signed()),
        (false, ..) => json!(0),
    })
}

/// Decodes a time; an empty message is null, as is the zero time.
fn time(bytes: &[u8], micro: bool) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let number = |field| -> Result<i64, ProtobufError> {
        Ok(match last_field(bytes, field)? {
            Some(WireValue::Number(number)) => number.cast_signed(),
            _ => 0,
        })
    };
    let nanos = i32::try_from(number(2)?).map_err(|_| ProtobufError::Malformed)?;
    let moment = Timestamp::new(number(1)?, if micro { nanos } else { 0 }).map_err(|_| ProtobufError::Malformed)?;
    if moment == ZERO_TIME {
        return Ok(Value::Null);
    }
    Ok(if micro { json!(format!("{moment:.6}")) } else { json!(format!("{moment:.0}")) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn tag(number: u8) -> Vec<u8> {
        let first = number << 3 | 2;
        if number < 16 { vec![first] } else { vec![first | 0x80, number >> 4] }
    }

    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&tag(number), &[length][..], content].concat()
    }

    fn number(field: u8, value: u8) -> Vec<u8> {
        vec![field << 3, value]
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &types), bytes(2, raw), bytes(3, b""), bytes(4, b"")].concat()
    }

    fn decoded(api_version: &str, kind: &str, raw: &[u8]) -> Value {
        serde_json::from_slice(&to_json(&envelope(api_version, kind, raw)).unwrap()).unwrap()
    }

    #[test]
    fn a_config_map() {
        let metadata =
            [bytes(1, b"a"), bytes(2, b""), bytes(8, b""), bytes(11, &[bytes(1, b"k"), bytes(2, b"v")].concat())]
                .concat();
        let data = [bytes(1, b"x"), bytes(2, b"y")].concat();
        let raw = [bytes(1, &metadata), bytes(2, &data)].concat();
        let object = decoded("v1", "ConfigMap", &raw);
        assert_eq!(object["metadata"]["name"], "a");
        assert_eq!(object["metadata"]["labels"], json!({"k": "v"}));
        assert_eq!(object["metadata"].get("generateName"), None);
        assert_eq!(object["data"], json!({"x": "y"}));
    }

    #[test]
    fn inline_messages_int_or_strings_and_times() {
        let probe_port = bytes(2, &[number(1, 0), number(2, 80), bytes(3, b"")].concat());
        let handler = bytes(1, &bytes(2, &probe_port));
        let container = [bytes(1, b"c"), bytes(10, &handler)].concat();
        let metadata = [bytes(1, b"p"), bytes(8, &[number(1, 100), number(2, 0)].concat())].concat();
        let raw = [bytes(1, &metadata), bytes(2, &bytes(2, &container))].concat();
        let pod = decoded("v1", "Pod", &raw);
        assert_eq!(pod["spec"]["containers"][0]["livenessProbe"]["httpGet"]["port"], 80);
        assert_eq!(pod["metadata"]["creationTimestamp"], "1970-01-01T00:01:40Z");
    }

    #[test]
    fn explicit_zeroes_of_pointers_stay() {
        let raw = [bytes(1, &bytes(1, b"d")), bytes(2, &number(1, 0))].concat();
        assert_eq!(decoded("apps/v1", "Deployment", &raw)["spec"]["replicas"], 0);
        assert_eq!(decoded("policy/v1", "DeleteOptions", &number(1, 0))["gracePeriodSeconds"], 0);
    }

    /// A message with another length than a short one.
    fn long(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len() & 0x7f).unwrap() | 0x80;
        [&tag(number), &[length, u8::try_from(content.len() >> 7).unwrap()][..], content].concat()
    }

    /// Field numbers are those of `generated.proto` of apiextensions.k8s.io/v1.
    #[test]
    fn a_definition_with_its_schema() {
        let property = |name: &[u8], schema: &[u8]| bytes(29, &[bytes(1, name), bytes(2, schema)].concat());
        let count = [bytes(5, b"integer"), bytes(8, &bytes(1, b"3"))].concat();
        // Go's encoder writes `exclusiveMaximum`, `nullable` and the like also when they are not set.
        let item = [bytes(1, b""), bytes(5, b"string"), number(10, 0)].concat();
        let items = [bytes(5, b"array"), bytes(24, &bytes(1, &item))].concat();
        let any = [bytes(5, b"object"), bytes(30, &number(1, 1))].concat();
        let root = [bytes(5, b"object"), property(b"n", &count), property(b"l", &items), property(b"m", &any)].concat();
        let version = [bytes(1, b"v1"), number(2, 1), number(3, 1), long(4, &long(1, &root))].concat();
        let names = [bytes(1, b"things"), bytes(4, b"Thing")].concat();
        let spec = [bytes(1, b"example.com"), bytes(3, &names), bytes(4, b"Cluster"), long(7, &version)].concat();
        let raw = [bytes(1, &bytes(1, b"things.example.com")), long(2, &spec)].concat();
        let types = [bytes(1, b"apiextensions.k8s.io/v1"), bytes(2, b"CustomResourceDefinition")].concat();
        let body = [MAGIC.to_vec(), bytes(1, &types), long(2, &raw)].concat();
        let object: Value = serde_json::from_slice(&to_json(&body).unwrap()).unwrap();
        let version = &object["spec"]["versions"][0];
        assert_eq!(
            (&version["name"], &version["served"], &version["storage"]),
            (&json!("v1"), &json!(true), &json!(true))
        );
        let properties = &version["schema"]["openAPIV3Schema"]["properties"];
        assert_eq!(properties["n"], json!({"type": "integer", "default": 3}));
        assert_eq!(properties["l"], json!({"type": "array", "items": {"type": "string"}}));
        assert_eq!(properties["m"], json!({"type": "object", "additionalProperties": true}));
    }

    #[rstest]
    #[case::object(Some("{}"), Ok(json!({})))]
    #[case::absent(None, Ok(Value::Null))]
    #[case::empty(Some(""), Err(ProtobufError::Raw))]
    #[case::open(Some("{"), Err(ProtobufError::Raw))]
    #[case::no_number(Some("1z"), Err(ProtobufError::Raw))]
    fn embedded_objects(#[case] data: Option<&str>, #[case] expected: Result<Value, ProtobufError>) {
        let data = data.map_or_else(Vec::new, |data| bytes(2, &bytes(1, data.as_bytes())));
        let raw = [bytes(1, &bytes(1, b"r")), data, number(3, 1)].concat();
        let read = to_json(&envelope("apps/v1", "ControllerRevision", &raw));
        let read = read.map(|json| serde_json::from_slice::<Value>(&json).unwrap()["data"].clone());
        assert_eq!(read, expected);
    }

    #[rstest]
    #[case::no_prefix(b"{}", ProtobufError::Prefix)]
    #[case::cut(b"k8s\0\x0a\x05v1", ProtobufError::Malformed)]
    #[case::endless_number(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", ProtobufError::Malformed)]
    #[case::group(b"k8s\0\x0b", ProtobufError::Malformed)]
    fn bad_bodies(#[case] body: &[u8], #[case] error: ProtobufError) {
        assert_eq!(to_json(body), Err(error));
    }

    const KINDS: [(&str, &str); 5] = [
        ("v1", "Pod"),
        ("apps/v1", "Deployment"),
        ("policy/v1", "PodDisruptionBudget"),
        ("v1", "DeleteOptions"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ];

    proptest::proptest! {
        #[test]
        fn no_body_makes_it_panic(raw in proptest::collection::vec(proptest::num::u8::ANY, 0..300), kind in 0..5_usize) {
            let (group, kind) = KINDS[kind];
            let types = [bytes(1, group.as_bytes()), bytes(2, kind.as_bytes())].concat();
            let mut body = [MAGIC.to_vec(), bytes(1, &types), vec![0x12]].concat();
            let mut length = raw.len();
            while length >= 0x80 {
                body.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
                length >>= 7;
            }
            body.push(u8::try_from(length).unwrap());
            body.extend(&raw);
            let _ = to_json(&body);
            let _ = to_json(&raw);
        }
    }

    #[test]
    fn unknown_kinds_are_named() {
        let error = to_json(&envelope("x/v1", "Thing", b"")).unwrap_err();
        assert_eq!(error.to_string(), "no protobuf message is known for kind \"Thing\" in \"x/v1\"");
    }

    #[test]
    fn every_type_in_the_table_is_known() {
        for ((package, _), fields) in MESSAGES.iter() {
            for field in fields.values() {
                let kind = field.kind.trim_start_matches("[]").trim_start_matches("{}");
                let (home, name) = kind.split_once('.').unwrap_or((package, kind));
                let scalar = [
                    "string",
                    "bytes",
                    "bool",
                    "int32",
                    "int64",
                    "double",
                    "quantity",
                    "intorstr",
                    "raw",
                    "Time",
                    "MicroTime",
                    "FieldsV1",
                    "ExtraValue",
                    "Verbs",
                    "JSON",
                    "JSONSchemaPropsOrArray",
                    "JSONSchemaPropsOrBool",
                    "JSONSchemaPropsOrStringArray",
                ];
                assert!(scalar.contains(&name) || MESSAGES.contains_key(&(home, name)), "{package}: {kind}");
            }
        }
    }
}
