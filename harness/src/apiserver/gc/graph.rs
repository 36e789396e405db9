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
    pub(super) uid: Arc<str>,
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
struct Metadata {
    #[serde(default)]
    finalizers: Vec<String>,
}

impl Node {
    /// Reads what collection wants to know of an object.
    fn read(resource: &ResourceId, stored: &Stored) -> Self {
        let deleted = stored.is_terminating();
        let object =
            if stored.has_finalizers() { serde_json::from_slice::<Object>(&stored.bytes()).ok() } else { None };
        let finalizers = object.map(|object| object.metadata.finalizers).unwrap_or_default();
        let waits = |finalizer: &str| deleted && finalizers.iter().any(|known| known == finalizer);
        Self {
            resource: resource.clone(),
            namespace: stored.namespace().to_owned(),
            name: stored.name().to_owned(),
            uid: stored.shared_uid().clone(),
            revision: stored.revision(),
            deleted,
            foreground: waits(FOREGROUND),
            orphaning: waits(ORPHAN),
            owners: owners(stored),
            finalizers,
        }
    }
}

fn owners(stored: &Stored) -> Vec<Owner> {
    serde_json::from_slice(stored.owner_references()).unwrap_or_default()
}

/// The objects that have owners or are being deleted, by uid. They are shared with the store and read when asked for.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Arc<str>, (ResourceId, Arc<Stored>)>,
    dependents: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<Node> {
        self.nodes.get(uid).map(|(resource, stored)| Node::read(resource, stored))
    }

    /// The objects that name `uid` as an owner.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = Node> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|dependent| self.get(dependent))
    }

    /// Whether an object waits for its dependents.
    fn waits(&self, uid: &str) -> bool {
        let node = self.nodes.get(uid).filter(|(_, stored)| stored.is_terminating());
        node.map(|(resource, stored)| Node::read(resource, stored))
            .is_some_and(|node| node.foreground || node.orphaning)
    }

    /// Takes in an object; returns whom to look at because of it.
    pub(super) fn insert(&mut self, resource: &ResourceId, stored: &Arc<Stored>) -> Vec<Arc<str>> {
        let uid = stored.shared_uid();
        let mut touched = self.forget(uid);
        if stored.owner_references().is_empty() && !stored.is_terminating() {
            return touched;
        }
        for owner in owners(stored) {
            self.dependents.entry(owner.uid.into()).or_default().insert(uid.clone());
        }
        self.nodes.insert(uid.clone(), (resource.clone(), stored.clone()));
        if self.waits(uid) {
            touched.extend(self.dependents.get(uid).into_iter().flatten().cloned());
        }
        touched.push(uid.clone());
        touched
    }

    /// Takes out an object that is gone; returns its dependents, and its owners that may wait for it.
    pub(super) fn remove(&mut self, stored: &Stored) -> Vec<Arc<str>> {
        let mut touched = self.forget(stored.uid());
        touched.extend(self.dependents.get(stored.uid()).into_iter().flatten().cloned());
        touched
    }

    /// Takes in a whole resource.
    pub(super) fn replace(&mut self, resource: &ResourceId, objects: &[Arc<Stored>]) -> Vec<Arc<str>> {
        let present: BTreeSet<&str> = objects.iter().map(|stored| stored.uid()).collect();
        let known = self.nodes.iter().filter(|(_, (of, _))| of == resource);
        let gone: Vec<Arc<str>> = known.map(|(uid, _)| uid).filter(|uid| !present.contains(&***uid)).cloned().collect();
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
    fn forget(&mut self, uid: &str) -> Vec<Arc<str>> {
        let Some((_, stored)) = self.nodes.remove(uid) else { return Vec::new() };
        let mut waiting = Vec::new();
        for owner in owners(&stored) {
            if let Some(dependents) = self.dependents.get_mut(owner.uid.as_str()) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(owner.uid.as_str());
                }
            }
            if self.waits(&owner.uid) {
                waiting.push(owner.uid.into());
            }
        }
        waiting
    }
}
