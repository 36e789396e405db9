//! Who depends on whom: the objects that have owners, and the owners that are being deleted. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use super::{FOREGROUND, ORPHAN};
use crate::apiserver::store::{ResourceId, Stored};

/// A reference to an owner.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Owner {
    #[serde(default)]
    pub(super) api_version: String,
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) uid: String,
    /// `blockOwnerDeletion`.
    #[serde(default, rename = "blockOwnerDeletion")]
    pub(super) blocks: bool,
}

/// An object as far as collection is concerned.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) resource: ResourceId,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) revision: u64,
    pub(super) owners: Vec<Owner>,
    pub(super) finalizers: Vec<String>,
    /// It is being deleted.
    pub(super) deleted: bool,
    /// It is being deleted and waits for its dependents to be deleted.
    pub(super) foreground: bool,
    /// It is being deleted and waits for its dependents to be orphaned.
    pub(super) orphaning: bool,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    owner_references: Vec<Owner>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

impl Node {
    /// Reads an object, unless collection has nothing to do with it: most objects are told by their bytes.
    fn read(resource: &ResourceId, stored: &Stored) -> Option<Self> {
        let bytes = stored.bytes();
        let mentions = |word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
        if !mentions("\"ownerReferences\"") && !mentions("\"deletionTimestamp\"") {
            return None;
        }
        let metadata = serde_json::from_slice::<Object>(&bytes).ok()?.metadata;
        let deleted = metadata.deletion_timestamp.is_some();
        let waits = |finalizer: &str| deleted && metadata.finalizers.iter().any(|known| known == finalizer);
        Some(Self {
            resource: resource.clone(),
            namespace: stored.namespace().to_owned(),
            name: stored.name().to_owned(),
            uid: stored.uid().to_owned(),
            revision: stored.revision(),
            deleted,
            foreground: waits(FOREGROUND),
            orphaning: waits(ORPHAN),
            owners: metadata.owner_references,
            finalizers: metadata.finalizers,
        })
    }
}

/// The objects that have owners or are being deleted, by uid.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<String, Node>,
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The objects that name `uid` as an owner.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Node> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|dependent| self.nodes.get(dependent))
    }

    /// Takes in an object; returns whom to look at because of it.
    pub(super) fn insert(&mut self, resource: &ResourceId, stored: &Stored) -> Vec<String> {
        let Some(node) = Node::read(resource, stored) else {
            return self.forget(stored.uid());
        };
        let mut touched = self.forget(&node.uid);
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(node.uid.clone());
        }
        if node.foreground || node.orphaning {
            touched.extend(self.dependents.get(&node.uid).into_iter().flatten().cloned());
        }
        touched.push(node.uid.clone());
        self.nodes.insert(node.uid.clone(), node);
        touched
    }

    /// Takes out an object that is gone; returns its dependents, and its owners that may wait for it.
    pub(super) fn remove(&mut self, stored: &Stored) -> Vec<String> {
        let mut touched = self.forget(stored.uid());
        touched.extend(self.dependents.get(stored.uid()).into_iter().flatten().cloned());
        touched
    }

    /// Takes in a whole resource.
    pub(super) fn replace(&mut self, resource: &ResourceId, objects: &[Arc<Stored>]) -> Vec<String> {
        let present: BTreeSet<&str> = objects.iter().map(|stored| stored.uid()).collect();
        let gone: Vec<String> = self
            .nodes
            .values()
            .filter(|node| node.resource == *resource && !present.contains(node.uid.as_str()))
            .map(|node| node.uid.clone())
            .collect();
        let mut touched = Vec::new();
        for uid in gone {
            touched.extend(self.forget(&uid));
            touched.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        }
        for stored in objects {
            touched.extend(self.insert(resource, stored));
        }
        touched
    }

    /// Takes out a node; returns its owners that wait for their dependents.
    fn forget(&mut self, uid: &str) -> Vec<String> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        let mut waiting = Vec::new();
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
            if self.nodes.get(&owner.uid).is_some_and(|owner| owner.foreground || owner.orphaning) {
                waiting.push(owner.uid.clone());
            }
        }
        waiting
    }
}
