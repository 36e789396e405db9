//! Builds a [`Schema`] from a custom resource's structural schema.
//!
//! See `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/structural.go`.

use std::sync::OnceLock;

use super::builtin_types::builtin;
use super::types::{
    ElementRelationship, ListType, MapType, Scalar, Schema, StructField, StructFields, StructType, Type, TypeKind,
    TypeRef,
};
use crate::json::Value;

/// The schema is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to use the schema at {path}: {reason}")]
pub(crate) struct StructuralError {
    /// Path in the schema, such as `.spec.items`.
    pub path: String,
    /// The reason.
    pub reason: &'static str,
}

/// Maximum nesting of a schema.
const MAX_SCHEMA_DEPTH: usize = 100;

/// The Go name of types in which pruning knows the fields: a value of another shape loses its own.
pub(super) const PRUNED: &str = "interface {}";

/// The Go name of types without a schema, as below `additionalProperties: true`: objects lose all fields.
pub(super) const UNKNOWN: &str = "nil";

/// The Go name of types that preserve unknown fields.
const PRESERVED: &str = "preserved";

impl Schema {
    /// Builds the schema of a custom resource from its `openAPIV3Schema`. Without one, or with `preserve`
    /// (`x-kubernetes-preserve-unknown-fields` at the root), all fields are accepted. Metadata is always
    /// `ObjectMeta`.
    pub(crate) fn from_structural(schema: Option<&Value>, preserve: bool) -> Result<Self, StructuralError> {
        let mut builder = StructuralSchemaBuilder { types: Vec::new() };
        let none = Value::Object(crate::json::Map::new());
        builder.read(schema.unwrap_or(&none), "", 0, false)?;
        builder.add_type_meta(preserve || schema.is_none());
        Ok(Self { types: builder.types, structural: true, empty: OnceLock::new() })
    }
}

struct StructuralSchemaBuilder {
    types: Vec<Type>,
}

impl StructuralSchemaBuilder {
    fn push(&mut self, shape: TypeKind, go: &str) -> TypeRef {
        let slot = TypeRef(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.types.push(Type { go: go.into(), shape });
        slot
    }

    /// Reads a schema into a new slot; the root gets slot 0. Items of a list that preserves unknown fields preserve
    /// them, too: `kept`.
    fn read(&mut self, schema: &Value, path: &str, depth: usize, kept: bool) -> Result<TypeRef, StructuralError> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(StructuralError { path: path.to_owned(), reason: "nested too deeply" });
        }
        let kept = kept || is_set(schema, "x-kubernetes-preserve-unknown-fields");
        let slot = self.push(TypeKind::Any, if kept { PRESERVED } else { PRUNED });
        let shape = self.shape(schema, path, depth, kept)?;
        self.types[slot.0 as usize].shape = shape;
        Ok(slot)
    }

    fn shape(&mut self, schema: &Value, path: &str, depth: usize, kept: bool) -> Result<TypeKind, StructuralError> {
        if is_set(schema, "x-kubernetes-int-or-string") {
            return Ok(TypeKind::Scalar(Scalar::IntOrString));
        }
        if is_set(schema, "x-kubernetes-embedded-resource") {
            return self.embedded(schema, path, depth, kept);
        }
        Ok(match schema.get("type").and_then(Value::as_str) {
            Some("object") => self.object(schema, path, depth, kept)?,
            Some("array") => self.array(schema, path, depth, kept)?,
            Some("string") => TypeKind::Scalar(Scalar::String),
            Some("boolean") => TypeKind::Scalar(Scalar::Bool),
            Some("integer") => TypeKind::Scalar(Scalar::Int { min: i64::MIN, max: i64::MAX }),
            Some("number") => TypeKind::Scalar(Scalar::Float),
            _ if schema.get("properties").is_some() => self.object(schema, path, depth, kept)?,
            _ => TypeKind::Any,
        })
    }

    fn object(&mut self, schema: &Value, path: &str, depth: usize, kept: bool) -> Result<TypeKind, StructuralError> {
        let atomic = schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic");
        let properties = schema.get("properties").and_then(Value::as_object);
        let additional = match schema.get("additionalProperties") {
            Some(inner @ Value::Object(_)) => Some(self.read(inner, &format!("{path}.*"), depth + 1, false)?),
            Some(Value::Bool(true)) => Some(self.push(TypeKind::Any, UNKNOWN)),
            _ if kept && properties.is_none() && !atomic => return Ok(TypeKind::Any),
            _ if kept => Some(self.push(TypeKind::Any, PRESERVED)),
            _ => None,
        };
        if let (None, Some(values)) = (properties, additional) {
            return Ok(TypeKind::Map(MapType { values, atomic }));
        }
        let mut fields = Vec::new();
        for (name, property) in properties.into_iter().flatten() {
            let ty = self.read(property, &format!("{path}.{name}"), depth + 1, false)?;
            fields.push(field(name, ty, property.get("default").cloned()));
        }
        Ok(TypeKind::Struct(StructType { fields: fields.into(), atomic, additional }))
    }

    /// Reads an embedded resource, which has `apiVersion`, `kind` and `metadata`.
    fn embedded(&mut self, schema: &Value, path: &str, depth: usize, kept: bool) -> Result<TypeKind, StructuralError> {
        let mut object = match self.object(schema, path, depth, kept)? {
            TypeKind::Struct(object) => object,
            TypeKind::Map(map) => StructType { additional: Some(map.values), ..StructType::default() },
            _ => StructType::default(),
        };
        if kept && object.additional.is_none() {
            object.additional = Some(self.push(TypeKind::Any, PRESERVED));
        }
        let string = self.push(TypeKind::Scalar(Scalar::String), PRESERVED);
        let metadata = self.add_object_meta();
        object.fields = with_type_meta(object.fields, string, metadata);
        Ok(TypeKind::Struct(object))
    }

    fn array(&mut self, schema: &Value, path: &str, depth: usize, kept: bool) -> Result<TypeKind, StructuralError> {
        let none = Value::Object(crate::json::Map::new());
        let items = self.read(schema.get("items").unwrap_or(&none), &format!("{path}[*]"), depth + 1, kept)?;
        let topology = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => ElementRelationship::Set,
            Some("map") => {
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let mut keys: Vec<Box<str>> =
                    keys.into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect();
                keys.sort();
                ElementRelationship::Map(keys)
            }
            _ => ElementRelationship::Atomic,
        };
        Ok(TypeKind::List(ListType { items, topology }))
    }

    /// Adds `apiVersion`, `kind` and the built-in `metadata`, which all custom resources have.
    fn add_type_meta(&mut self, preserve: bool) {
        let string = self.push(TypeKind::Scalar(Scalar::String), PRESERVED);
        let metadata = self.add_object_meta();
        let any = preserve.then(|| self.push(TypeKind::Any, PRESERVED));
        let mut root = match std::mem::replace(&mut self.types[0].shape, TypeKind::Any) {
            TypeKind::Struct(root) => root,
            TypeKind::Map(map) => StructType { additional: Some(map.values), ..StructType::default() },
            _ => StructType { additional: any, ..StructType::default() },
        };
        if root.additional.is_none() {
            root.additional = any;
        }
        root.fields = with_type_meta(root.fields, string, metadata);
        self.types[0].shape = TypeKind::Struct(root);
    }

    /// Appends the types of the built-in `ObjectMeta`.
    fn add_object_meta(&mut self) -> TypeRef {
        let base = u32::try_from(self.types.len()).unwrap_or(u32::MAX);
        let Some(meta) = builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta") else {
            return self.push(TypeKind::Any, PRESERVED);
        };
        let moved = |ty: TypeRef| TypeRef(ty.0 + base);
        for ty in &meta.types {
            let shape = match &ty.shape {
                TypeKind::Scalar(s) => TypeKind::Scalar(*s),
                TypeKind::Any | TypeKind::SchemaForm(_) => TypeKind::Any,
                TypeKind::List(l) => TypeKind::List(ListType { items: moved(l.items), topology: l.topology.clone() }),
                TypeKind::Map(m) => TypeKind::Map(MapType { values: moved(m.values), atomic: m.atomic }),
                TypeKind::Struct(s) => TypeKind::Struct(StructType {
                    fields: s.fields.iter().map(|f| StructField { ty: moved(f.ty), ..f.clone() }).collect(),
                    atomic: s.atomic,
                    additional: s.additional.map(moved),
                }),
            };
            self.types.push(Type { go: ty.go.clone(), shape });
        }
        TypeRef(base)
    }
}

fn is_set(schema: &Value, extension: &str) -> bool {
    schema.get(extension).and_then(Value::as_bool) == Some(true)
}

/// Replaces `apiVersion`, `kind` and `metadata` in `fields` with the built-in definitions.
fn with_type_meta(fields: StructFields, string: TypeRef, metadata: TypeRef) -> StructFields {
    let every = [("apiVersion", string), ("kind", string), ("metadata", metadata)];
    let own = fields.into_iter().filter(|own| every.iter().all(|(name, _)| *own.name != **name));
    own.chain(every.map(|(name, ty)| field(name, ty, None))).collect()
}

fn field(name: &str, ty: TypeRef, key_default: Option<Value>) -> StructField {
    StructField { key_default, ..StructField::plain(name, ty) }
}
