//! Reconstructs the objects at any point of the transcript.

use std::collections::BTreeMap;

use serde_json::Value;

use super::run::Run;
use crate::fixture::pattern::{Resource, Resources, Target};
use crate::metadata;
use crate::transcript::{Change, EntryKind, RecordedJson, TranscriptEntry};

/// The key of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// API group.
    pub group: String,
    /// Plural.
    pub resource: String,
    /// Namespace.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

/// All objects at a point of the transcript.
#[derive(Debug, Clone)]
pub struct ObjectStates {
    objects: BTreeMap<Key, RecordedJson>,
    /// The last uid of each name.
    uids: BTreeMap<Key, String>,
    resources: Resources,
    namespace: String,
}

impl ObjectStates {
    /// Creates the state before the first entry. `namespace` is the default namespace.
    pub fn new(run: &Run<'_>, namespace: &str) -> Self {
        let resources = kinds(run.initial.iter().map(|object| &**object));
        // Collecting an ordered sequence builds the tree at once; inserting thousands of nodes one by one is slow.
        let keyed = |object: &RecordedJson| Some((key_of(&resources, object)?, object.clone()));
        let objects: BTreeMap<Key, RecordedJson> = run.initial.iter().filter_map(keyed).collect();
        let uid = |(key, object): (&Key, &RecordedJson)| Some((key.clone(), uid_of(object)?));
        let uids = objects.iter().filter_map(uid).collect();
        let namespace = if namespace.is_empty() { "default".to_owned() } else { namespace.to_owned() };
        Self { objects, uids, resources, namespace }
    }

    /// Returns the state without any object, with the same resources and default namespace.
    #[must_use]
    pub fn without_objects(&self) -> Self {
        let resources = self.resources.clone();
        Self { objects: BTreeMap::new(), uids: BTreeMap::new(), resources, namespace: self.namespace.clone() }
    }

    /// Returns the state after `entries`.
    #[must_use]
    pub fn after(mut self, entries: &[TranscriptEntry]) -> Self {
        for entry in entries {
            self.step(entry);
        }
        self
    }

    /// Applies an entry.
    pub fn step(&mut self, entry: &TranscriptEntry) {
        if let EntryKind::Change(change) = &entry.what {
            self.put(key_of_change(change), change.new.clone());
        }
    }

    /// Replaces the object with this key; `None` removes it.
    pub fn put(&mut self, key: Key, object: Option<RecordedJson>) {
        match object {
            Some(object) => {
                if let Some(uid) = uid_of(&object) {
                    self.uids.insert(key.clone(), uid);
                }
                self.objects.insert(key, object);
            }
            None => {
                self.objects.remove(&key);
            }
        }
    }

    /// Returns the objects that `target` covers.
    pub fn find(&self, target: &Target) -> Vec<(&Key, &RecordedJson)> {
        let means = |key: &Key| {
            let group =
                if same_group(&target.resource.group, &key.group) { &*target.resource.group } else { &*key.group };
            target.covers(group, &key.resource, key.namespace.as_deref(), &key.name)
        };
        if target.is_glob() || target.name.is_empty() || target.resource.plural == "events" {
            return self.objects.iter().filter(|(key, _)| means(key)).collect();
        }
        // A single name is looked up, because runs with thousands of nodes are judged at thousands of points.
        let key = Key {
            group: target.resource.group.to_string(),
            resource: target.resource.plural.to_string(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
        };
        self.objects.get_key_value(&key).into_iter().collect()
    }

    /// Returns the object with this key.
    pub fn get(&self, key: &Key) -> Option<&RecordedJson> {
        self.objects.get(key)
    }

    /// Returns all objects, ordered by group, resource, namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &RecordedJson> {
        self.objects.values()
    }

    /// Returns all objects with their keys, in their order.
    pub fn keyed(&self) -> impl Iterator<Item = (&Key, &RecordedJson)> + Clone {
        self.objects.iter()
    }

    /// Returns all objects of a resource.
    pub fn all<'w>(&'w self, resource: &'w str) -> impl Iterator<Item = (&'w Key, &'w RecordedJson)> {
        self.objects.iter().filter(move |(key, _)| key.resource == resource)
    }

    /// Returns the uid of the object that has, or last had, this name. The name is written as in fixtures.
    pub fn uid(&self, name: &str) -> Option<String> {
        let target = Target::parse(name, &self.namespace, &self.resources).ok()?;
        let key = Key {
            group: target.resource.group.into_owned(),
            resource: target.resource.plural.into_owned(),
            namespace: target.namespace,
            name: target.name,
        };
        self.uids.get(&key).cloned()
    }
}

fn key_of(resources: &Resources, object: &Value) -> Option<Key> {
    let resource = resources.of_kind(object["apiVersion"].as_str()?, object["kind"].as_str()?).ok()?;
    Some(Key {
        group: resource.group.into_owned(),
        resource: resource.plural.into_owned(),
        namespace: metadata::namespace(object).map(str::to_owned),
        name: metadata::text(object, "name")?.to_owned(),
    })
}

fn uid_of(object: &RecordedJson) -> Option<String> {
    object.uid().map(str::to_owned)
}

/// Compares API groups. Events are the same objects in both of their groups.
pub(crate) fn same_group(pattern: &str, group: &str) -> bool {
    pattern == group || (pattern.is_empty() && group == "events.k8s.io")
}

/// Returns the key of the changed object.
pub fn key_of_change(change: &Change) -> Key {
    Key {
        group: change.group.clone(),
        resource: change.resource.clone(),
        namespace: change.namespace.clone().filter(|namespace| !namespace.is_empty()),
        name: change.name.clone(),
    }
}

/// Returns the resources that can be named: the built-in ones, and those of the CRDs among `objects`.
pub fn kinds<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Resources {
    let mut resources = Resources::default();
    for crd in objects.into_iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
        resources.declare(resource_of_definition(crd));
    }
    resources
}

/// Returns the resource of a custom resource definition, in its first version. A definition in `v1beta1` may have one
/// version outside of the list, and no scope.
pub(crate) fn resource_of_definition(crd: &Value) -> Resource {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Resource {
        group: text(&spec["group"]).into(),
        version: text(spec.pointer("/versions/0/name").unwrap_or(&spec["version"])).into(),
        plural: text(&spec["names"]["plural"]).into(),
        kind: text(&spec["names"]["kind"]).into(),
        namespaced: spec["scope"] != "Cluster",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_of_both_versions_name_their_kind() {
        let names = json!({"plural": "widgets", "kind": "Widget"});
        let stable =
            json!({"spec": {"group": "ex.io", "names": names, "scope": "Namespaced", "versions": [{"name": "v1"}]}});
        let beta = json!({"spec": {"group": "ex.io", "names": names, "version": "v1"}});
        assert_eq!(resource_of_definition(&stable), resource_of_definition(&beta));
        let cluster = json!({"spec": {"group": "ex.io", "names": names, "version": "v1", "scope": "Cluster"}});
        assert!(!resource_of_definition(&cluster).namespaced);
    }
}
