//! Objects without what differs between two runs of the same history: versions, uids, times, and traces of other
//! clients. Digests and differences of such states. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::breach::{Breach, END_STATE};
use super::faults::inject::TOUCH;
use crate::expect::world::{Key, key_of_change};
use crate::transcript::{EntryKind, RecordedJson, TranscriptEntry};

/// The fields that a digest covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All fields that every correct run of the same history agrees on.
    Full,
    /// The fields that the steps of a fixture can depend on: all but the statuses of budgets, which steps notice only
    /// through the replies to evictions.
    History,
}

/// Objects that exist only for the record, or that the API server itself maintains.
const NOT_COMPARED: [&str; 3] = ["events", "leases", "namespaces"];

/// Metadata that differs between two runs of the same history.
const VOLATILE: [&str; 7] = [
    "resourceVersion",
    "managedFields",
    "uid",
    "generation",
    "creationTimestamp",
    "selfLink",
    "deletionGracePeriodSeconds",
];

/// Returns true if a field of the status differs between two runs of the same history: a pod's addresses depend on the
/// order in which pods start, the observed generation on the writes of other clients.
fn is_volatile_status(kind: &Value, field: &str) -> bool {
    match field {
        "podIP" | "podIPs" => kind == "Pod",
        // The disruption controller's own.
        "observedGeneration" => kind != "PodDisruptionBudget",
        _ => false,
    }
}

/// Length of a uid.
const UID: usize = 36;

/// Returns true if states are compared by objects of this resource.
#[must_use]
pub fn is_compared(resource: &str) -> bool {
    !NOT_COMPARED.contains(&resource)
}

/// Returns the object without what differs between runs.
#[must_use]
pub fn essence(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        trim_metadata(meta);
    }
    let kind = object["kind"].clone();
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|field, _| !is_volatile_status(&kind, field));
    }
    blur(&mut object);
    object
}

fn trim_metadata(meta: &mut Map<String, Value>) {
    for field in VOLATILE {
        meta.remove(field);
    }
    let annotations = meta.get_mut("annotations").and_then(Value::as_object_mut);
    let empty = annotations.is_some_and(|annotations| {
        annotations.remove(TOUCH);
        annotations.is_empty()
    });
    if empty {
        meta.remove("annotations");
    }
}

/// Replaces times and uids by words.
fn blur(value: &mut Value) {
    match value {
        Value::String(text) if is_time(text) => "(time)".clone_into(text),
        Value::String(text) if is_uid(text) => "(uid)".clone_into(text),
        Value::String(text) => {
            if let Some(part) = without_times(text) {
                *text = part;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(blur),
        Value::Object(fields) => fields.values_mut().for_each(blur),
        _ => {}
    }
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[0].is_ascii_digit() && bytes[4] == b'-' && bytes[10] == b'T' && text.ends_with('Z')
}

fn is_uid(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == UID && [8, 13, 18, 23].iter().all(|dash| bytes[*dash] == b'-')
}

fn digest(key: &Key, object: Option<&RecordedJson>, scope: Scope) -> u64 {
    let Some(object) = object else { return 0 };
    let mut hasher = DefaultHasher::new();
    for part in [&key.group, &key.resource, &key.name] {
        part.hash(&mut hasher);
    }
    key.namespace.hash(&mut hasher);
    hash_essence(object, scope, &mut hasher);
    hasher.finish()
}

/// Hashes the [`essence`] of an object without making it, because this runs for each change of each run; the scope
/// `History` leaves out the status of budgets, too.
fn hash_essence(object: &Value, scope: Scope, hasher: &mut DefaultHasher) {
    let Some(fields) = object.as_object() else { return hash_value(object, hasher) };
    let without_status = scope == Scope::History && object["kind"] == "PodDisruptionBudget";
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("status", _) if without_status => {}
            ("status", Value::Object(status)) => {
                let kind = &object["kind"];
                "status".hash(hasher);
                for (name, value) in status.iter().filter(|(name, _)| !is_volatile_status(kind, name)) {
                    hash_member(name, value, hasher);
                }
            }
            ("metadata", Value::Object(meta)) => {
                for (name, value) in meta.iter().filter(|(name, _)| !VOLATILE.contains(&name.as_str())) {
                    hash_metadata(name, value, hasher);
                }
            }
            _ => hash_member(name, value, hasher),
        }
    }
}

fn hash_metadata(name: &str, value: &Value, hasher: &mut DefaultHasher) {
    let Some(annotations) = value.as_object().filter(|_| name == "annotations") else {
        return hash_member(name, value, hasher);
    };
    for (name, value) in annotations.iter().filter(|(name, _)| *name != TOUCH) {
        hash_member("annotation", &Value::Null, hasher);
        hash_member(name, value, hasher);
    }
}

fn hash_member(name: &str, value: &Value, hasher: &mut DefaultHasher) {
    name.hash(hasher);
    hash_value(value, hasher);
}

fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(value) => value.hash(hasher),
        Value::Number(number) => number.hash(hasher),
        Value::String(text) if is_time(text) => "(time)".hash(hasher),
        Value::String(text) if is_uid(text) => "(uid)".hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Array(items) => {
            items.len().hash(hasher);
            for item in items {
                hash_value(item, hasher);
            }
        }
        Value::Object(fields) => {
            fields.len().hash(hasher);
            for (name, value) in fields {
                hash_member(name, value, hasher);
            }
        }
    }
}

/// A digest of all objects that grows with each change. Two runs from the same objects have the same digest if and,
/// but for collisions, only if they are in the same state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateDigest {
    /// See [`Scope::Full`].
    pub full: u64,
    /// See [`Scope::History`].
    pub history: u64,
    /// The digests of the objects that changed.
    objects: BTreeMap<Key, (u64, u64)>,
}

impl StateDigest {
    /// Applies an entry of the transcript.
    pub fn step(&mut self, entry: &TranscriptEntry) {
        let EntryKind::Change(change) = &entry.what else { return };
        if !is_compared(&change.resource) {
            return;
        }
        let key = key_of_change(change);
        let both = |object: Option<&RecordedJson>| {
            let full = digest(&key, object, Scope::Full);
            let budget = change.resource == "poddisruptionbudgets";
            (full, if budget { digest(&key, object, Scope::History) } else { full })
        };
        let old = self.objects.get(&key).copied().unwrap_or_else(|| both(change.old.as_ref()));
        let new = both(change.new.as_ref());
        self.full = self.full.wrapping_add(new.0).wrapping_sub(old.0);
        self.history = self.history.wrapping_add(new.1).wrapping_sub(old.1);
        self.objects.insert(key, new);
    }
}

/// The objects that changed during a run, in their last state; `None` for deleted ones.
pub type ChangedObjects = BTreeMap<Key, Option<RecordedJson>>;

/// Returns the objects that `entries` change.
#[must_use]
pub fn changed_objects(entries: &[TranscriptEntry]) -> ChangedObjects {
    let mut objects = ChangedObjects::new();
    for entry in entries {
        if let EntryKind::Change(change) = &entry.what
            && is_compared(&change.resource)
        {
            objects.insert(key_of_change(change), change.new.clone());
        }
    }
    objects
}

/// Digits in a row that are a time in a name: minutes or seconds since 1970, or a date.
const DIGITS: usize = 8;

/// Returns a text with a word for each time in it that is made of digits alone; `None` if it has none.
fn without_times(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let length = rest[at..].bytes().take_while(u8::is_ascii_digit).count();
        out.push_str(&rest[..at]);
        if length >= DIGITS {
            out.push_str("(time)");
            found = true;
        } else {
            out.push_str(&rest[at..at + length]);
        }
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    found.then_some(out)
}

/// Returns the objects by the part of their names that has no time: of `backup-31536000` and `backup-31536030` the
/// first is `backup-(time)#1` and the second `#2`, so that runs in which a controller with a schedule is late can be
/// compared.
#[must_use]
pub fn by_part(objects: &ChangedObjects) -> ChangedObjects {
    let mut numbers: BTreeMap<Key, usize> = BTreeMap::new();
    let renamed = |(key, object): (&Key, &Option<RecordedJson>)| {
        let Some(name) = without_times(&key.name) else { return (key.clone(), object.clone()) };
        let part = Key { name, ..key.clone() };
        let number = numbers.entry(part.clone()).or_default();
        *number += 1;
        (Key { name: format!("{}#{number}", part.name), ..part }, object.clone())
    };
    objects.iter().map(renamed).collect()
}

/// A difference between two states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDifference {
    /// The object.
    pub key: Key,
    /// The kind of the difference: `is missing`, `is left`, or the field that differs.
    pub kind: String,
    /// The difference in words.
    pub text: String,
    /// Path and value of the field in the run without faults, if a field differs.
    pub field: Option<(Vec<String>, Value)>,
}

impl StateDifference {
    /// Returns the checks of a fixture in `namespace` that the difference fails.
    #[must_use]
    pub fn expected(&self, namespace: &str) -> Value {
        let Key { resource, namespace: own, name, .. } = &self.key;
        let prefix = own.as_ref().filter(|own| *own != namespace).map(|own| format!("{own}:")).unwrap_or_default();
        let object = format!("{prefix}{resource}/{name}");
        match &self.field {
            None if self.kind == LEFT => json!({ "absent": object }),
            None => json!({ "exists": object }),
            // Times and uids were replaced by words.
            Some((_, value)) if value.to_string().contains("\"(") => json!({ "exists": object }),
            Some((path, value)) => {
                let nested = path.iter().rev().fold(value.clone(), |value, name| json!({ name: value }));
                json!({ "match": { object: nested } })
            }
        }
    }
}

impl StateDifference {
    /// Returns the breach of the end state by a run that ended at `at`, with the checks of a fixture in `namespace`.
    #[must_use]
    pub fn into_breach(self, at: Duration, namespace: &str) -> Breach {
        Breach {
            oracle: END_STATE.to_owned(),
            expected: self.expected(namespace),
            text: format!("{}/{}: {}", self.key.resource, self.key.name, self.text),
            resource: self.key.resource,
            kind: self.kind,
            at,
        }
    }
}

/// The kind of a difference: the object is missing.
pub const MISSING: &str = "is missing";
/// The kind of a difference: the object is left.
const LEFT: &str = "is left";

/// Returns the differences between the states that two runs reached from the same `initial` objects.
#[must_use]
pub fn differences(
    initial: impl Fn(&Key) -> Option<RecordedJson>,
    wanted_states: &ChangedObjects,
    found_states: &ChangedObjects,
) -> Vec<StateDifference> {
    let keys: BTreeSet<&Key> = wanted_states.keys().chain(found_states.keys()).collect();
    let state = |objects: &ChangedObjects, key: &Key| objects.get(key).cloned().unwrap_or_else(|| initial(key));
    let differs = |key: &Key| {
        let wanted = state(wanted_states, key);
        let found = state(found_states, key);
        let (kind, text, field) = match (wanted, found) {
            (None, None) => return None,
            (Some(_), None) => (MISSING.to_owned(), "it is missing; without the fault it exists".to_owned(), None),
            (None, Some(_)) => {
                // An object that no change is about was not there before either.
                let usual = if wanted_states.contains_key(key) { "it is deleted" } else { "it never does" };
                (LEFT.to_owned(), format!("it exists; without the fault {usual}"), None)
            }
            (Some(wanted), Some(found)) => {
                let wanted = essence(&wanted);
                let found = essence(&found);
                let mut path = Vec::new();
                let (old, new) = first_difference(&wanted, &found, &mut path)?;
                let field = path.join(".");
                let text = format!("{field} is {new}; without the fault it is {old}");
                (field, text, Some((path, old)))
            }
        };
        Some(StateDifference { key: key.clone(), kind, text, field })
    };
    keys.into_iter().filter_map(differs).collect()
}

/// Returns the first values that differ, with their path. A list is one value.
fn first_difference(wanted: &Value, found: &Value, path: &mut Vec<String>) -> Option<(Value, Value)> {
    match (wanted, found) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                path.push(key.clone());
                if let Some(difference) = first_difference(&wanted[key], &found[key], path) {
                    return Some(difference);
                }
                path.pop();
            }
            None
        }
        (wanted, found) => (wanted != found).then(|| (wanted.clone(), found.clone())),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn pod(change: &Value) -> Value {
        let mut pod = json!({
            "kind": "Pod",
            "metadata": {"name": "a", "uid": "0f8fad5b-d9cb-469f-a165-70867728950e", "resourceVersion": "7"},
            "status": {"phase": "Running", "startTime": "2030-01-01T00:00:00Z"},
        });
        crate::fixture::merge_patch::merge(&mut pod, change);
        pod
    }

    #[rstest]
    #[case::nothing(json!({}), true)]
    #[case::another_version(json!({"metadata": {"resourceVersion": "8"}}), true)]
    #[case::another_uid(json!({"metadata": {"uid": "1f8fad5b-d9cb-469f-a165-70867728950e"}}), true)]
    #[case::another_time(json!({"status": {"startTime": "2030-01-01T00:00:09.5Z"}}), true)]
    #[case::touched(json!({"metadata": {"annotations": {TOUCH: "1"}}}), true)]
    #[case::another_address(json!({"status": {"podIP": "10.1.0.2", "podIPs": [{"ip": "10.1.0.2"}]}}), true)]
    #[case::another_generation(json!({"status": {"observedGeneration": 2}}), true)]
    #[case::another_phase(json!({"status": {"phase": "Failed"}}), false)]
    #[case::terminating(json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}), false)]
    #[case::no_time(json!({"status": {"startTime": null}}), false)]
    fn only_the_essence_counts(#[case] change: Value, #[case] same: bool) {
        let one = pod(&json!({}));
        let other = pod(&change);
        assert_eq!(essence(&one) == essence(&other), same);
        let digest = |pod: Value| digest(&key("a"), Some(&pod.into()), Scope::Full);
        assert_eq!(digest(one) == digest(other), same);
    }

    #[test]
    fn names_with_times_are_compared_by_their_part() {
        let object = |name: &str| (key(name), Some(RecordedJson::from(pod(&json!({"metadata": {"name": name}})))));
        let one = by_part(&ChangedObjects::from([object("b-31536000"), object("b-31536030"), object("web-10")]));
        let other = by_part(&ChangedObjects::from([object("b-31536003"), object("b-31536033"), object("web-10")]));
        let names: Vec<&str> = one.keys().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["b-(time)#1", "b-(time)#2", "web-10"]);
        assert_eq!(differences(|_| None, &one, &other), []);
    }

    #[test]
    fn the_history_does_not_depend_on_the_numbers_of_budgets() {
        let budget = |kind: &str, healthy: u64| json!({"kind": kind, "status": {"currentHealthy": healthy}});
        let same = |kind: &str, scope: Scope| {
            let digest = |healthy: u64| digest(&key("a"), Some(&budget(kind, healthy).into()), scope);
            digest(1) == digest(2)
        };
        assert!(same("PodDisruptionBudget", Scope::History) && !same("PodDisruptionBudget", Scope::Full));
        assert!(!same("Pod", Scope::History));
        let generation = |number: u64| json!({"kind": "PodDisruptionBudget", "status": {"observedGeneration": number}});
        assert_ne!(essence(&generation(1)), essence(&generation(2)));
    }

    fn key(name: &str) -> Key {
        let namespace = Some("default".to_owned());
        Key { group: String::new(), resource: "pods".to_owned(), namespace, name: name.to_owned() }
    }

    #[test]
    fn differences_are_named() {
        let object = |change: Value| Some(RecordedJson::from(pod(&change)));
        let initial = |name: &Key| (*name == key("kept")).then(|| RecordedJson::from(pod(&json!({}))));
        let wanted = ChangedObjects::from([(key("gone"), None), (key("phase"), object(json!({})))]);
        let found = ChangedObjects::from([
            (key("gone"), object(json!({}))),
            (key("kept"), None),
            (key("phase"), object(json!({"status": {"phase": "Failed"}}))),
        ]);
        let found: Vec<String> = differences(initial, &wanted, &found)
            .into_iter()
            .map(|difference| format!("{} {}", difference.key.name, difference.kind))
            .collect();
        assert_eq!(found, ["gone is left", "kept is missing", "phase status.phase"]);
    }
}
