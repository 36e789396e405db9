//! Lets go of deleted volumes: a deleted claim keeps its finalizer while a pod uses it, a deleted volume while it is
//! bound, a deleted class of attributes while a claim or a volume has it. Without this, deleted claims never go away,
//! because admission gives each of them the finalizer. See
//! `pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}` of Kubernetes 1.36.

use std::collections::BTreeSet;

use super::claim_references::uses;
use crate::backoff::Retries;
use crate::controllers::{ControllerClient, WatchMux, WatchSet};
use crate::json::Value;
use crate::metadata;
use crate::registry::core::persistent_volume::VOLUME_FINALIZER;
use crate::registry::core::persistent_volume_claim::CLAIM_FINALIZER;
use crate::registry::storage::volume_attributes_class::ATTRIBUTES_FINALIZER;
use crate::server::ApiServer;
use crate::store::{ResourceId, StoredObject};

/// An object that is looked at: a claim by namespace and name, a volume or a class of attributes by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Protected {
    Claim(String, String),
    Volume(String),
    Attributes(String),
}

/// Removes the finalizers of deleted claims, volumes and classes of attributes that are not used. Never returns.
pub async fn release_volumes(server: ApiServer) {
    let of_claims = ControllerClient::new(&server, "plumbline/pvc-protection-controller");
    let of_volumes = of_claims.named("plumbline/pv-protection-controller");
    let of_attributes = of_claims.named("plumbline/vac-protection-controller");
    let [pods, claims, volumes] =
        ["pods", "persistentvolumeclaims", "persistentvolumes"].map(|resource| ResourceId::new("", resource));
    let attributes = ResourceId::new("storage.k8s.io", "volumeattributesclasses");
    let watched = vec![pods.clone(), claims.clone(), volumes.clone(), attributes.clone()];
    let mut feed = WatchMux::new(&server, WatchSet::Resources(watched));
    // Deleted claims that wait for pods, by namespace and name.
    let mut waiting: BTreeSet<(String, String)> = BTreeSet::new();
    let mut leaving_attributes: BTreeSet<String> = BTreeSet::new();
    let mut retries: Retries<Protected> = Retries::default();
    loop {
        let mut touched: BTreeSet<String> = BTreeSet::new();
        let mut due = BTreeSet::new();
        for (resource, change) in feed.next_until(retries.next()).await {
            change.add_namespaces(&mut touched);
            if resource == claims || resource == volumes {
                due.extend(leaving_attributes.iter().cloned().map(Protected::Attributes));
            }
            let is_gone = change.is_deletion();
            for stored in change.objects() {
                let (namespace, name) = (stored.namespace().to_owned(), stored.name().to_owned());
                if resource == attributes {
                    if stored.is_terminating() && !is_gone {
                        leaving_attributes.insert(name.clone());
                    } else {
                        leaving_attributes.remove(&name);
                    }
                    due.insert(Protected::Attributes(name));
                } else if resource == volumes {
                    due.insert(Protected::Volume(name));
                } else if resource == claims && stored.is_terminating() {
                    waiting.insert((namespace, name));
                }
            }
        }
        due.extend(retries.due(server.clock().now()));
        let claims_here = waiting.iter().filter(|(namespace, _)| touched.contains(namespace));
        due.extend(claims_here.map(|(namespace, name)| Protected::Claim(namespace.clone(), name.clone())));
        for key in due {
            match &key {
                Protected::Volume(name) => release_volume(&of_volumes, &volumes, name).await,
                Protected::Attributes(name) => protect_attributes(&of_attributes, &attributes, name).await,
                Protected::Claim(namespace, name) => {
                    let claim = (namespace.clone(), name.clone());
                    if release_claim(&of_claims, [&pods, &claims], &claim).await {
                        waiting.remove(&claim);
                    }
                }
            }
            retries.settle(&key, of_claims.take_refusal(), server.clock().now());
        }
    }
}

/// Gives a class of attributes its finalizer, and takes it from a deleted one that no claim and no volume has:
/// `processVAC`.
async fn protect_attributes(agent: &ControllerClient, attributes: &ResourceId, name: &str) {
    let server = agent.server();
    let Some(stored) = server.get(attributes, "", name) else { return };
    let mut class = stored.value();
    let has_finalizer = metadata::finalizers(&class).any(|one| one == ATTRIBUTES_FINALIZER);
    let path = format!("/apis/storage.k8s.io/v1/volumeattributesclasses/{name}");
    if stored.is_terminating() {
        let users = ["persistentvolumes", "persistentvolumeclaims"].map(|plural| ResourceId::new("", plural));
        let is_used = || {
            let mut all = users.iter().flat_map(|resource| server.list(resource, None));
            all.any(|user| has_attributes(&user.value(), name))
        };
        if has_finalizer && !is_used() {
            agent.replace(&path, &without(class, ATTRIBUTES_FINALIZER)).await;
        }
    } else if !has_finalizer {
        let mut finalizers: Vec<Value> = metadata::finalizers(&class).map(Value::from).collect();
        finalizers.push(ATTRIBUTES_FINALIZER.into());
        metadata::set(&mut class, "finalizers", Value::Array(finalizers));
        agent.replace(&path, &class).await;
    }
}

/// Returns true if a claim or volume refers to a class of attributes: `getPVCReferencedVACNames`.
fn has_attributes(user: &Value, name: &str) -> bool {
    let references = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    references.iter().any(|pointer| user.pointer(pointer).and_then(Value::as_str) == Some(name))
}

/// Removes the finalizer of a deleted claim that no pod uses. Returns true if the claim need not be looked at again.
async fn release_claim(
    agent: &ControllerClient,
    [pods, claims]: [&ResourceId; 2],
    (namespace, name): &(String, String),
) -> bool {
    let server = agent.server();
    let Some(claim) = server.get(claims, namespace, name).filter(|stored| is_held(stored, CLAIM_FINALIZER)) else {
        return true;
    };
    let claim = claim.value();
    if server.list(pods, Some(namespace)).iter().any(|pod| uses(&pod.value(), &claim)) {
        return false;
    }
    let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
    agent.replace(&path, &without(claim, CLAIM_FINALIZER)).await;
    false
}

/// Removes the finalizer of a deleted volume that is not bound.
async fn release_volume(agent: &ControllerClient, volumes: &ResourceId, name: &str) {
    let Some(volume) = agent.server().get(volumes, "", name).filter(|stored| is_held(stored, VOLUME_FINALIZER)) else {
        return;
    };
    let volume = volume.value();
    if volume["status"]["phase"] != "Bound" {
        agent.replace(&format!("/api/v1/persistentvolumes/{name}"), &without(volume, VOLUME_FINALIZER)).await;
    }
}

/// Returns true if the object is deleted and has the finalizer.
fn is_held(stored: &StoredObject, finalizer: &str) -> bool {
    let has_finalizer = || metadata::finalizers(&stored.value()).any(|one| one == finalizer);
    stored.is_terminating() && stored.has_finalizers() && has_finalizer()
}

fn without(mut object: Value, finalizer: &str) -> Value {
    let finalizers = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut);
    if let Some(finalizers) = finalizers {
        finalizers.retain(|one| one != finalizer);
    }
    object
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::controllers::MERGE_PATCH;
    use crate::json::json;

    const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

    async fn world(test: impl AsyncFnOnce(&ApiServer, &ControllerClient)) {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        tokio::spawn(release_volumes(server.clone()));
        test(&server, &ControllerClient::new(&server, "user")).await;
        let before = server.transcript().len();
        server.clock().sleep(Duration::from_hours(1)).await;
        assert_eq!(server.transcript().len(), before, "nothing is written without a change");
    }

    fn claim(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    }

    #[test]
    fn a_claim_goes_once_no_scheduled_pod_uses_it() {
        run_virtual(world(async |server, client| {
            let claims = ResourceId::new("", "persistentvolumeclaims");
            let pods = "/api/v1/namespaces/default/pods";
            let pod = |name: &str, node: &str, claim: &str| {
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node,
                    "containers": [{"name": "c", "image": "i"}],
                    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})
            };
            for name in ["used", "planned", "free"] {
                assert!(client.create(CLAIMS, &claim(name)).await.is_ok());
            }
            assert!(client.create(pods, &pod("runs", "n", "used")).await.is_ok());
            assert!(client.create(pods, &pod("pending", "", "planned")).await.is_ok());
            for name in ["used", "planned", "free"] {
                assert!(client.delete(&format!("{CLAIMS}/{name}"), None).await.is_ok());
            }
            settle().await;
            let left =
                |server: &ApiServer| server.list(&claims, None).iter().map(|one| one.name().to_owned()).collect();
            let names: Vec<String> = left(server);
            assert_eq!(names, ["used"]);
            assert!(client.delete(&format!("{pods}/runs?gracePeriodSeconds=0"), None).await.is_ok());
            settle().await;
            let names: Vec<String> = left(server);
            assert!(names.is_empty(), "{names:?}");
        }))
        .expect("a runtime");
    }

    #[test]
    fn a_volume_goes_unless_it_is_bound() {
        run_virtual(world(async |server, client| {
            let volume = |name: &str| {
                json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
                    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/v"}}})
            };
            for name in ["bound", "free"] {
                assert!(client.create("/api/v1/persistentvolumes", &volume(name)).await.is_ok());
            }
            let path = "/api/v1/persistentvolumes/bound";
            let status = |phase: &str| json!({"status": {"phase": phase}});
            assert!(client.patch(&format!("{path}/status"), MERGE_PATCH, &status("Bound")).await.is_ok());
            for name in ["bound", "free"] {
                assert!(client.delete(&format!("/api/v1/persistentvolumes/{name}"), None).await.is_ok());
            }
            settle().await;
            let volumes = ResourceId::new("", "persistentvolumes");
            let names: Vec<String> = server.list(&volumes, None).iter().map(|one| one.name().to_owned()).collect();
            assert_eq!(names, ["bound"]);
            assert!(client.patch(&format!("{path}/status"), MERGE_PATCH, &status("Released")).await.is_ok());
            settle().await;
            assert!(server.list(&volumes, None).is_empty());
        }))
        .expect("a runtime");
    }

    /// As in `pkg/controller/volume/vacprotection/vac_protection_controller_test.go`.
    #[test]
    fn a_class_of_attributes_goes_once_nothing_has_it() {
        run_virtual(world(async |server, client| {
            const CLASSES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";
            let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
                "metadata": {"name": "fast"}, "driverName": "a.b", "parameters": {"iops": "1"}});
            assert!(client.create(CLASSES, &class).await.is_ok());
            settle().await;
            let resource = ResourceId::new("storage.k8s.io", "volumeattributesclasses");
            let stored = server.get(&resource, "", "fast").expect("a class").value();
            assert_eq!(metadata::finalizers(&stored).collect::<Vec<_>>(), [ATTRIBUTES_FINALIZER]);
            let mut user = claim("user");
            user["spec"]["volumeAttributesClassName"] = json!("fast");
            assert!(client.create(CLAIMS, &user).await.is_ok());
            assert!(client.delete(&format!("{CLASSES}/fast"), None).await.is_ok());
            settle().await;
            assert!(server.get(&resource, "", "fast").is_some(), "the claim has it");
            assert!(client.delete(&format!("{CLAIMS}/user"), None).await.is_ok());
            settle().await;
            assert!(server.get(&resource, "", "fast").is_none());
        }))
        .expect("a runtime");
    }
}
