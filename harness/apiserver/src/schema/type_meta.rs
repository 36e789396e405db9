//! Kind and apiVersion of a text, as `SimpleMetaFactory.Interpret` finds them. PURE.
//! See `staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/meta.go`.

use crate::json::Value;

#[derive(serde::Deserialize)]
struct TypeMeta {
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "apiVersion")]
    api_version: String,
}

const GO_TYPE_META: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Prefix of errors about text in which no kind could be found.
pub(crate) const NO_KIND: &str = "couldn't get version/kind; json parse error: ";

/// Reasons why a text has no kind and apiVersion, in the words of Go's decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TypeMetaError {
    #[error("{NO_KIND}{0}")]
    Json(String),
    #[error("{NO_KIND}json: cannot unmarshal {found} into Go struct field .{field} of type string")]
    Field { field: &'static str, found: &'static str },
    #[error("{NO_KIND}json: cannot unmarshal {0} into Go value of type {GO_TYPE_META}")]
    NoObject(&'static str),
}

/// Returns kind and apiVersion of a body; empty if they are absent.
pub(crate) fn type_meta(text: &[u8]) -> Result<(String, String), TypeMetaError> {
    // serde would accept a list as the fields in order.
    let is_list = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    if let Ok(found) = serde_json::from_slice::<TypeMeta>(text)
        && !is_list
    {
        return Ok((found.kind, found.api_version));
    }
    let decoded = super::decode::decode_untyped(text).map_err(|error| TypeMetaError::Json(error.message))?;
    match &decoded.value {
        Value::Null => Ok((String::new(), String::new())),
        Value::Object(map) => {
            let wrong = |field: &'static str| {
                let value = map.get(field).filter(|value| !value.is_string() && !value.is_null())?;
                Some(TypeMetaError::Field { field, found: value.json_type() })
            };
            if let Some(error) = wrong("apiVersion").or_else(|| wrong("kind")) {
                return Err(error);
            }
            let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            Ok((text("kind"), text("apiVersion")))
        }
        other => Err(TypeMetaError::NoObject(other.json_type())),
    }
}
