//! Stateful sets: pods with ordinals, created and updated in order. See
//! `pkg/controller/statefulset/stateful_set_control.go`.

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::Timestamp;

use super::claims;
use super::namespace_controller::{NamespaceController, ends_batch};
use super::pod_state::{has_been_ready, is_available, ready_condition};
use super::revisions::{REVISION_LABEL, RevisionHistory};
use super::workload_fields::{count, desired_replicas};
use crate::json::{Value, json};
use crate::metadata::{self, is_deleted};
use crate::pod_fields::has_ended;

/// A set with its revisions.
struct VersionedSet<'a> {
    set: &'a Value,
    history: RevisionHistory,
    /// The revision that pods below the partition keep.
    current: String,
}

/// Syncs the pods and the status of one StatefulSet.
pub(super) async fn keep(controller: &NamespaceController, name: &str) {
    let Some(set) = controller.workload(name) else { return };
    if !is_deleted(&set) {
        // Pods with names of other forms are not members, even if their labels match.
        controller.claim_members("", "pods", &set, None, |pod| ordinal(&set, pod).is_some()).await;
    }
    let pods = controller.controlled_objects("", "pods", &set);
    let now = controller.agent.server().clock().now();
    let Some(history) = RevisionHistory::sync(controller, &set).await else { return };
    let known = set["status"]["currentRevision"].as_str().unwrap_or_default();
    let current = if history.template(known).is_some() { known } else { history.update() }.to_owned();
    let versioned = VersionedSet { set: &set, history, current };
    if !is_deleted(&set) {
        move_on(controller, &versioned, &pods, now).await;
    }
    let Some(set) = controller.workload(name) else { return };
    let pods = controller.controlled_objects("", "pods", &set);
    let VersionedSet { history, current, .. } = versioned;
    let status = status(&set, &pods, &current, history.update(), now);
    controller.write_status(&set, &status).await;
    let is_live = |name: &str| {
        status["currentRevision"] == name || pods.iter().any(|pod| metadata::label(pod, REVISION_LABEL) == Some(name))
    };
    history.truncate(controller, &set, is_live).await;
}

/// Returns the ordinal in the name of a pod; `None` if the pod is not of this set: `getParentNameAndOrdinal`.
fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    let (parent, digits) = metadata::name(pod).rsplit_once('-')?;
    let is_member = parent == metadata::name(set) && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse::<i32>().ok().filter(|_| is_member).map(i64::from)
}

/// Returns the ordinal of the first pod that an update replaces.
fn partition(set: &Value) -> i64 {
    count(set, "/spec/updateStrategy/rollingUpdate/partition")
}

impl VersionedSet<'_> {
    /// Returns the pod with this ordinal: of the current revision below the partition, else of the updated one.
    fn pod(&self, controller: &NamespaceController, index: i64) -> Value {
        let start = count(self.set, "/spec/ordinals/start");
        let keeps_current =
            self.set["spec"]["updateStrategy"]["type"] == "RollingUpdate" && index < start + partition(self.set);
        let revision = if keeps_current { self.current.as_str() } else { self.history.update() };
        let mut set = self.set.clone();
        if let Some(template) = self.history.template(revision) {
            set["spec"]["template"] = template;
        }
        let mut pod = controller.pod(&set);
        let name = format!("{}-{index}", metadata::name(self.set));
        metadata::set(&mut pod, "generateName", format!("{}-", metadata::name(self.set)));
        pod["spec"]["hostname"] = json!(name);
        if let Some(service) = self.set["spec"]["serviceName"].as_str().filter(|service| !service.is_empty()) {
            pod["spec"]["subdomain"] = json!(service);
        }
        metadata::set_label(&mut pod, "statefulset.kubernetes.io/pod-name", name.as_str());
        metadata::set_label(&mut pod, "apps.kubernetes.io/pod-index", index.to_string());
        metadata::set_label(&mut pod, REVISION_LABEL, revision);
        metadata::set(&mut pod, "name", name);
        claims::add_volumes(self.set, &mut pod);
        pod
    }
}

/// The result of a step for one ordinal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PodStep {
    /// The pod is available: nothing is to be done.
    Available,
    /// The pod was created, or is not available yet.
    Waits,
    /// A write was refused.
    Refused,
}

/// Makes the next step: creates a missing pod, deletes a surplus one, or replaces one of an old template; with the
/// Parallel policy it creates and deletes several at once.
async fn move_on(controller: &NamespaceController, versioned: &VersionedSet<'_>, pods: &[Value], now: Timestamp) {
    let set = versioned.set;
    let is_parallel = set["spec"]["podManagementPolicy"] == "Parallel";
    let start = count(set, "/spec/ordinals/start");
    let ordinals = start..start.saturating_add(desired_replicas(set));
    let by_ordinal: BTreeMap<i64, &Value> = pods.iter().filter_map(|pod| Some((ordinal(set, pod)?, pod))).collect();
    for (index, pod) in &by_ordinal {
        claims::update_owners(controller, set, pod, ordinals.contains(index)).await;
    }
    let mut is_refused = false;
    for (call, index) in ordinals.clone().enumerate() {
        let step = match by_ordinal.get(&index) {
            Some(pod) => keep_pod(controller, set, pod, now).await,
            None => create_pod(controller, versioned, index).await,
        };
        is_refused |= step == PodStep::Refused;
        if !is_parallel && step != PodStep::Available || is_refused && ends_batch(call) {
            return;
        }
    }
    if is_refused {
        return;
    }
    let surplus: Vec<&Value> =
        by_ordinal.iter().rev().filter(|(index, _)| !ordinals.contains(index)).map(|(_, pod)| *pod).collect();
    for (call, pod) in surplus.iter().enumerate() {
        // Of several that are not available, the one with the lowest ordinal is the first to go.
        let waits =
            || !is_available(pod, set, now) && surplus[call + 1..].iter().any(|pod| !is_available(pod, set, now));
        let goes = !is_deleted(pod) && (is_parallel || !waits());
        let is_refused = goes && controller.delete_pod(set, pod).await.is_err();
        if is_refused || !is_parallel {
            return;
        }
    }
    if set["spec"]["updateStrategy"]["type"] != "OnDelete" {
        roll(controller, versioned, &by_ordinal, start + partition(set)..ordinals.end, now).await;
    }
}

/// Replaces the pod of an old template with the highest of these ordinals, if those above it are available.
async fn roll(
    controller: &NamespaceController,
    versioned: &VersionedSet<'_>,
    by_ordinal: &BTreeMap<i64, &Value>,
    ordinals: Range<i64>,
    now: Timestamp,
) {
    let set = versioned.set;
    for index in ordinals.rev() {
        // A pod that was created above is not available.
        let Some(pod) = by_ordinal.get(&index) else { return };
        if metadata::label(pod, REVISION_LABEL) != Some(versioned.history.update()) && !is_deleted(pod) {
            _ = controller.delete_pod(set, pod).await;
            return;
        }
        // The next one waits until those before it are available.
        if !is_available(pod, set, now) {
            return;
        }
    }
}

/// Creates the pod with this ordinal, after its claims.
async fn create_pod(controller: &NamespaceController, versioned: &VersionedSet<'_>, index: i64) -> PodStep {
    let pod = versioned.pod(controller, index);
    let [pod_name, name] = [&pod, versioned.set].map(metadata::name);
    if !claims::create_missing(controller, versioned.set, pod_name).await {
        return PodStep::Refused;
    }
    let response = controller.agent.create(&controller.pods(""), &pod).await;
    if response.is_ok() {
        return PodStep::Waits;
    }
    if !response.is_for_ending_namespace() {
        let error = response.message();
        let message = format!("Create Pod {pod_name} in StatefulSet {name} failed error: {error}");
        controller.record(versioned.set, "FailedCreate", message);
    }
    PodStep::Refused
}

/// Deletes a pod that has ended, and creates the claims again of one that waits for them.
async fn keep_pod(controller: &NamespaceController, set: &Value, pod: &Value, now: Timestamp) -> PodStep {
    let is_done = if has_ended(pod) {
        is_deleted(pod) || controller.delete_pod(set, pod).await.is_ok()
    } else {
        pod["status"]["phase"] != "Pending" || claims::create_missing(controller, set, metadata::name(pod)).await
    };
    if is_done && is_available(pod, set, now) {
        PodStep::Available
    } else if is_done {
        PodStep::Waits
    } else {
        PodStep::Refused
    }
}

/// Returns the status: `computeReplicaStatus`.
fn status(set: &Value, pods: &[Value], current: &str, update: &str, now: Timestamp) -> Value {
    let replicas = pods.len();
    // A pod that is being deleted counts as ready until it is not, but has no revision.
    let runs = |pod: &&Value| pod["status"]["phase"] == "Running" && ready_condition(pod).is_some();
    let ready = pods.iter().filter(runs).count();
    let available = pods.iter().filter(runs).filter(|pod| has_been_ready(pod, set, now)).count();
    let with = |revision: &str| {
        let has = |pod: &&Value| !is_deleted(pod) && metadata::label(pod, REVISION_LABEL) == Some(revision);
        pods.iter().filter(has).count()
    };
    let updated = with(update);
    let wanted = usize::try_from(desired_replicas(set)).unwrap_or(0);
    let rolls = set["spec"]["updateStrategy"]["type"] == "RollingUpdate";
    let done = rolls && updated == wanted && ready == wanted && replicas == wanted;
    let current = if done { update } else { current };
    json!({"replicas": replicas, "readyReplicas": ready, "availableReplicas": available,
        "currentReplicas": with(current), "updatedReplicas": updated,
        "currentRevision": current, "updateRevision": update, "collisionCount": 0,
        "observedGeneration": metadata::generation(set)})
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::controllers::{ControllerClient, MERGE_PATCH};
    use crate::kubelet::{self, KubeletOptions};
    use crate::server::ApiServer;
    use crate::store::ResourceId;
    use rstest::rstest;

    const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

    /// A server with a node, its kubelet and the loops of workloads.
    fn cluster() -> (ApiServer, ControllerClient) {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        server.seed([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).expect("seeded");
        tokio::spawn(super::super::run_workload_controllers(server.clone()));
        tokio::spawn(kubelet::run(server.clone(), KubeletOptions::default()));
        let client = ControllerClient::new(&server, "user");
        (server, client)
    }

    /// A server with a node and a set of three pods of image `a`, of which the last two have been updated to `b`.
    async fn partly_updated() -> (ApiServer, ControllerClient) {
        let (server, client) = cluster();
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {
            "replicas": 3, "serviceName": "s", "selector": {"matchLabels": {"app": "s"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
            "template": {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}}}});
        assert!(client.create(SETS, &set).await.is_ok());
        server.clock().sleep(Duration::from_secs(30)).await;
        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}});
        client.patch(&format!("{SETS}/s"), MERGE_PATCH, &image).await;
        server.clock().sleep(Duration::from_secs(30)).await;
        (server, client)
    }

    fn images(server: &ApiServer) -> Vec<String> {
        let mut pods: Vec<Value> =
            server.list(&ResourceId::new("", "pods"), Some("default")).iter().map(|pod| pod.value()).collect();
        pods.sort_by_key(|pod| metadata::name(pod).to_owned());
        pods.iter().map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn pods_below_the_partition_keep_the_current_revision() {
        let (server, client) = partly_updated().await;
        assert_eq!(images(&server), ["a", "b", "b"]);
        client.delete("/api/v1/namespaces/default/pods/s-0", None).await;
        server.clock().sleep(Duration::from_mins(1)).await;
        assert_eq!(images(&server), ["a", "b", "b"]);
        let set = server.get(&ResourceId::new("apps", "statefulsets"), "default", "s").expect("a set").value();
        assert_eq!((count(&set, "/status/currentReplicas"), count(&set, "/status/updatedReplicas")), (1, 2));
        assert_ne!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rollback_uses_the_old_revision_again() {
        let (server, client) = partly_updated().await;
        let revisions = || -> Vec<(String, i64)> {
            let all = server.list(&ResourceId::new("apps", "controllerrevisions"), Some("default"));
            let mut all: Vec<Value> = all.iter().map(|revision| revision.value()).collect();
            all.sort_by_key(|revision| count(revision, "/revision"));
            all.iter().map(|one| (metadata::name(one).to_owned(), count(one, "/revision"))).collect()
        };
        let before = revisions();
        assert_eq!(before.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [1, 2]);
        let back = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}},
            "template": {"spec": {"containers": [{"name": "c", "image": "a"}]}}}});
        client.patch(&format!("{SETS}/s"), MERGE_PATCH, &back).await;
        server.clock().sleep(Duration::from_mins(1)).await;
        assert_eq!(images(&server), ["a", "a", "a"]);
        assert_eq!(revisions(), [(before[1].0.clone(), 2), (before[0].0.clone(), 3)]);
        let set = server.get(&ResourceId::new("apps", "statefulsets"), "default", "s").expect("a set").value();
        assert_eq!(set["status"]["currentRevision"], before[0].0.as_str());
    }

    /// See `getParentNameAndOrdinal` in `pkg/controller/statefulset/stateful_set_utils.go`.
    #[rstest]
    #[case::own("web-10", Some(10))]
    #[case::another_parent("web-debug-0", None)]
    #[case::sign("web-+1", None)]
    #[case::none("web-", None)]
    #[case::beyond_the_numbers("web-2147483648", None)]
    fn ordinals(#[case] pod: &str, #[case] expected: Option<i64>) {
        let [set, pod] = ["web", pod].map(|name| json!({"metadata": {"name": name}}));
        assert_eq!(ordinal(&set, &pod), expected);
    }

    /// `updateStatefulSet` in `pkg/controller/statefulset/stateful_set_control.go`: a pod that was just created is not
    /// available, so the next one is not replaced yet.
    #[tokio::test(start_paused = true)]
    async fn a_parallel_rollout_replaces_one_pod_at_a_time() {
        let (server, client) = cluster();
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {
            "replicas": 3, "serviceName": "s", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "s"}},
            "template": {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}}}});
        assert!(client.create(SETS, &set).await.is_ok());
        server.clock().sleep(Duration::from_secs(30)).await;
        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}});
        client.patch(&format!("{SETS}/s"), MERGE_PATCH, &image).await;
        for _ in 0..600 {
            server.clock().sleep(Duration::from_millis(100)).await;
            let pods = server.list(&ResourceId::new("", "pods"), None);
            let ready = pods.iter().filter(|pod| ready_condition(&pod.value()).is_some()).count();
            assert!(ready >= 2, "{ready} of {} pods are ready", pods.len());
        }
        assert_eq!(images(&server), ["b", "b", "b"]);
    }

    /// See `computeReplicaStatus` in `pkg/controller/statefulset/stateful_set_control.go`.
    #[test]
    fn a_pod_counts_until_it_is_gone() {
        let pod = |phase: &str, ends: bool| {
            let mut pod = json!({"metadata": {"labels": {REVISION_LABEL: "s-1"}}, "status": {"phase": phase,
                "conditions": [{"type": "Ready", "status": if phase == "Running" { "True" } else { "False" }}]}});
            if ends {
                metadata::set(&mut pod, "deletionTimestamp", "2026-01-01T00:00:00Z");
            }
            pod
        };
        let pods = [pod("Running", false), pod("Running", true), pod("Failed", false), pod("Pending", false)];
        let set = json!({"metadata": {"generation": 1}, "spec": {"replicas": 4}});
        let status = status(&set, &pods, "s-1", "s-2", Timestamp::UNIX_EPOCH);
        let counts = ["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"];
        assert_eq!(counts.map(|field| status[field].as_i64().unwrap()), [4, 2, 2, 3, 0]);
    }
}
