//! The tables of all built-in kinds, compared with `walk.txt`.

use std::collections::BTreeSet;

use super::*;
use crate::registry::Registry;
use crate::yaml;

fn json(text: &str) -> Value {
    let read = yaml::to_json(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    serde_json::from_slice(&read.json).expect("JSON")
}

/// Reads the definition of a column: its name, type, format and priority.
fn column(text: &str) -> Value {
    let priority = i64::from(text.ends_with('+'));
    let (name, format) = match text.trim_end_matches('+').split_once('!') {
        Some((name, _)) => (name, "name"),
        None => (text.trim_end_matches('+'), ""),
    };
    let (name, kind) = name.split_once(':').unwrap_or((name, "string"));
    json!({"name": name, "type": kind, "format": format, "priority": priority})
}

#[test]
fn tables_are_those_of_the_walk() {
    let registry = Registry::builtin();
    let render =
        TableOptions { include: IncludeObject::None, version: "v1", now: "2026-01-01T00:00:00Z".parse().unwrap() };
    let mut printer = None;
    let mut walked = BTreeSet::new();
    let mut wrong = Vec::new();
    for line in include_str!("walk.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((resource, columns)) = line.strip_prefix("= ").and_then(|line| line.split_once(": ")) {
            let parts: Vec<&str> = resource.split('/').collect();
            let [.., version, plural] = parts[..] else { panic!("{line}") };
            let group = if parts.len() == 3 { parts[0] } else { "" };
            walked.insert(resource.to_owned());
            let table = registry.get(group, version, plural).expect("served").printer();
            let mut found = table.definitions();
            for definition in found.iter_mut().filter_map(Value::as_object_mut) {
                definition.remove("description");
            }
            let expected: Vec<Value> = columns.split(", ").map(column).collect();
            if found != expected {
                wrong.push(format!("{resource}\n  found    {}\n  expected {}", json!(found), json!(expected)));
            }
            printer = Some(table);
            continue;
        }
        let (object, expected) = line.split_once(" => ").expect("an object and its cells");
        let mut object = json(object);
        if object.get("metadata").is_none() {
            object["metadata"] = json!({"creationTimestamp": "2025-12-31T22:00:00Z"});
        }
        object["metadata"]["name"] = "x".into();
        let found = printer.as_ref().expect("a section").row(&object, &render)["cells"].clone();
        if found != json(expected) {
            wrong.push(format!("{line}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let served = registry.kinds().filter(|kind| kind.has_verb("list"));
    let served: BTreeSet<String> = served.map(|kind| format!("{}/{}", kind.api_version(), kind.plural)).collect();
    assert_eq!(walked, served);
}
