//! Formats the changes of an object: fields grouped by parent, list items by merge key, conditions in one line.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::redact::Redactions;

/// Fields that change with every write and carry no information.
const NOISE: [&str; 2] = ["metadata.resourceVersion", "metadata.managedFields"];

/// Lists whose items have a merge key in the API.
const KEYS: [(&str, &[&str]); 6] = [
    ("containers", &["name"]),
    ("containerStatuses", &["name"]),
    ("taints", &["key", "effect"]),
    ("tolerations", &["key", "effect"]),
    ("ownerReferences", &["uid"]),
    ("addresses", &["type"]),
];

/// Returns the differences between `old` and `new`, one per line, in the order of the fields.
#[must_use]
pub(super) fn lines(old: &Value, new: &Value, names: &Redactions) -> Vec<String> {
    let mut diff = Diff { names, groups: IndexMap::new(), conditions: Vec::new() };
    diff.walk("", old, new);
    let mut out: Vec<String> = diff
        .groups
        .iter()
        .map(|(parent, leaves)| {
            let leaves = leaves.join(", ");
            if parent.is_empty() { leaves } else { format!("{parent}: {leaves}") }
        })
        .collect();
    out.append(&mut diff.conditions);
    out
}

struct Diff<'a> {
    names: &'a Redactions,
    groups: IndexMap<String, Vec<String>>,
    conditions: Vec<String>,
}

impl Diff<'_> {
    fn walk(&mut self, path: &str, old: &Value, new: &Value) {
        if old == new || NOISE.contains(&path) {
            return;
        }
        let empty = Map::new();
        match (old, new) {
            (Value::Object(a), Value::Object(b)) => self.fields(path, a, b),
            (Value::Null, Value::Object(b)) if !is_small(new) => self.fields(path, &empty, b),
            (Value::Object(a), Value::Null) if !is_small(old) => self.fields(path, a, &empty),
            (Value::Array(_) | Value::Null, Value::Array(_) | Value::Null) if last(path) == "conditions" => {
                self.conditions(items(old), items(new));
            }
            (Value::Array(_) | Value::Null, Value::Array(_) | Value::Null) => self.list(path, old, new),
            _ => self.leaf(path, old, new),
        }
    }

    fn fields(&mut self, path: &str, old: &Map<String, Value>, new: &Map<String, Value>) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            let child = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.walk(&child, old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null));
        }
    }

    fn list(&mut self, path: &str, old: &Value, new: &Value) {
        let Some((_, key)) = KEYS.iter().find(|(field, _)| *field == last(path)) else {
            return self.leaf(path, old, new);
        };
        let before = keyed(items(old), key);
        let after = keyed(items(new), key);
        for (name, item) in &before {
            self.walk(&format!("{path}[{name}]"), item, after.get(name).copied().unwrap_or(&Value::Null));
        }
        for (name, item) in &after {
            if !before.contains_key(name) {
                self.walk(&format!("{path}[{name}]"), &Value::Null, item);
            }
        }
    }

    fn leaf(&mut self, path: &str, old: &Value, new: &Value) {
        let (parent, field) = split(path);
        let text = match (old, new) {
            (Value::Null, new) => format!("+{field}={}", self.show(field, new)),
            (old, Value::Null) => format!("-{field}={}", self.show(field, old)),
            (old, new) => format!("{field} {}→{}", self.show(field, old), self.show(field, new)),
        };
        self.groups.entry(parent.to_owned()).or_default().push(text);
    }

    fn show(&self, field: &str, value: &Value) -> String {
        match (field, value.as_str()) {
            ("resourceVersion", Some(version)) => self.names.resource_version(version),
            ("uid", Some(uid)) => self.names.uid(uid),
            _ => self.names.value(value),
        }
    }

    fn conditions(&mut self, old: &[Value], new: &[Value]) {
        let before = keyed(old, &["type"]);
        let after = keyed(new, &["type"]);
        for (kind, item) in &before {
            match after.get(kind) {
                None => self.conditions.push(format!("-{kind}={}", verdict(item))),
                Some(now) if now != item => {
                    let details = self.details(item, now);
                    let verdict = match (verdict(item), verdict(now)) {
                        (was, is) if was == is => is,
                        (was, is) => format!("{was}→{is}"),
                    };
                    self.conditions.push(format!("{kind}={verdict}{details}"));
                }
                Some(_) => {}
            }
        }
        for (kind, item) in &after {
            if !before.contains_key(kind) {
                let details = self.details(&Value::Null, item);
                self.conditions.push(format!("+{kind}={}{details}", verdict(item)));
            }
        }
    }

    /// Formats the other differences between two versions of a condition, each with a leading space.
    fn details(&self, old: &Value, new: &Value) -> String {
        let mut out = String::new();
        for (field, label) in [
            ("lastTransitionTime", "since "),
            ("lastProbeTime", "probed "),
            ("lastHeartbeatTime", "heartbeat "),
            ("observedGeneration", "observed="),
            ("message", ""),
        ] {
            if old[field] != new[field] {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let value = match (field, text(&old[field]), text(&new[field])) {
                    // Empty and missing messages are equivalent: Go omits empty ones.
                    ("message", was, is) if was == is => continue,
                    ("message", _, is) if is.is_empty() => "message gone".to_owned(),
                    ("message", _, is) => self.names.message(&is),
                    _ if new[field].is_null() => "none".to_owned(),
                    _ => self.names.value(&new[field]),
                };
                out.push(' ');
                out.push_str(label);
                out.push_str(&value);
            }
        }
        out
    }
}

/// Formats status and reason of a condition: `True/SufficientPods`.
fn verdict(condition: &Value) -> String {
    let status = condition["status"].as_str().unwrap_or("?");
    match condition["reason"].as_str() {
        Some(reason) if !reason.is_empty() => format!("{status}/{reason}"),
        _ => status.to_owned(),
    }
}

/// Returns true if a value is short enough for one `+field=`.
fn is_small(value: &Value) -> bool {
    value
        .as_object()
        .is_none_or(|fields| fields.len() <= 3 && fields.values().all(|field| !field.is_object() && !field.is_array()))
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn keyed<'a>(items: &'a [Value], keys: &[&str]) -> IndexMap<String, &'a Value> {
    items
        .iter()
        .map(|item| {
            let name = keys.iter().map(|key| item[*key].as_str().unwrap_or("*")).collect::<Vec<_>>().join(":");
            (name, item)
        })
        .collect()
}

/// Splits a path into parent and field name; keys of annotations and labels contain dots and stay whole.
fn split(path: &str) -> (&str, &str) {
    for map in ["metadata.annotations", "metadata.labels", "spec.selector.matchLabels"] {
        if let Some(key) = path.strip_prefix(map).and_then(|rest| rest.strip_prefix('.')) {
            return (map, key);
        }
    }
    // A merge key in brackets may contain dots.
    let end = if path.ends_with(']') { path.rfind('[').unwrap_or(path.len()) } else { path.len() };
    match path[..end].rfind('.') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => ("", path),
    }
}

fn last(path: &str) -> &str {
    split(path).1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_reads_at_a_glance() {
        let old = json!({
            "metadata": {"name": "a", "resourceVersion": "1", "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
            "status": {"phase": "Running", "n": 1, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let new = json!({
            "metadata": {"name": "a", "resourceVersion": "2", "annotations": {"node.alpha.kubernetes.io/ttl": "15"}},
            "spec": {"taints": [{"key": "k", "effect": "NoExecute"}]},
            "status": {"phase": "Failed", "n": 2, "conditions": [
                {"type": "Ready", "status": "False"},
                {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "gone"},
            ]},
        });
        insta::assert_snapshot!(lines(&old, &new, &Redactions::default()).join("\n"), @r#"
        metadata.annotations: node.alpha.kubernetes.io/ttl "0"→"15"
        spec: +taints[k:NoExecute]={effect: NoExecute, key: k}
        status: n 1→2, phase Running→Failed
        Ready=True→False
        +DisruptionTarget=True/DeletionByPodGC » gone
        "#);
    }

    #[test]
    fn noise_is_no_change() {
        let old = json!({"metadata": {"resourceVersion": "1", "managedFields": []}});
        let new = json!({"metadata": {"resourceVersion": "2", "managedFields": [{}]}});
        assert_eq!(lines(&old, &new, &Redactions::default()), Vec::<String>::new());
    }
}
