//! The fields that a schema may have at its root if the status is a subresource, and the form in which errors show such
//! a schema. Follows `pkg/apis/apiextensions/validation/validation.go` and `pkg/apis/apiextensions/types_jsonschema.go`
//! in `staging/src/k8s.io/apiextensions-apiserver` of Kubernetes 1.36. PURE.

use super::text_fields::text;
use crate::field_errors::{BadValue, ErrorList, Path, go_json};
use crate::json::{Value, json};

/// The form of a field in upstream's internal type of schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PropsField {
    Text,
    Flag,
    Json,
    Schema,
    Schemas,
    Properties,
    Items,
    SchemaOrBool,
    Docs,
    Rules,
}

/// The fields of upstream's internal type in its order: the name in Go, the name on the wire, the form, and true if
/// they are allowed at the root (`allowedFieldsAtRootSchema`).
const FIELDS: [(&str, &str, PropsField, bool); 43] = {
    use PropsField::{Docs, Flag, Items, Json, Properties, Schema, SchemaOrBool, Schemas, Text};
    [
        ("ID", "id", Text, false),
        ("Schema", "$schema", Text, false),
        ("Ref", "$ref", Json, false),
        ("Description", "description", Text, true),
        ("Type", "type", Text, true),
        ("Nullable", "nullable", Flag, false),
        ("Format", "format", Text, true),
        ("Title", "title", Text, true),
        ("Default", "default", Json, false),
        ("Maximum", "maximum", Json, true),
        ("ExclusiveMaximum", "exclusiveMaximum", Flag, true),
        ("Minimum", "minimum", Json, true),
        ("ExclusiveMinimum", "exclusiveMinimum", Flag, true),
        ("MaxLength", "maxLength", Json, true),
        ("MinLength", "minLength", Json, true),
        ("Pattern", "pattern", Text, true),
        ("MaxItems", "maxItems", Json, true),
        ("MinItems", "minItems", Json, true),
        ("UniqueItems", "uniqueItems", Flag, true),
        ("MultipleOf", "multipleOf", Json, true),
        ("Enum", "enum", Json, false),
        ("MaxProperties", "maxProperties", Json, false),
        ("MinProperties", "minProperties", Json, false),
        ("Required", "required", Json, true),
        ("Items", "items", Items, true),
        ("AllOf", "allOf", Schemas, false),
        ("OneOf", "oneOf", Schemas, false),
        ("AnyOf", "anyOf", Schemas, false),
        ("Not", "not", Schema, false),
        ("Properties", "properties", Properties, true),
        ("AdditionalProperties", "additionalProperties", SchemaOrBool, false),
        ("PatternProperties", "patternProperties", Properties, false),
        ("Dependencies", "dependencies", Json, false),
        ("AdditionalItems", "additionalItems", SchemaOrBool, false),
        ("Definitions", "definitions", Properties, false),
        ("ExternalDocs", "externalDocs", Docs, true),
        ("Example", "example", Json, true),
        ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Json, true),
        ("XEmbeddedResource", "x-kubernetes-embedded-resource", Flag, false),
        ("XIntOrString", "x-kubernetes-int-or-string", Flag, false),
        ("XListMapKeys", "x-kubernetes-list-map-keys", Json, false),
        ("XListType", "x-kubernetes-list-type", Json, false),
        ("XMapType", "x-kubernetes-map-type", Json, false),
    ]
};

/// The last field of the type.
const VALIDATIONS: (&str, &str) = ("XValidations", "x-kubernetes-validations");

/// Checks the root of a schema whose status is a subresource: what is said there must hold for the status alone.
pub(super) fn check_root(schema: &Value, path: &str, errors: &mut ErrorList) {
    for (_, name, form, allowed) in FIELDS {
        if !is_set(&schema[name], form) {
            continue;
        }
        if name == "type" && text(schema, name) != "object" {
            let why =
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            return errors.invalid(&Path::new(&format!("{path}.type")), text(schema, name), why);
        }
        if !allowed {
            let names: Vec<&str> = FIELDS.iter().filter(|field| field.3).map(|field| field.0).collect();
            let why = format!(
                "only [{} {}] fields are allowed at the root of the schema if the status subresource is enabled",
                names.join(" "),
                VALIDATIONS.0
            );
            return errors.invalid(&Path::new(path), BadValue::Raw(internal_schema(schema)), why);
        }
    }
}

/// Returns true if a field is not the zero value of its type.
fn is_set(value: &Value, form: PropsField) -> bool {
    match (value, form) {
        (Value::Null, _) => false,
        (Value::Bool(flag), PropsField::Flag) => *flag,
        (Value::String(text), PropsField::Text) => !text.is_empty(),
        (Value::Array(list), _) => !list.is_empty(),
        _ => true,
    }
}

/// Prints a schema as Go encodes upstream's internal type.
pub(super) fn internal_schema(schema: &Value) -> String {
    let shown = FIELDS.iter().map(|(go, name, form, _)| format!("\"{go}\":{}", internal_field(&schema[*name], *form)));
    let rules = internal_field(&schema[VALIDATIONS.1], PropsField::Rules);
    let shown: Vec<String> = shown.chain([format!("\"{}\":{rules}", VALIDATIONS.0)]).collect();
    format!("{{{}}}", shown.join(","))
}

fn internal_field(value: &Value, form: PropsField) -> String {
    let null = || "null".to_owned();
    let list = |shown: Vec<String>| format!("[{}]", shown.join(","));
    let array = value.as_array().filter(|list| !list.is_empty());
    match form {
        PropsField::Text => go_json(&json!(value.as_str().unwrap_or_default())),
        PropsField::Flag => (value == &json!(true)).to_string(),
        PropsField::Json => go_json(value),
        PropsField::Schema if value.is_object() => internal_schema(value),
        PropsField::Items if value.is_object() => {
            format!("{{\"Schema\":{},\"JSONSchemas\":null}}", internal_schema(value))
        }
        PropsField::SchemaOrBool => match value {
            Value::Bool(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
            Value::Object(_) => format!("{{\"Allows\":true,\"Schema\":{}}}", internal_schema(value)),
            _ => null(),
        },
        PropsField::Docs if value.is_object() => {
            let field = |name: &str| go_json(&json!(text(value, name)));
            format!("{{\"Description\":{},\"URL\":{}}}", field("description"), field("url"))
        }
        PropsField::Schemas => array.map_or_else(null, |all| list(all.iter().map(internal_schema).collect())),
        PropsField::Rules => array.map_or_else(null, |all| list(all.iter().map(internal_rule).collect())),
        PropsField::Properties => value.as_object().filter(|all| !all.is_empty()).map_or_else(null, |all| {
            let shown = all.iter().map(|(name, part)| format!("{}:{}", go_json(&json!(name)), internal_schema(part)));
            format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
        }),
        PropsField::Schema | PropsField::Items | PropsField::Docs => null(),
    }
}

fn internal_rule(rule: &Value) -> String {
    let field = |name: &str| go_json(&json!(text(rule, name)));
    let pointer = |name: &str| go_json(rule.get(name).unwrap_or(&Value::Null));
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        field("rule"),
        field("message"),
        field("messageExpression"),
        pointer("reason"),
        field("fieldPath"),
        pointer("optionalOldSelf")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(json!({"type": "object", "description": "d", "required": ["spec"], "properties": {}, "x-kubernetes-preserve-unknown-fields": true}), None)]
    #[case(json!({"type": "object", "x-kubernetes-validations": [{"rule": "true"}]}), None)]
    #[case(json!({"type": "object", "anyOf": []}), None)]
    #[case(json!({"type": "object", "maxProperties": 2}), Some("s"))]
    #[case(json!({"type": "object", "anyOf": [{"required": ["a"]}]}), Some("s"))]
    #[case(json!({"type": "object", "additionalProperties": false}), Some("s"))]
    #[case(json!({"type": "object", "x-kubernetes-map-type": "granular"}), Some("s"))]
    #[case(json!({"type": "array"}), Some("s.type"))]
    fn fields_at_the_root(#[case] schema: Value, #[case] field: Option<&str>) {
        let mut errors = ErrorList::new();
        check_root(&schema, "s", &mut errors);
        assert_eq!(errors.iter().map(|error| error.cause().field).collect::<Vec<_>>(), Vec::from_iter(field));
    }

    #[test]
    fn errors_show_the_internal_schema() {
        let mut errors = ErrorList::new();
        let schema = json!({"type": "object", "maxProperties": 2, "properties": {"a": {"type": "array",
            "items": {"type": "string"}, "x-kubernetes-validations": [{"rule": "true"}]}}});
        check_root(&schema, "s", &mut errors);
        let message = errors.iter().map(|error| error.cause().message).collect::<String>();
        assert!(
            message.starts_with(
                "Invalid value: {\"ID\":\"\",\"Schema\":\"\",\"Ref\":null,\"Description\":\"\",\"Type\":\"object\""
            ),
            "{message}"
        );
        assert!(message.contains("\"Items\":{\"Schema\":{\"ID\":\"\""), "{message}");
        assert!(message.contains("\"XValidations\":[{\"Rule\":\"true\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}]"), "{message}");
        let end = ": only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled";
        assert!(message.ends_with(end), "{message}");
    }
}
