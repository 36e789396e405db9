//! The types of a schema: objects with declared fields, lists, maps and scalars. What server-side apply needs of them
//! is in `schema/elements.go` of `sigs.k8s.io/structured-merge-diff/v6`.

use std::sync::OnceLock;

use crate::json::{Key, KeyPrefix, Value};

/// Index of a [`Type`] in its [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeRef(pub(super) u32);

/// The self-contained set of types of a root object (a kind, or a body such as `DeleteOptions`).
#[derive(Debug)]
pub(crate) struct Schema {
    pub(super) types: Vec<Type>,
    pub(super) structural: bool,
    pub(super) empty: OnceLock<Value>,
}

/// A type: its Go name (for decode errors) and its shape.
#[derive(Debug)]
pub(crate) struct Type {
    /// The Go name: `v1.PodSpec`, `[]v1.Container`, `int32`.
    pub go: Box<str>,
    /// The shape.
    pub shape: TypeKind,
}

/// The structure of a type's values.
#[derive(Debug)]
pub(crate) enum TypeKind {
    /// A scalar.
    Scalar(Scalar),
    /// Any JSON (`RawExtension`, `FieldsV1`, preserved unknown fields).
    Any,
    /// An object with declared fields.
    Struct(StructType),
    /// A list.
    List(ListType),
    /// An object with free keys.
    Map(MapType),
    /// A schema, or a shorter form of it.
    SchemaForm(SchemaForm),
}

/// The scalar types, by their encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// A string.
    String,
    /// A boolean.
    Bool,
    /// An integer from `min` to `max`.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A floating-point number.
    Float,
    /// A resource quantity: string or number, canonicalized.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// An RFC 3339 time in seconds.
    Time,
    /// An RFC 3339 time in microseconds.
    MicroTime,
    /// A Go duration string.
    Duration,
    /// Bytes in base64.
    Bytes,
}

/// An object with declared fields.
#[derive(Debug, Default)]
pub(crate) struct StructType {
    /// The declared fields.
    pub fields: StructFields,
    /// Server-side apply treats it as a single value.
    pub atomic: bool,
    /// Type of undeclared fields, if they are allowed (custom resources).
    pub additional: Option<TypeRef>,
}

impl StructType {
    /// Returns the field `name`.
    pub(crate) fn field(&self, name: &str) -> Option<&StructField> {
        self.fields.get(self.index(name)?)
    }

    /// Returns the index in `fields` of the field `name`.
    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        let start = KeyPrefix::of(name);
        let from = self.fields.starts.partition_point(|other| *other < start);
        self.index_among(from, start, name)
    }

    /// Returns the index of the field `name`; `from` is the first field whose name has the prefix `start`.
    pub(super) fn index_among(&self, from: usize, start: KeyPrefix, name: &str) -> Option<usize> {
        let StructFields { starts, list } = &self.fields;
        let same = |field: &StructField| {
            field.name.len() == name.len() && (name.len() <= KeyPrefix::LEN || field.name == *name)
        };
        let mut at = from;
        while starts.get(at) == Some(&start) {
            let field = list.get(at)?;
            if same(field) {
                return Some(at);
            }
            at += 1;
        }
        None
    }
}

/// Finds the fields of a struct for the members of an object, which are sorted as the fields are. Continuing where the
/// last search ended is cheaper than a search for each member.
#[derive(Debug)]
pub(crate) struct FieldCursor<'s> {
    pub(super) shape: &'s StructType,
    pub(super) at: usize,
}

impl<'s> FieldCursor<'s> {
    /// Creates a cursor before the first field.
    pub(crate) fn new(shape: &'s StructType) -> Self {
        Self { shape, at: 0 }
    }

    /// Returns the index of the field `name`. Names must be passed in ascending order.
    pub(crate) fn index(&mut self, name: &str) -> Option<usize> {
        let start = KeyPrefix::of(name);
        let left = self.shape.fields.starts.get(self.at..).unwrap_or_default();
        self.at += left.iter().take_while(|other| **other < start).count();
        self.shape.index_among(self.at, start, name)
    }

    /// Returns the field `name`. Names must be passed in ascending order.
    pub(crate) fn field(&mut self, name: &str) -> Option<&'s StructField> {
        self.shape.fields.get(self.index(name)?)
    }
}

/// Fields sorted by name. The name prefixes are kept in an array of their own, because every walk over an object
/// looks up each field.
#[derive(Clone, Debug, Default)]
pub(crate) struct StructFields {
    pub(super) starts: Vec<KeyPrefix>,
    pub(super) list: Vec<StructField>,
}

impl From<Vec<StructField>> for StructFields {
    fn from(mut list: Vec<StructField>) -> Self {
        list.sort_by(|one, other| one.name.cmp(&other.name));
        Self { starts: list.iter().map(|field| KeyPrefix::of(&field.name)).collect(), list }
    }
}

impl FromIterator<StructField> for StructFields {
    fn from_iter<I: IntoIterator<Item = StructField>>(fields: I) -> Self {
        Self::from(Vec::from_iter(fields))
    }
}

impl IntoIterator for StructFields {
    type Item = StructField;
    type IntoIter = std::vec::IntoIter<StructField>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl std::ops::Deref for StructFields {
    type Target = [StructField];

    fn deref(&self) -> &[StructField] {
        &self.list
    }
}

/// A declared field.
#[derive(Clone, Debug)]
pub(crate) struct StructField {
    /// Name on the wire.
    pub name: Key,
    /// The field's path element in `fieldsV1`: `f:` and its name.
    pub element: Key,
    /// Type of the value.
    pub ty: TypeRef,
    /// The Go field is a pointer, so that absent and zero differ.
    pub pointer: bool,
    /// The condition for encoding the field.
    pub emit: EmitRule,
    /// The strategic merge patch strategy.
    pub patch: PatchStrategy,
    /// Default of a list-map key that an item lacks.
    pub key_default: Option<Value>,
    /// Position in the Go struct, which is the field order of encoded objects and of messages.
    pub order: u16,
    /// Go names of the embedded structs that contain the field, each followed by a dot (`VolumeSource.`), for decode
    /// errors.
    pub embedded: Box<str>,
}

impl StructField {
    /// Creates an optional field without further rules.
    pub(super) fn plain(name: &str, ty: TypeRef) -> Self {
        let emit = EmitRule::OmitEmpty;
        let patch = PatchStrategy::default();
        let (name, element) = (name.into(), ["f:", name].concat().into());
        Self { name, element, ty, pointer: true, emit, patch, key_default: None, order: 0, embedded: "".into() }
    }
}

/// The condition for encoding a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmitRule {
    /// Unless empty (Go's `omitempty`, which never omits a struct).
    OmitEmpty,
    /// Unless zero (Go's `omitzero`).
    OmitZero,
    /// Always.
    Always,
}

/// The strategic merge patch strategy of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatchStrategy {
    /// Lists are merged instead of replaced.
    pub merge: bool,
    /// The key that identifies list items.
    pub merge_key: Option<Box<str>>,
    /// `$retainKeys` is supported.
    pub retain_keys: bool,
    /// Maps are replaced instead of merged.
    pub replace: bool,
}

/// A list.
#[derive(Debug)]
pub(crate) struct ListType {
    /// Type of the items.
    pub items: TypeRef,
    /// The identity of items in server-side apply.
    pub topology: ElementRelationship,
}

/// The identity of list items in server-side apply (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElementRelationship {
    /// None: the list is treated as a single value.
    Atomic,
    /// Items are identified by value.
    Set,
    /// Items are identified by these key fields, sorted.
    Map(Vec<Box<str>>),
}

/// An object with free keys.
#[derive(Debug)]
pub(crate) struct MapType {
    /// Type of the values.
    pub values: TypeRef,
    /// Server-side apply treats it as a single value.
    pub atomic: bool,
}

/// A value that is a `JSONSchemaProps` or has another form: `JSONSchemaPropsOrArray`, `JSONSchemaPropsOrBool` and
/// `JSONSchemaPropsOrStringArray` of `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types_jsonschema.go`.
#[derive(Debug)]
pub(crate) struct SchemaForm {
    /// The type of the schema.
    pub schema: TypeRef,
    /// The type of the list that may take its place; `None` if a boolean may.
    pub list: Option<TypeRef>,
}

impl SchemaForm {
    /// Returns the type of an object or a list of this form.
    pub(crate) fn typed(&self, is_object: bool) -> Option<TypeRef> {
        if is_object { Some(self.schema) } else { self.list }
    }
}

impl Schema {
    /// Returns the root type.
    #[expect(clippy::unused_self, reason = "a type is one of a schema's")]
    pub(crate) fn root(&self) -> TypeRef {
        TypeRef(0)
    }

    /// Returns true for a custom resource's schema (without Go structs).
    pub(crate) fn is_structural(&self) -> bool {
        self.structural
    }

    /// Returns a type.
    pub(crate) fn get(&self, ty: TypeRef) -> &Type {
        &self.types[ty.0 as usize]
    }

    /// Returns the shape of a type.
    pub(crate) fn shape(&self, ty: TypeRef) -> &TypeKind {
        &self.types[ty.0 as usize].shape
    }

    /// Returns true for an embedded object of any kind (`RawExtension`), which is a single value for field ownership.
    pub(crate) fn is_raw(&self, ty: TypeRef) -> bool {
        let ty = self.get(ty);
        !self.structural && matches!(ty.shape, TypeKind::Any) && &*ty.go == "runtime.RawExtension"
    }

    /// Returns the type of the field or entry `name` of an object of type `ty`; free-form objects accept any name.
    pub(crate) fn field_type(&self, ty: TypeRef, name: &str) -> Option<TypeRef> {
        match self.shape(ty) {
            TypeKind::Struct(shape) => shape.field(name).map(|f| f.ty).or(shape.additional),
            TypeKind::Map(map) => Some(map.values),
            TypeKind::Any | TypeKind::SchemaForm(_) => Some(ty),
            TypeKind::Scalar(_) | TypeKind::List(_) => None,
        }
    }

    /// Returns the root's fields, if it is a struct.
    pub(crate) fn root_struct(&self) -> Option<&StructType> {
        match self.shape(self.root()) {
            TypeKind::Struct(s) => Some(s),
            _ => None,
        }
    }

    /// Returns the normalized empty object, to which new objects are compared for field ownership.
    pub(crate) fn empty(&self) -> &Value {
        self.empty.get_or_init(|| {
            let mut value = Value::Object(crate::json::Map::new());
            self.normalize(&mut value);
            value
        })
    }
}
