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

/// Returns kind and apiVersion of a body; empty if they are absent.
pub(crate) fn type_meta(text: &[u8]) -> Result<(String, String), String> {
    // serde would accept a list as the fields in order.
    let is_list = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    if let Ok(found) = serde_json::from_slice::<TypeMeta>(text)
        && !is_list
    {
        return Ok((found.kind, found.api_version));
    }
    let why = match super::decode_untyped(text) {
        Err(error) => error.message,
        Ok(decoded) => match &decoded.value {
            Value::Null => return Ok((String::new(), String::new())),
            Value::Object(map) => {
                let wrong = |name: &str, go: &str| {
                    let value = map.get(name).filter(|value| !value.is_string() && !value.is_null())?;
                    let found = value.json_type();
                    Some(format!("json: cannot unmarshal {found} into Go struct field .{go} of type string"))
                };
                let Some(error) = wrong("apiVersion", "apiVersion").or_else(|| wrong("kind", "kind")) else {
                    let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                    return Ok((text("kind"), text("apiVersion")));
                };
                error
            }
            other => format!("json: cannot unmarshal {} into Go value of type {GO_TYPE_META}", other.json_type()),
        },
    };
    Err(format!("{NO_KIND}{why}"))
}
