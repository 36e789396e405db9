//! Compares the type tables, made of the Go types, with the OpenAPI definitions, made of the published documents.

use std::collections::BTreeSet;

use super::types::StructField;
use super::*;
use crate::json::{Key, Map, Value};

/// An extension of a property or a definition.
fn extension<'a>(schema: &'a Map, name: &str) -> Option<&'a Value> {
    schema.get(format!("x-kubernetes-{name}"))
}

fn word<'a>(schema: &'a Map, name: &str) -> Option<&'a str> {
    extension(schema, name).and_then(Value::as_str)
}

fn fits(shape: &TypeKind, kind: &str) -> bool {
    match shape {
        TypeKind::Scalar(Scalar::Int { .. }) => kind == "integer",
        TypeKind::Scalar(Scalar::Float) => kind == "number",
        TypeKind::Scalar(Scalar::Bool) => kind == "boolean",
        TypeKind::Scalar(_) => kind == "string",
        TypeKind::List(_) => kind == "array",
        TypeKind::Struct(_) | TypeKind::Map(_) | TypeKind::Any | TypeKind::SchemaForm(_) => kind == "object",
    }
}

/// Compares a field with its property; returns the names of what differs.
fn compare(schema: &Schema, field: &StructField, property: &Map) -> Vec<&'static str> {
    let mut differences = Vec::new();
    let mut same = |what, same: bool| differences.extend((!same).then_some(what));
    let shape = schema.shape(field.ty);
    if let Some(kind) = property.get("type").and_then(Value::as_str) {
        same("type", fits(shape, kind));
    }
    if let TypeKind::List(list) = shape {
        let (kind, keys) = match &list.topology {
            ElementRelationship::Atomic => ("atomic", Vec::new()),
            ElementRelationship::Set => ("set", Vec::new()),
            ElementRelationship::Map(keys) => ("map", keys.iter().map(|key| &**key).collect()),
        };
        same("list type", word(property, "list-type").unwrap_or("atomic") == kind);
        let listed = extension(property, "list-map-keys").and_then(Value::as_array).into_iter().flatten();
        let mut listed: Vec<&str> = listed.filter_map(Value::as_str).collect();
        listed.sort_unstable();
        same("list map keys", listed == keys);
    }
    if let TypeKind::Map(map) = shape {
        same("map type", (word(property, "map-type") == Some("atomic")) == map.atomic);
    }
    same("merge key", word(property, "patch-merge-key") == field.patch.merge_key.as_deref());
    let words: BTreeSet<&str> = word(property, "patch-strategy").into_iter().flat_map(|text| text.split(',')).collect();
    same("merge", words.contains("merge") == field.patch.merge);
    same("retain keys", words.contains("retainKeys") == field.patch.retain_keys);
    same("replace", words.contains("replace") == field.patch.replace);
    if let Some(default) = &field.key_default {
        same("default", property.get("default") == Some(default));
    }
    differences
}

#[test]
fn tables_agree_with_the_published_definitions() {
    let mut differences = Vec::new();
    let mut compared = 0;
    for (name, definition) in crate::openapi::definitions() {
        let Some(properties) = definition.get("properties").and_then(Value::as_object) else { continue };
        let Some(schema) = builtin(&name) else {
            differences.push(format!("{name} is missing"));
            continue;
        };
        let Some(shape) = schema.root_struct() else { continue };
        compared += 1;
        let atomic = definition.as_object().and_then(|schema| word(schema, "map-type")) == Some("atomic");
        if atomic != shape.atomic {
            differences.push(format!("{name}: map type"));
        }
        let ours: BTreeSet<&str> = shape.fields.iter().map(|f| &*f.name).collect();
        let theirs: BTreeSet<&str> = properties.keys().map(Key::as_str).collect();
        differences.extend(ours.symmetric_difference(&theirs).map(|field| format!("{name}.{field}")));
        for field in shape.fields.iter() {
            let property = properties.get(&*field.name).and_then(Value::as_object);
            let found = property.map(|property| compare(&schema, field, property)).unwrap_or_default();
            differences.extend(found.iter().map(|what| format!("{name}.{}: {what}", field.name)));
        }
    }
    assert!(compared > 400, "only {compared} types compared");
    assert_eq!(differences, Vec::<String>::new());
}

/// List-map keys and merge keys are scalar fields of the items.
#[test]
fn keys_are_fields_of_the_items() {
    for name in builtin_names() {
        let schema = builtin(&name).unwrap();
        for ty in &schema.types {
            let TypeKind::Struct(shape) = &ty.shape else { continue };
            for field in shape.fields.iter() {
                let TypeKind::List(list) = schema.shape(field.ty) else {
                    assert!(field.patch.merge_key.is_none(), "{}.{} is no list", ty.go, field.name);
                    continue;
                };
                let mut keys: Vec<&str> = field.patch.merge_key.iter().map(|k| &**k).collect();
                if let ElementRelationship::Map(map_keys) = &list.topology {
                    assert!(!map_keys.is_empty());
                    keys.extend(map_keys.iter().map(|k| &**k));
                }
                for key in keys {
                    let TypeKind::Struct(item) = schema.shape(list.items) else {
                        panic!("{}.{} has keys but no objects", ty.go, field.name);
                    };
                    let key_field = item.field(key).unwrap_or_else(|| panic!("{}.{}: no {key}", ty.go, field.name));
                    assert!(matches!(schema.shape(key_field.ty), TypeKind::Scalar(_)));
                }
                if list.topology == ElementRelationship::Set {
                    assert!(matches!(schema.shape(list.items), TypeKind::Scalar(_)), "{}.{}", ty.go, field.name);
                }
            }
        }
    }
}
