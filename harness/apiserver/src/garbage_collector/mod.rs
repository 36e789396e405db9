//! The garbage collector and the namespace controller, both optional.
//!
//! They follow `pkg/controller/garbagecollector/garbagecollector.go` and
//! `pkg/controller/namespace/deletion/namespaced_resources_deleter.go`, so that deletions with a `propagationPolicy`
//! and deletions of namespaces complete. A server runs them only if asked to.

mod graph;
mod namespace_conditions;
mod namespaces;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use http::Method;

use super::backoff::Retries;
use super::controllers::{ControllerClient, MERGE_PATCH, WatchChange, WatchMux, WatchSet, path_of};
use super::event_sink::Event;
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
        undecided: false,
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
    /// The objects for which a write was refused, or whose owners are of kinds that are not served.
    retries: Retries<Arc<str>>,
    /// An owner of the present object is of a kind that is not served.
    undecided: bool,
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
            self.undecided = false;
            if let Some(node) = self.graph.get(&uid) {
                self.process_item(&node).await;
            }
            let again = self.agent.take_refusal() || self.undecided;
            self.retries.settle(&uid, again, self.agent.server().clock().now());
        }
    }

    /// Makes the writes that an object needs now.
    async fn process_item(&mut self, node: &ObjectNode) {
        let registry = self.agent.server().registry();
        // An object that is being deleted waits for its dependents or finalizers and not for its owners.
        let owners = if node.deleted { Some(Owners::default()) } else { self.classify(&registry, node) };
        let Some(owners) = owners else { return self.graph.settle(&node.uid, false) };
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

    /// Sorts the owners of an object by state; `None` if one of them cannot be judged.
    fn classify(&mut self, registry: &Registry, node: &ObjectNode) -> Option<Owners> {
        let mut owners = Owners::default();
        for owner in &node.owners {
            let found = if self.graph.is_absent(owner) {
                OwnerLookup::Absent
            } else {
                find_owner(self.agent.server(), registry, node, owner)
            };
            match found {
                OwnerLookup::Absent => owners.dangling.push(owner.clone()),
                OwnerLookup::Elsewhere => {
                    self.report(registry, node, owner);
                    owners.dangling.push(owner.clone());
                }
                OwnerLookup::Unknown => {
                    self.undecided = true;
                    return None;
                }
                OwnerLookup::Invalid => {
                    self.report(registry, node, owner);
                    return None;
                }
                OwnerLookup::Found(stored) => {
                    let waits = stored.is_terminating()
                        && stored.has_finalizers()
                        && metadata::finalizers(&stored.value()).any(|finalizer| finalizer == FOREGROUND);
                    if waits { owners.waiting.push(owner.clone()) } else { owners.solid.push(owner.clone()) }
                }
            }
        }
        Some(owners)
    }

    /// Records that an owner is not where the object is: `reportInvalidNamespaceOwnerRef`.
    fn report(&self, registry: &Registry, node: &ObjectNode, owner: &OwnerReference) {
        let Some(kind) = kind_of(registry, node) else { return };
        let about = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "namespace": node.namespace,
            "name": node.name, "uid": &*node.uid});
        let OwnerReference { api_version, kind, name, uid, .. } = owner;
        let namespace = &node.namespace;
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace {namespace:?}"
        );
        let event = Event::warning(about, "garbage-collector-controller", "OwnerRefInvalidNamespace", message);
        self.agent.server().events().record(event);
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

/// The result of the search for an owner.
enum OwnerLookup {
    /// An object with its name and uid exists.
    Found(Arc<StoredObject>),
    /// There is none.
    Absent,
    /// There is one, but in another namespace.
    Elsewhere,
    /// Its kind is not served.
    Unknown,
    /// It is in a namespace, and the object in none.
    Invalid,
}

/// Looks for an owner: `isDangling`.
fn find_owner(server: &ApiServer, registry: &Registry, node: &ObjectNode, owner: &OwnerReference) -> OwnerLookup {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let Some(kind) = registry.resource_for_kind(group, version, &owner.kind) else { return OwnerLookup::Unknown };
    if kind.namespaced && node.namespace.is_empty() {
        return OwnerLookup::Invalid;
    }
    let namespace = if kind.namespaced { node.namespace.as_str() } else { "" };
    let resource = storage_id(kind);
    match server.get(&resource, namespace, &owner.name).filter(|stored| stored.uid() == owner.uid) {
        Some(stored) => OwnerLookup::Found(stored),
        // Rare, because the deletion of nearly all owners was seen.
        None if kind.namespaced && server.list(&resource, None).iter().any(|stored| stored.uid() == owner.uid) => {
            OwnerLookup::Elsewhere
        }
        None => OwnerLookup::Absent,
    }
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

    /// Runs the collector over these objects; returns the names of those of a resource that are left.
    async fn left(objects: Vec<Value>, group: &str, resource: &str) -> (ApiServer, Vec<String>) {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        server.seed(objects).expect("seeded");
        tokio::spawn(crate::events::publish_events(server.clone()));
        crate::clock::settle().await;
        tokio::spawn(collect_garbage(server.clone(), Duration::from_millis(10)));
        server.clock().sleep(Duration::from_mins(5)).await;
        let left = server.list(&crate::store::ResourceId::new(group, resource), None);
        (server, left.iter().map(|stored| stored.name().to_owned()).collect())
    }

    fn owned(kind: &str, api_version: &str, name: &str, owner: &Value) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": name, "namespace": "other",
            "ownerReferences": [owner]}})
    }

    /// `namespacedOwnerOfClusterScopedObjectErr` of upstream's `isDangling`.
    #[tokio::test(start_paused = true)]
    async fn what_is_in_no_namespace_with_an_owner_in_one_is_never_collected() {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u"});
        let mut class = owned("PriorityClass", "scheduling.k8s.io/v1", "kept", &owner);
        class["metadata"].as_object_mut().expect("metadata").remove("namespace");
        class["value"] = json!(1);
        let (server, left) = left(vec![class], "scheduling.k8s.io", "priorityclasses").await;
        assert!(left.contains(&"kept".to_owned()), "{left:?}");
        let events = server.list(&crate::store::ResourceId::new("", "events"), Some("default"));
        let event =
            events.iter().map(|event| event.value()).find(|event| event["reason"] == "OwnerRefInvalidNamespace");
        let message = event.expect("an event")["message"].clone();
        let expected = "ownerRef [v1/ConfigMap, namespace: , name: gone, uid: u] does not exist in namespace \"\"";
        assert_eq!(message, expected);
    }

    /// `restMappingError` of upstream's `isDangling`: the kind may be served later.
    #[tokio::test(start_paused = true)]
    async fn what_has_an_owner_of_an_unknown_kind_is_kept() {
        let owner = json!({"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u"});
        let (_, left) = left(vec![owned("ConfigMap", "v1", "kept", &owner)], "", "configmaps").await;
        assert_eq!(left, ["kept"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_an_owner_in_another_namespace_is_collected_with_an_event() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o", "uid": "u"}});
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"});
        let (server, left) = left(vec![map, owned("ConfigMap", "v1", "gone", &owner)], "", "configmaps").await;
        assert_eq!(left, ["o"]);
        let events = server.list(&crate::store::ResourceId::new("", "events"), Some("other"));
        assert!(events.iter().any(|event| event.value()["reason"] == "OwnerRefInvalidNamespace"));
    }
}
