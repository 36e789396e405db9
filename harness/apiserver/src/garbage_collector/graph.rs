//! The ownership graph: objects that have owners or are being deleted, and their dependents. Pure.
//!
//! Its counterpart upstream is `pkg/controller/garbagecollector/graph_builder.go`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::Deserialize;

use super::{FOREGROUND, ORPHAN};
use crate::store::{ResourceId, StoredObject};

/// An owner reference.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnerReference {
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

/// The fields of an object that garbage collection needs.
#[derive(Debug, Clone)]
pub(super) struct ObjectNode {
    pub(super) resource: ResourceId,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: Arc<str>,
    pub(super) revision: u64,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) finalizers: Vec<String>,
    /// The object has a deletionTimestamp.
    pub(super) deleted: bool,
    /// The object is in foreground deletion.
    pub(super) foreground: bool,
    /// The object is being deleted and waits for its dependents to be orphaned.
    pub(super) orphaning: bool,
}

#[derive(Deserialize)]
struct FinalizerView {
    metadata: FinalizerMetadata,
}

#[derive(Deserialize)]
struct FinalizerMetadata {
    #[serde(default)]
    finalizers: Vec<String>,
}

impl ObjectNode {
    /// Reads the fields from a stored object.
    fn read(resource: &ResourceId, stored: &StoredObject) -> Self {
        let deleted = stored.is_terminating();
        let object =
            if stored.has_finalizers() { serde_json::from_slice::<FinalizerView>(&stored.bytes()).ok() } else { None };
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

fn owners(stored: &StoredObject) -> Vec<OwnerReference> {
    serde_json::from_slice(stored.owner_references()).unwrap_or_default()
}

/// An object in the graph. It is shared with the store and decoded on demand.
#[derive(Debug)]
struct GraphNode {
    resource: ResourceId,
    stored: Arc<StoredObject>,
    /// Nothing was to be done when the object was last processed. That holds until its owners or the object change.
    settled: bool,
}

impl GraphNode {
    fn node(&self) -> ObjectNode {
        ObjectNode::read(&self.resource, &self.stored)
    }
}

/// The objects that have owners or are being deleted, by uid.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Arc<str>, GraphNode>,
    dependents: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Uid and name of owners whose deletion was seen, the latest last (`absentOwnerCache`).
    absent: VecDeque<(Arc<str>, String)>,
}

/// Most owners that are known to be absent.
const ABSENT_MAX: usize = 500;

impl Graph {
    /// Returns true if the deletion of an owner was seen.
    pub(super) fn is_absent(&self, owner: &OwnerReference) -> bool {
        self.absent.iter().any(|(uid, name)| **uid == *owner.uid && *name == owner.name)
    }

    pub(super) fn get(&self, uid: &str) -> Option<ObjectNode> {
        self.nodes.get(uid).map(GraphNode::node)
    }

    /// Records whether processing the object found nothing to do.
    pub(super) fn settle(&mut self, uid: &str, settled: bool) {
        if let Some(known) = self.nodes.get_mut(uid) {
            known.settled = settled;
        }
    }

    /// Returns the objects that have `uid` as an owner.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = ObjectNode> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|dependent| self.get(dependent))
    }

    /// Returns true if the object waits for its dependents.
    fn waits_for_dependents(&self, uid: &str) -> bool {
        let node = self.nodes.get(uid).filter(|known| known.stored.is_terminating());
        node.map(GraphNode::node).is_some_and(|node| node.foreground || node.orphaning)
    }

    /// Adds or updates an object; returns the uids to process because of that.
    pub(super) fn insert(&mut self, resource: &ResourceId, stored: &Arc<StoredObject>) -> Vec<Arc<str>> {
        let uid = stored.shared_uid();
        // Most changes are status updates.
        if let Some(known) = self.nodes.get_mut(uid)
            && known.settled
            && !stored.is_terminating()
            && known.stored.owner_references() == stored.owner_references()
        {
            known.stored = stored.clone();
            return Vec::new();
        }
        let mut touched = self.forget(uid);
        if stored.owner_references().is_empty() && !stored.is_terminating() {
            return touched;
        }
        for owner in owners(stored) {
            self.dependents.entry(owner.uid.into()).or_default().insert(uid.clone());
        }
        let known = GraphNode { resource: resource.clone(), stored: stored.clone(), settled: false };
        self.nodes.insert(uid.clone(), known);
        if self.waits_for_dependents(uid) {
            touched.extend(self.dependents.get(uid).into_iter().flatten().cloned());
        }
        touched.push(uid.clone());
        touched
    }

    /// Removes a deleted object; returns its dependents, and those of its owners that wait for dependents.
    pub(super) fn remove(&mut self, stored: &StoredObject) -> Vec<Arc<str>> {
        let mut touched = self.forget(stored.uid());
        if self.dependents.contains_key(stored.uid()) {
            self.absent.push_back((stored.shared_uid().clone(), stored.name().to_owned()));
            if self.absent.len() > ABSENT_MAX {
                self.absent.pop_front();
            }
        }
        touched.extend(self.dependents.get(stored.uid()).into_iter().flatten().cloned());
        touched
    }

    /// Adds or updates all objects of a resource; returns the uids to process because of that.
    pub(super) fn replace(&mut self, resource: &ResourceId, objects: &[Arc<StoredObject>]) -> Vec<Arc<str>> {
        for known in self.nodes.values_mut().filter(|known| known.resource == *resource) {
            // The state of its owners is unknown after a gap in the log.
            known.settled = false;
        }
        objects.iter().flat_map(|stored| self.insert(resource, stored)).collect()
    }

    /// Removes a node; returns those of its owners that wait for dependents.
    fn forget(&mut self, uid: &str) -> Vec<Arc<str>> {
        let Some(known) = self.nodes.remove(uid) else { return Vec::new() };
        let mut waiting = Vec::new();
        for owner in owners(&known.stored) {
            if let Some(dependents) = self.dependents.get_mut(owner.uid.as_str()) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(owner.uid.as_str());
                }
            }
            if self.waits_for_dependents(&owner.uid) {
                waiting.push(owner.uid.into());
            }
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::store::{Draft, Store};

    fn stored(owner: &str, phase: &str) -> Arc<StoredObject> {
        let object = json!({
            "metadata": {"name": "pod", "uid": "pod", "ownerReferences": [{"kind": "ReplicaSet", "name": "set", "uid": owner}]},
            "status": {"phase": phase},
        });
        Store::default().create(&ResourceId::new("", "pods"), Draft::new(&object, Vec::new())).unwrap().new
    }

    #[test]
    fn a_settled_object_is_looked_at_again_when_its_owners_change_or_may_have_changed() {
        let mut graph = Graph::default();
        let pods = ResourceId::new("", "pods");
        let touches = |graph: &mut Graph, owner, phase| graph.insert(&pods, &stored(owner, phase)).len();
        assert_eq!(touches(&mut graph, "set", "Pending"), 1);
        assert_eq!(touches(&mut graph, "set", "Running"), 1, "not handled yet");
        graph.settle("pod", true);
        assert_eq!(touches(&mut graph, "set", "Failed"), 0);
        assert_eq!(&graph.get("pod").unwrap().owners[0].uid, "set");
        assert_eq!(touches(&mut graph, "other", "Failed"), 1);
        assert_eq!((graph.dependents("set").count(), graph.dependents("other").count()), (0, 1));
        graph.settle("pod", true);
        assert_eq!(graph.replace(&pods, &[stored("other", "Failed")]).len(), 1);
        graph.settle("pod", true);
        graph.settle("pod", false);
        assert_eq!(touches(&mut graph, "other", "Running"), 1, "what was tried failed");
    }
}
