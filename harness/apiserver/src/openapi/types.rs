//! The built-in types as OpenAPI schemas, from `definitions.tsv`; upstream's are in `pkg/generated/openapi`. PURE.
//!
//! `xtask` generates the table from upstream's documents; `legacy.tsv` is kept by hand. A line holds the name of a type
//! without `io.k8s.` and its schema; the lines below it, which begin with a tab, hold its properties. References are
//! names without `#/components/schemas/io.k8s.`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::descriptions;
use crate::json::{Map, Value, json};
use crate::registry::Registry;

/// Start of references.
pub(super) const PREFIX: &str = "#/components/schemas/";

/// All types by name.
static TYPES: LazyLock<BTreeMap<String, Value>> = LazyLock::new(build_types);

/// Returns the types of these names and all types that they refer to.
pub(super) fn closure(roots: Vec<String>) -> BTreeMap<&'static str, &'static Value> {
    let mut found = BTreeMap::new();
    let mut queue = roots;
    while let Some(name) = queue.pop() {
        let Some((name, schema)) = TYPES.get_key_value(&name) else { continue };
        if found.insert(name.as_str(), schema).is_none() {
            references(schema, &mut queue);
        }
    }
    found
}

/// Returns a schema in which the references to built-in types are replaced by these types. Follows `PopulateRefs` in
/// `staging/src/k8s.io/apiserver/pkg/cel/openapi/resolver/refs.go`: a type in itself is an object without fields.
#[cfg(feature = "controllers")]
pub(super) fn populated(schema: &Value) -> Value {
    populate(schema, &mut Vec::new())
}

#[cfg(feature = "controllers")]
fn populate<'t>(schema: &'t Value, within: &mut Vec<&'t str>) -> Value {
    let wrapped = || schema.pointer("/allOf/0/$ref");
    let target = schema.get("$ref").or_else(wrapped).and_then(Value::as_str);
    if let Some(name) = target.and_then(|target| target.strip_prefix(PREFIX)) {
        if within.contains(&name) {
            return json!({"type": "object"});
        }
        within.push(name);
        let found = TYPES.get(name).map_or(Value::Null, |found| populate(found, within));
        within.pop();
        return found;
    }
    let mut copy = schema.clone();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let properties = properties.iter().map(|(name, schema)| (name.clone(), populate(schema, within)));
        copy["properties"] = Value::Object(properties.collect());
    }
    for field in ["additionalProperties", "items"] {
        if let Some(schema) = schema.get(field).filter(|schema| schema.is_object()) {
            copy[field] = populate(schema, within);
        }
    }
    copy
}

fn references(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(name) =
                fields.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix(PREFIX))
            {
                into.push(name.to_owned());
            }
            fields.values().for_each(|value| references(value, into));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

/// Adds a description to a schema that it is known for.
fn describe(schema: &mut Value, description: Option<&str>) {
    if let (Some(text), Some(fields)) = (description, schema.as_object_mut()) {
        fields.insert("description", text.into());
    }
}

/// Reads the table and adds the descriptions.
pub(crate) fn read() -> BTreeMap<String, Value> {
    let mut types = BTreeMap::new();
    read_rows(include_str!("definitions.tsv"), &mut types);
    types
}

/// Adds the types of versions that Kubernetes removed: those of a version of the group that is in the table, under
/// other names. The ones that differ are in `legacy.tsv`.
fn add_removed(registry: &Registry, types: &mut BTreeMap<String, Value>) {
    for kind in registry.kinds() {
        let like = registry.kinds().find(|other| {
            (&other.group, &other.plural) == (&kind.group, &kind.plural) && types.contains_key(&*other.schema)
        });
        let packages = like.and_then(|like| like.schema.rsplit_once('.')).zip(kind.schema.rsplit_once('.'));
        let Some(((known, _), (own, _))) = packages.filter(|_| !types.contains_key(&*kind.schema)) else { continue };
        let (known, own) = (format!("{known}."), format!("{own}."));
        let renamed = |(name, schema): (&String, &Value)| {
            let short = name.strip_prefix(&known)?;
            let schema = schema.to_string().replace(&format!("{PREFIX}{known}"), &format!("{PREFIX}{own}"));
            Some((own.clone() + short, serde_json::from_str(&schema).ok()?))
        };
        let added: Vec<(String, Value)> = types.iter().filter_map(renamed).collect();
        types.extend(added);
    }
    read_rows(include_str!("legacy.tsv"), types);
}

/// Reads the rows of a table and adds the descriptions.
fn read_rows(rows: &str, types: &mut BTreeMap<String, Value>) {
    let mut last = String::new();
    for row in rows.lines().filter(|row| !row.starts_with('#')) {
        let mut cells = row.rsplitn(2, '\t');
        let (Some(schema), Some(name)) = (cells.next(), cells.next()) else { continue };
        let mut schema: Value = serde_json::from_str(schema).unwrap_or_default();
        if let Some(property) = name.strip_prefix('\t') {
            describe(&mut schema, descriptions::of(&last, Some(property)));
            expand(&mut schema);
            list_values(&mut schema);
            if let Some(owner) = types.get_mut(&last).and_then(Value::as_object_mut) {
                let properties = owner.entry("properties").or_insert_with(|| json!({}));
                properties[property] = schema;
            }
        } else {
            last = format!("io.k8s.{name}");
            describe(&mut schema, descriptions::of(&last, None));
            expand(&mut schema);
            types.insert(last.clone(), schema);
        }
    }
}

/// Writes references in full. A reference that has a description or a default goes into `allOf`: version 3.0 ignores
/// siblings of `$ref`.
fn expand(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(expand);
            // A property can be called `$ref` as well: then its value is a schema.
            let Some(Value::String(name)) = fields.get("$ref") else { return };
            let target = json!(format!("{PREFIX}io.k8s.{name}"));
            if fields.len() > 1 {
                fields.remove("$ref");
                fields.insert("allOf", json!([{"$ref": target}]));
            } else {
                fields.insert("$ref", target);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(expand),
        _ => {}
    }
}

/// Appends the values of an enumeration to the description. Upstream also says what each value means.
fn list_values(schema: &mut Value) {
    let Some(values) = schema.get("enum").and_then(Value::as_array) else { return };
    let listed: Vec<String> = values.iter().map(|value| format!("\n - `{value}`")).collect();
    let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    schema["description"] = json!(format!("{about}\n\nPossible enum values:{}", listed.concat()));
}

fn build_types() -> BTreeMap<String, Value> {
    let mut types = read();
    let registry = Registry::builtin().with_legacy_apis();
    add_removed(&registry, &mut types);
    for kind in registry.kinds() {
        let gvk = |kind_name: &str| json!([{"group": kind.group, "kind": kind_name, "version": kind.version}]);
        if let Some(schema) = types.get_mut(kind.schema.as_ref()) {
            schema["x-kubernetes-group-version-kind"] = gvk(&kind.kind);
        }
        let list = list(
            (&kind.kind, &kind.plural),
            &kind.schema,
            &gvk(&kind.list_kind),
            types.get("io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
        );
        types.insert(format!("{}List", kind.schema), list);
    }
    for (name, group, version, kind) in [
        ("io.k8s.api.autoscaling.v1.Scale", "autoscaling", "v1", "Scale"),
        ("io.k8s.api.policy.v1.Eviction", "policy", "v1", "Eviction"),
        ("io.k8s.api.authentication.v1.TokenRequest", "authentication.k8s.io", "v1", "TokenRequest"),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "", "v1", "DeleteOptions"),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.Status", "", "v1", "Status"),
    ] {
        if let Some(schema) = types.get_mut(name) {
            schema["x-kubernetes-group-version-kind"] = json!([{"group": group, "kind": kind, "version": version}]);
        }
    }
    types
}

/// Returns the schema of a kind's list.
fn list((kind, plural): (&str, &str), schema: &str, gvk: &Value, like: Option<&Value>) -> Value {
    let common = |field: &str| like.map_or_else(|| json!({"type": "string"}), |like| like["properties"][field].clone());
    json!({
        "description": format!("{kind}List holds a list of objects of kind {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": common("apiVersion"),
            "kind": common("kind"),
            "metadata": {"default": {}, "allOf": [{"$ref": format!("{PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta")}]},
            "items": {"description": format!("List of {plural}"), "type": "array", "items": {"default": {}, "allOf": [{"$ref": format!("{PREFIX}{schema}")}]}},
        },
        "x-kubernetes-group-version-kind": gvk,
    })
}

/// Converts a schema to v2: references point to `definitions` and are not wrapped in `allOf`; `oneOf` becomes a string;
/// defaults are left out (`PruneDefaults` in kube-openapi's `pkg/handler/default_pruning.go`, which is called in
/// `apiserver/pkg/server/routes/openapi.go` and `apiextensions-apiserver/pkg/controller/openapi/controller.go`).
pub(super) fn to_v2(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => Value::Object(object_to_v2(fields)),
        Value::Array(list) => Value::Array(list.into_iter().map(to_v2).collect()),
        Value::String(text) => match text.strip_prefix(PREFIX) {
            Some(name) => json!(format!("#/definitions/{name}")),
            None => Value::String(text),
        },
        other => other,
    }
}

fn object_to_v2(mut fields: Map) -> Map {
    fields.remove("default");
    if fields.get("oneOf").is_some_and(Value::is_array) {
        fields.remove("oneOf");
        fields.insert("type", json!("string"));
    }
    if let Some(Value::Array(mut all)) = fields.remove("allOf")
        && let Some(Value::Object(target)) = all.pop()
    {
        fields.extend(target);
    }
    // Fields of objects may have the names of those of schemas.
    let convert = |name: &str, value: Value| match value {
        Value::Object(properties) if name == "properties" => {
            Value::Object(properties.into_iter().map(|(name, value)| (name, to_v2(value))).collect())
        }
        value => to_v2(value),
    };
    fields.into_iter().map(|(name, value)| (name.clone(), convert(&name, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_has_no_defaults_and_all_fields() {
        let of = |name: &str| to_v2(TYPES[name].clone())["properties"].clone();
        let port = of("io.k8s.api.core.v1.ContainerPort");
        let original = &TYPES["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"];
        assert_eq!((&original["default"], port["protocol"].get("default")), (&json!("TCP"), None));
        let container = of("io.k8s.api.core.v1.Container");
        assert_eq!((container["name"].get("default"), &container["name"]["type"]), (None, &json!("string")));
        // Fields that are called like those of schemas.
        assert!(of("io.k8s.api.core.v1.LimitRangeItem")["default"].is_object());
        let schema = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
        let (fields, original) = (of(schema), &TYPES[schema]["properties"]);
        let names = |fields: &Value| -> Vec<String> {
            fields.as_object().into_iter().flatten().map(|(name, _)| name.to_string()).collect()
        };
        assert_eq!(names(&fields), names(original));
        assert_eq!(fields["allOf"]["type"], "array");
    }

    #[test]
    fn references_and_values_are_written_in_full() {
        let taint = &TYPES["io.k8s.api.core.v1.Taint"]["properties"];
        let effect = &taint["effect"];
        assert_eq!(effect["enum"], json!(["NoExecute", "NoSchedule", "PreferNoSchedule"]));
        let listed = "\n\nPossible enum values:\n - `\"NoExecute\"`\n - `\"NoSchedule\"`\n - `\"PreferNoSchedule\"`";
        assert!(effect["description"].as_str().is_some_and(|text| text.ends_with(listed)), "{effect}");
        assert_eq!(taint["key"].get("enum"), None);
        let time = format!("{PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1.Time");
        assert_eq!(taint["timeAdded"]["allOf"], json!([{"$ref": time}]));
        let types = &TYPES["io.k8s.api.networking.v1.NetworkPolicySpec"]["properties"]["policyTypes"];
        assert_eq!(types["items"]["enum"], json!(["Egress", "Ingress"]));
    }
}
