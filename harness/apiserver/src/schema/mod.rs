//! Types: what fields an object may have, how they are encoded, merged and owned.
//!
//! [`builtin`] gives the [`Schema`] of a built-in kind by its OpenAPI name (`io.k8s.api.core.v1.Pod`), read lazily from
//! the tables in `tables/`; a custom resource's [`Schema`] comes from its structural schema
//! ([`Schema::from_structural`]). Everything that has to know types walks the same tree: decoding with strict field
//! checks ([`Schema::decode`], [`Schema::convert`]), encoding zero values as the real server's Go structs do
//! ([`Schema::normalize`]), strategic merge patch, server-side apply and field ownership.
//!
//! ```text
//! tables/      the facts, one line per type
//! registry.rs  facts → Schema, once per root type
//! structural.rs  a custom resource's OpenAPI schema → Schema
//! json.rs      a JSON reader whose complaints are those of Go's encoding/json
//! decode.rs    bytes → Value, with unknown and duplicate fields noted and wrong types refused
//! leaf.rs, quantity.rs  times, bytes, quantities
//! unstructured.rs  Value → Value, with the texts of strategic merge patch
//! normalize.rs a Value as the server would encode it
//! ```

mod decode;
mod json;
mod leaf;
mod normalize;
mod quantity;
mod registry;
mod structural;
mod tables;
mod unstructured;

use std::sync::OnceLock;

use crate::json::{Key, Prefix, Value};

pub(crate) use decode::json_patch_values;
pub use decode::{DecodeError, Decoded, decode_json_patch, decode_untyped};
pub use quantity::{Quantity, QuantityError};
pub use registry::{builtin, builtin_names};
pub use structural::StructuralError;

/// What happens to unknown and duplicate fields (`fieldValidation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped in silence.
    Ignore,
    /// Dropped, with a `Warning` header for each.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// Index of a [`Type`] in its [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeRef(u32);

/// The types of one root object (a kind, or a body such as `DeleteOptions`), self-contained.
#[derive(Debug)]
pub struct Schema {
    name: String,
    types: Vec<Type>,
    structural: bool,
    empty: OnceLock<Value>,
}

/// A type: its name in Go (for decode errors) and its shape.
#[derive(Debug)]
pub struct Type {
    /// Go's name of the type: `v1.PodSpec`, `[]v1.Container`, `int32`.
    pub go: Box<str>,
    /// Its shape.
    pub shape: Shape,
}

/// What a value of a type looks like.
#[derive(Debug)]
pub enum Shape {
    /// A leaf.
    Scalar(Scalar),
    /// Any JSON (`RawExtension`, `FieldsV1`, preserved unknown fields).
    Any,
    /// An object with declared fields.
    Struct(Struct),
    /// A list.
    List(List),
    /// An object with free keys.
    Map(Map),
}

/// The leaf types, by how they are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A string.
    String,
    /// A boolean.
    Bool,
    /// A whole number from `min` to `max`.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A floating point number.
    Float,
    /// A resource quantity: string or number, canonicalized.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// RFC 3339, seconds.
    Time,
    /// RFC 3339, microseconds.
    MicroTime,
    /// A Go duration string.
    Duration,
    /// Base64.
    Bytes,
    /// Any scalar (custom resources without a type).
    Untyped,
}

/// An object with declared fields.
#[derive(Debug, Default)]
pub struct Struct {
    /// The declared fields.
    pub fields: Fields,
    /// Owned as a whole by server-side apply.
    pub atomic: bool,
    /// Type of undeclared fields, where they are allowed (custom resources).
    pub additional: Option<TypeRef>,
}

impl Struct {
    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(self.index(name)?)
    }

    /// The place in `fields` of the field called `name`.
    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        let start = Prefix::of(name);
        let Fields { starts, list } = &self.fields;
        let same = |field: &Field| field.name.len() == name.len() && (name.len() <= Prefix::LEN || field.name == *name);
        let mut at = starts.partition_point(|other| *other < start);
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

/// Fields sorted by name. How their names begin stands side by side: every walk over an object looks each of its fields up.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    starts: Vec<Prefix>,
    list: Vec<Field>,
}

impl From<Vec<Field>> for Fields {
    fn from(mut list: Vec<Field>) -> Self {
        list.sort_by(|one, other| one.name.cmp(&other.name));
        Self { starts: list.iter().map(|field| Prefix::of(&field.name)).collect(), list }
    }
}

impl FromIterator<Field> for Fields {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        Self::from(Vec::from_iter(fields))
    }
}

impl IntoIterator for Fields {
    type Item = Field;
    type IntoIter = std::vec::IntoIter<Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl std::ops::Deref for Fields {
    type Target = [Field];

    fn deref(&self) -> &[Field] {
        &self.list
    }
}

/// A declared field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name on the wire.
    pub name: Key,
    /// The field in sets of fields: `f:` and its name.
    pub element: Key,
    /// Type of its value.
    pub ty: TypeRef,
    /// Whether absent and zero differ.
    pub pointer: bool,
    /// When the field is encoded.
    pub emit: Emit,
    /// Strategic merge patch strategy.
    pub patch: PatchStrategy,
    /// Value assumed for a missing list-map key.
    pub key_default: Option<Value>,
    /// Place in the Go struct, in which refusals print untouched parts.
    pub order: u16,
    /// Go names of the embedded structs the field lies in, each followed by a dot (`VolumeSource.`), for decode errors.
    pub embedded: Box<str>,
}

impl Field {
    /// An optional field with no further rules.
    fn plain(name: &str, ty: TypeRef) -> Self {
        let (emit, patch) = (Emit::OmitEmpty, PatchStrategy::default());
        let (name, element) = (name.into(), ["f:", name].concat().into());
        Self { name, element, ty, pointer: true, emit, patch, key_default: None, order: 0, embedded: "".into() }
    }
}

/// When a field is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// Unless empty (Go's `omitempty`, which never leaves out a struct).
    OmitEmpty,
    /// Unless zero (Go's `omitzero`).
    OmitZero,
    /// Always.
    Always,
}

/// How strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged instead of replaced.
    pub merge: bool,
    /// Key by which list items are matched.
    pub merge_key: Option<Box<str>>,
    /// `$retainKeys` is honoured.
    pub retain_keys: bool,
    /// Maps are replaced instead of merged.
    pub replace: bool,
}

/// A list.
#[derive(Debug)]
pub struct List {
    /// Type of its items.
    pub items: TypeRef,
    /// How server-side apply tells items apart.
    pub topology: ListTopology,
}

/// How server-side apply tells list items apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListTopology {
    /// Not at all: the list is owned as a whole.
    Atomic,
    /// By value.
    Set,
    /// By these key fields, sorted.
    Map(Vec<Box<str>>),
}

/// An object with free keys.
#[derive(Debug)]
pub struct Map {
    /// Type of its values.
    pub values: TypeRef,
    /// Owned as a whole by server-side apply.
    pub atomic: bool,
}

impl Schema {
    /// The schema's OpenAPI name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The root type.
    pub fn root(&self) -> TypeRef {
        TypeRef(0)
    }

    /// Whether it describes a custom resource (no Go struct behind it).
    pub fn is_structural(&self) -> bool {
        self.structural
    }

    /// The type behind a reference.
    pub fn get(&self, ty: TypeRef) -> &Type {
        &self.types[ty.0 as usize]
    }

    /// The shape behind a reference.
    pub fn shape(&self, ty: TypeRef) -> &Shape {
        &self.types[ty.0 as usize].shape
    }

    /// Whether the type is an object of another kind (`RawExtension`): it has one owner for all of it.
    pub fn is_raw(&self, ty: TypeRef) -> bool {
        let ty = self.get(ty);
        !self.structural && matches!(ty.shape, Shape::Any) && &*ty.go == "runtime.RawExtension"
    }

    /// The type of the field or entry `name` of an object of type `ty`; anything goes inside free-form objects.
    pub fn field_type(&self, ty: TypeRef, name: &str) -> Option<TypeRef> {
        match self.shape(ty) {
            Shape::Struct(shape) => shape.field(name).map(|f| f.ty).or(shape.additional),
            Shape::Map(map) => Some(map.values),
            Shape::Any => Some(ty),
            Shape::Scalar(_) | Shape::List(_) => None,
        }
    }

    /// The root's fields, if it is a struct.
    pub fn root_struct(&self) -> Option<&Struct> {
        match self.shape(self.root()) {
            Shape::Struct(s) => Some(s),
            _ => None,
        }
    }

    /// The object that a client creates by sending `{}`: what a new object is compared with for ownership.
    pub fn empty(&self) -> &Value {
        self.empty.get_or_init(|| {
            let mut value = Value::Object(crate::json::Map::new());
            self.normalize(&mut value);
            value
        })
    }
}

#[cfg(test)]
mod facts;
#[cfg(test)]
mod tests;
