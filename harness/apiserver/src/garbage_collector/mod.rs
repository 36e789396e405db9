//! The garbage collector and the namespace controller, both optional.
//!
//! They follow `pkg/controller/garbagecollector/garbagecollector.go` and
//! `pkg/controller/namespace/deletion/namespaced_resources_deleter.go`, so that deletions with a `propagationPolicy`
//! and deletions of namespaces complete. They run in `plumbline serve`, and in fixtures that enable them.

mod graph;
mod namespace_conditions;
mod namespaces;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use http::Method;

use super::backoff::Retries;
use super::controllers::{ControllerClient, MERGE_PATCH, WatchChange, WatchMux, WatchSet, path_of};
use super::registry::{Registry, Resource};
use super::server::{ApiServer, storage_id};
use super::store::{EventType, StoredObject};
use crate::json::{Value, json};
use crate::metadata;
use graph::{Graph, ObjectNode, OwnerReference};

pub use namespaces::terminate_namespaces;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Deletes objects whose owners do not exist and dependents of owners in foreground deletion, and orphans the
/// dependents of owners that ask for it. It waits for `pause` before a round of writes, so that clients can observe
/// the intermediate states as they can in a cluster. Never returns.
pub async fn collect_garbage(server: ApiServer, pause: Duration) {
    let mut collector = GarbageCollector {
        pause,
        rested: false,
        agent: ControllerClient::new(&server, "plumbline/generic-garbage-collector"),
        graph: Graph::default(),
        queue: VecDeque::new(),
        queued: BTreeSet::new(),
        retries: Retries::default(),
    };
    let mut feed = WatchMux::new(&server, WatchSet::All);
    loop {
        for (resource, change) in feed.next_until(collector.retries.next()).await {
            let touched = match change {
                WatchChange::Replace(objects) => collector.graph.replace(&resource, &objects),
                WatchChange::Event(event) if event.event_type == EventType::Deleted => {
                    collector.graph.remove(&event.current)
                }
                WatchChange::Event(event) => collector.graph.insert(&resource, &event.current),
            };
            for uid in touched {
                collector.enqueue(uid);
            }
        }
        for uid in collector.retries.due(server.clock().now()) {
            collector.enqueue(uid);
        }
        collector.work().await;
    }
}

struct GarbageCollector {
    pause: Duration,
    /// The pause of the current round is over.
    rested: bool,
    agent: ControllerClient,
    graph: Graph,
    queue: VecDeque<Arc<str>>,
    queued: BTreeSet<Arc<str>>,
    /// The objects for which a write was refused.
    retries: Retries<Arc<str>>,
}

/// The owners of an object, by state.
#[derive(Debug, Default)]
struct Owners {
    /// Owners that exist and are not waiting for their dependents.
    solid: Vec<OwnerReference>,
    /// Owners in foreground deletion, which wait for their dependents to be deleted.
    waiting: Vec<OwnerReference>,
    /// Owners that do not exist.
    dangling: Vec<OwnerReference>,
}

impl GarbageCollector {
    fn enqueue(&mut self, uid: Arc<str>) {
        if self.queued.insert(uid.clone()) {
            self.queue.push_back(uid);
        }
    }

    async fn work(&mut self) {
        self.rested = false;
        while let Some(uid) = self.queue.pop_front() {
            self.queued.remove(&uid);
            if let Some(node) = self.graph.get(&uid) {
                self.process_item(&node).await;
            }
            self.retries.settle(&uid, self.agent.take_refusal(), self.agent.server().clock().now());
        }
    }

    /// Makes the writes that an object needs now.
    async fn process_item(&mut self, node: &ObjectNode) {
        let registry = self.agent.server().registry();
        let owners = self.classify(&registry, node);
        let gone: Vec<&OwnerReference> = owners.dangling.iter().chain(&owners.waiting).collect();
        let settled = gone.is_empty() && !node.deleted;
        self.graph.settle(&node.uid, settled);
        if settled {
            // The usual case: all owners exist.
            return;
        }
        if !self.rested {
            self.rested = true;
            self.agent.server().clock().sleep(self.pause).await;
        }
        let Some(kind) = kind_of(&registry, node) else { return };
        if node.orphaning {
            return self.orphan_dependents(&registry, kind, node).await;
        }
        if node.foreground {
            return self.delete_dependents(kind, node).await;
        }
        if node.deleted || node.owners.is_empty() {
            return;
        }
        if !owners.solid.is_empty() {
            self.remove_owners(kind, node, &gone).await;
            return;
        }
        let has_dependents = self.graph.dependents(&node.uid).next().is_some();
        let circle = !owners.waiting.is_empty() && self.graph.dependents(&node.uid).any(|one| one.foreground);
        if circle && !self.unblock_owners(kind, node).await {
            return;
        }
        let policy = if !owners.waiting.is_empty() && has_dependents {
            "Foreground"
        } else if node.finalizers.iter().any(|finalizer| finalizer == ORPHAN) {
            "Orphan"
        } else if node.finalizers.iter().any(|finalizer| finalizer == FOREGROUND) {
            "Foreground"
        } else {
            "Background"
        };
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy,
            "preconditions": {"uid": &*node.uid}});
        if !circle {
            options["preconditions"]["resourceVersion"] = json!(node.revision.to_string());
        }
        self.agent.delete(&path_of(kind, &node.namespace, &node.name), Some(&options)).await;
    }

    fn classify(&self, registry: &Registry, node: &ObjectNode) -> Owners {
        let mut owners = Owners::default();
        for owner in &node.owners {
            let found = find_owner(self.agent.server(), registry, node, owner);
            match found {
                None => owners.dangling.push(owner.clone()),
                Some(stored) => {
                    let waits = stored.is_terminating()
                        && stored.has_finalizers()
                        && metadata::finalizers(&stored.value()).any(|finalizer| finalizer == FOREGROUND);
                    if waits { owners.waiting.push(owner.clone()) } else { owners.solid.push(owner.clone()) }
                }
            }
        }
        owners
    }

    /// Removes the foreground finalizer of an owner once no dependent blocks its deletion; until then enqueues the
    /// dependents.
    async fn delete_dependents(&mut self, kind: &Resource, node: &ObjectNode) {
        let dependents: Vec<ObjectNode> = self.graph.dependents(&node.uid).collect();
        let blocking =
            dependents.iter().any(|dependent| dependent.owners.iter().any(|o| *o.uid == *node.uid && o.blocks));
        if !blocking {
            self.drop_finalizer(kind, node, FOREGROUND).await;
            return;
        }
        for dependent in dependents.iter().filter(|dependent| !dependent.deleted) {
            self.enqueue(dependent.uid.clone());
        }
    }

    async fn orphan_dependents(&mut self, registry: &Registry, kind: &Resource, node: &ObjectNode) {
        let dependents: Vec<ObjectNode> = self.graph.dependents(&node.uid).collect();
        for dependent in &dependents {
            let owner: Vec<&OwnerReference> = dependent.owners.iter().filter(|owner| *owner.uid == *node.uid).collect();
            if let Some(kind) = kind_of(registry, dependent)
                && !self.remove_owners(kind, dependent, &owner).await
            {
                return;
            }
        }
        self.drop_finalizer(kind, node, ORPHAN).await;
    }

    /// Removes owner references from an object. Returns true if they are gone.
    async fn remove_owners(&self, kind: &Resource, node: &ObjectNode, gone: &[&OwnerReference]) -> bool {
        let path = path_of(kind, &node.namespace, &node.name);
        let current = self.agent.send(Method::GET, &path, "", None).await;
        if !current.is_ok() {
            return current.code == 404;
        }
        let current = current.body();
        let references = metadata::owner_references(&current).to_vec();
        let kept: Vec<Value> = references
            .into_iter()
            .filter(|reference| !gone.iter().any(|owner| reference["uid"] == owner.uid.as_str()))
            .collect();
        let kept = if kept.is_empty() { Value::Null } else { Value::Array(kept) };
        let patch = json!({"metadata": {"uid": &*node.uid, "resourceVersion": metadata::resource_version(&current),
            "ownerReferences": kept}});
        let answer = self.agent.patch(&path, MERGE_PATCH, &patch).await;
        answer.is_ok() || answer.code == 404
    }

    /// Makes an object's owner references non-blocking: its owners and one of its dependents wait in a circle. Returns
    /// true if they are.
    async fn unblock_owners(&self, kind: &Resource, node: &ObjectNode) -> bool {
        let path = path_of(kind, &node.namespace, &node.name);
        let current = self.agent.send(Method::GET, &path, "", None).await;
        if !current.is_ok() {
            return current.code == 404;
        }
        let mut references = metadata::owner_references(&current.body()).to_vec();
        if references.iter().all(|reference| reference["blockOwnerDeletion"] != json!(true)) {
            return true;
        }
        for reference in &mut references {
            reference["blockOwnerDeletion"] = json!(false);
        }
        let patch = json!({"metadata": {"uid": &*node.uid, "ownerReferences": references}});
        self.agent.patch(&path, MERGE_PATCH, &patch).await.is_ok()
    }

    async fn drop_finalizer(&self, kind: &Resource, node: &ObjectNode, finalizer: &str) {
        let kept: Vec<&String> = node.finalizers.iter().filter(|known| *known != finalizer).collect();
        let kept = if kept.is_empty() { Value::Null } else { json!(kept) };
        let patch =
            json!({"metadata": {"uid": &*node.uid, "resourceVersion": node.revision.to_string(), "finalizers": kept}});
        self.agent.patch(&path_of(kind, &node.namespace, &node.name), MERGE_PATCH, &patch).await;
    }
}

/// Returns the resource under which an object is served.
fn kind_of<'a>(registry: &'a Registry, node: &ObjectNode) -> Option<&'a Resource> {
    let kinds = registry.kinds().filter(|kind| kind.is_stored());
    kinds.map(AsRef::as_ref).find(|kind| storage_id(kind) == node.resource)
}

/// Returns the owner if an object with its name and uid exists.
fn find_owner(
    server: &ApiServer,
    registry: &Registry,
    node: &ObjectNode,
    owner: &OwnerReference,
) -> Option<Arc<StoredObject>> {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let kind = registry.resource_for_kind(group, version, &owner.kind)?;
    let namespace = if kind.namespaced { node.namespace.as_str() } else { "" };
    let stored = server.get(&storage_id(kind), namespace, &owner.name)?;
    (stored.uid() == owner.uid).then_some(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::controllers::ControllerClient;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    #[tokio::test(start_paused = true)]
    async fn a_circle_of_owners_is_deleted() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        let client = ControllerClient::new(&server, "user");
        let names = ["a", "b", "c"];
        let mut uids = Vec::new();
        for name in names {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            let created = client.create(MAPS, &map).await;
            uids.push(metadata::uid(&created.body()).to_owned());
        }
        for (index, name) in names.iter().enumerate() {
            let owner = (index + 1) % names.len();
            let patch = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap",
                "name": names[owner], "uid": uids[owner], "blockOwnerDeletion": true}]}});
            assert!(client.patch(&format!("{MAPS}/{name}"), MERGE_PATCH, &patch).await.is_ok());
        }
        tokio::spawn(collect_garbage(server.clone(), Duration::from_millis(10)));
        server.clock().sleep(Duration::from_secs(1)).await;
        let foreground = json!({"propagationPolicy": "Foreground"});
        client.delete(&format!("{MAPS}/a"), Some(&foreground)).await;
        server.clock().sleep(Duration::from_secs(5)).await;
        let left = server.list(&crate::store::ResourceId::new("", "configmaps"), Some("default"));
        let left: Vec<&str> = left.iter().map(|stored| stored.name()).filter(|name| names.contains(name)).collect();
        assert_eq!(left, Vec::<&str>::new());
    }
}
