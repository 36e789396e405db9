//! The rules of `CustomResourceDefinition` objects: defaults, validation, immutable fields. PURE.

use serde_json::{Value, json};

use super::{names, text};
use crate::apiserver::kinds::field::{BadValue, ErrorList, Path};
use crate::apiserver::kinds::{Context, NameRule, Strategy, meta, names as rules};
use crate::apiserver::table::custom::JsonPath;

/// The strategy of definitions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Definition;

impl Strategy for Definition {
    fn default(&self, object: &mut Value) {
        let stored = stored_versions(&object["spec"]);
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
        if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
            let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            let is_empty = |value: &Value| value.as_str() == Some("");
            if !kind.is_empty() && names.get("singular").is_none_or(is_empty) {
                names.insert("singular".to_owned(), json!(kind.to_lowercase()));
            }
            if !kind.is_empty() && names.get("listKind").is_none_or(is_empty) {
                names.insert("listKind".to_owned(), json!(format!("{kind}List")));
            }
        }
        if spec.get("conversion").is_none_or(Value::is_null) {
            spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
        }
        if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
            && status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty)
            && !stored.is_empty()
        {
            status.insert("storedVersions".to_owned(), json!(stored));
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &Context<'_>) {
        let stored = stored_versions(&object["spec"]);
        let stored = if stored.is_empty() { Value::Null } else { json!(stored) };
        if let Some(fields) = object.as_object_mut() {
            let status =
                json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
            fields.insert("status".to_owned(), status);
        }
        meta::set_generation(object, 1);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, false, NameRule::Subdomain, &Path::new("metadata"));
        let spec = &object["spec"];
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if name != format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group")) {
            errors.invalid(&Path::new("metadata.name"), name, "must be spec.names.plural+\".\"+spec.group");
        }
        validate_spec(spec, &mut errors);
        if stored_versions(spec).is_empty() {
            errors.invalid(
                &Path::new("status.storedVersions"),
                None::<&Value>,
                "must have at least one stored version",
            );
        }
        validate_approval(object, &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &Context<'_>) {
        meta::keep_field(new, old, "status");
        let changed = new.get("spec") != old.get("spec");
        meta::set_generation(new, meta::generation(old) + i64::from(changed));
        let stored = stored_versions(&new["spec"]);
        if let Some(known) = new.pointer_mut("/status/storedVersions").and_then(Value::as_array_mut) {
            for version in stored {
                if !known.iter().any(|one| one.as_str() == Some(&version)) {
                    known.push(json!(version));
                }
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_spec(&new["spec"], &mut errors);
        let mut immutable = |pointer: &str, field: &str| {
            meta::immutable(new.pointer(pointer), old.pointer(pointer), &Path::new(field), &mut errors);
        };
        if names::is_established(old) {
            immutable("/spec/scope", "spec.scope");
            immutable("/spec/names/kind", "spec.names.kind");
        }
        immutable("/spec/group", "spec.group");
        immutable("/spec/names/plural", "spec.names.plural");
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// The versions in which objects may be stored, from the specification alone.
pub(super) fn stored_versions(spec: &Value) -> Vec<String> {
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["storage"] == json!(true))
        .map(|version| text(version, "name").to_owned())
        .take(1)
        .collect()
}

fn validate_approval(object: &Value, errors: &mut ErrorList) {
    let group = text(&object["spec"], "group");
    let protected =
        ["k8s.io", "kubernetes.io"].iter().any(|suffix| group == *suffix || group.ends_with(&format!(".{suffix}")));
    if protected && object.pointer("/metadata/annotations/api-approved.kubernetes.io").is_none() {
        errors.required(
            &Path::new("metadata.annotations[api-approved.kubernetes.io]"),
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        );
    }
}

fn validate_spec(spec: &Value, errors: &mut ErrorList) {
    let group = text(spec, "group");
    let malformed = rules::dns1123_subdomain(group);
    if group.is_empty() {
        errors.required(&Path::new("spec.group"), "");
    } else if !malformed.is_empty() {
        errors.invalid(&Path::new("spec.group"), group, malformed.join(","));
    } else if !group.contains('.') {
        errors.invalid(&Path::new("spec.group"), group, "should be a domain with at least one dot");
    }
    match text(spec, "scope") {
        "" => errors.required(&Path::new("spec.scope"), ""),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported(&Path::new("spec.scope"), other, &["Cluster", "Namespaced"]),
    }
    validate_versions(spec, errors);
    validate_names(&spec["names"], errors);
    // A single version's fields are checked under the older, common names.
    if let Some([version]) = spec["versions"].as_array().map(Vec::as_slice) {
        validate_version(version, "spec.validation.openAPIV3Schema", "spec", errors);
    }
}

fn validate_versions(spec: &Value, errors: &mut ErrorList) {
    let versions = spec["versions"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    for (index, version) in versions.iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none_or(Value::is_null) {
            errors.required(&Path::new(&format!("spec.versions[{index}].schema.openAPIV3Schema")), "");
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let malformed = rules::dns1035_label(text(version, "name"));
        if !malformed.is_empty() {
            errors.invalid(
                &Path::new(&format!("spec.versions[{index}].name")),
                text(version, "name"),
                malformed.join(","),
            );
        }
        if versions.len() > 1 {
            let prefix = format!("spec.versions[{index}]");
            validate_version(version, &format!("{prefix}.schema.openAPIV3Schema"), &prefix, errors);
        }
    }
    let path = Path::new("spec.versions");
    let shown = spec.get("versions").filter(|versions| !versions.is_null());
    let mut version_names: Vec<&str> = versions.iter().map(|version| text(version, "name")).collect();
    version_names.sort_unstable();
    if version_names.windows(2).any(|pair| pair[0] == pair[1]) {
        errors.invalid(&path, shown, "must contain unique version names");
    }
    if versions.iter().filter(|version| version["storage"] == json!(true)).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        match internal_versions(versions) {
            Some(shown) => errors.invalid(&path, BadValue::Raw(shown), why),
            None => errors.invalid(&path, shown, why),
        }
    }
}

/// The versions as the server's own type shows them; `None` where that holds more than a JSON document can tell.
fn internal_versions(versions: &[Value]) -> Option<String> {
    let shown = versions.iter().map(|version| {
        let extras = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
        if extras.iter().any(|field| version.get(field).is_some_and(|value| !value.is_null())) {
            return None;
        }
        let flag = |field: &str| version.get(field).and_then(Value::as_bool).unwrap_or_default();
        Some(format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
            json!(text(version, "name")),
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            version.get("deprecationWarning").unwrap_or(&Value::Null),
        ))
    });
    let shown: Option<Vec<String>> = shown.collect();
    Some(format!("[{}]", shown?.join(",")))
}

fn validate_names(names: &Value, errors: &mut ErrorList) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(names, field).is_empty() {
            errors.required(&Path::new(&format!("spec.names.{field}")), "");
        }
    }
    let mut label = |field: &str, value: &str, mixed_case: bool| {
        let malformed = rules::dns1035_label(&if mixed_case { value.to_lowercase() } else { value.to_owned() });
        if !value.is_empty() && !malformed.is_empty() {
            let prefix = if mixed_case { "may have mixed case, but should otherwise match: " } else { "" };
            errors.invalid(
                &Path::new(&format!("spec.names.{field}")),
                value,
                format!("{prefix}{}", malformed.join(",")),
            );
        }
    };
    label("plural", text(names, "plural"), false);
    label("singular", text(names, "singular"), false);
    label("kind", text(names, "kind"), true);
    label("listKind", text(names, "listKind"), true);
    for list in ["shortNames", "categories"] {
        for (index, name) in names[list].as_array().into_iter().flatten().filter_map(Value::as_str).enumerate() {
            label(&format!("{list}[{index}]"), name, false);
        }
    }
    let kind = text(names, "kind");
    if !kind.is_empty() && kind == text(names, "listKind") {
        errors.invalid(&Path::new("spec.names.listKind"), kind, "kind and listKind may not be the same");
    }
}

/// The schema, the subresources and the columns of one version.
fn validate_version(version: &Value, schema_path: &str, prefix: &str, errors: &mut ErrorList) {
    if let Some(schema) = version.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object()) {
        let preserve = schema["x-kubernetes-preserve-unknown-fields"] == json!(true);
        if text(schema, "type").is_empty() {
            errors.required(&Path::new(&format!("{schema_path}.type")), "must not be empty at the root");
        } else if text(schema, "type") != "object" && !preserve {
            errors.invalid(
                &Path::new(&format!("{schema_path}.type")),
                text(schema, "type"),
                "must be object at the root",
            );
        }
        validate_schema(schema, schema_path, 0, errors);
    }
    if let Some(scale) = version.pointer("/subresources/scale").filter(|scale| scale.is_object()) {
        validate_scale(scale, &format!("{prefix}.subresources.scale"), errors);
    }
    for (index, column) in version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
        validate_column(column, &format!("{prefix}.additionalPrinterColumns[{index}]"), errors);
    }
}

/// Deepest schema that is looked at.
const MAX_DEPTH: usize = 100;
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

fn validate_schema(schema: &Value, path: &str, depth: usize, errors: &mut ErrorList) {
    if depth > MAX_DEPTH {
        return;
    }
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.not_supported(&Path::new(&format!("{path}.type")), kind, TYPES);
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && let Err(error) = regex::Regex::new(pattern)
    {
        let why = error.to_string();
        let last = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
        errors.invalid(
            &Path::new(&format!("{path}.pattern")),
            pattern,
            format!("must be a valid regular expression, but isn't: error parsing regexp: {last}"),
        );
    }
    if schema["uniqueItems"] == json!(true) {
        errors.forbidden(
            &Path::new(&format!("{path}.uniqueItems")),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        );
    }
    if kind == "array" && !schema["items"].is_object() {
        errors.required(&Path::new(&format!("{path}.items")), "must be specified");
    }
    if schema["properties"].as_object().is_some_and(|properties| !properties.is_empty())
        && schema["additionalProperties"].is_object()
    {
        errors.forbidden(
            &Path::new(&format!("{path}.additionalProperties")),
            "additionalProperties and properties are mutual exclusive",
        );
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        validate_member(
            property,
            &format!("{path}.properties[{name}]"),
            "must not be empty for specified object fields",
            depth,
            errors,
        );
    }
    if schema["additionalProperties"].is_object() {
        let path = format!("{path}.additionalProperties");
        validate_member(
            &schema["additionalProperties"],
            &path,
            "must not be empty for specified object fields",
            depth,
            errors,
        );
    }
    if schema["items"].is_object() {
        validate_member(
            &schema["items"],
            &format!("{path}.items"),
            "must not be empty for specified array items",
            depth,
            errors,
        );
    }
}

fn validate_member(schema: &Value, path: &str, untyped: &str, depth: usize, errors: &mut ErrorList) {
    let free = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"]
        .iter()
        .any(|flag| schema[*flag] == json!(true));
    if text(schema, "type").is_empty() && !free {
        errors.required(&Path::new(&format!("{path}.type")), untyped);
    }
    validate_schema(schema, path, depth + 1, errors);
}

fn validate_scale(scale: &Value, path: &str, errors: &mut ErrorList) {
    let rules = [
        ("specReplicasPath", ".spec", true),
        ("statusReplicasPath", ".status", true),
        ("labelSelectorPath", "", false),
    ];
    for (field, root, required) in rules {
        let value = text(scale, field);
        let at = format!("{path}.{field}");
        if value.is_empty() {
            if required {
                errors.required(&Path::new(&at), "");
            }
        } else if !value.starts_with('.') || JsonPath::parse(value).is_none() {
            errors.invalid(&Path::new(&at), value, "must be a simple json path starting with .");
        } else if !root.is_empty() && !value.starts_with(&format!("{root}.")) {
            errors.invalid(&Path::new(&at), value, format!("should be a json path under {root}"));
        } else if root.is_empty() && !value.starts_with(".spec.") && !value.starts_with(".status.") {
            errors.invalid(&Path::new(&at), value, "should be a json path under either .spec or .status");
        }
    }
}

fn validate_column(column: &Value, path: &str, errors: &mut ErrorList) {
    const KINDS: &str = "boolean,date,integer,number,string";
    if text(column, "name").is_empty() {
        errors.required(&Path::new(&format!("{path}.name")), "");
    }
    match text(column, "type") {
        "" => errors.required(&Path::new(&format!("{path}.type")), format!("must be one of {KINDS}")),
        kind if !KINDS.split(',').any(|known| known == kind) => {
            errors.invalid(&Path::new(&format!("{path}.type")), kind, format!("must be one of {KINDS}"));
        }
        _ => {}
    }
    match text(column, "jsonPath") {
        "" => errors.required(&Path::new(&format!("{path}.JSONPath")), ""),
        value if !value.starts_with('.') => {
            errors.invalid(
                &Path::new(&format!("{path}.JSONPath")),
                value,
                "must be a simple json path starting with .",
            );
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::crd::tests::widgets;
    use rstest::rstest;

    fn errors(object: &Value) -> Vec<String> {
        Definition
            .validate(object)
            .iter()
            .map(|error| format!("{}: {}", error.cause().field, error.cause().message))
            .collect()
    }

    #[test]
    fn a_good_definition_is_fine() {
        assert_eq!(errors(&widgets()), Vec::<String>::new());
    }

    #[rstest]
    #[case("/metadata/name", json!("x"), "metadata.name: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group")]
    #[case("/spec/scope", json!("Bad"), "spec.scope: Unsupported value: \"Bad\": supported values: \"Cluster\", \"Namespaced\"")]
    #[case("/spec/versions/1/storage", json!(false), "must have exactly one version marked as storage version")]
    #[case("/spec/versions/1/name", json!("v1beta1"), "must contain unique version names")]
    #[case("/spec/versions/1/schema/openAPIV3Schema/type", json!(""),
        "spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root")]
    #[case("/spec/versions/1/schema/openAPIV3Schema/properties/spec/type", json!("foo"), "Unsupported value: \"foo\"")]
    #[case("/spec/versions/1/subresources/scale/specReplicasPath", json!("spec.replicas"), "must be a simple json path starting with .")]
    #[case("/spec/versions/1/additionalPrinterColumns/0/type", json!("bad"), "must be one of boolean,date,integer,number,string")]
    #[case("/spec/names/kind", json!("a b"), "may have mixed case, but should otherwise match: ")]
    fn bad_definitions(#[case] pointer: &str, #[case] value: Value, #[case] expected: &str) {
        let mut object = widgets();
        *object.pointer_mut(pointer).unwrap() = value;
        let found = errors(&object);
        assert!(found.iter().any(|error| error.contains(expected)), "{found:?}");
    }

    #[test]
    fn names_are_defaulted() {
        let mut object = json!({"spec": {"names": {"plural": "xs", "kind": "MyX"}}});
        Definition.default(&mut object);
        assert_eq!(object["spec"]["names"]["singular"], "myx");
        assert_eq!(object["spec"]["names"]["listKind"], "MyXList");
        assert_eq!(object["spec"]["conversion"]["strategy"], "None");
    }
}
