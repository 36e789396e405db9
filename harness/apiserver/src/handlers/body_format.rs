//! Formats of request bodies. See `staging/src/k8s.io/apimachinery/pkg/runtime/serializer/codec_factory.go`.

use super::body::unrecognized_object;
use crate::negotiate::MEDIA_TYPES;
use crate::status::Status;

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Yaml,
}

/// Returns the format of a body by its content type.
pub(crate) fn body_format(content_type: &str, body: &[u8], kind: &str) -> Result<BodyFormat, Status> {
    if content_type.is_empty() {
        return Ok(BodyFormat::Json);
    }
    if !has_parameters(content_type) {
        return Err(Status::unsupported_media_type(&MEDIA_TYPES));
    }
    match content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/json" => Ok(BodyFormat::Json),
        "application/yaml" => Ok(BodyFormat::Yaml),
        "application/vnd.kubernetes.protobuf" => {
            let prefix = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
            // Protobuf that could be decoded is JSON at this point.
            let why = if body.starts_with(b"k8s\0") { "unexpected EOF" } else { prefix };
            Err(unrecognized_object(kind, why, body))
        }
        _ => Err(Status::unsupported_media_type(&MEDIA_TYPES)),
    }
}

/// Returns true if everything after the media type's name is a parameter.
fn has_parameters(content_type: &str) -> bool {
    let mut rest = content_type.split(';').skip(1).map(str::trim).collect::<Vec<_>>();
    // A trailing semicolon is allowed.
    rest.pop_if(|last| last.is_empty());
    rest.iter().all(|part| part.split_once('=').is_some_and(|(name, value)| !name.is_empty() && !value.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_end_with_parameters() {
        for fine in ["application/json", "application/json; charset=utf-8", "application/json;"] {
            assert!(has_parameters(fine), "{fine}");
        }
        assert!(!has_parameters("application/json;;"));
    }
}
