//! The namespace controller: deletes the objects of terminating namespaces, then removes the namespace's finalizer.
//! See `pkg/controller/namespace/deletion/namespaced_resources_deleter.go`.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::controllers::{ControllerClient, WatchChange, WatchMux, WatchSet, path_of};
use crate::json::{Value, json};
use crate::metadata::is_deleted;
use crate::registry::Resource;
use crate::server::{ApiServer, storage_id};
use crate::store::{EventType, ResourceId, StoredObject};

const FINALIZER: &str = "kubernetes";

/// Empties and finalizes terminating namespaces, waiting for `pause` before a round of writes. Never returns.
pub async fn terminate_namespaces(server: ApiServer, pause: Duration) {
    let agent = ControllerClient::new(&server, "plumbline/namespace-controller");
    let namespaces = ResourceId::new("", "namespaces");
    let mut feed = WatchMux::new(&server, WatchSet::All);
    let mut ending: BTreeSet<String> = BTreeSet::new();
    loop {
        let mut look_at: BTreeSet<String> = BTreeSet::new();
        for (resource, change) in feed.next().await {
            let objects = match change {
                WatchChange::Replace(objects) => objects,
                WatchChange::Event(event) => {
                    let gone = event.event_type == EventType::Deleted;
                    if resource == namespaces && gone {
                        ending.remove(event.current.name());
                    } else if gone && ending.contains(event.current.namespace()) {
                        look_at.insert(event.current.namespace().to_owned());
                    }
                    if gone { Vec::new() } else { vec![event.current.clone()] }
                }
            };
            for object in objects {
                if resource == namespaces && is_ending(&object) {
                    ending.insert(object.name().to_owned());
                    look_at.insert(object.name().to_owned());
                } else if ending.contains(object.namespace()) {
                    look_at.insert(object.namespace().to_owned());
                }
            }
        }
        if !look_at.is_empty() {
            agent.server().clock().sleep(pause).await;
        }
        for namespace in look_at {
            terminate(&agent, &namespace).await;
        }
    }
}

fn is_ending(namespace: &StoredObject) -> bool {
    let object = namespace.value();
    let finalizers = object["spec"]["finalizers"].as_array();
    is_deleted(&object) && finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == FINALIZER))
}

/// Deletes the remaining objects of a namespace; finalizes the namespace if there are none.
async fn terminate(agent: &ControllerClient, name: &str) {
    let server = agent.server();
    let registry = server.registry();
    let mut seen: BTreeSet<ResourceId> = BTreeSet::new();
    let mut empty = true;
    for kind in registry.kinds().filter(|kind| kind.namespaced && kind.is_stored()) {
        let resource = storage_id(kind);
        if seen.insert(resource.clone()) {
            empty &= delete_all(agent, kind, &resource, name).await;
        }
    }
    if empty {
        finalize(agent, name).await;
    }
}

/// Deletes the objects of a resource. Returns true if none is left.
async fn delete_all(agent: &ControllerClient, kind: &Resource, resource: &ResourceId, namespace: &str) -> bool {
    let left = agent.server().list(resource, Some(namespace));
    let waiting = left.iter().any(|stored| !is_deleted(&stored.value()));
    if waiting {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        agent.delete(&path_of(kind, namespace, ""), Some(&options)).await;
    }
    agent.server().list(resource, Some(namespace)).is_empty()
}

/// Removes the namespace's finalizer.
async fn finalize(agent: &ControllerClient, name: &str) {
    let Some(stored) = agent.server().get(&ResourceId::new("", "namespaces"), "", name) else { return };
    let mut namespace = stored.value();
    if !is_deleted(&namespace) {
        return;
    }
    if let Some(finalizers) = namespace.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    agent.replace(&format!("/api/v1/namespaces/{name}/finalize"), &namespace).await;
}
