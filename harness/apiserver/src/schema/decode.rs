//! Typed JSON decoding with strict field checks: collects unknown and duplicate fields and rejects wrong types.
//!
//! Messages agree with Go's `encoding/json` as kube-apiserver uses it through `sigs.k8s.io/json`
//! (`staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{LazyLock, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::pull_parser::{JsonToken, PullParser, SyntaxError, TOO_DEEP, operation_values};
use super::scalar;
use super::structural::{PRUNED, UNKNOWN};
use super::types::{
    ElementRelationship, ListType, MapType, Scalar, Schema, SchemaForm, StructField, StructType, Type, TypeKind,
    TypeRef,
};
use crate::json::{Key, Map, Number, Value};
use crate::status::go_quote;

/// Maximum number of strict errors per body, which is upstream's limit too.
const MAX_STRICT_ERRORS: usize = 100;

/// A decoded body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecodedBody {
    /// The object, without undeclared fields.
    pub value: Value,
    /// `unknown field "spec.foo"` and `duplicate field "spec.foo"`, in order of appearance.
    pub strict: Vec<String>,
}

/// The body is not an object of the type. The message is upstream's, without the prefix that names version and kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct DecodeError {
    /// The message.
    pub message: String,
    /// The text is not JSON.
    pub syntax: bool,
}

impl DecodeError {
    /// Returns true if the text nests too deeply.
    pub(crate) fn too_deep(&self) -> bool {
        self.syntax && self.message.ends_with(TOO_DEEP)
    }
}

impl From<SyntaxError> for DecodeError {
    fn from(error: SyntaxError) -> Self {
        Self { message: error.0, syntax: true }
    }
}

impl Schema {
    /// Decodes a JSON body of the root type and normalizes it ([`Schema::normalize`]).
    pub(crate) fn decode(&self, text: &[u8]) -> Result<DecodedBody, DecodeError> {
        let mut decoded = Decoder::new(text, Some(self)).run(self.root())?;
        self.normalize(&mut decoded.value);
        Ok(decoded)
    }

    /// Decodes `text` as the root's field `name` and sets it in `object`. Returns false, leaving `object` as it is,
    /// if the field is undeclared or the text has any error, strict ones included.
    pub(crate) fn decode_field(&self, name: &str, text: &[u8], object: &mut Map) -> bool {
        let Some(field) = self.root_struct().and_then(|root| root.field(name)) else { return false };
        let mut decoder = Decoder::new(text, Some(self));
        decoder.reader = PullParser::for_field(text);
        let Ok(decoded) = decoder.run(field.ty) else { return false };
        if !decoded.strict.is_empty() {
            return false;
        }
        match self.normalized_field(field, decoded.value) {
            Some(value) => object.insert(field.name.clone(), value),
            None => object.remove(name),
        };
        true
    }

    /// Decodes a value, such as the result of a patch, as if it had been sent as a body.
    pub(crate) fn convert(&self, value: &Value) -> Result<DecodedBody, DecodeError> {
        // Through text and the same reader, so that the messages cannot diverge.
        self.decode(value.to_string().as_bytes())
    }
}

/// Decodes JSON without a type; only duplicate fields are reported.
pub(crate) fn decode_untyped(text: &[u8]) -> Result<DecodedBody, DecodeError> {
    let mut decoder = Decoder::new(text, None);
    let value = decoder.any()?;
    decoder.reader.end()?;
    Ok(DecodedBody { value, strict: decoder.strict })
}

/// Decodes the body of a JSON patch, a list of operations; unknown and duplicate fields are reported.
pub(crate) fn decode_json_patch(text: &[u8]) -> Result<DecodedBody, DecodeError> {
    static OPERATIONS: LazyLock<Schema> = LazyLock::new(|| {
        let string = |name: &str| StructField::plain(name, TypeRef(2));
        let fields = vec![string("from"), string("op"), string("path"), StructField::plain("value", TypeRef(3))].into();
        let ty = |go: &str, shape| Type { go: go.into(), shape };
        let list = ListType { items: TypeRef(1), topology: ElementRelationship::Atomic };
        let types = vec![
            ty("[]handlers.jsonPatchOp", TypeKind::List(list)),
            ty("handlers.jsonPatchOp", TypeKind::Struct(StructType { fields, ..StructType::default() })),
            ty("string", TypeKind::Scalar(Scalar::String)),
            ty("interface {}", TypeKind::Any),
        ];
        Schema { types, structural: false, empty: OnceLock::new() }
    });
    Decoder::new(text, Some(&OPERATIONS)).run(TypeRef(0))
}

/// Decodes a JSON patch as `DecodePatch` of `gopkg.in/evanphx/json-patch.v4` does; `null` is a patch without
/// operations.
pub(crate) fn decode_patch_operations(text: &[u8]) -> Result<Vec<Value>, DecodeError> {
    static OPERATIONS: LazyLock<Schema> = LazyLock::new(|| {
        let ty = |go: &str, shape| Type { go: go.into(), shape };
        let list = ListType { items: TypeRef(1), topology: ElementRelationship::Atomic };
        let types = vec![
            ty("jsonpatch.Patch", TypeKind::List(list)),
            ty("jsonpatch.Operation", TypeKind::Map(MapType { values: TypeRef(2), atomic: true })),
            ty("json.RawMessage", TypeKind::Any),
        ];
        Schema { types, structural: false, empty: OnceLock::new() }
    });
    match Decoder::new(text, Some(&OPERATIONS)).run(TypeRef(0))?.value {
        Value::Array(operations) => Ok(operations),
        _ => Ok(Vec::new()),
    }
}

/// Returns the `value`s of a JSON patch's operations as they were sent (fields in their order), for messages.
pub(crate) fn json_patch_values(text: &[u8]) -> Vec<Option<String>> {
    operation_values(text).unwrap_or_default()
}

/// A part of the path of a value.
enum PathPart<'a> {
    /// A declared field.
    Field(&'a StructField),
    /// Another member of an object.
    Key(Cow<'a, str>),
    /// An item of a list.
    Index(usize),
}

/// Returns the value of a field that an object has twice. Go decodes the second one into the first: the fields of
/// structs and the keys of maps add up.
fn merge_repeated(schema: &Schema, ty: TypeRef, before: Option<Value>, value: Value) -> Value {
    let Some(before) = before.filter(|_| !schema.structural) else { return value };
    match (schema.shape(ty), before, value) {
        (TypeKind::Struct(shape), Value::Object(mut merged), Value::Object(again)) => {
            for (name, value) in again {
                let before = merged.remove(&name);
                let ty = shape.field(&name).map(|field| field.ty).or(shape.additional);
                let value = ty.map(|ty| merge_repeated(schema, ty, before, value.clone())).unwrap_or(value);
                merged.insert(name, value);
            }
            Value::Object(merged)
        }
        (TypeKind::Map(_), Value::Object(mut merged), Value::Object(again)) => {
            merged.extend(again);
            Value::Object(merged)
        }
        (_, _, value) => value,
    }
}

struct Decoder<'a> {
    reader: PullParser<'a>,
    schema: Option<&'a Schema>,
    strict: Vec<String>,
    /// Path of the current value. It becomes text only for errors.
    path: Vec<PathPart<'a>>,
    /// Go name, with its package, of the innermost struct that has the current field.
    owner: &'a str,
    /// The first type error.
    saved: Option<String>,
    /// The first error of a type with its own `UnmarshalJSON`. Upstream stops there, so it takes precedence over type
    /// errors.
    fatal: Option<String>,
    /// Set inside a `RawExtension`, which upstream does not decode.
    raw: bool,
    /// Set inside a type whose `UnmarshalJSON` calls the decoder again: the owner of the outermost such field, which
    /// type errors name. That decoder is not strict.
    nested: Option<&'a str>,
}

impl<'a> Decoder<'a> {
    fn new(text: &'a [u8], schema: Option<&'a Schema>) -> Self {
        Self {
            reader: PullParser::new(text),
            schema,
            strict: Vec::new(),
            path: Vec::new(),
            owner: "",
            saved: None,
            fatal: None,
            raw: false,
            nested: None,
        }
    }

    fn run(mut self, ty: TypeRef) -> Result<DecodedBody, DecodeError> {
        let value = self.value(ty)?;
        self.reader.end()?;
        if let Some(message) = self.fatal.or(self.saved) {
            return Err(DecodeError { message, syntax: false });
        }
        // A body of `null` is an object without fields.
        let value = if value.is_null() { Value::Object(Map::new()) } else { value };
        Ok(DecodedBody { value, strict: self.strict })
    }

    /// Returns the path of the member `name` of the current value, in the format of strict errors.
    fn path_of(&self, name: &str) -> String {
        let mut path = String::new();
        for part in &self.path {
            let name = match part {
                PathPart::Field(field) => field.name.as_str(),
                PathPart::Key(name) => name,
                PathPart::Index(at) => {
                    // Writing to a String cannot fail.
                    _ = write!(path, "[{at}]");
                    continue;
                }
            };
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
        }
        if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
    }

    /// Returns the path of the current field in the format of type errors.
    fn fields(&self) -> String {
        let mut fields = String::new();
        for part in &self.path {
            let PathPart::Field(field) = part else { continue };
            if !fields.is_empty() {
                fields.push('.');
            }
            fields.push_str(&field.embedded);
            fields.push_str(&field.name);
        }
        fields
    }

    fn strict_error(&mut self, what: &str, name: &str) {
        if self.strict.len() >= MAX_STRICT_ERRORS || self.nested.is_some() {
            return;
        }
        let path = self.path_of(name);
        let error = format!("{what} field {}", go_quote(&path));
        if !self.strict.contains(&error) {
            self.strict.push(error);
        }
    }

    /// Reports a value of the wrong type. For types with their own `UnmarshalJSON` that error ends the decoding.
    fn wrong_type(&mut self, shape: &TypeKind, found: &str, go: &str) {
        match shape {
            TypeKind::Scalar(Scalar::IntOrString) => self.self_decoder_error(found, "int32"),
            TypeKind::Scalar(Scalar::Time | Scalar::MicroTime | Scalar::Duration) => {
                self.self_decoder_error(found, "string");
            }
            _ => self.type_error(found, go),
        }
    }

    fn self_decoder_error(&mut self, found: &str, go: &str) {
        let before = self.saved.take();
        self.type_error(found, go);
        if self.fatal.is_none() {
            self.fatal = self.saved.take();
        }
        self.saved = before;
    }

    fn type_error(&mut self, found: &str, go: &str) {
        if self.saved.is_none() && self.fatal.is_none() {
            let owner = self.nested.unwrap_or(self.owner);
            let owner = owner.rsplit_once('.').map_or(owner, |(_, name)| name);
            let fields = self.fields();
            self.saved = Some(if fields.is_empty() {
                format!("json: cannot unmarshal {found} into Go value of type {go}")
            } else {
                format!("json: cannot unmarshal {found} into Go struct field {owner}.{fields} of type {go}")
            });
        }
    }

    fn fatal_error(&mut self, message: String) {
        self.fatal.get_or_insert(message);
    }

    fn value(&mut self, ty: TypeRef) -> Result<Value, SyntaxError> {
        let Some(schema) = self.schema else { return self.any() };
        let expected = schema.get(ty);
        let token = self.reader.peek()?;
        match (&expected.shape, token) {
            (TypeKind::Any, _) if schema.structural && matches!(&*expected.go, PRUNED | UNKNOWN) => self.unknown(),
            (TypeKind::Any, _) => {
                self.raw = &*expected.go == "runtime.RawExtension";
                let value = self.any();
                self.raw = false;
                value
            }
            (_, JsonToken::Null) => {
                self.reader.literal(token)?;
                Ok(Value::Null)
            }
            (TypeKind::SchemaForm(form), _) => self.schema_form(form, token),
            (TypeKind::Struct(shape), JsonToken::Object) => self.structure(schema, ty, shape),
            (TypeKind::Map(shape), JsonToken::Object) => self.map(true, |decoder| decoder.value(shape.values)),
            (TypeKind::List(list), JsonToken::Array) => self.list(|decoder| decoder.value(list.items)),
            (TypeKind::Scalar(scalar), JsonToken::String | JsonToken::Number | JsonToken::True | JsonToken::False) => {
                self.scalar(*scalar, &expected.go, token)
            }
            // Upstream prunes what is of another type, too, before it is refused.
            _ if schema.structural && &*expected.go == PRUNED => self.unknown(),
            _ if schema.structural => self.any(),
            (TypeKind::Scalar(Scalar::Bytes), JsonToken::Array) => self.byte_list(),
            (TypeKind::Scalar(Scalar::Quantity), _) => {
                self.reader.skip()?;
                self.fatal_error(scalar::QUANTITY_FORMAT.to_owned());
                Ok(Value::Null)
            }
            (shape, _) => {
                self.reader.skip()?;
                let found = match token {
                    JsonToken::Object => "object",
                    JsonToken::Array => "array",
                    JsonToken::String => "string",
                    JsonToken::Number => "number",
                    _ => "bool",
                };
                self.wrong_type(shape, found, &expected.go);
                Ok(Value::Null)
            }
        }
    }

    /// Decodes a schema or what may take its place: the `UnmarshalJSON` of each form in
    /// `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/marshal.go`.
    fn schema_form(&mut self, form: &SchemaForm, token: JsonToken) -> Result<Value, SyntaxError> {
        let ty = match (token, form.list) {
            (JsonToken::Object, _) => form.schema,
            (JsonToken::Array, Some(list)) => list,
            (JsonToken::True | JsonToken::False, None) => return self.any(),
            (_, list) => {
                self.reader.skip()?;
                if list.is_none() {
                    self.fatal_error("boolean or JSON schema expected".to_owned());
                }
                return Ok(Value::Null);
            }
        };
        let (saved, nested) = (self.saved.take(), self.nested);
        self.nested = nested.or(Some(self.owner));
        let value = self.value(ty)?;
        self.nested = nested;
        if let Some(error) = std::mem::replace(&mut self.saved, saved) {
            self.fatal_error(error);
        }
        Ok(value)
    }

    fn structure(&mut self, schema: &'a Schema, ty: TypeRef, shape: &'a StructType) -> Result<Value, SyntaxError> {
        self.reader.enter()?;
        // Few objects have more than eight members.
        let mut map = Map::with_capacity(shape.fields.len().min(8));
        let mut first = true;
        let mut unknown = BTreeSet::new();
        let owner = self.owner;
        while let Some(name) = self.reader.key(&mut first)? {
            let (key, part, value_type) = match (shape.field(&name), shape.additional) {
                (Some(field), _) => {
                    self.owner = &schema.get(ty).go;
                    (field.name.clone(), PathPart::Field(field), field.ty)
                }
                (None, Some(additional)) => (Key::new(&name), PathPart::Key(name.clone()), additional),
                (None, None) => {
                    self.strict_error("unknown", &name);
                    if schema.structural {
                        self.pruned(name, &mut unknown)?;
                    } else {
                        self.reader.skip()?;
                    }
                    continue;
                }
            };
            let before = map.remove(&key);
            if before.is_some() {
                self.strict_error("duplicate", &name);
            }
            self.path.push(part);
            let value = self.value(value_type)?;
            map.insert(key, merge_repeated(schema, value_type, before, value));
            self.path.pop();
            self.owner = owner;
        }
        Ok(Value::Object(map))
    }

    /// Reads a value of which no fields are known, so that they are removed.
    fn unknown(&mut self) -> Result<Value, SyntaxError> {
        match self.reader.peek()? {
            JsonToken::Object => {
                self.reader.enter()?;
                let mut first = true;
                let mut known = BTreeSet::new();
                while let Some(name) = self.reader.key(&mut first)? {
                    self.strict_error("unknown", &name);
                    self.pruned(name, &mut known)?;
                }
                Ok(Value::Object(Map::new()))
            }
            JsonToken::Array => self.list(Self::unknown),
            _ => self.any(),
        }
    }

    /// Reads a field that pruning removes. Upstream has decoded it before that, so duplicates in it are reported.
    fn pruned(&mut self, name: Cow<'a, str>, known: &mut BTreeSet<String>) -> Result<(), SyntaxError> {
        if !known.insert(name.clone().into_owned()) {
            self.strict_error("duplicate", &name);
        }
        self.path.push(PathPart::Key(name));
        self.any()?;
        self.path.pop();
        Ok(())
    }

    /// Decodes an object whose values `decode` decodes; `strict` reports keys that are there twice.
    fn map(
        &mut self,
        strict: bool,
        mut decode: impl FnMut(&mut Self) -> Result<Value, SyntaxError>,
    ) -> Result<Value, SyntaxError> {
        self.reader.enter()?;
        let mut map = Map::new();
        let mut first = true;
        while let Some(name) = self.reader.key(&mut first)? {
            if strict && map.contains_key(&*name) {
                self.strict_error("duplicate", &name);
            }
            self.path.push(PathPart::Key(name.clone()));
            let value = decode(self)?;
            map.insert(name, value);
            self.path.pop();
        }
        Ok(Value::Object(map))
    }

    /// Decodes a list whose items `decode` decodes.
    fn list(&mut self, mut decode: impl FnMut(&mut Self) -> Result<Value, SyntaxError>) -> Result<Value, SyntaxError> {
        self.reader.enter()?;
        let mut list = Vec::new();
        let mut first = true;
        while self.reader.item(&mut first)? {
            self.path.push(PathPart::Index(list.len()));
            let value = decode(self)?;
            list.push(value);
            self.path.pop();
        }
        Ok(Value::Array(list))
    }

    /// Decodes bytes given as a list of numbers.
    fn byte_list(&mut self) -> Result<Value, SyntaxError> {
        let mut bytes = Vec::new();
        self.list(|decoder| {
            let byte = match decoder.reader.peek()? {
                // An item of `null` is the zero value.
                token @ JsonToken::Null => {
                    decoder.reader.literal(token)?;
                    Value::Null
                }
                token @ (JsonToken::Object | JsonToken::Array) => {
                    decoder.reader.skip()?;
                    let found = if matches!(token, JsonToken::Object) { "object" } else { "array" };
                    decoder.type_error(found, "uint8");
                    Value::Null
                }
                token => decoder.scalar(Scalar::Int { min: 0, max: u8::MAX.into() }, "uint8", token)?,
            };
            bytes.push(byte.as_u64().and_then(|byte| u8::try_from(byte).ok()).unwrap_or_default());
            Ok(Value::Null)
        })?;
        Ok(STANDARD.encode(bytes).into())
    }

    fn scalar(&mut self, scalar: Scalar, go: &str, token: JsonToken) -> Result<Value, SyntaxError> {
        let structural = self.schema.is_some_and(|s| s.structural);
        match token {
            JsonToken::String => {
                let text = self.reader.string()?;
                if structural {
                    return Ok(text.into());
                }
                match scalar::from_text(scalar, text) {
                    Ok(value) => return Ok(value),
                    Err(scalar::ScalarError::WrongType) => self.type_error("string", go),
                    Err(scalar::ScalarError::InvalidValue(message)) => self.fatal_error(message),
                }
            }
            JsonToken::Number => {
                let text = self.reader.number()?;
                if structural {
                    return Ok(number(text));
                }
                match scalar::from_number(scalar, text) {
                    Ok(value) => return Ok(value),
                    Err(scalar::ScalarError::WrongType)
                        if matches!(scalar, Scalar::Int { .. } | Scalar::IntOrString) =>
                    {
                        self.wrong_type(&TypeKind::Scalar(scalar), &format!("number {text}"), go);
                    }
                    Err(scalar::ScalarError::WrongType) => self.wrong_type(&TypeKind::Scalar(scalar), "number", go),
                    Err(scalar::ScalarError::InvalidValue(message)) => self.fatal_error(message),
                }
            }
            _ => {
                self.reader.literal(token)?;
                if structural || scalar == Scalar::Bool {
                    return Ok(Value::Bool(token == JsonToken::True));
                }
                if scalar == Scalar::Quantity {
                    self.fatal_error(scalar::QUANTITY_FORMAT.to_owned());
                } else {
                    self.wrong_type(&TypeKind::Scalar(scalar), "bool", go);
                }
            }
        }
        Ok(Value::Null)
    }

    /// Decodes a value without a declared type.
    fn any(&mut self) -> Result<Value, SyntaxError> {
        let token = self.reader.peek()?;
        match token {
            JsonToken::Object => self.map(!self.raw, Self::any),
            JsonToken::Array => self.list(Self::any),
            JsonToken::String => Ok(self.reader.string()?.into()),
            JsonToken::Number => Ok(number(self.reader.number()?)),
            JsonToken::True | JsonToken::False => {
                self.reader.literal(token)?;
                Ok(Value::Bool(token == JsonToken::True))
            }
            JsonToken::Null => {
                self.reader.literal(token)?;
                Ok(Value::Null)
            }
        }
    }
}

/// Converts a number: an `i64` if it is an integer in range, otherwise a float.
pub(super) fn number(text: &str) -> Value {
    if let Ok(integer) = text.parse::<i64>() {
        return Value::from(integer);
    }
    text.parse::<f64>().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
}
