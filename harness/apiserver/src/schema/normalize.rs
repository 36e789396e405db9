//! Normalization of values to the form in which Go's structs encode them: required fields appear even when zero,
//! optional ones are omitted when empty (`omitempty`, `omitzero`). See Go's `encoding/json/encode.go`.

use super::types::{EmitRule, FieldCursor, Scalar, Schema, StructField, StructType, TypeKind, TypeRef};
use crate::json::Value;

impl Schema {
    /// Converts `value`, of the root type, to the form in which the server encodes it. Idempotent. Undeclared fields
    /// and values of wrong types are left as they are (see [`Schema::convert`]). In custom resources only the
    /// metadata is normalized.
    pub(crate) fn normalize(&self, value: &mut Value) {
        // An empty `managedFields` list resets field ownership, so it differs from an absent one.
        let resets = value.pointer("/metadata/managedFields").and_then(Value::as_array).is_some_and(Vec::is_empty);
        self.normalize_fields(value);
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut).filter(|_| resets) {
            metadata.insert("managedFields", Value::Array(Vec::new()));
        }
    }

    fn normalize_fields(&self, value: &mut Value) {
        if !self.structural {
            self.normalize_at(self.root(), value);
            return;
        }
        let metadata = self.root_struct().and_then(|root| root.field("metadata"));
        if let (Some(field), Some(value)) = (metadata, value.get_mut("metadata")) {
            self.normalize_at(field.ty, value);
        }
    }

    /// Converts `value`, of the root type, to its form after a round trip through storage as protobuf, which does not
    /// distinguish empty from missing lists and maps, or missing from empty bytes.
    pub(crate) fn drop_empty_fields(&self, value: &mut Value) {
        // Checked first: most objects have nothing to convert, and then stay shared with other states.
        if !self.structural && self.has_empty_fields(self.root(), value) {
            self.forget_emptiness_at(self.root(), value);
        }
    }

    /// Returns true if [`Schema::drop_empty_fields`] would change the value.
    fn has_empty_fields(&self, ty: TypeRef, value: &Value) -> bool {
        match (self.shape(ty), value) {
            (TypeKind::Struct(shape), Value::Object(map)) => map.iter().any(|(name, value)| match value {
                Value::Array(_) | Value::Object(_) => shape.field(name).is_some_and(|field| {
                    let empty = value.as_array().is_some_and(Vec::is_empty) && field.emit == EmitRule::Always;
                    empty || self.has_empty_fields(field.ty, value)
                }),
                _ => false,
            }),
            (TypeKind::List(list), Value::Array(items)) => {
                items.iter().any(|item| self.has_empty_fields(list.items, item))
            }
            (TypeKind::Map(shape), Value::Object(map)) => {
                map.values().any(|value| self.has_empty_fields(shape.values, value))
            }
            (TypeKind::Scalar(Scalar::Bytes), Value::Null) => true,
            _ => false,
        }
    }

    fn forget_emptiness_at(&self, ty: TypeRef, value: &mut Value) {
        match (self.shape(ty), value) {
            (TypeKind::Struct(shape), Value::Object(map)) => {
                for (name, value) in map {
                    let Some(field) = shape.field(name) else { continue };
                    let shown = field.emit == EmitRule::Always;
                    match value {
                        Value::Array(items) if items.is_empty() && shown => *value = Value::Null,
                        Value::Array(_) | Value::Object(_) => self.forget_emptiness_at(field.ty, value),
                        _ => {}
                    }
                }
            }
            (TypeKind::List(list), Value::Array(items)) => {
                for item in items {
                    self.forget_emptiness_at(list.items, item);
                }
            }
            (TypeKind::Map(shape), Value::Object(map)) => {
                for value in map.values_mut() {
                    self.forget_emptiness_at(shape.values, value);
                }
            }
            (TypeKind::Scalar(Scalar::Bytes), value @ Value::Null) => *value = "".into(),
            _ => {}
        }
    }

    fn normalize_at(&self, ty: TypeRef, value: &mut Value) {
        match (self.shape(ty), value) {
            (TypeKind::Struct(shape), Value::Object(map)) => self.normalize_struct(shape, map),
            (TypeKind::List(list), Value::Array(items)) => {
                for item in items {
                    self.normalize_element(list.items, item);
                }
            }
            (TypeKind::Map(shape), Value::Object(map)) => {
                for value in map.values_mut() {
                    self.normalize_element(shape.values, value);
                }
            }
            (TypeKind::SchemaForm(form), value @ (Value::Object(_) | Value::Array(_))) => {
                if let Some(ty) = form.typed(value.is_object()) {
                    self.normalize_at(ty, value);
                }
            }
            _ => {}
        }
    }

    fn normalize_element(&self, ty: TypeRef, value: &mut Value) {
        if value.is_null() {
            *value = self.zero(ty);
        } else {
            self.normalize_at(ty, value);
        }
    }

    fn normalize_struct(&self, shape: &StructType, map: &mut crate::json::Map) {
        let mut declared = FieldCursor::new(shape);
        map.retain(|name, value| {
            let Some(field) = declared.field(name) else { return true };
            self.normalize_field(field, value)
        });
        for field in shape.fields.iter() {
            if self.is_encoded_when_absent(field) && !map.contains_key(&field.name) {
                map.insert(field.name.clone(), self.absent_value(field));
            }
        }
    }

    /// Normalizes the value of a field. Returns false if the field is omitted.
    fn normalize_field(&self, field: &StructField, value: &mut Value) -> bool {
        if value.is_null() {
            return false;
        }
        self.normalize_at(field.ty, value);
        field.pointer || !self.is_omitted(field, value)
    }

    /// Returns the normalized value of a field, unless the field is omitted.
    pub(super) fn normalized_field(&self, field: &StructField, mut value: Value) -> Option<Value> {
        let shown = self.normalize_field(field, &mut value).then_some(value);
        shown.or_else(|| self.is_encoded_when_absent(field).then(|| self.absent_value(field)))
    }

    /// Returns the value that Go encodes for an absent field.
    fn absent_value(&self, field: &StructField) -> Value {
        if field.pointer { Value::Null } else { self.zero(field.ty) }
    }

    /// Returns true if a field that is not a pointer is omitted because of its value.
    fn is_omitted(&self, field: &StructField, value: &Value) -> bool {
        match field.emit {
            EmitRule::Always => false,
            EmitRule::OmitZero => *value == self.zero(field.ty),
            EmitRule::OmitEmpty if self.is_raw(field.ty) => value.is_null(),
            EmitRule::OmitEmpty => match value {
                Value::String(s) => s.is_empty() && !matches!(self.shape(field.ty), TypeKind::Scalar(Scalar::Quantity)),
                Value::Bool(b) => !b,
                Value::Number(n) => {
                    n.as_f64() == Some(0.0) && !matches!(self.shape(field.ty), TypeKind::Scalar(Scalar::IntOrString))
                }
                // Defaults replace absent policies of an autoscaler, and validation refuses empty ones.
                Value::Array(items) => items.is_empty() && field.name != "policies",
                Value::Object(map) => map.is_empty() && matches!(self.shape(field.ty), TypeKind::Map(_)),
                Value::Null => true,
            },
        }
    }

    /// Returns true if Go encodes the field although it is absent.
    fn is_encoded_when_absent(&self, field: &StructField) -> bool {
        match field.emit {
            EmitRule::Always => true,
            EmitRule::OmitZero => false,
            EmitRule::OmitEmpty => !field.pointer && self.is_go_struct(field.ty),
        }
    }

    /// Returns true for types that are Go structs, which `omitempty` never omits.
    fn is_go_struct(&self, ty: TypeRef) -> bool {
        match self.shape(ty) {
            TypeKind::Struct(_) => true,
            TypeKind::Scalar(scalar) => matches!(
                scalar,
                Scalar::Quantity | Scalar::IntOrString | Scalar::Time | Scalar::MicroTime | Scalar::Duration
            ),
            TypeKind::Any => self.is_raw(ty),
            TypeKind::List(_) | TypeKind::Map(_) | TypeKind::SchemaForm(_) => false,
        }
    }

    /// Returns the encoded zero value of a type.
    pub(super) fn zero(&self, ty: TypeRef) -> Value {
        match self.shape(ty) {
            TypeKind::Struct(shape) => {
                let mut map = crate::json::Map::new();
                self.normalize_struct(shape, &mut map);
                Value::Object(map)
            }
            TypeKind::Scalar(scalar) => match scalar {
                Scalar::String => "".into(),
                Scalar::Bool => Value::Bool(false),
                Scalar::Int { .. } | Scalar::Float | Scalar::IntOrString => Value::from(0),
                Scalar::Quantity => "0".into(),
                Scalar::Duration => "0s".into(),
                Scalar::Time | Scalar::MicroTime | Scalar::Bytes => Value::Null,
            },
            TypeKind::Any | TypeKind::List(_) | TypeKind::Map(_) | TypeKind::SchemaForm(_) => Value::Null,
        }
    }
}
