//! Objects that mutations made, decoded again as the kind that is admitted. Follows
//! `plugin/webhook/mutating/dispatcher.go` in `staging/src/k8s.io/apiserver/pkg/admission`.

use std::sync::Arc;

use super::host::AdmissionHost;
use super::matching::Invocation;
use crate::json::Value;
use crate::schema::{self, Schema};

/// Reasons why what a mutation made is not an object of the kind, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(super) enum MutatedError {
    /// It cannot be decoded.
    #[error("{0}")]
    Decode(String),
    /// It is an object of another kind.
    #[error("{0}")]
    Foreign(String),
}

/// Returns the object that a mutation made, decoded and with its defaults, in the version of the invocation, and the
/// complaints of strict decoding.
///
/// # Errors
/// The object is not one of its kind any more.
pub(super) fn mutated(
    host: &dyn AdmissionHost,
    invocation: &Invocation,
    changed: &Value,
) -> Result<(Value, Vec<String>), MutatedError> {
    let other = invocation.other().map(|other| &**other);
    let (mut object, strict) = match other {
        // Custom resources are pruned in the version of the request.
        Some(other) if other.is_unstructured() => (changed.clone(), Vec::new()),
        _ => {
            let decoded = schema_of(host, invocation).convert(changed);
            let decoded = decoded.map_err(|error| MutatedError::Decode(error.to_string()))?;
            (decoded.value, decoded.strict)
        }
    };
    if let Some(why) = host.kind_error(other, &object) {
        let is_known = why.ends_with("unknown conversion");
        return Err(if is_known { MutatedError::Foreign(why) } else { MutatedError::Decode(why) });
    }
    if let Some(kind) = host.own_kind(other)
        && object.get("kind").is_none_or(|given| *given == "")
    {
        object["kind"] = kind.kind.as_ref().into();
        object["apiVersion"] = kind.api_version().into();
    }
    host.default(other, &mut object);
    Ok((object, strict))
}

/// Returns the schema of the objects of an invocation.
pub(super) fn schema_of(host: &dyn AdmissionHost, invocation: &Invocation) -> Arc<Schema> {
    let Some(other) = invocation.other() else { return host.schema() };
    match &other.custom {
        Some(custom) => custom.types.clone(),
        None => schema::builtin(&other.schema).unwrap_or_else(|| host.schema()),
    }
}
