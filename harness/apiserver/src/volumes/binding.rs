//! Binds claims to volumes, and makes volumes for claims of the class of kind's provisioner.
//!
//! See `pkg/controller/volume/persistentvolume/pv_controller.go` and, for claims that wait for their pod,
//! `pkg/scheduler/framework/plugins/volumebinding/binder.go` of Kubernetes 1.36. Such a claim gets a volume once the
//! scheduler has chosen a node for it, or once a pod that names its node itself uses it.

use std::collections::{BTreeMap, BTreeSet};

use super::matching::{self, is_reserved_for};
use super::{BIND_COMPLETED, BOUND_BY_CONTROLLER, NO_PROVISIONER, SELECTED_NODE, names, node_resize, reference, uses};
use crate::backoff::Retries;
use crate::controllers::{ControllerClient, MERGE_PATCH, STRATEGIC_PATCH, WatchMux, WatchSet};
use crate::event_sink::Event;
use crate::json::{Value, json};
use crate::metadata;
use crate::quantity::Quantity;
use crate::registry::ObjectLister as _;
use crate::registry::default_class;
use crate::server::ApiServer;
use crate::store::ResourceId;

/// The annotation of a volume that a provisioner made.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The annotation of a volume with the size that its claim had before it grew (`AnnPreResizeCapacity`).
const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// The provisioner of kind's class `standard`.
const LOCAL_PATH: &str = "rancher.io/local-path";

/// Namespace and name of a claim.
type ClaimKey = (String, String);

/// Binds claims to volumes that suit them, makes new volumes available, releases volumes whose claim is gone and
/// deletes those of the policy `Delete`. Claims of a class of the provisioner `rancher.io/local-path` get a volume of
/// their own once a pod that uses them has a node. Never returns.
pub async fn bind_volumes(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/persistent-volume-binder");
    server.note_volume_binding();
    let provisioner = agent.named("plumbline/local-path-provisioner");
    let mut binder = Binder { provisioner, agent, growing: BTreeMap::new() };
    let [pods, claims, volumes] =
        ["pods", "persistentvolumeclaims", "persistentvolumes"].map(|resource| ResourceId::new("", resource));
    let classes = ResourceId::new("storage.k8s.io", "storageclasses");
    let watched = vec![pods.clone(), claims.clone(), volumes.clone(), classes.clone()];
    let mut feed = WatchMux::new(&server, WatchSet::Resources(watched));
    let mut unbound: BTreeSet<ClaimKey> = BTreeSet::new();
    // Claims, and volumes with an empty namespace.
    let mut retries: Retries<ClaimKey> = Retries::default();
    loop {
        let mut due: BTreeSet<ClaimKey> = BTreeSet::new();
        let mut touched: BTreeSet<String> = BTreeSet::new();
        let mut of_pods: BTreeSet<String> = BTreeSet::new();
        for (resource, change) in feed.next_until(retries.next()).await {
            if resource == pods {
                change.add_namespaces(&mut of_pods);
                continue;
            }
            for stored in change.objects() {
                if resource == claims {
                    due.insert((stored.namespace().to_owned(), stored.name().to_owned()));
                    touched.extend(stored.value()["spec"]["volumeName"].as_str().map(str::to_owned));
                } else if resource == volumes {
                    touched.insert(stored.name().to_owned());
                    let reference = &stored.value()["spec"]["claimRef"];
                    let part = |field: &str| reference[field].as_str().map(str::to_owned);
                    due.extend(part("namespace").zip(part("name")));
                }
            }
            if resource != claims {
                due.extend(unbound.iter().cloned());
            }
        }
        due.extend(unbound.iter().filter(|(namespace, _)| of_pods.contains(namespace)).cloned());
        for (namespace, name) in retries.due(server.clock().now()) {
            if namespace.is_empty() {
                touched.insert(name)
            } else {
                due.insert((namespace, name))
            };
        }
        for volume in touched.into_iter().filter(|name| !name.is_empty()) {
            binder.sync_volume(&volume).await;
            let key = (String::new(), volume);
            retries.settle(&key, binder.agent.take_refusal(), server.clock().now());
        }
        for key in due {
            let is_bound = binder.sync_claim(&key).await;
            retries.settle(&key, binder.agent.take_refusal(), server.clock().now());
            if is_bound {
                unbound.remove(&key);
            } else {
                unbound.insert(key);
            }
        }
    }
}

/// The API access of the controller and of the provisioner.
struct Binder {
    agent: ControllerClient,
    provisioner: ControllerClient,
    /// The claims that want more than they have, and how much.
    growing: BTreeMap<ClaimKey, String>,
}

impl Binder {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let server = self.agent.server();
        server.get(&ResourceId::new(group, resource), namespace, name).map(|stored| server.decoded(&stored))
    }

    fn volume(&self, name: &str) -> Option<Value> {
        self.get("", "persistentvolumes", "", name)
    }

    fn claim(&self, namespace: &str, name: &str) -> Option<Value> {
        self.get("", "persistentvolumeclaims", namespace, name)
    }

    /// Syncs a claim. Returns false if it waits for a volume.
    async fn sync_claim(&mut self, key: &ClaimKey) -> bool {
        let (namespace, name) = key;
        let Some(claim) = self.claim(namespace, name) else {
            self.growing.remove(key);
            return true;
        };
        self.report_growth(key, &claim);
        let wanted = claim["spec"]["volumeName"].as_str().unwrap_or_default();
        if metadata::annotation(&claim, BIND_COMPLETED).is_some() {
            let volume = self.volume(wanted);
            let is_its_own = |volume: &Value| volume["spec"]["claimRef"].is_null() || is_reserved_for(volume, &claim);
            match volume.filter(is_its_own) {
                Some(volume) => {
                    self.bind(&volume, &claim).await;
                    return self.finish_growth(&claim, &volume).await;
                }
                None => self.set_phase(&claim, "Lost", &json!({"accessModes": null, "capacity": null})).await,
            }
            return true;
        }
        if !wanted.is_empty() {
            let Some(volume) = self.volume(wanted) else { return false };
            let is_free = volume["spec"]["claimRef"].is_null() && matching::mismatch(&claim, &volume).is_none();
            if !is_free && !is_reserved_for(&volume, &claim) {
                return false;
            }
            self.bind(&volume, &claim).await;
            return true;
        }
        self.find_volume(&claim).await
    }

    /// Records that a bound claim that has grown waits for a resizer, which clusters have for their own volumes:
    /// `syncHandler` in `pkg/controller/volume/expand/expand_controller.go`.
    fn report_growth(&mut self, key: &ClaimKey, claim: &Value) {
        let size = |pointer: &str| claim.pointer(pointer).and_then(Quantity::of);
        let wanted = size("/spec/resources/requests/storage").filter(|_| claim["status"]["phase"] == "Bound");
        let Some(wanted) = wanted.filter(|wanted| size("/status/capacity/storage").is_some_and(|has| *wanted > has))
        else {
            self.growing.remove(key);
            return;
        };
        if self.growing.insert(key.clone(), wanted.to_string()) != Some(wanted.to_string()) {
            let message = "waiting for an external controller to expand this PVC".to_owned();
            let event = Event::new(reference(claim), "volume_expand", "ExternalExpanding", message);
            self.agent.server().events().record(event);
        }
    }

    /// Does what a kubelet does for a volume that a resizer has made larger. Returns false if the claim waits for a pod
    /// with a node.
    async fn finish_growth(&self, claim: &Value, volume: &Value) -> bool {
        if !node_resize::is_pending(claim) {
            return true;
        }
        let server = self.agent.server();
        let pods = server.list(&ResourceId::new("", "pods"), Some(metadata::namespace(claim)));
        let mut users = pods.iter().map(|stored| server.decoded(stored));
        let Some(pod) = users.find(|pod| uses(pod, claim) && !has_ended(pod)) else { return false };
        let status = node_resize::finished_status(claim, volume);
        let patch = json!({"metadata": {"uid": metadata::uid(claim)}, "status": status});
        if self.agent.patch(&format!("{}/status", claim_path(claim)), STRATEGIC_PATCH, &patch).await.is_ok() {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            let name = metadata::name(volume);
            let message = format!("MountVolume.NodeExpandVolume succeeded for volume {name:?} {node}");
            for about in [metadata::reference("v1", "Pod", &pod), reference(claim)] {
                let event = Event::new(about, "kubelet", "FileSystemResizeSuccessful", message.clone());
                server.events().record(Event { host: node.to_owned(), ..event });
            }
        }
        true
    }

    /// Binds a claim that names no volume, if there is one for it or one can be made.
    async fn find_volume(&self, claim: &Value) -> bool {
        let class_name = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
        let class = self.get("storage.k8s.io", "storageclasses", "", class_name);
        let waits = class.as_ref().is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer");
        let node = if waits { self.consumer(claim) } else { None };
        let server = self.agent.server();
        let all = server.list(&ResourceId::new("", "persistentvolumes"), None);
        let all: Vec<Value> = all.iter().map(|stored| server.decoded(stored)).collect();
        if let Some(volume) = matching::best(claim, &all, node.as_ref(), waits && node.is_none()) {
            self.bind(volume, claim).await;
            return true;
        }
        let default = || claim["spec"]["storageClassName"].is_null().then(|| self.default_class()).flatten();
        if let Some(class) = default() {
            let patch = json!({"metadata": {"uid": metadata::uid(claim)}, "spec": {"storageClassName": class}});
            self.agent.patch(&claim_path(claim), MERGE_PATCH, &patch).await;
        } else if waits && node.is_none() {
            self.report_wait(claim);
        } else if let Some(class) = class {
            let provisioner = class["provisioner"].as_str().unwrap_or_default();
            if provisioner != NO_PROVISIONER {
                let message = format!(
                    "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually \
                     by the system administrator. If volume creation is delayed, please verify that the provisioner is \
                     running and correctly registered."
                );
                self.record(claim, "ExternalProvisioning", message);
            }
            if provisioner == LOCAL_PATH {
                // The event of the volume binds the claim.
                self.provision(claim, &class, node.as_ref()).await;
            }
        } else if class_name.is_empty() {
            let message = "no persistent volumes available for this claim and no storage class is set";
            self.record(claim, "FailedBinding", message.to_owned());
        } else {
            let message = format!("storageclass.storage.k8s.io {class_name:?} not found");
            let event = Event { warning: true, ..event(claim, "ProvisioningFailed", message) };
            self.agent.server().events().record(event);
        }
        false
    }

    /// Returns the name of the newest default class, which claims without a class get: `assignDefaultStorageClass`.
    fn default_class(&self) -> Option<String> {
        let classes = self.agent.server().list_holding("storage.k8s.io", "storageclasses", "", default_class::HELD);
        default_class::newest(&classes, default_class::STORAGE_CLASS).map(str::to_owned)
    }

    /// Records that a claim waits for a pod, or for its node: `emitEventForUnboundDelayBindingClaim`.
    fn report_wait(&self, claim: &Value) {
        let server = self.agent.server();
        let pods = server.list(&ResourceId::new("", "pods"), Some(metadata::namespace(claim)));
        let users = pods.iter().map(|stored| server.decoded(stored)).filter(|pod| names(pod, claim) && !has_ended(pod));
        let users: Vec<String> = users.map(|pod| metadata::name(&pod).to_owned()).collect();
        let (reason, message) = match users.as_slice() {
            [] => ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned()),
            [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
            pods => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
        };
        self.record(claim, reason, message);
    }

    fn record(&self, claim: &Value, reason: &str, message: String) {
        self.agent.server().events().record(event(claim, reason, message));
    }

    /// Returns the node that the scheduler chose for the claim, or that of a pod that uses it.
    fn consumer(&self, claim: &Value) -> Option<Value> {
        let server = self.agent.server();
        if let Some(node) = metadata::annotation(claim, SELECTED_NODE) {
            return self.get("", "nodes", "", node);
        }
        let pods = server.list(&ResourceId::new("", "pods"), Some(metadata::namespace(claim)));
        let users = pods.iter().map(|stored| server.decoded(stored)).filter(|pod| uses(pod, claim));
        let mut nodes = users.filter_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned));
        nodes.find_map(|node| self.get("", "nodes", "", &node))
    }

    /// Makes a volume for a claim, on the node of its pod.
    async fn provision(&self, claim: &Value, class: &Value, node: Option<&Value>) {
        let namespace = metadata::namespace(claim);
        let name = metadata::name(claim);
        let volume_name = format!("pvc-{}", metadata::uid(claim));
        let path = format!("/var/local-path-provisioner/{volume_name}_{namespace}_{name}");
        let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": volume_name, "annotations": {PROVISIONED_BY: LOCAL_PATH}},
            "spec": {"accessModes": claim["spec"]["accessModes"], "volumeMode": claim["spec"]["volumeMode"],
                "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                "storageClassName": metadata::name(class), "persistentVolumeReclaimPolicy": class["reclaimPolicy"],
                "claimRef": reference(claim), "hostPath": {"path": path, "type": "DirectoryOrCreate"}}});
        if let Some(host) = node.and_then(|node| metadata::label(node, "kubernetes.io/hostname")) {
            let term = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [host]});
            volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}});
        }
        self.provisioner.create("/api/v1/persistentvolumes", &volume).await;
    }

    /// Completes the four steps of a binding that are not done yet.
    async fn bind(&self, volume: &Value, claim: &Value) {
        let name = metadata::name(volume);
        let path = volume_path(name);
        if volume["spec"]["claimRef"]["uid"] != metadata::uid(claim) {
            let mut patch = json!({"metadata": {"resourceVersion": metadata::resource_version(volume)},
                "spec": {"claimRef": reference(claim)}});
            if volume["spec"]["claimRef"].is_null() {
                metadata::set_annotation(&mut patch, BOUND_BY_CONTROLLER, "yes");
            }
            if !self.agent.patch(&path, MERGE_PATCH, &patch).await.is_ok() {
                // Another change of the volume comes, and the claim is looked at again.
                return;
            }
        }
        self.set_volume_phase(volume, "Bound").await;
        let is_named = claim["spec"]["volumeName"] == name;
        if !is_named || metadata::annotation(claim, BIND_COMPLETED).is_none() {
            let mut patch = json!({"metadata": {"uid": metadata::uid(claim)}, "spec": {"volumeName": name}});
            metadata::set_annotation(&mut patch, BIND_COMPLETED, "yes");
            if !is_named {
                metadata::set_annotation(&mut patch, BOUND_BY_CONTROLLER, "yes");
            }
            if !self.agent.patch(&claim_path(claim), MERGE_PATCH, &patch).await.is_ok() {
                return;
            }
        }
        let mut status = json!({"accessModes": volume["spec"]["accessModes"]});
        // Later, resizers and kubelets write the size and the class: `updateClaimStatus`.
        let phase = &claim["status"]["phase"];
        if phase != "Bound" {
            let before = metadata::annotation(volume, PRE_RESIZE_CAPACITY).map(|size| json!({"storage": size}));
            status["capacity"] = before.unwrap_or_else(|| volume["spec"]["capacity"].clone());
        }
        let attributes = &volume["spec"]["volumeAttributesClassName"];
        if !attributes.is_null() && phase == "Pending" {
            status["currentVolumeAttributesClassName"] = attributes.clone();
        }
        self.set_phase(claim, "Bound", &status).await;
    }

    /// Sets the phase and further fields of a claim's status, if they differ.
    async fn set_phase(&self, claim: &Value, phase: &str, more: &Value) {
        let known = &claim["status"];
        let mut fields = more.as_object().into_iter().flatten();
        if known["phase"] == phase && fields.all(|(field, value)| known[field.as_str()] == *value) {
            return;
        }
        let mut status = more.clone();
        status["phase"] = phase.into();
        let patch = json!({"metadata": {"uid": metadata::uid(claim)}, "status": status});
        self.agent.patch(&format!("{}/status", claim_path(claim)), MERGE_PATCH, &patch).await;
    }

    async fn set_volume_phase(&self, volume: &Value, phase: &str) {
        if volume["status"]["phase"] != phase {
            let patch = json!({"metadata": {"uid": metadata::uid(volume)}, "status": {"phase": phase}});
            let path = format!("{}/status", volume_path(metadata::name(volume)));
            self.agent.patch(&path, MERGE_PATCH, &patch).await;
        }
    }

    /// Sets the phase of a volume that is free or whose claim is gone; deletes the latter if its policy is `Delete`.
    async fn sync_volume(&self, name: &str) {
        let Some(volume) = self.volume(name) else { return };
        let reference = &volume["spec"]["claimRef"];
        let uid = reference["uid"].as_str().unwrap_or_default();
        if uid.is_empty() {
            return self.set_volume_phase(&volume, "Available").await;
        }
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let claim = self.claim(text("namespace"), text("name")).filter(|claim| metadata::uid(claim) == uid);
        let Some(claim) = claim else {
            if volume["status"]["phase"] != "Failed" {
                self.set_volume_phase(&volume, "Released").await;
            }
            if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete" && !metadata::is_deleted(&volume) {
                let options = json!({"preconditions": {"uid": metadata::uid(&volume)}});
                self.provisioner.delete(&volume_path(name), Some(&options)).await;
            }
            return;
        };
        let bound_to = claim["spec"]["volumeName"].as_str().unwrap_or_default();
        if !bound_to.is_empty() && bound_to != name && metadata::annotation(&volume, BOUND_BY_CONTROLLER).is_some() {
            // The claim has taken another volume.
            let patch = json!({"metadata": {"resourceVersion": metadata::resource_version(&volume),
                "annotations": {BOUND_BY_CONTROLLER: null}}, "spec": {"claimRef": null}});
            self.agent.patch(&volume_path(name), MERGE_PATCH, &patch).await;
        }
    }
}

/// Returns true if a pod has ended.
fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns an event about a claim.
fn event(claim: &Value, reason: &str, message: String) -> Event {
    Event::new(reference(claim), "persistentvolume-controller", reason, message)
}

fn volume_path(name: &str) -> String {
    format!("/api/v1/persistentvolumes/{name}")
}

fn claim_path(claim: &Value) -> String {
    let namespace = metadata::namespace(claim);
    let name = metadata::name(claim);
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::volumes::release_volumes;

    const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
    const VOLUMES: &str = "/api/v1/persistentvolumes";

    /// Runs a test with both controllers; they write nothing once nothing changes.
    async fn world(test: impl AsyncFnOnce(&ApiServer, &ControllerClient)) {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        tokio::spawn(bind_volumes(server.clone()));
        tokio::spawn(release_volumes(server.clone()));
        test(&server, &ControllerClient::new(&server, "user")).await;
        let before = server.transcript().len();
        server.clock().sleep(Duration::from_hours(1)).await;
        assert_eq!(server.transcript().len(), before, "nothing is written without a change");
    }

    fn claim(name: &str, class: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    }

    fn volume(name: &str, policy: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
            "persistentVolumeReclaimPolicy": policy, "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/v"}}})
    }

    async fn made(client: &ControllerClient, path: &str, object: &Value) {
        let reply = client.create(path, object).await;
        assert!(reply.is_ok(), "{}", reply.body());
    }

    fn get(server: &ApiServer, resource: &str, name: &str) -> Option<Value> {
        let namespace = if resource == "persistentvolumes" { "" } else { "default" };
        server.get(&ResourceId::new("", resource), namespace, name).map(|stored| stored.value())
    }

    #[test]
    fn a_claim_gets_a_volume_which_is_released_with_it() {
        run_virtual(world(async |server, client| {
            made(client, CLAIMS, &claim("c", "")).await;
            settle().await;
            let shown = |name: &str| get(server, "persistentvolumeclaims", name).expect("the claim");
            assert_eq!(shown("c")["status"], json!({"phase": "Pending"}));
            made(client, VOLUMES, &volume("v", "Retain")).await;
            settle().await;
            let bound = shown("c");
            assert_eq!(bound["spec"]["volumeName"], "v");
            let status = json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}});
            assert_eq!(bound["status"], status);
            assert_eq!(metadata::annotation(&bound, BIND_COMPLETED), Some("yes"));
            assert_eq!(metadata::annotation(&bound, BOUND_BY_CONTROLLER), Some("yes"));
            let volume = get(server, "persistentvolumes", "v").expect("the volume");
            assert_eq!(
                (&volume["status"]["phase"], &volume["spec"]["claimRef"]["uid"]),
                (&json!("Bound"), &bound["metadata"]["uid"])
            );
            // A second claim does not get the same volume.
            made(client, CLAIMS, &claim("d", "")).await;
            settle().await;
            assert_eq!(shown("d")["status"]["phase"], "Pending");
            assert!(client.delete(&format!("{CLAIMS}/c"), None).await.is_ok());
            settle().await;
            assert_eq!(get(server, "persistentvolumes", "v").expect("it is kept")["status"]["phase"], "Released");
            // The claim of the same name is another one.
            made(client, CLAIMS, &claim("c", "")).await;
            settle().await;
            assert_eq!(shown("c")["status"]["phase"], "Pending");
            // An administrator frees the volume; it goes to the first claim by name.
            client.patch(&format!("{VOLUMES}/v"), MERGE_PATCH, &json!({"spec": {"claimRef": null}})).await;
            settle().await;
            assert_eq!(
                (shown("c")["status"]["phase"].clone(), shown("d")["status"]["phase"].clone()),
                (json!("Bound"), json!("Pending"))
            );
        }))
        .expect("a runtime");
    }

    #[test]
    fn volumes_and_claims_that_name_each_other_are_bound() {
        run_virtual(world(async |server, client| {
            let mut named = claim("named", "");
            named["spec"]["volumeName"] = json!("v");
            made(client, CLAIMS, &named).await;
            let mut reserved = volume("r", "Delete");
            reserved["spec"]["claimRef"] = json!({"namespace": "default", "name": "later"});
            made(client, VOLUMES, &reserved).await;
            settle().await;
            assert_eq!(get(server, "persistentvolumes", "r").expect("r")["status"]["phase"], "Available");
            for (path, object) in [(VOLUMES, volume("v", "Retain")), (CLAIMS, claim("later", ""))] {
                made(client, path, &object).await;
            }
            settle().await;
            for (name, volume) in [("named", "v"), ("later", "r")] {
                let claim = get(server, "persistentvolumeclaims", name).expect(name);
                assert_eq!(
                    (&claim["spec"]["volumeName"], &claim["status"]["phase"]),
                    (&json!(volume), &json!("Bound"))
                );
            }
            // The policy Delete.
            assert!(client.delete(&format!("{CLAIMS}/later"), None).await.is_ok());
            settle().await;
            assert!(get(server, "persistentvolumes", "r").is_none());
            // A bound claim whose volume is taken away is lost.
            let open = json!({"metadata": {"finalizers": null}});
            client.patch(&format!("{VOLUMES}/v"), MERGE_PATCH, &open).await;
            assert!(client.delete(&format!("{VOLUMES}/v"), None).await.is_ok());
            settle().await;
            assert_eq!(
                get(server, "persistentvolumeclaims", "named").expect("named")["status"],
                json!({"phase": "Lost"})
            );
        }))
        .expect("a runtime");
    }

    #[test]
    fn kinds_class_makes_a_volume_on_the_node_of_the_pod() {
        run_virtual(world(async |server, client| {
            let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": LOCAL_PATH,
                "metadata": {"name": "standard"}, "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete"});
            made(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}}});
            made(client, "/api/v1/nodes", &node).await;
            made(client, CLAIMS, &claim("c", "standard")).await;
            settle().await;
            assert_eq!(get(server, "persistentvolumeclaims", "c").expect("c")["status"]["phase"], "Pending");
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n",
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
            made(client, "/api/v1/namespaces/default/pods", &pod).await;
            settle().await;
            let claim = get(server, "persistentvolumeclaims", "c").expect("c");
            let name = format!("pvc-{}", metadata::uid(&claim));
            assert_eq!((&claim["spec"]["volumeName"], &claim["status"]["phase"]), (&json!(name), &json!("Bound")));
            let volume = get(server, "persistentvolumes", &name).expect("the volume");
            assert_eq!(volume["status"]["phase"], "Bound");
            assert_eq!(metadata::annotation(&volume, PROVISIONED_BY), Some(LOCAL_PATH));
            for path in ["/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0", &format!("{CLAIMS}/c")] {
                assert!(client.delete(path, None).await.is_ok(), "{path}");
            }
            settle().await;
            assert!(get(server, "persistentvolumes", &name).is_none());
        }))
        .expect("a runtime");
    }

    /// See `syncUnboundClaim` in `pkg/controller/volume/persistentvolume/pv_controller.go`.
    #[test]
    fn a_claim_that_waits_says_why() {
        run_virtual(world(async |server, client| {
            tokio::spawn(crate::events::publish_events(server.clone()));
            settle().await;
            let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/x",
                "metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"});
            made(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
            for (name, class) in [("late", "late"), ("none", ""), ("unknown", "missing")] {
                made(client, CLAIMS, &claim(name, class)).await;
            }
            settle().await;
            let mut found: Vec<(String, String, String)> = server
                .list(&ResourceId::new("", "events"), None)
                .iter()
                .map(|stored| {
                    let event = stored.value();
                    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
                    (text(&event["involvedObject"]["name"]), text(&event["reason"]), text(&event["type"]))
                })
                .collect();
            found.sort();
            let expected = [
                ("late", "WaitForFirstConsumer", "Normal"),
                ("none", "FailedBinding", "Normal"),
                ("unknown", "ProvisioningFailed", "Warning"),
            ];
            let expected = expected.map(|(name, reason, kind)| (name.to_owned(), reason.to_owned(), kind.to_owned()));
            assert_eq!(found, expected);
        }))
        .expect("a runtime");
    }

    /// See `assignDefaultStorageClass` in `pkg/controller/volume/persistentvolume/pv_controller.go`.
    #[test]
    fn a_claim_without_a_class_gets_the_default_one_later() {
        run_virtual(world(async |server, client| {
            let mut unclassed = claim("c", "");
            unclassed["spec"]["storageClassName"] = Value::Null;
            made(client, CLAIMS, &unclassed).await;
            made(client, CLAIMS, &claim("none", "")).await;
            settle().await;
            let mut class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                "provisioner": "example.com/x", "metadata": {"name": "standard"}});
            metadata::set_annotation(&mut class, default_class::STORAGE_CLASS[0], "true");
            made(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
            settle().await;
            let class = |name: &str| {
                let claim = get(server, "persistentvolumeclaims", name).expect("a claim");
                claim["spec"]["storageClassName"].clone()
            };
            assert_eq!((class("c"), class("none")), (json!("standard"), json!("")));
        }))
        .expect("a runtime");
    }

    /// `syncHandler` of the expand controller: an event each time a claim grows.
    #[test]
    fn a_claim_that_grows_waits_for_a_resizer() {
        run_virtual(world(async |server, client| {
            tokio::spawn(crate::events::publish_events(server.clone()));
            let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "c"},
                "provisioner": "a.b", "allowVolumeExpansion": true});
            made(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
            let mut own = volume("v", "Retain");
            own["spec"]["storageClassName"] = json!("c");
            made(client, VOLUMES, &own).await;
            made(client, CLAIMS, &claim("c", "c")).await;
            settle().await;
            let counts = || -> Vec<i64> {
                let events = server.list(&ResourceId::new("", "events"), Some("default"));
                let events = events.iter().map(|event| event.value());
                let of_growth = events.filter(|event| event["reason"] == "ExternalExpanding");
                of_growth.filter_map(|event| event["count"].as_i64()).collect()
            };
            assert_eq!(counts(), [0_i64; 0]);
            for (size, expected) in [("5Gi", 1), ("6Gi", 2)] {
                let growth = json!({"spec": {"resources": {"requests": {"storage": size}}}});
                let patched = client.patch(&format!("{CLAIMS}/c"), MERGE_PATCH, &growth).await;
                assert!(patched.is_ok(), "{}", patched.message());
                let label = json!({"metadata": {"labels": {"size": size}}});
                client.patch(&format!("{CLAIMS}/c"), MERGE_PATCH, &label).await;
                settle().await;
                assert_eq!(counts(), [expected]);
            }
            // What an external resizer writes; the kubelet of the first pod does the rest.
            let grown = json!({"spec": {"capacity": {"storage": "6Gi"}}});
            assert!(client.patch(&format!("{VOLUMES}/v"), MERGE_PATCH, &grown).await.is_ok());
            let pending = json!({"status": {"allocatedResources": {"storage": "6Gi"},
                "allocatedResourceStatuses": {"storage": "NodeResizePending"},
                "conditions": [{"type": "FileSystemResizePending", "status": "True"}]}});
            assert!(client.patch(&format!("{CLAIMS}/c/status"), MERGE_PATCH, &pending).await.is_ok());
            settle().await;
            let status = || get(server, "persistentvolumeclaims", "c").expect("a claim")["status"].clone();
            assert_eq!(status()["capacity"]["storage"], "2Gi");
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n",
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
            made(client, "/api/v1/namespaces/default/pods", &pod).await;
            settle().await;
            let status = status();
            assert_eq!(
                (&status["capacity"]["storage"], &status["allocatedResources"]["storage"]),
                (&json!("6Gi"), &json!("6Gi"))
            );
            let is_empty = |field: &str| crate::json::fields::is_empty_value(status.get(field));
            assert!(is_empty("conditions") && is_empty("allocatedResourceStatuses"), "{status}");
        }))
        .expect("a runtime");
    }
}
