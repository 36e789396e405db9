//! Defaulting of custom resources by their structural schema. Follows
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting` of Kubernetes 1.36. PURE.

use crate::json::{Map, Value};

/// Top-level fields that the schema does not govern.
const TYPE_AND_METADATA: &[&str] = &["apiVersion", "kind", "metadata"];

/// Most bytes of defaults that are filled in. An object with more is larger than any that can be stored.
const MAX_BYTES: usize = 16 << 20;

/// Fills in the schema's defaults, and drops nulls of fields that are not nullable.
pub(super) fn apply(schema: &Value, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let kept: Vec<(String, Value)> = TYPE_AND_METADATA
        .iter()
        .filter_map(|&name| fields.remove(name).map(|value| (name.to_owned(), value)))
        .collect();
    let mut left = MAX_BYTES;
    default_value(schema, object, true, &mut left);
    if let Some(fields) = object.as_object_mut() {
        fields.extend(kept);
    }
}

fn default_value(schema: &Value, value: &mut Value, root: bool, left: &mut usize) {
    match value {
        Value::Object(fields) => {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                default_properties(properties, fields, root, left);
            }
            if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
                let declared = schema.get("properties");
                let extra = fields
                    .iter_mut()
                    .filter(|(name, _)| declared.is_none_or(|known| known.get(name.as_str()).is_none()));
                extra.for_each(|(_, value)| default_value(values, value, false, left));
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for item in list {
                    default_value(items, item, false, left);
                }
            }
        }
        _ => {}
    }
}

fn default_properties(properties: &Map, fields: &mut Map, root: bool, left: &mut usize) {
    for (name, schema) in properties {
        if root && TYPE_AND_METADATA.contains(&name.as_str()) {
            continue;
        }
        let nullable = schema.get("nullable").and_then(Value::as_bool) == Some(true);
        if !nullable && fields.get(name).is_some_and(Value::is_null) {
            fields.remove(name);
        }
        if !fields.contains_key(name)
            && let Some(default) = schema.get("default")
            && *left > 0
        {
            *left = left.saturating_sub(name.len() + bytes(default));
            fields.insert(name.clone(), default.clone());
        }
        if let Some(value) = fields.get_mut(name) {
            default_value(schema, value, false, left);
        }
    }
}

/// Returns about as many bytes as the value has when it is encoded.
fn bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(|item| 1 + bytes(item)).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| 3 + name.len() + bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    #[rstest]
    #[case::absent_parent_stays_absent(json!({}), json!({}))]
    #[case::nested(json!({"spec": {}}), json!({"spec": {"size": 3}}))]
    #[case::given_stays(json!({"spec": {"size": 5}}), json!({"spec": {"size": 5}}))]
    #[case::null_becomes_the_default(json!({"spec": {"size": null}}), json!({"spec": {"size": 3}}))]
    #[case::null_without_default_goes(json!({"spec": null}), json!({}))]
    #[case::nullable_null_stays(json!({"spec": {"size": 1, "free": null}}), json!({"spec": {"size": 1, "free": null}}))]
    #[case::items(json!({"spec": {"size": 1, "list": [{}, {"on": false}]}}), json!({"spec": {"size": 1, "list": [{"on": true}, {"on": false}]}}))]
    #[case::map_values(json!({"spec": {"size": 1, "map": {"a": {}}}}), json!({"spec": {"size": 1, "map": {"a": {"on": true}}}}))]
    #[case::metadata_is_left_alone(json!({"metadata": {"labels": null}}), json!({"metadata": {"labels": null}}))]
    fn defaults(#[case] mut object: Value, #[case] expected: Value) {
        let on = json!({"type": "object", "properties": {"on": {"type": "boolean", "default": true}}});
        let schema = json!({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "default": 3}, "free": {"type": "string", "nullable": true},
            "list": {"type": "array", "items": on}, "map": {"type": "object", "additionalProperties": on}}}}});
        apply(&schema, &mut object);
        assert_eq!(object, expected);
    }
}
