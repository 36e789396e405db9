//! Validation of the selectable fields of definitions. Follows `ValidateCustomResourceSelectableFields` of
//! `pkg/apis/apiextensions/validation/validation.go` in `staging/src/k8s.io/apiextensions-apiserver` of Kubernetes
//! 1.36. PURE.

use std::borrow::Cow;

use super::field_path::{FieldPath, field_path};
use super::text_fields::text;
use crate::field_errors::{ErrorList, Path};
use crate::json::Value;

/// Most selectable fields of a version.
const MAX_SELECTABLE_FIELDS: usize = 8;

/// Validates the selectable fields of a version, whose path is `prefix`. `old` is the spec before an update, which may
/// have too many.
pub(super) fn validate_selectable(version: &Value, prefix: &str, old: Option<&Value>, errors: &mut ErrorList) {
    let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
    let mut seen: Vec<Vec<Cow<'_, str>>> = Vec::new();
    for (index, field) in version["selectableFields"].as_array().into_iter().flatten().enumerate() {
        let at = format!("{prefix}.selectableFields[{index}].jsonPath");
        let at = Path::new(&at);
        let path = text(field, "jsonPath");
        if path.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let FieldPath { steps, schema: found, .. } = match field_path(path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.invalid(&at, path, format!("is an invalid path: {why}"));
                continue;
            }
        };
        if steps.first().is_some_and(|first| first == "metadata") {
            errors.invalid(&at, path, "must not point to fields in metadata");
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.invalid(&at, path, why);
        }
        if seen.contains(&steps) {
            errors.duplicate(&at, path);
        } else {
            seen.push(steps);
        }
    }
    let stored = old.and_then(|old| old["versions"].as_array()).into_iter().flatten();
    let unchanged = stored
        .into_iter()
        .any(|old| old["name"] == version["name"] && old.get("selectableFields") == version.get("selectableFields"));
    if seen.len() > MAX_SELECTABLE_FIELDS && !unchanged {
        errors.too_many(&Path::new(&format!("{prefix}.selectableFields")), seen.len(), MAX_SELECTABLE_FIELDS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Map, json};
    use rstest::rstest;

    #[rstest]
    #[case(".spec.a", None)]
    #[case(".spec.map.x", None)]
    #[case(".spec['a']", Some("is an invalid path: array notation is not allowed"))]
    #[case("spec.a", Some("is an invalid path: expected [ or . but got: spec"))]
    #[case(".spec.b", Some("is an invalid path: does not refer to a valid field"))]
    #[case(".spec.a.b", Some("is an invalid path: does not refer to a valid field"))]
    #[case(".spec.", Some("is an invalid path: unexpected end of JSON path"))]
    #[case(".metadata.name", Some("must not point to fields in metadata"))]
    #[case(
        ".spec",
        Some(
            "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
        )
    )]
    fn selectable_fields(#[case] path: &str, #[case] expected: Option<&str>) {
        let text = json!({"type": "string"});
        let schema = json!({"type": "object", "properties": {
            "metadata": {"type": "object", "properties": {"name": text}},
            "spec": {"type": "object", "properties": {"a": text, "map": {"type": "object", "additionalProperties": text}}}}});
        let version = json!({"schema": {"openAPIV3Schema": schema}, "selectableFields": [{"jsonPath": path}]});
        let mut errors = ErrorList::new();
        validate_selectable(&version, "s", None, &mut errors);
        let found: Vec<&str> = errors.iter().map(|error| error.detail.as_str()).collect();
        assert_eq!(found, Vec::from_iter(expected));
    }

    #[test]
    fn there_are_at_most_eight_selectable_fields_unless_there_were_more() {
        let of = |count: usize| {
            let names: Vec<String> = (0..count).map(|index| format!("f{index}")).collect();
            let properties: Value =
                names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect::<Map>().into();
            let fields: Vec<Value> = names.iter().map(|name| json!({"jsonPath": format!(".{name}")})).collect();
            json!({"versions": [{"name": "v1", "selectableFields": fields,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]})
        };
        let check = |new: &Value, old: Option<&Value>| {
            let mut errors = ErrorList::new();
            validate_selectable(&new["versions"][0], "spec", old, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(check(&of(8), None), Vec::<String>::new());
        assert_eq!(check(&of(9), None), ["spec.selectableFields: Too many: 9: must have at most 8 items"]);
        assert_eq!(check(&of(9), Some(&of(9))), Vec::<String>::new());
        assert_eq!(check(&of(10), Some(&of(9))).len(), 1);
    }
}
