//! The state at the end of a run, and its differences from that of another run. Pure.
//!
//! Left out are versions, uids, times and what else [`essence`] leaves out, random names that the server made, and the
//! fields that differed between runs without faults.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use plumbline::explore::state::essence;
use plumbline::metadata;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The resource that exists for the record only.
pub(super) const EVENTS: &str = "events";

/// The mark of a random name.
const RANDOM: &str = "(random)";

/// Most items that an object's name is looked for in.
const ANY_INDEX: &str = "*";

/// The objects at the end of a run, by resource, namespace and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EndState {
    /// The objects, without what differs between runs.
    pub objects: BTreeMap<String, Value>,
}

/// A field of the objects of a resource that differs between runs without faults: `pods status.hostIP`. An object that
/// some of them have and others not is `pods default/a`.
pub type Volatile = BTreeSet<String>;

/// The state to which a run with faults should come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expected {
    /// The state at the end of the run without faults.
    pub state: EndState,
    /// The fields and objects that differ between such runs.
    pub volatile: Volatile,
    /// The locks of the program's leader, which are not compared.
    #[serde(default)]
    pub locks: BTreeSet<String>,
    /// The finalizers that the program adds or removes.
    #[serde(default)]
    pub finalizers: BTreeSet<String>,
    /// The state before steps, by the step's index.
    #[serde(default)]
    pub before: BTreeMap<usize, EndState>,
}

impl Expected {
    /// Returns true if `found` is this state.
    #[must_use]
    pub fn matches(&self, found: &EndState) -> bool {
        self.state.differences(found, &self.volatile).is_empty()
    }
}

/// A difference between two states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDifference {
    /// The object: `configmaps default/a`.
    pub object: String,
    /// `is missing`, `is left`, or the field.
    pub kind: String,
    /// The difference in words.
    pub text: String,
    /// The value without the fault, if a field differs.
    pub wanted: Option<Value>,
}

impl StateDifference {
    /// Returns true if the object is left or missing.
    #[must_use]
    pub fn is_about_existence(&self) -> bool {
        [LEFT, MISSING].contains(&self.kind.as_str())
    }

    /// Returns the resource of the object.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.object.split(' ').next().unwrap_or_default()
    }
}

/// Returns the name of an object without what the server made up: `web-(random)`. `None` if its name is not made from
/// `generateName`.
#[must_use]
pub fn stable_name(object: &Value, name: &str) -> Option<String> {
    let prefix = metadata::text(object, "generateName").filter(|prefix| !prefix.is_empty());
    prefix.filter(|prefix| name.starts_with(*prefix)).map(|prefix| format!("{prefix}{RANDOM}"))
}

/// The name of the volume that the admission of pods adds, before its random end.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Returns the text with words in place of uids and of the random end of a token volume's name; `None` if it has none.
fn blurred(text: &str) -> Option<String> {
    static UID: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").ok());
    if text.starts_with(TOKEN_VOLUME) && text.len() == TOKEN_VOLUME.len() + 5 {
        return Some(format!("{TOKEN_VOLUME}{RANDOM}"));
    }
    match UID.as_ref()?.replace_all(text, "(uid)") {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

/// Replaces uids and random names inside of texts: those of containers and of volumes have the uid of a pod or claim.
fn blur_texts(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(blurred) = blurred(text) {
                *text = blurred;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(blur_texts),
        Value::Object(fields) => fields.values_mut().for_each(blur_texts),
        _ => {}
    }
}

/// Removes the versions of other objects from references to them.
fn forget_versions(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(forget_versions),
        Value::Object(fields) => {
            if fields.contains_key("kind") && fields.contains_key("name") {
                fields.remove("resourceVersion");
            }
            fields.values_mut().for_each(forget_versions);
        }
        _ => {}
    }
}

/// Removes what the server allocates in the order of creations: addresses and ports of services, and volumes of claims.
fn forget_allocated(object: &mut Value) {
    const ALLOCATED: [&str; 4] = ["clusterIP", "clusterIPs", "healthCheckNodePort", "volumeName"];
    if !matches!(object["kind"].as_str(), Some("Service" | "PersistentVolumeClaim")) {
        return;
    }
    // A service without an address says so.
    if let Some(spec) = object["spec"].as_object_mut().filter(|spec| spec.get("clusterIP") != Some(&"None".into())) {
        spec.retain(|field, _| !ALLOCATED.contains(&field.as_str()));
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
    }
}

impl EndState {
    /// Collects objects: resource, namespace, name and content of each. `renamed` has the stable names of those that
    /// have random ones.
    #[must_use]
    pub fn new<'o>(
        objects: impl IntoIterator<Item = (&'o str, Option<&'o str>, &'o str, &'o Value)>,
        renamed: &BTreeMap<String, String>,
    ) -> Self {
        let mut named: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (resource, namespace, name, object) in objects.into_iter().filter(|(resource, ..)| *resource != EVENTS) {
            let mut object = object.clone();
            blur_texts(&mut object);
            let mut object = essence(&object);
            forget_allocated(&mut object);
            forget_versions(&mut object);
            rename(&mut object, renamed);
            let name = renamed.get(name).map_or(name, String::as_str);
            let name = blurred(name).unwrap_or_else(|| name.to_owned());
            named.entry(key(resource, namespace, &name)).or_default().push(object);
        }
        let mut objects = BTreeMap::new();
        for (key, mut equal) in named {
            // Objects with random names have no order but that of their content.
            equal.sort_by_cached_key(ToString::to_string);
            for (index, object) in equal.into_iter().enumerate() {
                let key = if index == 0 { key.clone() } else { format!("{key} #{}", index + 1) };
                objects.insert(key, object);
            }
        }
        Self { objects }
    }

    /// Returns the differences of `found` from this state, without the volatile fields.
    #[must_use]
    pub fn differences(&self, found: &Self, volatile: &Volatile) -> Vec<StateDifference> {
        let keys: BTreeSet<&String> = self.objects.keys().chain(found.objects.keys()).collect();
        let families: BTreeSet<&str> = volatile.iter().filter_map(|name| family(name)).collect();
        let is_volatile = |key: &str| volatile.contains(key) || family(key).is_some_and(|name| families.contains(name));
        let keys = keys.into_iter().filter(|key| !is_volatile(key));
        let differs = |key: &String| {
            let difference = |kind: &str, text: &str| {
                let object = key.clone();
                let kind = kind.to_owned();
                let text = text.to_owned();
                Some(StateDifference { object, kind, text, wanted: None })
            };
            match (self.objects.get(key), found.objects.get(key)) {
                (Some(_), None) => difference(MISSING, "it is missing; without the fault it exists"),
                (None, Some(_)) => difference(LEFT, "it exists; without the fault it does not"),
                (None, None) => None,
                (Some(wanted), Some(found)) => {
                    let resource = key.split(' ').next().unwrap_or_default();
                    let mut all = Vec::new();
                    fields(wanted, found, &mut Vec::new(), &mut all);
                    let (path, wanted, found) =
                        all.into_iter().find(|(path, ..)| !volatile.contains(&format!("{resource} {path}")))?;
                    let text = format!("{path} is {found}; without the fault it is {wanted}");
                    Some(StateDifference { object: key.clone(), kind: path, text, wanted: Some(wanted) })
                }
            }
        };
        keys.filter_map(differs).collect()
    }

    /// Adds what differs between this state and another run's to `volatile`.
    pub fn learn(&self, other: &Self, volatile: &mut Volatile) {
        let keys: BTreeSet<&String> = self.objects.keys().chain(other.objects.keys()).collect();
        for key in keys {
            let resource = key.split(' ').next().unwrap_or_default();
            match (self.objects.get(key), other.objects.get(key)) {
                (Some(one), Some(other)) => {
                    let mut all = Vec::new();
                    fields(one, other, &mut Vec::new(), &mut all);
                    volatile.extend(all.into_iter().map(|(path, ..)| format!("{resource} {path}")));
                }
                _ => _ = volatile.insert(key.clone()),
            }
        }
    }
}

/// The kind of a difference: the object is missing.
pub const MISSING: &str = "is missing";
/// The kind of a difference: the object is left.
pub const LEFT: &str = "is left";

/// Returns the key of an object.
#[must_use]
pub fn key(resource: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace.filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => format!("{resource} {namespace}/{name}"),
        None => format!("{resource} {name}"),
    }
}

/// Returns the name of an object without the hash at its end, as revisions of workloads have it: the next run may have
/// another one. `None` for fields, and for names without a hash.
pub(super) fn family(key: &str) -> Option<&str> {
    const SHORTEST: usize = 8;
    let (_, name) = key.rsplit_once('/')?;
    let (_, hash) = name.rsplit_once('-')?;
    let is_hash = hash.len() >= SHORTEST
        && hash.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && hash.bytes().any(|byte| byte.is_ascii_digit());
    is_hash.then(|| &key[..key.len() - hash.len()])
}

/// Replaces random names wherever they are whole texts.
fn rename(value: &mut Value, renamed: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(stable) = renamed.get(text) {
                text.clone_from(stable);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, renamed)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, renamed)),
        _ => {}
    }
}

/// Collects the fields in which two objects differ, with both values. Lists of equal length are compared item by item.
fn fields(one: &Value, other: &Value, path: &mut Vec<String>, all: &mut Vec<(String, Value, Value)>) {
    match (one, other) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                path.push(key.clone());
                fields(&one[key], &other[key], path, all);
                path.pop();
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            path.push(ANY_INDEX.to_owned());
            for (one, other) in left.iter().zip(right) {
                fields(one, other, path, all);
            }
            path.pop();
        }
        _ if one == other => {}
        _ => all.push((path.join("."), one.clone(), other.clone())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(objects: &[(&str, Value)]) -> EndState {
        let random = objects.iter().filter_map(|(name, object)| Some(((*name).to_owned(), stable_name(object, name)?)));
        let renamed = random.collect();
        EndState::new(objects.iter().map(|(name, object)| ("pods", Some("default"), *name, object)), &renamed)
    }

    #[test]
    fn uids_inside_of_texts_do_not_count() {
        let pod = |uid: &str, end: &str| {
            json!({"spec": {"volumes": [{"name": format!("kube-api-access-{end}")}]},
                   "status": {"id": format!("containerd://{uid}/a")}})
        };
        let one = ("12345678-0a0a-4b4b-8c8c-0123456789ab", "x7k2p");
        let other = ("20301231-0a0a-4b4b-8c8c-0123456789ab", "abcde");
        let states = [one, other].map(|(uid, end)| {
            let volume = format!("pvc-{uid}");
            state(&[("a", pod(uid, end)), (&volume, json!({"spec": {}}))])
        });
        assert_eq!(states[0], states[1]);
    }

    #[test]
    fn versions_in_references_do_not_count() {
        let job =
            |version: &str| json!({"status": {"active": [{"kind": "Job", "name": "a", "resourceVersion": version}]}});
        assert_eq!(state(&[("a", job("203"))]), state(&[("a", job("204"))]));
    }

    #[test]
    fn random_names_do_not_count() {
        let pod = |name: &str, node: &str| {
            json!({"kind": "Pod", "metadata": {"name": name, "generateName": "web-"}, "spec": {"nodeName": node},
                   "status": {"self": name}})
        };
        let one = state(&[("web-a1", pod("web-a1", "n1")), ("web-b2", pod("web-b2", "n2"))]);
        let other = state(&[("web-c3", pod("web-c3", "n2")), ("web-d4", pod("web-d4", "n1"))]);
        assert_eq!(one, other);
        let more = state(&[("web-a1", pod("web-a1", "n1"))]);
        let found: Vec<String> = one
            .differences(&more, &Volatile::new())
            .into_iter()
            .map(|found| found.object + " " + &found.kind)
            .collect();
        assert_eq!(found, ["pods default/web-(random) #2 is missing"]);
    }

    #[test]
    fn hashes_of_random_content_do_not_count() {
        let revision = |hash: &str| {
            let name = format!("web-{hash}");
            state(&[(&name, json!({"data": 1}))])
        };
        let mut volatile = Volatile::new();
        let one = revision("5fb849b9b4");
        one.learn(&revision("7c6bd4cc9d"), &mut volatile);
        assert!(one.differences(&revision("648b5f587f"), &volatile).is_empty());
        assert_eq!(one.differences(&revision("2"), &volatile).len(), 1, "a number is no hash");
    }

    #[test]
    fn volatile_fields_are_learned() {
        let pod = |host: &str, phase: &str| json!({"kind": "Pod", "metadata": {"name": "a"}, "status": {"list": [{"host": host}], "phase": phase}});
        let one = state(&[("a", pod("x", "Running"))]);
        let mut volatile = Volatile::new();
        one.learn(&state(&[("a", pod("y", "Running"))]), &mut volatile);
        assert_eq!(volatile, Volatile::from(["pods status.list.*.host".to_owned()]));
        assert!(one.differences(&state(&[("a", pod("z", "Running"))]), &volatile).is_empty());
        let found = one.differences(&state(&[("a", pod("z", "Failed"))]), &volatile);
        assert_eq!(found[0].text, "status.phase is \"Failed\"; without the fault it is \"Running\"");
    }
}
