//! Defaulting of custom resources by their structural schema. Follows
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting` of Kubernetes 1.36. PURE.

use super::validate::{flag, schema_of};
use crate::json::{Map, Value};

/// Top-level fields that the schema does not govern.
const TYPE_AND_METADATA: &[&str] = &["apiVersion", "kind", "metadata"];

/// Most bytes of defaults that are filled in. An object with more is larger than any that can be stored.
const MAX_BYTES: usize = 16 << 20;

/// Fills in the schema's defaults, and drops nulls of fields that are not nullable.
pub(super) fn apply(schema: &Value, object: &mut Value) {
    within(schema, object, true);
}

/// Fills in the schema's defaults.
pub(super) fn fill(schema: &Value, object: &mut Value) {
    within(schema, object, false);
}

fn within(schema: &Value, object: &mut Value, prunes: bool) {
    let Some(fields) = object.as_object_mut() else { return };
    let kept: Vec<(String, Value)> = TYPE_AND_METADATA
        .iter()
        .filter_map(|&name| fields.remove(name).map(|value| (name.to_owned(), value)))
        .collect();
    if prunes {
        prune_nulls(schema, object);
    }
    let mut left = MAX_BYTES;
    default_value(schema, object, true, &mut left);
    if let Some(fields) = object.as_object_mut() {
        fields.extend(kept);
    }
}

/// Drops nulls of fields and map values that are neither nullable nor have a default. Those with a default become it in
/// [`default_value`]. Follows `prunenulls.go`.
fn prune_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let Some(schema) = schema_of(schema, name) else { return true };
            prune_nulls(schema, value);
            !is_refused_null(schema, value) || default_of(schema).is_some()
        }),
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for item in list {
                    prune_nulls(items, item);
                }
            }
        }
        _ => {}
    }
}

/// Returns true for a null that is not allowed.
fn is_refused_null(schema: &Value, value: &Value) -> bool {
    value.is_null() && !flag(schema, "nullable")
}

fn default_of(schema: &Value) -> Option<&Value> {
    schema.get("default").filter(|default| !default.is_null())
}

fn default_value(schema: &Value, value: &mut Value, root: bool, left: &mut usize) {
    match value {
        Value::Object(fields) => {
            let declared = schema.get("properties").and_then(Value::as_object);
            if let Some(properties) = declared {
                default_properties(properties, fields, root, left);
            }
            if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
                let known = |name: &str| declared.is_some_and(|declared| declared.contains_key(name));
                let extra = fields.iter_mut().filter(|(name, _)| !known(name.as_str()));
                extra.for_each(|(_, value)| default_element(values, value, left));
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for item in list {
                    default_element(items, item, left);
                }
            }
        }
        _ => {}
    }
}

/// Fills in the defaults of a list item or map value, which becomes the schema's own default if it is null.
fn default_element(schema: &Value, value: &mut Value, left: &mut usize) {
    if is_refused_null(schema, value)
        && let Some(default) = default_of(schema)
        && *left > 0
    {
        *left = left.saturating_sub(bytes(default));
        *value = default.clone();
    }
    default_value(schema, value, false, left);
}

fn default_properties(properties: &Map, fields: &mut Map, root: bool, left: &mut usize) {
    for (name, schema) in properties {
        if root && TYPE_AND_METADATA.contains(&name.as_str()) {
            continue;
        }
        if fields.get(name).is_none_or(|value| is_refused_null(schema, value))
            && let Some(default) = default_of(schema)
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
    #[case::null_in_a_map_goes(json!({"texts": {"a": null, "b": "x"}}), json!({"texts": {"b": "x"}}))]
    #[case::null_below_a_map_goes(json!({"maps": {"a": {"on": null, "b": null}}}), json!({"maps": {"a": {"on": true}}}))]
    #[case::null_in_a_map_becomes_the_default(json!({"defaulted": {"a": null}}), json!({"defaulted": {"a": "dd"}}))]
    #[case::null_in_a_list_becomes_the_default(json!({"items": [null, "x"]}), json!({"items": ["dd", "x"]}))]
    #[case::null_in_a_list_without_default_stays(json!({"plain": [null]}), json!({"plain": [null]}))]
    #[case::nullable_null_in_a_map_stays(json!({"free": {"a": null}}), json!({"free": {"a": null}}))]
    #[case::null_without_schema_stays(json!({"other": {"a": null}}), json!({"other": {"a": null}}))]
    #[case::a_null_default_is_none(json!({"none": {}}), json!({"none": {}}))]
    #[case::metadata_is_left_alone(json!({"metadata": {"labels": null}}), json!({"metadata": {"labels": null}}))]
    fn defaults(#[case] mut object: Value, #[case] expected: Value) {
        let on = json!({"type": "object", "properties": {"on": {"type": "boolean", "default": true}}});
        let schema = json!({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "default": 3}, "free": {"type": "string", "nullable": true},
            "list": {"type": "array", "items": on}, "map": {"type": "object", "additionalProperties": on}}},
            "texts": {"type": "object", "additionalProperties": {"type": "string"}},
            "maps": {"type": "object", "additionalProperties": {"type": "object", "properties": {
                "on": on["properties"]["on"], "b": {"type": "string"}}}},
            "defaulted": {"type": "object", "additionalProperties": {"type": "string", "default": "dd"}},
            "items": {"type": "array", "items": {"type": "string", "default": "dd"}},
            "plain": {"type": "array", "items": {"type": "string"}},
            "free": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
            "other": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "none": {"type": "object", "properties": {"a": {"type": "string", "default": null}}}}});
        apply(&schema, &mut object);
        assert_eq!(object, expected);
    }
}
