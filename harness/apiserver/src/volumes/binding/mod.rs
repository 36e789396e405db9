//! Binds claims to volumes, and makes volumes for claims of the class of kind's provisioner.
//!
//! See `pkg/controller/volume/persistentvolume/pv_controller.go` and, for claims that wait for their pod,
//! `pkg/scheduler/framework/plugins/volumebinding/binder.go` of Kubernetes 1.36. Such a claim gets a volume once the
//! scheduler has chosen a node for it, or once a pod that names its node itself uses it.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use super::annotations::{BIND_COMPLETED, BOUND_BY_CONTROLLER, LOCAL_PATH, PROVISIONED_BY, SELECTED_NODE};
use super::claim_references::{names, reference, uses};
use super::matching::{self, is_reserved_for};
use super::node_resize;
use super::reclaim::{self, VolumeDeleter};
use crate::backoff::Retries;
use crate::controllers::{ControllerClient, MERGE_PATCH, STRATEGIC_PATCH, WatchMux, WatchSet};
use crate::event_sink::Event;
use crate::json::{Value, json};
use crate::metadata;
use crate::pod_fields::has_ended;
use crate::quantity::Quantity;
use crate::registry::ObjectLister as _;
use crate::registry::default_class;
use crate::server::ApiServer;
use crate::store::ResourceId;

/// The annotations of a claim that waits for a provisioner, which finds its claims by them (`AnnStorageProvisioner`).
const FOR_PROVISIONER: [&str; 2] =
    ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];
/// The annotation of a volume with the size that its claim had before it grew (`AnnPreResizeCapacity`).
const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// The source of the events.
const COMPONENT: &str = "persistentvolume-controller";

/// Namespace and name of a claim.
type ClaimKey = (String, String);

/// Binds claims to volumes that suit them, makes new volumes available, releases volumes whose claim is gone and
/// deletes those of the policy `Delete`. Claims of a class of the provisioner `rancher.io/local-path` get a volume of
/// their own once a pod that uses them has a node. Never returns.
pub async fn bind_volumes(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/persistent-volume-binder");
    server.note_volume_binding();
    let provisioner = agent.named("plumbline/local-path-provisioner");
    let mut binder = Binder { provisioner, agent, growing: BTreeMap::new(), reported: Mutex::default() };
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
    /// The last Event about each claim: its uid, the reason and the message. A claim is looked at whenever pods of its
    /// namespace change, and says the same once.
    reported: Mutex<BTreeMap<ClaimKey, [String; 3]>>,
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
            self.reported.lock().remove(key);
            return true;
        };
        self.report_growth(key, &claim);
        let wanted = claim["spec"]["volumeName"].as_str().unwrap_or_default();
        if metadata::annotation(&claim, BIND_COMPLETED).is_some() {
            let lost = match self.volume(wanted) {
                _ if wanted.is_empty() => LOST_REFERENCE,
                None => LOST_VOLUME,
                Some(volume) if is_of_another(&volume, &claim) => MISBOUND,
                Some(volume) => {
                    self.bind(&volume, &claim).await;
                    return self.finish_growth(&claim, &volume).await;
                }
            };
            self.lose(&claim, lost).await;
            return true;
        }
        if !wanted.is_empty() {
            let Some(volume) = self.volume(wanted) else { return false };
            if !is_reserved_for(&volume, &claim) {
                let mismatch = matching::mismatch(&claim, &volume);
                let (reason, message) = match mismatch {
                    _ if !volume["spec"]["claimRef"].is_null() => {
                        ("FailedBinding", format!("volume {wanted:?} already bound to a different claim."))
                    }
                    Some(why) => ("VolumeMismatch", format!("Cannot bind to requested volume {wanted:?}: {why}")),
                    None => {
                        self.bind(&volume, &claim).await;
                        return true;
                    }
                };
                self.warn(&claim, reason, message);
                return false;
            }
            self.bind(&volume, &claim).await;
            return true;
        }
        self.find_volume(&claim).await
    }

    /// Reports that a claim has lost its volume, unless it has been lost before: `updateClaimStatusWithEvent`.
    async fn lose(&self, claim: &Value, (reason, message): (&str, &str)) {
        if claim["status"]["phase"] == "Lost" {
            return;
        }
        let nothing = json!({"accessModes": null, "capacity": null, "currentVolumeAttributesClassName": null});
        self.set_phase(claim, "Lost", &nothing).await;
        self.warn(claim, reason, message.to_owned());
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
            self.ask_provisioner(claim, &class, node.as_ref()).await;
        } else if class_name.is_empty() {
            let message = "no persistent volumes available for this claim and no storage class is set";
            self.record(claim, "FailedBinding", message.to_owned());
        } else {
            let message = format!("storageclass.storage.k8s.io {class_name:?} not found");
            self.warn(claim, "ProvisioningFailed", message);
        }
        false
    }

    /// Asks the provisioner of a class for a volume: `provisionClaim`.
    async fn ask_provisioner(&self, claim: &Value, class: &Value, node: Option<&Value>) {
        let provisioner = class["provisioner"].as_str().unwrap_or_default();
        if provisioner.starts_with("kubernetes.io/") {
            // None of those is part of Kubernetes any more.
            return self.warn(claim, "ProvisioningFailed", format!("no volume plugin matched name: {provisioner}"));
        }
        if metadata::annotation(claim, FOR_PROVISIONER[1]) != Some(provisioner) {
            let mut patch = json!({"metadata": {"uid": metadata::uid(claim)}});
            for annotation in FOR_PROVISIONER {
                metadata::set_annotation(&mut patch, annotation, provisioner);
            }
            if !self.agent.patch(&claim_path(claim), MERGE_PATCH, &patch).await.is_ok() {
                return;
            }
        }
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
             system administrator. If volume creation is delayed, please verify that the provisioner is running and \
             correctly registered."
        );
        self.record(claim, "ExternalProvisioning", message);
        if provisioner == LOCAL_PATH {
            // The event of the volume binds the claim.
            self.provision(claim, class, node).await;
        }
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
        self.report(claim, event(claim, reason, message));
    }

    fn warn(&self, claim: &Value, reason: &str, message: String) {
        self.report(claim, Event { warning: true, ..event(claim, reason, message) });
    }

    /// Records an Event about a claim, unless it is the same as the last one.
    fn report(&self, claim: &Value, event: Event) {
        let key = (metadata::namespace(claim).to_owned(), metadata::name(claim).to_owned());
        let event_text = [metadata::uid(claim).to_owned(), event.reason.clone(), event.message.clone()];
        if self.reported.lock().insert(key, event_text.clone()).as_ref() != Some(&event_text) {
            self.agent.server().events().record(event);
        }
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
        let record = |reason: &str, message: String| {
            let event = Event::new(reference(claim), LOCAL_PATH, reason, message);
            self.agent.server().events().record(event);
        };
        record("Provisioning", format!("External provisioner is provisioning volume for claim \"{namespace}/{name}\""));
        if self.provisioner.create("/api/v1/persistentvolumes", &volume).await.is_ok() {
            record("ProvisioningSucceeded", format!("Successfully provisioned volume {volume_name}"));
        }
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
        let Some(claim) = claim else { return self.reclaim(&volume).await };
        let bound_to = claim["spec"]["volumeName"].as_str().unwrap_or_default();
        if bound_to == name {
            return self.set_volume_phase(&volume, "Bound").await;
        }
        if bound_to.is_empty() {
            if !matching::has_mode(&claim, &volume) {
                self.report_mode(&volume, &claim);
            }
            return;
        }
        // The claim has taken another volume.
        let is_deleted = volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete";
        if is_deleted && metadata::annotation(&volume, PROVISIONED_BY).is_some() {
            return self.reclaim(&volume).await;
        }
        let mut patch = json!({"metadata": {"resourceVersion": metadata::resource_version(&volume)}});
        if metadata::annotation(&volume, BOUND_BY_CONTROLLER).is_some() {
            metadata::set_annotation(&mut patch, BOUND_BY_CONTROLLER, Value::Null);
            patch["spec"]["claimRef"] = Value::Null;
        } else {
            // A user has reserved it.
            patch["spec"]["claimRef"] = json!({"uid": null});
        }
        self.agent.patch(&volume_path(name), MERGE_PATCH, &patch).await;
    }

    /// Records that a volume is reserved for a claim that wants another mode.
    fn report_mode(&self, volume: &Value, claim: &Value) {
        let [of_volume, of_claim] = [volume, claim].map(metadata::name);
        let message = format!(
            "Cannot bind PersistentVolume {of_volume:?} to requested PersistentVolumeClaim due to incompatible volumeMode."
        );
        self.warn(claim, "VolumeMismatch", message);
        let message = format!(
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim {of_claim:?} due to incompatible volumeMode."
        );
        self.warn_about_volume(volume, "VolumeMismatch", message);
    }

    fn warn_about_volume(&self, volume: &Value, reason: &str, message: String) {
        let about = metadata::reference("v1", "PersistentVolume", volume);
        self.agent.server().events().record(Event::warning(about, COMPONENT, reason, message));
    }

    /// Releases a volume, and deletes it if that is its policy and the one to do it is here.
    async fn reclaim(&self, volume: &Value) {
        let phase = volume["status"]["phase"].as_str().unwrap_or_default();
        if phase != "Failed" {
            self.set_volume_phase(volume, "Released").await;
        }
        if volume["spec"]["persistentVolumeReclaimPolicy"] != "Delete" || metadata::is_deleted(volume) {
            return;
        }
        let client = match reclaim::deleter(volume) {
            VolumeDeleter::External => return,
            VolumeDeleter::Controller => &self.agent,
            VolumeDeleter::LocalPath => &self.provisioner,
            VolumeDeleter::Failed(why) => {
                if phase != "Failed" {
                    let status = json!({"phase": "Failed", "message": why});
                    let patch = json!({"metadata": {"uid": metadata::uid(volume)}, "status": status});
                    let path = format!("{}/status", volume_path(metadata::name(volume)));
                    self.agent.patch(&path, MERGE_PATCH, &patch).await;
                    self.warn_about_volume(volume, "VolumeFailedDelete", why);
                }
                return;
            }
        };
        let options = json!({"preconditions": {"uid": metadata::uid(volume)}});
        client.delete(&volume_path(metadata::name(volume)), Some(&options)).await;
    }
}

/// Reason and message about a claim that names no volume any more.
const LOST_REFERENCE: (&str, &str) =
    ("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!");
/// Reason and message about a claim whose volume is gone.
const LOST_VOLUME: (&str, &str) =
    ("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
/// Reason and message about a claim whose volume is another one's.
const MISBOUND: (&str, &str) =
    ("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly");

/// Returns true if a volume is bound to another claim.
fn is_of_another(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    reference.is_object() && reference["uid"] != metadata::uid(claim)
}

/// Returns an event about a claim.
fn event(claim: &Value, reason: &str, message: String) -> Event {
    Event::new(reference(claim), COMPONENT, reason, message)
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
mod tests;
