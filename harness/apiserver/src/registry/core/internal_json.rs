//! Values of kube-apiserver's internal types in errors, such as the diff of two pod specs for an update of immutable
//! fields.
//!
//! Upstream marshals its internal type, for a diff with indentation
//! (`staging/src/k8s.io/apimachinery/pkg/util/diff/diff.go`), so the text depends on the internal type's field names
//! and order. `internal_types.txt` has them: a type per line with its fields as `GoName:jsonName:kind`, where the
//! kind is `s` text, `n` number, `b` flag, `?` optional scalar, `L` list of scalars, `M` map, `K` label selector,
//! `q`/`Q` quantity, `i` number or text, and `=T`/`*T`/`+T` one, at most one or many `T`. A JSON name with `^` is a
//! field of the spec itself.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::field_errors::{BadValue, ErrorList, Path, go_json};
use crate::json::Value;
use crate::json::fields::{array_field, is_empty_value, semantic_equal, str_field};
use crate::registry::checks::IMMUTABLE_MESSAGE;
use crate::registry::core::difflib;

struct InternalField {
    go: &'static str,
    json: &'static str,
    kind: &'static str,
}

static TYPES: LazyLock<BTreeMap<&'static str, Vec<InternalField>>> = LazyLock::new(|| {
    let read = |line: &'static str| {
        let mut words = line.split(' ');
        let name = words.next()?;
        let fields = words.filter_map(|word| {
            let mut parts = word.split(':');
            Some(InternalField { go: parts.next()?, json: parts.next()?, kind: parts.next()? })
        });
        Some((name, fields.collect()))
    };
    let rows = include_str!("internal_types.txt").lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(read).collect()
});

/// Returns a unified diff of two specs.
pub(in crate::registry) fn difference(before: &Value, after: &Value) -> String {
    difflib::unified(&lines(before), &lines(after))
}

/// Returns a unified diff of two values of an internal type.
pub(in crate::registry) fn difference_of(name: &str, before: &Value, after: &Value) -> String {
    difflib::unified(&lines_of(name, before), &lines_of(name, after))
}

/// Formats a value of an internal type on one line, as in upstream's `Invalid value`.
pub(in crate::registry) fn compact(name: &str, value: &Value) -> String {
    let mut printer = InternalTypePrinter { spec: value, out: String::new(), compact: true };
    printer.structure(name, value, 0);
    printer.out
}

/// Formats values of an internal type like [`compact`].
pub(in crate::registry) fn compact_list(name: &str, values: &[Value]) -> String {
    format!("[{}]", values.iter().map(|value| compact(name, value)).collect::<Vec<_>>().join(","))
}

/// Requires a field of a kind in the notation of the table, such as `=T` or `*T`, to be unchanged.
pub(in crate::registry) fn immutable(
    kind: &str,
    new: Option<&Value>,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if !semantic_equal(new, old) {
        let mut printer = InternalTypePrinter { spec: &Value::Null, out: String::new(), compact: true };
        printer.field(kind, new.filter(|value| !value.is_null()), 0);
        errors.invalid(path, BadValue::Raw(printer.out), IMMUTABLE_MESSAGE);
    }
}

fn lines(spec: &Value) -> Vec<String> {
    lines_of("PodSpec", spec)
}

fn lines_of(name: &str, value: &Value) -> Vec<String> {
    let mut printer = InternalTypePrinter { spec: value, out: String::new(), compact: false };
    printer.structure(name, value, 0);
    printer.out.lines().map(str::to_owned).collect()
}

struct InternalTypePrinter<'a> {
    spec: &'a Value,
    out: String,
    compact: bool,
}

impl InternalTypePrinter<'_> {
    fn line(&mut self, depth: usize) {
        if self.compact {
            return;
        }
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', depth));
    }

    fn key(&mut self, quoted: &str) {
        self.out.push_str(quoted);
        self.out.push_str(if self.compact { ":" } else { ": " });
    }

    fn structure(&mut self, name: &str, value: &Value, depth: usize) {
        let Some(fields) = TYPES.get(name) else {
            self.out.push_str(&go_json(value));
            return;
        };
        self.out.push('{');
        for (i, field) in fields.iter().enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            self.line(depth + 1);
            self.key(&format!("\"{}\"", field.go));
            let found = match field.json.strip_prefix('^') {
                Some(outer) => self.spec.get(outer),
                None => value.get(field.json),
            };
            let found = found.filter(|v| !v.is_null()).cloned();
            self.field(field.kind, found.as_ref(), depth + 1);
        }
        self.line(depth);
        self.out.push('}');
    }

    fn field(&mut self, kind: &str, value: Option<&Value>, depth: usize) {
        let (code, name) = kind.split_at(1);
        match (code, value) {
            ("=", value) => self.structure(name, value.unwrap_or(&Value::Null), depth),
            ("s", None) => self.out.push_str("\"\""),
            ("n" | "i", None) => self.out.push('0'),
            ("b", None) => self.out.push_str("false"),
            ("q", None) => self.out.push_str("\"0\""),
            ("*", Some(value)) => self.structure(name, value, depth),
            // Only a list or map that a client sends is empty: those in storage are missing then.
            ("+" | "L", Some(Value::Array(items))) if items.is_empty() => self.out.push_str("[]"),
            ("+", Some(Value::Array(items))) => {
                self.list(items, depth, |printer, item, depth| printer.structure(name, item, depth));
            }
            ("L", Some(Value::Array(items))) => {
                self.list(items, depth, |printer, item, _| printer.out.push_str(&go_json(item)));
            }
            (_, None) | ("+" | "L", Some(_)) => self.out.push_str("null"),
            ("M", Some(Value::Object(map))) if map.is_empty() => self.out.push_str("{}"),
            ("M", Some(Value::Object(map))) => {
                let entries: Vec<(String, Value)> = map.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
                self.entries(&entries, depth);
            }
            ("K", Some(selector)) => self.selector(selector, depth),
            (_, Some(value)) => self.out.push_str(&go_json(value)),
        }
    }

    fn list(&mut self, items: &[Value], depth: usize, print: impl Fn(&mut Self, &Value, usize)) {
        self.out.push('[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            self.line(depth + 1);
            print(self, item, depth + 1);
        }
        self.line(depth);
        self.out.push(']');
    }

    fn entries(&mut self, entries: &[(String, Value)], depth: usize) {
        self.out.push('{');
        for (i, (key, value)) in entries.iter().enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            self.line(depth + 1);
            self.key(&go_json(&Value::from(key.as_str())));
            match value {
                Value::Array(items) => {
                    self.list(items, depth + 1, |printer, item, _| printer.out.push_str(&go_json(item)));
                }
                other => self.out.push_str(&go_json(other)),
            }
        }
        self.line(depth);
        self.out.push('}');
    }

    /// Writes a label selector. It has no internal type, so it keeps its JSON names and omits empty fields.
    fn selector(&mut self, selector: &Value, depth: usize) {
        let labels = selector.get("matchLabels").and_then(Value::as_object).filter(|l| !l.is_empty());
        let expressions = array_field(selector, "matchExpressions");
        if labels.is_none() && expressions.is_empty() {
            self.out.push_str("{}");
            return;
        }
        self.out.push('{');
        if let Some(labels) = labels {
            self.line(depth + 1);
            self.key("\"matchLabels\"");
            let entries: Vec<(String, Value)> = labels.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
            self.entries(&entries, depth + 1);
        }
        if !expressions.is_empty() {
            if labels.is_some() {
                self.out.push(',');
            }
            self.line(depth + 1);
            self.key("\"matchExpressions\"");
            self.list(expressions, depth + 1, |printer, expression, depth| {
                let mut entries = vec![
                    ("key".to_owned(), str_field(expression, "key").into()),
                    ("operator".to_owned(), str_field(expression, "operator").into()),
                ];
                if let Some(values) = expression.get("values").filter(|v| !is_empty_value(Some(v))) {
                    entries.push(("values".to_owned(), values.clone()));
                }
                printer.entries(&entries, depth);
            });
        }
        self.line(depth);
        self.out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn a_changed_node_is_shown_in_its_surroundings() {
        let before = json!({"nodeName": "a", "containers": [{"name": "c"}]});
        let after = json!({"nodeName": "b", "containers": [{"name": "c"}]});
        let text = difference(&before, &after);
        let expected = concat!(
            " \"NodeSelector\": null,\n",
            "  \"ServiceAccountName\": \"\",\n",
            "  \"AutomountServiceAccountToken\": null,\n",
            "- \"NodeName\": \"a\",\n",
            "+ \"NodeName\": \"b\",\n",
            "  \"SecurityContext\": null,\n",
            "  \"ImagePullSecrets\": null,\n",
            "  \"Hostname\": \"\",\n",
        );
        assert!(text.starts_with("@@ -"), "{text}");
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn every_named_type_is_known() {
        for field in TYPES.values().flatten() {
            let (code, name) = field.kind.split_at(1);
            assert!(!matches!(code, "=" | "*" | "+") || TYPES.contains_key(name), "{name}");
        }
    }
}
