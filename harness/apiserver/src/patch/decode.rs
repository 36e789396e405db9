//! Bodies of patches that must be objects, as `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go` decodes
//! them.

use crate::json::{Map, Value};
use crate::schema::decode_untyped;

/// Reasons why a body is not an object, in the words of Go's decoder.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("{0}")]
    Json(String),
    #[error("json: cannot unmarshal {0} into Go value of type map[string]interface {{}}")]
    Type(&'static str),
}

/// Errors for duplicate fields of a body, and the object; `None` for `null`.
pub(super) type DecodedObject = (Vec<String>, Option<Map>);

/// Decodes a body that must be an object or `null`. Error messages have no prefix.
pub(super) fn decode_object(body: &[u8]) -> Result<DecodedObject, BodyError> {
    let decoded = decode_untyped(body).map_err(|error| BodyError::Json(error.message))?;
    let found = match decoded.value {
        Value::Object(map) => return Ok((decoded.strict, Some(map))),
        Value::Null => return Ok((decoded.strict, None)),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
    };
    Err(BodyError::Type(found))
}
