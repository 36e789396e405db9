//! The objects that are embedded in custom resources (`x-kubernetes-embedded-resource`): their type and metadata.
//! Follows `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta` of Kubernetes 1.36. PURE.

use super::validate::{child, flag, path, schema_of};
use crate::field_errors::{ErrorList, FieldError};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::registry::{NameFormat, meta, names};
use crate::schema;

/// Deepest schema level that is visited.
const MAX_SCHEMA_DEPTH: usize = 100;

/// Checks the apiVersion and kind of an embedded object.
pub(super) fn embedded_type(fields: &Map, name: &str, errors: &mut ErrorList) {
    for field in ["apiVersion", "kind"] {
        let at = child(name, field);
        let Some(value) = fields.get(field) else {
            errors.required(&path(&at), "");
            continue;
        };
        let why = match value.as_str() {
            None => "must be a string".to_owned(),
            Some("") => "must not be empty".to_owned(),
            Some(version) if field == "apiVersion" && version.matches('/').count() > 1 => {
                format!("unexpected GroupVersion string: {version}")
            }
            Some(kind) if field == "kind" => {
                let malformed = names::dns1035_label(&kind.to_lowercase());
                if malformed.is_empty() {
                    continue;
                }
                format!("may have mixed case, but should otherwise match: {}", malformed.join(","))
            }
            Some(_) => continue,
        };
        errors.invalid(&path(&at), value, why);
    }
}

/// Checks the metadata of an embedded object.
pub(super) fn embedded_metadata(fields: &Map, name: &str, errors: &mut ErrorList) {
    let Some(metadata) = fields.get("metadata") else { return };
    let at = child(name, "metadata");
    if let Some(why) = meta::decode_error(metadata) {
        return errors.invalid(&path(&at), metadata, why);
    }
    let mut object = json!({"metadata": metadata});
    // Names of embedded objects are optional.
    if metadata::name(&object).is_empty() && metadata.is_object() {
        object["metadata"]["name"] = "fakename".into();
    }
    let namespaced = !metadata::namespace(&object).is_empty();
    errors.append(meta::validate(&object, namespaced, NameFormat::PathSegment, &path(&at)));
}

/// Returns the error of the first embedded object in `value` whose type or metadata cannot be decoded.
pub(crate) fn embedded_error(schema: &Value, value: &Value, name: &str) -> Option<FieldError> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(field, value)| {
            let at = child(name, field);
            if flag(schema, "x-kubernetes-embedded-resource") {
                let why = match field.as_str() {
                    "apiVersion" | "kind" if !value.is_string() => Some("must be a string".to_owned()),
                    "metadata" => meta::decode_error(value),
                    _ => None,
                };
                if let Some(why) = why {
                    return Some(FieldError::invalid(&path(&at), value, why));
                }
            }
            embedded_error(schema_of(schema, field)?, value, &at)
        }),
        Value::Array(list) => {
            let items = schema.get("items")?;
            list.iter().enumerate().find_map(|(index, item)| embedded_error(items, item, &format!("{name}[{index}]")))
        }
        _ => None,
    }
}

/// Returns true if a schema declares embedded objects.
pub(super) fn has_embedded(schema: &Value) -> bool {
    has_embedded_below(schema, 0)
}

fn has_embedded_below(schema: &Value, depth: usize) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let parts = ["items", "additionalProperties"].into_iter().filter_map(|part| schema.get(part));
    let mut all = properties.map(|(_, property)| property).chain(parts);
    depth <= MAX_SCHEMA_DEPTH
        && (flag(schema, "x-kubernetes-embedded-resource") || all.any(|part| has_embedded_below(part, depth + 1)))
}

/// Replaces the metadata of embedded objects by that which a round trip through `ObjectMeta` leaves of it: without
/// empty and unknown fields. Metadata that cannot be decoded stays. Follows `coerce.go`.
pub(super) fn coerce_embedded(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if flag(schema, "x-kubernetes-embedded-resource")
                && let Some(metadata) = fields.get_mut("metadata")
            {
                coerce_metadata(metadata);
            }
            for (name, value) in fields.iter_mut() {
                if let Some(schema) = schema_of(schema, name) {
                    coerce_embedded(schema, value);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for item in list {
                    coerce_embedded(items, item);
                }
            }
        }
        _ => {}
    }
}

fn coerce_metadata(metadata: &mut Value) {
    let Some(types) = schema::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta") else { return };
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let Ok(mut decoded) = types.decode(metadata.to_string().as_bytes()) else { return };
    if let Some(fields) = decoded.value.as_object_mut() {
        let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        fields.retain(|name, value| !(name == "creationTimestamp" || name == "managedFields") || !empty(value));
    }
    *metadata = decoded.value;
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(json!({"name": "x", "labels": {}, "annotations": null, "creationTimestamp": null, "finalizers": []}), json!({"name": "x"}))]
    #[case(json!({"name": "x", "labels": {"a": "b"}, "unknown": 1, "managedFields": []}), json!({"name": "x", "labels": {"a": "b"}}))]
    #[case(json!({"creationTimestamp": "2026-01-01T00:00:00Z"}), json!({"creationTimestamp": "2026-01-01T00:00:00Z"}))]
    #[case(json!(null), json!({}))]
    #[case::undecodable(json!({"name": 5, "labels": {}}), json!({"name": 5, "labels": {}}))]
    fn metadata_of_embedded_objects(#[case] given: Value, #[case] expected: Value) {
        let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"type": "object", "properties": {"one": embedded,
            "list": {"type": "array", "items": embedded},
            "map": {"type": "object", "additionalProperties": embedded}}});
        let of = |metadata: &Value| {
            let object = json!({"kind": "X", "metadata": metadata, "spec": {"metadata": {"labels": {}}}});
            json!({"one": object, "list": [object], "map": {"a": object}, "metadata": {"labels": {}}})
        };
        let mut object = of(&given);
        coerce_embedded(&schema, &mut object);
        assert_eq!(object, of(&expected));
        assert!(has_embedded(&schema));
    }

    #[test]
    fn ordinary_schemas_embed_nothing() {
        let metadata = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        assert!(!has_embedded(&json!({"type": "object", "properties": {"metadata": metadata}})));
    }
}
