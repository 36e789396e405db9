//! Field sets in their wire form: `{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`. Follows `fieldpath/set.go` and
//! `fieldpath/serialize.go` of `sigs.k8s.io/structured-merge-diff/v6`.
//!
//! A node is a member if it is empty (a leaf) or has the key `.`; other keys are path elements.

use crate::json::{Map, Value};

/// Marks a member that has children.
const SELF: &str = ".";

/// A set of fields in the form of `fieldsV1`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldSet(Map);

impl FieldSet {
    /// Reads a `fieldsV1` value.
    pub(crate) fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self(map)),
            _ => None,
        }
    }

    /// Returns the set as a `fieldsV1` value.
    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    pub(crate) fn from_map(map: Map) -> Self {
        Self(map)
    }

    pub(crate) fn as_map(&self) -> &Map {
        &self.0
    }

    /// Builds the set of these paths of field names.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let mut single = Map::new();
            for (depth, name) in path.iter().rev().enumerate() {
                let inner = if depth == 0 { Map::new() } else { std::mem::take(&mut single) };
                single.insert(format!("f:{name}"), Value::Object(inner));
            }
            set.union(Self(single));
        }
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the members of `other`.
    pub(crate) fn union(&mut self, other: Self) {
        union(&mut self.0, other.0);
    }

    /// Removes the members of `other`; fields below them stay.
    pub(crate) fn difference(&mut self, other: &Self) {
        difference(&mut self.0, &other.0, false);
    }

    /// Removes the members of `other` and all fields below them.
    pub(crate) fn recursive_difference(&mut self, other: &Self) {
        difference(&mut self.0, &other.0, true);
    }

    /// Returns the members of both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        Self(intersection(&self.0, &other.0))
    }

    /// Removes the fields that are never owned: identity, versions, times.
    pub(crate) fn strip_meta(&mut self) {
        const META: [&str; 9] = [
            "f:name",
            "f:namespace",
            "f:creationTimestamp",
            "f:selfLink",
            "f:uid",
            "f:clusterName",
            "f:generation",
            "f:managedFields",
            "f:resourceVersion",
        ];
        self.0.retain(|key, _| !matches!(key.as_str(), "f:apiVersion" | "f:kind"));
        let Some(Value::Object(metadata)) = self.0.get_mut("f:metadata") else { return };
        metadata.remove(SELF);
        for name in META {
            // Upstream would keep children of a member here; none of these fields has children.
            metadata.remove(name);
        }
        if metadata.is_empty() {
            self.0.remove("f:metadata");
        }
    }

    /// Returns the paths of all members in upstream's order: at each level the members first, then the fields below
    /// them.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        collect(&self.0, "", &mut out);
        out
    }
}

/// Returns true if a node is a member of the set.
pub(crate) fn is_member(node: &Map) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

/// Builds a node; `None` if it is neither a member nor has children.
pub(crate) fn build_node(member: bool, mut children: Map) -> Option<Value> {
    if member && !children.is_empty() {
        children.insert(SELF, Value::Object(Map::new()));
    }
    (member || !children.is_empty()).then_some(Value::Object(children))
}

fn union(ours: &mut Map, theirs: Map) {
    for (key, value) in theirs {
        match (ours.get_mut(&key), value) {
            (Some(Value::Object(our)), Value::Object(their)) => {
                if our.is_empty() && their.is_empty() {
                    continue;
                }
                let member = is_member(our) || is_member(&their);
                union(our, their);
                if member {
                    our.insert(SELF, Value::Object(Map::new()));
                }
            }
            (_, value) => {
                ours.insert(key, value);
            }
        }
    }
}

fn difference(ours: &mut Map, theirs: &Map, recursive: bool) {
    for (key, their) in theirs {
        if key == SELF {
            continue;
        }
        let Value::Object(their) = their else { continue };
        let Some(Value::Object(our)) = ours.get_mut(key) else { continue };
        let goes = is_member(their);
        if our.is_empty() || (recursive && goes) {
            if goes {
                ours.remove(key);
            }
            continue;
        }
        if goes {
            our.remove(SELF);
        }
        let member = our.remove(SELF).is_some();
        difference(our, their, recursive);
        if member && !our.is_empty() {
            our.insert(SELF, Value::Object(Map::new()));
        } else if !member && our.is_empty() {
            ours.remove(key);
        }
    }
}

fn intersection(ours: &Map, theirs: &Map) -> Map {
    let mut out = Map::new();
    // `theirs` holds the fields that a write changed, mostly few.
    for (key, their) in theirs {
        if key == SELF {
            continue;
        }
        let (Some(Value::Object(our)), Value::Object(their)) = (ours.get(key), their) else { continue };
        let both = is_member(our) && is_member(their);
        if let Some(value) = build_node(both, intersection(our, their)) {
            out.insert(key.clone(), value);
        }
    }
    out
}

fn collect(map: &Map, path: &str, out: &mut Vec<String>) {
    let children = || map.iter().filter(|(key, _)| *key != SELF).filter_map(|(k, v)| Some((k, v.as_object()?)));
    for (key, child) in children() {
        if is_member(child) {
            out.push(format!("{path}{}", format_path_element(key)));
        }
    }
    for (key, child) in children() {
        if !child.is_empty() {
            collect(child, &format!("{path}{}", format_path_element(key)), out);
        }
    }
}

/// Formats a path element for messages: `.name`, `[name="c"]`, `[="x"]`.
pub(crate) fn format_path_element(element: &str) -> String {
    match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("k", keys)) => match serde_json::from_str::<Map>(keys) {
            Ok(keys) => {
                let keys: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
                format!("[{}]", keys.join(","))
            }
            Err(_) => format!("[{keys}]"),
        },
        Some((_, index)) => format!("[{index}]"),
        None => element.to_owned(),
    }
}
