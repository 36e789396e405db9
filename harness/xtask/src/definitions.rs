//! The table of OpenAPI definitions (`openapi/definitions.tsv`), from the documents in `api/openapi-spec/v3`.
//!
//! The documents in the checkout lack the enumerations, which kube-apiserver adds by default; they come from the Go
//! types. Descriptions are left out: the server takes them from the crate `k8s-openapi`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::go::{Kind, Type};
use crate::names::{PACKAGES, Package};
use crate::source::{Checkout, Error};
use crate::structs::Packages;

/// Start of every reference; the table leaves it out.
const REFERENCE: &str = "#/components/schemas/io.k8s.";

/// The extension that the server derives from its registry of kinds.
const KIND: &str = "x-kubernetes-group-version-kind";

/// Kinds of the meta package in the table, by hand: the documents have them once per group, with bodies of discovery.
const META_KINDS: [&str; 2] = ["DeleteOptions", "Status"];

/// Reads the documents' definitions by name.
pub(crate) fn read(checkout: &Checkout) -> Result<BTreeMap<String, Value>, Error> {
    let mut all = BTreeMap::new();
    for package in PACKAGES.iter().filter(|package| !package.document.is_empty()) {
        let path = format!("api/openapi-spec/v3/{}_openapi.json", package.document);
        let mut document = checkout.json(&path)?;
        let Value::Object(found) = document["components"]["schemas"].take() else {
            return Err(Error::input(path, "no schemas"));
        };
        all.extend(found);
    }
    Ok(all)
}

/// The text of the table: per type a line with its name and its schema, then per property a line with a tab, its name
/// and its schema.
pub(crate) fn table(mut all: BTreeMap<String, Value>, packages: &Packages, header: &str) -> Result<String, Error> {
    let wanted = closure(&all);
    all.retain(|name, _| wanted.contains(name));
    let mut text = format!("# {header} types.rs has the notation.\n");
    for (name, schema) in &mut all {
        add_values(packages, name, schema);
        shorten(schema);
        let Value::Object(fields) = schema else { return Err(Error::input(name, "no object")) };
        fields.remove(KIND);
        let properties = fields.remove("properties");
        let short = name.strip_prefix("io.k8s.").ok_or_else(|| Error::input(name, "a name outside io.k8s"))?;
        _ = writeln!(text, "{short}\t{}", compact(schema));
        for (property, schema) in properties.as_ref().and_then(Value::as_object).into_iter().flatten() {
            _ = writeln!(text, "\t{property}\t{}", compact(schema));
        }
    }
    Ok(text)
}

/// The names of the kinds, without the lists of them, and of all types that they refer to.
fn closure(all: &BTreeMap<String, Value>) -> Vec<String> {
    let mut queue = Vec::new();
    for (name, schema) in all {
        let meta = Package::by_short("meta").map(Package::prefix).unwrap_or_default();
        let of_meta = name.strip_prefix(&meta).and_then(|name| name.strip_prefix('.'));
        let is_list = schema.pointer("/properties/items").is_some() && name.ends_with("List");
        if of_meta.map_or(schema.get(KIND).is_some() && !is_list, |name| META_KINDS.contains(&name)) {
            queue.push(name.clone());
        }
    }
    let mut found = Vec::new();
    while let Some(name) = queue.pop() {
        if let Some(schema) = all.get(&name).filter(|_| !found.contains(&name)) {
            references(schema, &mut queue);
            found.push(name);
        }
    }
    found
}

fn references(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            let target = fields.get("$ref").and_then(Value::as_str);
            into.extend(target.and_then(|text| text.strip_prefix(REFERENCE)).map(|name| format!("io.k8s.{name}")));
            fields.values().for_each(|value| references(value, into));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

/// Writes `"allOf": [{"$ref": "#/components/schemas/io.k8s.X"}]` as `"$ref": "X"`; readers know when `allOf` is needed.
fn shorten(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let only = fields.get("allOf").and_then(Value::as_array).filter(|list| list.len() == 1);
            if let Some(target) = only.and_then(|list| list[0].get("$ref")).cloned() {
                fields.remove("allOf");
                fields.insert("$ref".to_owned(), target);
            }
            if let Some(Value::String(target)) = fields.get_mut("$ref")
                && let Some(short) = target.strip_prefix(REFERENCE)
            {
                *target = short.to_owned();
            }
            fields.values_mut().for_each(shorten);
        }
        Value::Array(list) => list.iter_mut().for_each(shorten),
        _ => {}
    }
}

/// Adds `enum` to the properties of the definition whose Go types are enumerations.
fn add_values(packages: &Packages, name: &str, schema: &mut Value) {
    let Some((prefix, name)) = name.rsplit_once('.') else { return };
    let Some(package) = PACKAGES.iter().find(|package| package.prefix() == prefix) else { return };
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let mut fields = Vec::new();
    fields_of(packages, package.import, name, &mut fields);
    for (name, ty) in fields {
        if let Some(property) = properties.get_mut(name) {
            add_values_of(packages, ty, property);
        }
    }
}

/// Collects the JSON names and types of a struct's fields, with those of embedded structs.
fn fields_of<'a>(packages: &'a Packages, import: &str, name: &str, into: &mut Vec<(&'a str, &'a Type)>) {
    let declaration = packages.get(import).and_then(|declarations| declarations.get(name));
    let Some(Kind::Struct(fields)) = declaration.map(|declaration| &declaration.kind) else { return };
    for field in fields {
        match &field.ty {
            Type::Named(import, name) if field.json().is_empty() => fields_of(packages, import, name, into),
            ty => into.push((field.json(), ty)),
        }
    }
}

fn add_values_of(packages: &Packages, ty: &Type, schema: &mut Value) {
    match ty {
        Type::Pointer(of) => add_values_of(packages, of, schema),
        Type::List(of) if schema["items"].is_object() => add_values_of(packages, of, &mut schema["items"]),
        Type::Map(_, of) if schema["additionalProperties"].is_object() => {
            add_values_of(packages, of, &mut schema["additionalProperties"]);
        }
        Type::List(_) | Type::Map(..) => {}
        Type::Named(import, name) => {
            let declaration = packages.get(import.as_str()).and_then(|declarations| declarations.get(name));
            if let Some(declaration) = declaration.filter(|declaration| !declaration.values.is_empty()) {
                schema["enum"] = json!(declaration.values);
            }
        }
    }
}

/// A schema in one line: fields in order of their names, without its description.
fn compact(schema: &Value) -> String {
    let Value::Object(fields) = schema else { return schema.to_string() };
    let mut sorted: Vec<_> =
        fields.iter().filter(|(name, value)| *name != "description" || !value.is_string()).collect();
    sorted.sort_by_key(|(name, _)| *name);
    let fields: Vec<String> =
        sorted.iter().map(|(name, value)| format!("{}:{}", json!(name), compact(value))).collect();
    format!("{{{}}}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go;

    const GO: &str = "
type Thing struct {
	Phase *Phase `json:\"phase\"`
	Phases []Phase `json:\"phases\"`
	Common `json:\",inline\"`
}

type Common struct {
	Name string `json:\"name\"`
}

// +enum
type Phase string
";

    #[test]
    fn kinds_are_written_with_their_values() {
        let core = "k8s.io/api/core/v1";
        let mut declarations = go::declarations(GO, core);
        if let Some(phase) = declarations.get_mut("Phase") {
            phase.values = vec!["First".to_owned(), "Second".to_owned()];
        }
        let packages = Packages::from([(core, declarations)]);
        let name = |name: &str| format!("io.k8s.api.core.v1.{name}");
        let reference = |to: &str| json!({"$ref": format!("{REFERENCE}api.core.v1.{to}")});
        let all = BTreeMap::from([
            (
                name("Thing"),
                json!({"type": "object", "description": "A thing.", "x-kubernetes-group-version-kind": [],
                "properties": {
                    "phase": {"type": "string", "description": "Of it."},
                    "phases": {"type": "array", "items": {"type": "string"}},
                    "common": {"allOf": [reference("Common")], "default": {}},
                }}),
            ),
            (name("Common"), json!({"type": "object"})),
            (name("Unused"), json!({"type": "object"})),
            (name("ThingList"), json!({"x-kubernetes-group-version-kind": [], "properties": {"items": {}}})),
        ]);
        let expected = "\
            api.core.v1.Common\t{\"type\":\"object\"}\n\
            api.core.v1.Thing\t{\"type\":\"object\"}\n\
            \tcommon\t{\"$ref\":\"api.core.v1.Common\",\"default\":{}}\n\
            \tphase\t{\"enum\":[\"First\",\"Second\"],\"type\":\"string\"}\n\
            \tphases\t{\"items\":{\"enum\":[\"First\",\"Second\"],\"type\":\"string\"},\"type\":\"array\"}\n";
        let text = table(all, &packages, "Generated.").unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(rows, expected.lines().collect::<Vec<_>>());
    }
}
