//! JSON merge patch (RFC 7386), as upstream's library `gopkg.in/evanphx/json-patch.v4` applies it.
//! See `jsonPatcher` in `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.

use super::super::schema::FieldValidation;
use super::super::status::Status;
use super::decode::decode_object;
use crate::json::{Map, Value};

/// Decodes the body of a merge patch; returns complaints about duplicate fields, and the patch.
///
/// # Errors
/// 400 if it is not a JSON object.
pub(crate) fn decode(body: &[u8], validation: FieldValidation) -> Result<(Vec<String>, Map), Status> {
    match (decode_object(body), validation) {
        (Ok((strict, Some(patch))), _) => Ok((strict, patch)),
        // Without field validation the patch library parses the body itself, and it has only one error.
        (Ok((_, None)), _) | (Err(_), FieldValidation::Ignore) => Err(Status::bad_request("Invalid JSON Patch")),
        (Err(message), _) => Err(Status::bad_request(format!("error decoding patch: {message}"))),
    }
}

/// Merges `patch` into `target`: `null` removes, objects merge, everything else replaces.
pub(crate) fn merge(target: &mut Value, patch: Map) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    for (key, value) in patch {
        match (value, map.get_mut(&key)) {
            (Value::Null, _) => _ = map.remove(&key),
            (Value::Object(patch), Some(current @ Value::Object(_))) => merge(current, patch),
            (mut value, _) => {
                prune_nulls(&mut value);
                map.insert(key, value);
            }
        }
    }
}

/// Removes nulls from a value that is new to the document, except list items.
fn prune_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(prune_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(prune_nulls),
        _ => {}
    }
}
