//! The types of custom resources, from their definitions. Does the work of
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder/builder.go` of Kubernetes 1.36. PURE.

use crate::descriptions;
use crate::json::{Map, Value, json};
use crate::registry::Resource;
use crate::registry::custom::CustomResource;

/// The built-in type from which the descriptions of common fields are taken.
const LIKE: &str = "api.core.v1.Pod";

/// Description of a list's metadata.
const LIST_META: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

const META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1";

/// Returns the name of a custom kind's type: its group reversed, version and kind.
pub(super) fn name_of(kind: &Resource) -> String {
    let mut parts: Vec<&str> = kind.group.split('.').collect();
    parts.reverse();
    format!("{}.{}.{}", parts.join("."), kind.version, kind.kind)
}

/// Adds the types of a kind and of its list; with `v2` in the reduced form of version 2.
pub(super) fn add(kind: &Resource, own: &CustomResource, v2: bool, schemas: &mut Map) {
    let name = name_of(kind);
    let gvk = |kind_name: &str| json!([{"group": kind.group, "kind": kind_name, "version": kind.version}]);
    let open = has(&own.schema, "x-kubernetes-preserve-unknown-fields");
    let unknown = own.schema.as_object().is_none_or(Map::is_empty);
    // With any properties, kubectl would take all others for unknown.
    let mut schema = if unknown || (v2 && open) { json!({"type": "object"}) } else { with_meta(&own.schema, v2) };
    schema["x-kubernetes-group-version-kind"] = gvk(&kind.kind);
    let about = |field: &str| descriptions::of_field(LIKE, field);
    let text = |field: &str| json!({"type": "string", "description": about(field)});
    let more = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    let mut list = json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text("apiVersion"),
            "kind": text("kind"),
            "metadata": {"description": LIST_META, "allOf": [{"$ref": format!("{META}.ListMeta")}]},
            "items": {"type": "array", "description": format!("List of {}. {more}", kind.plural),
                "items": {"$ref": format!("#/components/schemas/{name}")}},
        },
        "x-kubernetes-group-version-kind": gvk(&kind.list_kind),
    });
    if !kind.selectable.is_empty() {
        let fields: Vec<Value> = kind.selectable.iter().map(|field| json!({"fieldPath": field.label})).collect();
        schema["x-kubernetes-selectable-fields"] = json!(fields);
        list["x-kubernetes-selectable-fields"] = json!(fields);
    }
    schemas.insert(format!("{name}List"), list);
    schemas.insert(name, schema);
}

fn has(schema: &Value, flag: &str) -> bool {
    schema.get(flag) == Some(&Value::Bool(true))
}

/// Returns the schema with the fields that all objects have.
fn with_meta(declared: &Value, v2: bool) -> Value {
    let mut schema = declared.clone();
    if v2 {
        reduce(&mut schema);
    }
    add_embedded(&mut schema, v2);
    schema["type"] = json!("object");
    for field in ["apiVersion", "kind"] {
        if schema["properties"][field].is_null() {
            schema["properties"][field] = json!({"type": "string", "description": descriptions::of_field(LIKE, field)});
        }
    }
    schema["properties"]["metadata"] = metadata();
    schema
}

fn metadata() -> Value {
    json!({"description": descriptions::of_field(LIKE, "metadata"), "allOf": [{"$ref": format!("{META}.ObjectMeta")}]})
}

/// Applies a function to the schemas directly below a schema.
fn below(schema: &mut Value, mut each: impl FnMut(&mut Value)) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(&mut each);
    }
    for field in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(field).filter(|inner| inner.is_object()) {
            each(inner);
        }
    }
}

/// Drops what version 2, or kubectl's use of it, has no form for: `ToStructuralOpenAPIV2` in
/// `staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2/conversion.go`.
fn reduce(schema: &mut Value) {
    let nullable = has(schema, "nullable");
    let open = has(schema, "x-kubernetes-preserve-unknown-fields");
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let optional: Vec<String> =
        properties.filter(|(_, inner)| has(inner, "nullable")).map(|(name, _)| name.to_string()).collect();
    let values = schema.get("additionalProperties").is_some_and(|values| has(values, "nullable"));
    let Some(fields) = schema.as_object_mut() else { return };
    let mut drop = vec!["allOf", "oneOf", "anyOf", "not"];
    if nullable {
        drop.extend(["type", "nullable", "default"]);
    }
    if nullable || open {
        drop.extend(["items", "properties"]);
    }
    if values {
        drop.push("required");
    }
    for field in drop {
        fields.remove(field);
    }
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    if (kind == "array" && !fields.contains_key("items")) || (kind == "object" && open) {
        fields.remove("type");
    }
    if let Some(required) = fields.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name.as_str().is_none_or(|name| optional.iter().all(|other| other != name)));
    }
    below(schema, reduce);
}

/// Adds the fields that embedded objects have.
fn add_embedded(schema: &mut Value, v2: bool) {
    below(schema, |inner| add_embedded(inner, v2));
    let open = v2 && has(schema, "x-kubernetes-preserve-unknown-fields");
    if open || !has(schema, "x-kubernetes-embedded-resource") {
        return;
    }
    for field in ["apiVersion", "kind"] {
        schema["properties"][field] = json!({"type": "string", "description": descriptions::of_field(LIKE, field)});
    }
    schema["properties"]["metadata"] = metadata();
    let mut required = schema["required"].as_array().cloned().unwrap_or_default();
    for field in ["kind", "apiVersion"] {
        if required.iter().all(|name| name != field) {
            required.push(json!(field));
        }
    }
    schema["required"] = Value::Array(required);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::nullable(json!({"type": "integer", "format": "int64", "nullable": true, "default": 1}), json!({"format": "int64"}))]
    #[case::alternatives(json!({"type": "string", "anyOf": [{"pattern": "a"}]}), json!({"type": "string"}))]
    #[case::open(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}}),
        json!({"x-kubernetes-preserve-unknown-fields": true}))]
    #[case::below(json!({"type": "array", "items": {"type": "string", "nullable": true}}), json!({"type": "array", "items": {}}))]
    #[case::required(json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
        json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}}))]
    fn version_two_is_reduced(#[case] mut schema: Value, #[case] expected: Value) {
        reduce(&mut schema);
        assert_eq!(schema, expected);
    }

    #[test]
    fn embedded_objects_have_their_own_metadata() {
        let mut schema = json!({"properties": {"e": {"type": "object", "x-kubernetes-embedded-resource": true}}});
        add_embedded(&mut schema, false);
        assert_eq!(schema["properties"]["e"]["required"], json!(["kind", "apiVersion"]));
        assert!(schema["properties"]["e"]["properties"]["metadata"]["allOf"].is_array());
    }
}
