//! Writes a finding as a fixture that reads as if written by hand. Pure.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

/// Fields of a fixture in the recommended order.
const ORDER: [&str; 14] = [
    "promise",
    "rule",
    "level",
    "feature",
    "controllers",
    "flags",
    "replicas",
    "source",
    "about",
    "waive",
    "given",
    "steps",
    "allow",
    "expect",
];

/// Formats a fixture. Lists of steps and faults have one item in a line.
#[must_use]
pub fn to_yaml(document: &Value) -> String {
    let mut text = String::from("# yaml-language-server: $schema=../fixture.schema.json\n");
    let empty = Map::new();
    let fields = document.as_object().unwrap_or(&empty);
    for name in ORDER {
        let Some(value) = fields.get(name) else { continue };
        match value {
            Value::Array(items) if name == "steps" => {
                let _ = writeln!(text, "{name}:");
                for item in items {
                    let _ = writeln!(text, "- {}", flow(item, &["at", "until", "by", "for"]));
                }
            }
            Value::Object(parts) if name == "given" => {
                let _ = writeln!(text, "{name}:");
                for (part, value) in parts {
                    let _ = writeln!(text, "  {part}: {}", flow(value, &["name", "on"]));
                }
            }
            value => {
                let _ = writeln!(text, "{name}: {}", flow(value, &[]));
            }
        }
    }
    text
}

/// Formats a value in one line; fields in `first` come first.
fn flow(value: &Value, first: &[&str]) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| flow(item, first)).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let rank = |name: &str| first.iter().position(|known| *known == name).unwrap_or(first.len());
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| rank(name));
            let fields: Vec<String> =
                fields.into_iter().map(|(name, value)| format!("{}: {}", scalar(name), flow(value, first))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        plain => plain.to_string(),
    }
}

/// Quotes a text unless it is plain in every YAML.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ./*-_".contains(c);
    let word = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic())
        && text.chars().all(plain)
        && !text.ends_with(' ')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    // `on` is a field of faults, and a field is never read as a boolean here.
    if word || text == "on" { text.to_owned() } else { json!(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_are_written_as_people_write_them() {
        let document = json!({
            "steps": [{ "delete": "nodes/n1", "at": "5s" }],
            "promise": "It: goes.",
            "given": { "faults": [{ "crash": "after", "on": "PATCH pods/a/status", "count": 1 }], "pods": ["a on n1"] },
            "expect": { "absent": "pods/a" },
        });
        assert_eq!(
            to_yaml(&document),
            "# yaml-language-server: $schema=../fixture.schema.json\n\
             promise: \"It: goes.\"\n\
             given:\n  faults: [{ on: PATCH pods/a/status, count: 1, crash: after }]\n  pods: [a on n1]\n\
             steps:\n- { at: \"5s\", delete: nodes/n1 }\n\
             expect: { absent: pods/a }\n"
        );
    }
}
