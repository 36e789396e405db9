//! Validation of the defaults in the schemas of definitions: they must be valid under their own schemas, and have no
//! unknown fields. Follows `pkg/apiserver/schema/defaulting/validation.go` and `pkg/apiserver/schema/pruning` in
//! `staging/src/k8s.io/apiextensions-apiserver` of Kubernetes 1.36. PURE.

use super::cel;
use super::embedded::{coerce_embedded, embedded_error};
use super::text_fields::text;
use super::validate::{flag, validate_embedded, validate_value};
use crate::field_errors::{ErrorList, FieldError, Path};
use crate::json::{Key, Map, Value, json};

/// Deepest schema level that is visited.
const MAX_SCHEMA_DEPTH: usize = 100;
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// The fields of an object that its schema does not govern.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The place of a schema in that of a resource or of an embedded one.
#[derive(Debug, Clone)]
struct DefaultPlace<'s> {
    /// The schema of the resource.
    root: &'s Value,
    /// The fields on the way from the resource; `None` for an item of a list.
    steps: Vec<Option<&'s Key>>,
    /// True for the apiVersion, kind and metadata, and below them.
    inside_meta: bool,
}

/// Validates the defaults in the schema of a version, whose path is `path`. `pruned` requires them to have no unknown
/// fields.
pub(super) fn check_defaults(schema: &Value, path: &str, pruned: bool, errors: &mut ErrorList) {
    // The root is a resource, so that its own default needs a type: `ValidateDefaults` with `isResourceRoot`.
    let mut root = schema.clone();
    root[EMBEDDED] = true.into();
    let place = DefaultPlace { root: &root, steps: Vec::new(), inside_meta: false };
    visit(&root, &place, (path, 0), pruned, errors);
}

fn visit<'s>(
    schema: &'s Value,
    place: &DefaultPlace<'s>,
    (path, depth): (&str, usize),
    pruned: bool,
    errors: &mut ErrorList,
) {
    if depth > MAX_SCHEMA_DEPTH {
        return;
    }
    let embedded = flag(schema, EMBEDDED);
    let own = DefaultPlace { root: schema, steps: Vec::new(), inside_meta: false };
    let place = if embedded { &own } else { place };
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        check_default(schema, default, place, &format!("{path}.default"), pruned, errors);
    }
    // Defaults below `additionalProperties` are not checked.
    let below = |step: Option<&'s Key>, meta: bool| {
        let steps = place.steps.iter().copied().chain([step]).collect();
        DefaultPlace { root: place.root, steps, inside_meta: place.inside_meta || meta }
    };
    if schema["items"].is_object() {
        visit(&schema["items"], &below(None, false), (&format!("{path}.items"), depth + 1), pruned, errors);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let meta = (embedded || depth == 0) && META_FIELDS.contains(&name.as_str());
        let at = format!("{path}.properties[{name}]");
        visit(property, &below(Some(name), meta), (&at, depth + 1), pruned, errors);
    }
}

fn check_default(
    schema: &Value,
    default: &Value,
    place: &DefaultPlace<'_>,
    at: &str,
    pruned: bool,
    errors: &mut ErrorList,
) {
    if place.inside_meta {
        if let Some(why) = surrounding_error(default, place) {
            return errors.invalid(&Path::new(at), default, format!("must result in valid metadata: {why}"));
        }
    } else {
        if pruned && has_unknown_fields(default, Some(schema), false) {
            errors.invalid(&Path::new(at), default, "must not have unknown fields");
        }
        if let Some(error) = embedded_error(schema, default, at) {
            return errors.push(error);
        }
        let invalid = validate_embedded(schema, default, at);
        if !invalid.is_empty() {
            return errors.append(invalid);
        }
    }
    let mut coerced = default.clone();
    coerce_embedded(schema, &mut coerced);
    let invalid = validate_value(schema, &coerced);
    let found = if invalid.is_empty() { cel::judge_default(schema, &coerced) } else { invalid };
    for error in found {
        errors.push(below_default(error, at));
    }
}

/// Prefixes the field of an error with the path of the default.
fn below_default(mut error: FieldError, at: &str) -> FieldError {
    let judged = error.field == "<nil>";
    error.field = if error.field.is_empty() || judged { at.to_owned() } else { format!("{at}.{}", error.field) };
    error
}

/// Returns the error in the type or metadata of an object that has only the default.
fn surrounding_error(default: &Value, place: &DefaultPlace<'_>) -> Option<String> {
    let around = |inner: Value, step: Option<&Key>| match step {
        Some(name) => Value::Object([(name.to_string(), inner)].into_iter().collect::<Map>()),
        None => json!([inner]),
    };
    let mut object = place.steps.iter().rev().copied().fold(default.clone(), around);
    for (field, value) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
        if text(&object, field).is_empty() && object.get(field).is_none() {
            object[field] = value.into();
        }
    }
    let mut root = place.root.clone();
    root[EMBEDDED] = true.into();
    let undecodable = embedded_error(&root, &object, "").map(|error| error.to_string());
    undecodable.or_else(|| validate_embedded(&root, &object, "").to_aggregate_message())
}

/// Returns true if pruning would remove something from a value. `kept` is true in an array below a schema that
/// preserves unknown fields. See `prune` and `skipPrune` in `algorithm.go`.
pub(super) fn has_unknown_fields(value: &Value, schema: Option<&Value>, kept: bool) -> bool {
    let preserve = kept || schema.is_some_and(|schema| flag(schema, PRESERVE));
    match (value, schema) {
        (Value::Object(fields), None) => !fields.is_empty() && !kept,
        (Value::Object(fields), Some(schema)) => fields.iter().any(|(name, value)| {
            if flag(schema, EMBEDDED) && META_FIELDS.contains(&name.as_str()) {
                return false;
            }
            let additional = schema.get("additionalProperties").filter(|additional| !additional.is_null());
            match (schema["properties"].get(name), additional) {
                (Some(property), _) => has_unknown_fields(value, Some(property), false),
                (None, Some(values)) => has_unknown_fields(value, Some(values).filter(|one| one.is_object()), false),
                (None, None) => !preserve,
            }
        }),
        (Value::Array(list), schema) => {
            let items = schema.and_then(|schema| schema.get("items")).filter(|items| items.is_object());
            list.iter().any(|item| has_unknown_fields(item, items, preserve))
        }
        _ => false,
    }
}

/// Returns true if a default in a schema has unknown fields.
pub(super) fn has_unpruned_default(schema: &Value) -> bool {
    let default = schema.get("default").filter(|default| !default.is_null());
    default.is_some_and(|default| has_unknown_fields(default, Some(schema), false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn found(property: &Value, pruned: bool) -> Vec<String> {
        let mut errors = ErrorList::new();
        check_defaults(&json!({"type": "object", "properties": {"a": property}}), "s", pruned, &mut errors);
        errors.iter().map(|e| format!("{}: {}", e.cause().field, e.cause().message)).collect()
    }

    #[rstest]
    #[case::unknown_field(json!({"type": "object", "properties": {"b": {"type": "string"}}, "default": {"c": 1}}),
        &["s.properties[a].default: Invalid value: {\"c\":1}: must not have unknown fields"])]
    #[case::unknown_field_in_a_list(json!({"type": "array", "items": {"type": "object"}, "default": [{"c": 1}]}),
        &["s.properties[a].default: Invalid value: [{\"c\":1}]: must not have unknown fields"])]
    #[case::preserved(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": {"c": {"d": 1}}}), &[])]
    #[case::known(json!({"type": "object", "properties": {"b": {"type": "string"}}, "default": {"b": "x"}}), &[])]
    #[case::of_a_map(json!({"type": "object", "additionalProperties": {"type": "string"}, "default": {"b": "x"}}), &[])]
    #[case::own_rule(json!({"type": "integer", "default": 0, "x-kubernetes-validations": [{"rule": "self > 0"}]}),
        &["s.properties[a].default: Invalid value: 0: failed rule: self > 0"])]
    #[case::rule_of_a_field(json!({"type": "object", "default": {"b": 0}, "properties": {"b": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self > 0"}]}}}),
        &["s.properties[a].default.b: Invalid value: 0: failed rule: self > 0"])]
    #[case::transition_rule(json!({"type": "integer", "default": 0, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}), &[])]
    #[case::repeated_in_a_set(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}, "default": ["x", "x"]}), &[])]
    #[case::below_a_map_is_not_checked(json!({"type": "object", "additionalProperties": {"type": "string", "default": 5}}), &[])]
    #[case::embedded(json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true, "default": {"kind": "P", "apiVersion": "v1", "metadata": {"foo": 1}}}), &[])]
    #[case::embedded_without_version(json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true, "default": {"kind": "P"}}),
        &["s.properties[a].default.apiVersion: Required value"])]
    #[case::embedded_kind(json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"kind": {"type": "string", "default": "a b"}}}),
        &["s.properties[a].properties[kind].default: Invalid value: \"a b\": must result in valid metadata: kind: Invalid value: \"a b\": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"])]
    #[case::embedded_name(json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"metadata": {"type": "object", "properties": {
        "name": {"type": "string", "default": "a"}}}}}), &[])]
    fn defaults(#[case] property: Value, #[case] expected: &[&str]) {
        assert_eq!(found(&property, true), expected);
    }

    /// The schema of a resource, whose default needs a type: `ValidateDefaults` with `isResourceRoot`.
    #[rstest]
    #[case::empty(json!({}), &["s.default.apiVersion: Required value", "s.default.kind: Required value"])]
    #[case::with_type(json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}), &[])]
    fn defaults_of_resources(#[case] default: Value, #[case] expected: &[&str]) {
        let mut errors = ErrorList::new();
        check_defaults(&json!({"type": "object", "default": default}), "s", true, &mut errors);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn stored_definitions_may_keep_unknown_fields() {
        let property = json!({"type": "object", "default": {"c": 1}});
        assert_eq!(found(&property, false), Vec::<String>::new());
        assert!(has_unpruned_default(&property));
    }
}
