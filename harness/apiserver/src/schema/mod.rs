//! Type information: the fields of an object and how they are encoded, merged and owned.
//!
//! [`builtin`] returns the [`Schema`] of a built-in type by its OpenAPI name (`io.k8s.api.core.v1.Pod`), parsed
//! lazily from `tables/`; [`Schema::from_structural`] makes one from a custom resource's structural schema. The same
//! tree serves decoding with strict field checks ([`Schema::decode`], [`Schema::convert`]), encoding of zero values
//! as Go structs have them ([`Schema::normalize`]), strategic merge patch, server-side apply and field ownership.
//!
//! ```text
//! tables/          type definitions, one line per type
//! types.rs         the types of a schema
//! builtin_types.rs tables → Schema, once per root type
//! by_kind.rs       apiVersion and kind → Schema
//! structural.rs    a custom resource's OpenAPI schema → Schema
//! pull_parser.rs   a pull parser with the messages of Go's encoding/json
//! decode.rs        bytes → Value, with unknown and duplicate fields reported and wrong types rejected
//! scalar.rs        times, bytes, quantities
//! unstructured.rs  Value → Value, with the messages of strategic merge patch
//! normalize.rs     a Value as the server encodes it
//! ```

mod builtin_types;
mod by_kind;
mod decode;
mod normalize;
mod pull_parser;
mod scalar;
mod structural;
mod tables;
mod type_meta;
mod types;
mod unstructured;

pub(crate) use builtin_types::builtin;
#[cfg(test)]
pub(crate) use builtin_types::builtin_names;
pub(crate) use by_kind::schema_of;
pub(crate) use decode::json_patch_values;
pub(crate) use decode::{DecodeError, DecodedBody, decode_json_patch, decode_patch_operations, decode_untyped};
pub(crate) use scalar::{ZERO_TIME, go_time};
pub(crate) use type_meta::{NO_KIND, TypeMetaError, type_meta};
pub(crate) use types::{
    ElementRelationship, FieldCursor, ListType, PatchStrategy, Scalar, Schema, StructType, TypeKind, TypeRef,
};

/// The handling of unknown and duplicate fields (`fieldValidation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Unknown fields are dropped silently.
    Ignore,
    /// Unknown fields are dropped with a `Warning` header each.
    #[default]
    Warn,
    /// The request is rejected.
    Strict,
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
