//! Conversion of untyped to typed values after a strategic merge patch: other messages than the decoder's for wrong
//! types, and unknown fields sorted by path.
//!
//! It agrees with `staging/src/k8s.io/apimachinery/pkg/runtime/converter.go`.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::structural::{PRUNED, UNKNOWN};
use super::types::{Scalar, Schema, TypeKind, TypeRef};
use super::{DecodedBody, scalar};
use crate::json::{Map, Value};
use crate::status::go_quote;

/// The least number that is too large for 64 bits with a sign.
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// Reasons why a value is not of a type, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnstructuredError {
    #[error("cannot restore struct from: {0}")]
    Struct(&'static str),
    #[error("cannot restore map from {0}")]
    Map(&'static str),
    #[error("cannot restore slice from {0}")]
    Slice(&'static str),
    #[error("cannot convert float64 to {0}")]
    Float(String),
    /// The reason of the scalar's own decoder.
    #[error("{0}")]
    Scalar(String),
}

impl Schema {
    /// Checks kind and apiVersion as [`Schema::convert_unstructured`] would.
    pub(crate) fn check_type_meta(value: &Value) -> Result<(), UnstructuredError> {
        for field in ["kind", "apiVersion"] {
            match &value[field] {
                Value::String(_) | Value::Null => {}
                wrong => return Err(UnstructuredError::Scalar(conversion_error(Scalar::String, "string", wrong))),
            }
        }
        Ok(())
    }

    /// Converts and normalizes a value of the root type.
    pub(crate) fn convert_unstructured(&self, mut value: Value) -> Result<DecodedBody, UnstructuredError> {
        let mut converter = Converter { schema: self, path: String::new(), strict: Vec::new() };
        converter.value(self.root(), &mut value)?;
        let mut strict = converter.strict;
        strict.sort();
        self.normalize(&mut value);
        Ok(DecodedBody { value, strict })
    }
}

/// Removes all fields from a value of which none are known.
fn drop_fields(value: &mut Value) {
    match value {
        Value::Object(map) => *map = Map::new(),
        Value::Array(items) => items.iter_mut().for_each(drop_fields),
        _ => {}
    }
}

struct Converter<'a> {
    schema: &'a Schema,
    path: String,
    strict: Vec<String>,
}

impl Converter<'_> {
    fn value(&mut self, ty: TypeRef, value: &mut Value) -> Result<(), UnstructuredError> {
        if value.is_null() {
            return Ok(());
        }
        match (self.schema.shape(ty), value) {
            (TypeKind::Any, value) => {
                if self.schema.structural && matches!(&*self.schema.get(ty).go, PRUNED | UNKNOWN) {
                    drop_fields(value);
                }
                Ok(())
            }
            (TypeKind::SchemaForm(form), value) => {
                // Upstream encodes it and calls `UnmarshalJSON`, which knows no strict errors.
                let Some(ty) = form.typed(value.is_object()).filter(|_| value.is_object() || value.is_array()) else {
                    return Ok(());
                };
                let strict = self.strict.len();
                let read = self.value(ty, value);
                self.strict.truncate(strict);
                read
            }
            (TypeKind::Struct(shape), Value::Object(map)) => self.structure(shape, map),
            (TypeKind::Struct(_), other) => Err(UnstructuredError::Struct(go_kind(other))),
            (TypeKind::Map(shape), Value::Object(map)) => {
                let values = shape.values;
                for (name, value) in map.iter_mut() {
                    self.within(name, |c| c.value(values, value))?;
                }
                Ok(())
            }
            (TypeKind::Map(_), other) => Err(UnstructuredError::Map(go_kind(other))),
            (TypeKind::List(list), Value::Array(items)) => {
                let length = self.path.len();
                for (i, item) in items.iter_mut().enumerate() {
                    _ = write!(self.path, "[{i}]");
                    self.value(list.items, item)?;
                    self.path.truncate(length);
                }
                Ok(())
            }
            (TypeKind::List(_), other) => Err(UnstructuredError::Slice(go_kind(other))),
            (TypeKind::Scalar(scalar), value) => self.scalar(*scalar, ty, value),
        }
    }

    fn within<R>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> R) -> R {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let result = read(self);
        self.path.truncate(length);
        result
    }

    fn structure(&mut self, shape: &super::types::StructType, map: &mut Map) -> Result<(), UnstructuredError> {
        let mut unknown = Vec::new();
        for (name, value) in map.iter_mut() {
            match (shape.field(name), shape.additional) {
                (Some(field), _) => self.within(name, |c| c.value(field.ty, value))?,
                (None, Some(additional)) => self.within(name, |c| c.value(additional, value))?,
                (None, None) => unknown.push(name.clone()),
            }
        }
        for name in unknown {
            map.remove(&name);
            let path = if self.path.is_empty() { name.to_string() } else { format!("{}.{name}", self.path) };
            self.strict.push(format!("unknown field {}", go_quote(&path)));
        }
        Ok(())
    }

    fn scalar(&self, scalar: Scalar, ty: TypeRef, value: &mut Value) -> Result<(), UnstructuredError> {
        let go = &*self.schema.get(ty).go;
        let read = match (scalar, &*value) {
            (Scalar::Float, Value::Number(_)) | (Scalar::Bool, Value::Bool(_)) => return Ok(()),
            (Scalar::Bytes, Value::String(text)) => {
                scalar::from_text(scalar, Cow::Borrowed(text)).map_err(prefix_bytes)
            }
            (_, Value::String(text)) => scalar::from_text(scalar, Cow::Borrowed(text)),
            (Scalar::Int { min, max }, Value::Number(n)) => {
                // Go converts silently here: fractions are rejected, larger integers wrap. A float that no integer
                // can hold becomes the least one, as amd64 converts it.
                match n.as_i64() {
                    Some(i) if (min..=max).contains(&i) => return Ok(()),
                    Some(i) => Ok(Value::from(i64::from(i as i32))),
                    None => match n.as_f64() {
                        Some(f) if f.fract() == 0.0 => {
                            let is_within = (-TWO_POW_63..TWO_POW_63).contains(&f);
                            let whole = if is_within { f as i64 } else { i64::MIN };
                            Ok(Value::from(if max > i32::MAX.into() { whole } else { i64::from(whole as i32) }))
                        }
                        _ if self.schema.structural && !self.path.starts_with("metadata") => return Ok(()),
                        _ => return Err(UnstructuredError::Float(go.to_owned())),
                    },
                }
            }
            (_, Value::Number(n)) => scalar::from_number(scalar, &n.to_string()),
            _ => Err(scalar::ScalarError::WrongType),
        };
        match read {
            Ok(read) => {
                *value = read;
                Ok(())
            }
            // Custom resources are not converted; their schema is checked later.
            Err(_) if self.schema.structural && !self.path.starts_with("metadata") => Ok(()),
            Err(scalar::ScalarError::InvalidValue(message)) => Err(UnstructuredError::Scalar(message)),
            Err(scalar::ScalarError::WrongType) => Err(UnstructuredError::Scalar(conversion_error(scalar, go, value))),
        }
    }
}

fn prefix_bytes(bad: scalar::ScalarError) -> scalar::ScalarError {
    match bad {
        scalar::ScalarError::InvalidValue(message) => {
            scalar::ScalarError::InvalidValue(format!("error decoding from json: {message}"))
        }
        scalar::ScalarError::WrongType => scalar::ScalarError::WrongType,
    }
}

/// Returns the error of Go's converter for a scalar of the wrong type.
fn conversion_error(scalar: Scalar, go: &str, value: &Value) -> String {
    match (scalar, value) {
        (Scalar::Quantity, _) => scalar::QUANTITY_FORMAT.to_owned(),
        (Scalar::IntOrString, Value::Number(n)) => {
            format!("json: cannot unmarshal number {n} into Go value of type int32")
        }
        (Scalar::IntOrString, _) => format!("json: cannot unmarshal {} into Go value of type int32", value.json_type()),
        (Scalar::Time | Scalar::MicroTime | Scalar::Duration, _) => {
            format!("json: cannot unmarshal {} into Go value of type string", value.json_type())
        }
        (Scalar::Bytes, _) => format!("cannot restore slice from {}", go_kind(value)),
        // Go can convert an integer to a string of one rune, so the message differs.
        (Scalar::String, Value::Number(n)) if !n.is_f64() => format!("cannot convert int64 to {go}"),
        (Scalar::String, _) => "unrecognized type: string".to_owned(),
        (Scalar::Bool, _) => "unrecognized type: bool".to_owned(),
        (Scalar::Int { max, .. }, _) => match max {
            0..=255 => "unrecognized type: uint8".to_owned(),
            m if m == i64::from(i32::MAX) => "unrecognized type: int32".to_owned(),
            _ => "unrecognized type: int64".to_owned(),
        },
        (Scalar::Float, _) => "unrecognized type: float64".to_owned(),
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
