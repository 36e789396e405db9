//! Deployments: one ReplicaSet per template, and rolling or recreating updates. See
//! `pkg/controller/deployment/{rolling,recreate,sync}.go`.

use jiff::Timestamp;

use super::namespace_controller::NamespaceController;
use super::progress::{self, Conditions};
use super::scaling::{DESIRED, MAX_REPLICAS, is_rolling, is_scaling_event, resolve_fenceposts, scaled};
use super::workload_fields::{count, desired_replicas};
use crate::controllers::MERGE_PATCH;
use crate::json::{Map, Value, json};
use crate::metadata::{self, is_deleted};
use crate::pod_fields::has_ended;

const HASH_LABEL: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The annotation of a replica set with the revisions that it had before a rollback to it.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";

/// Annotations of a Deployment that are not copied to its replica sets (`annotationsToSkip` in
/// `pkg/controller/deployment/util/deployment_util.go`).
const NOT_COPIED: [&str; 6] = [
    REVISION,
    DESIRED,
    MAX_REPLICAS,
    HISTORY,
    "deprecated.deployment.rollback.to",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// Most characters of the annotation with earlier revisions (`maxRevHistoryLengthInChars`).
const HISTORY_LENGTH: usize = 2000;

/// Syncs the replica sets and the status of one Deployment.
pub(super) async fn keep(controller: &NamespaceController, name: &str) {
    let Some(deployment) = controller.workload(name) else { return };
    let now = controller.agent.server().clock().now();
    if is_deleted(&deployment) {
        let sets = controller.controlled_objects("apps", "replicasets", &deployment);
        let status = progress::status(&deployment, &sets, new_set(&deployment, &sets), now);
        return controller.write_status(&deployment, &status).await;
    }
    controller.claim("apps", "replicasets", &deployment).await;
    let deployment = match progress::paused(&deployment, now) {
        Some(conditions) => set_conditions(controller, deployment, conditions).await,
        None => deployment,
    };
    let sets = controller.controlled_objects("apps", "replicasets", &deployment);
    let new = new_set(&deployment, &sets);
    let mut conditions = None;
    if let Some(new) = new {
        mark_revision(controller, &deployment, new, &sets).await;
        conditions = progress::found(&deployment, metadata::name(new), now);
    }
    let is_paused = deployment["spec"]["paused"] == json!(true);
    let rolls = !is_paused && !is_scaling_event(&deployment, &sets);
    let changes = match new {
        _ if !rolls => scaled(&deployment, new, &sets),
        _ if !is_rolling(&deployment) && has_old_pods(controller, new, &sets) => without_pods(new, &sets),
        Some(new) => next_replicas(&deployment, new, &sets),
        None => {
            let Some(set) = create_set(controller, &deployment, &sets, now).await else { return };
            conditions = progress::created(&deployment, &set, None, now);
            Vec::new()
        }
    };
    for (set, replicas) in changes {
        scale(controller, &deployment, set, replicas).await;
    }
    let Some(mut deployment) = controller.workload(name) else { return };
    if let Some(conditions) = conditions {
        deployment = set_conditions(controller, deployment, conditions).await;
    }
    let sets = controller.controlled_objects("apps", "replicasets", &deployment);
    if is_paused || rolls && progress::is_complete(&deployment, &deployment["status"]) {
        for set in beyond_history(&deployment, &sets) {
            let options = json!({"preconditions": {"uid": metadata::uid(set)}});
            controller.agent.delete(&set_path(controller, metadata::name(set)), Some(&options)).await;
        }
    }
    let new = new_set(&deployment, &sets);
    let status = if rolls { progress::rollout_status } else { progress::status }(&deployment, &sets, new, now);
    controller.write_status(&deployment, &status).await;
}

/// Returns the replica set of the present template, the oldest if there are several: `FindNewReplicaSet`.
fn new_set<'a>(deployment: &Value, sets: &'a [Value]) -> Option<&'a Value> {
    let same = sets.iter().filter(|set| same_template(set, deployment));
    same.min_by_key(|set| metadata::text(set, "creationTimestamp"))
}

/// Returns the replica sets that are not the new one.
fn old_sets<'a>(new: Option<&Value>, sets: &'a [Value]) -> impl Iterator<Item = &'a Value> {
    let new = new.map(|new| metadata::uid(new).to_owned());
    sets.iter().filter(move |set| Some(metadata::uid(set)) != new.as_deref())
}

/// Returns true if old replica sets have pods or are to have some. Pods that are being deleted count until they have
/// ended: `oldPodsRunning`.
fn has_old_pods(controller: &NamespaceController, new: Option<&Value>, sets: &[Value]) -> bool {
    old_sets(new, sets).any(|set| {
        let pods = || controller.controlled_objects("", "pods", set);
        count(set, "/spec/replicas") > 0 || count(set, "/status/replicas") > 0 || !pods().iter().all(has_ended)
    })
}

/// Returns the old replica sets that are to have no pods any more.
fn without_pods<'a>(new: Option<&Value>, sets: &'a [Value]) -> Vec<(&'a Value, i64)> {
    old_sets(new, sets).filter(|set| count(set, "/spec/replicas") > 0).map(|set| (set, 0)).collect()
}

fn set_path(controller: &NamespaceController, name: &str) -> String {
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/apis/apps/v1/namespaces/{}/replicasets{slash}{name}", controller.namespace)
}

/// Writes conditions; returns the deployment with them.
async fn set_conditions(controller: &NamespaceController, mut deployment: Value, conditions: Conditions) -> Value {
    let conditions = conditions.into_json();
    controller.write_status(&deployment, &json!({"conditions": conditions})).await;
    deployment["status"]["conditions"] = conditions;
    deployment
}

/// Returns those of the oldest replica sets beyond `revisionHistoryLimit` that have no pods, the oldest first:
/// `cleanupDeployment`.
fn beyond_history<'a>(deployment: &Value, sets: &'a [Value]) -> Vec<&'a Value> {
    let Some(limit) = deployment.pointer("/spec/revisionHistoryLimit").and_then(Value::as_i64) else {
        return Vec::new();
    };
    let mut old: Vec<&Value> = old_sets(new_set(deployment, sets), sets).filter(|set| !is_deleted(set)).collect();
    old.sort_by_key(|set| revision(set));
    let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    old.truncate(surplus);
    old.retain(|set| {
        let is_observed = metadata::generation(set) <= count(set, "/status/observedGeneration");
        is_observed && count(set, "/spec/replicas") == 0 && count(set, "/status/replicas") == 0
    });
    old
}

/// Returns a hash of the template in the alphabet of generated names; another one after each collision.
pub(super) fn template_hash(template: &Value, collisions: i64) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut text = template.to_string();
    if collisions > 0 {
        text.push_str(&collisions.to_string());
    }
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

fn same_template(set: &Value, deployment: &Value) -> bool {
    let mut own = set["spec"]["template"].clone();
    if let Some(labels) = own.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    own == deployment["spec"]["template"]
}

fn revision(object: &Value) -> i64 {
    metadata::annotation(object, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Creates the replica set of the present template. Returns its name; if it cannot be created, the status of the
/// deployment says why: `getNewReplicaSet`.
async fn create_set(
    controller: &NamespaceController,
    deployment: &Value,
    sets: &[Value],
    now: Timestamp,
) -> Option<String> {
    let collisions = count(deployment, "/status/collisionCount");
    let hash = template_hash(&deployment["spec"]["template"], collisions);
    let name = metadata::name(deployment);
    let mut template = deployment["spec"]["template"].clone();
    metadata::set_label(&mut template, HASH_LABEL, hash.as_str());
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH_LABEL] = json!(hash);
    let next = sets.iter().map(revision).max().unwrap_or(0) + 1;
    let existing: i64 = sets.iter().map(|set| count(set, "/spec/replicas")).sum();
    let (surge, _) = resolve_fenceposts(deployment);
    let room = (desired_replicas(deployment) + surge - existing).clamp(0, desired_replicas(deployment));
    let replicas = if is_rolling(deployment) { room } else { desired_replicas(deployment) };
    let mut annotations = set_annotations(deployment, next);
    annotations.extend(size_annotations(deployment));
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": format!("{name}-{hash}"), "namespace": controller.namespace, "labels": template["metadata"]["labels"],
            "annotations": Value::Object(annotations), "ownerReferences": controller.owner_references(deployment)},
        "spec": {"replicas": replicas, "minReadySeconds": count(deployment, "/spec/minReadySeconds"), "selector": selector,
            "template": template}});
    let response = controller.agent.create(&set_path(controller, ""), &set).await;
    let name = metadata::name(&set);
    if response.is_ok() {
        return Some(name.to_owned());
    }
    if response.has_reason("AlreadyExists") {
        // One of this template is found in the next round; else another name is needed.
        let stored = controller.controlled_objects("apps", "replicasets", deployment);
        if !stored.iter().any(|set| metadata::name(set) == name && same_template(set, deployment)) {
            controller.write_status(deployment, &json!({"collisionCount": collisions + 1})).await;
        }
    } else if !response.is_for_ending_namespace() {
        let error = response.message();
        controller.record(deployment, "ReplicaSetCreateError", progress::failed_creation(name, &error));
        if let Some(conditions) = progress::created(deployment, name, Some(&error), now) {
            set_conditions(controller, deployment.clone(), conditions).await;
        }
    }
    None
}

/// Returns the Deployment's annotations (such as the change cause) with the revision added.
fn set_annotations(deployment: &Value, revision: i64) -> Map {
    let own = metadata::annotations(deployment).into_iter().flatten();
    let kept = own.filter(|(name, _)| !NOT_COPIED.contains(&name.as_str()));
    let mut all: Map = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    all.insert(REVISION, json!(revision.to_string()));
    all
}

/// Returns the annotations of a replica set about the size of its Deployment.
fn size_annotations(deployment: &Value) -> [(String, Value); 2] {
    let (surge, _) = resolve_fenceposts(deployment);
    let wanted = desired_replicas(deployment);
    [(DESIRED, wanted), (MAX_REPLICAS, wanted + surge)].map(|(name, size)| (name.to_owned(), json!(size.to_string())))
}

/// Gives the new ReplicaSet the highest revision and the Deployment's `minReadySeconds`, and the Deployment the same
/// revision.
async fn mark_revision(controller: &NamespaceController, deployment: &Value, new: &Value, sets: &[Value]) {
    let delay = |workload: &Value| count(workload, "/spec/minReadySeconds");
    let newest = sets.iter().filter(|set| metadata::uid(set) != metadata::uid(new)).map(revision).max().unwrap_or(0);
    let wanted = revision(new).max(newest + 1);
    let mut annotations = set_annotations(deployment, wanted);
    if let Some(history) = revision_history(new).filter(|_| revision(new) < wanted) {
        annotations.insert(HISTORY, history.into());
    }
    let known = &new["metadata"]["annotations"];
    if annotations.iter().any(|(name, value)| known[name] != *value) || delay(new) != delay(deployment) {
        let patch = json!({"metadata": {"annotations": Value::Object(annotations)},
            "spec": {"minReadySeconds": delay(deployment)}});
        controller.agent.patch(&set_path(controller, metadata::name(new)), MERGE_PATCH, &patch).await;
    }
    if revision(deployment) != wanted {
        let patch = json!({"metadata": {"annotations": {REVISION: wanted.to_string()}}});
        // Through the status subresource, as upstream does: on the main resource a new annotation increments a
        // Deployment's generation.
        controller
            .agent
            .patch(&format!("{}/status", controller.path(metadata::name(deployment))), MERGE_PATCH, &patch)
            .await;
    }
}

/// Returns the earlier revisions of a replica set and its present one, which it is about to lose. The oldest ones that
/// do not fit are left out.
fn revision_history(set: &Value) -> Option<String> {
    let present = metadata::annotation(set, REVISION)?;
    let mut all = metadata::annotation(set, HISTORY).unwrap_or_default();
    while !all.is_empty() && all.len() + 1 + present.len() > HISTORY_LENGTH {
        all = all.split_once(',').map_or("", |(_, rest)| rest);
    }
    Some(if all.is_empty() { present.to_owned() } else { format!("{all},{present}") })
}

async fn scale(controller: &NamespaceController, deployment: &Value, set: &Value, replicas: i64) {
    let path = set_path(controller, metadata::name(set));
    let annotations: Map = size_annotations(deployment).into_iter().collect();
    let patch = json!({"metadata": {"annotations": Value::Object(annotations)}, "spec": {"replicas": replicas}});
    controller.agent.patch(&path, MERGE_PATCH, &patch).await;
}

/// Returns the replica sets to scale now, with their new sizes. With the strategy Recreate, there are no old pods.
fn next_replicas<'a>(deployment: &Value, new: &'a Value, sets: &'a [Value]) -> Vec<(&'a Value, i64)> {
    let wanted = desired_replicas(deployment);
    let size = |set: &Value| count(set, "/spec/replicas");
    let old: Vec<&Value> = old_sets(Some(new), sets).filter(|set| size(set) > 0).collect();
    let old_size: i64 = old.iter().map(|set| size(set)).sum();
    let new_size = size(new);
    if !is_rolling(deployment) {
        return if new_size == wanted { Vec::new() } else { vec![(new, wanted)] };
    }
    let (surge, unavailable) = resolve_fenceposts(deployment);
    if new_size > wanted {
        return vec![(new, wanted)];
    }
    let grown = (new_size + (wanted + surge - new_size - old_size).max(0)).min(wanted);
    if grown > new_size {
        return vec![(new, grown)];
    }
    let new_unavailable = new_size - count(new, "/status/availableReplicas");
    let needed = wanted - unavailable;
    let mut surplus = new_size + old_size - needed - new_unavailable;
    if surplus <= 0 {
        return Vec::new();
    }
    let available = |set: &Value| count(set, "/status/availableReplicas");
    let mut oldest_first: Vec<(&Value, i64)> = old.into_iter().map(|set| (set, size(set))).collect();
    let age = |set: &Value| (metadata::text(set, "creationTimestamp").to_owned(), metadata::name(set).to_owned());
    oldest_first.sort_by_key(|(set, _)| age(set));
    // Unavailable pods of all old sets go first: that does not reduce availability.
    for (set, left) in &mut oldest_first {
        let fewer = (*left - available(set)).clamp(0, surplus);
        *left -= fewer;
        surplus -= fewer;
    }
    let mut spare = (sets.iter().map(available).sum::<i64>() - needed).max(0);
    for (_, left) in &mut oldest_first {
        let fewer = (*left).min(spare);
        *left -= fewer;
        spare -= fewer;
    }
    oldest_first.retain(|(set, left)| *left != size(set));
    oldest_first
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::controllers::ControllerClient;
    use crate::loop_tests::refuse;
    use crate::server::ApiServer;
    use crate::store::ResourceId;
    use rstest::rstest;

    fn deployment(replicas: i64, surge: &Value, unavailable: &Value) -> Value {
        json!({"spec": {"replicas": replicas, "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}})
    }

    fn set(uid: &str, size: i64, available: i64) -> Value {
        json!({"metadata": {"uid": uid}, "spec": {"replicas": size}, "status": {"replicas": size, "availableReplicas": available}})
    }

    #[rstest]
    #[case(json!("25%"), json!("25%"), (1, 1))]
    #[case(json!("30%"), json!(0), (2, 0))]
    #[case(json!(0), json!(0), (0, 1))]
    fn limits_are_resolved(#[case] surge: Value, #[case] unavailable: Value, #[case] expected: (i64, i64)) {
        assert_eq!(resolve_fenceposts(&deployment(4, &surge, &unavailable)), expected);
    }

    /// See `cleanupDeployment` in `pkg/controller/deployment/sync.go`: a set with pods takes a place, and is kept.
    #[rstest]
    #[case(0, &["a", "b"])]
    #[case(1, &["a", "b"])]
    #[case(2, &["a"])]
    #[case(3, &[])]
    fn history_is_limited(#[case] limit: i64, #[case] expected: &[&str]) {
        let template = json!({"spec": {"containers": []}});
        let deployment = json!({"spec": {"replicas": 1, "revisionHistoryLimit": limit, "template": template}});
        let old = |uid: &str, revision: &str, size: i64| {
            let mut old = set(uid, size, size);
            metadata::set_annotation(&mut old, REVISION, revision);
            old
        };
        let mut new = old("new", "4", 1);
        new["spec"]["template"] = template.clone();
        let sets = [old("b", "2", 0), old("a", "1", 0), old("busy", "3", 1), new];
        let gone: Vec<&str> = beyond_history(&deployment, &sets).into_iter().map(metadata::uid).collect();
        assert_eq!(gone, expected);
    }

    /// See `SetNewReplicaSetAnnotations` in `pkg/controller/deployment/util/deployment_util.go`.
    #[rstest]
    #[case::first("", Some("3"))]
    #[case::more("1,2", Some("1,2,3"))]
    fn a_rollback_keeps_the_earlier_revisions(#[case] known: &str, #[case] expected: Option<&str>) {
        let mut set = set("s", 0, 0);
        assert_eq!(revision_history(&set), None);
        metadata::set_annotation(&mut set, REVISION, "3");
        metadata::set_annotation(&mut set, HISTORY, known);
        assert_eq!(revision_history(&set).as_deref(), expected);
        metadata::set_annotation(&mut set, HISTORY, format!("1,{}", "2".repeat(HISTORY_LENGTH - 2)));
        assert_eq!(revision_history(&set), Some(format!("{},3", "2".repeat(HISTORY_LENGTH - 2))));
    }

    #[test]
    fn a_rollover_keeps_the_pods_that_are_available() {
        let first = set("first", 1, 1);
        let second = set("second", 1, 0);
        let new = set("new", 0, 0);
        let sets = [first, second, new.clone()];
        let changes = next_replicas(&deployment(1, &json!(1), &json!(0)), &new, &sets);
        let shown: Vec<(&str, i64)> = changes.iter().map(|(set, size)| (metadata::uid(set), *size)).collect();
        assert_eq!(shown, [("second", 0)]);
    }

    #[rstest]
    #[case::surge_first(set("new", 0, 0), set("old", 4, 4), vec![("new", 1)])]
    #[case::then_shrink(set("new", 1, 1), set("old", 4, 4), vec![("old", 2)])]
    #[case::wait_for_availability(set("new", 2, 0), set("old", 3, 3), vec![])]
    #[case::done(set("new", 4, 4), set("old", 0, 0), vec![])]
    fn a_rollout_in_steps(#[case] new: Value, #[case] old: Value, #[case] expected: Vec<(&str, i64)>) {
        let sets = [new.clone(), old];
        let changes = next_replicas(&deployment(4, &json!(1), &json!(1)), &new, &sets);
        let shown: Vec<(&str, i64)> = changes.iter().map(|(set, size)| (metadata::uid(set), *size)).collect();
        assert_eq!(shown, expected);
    }

    /// See `getNewReplicaSet` in `pkg/controller/deployment/sync.go`: only `AlreadyExists` is a collision.
    #[tokio::test(start_paused = true)]
    async fn a_conflict_is_no_collision() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        let on = serde_json::json!({"verbs": ["create"], "resource": "replicasets"});
        refuse(&server, &on, None, 409);
        tokio::spawn(super::super::run_workload_controllers(server.clone()));
        let client = ControllerClient::new(&server, "user");
        let status = || async {
            server.clock().sleep(Duration::from_secs(10)).await;
            let stored = server.get(&ResourceId::new("apps", "deployments"), "default", "d");
            let status = stored.expect("a deployment").value()["status"].clone();
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let reason = conditions.find(|one| one["type"] == "Progressing").map(|one| one["reason"].clone());
            (status["collisionCount"].clone(), reason.unwrap_or_default())
        };
        let template =
            json!({"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}});
        let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1,
            "selector": {"matchLabels": {"app": "d"}}, "template": template}});
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        assert!(client.create(deployments, &deployment).await.is_ok());
        assert_eq!(status().await, (Value::Null, json!("ReplicaSetCreateError")));
        server.faults().clear(None);
        assert_eq!(status().await, (Value::Null, json!("ReplicaSetUpdated")));
        let stored = server.get(&ResourceId::new("apps", "deployments"), "default", "d").expect("a deployment").value();
        let mut template = stored["spec"]["template"].clone();
        template["spec"]["containers"][0]["image"] = json!("b");
        let name = format!("d-{}", template_hash(&template, 0));
        let foreign = json!({"metadata": {"name": name}, "spec": {"replicas": 0, "selector": {"matchLabels": {"x": "y"}},
            "template": {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "c", "image": "b"}]}}}});
        assert!(client.create("/apis/apps/v1/namespaces/default/replicasets", &foreign).await.is_ok());
        client.patch(&format!("{deployments}/d"), MERGE_PATCH, &json!({"spec": {"template": template}})).await;
        assert_eq!(status().await.0, json!(1));
        let sets = server.list(&ResourceId::new("apps", "replicasets"), None);
        assert!(sets.iter().any(|set| set.name() == format!("d-{}", template_hash(&template, 1))));
    }

    /// See `rolloutRecreate` in `pkg/controller/deployment/recreate.go`.
    #[tokio::test(start_paused = true)]
    async fn with_recreate_a_new_set_waits_for_the_end_of_old_pods() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        tokio::spawn(super::super::run_workload_controllers(server.clone()));
        let client = ControllerClient::new(&server, "user");
        let sizes = || async {
            server.clock().sleep(Duration::from_secs(1)).await;
            let mut sets: Vec<Value> = server
                .list(&ResourceId::new("apps", "replicasets"), Some("default"))
                .iter()
                .map(|set| set.value())
                .collect();
            sets.sort_by_key(revision);
            sets.iter().map(|set| count(set, "/spec/replicas")).collect::<Vec<_>>()
        };
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "a"}]}}}});
        assert!(client.create(deployments, &deployment).await.is_ok());
        assert_eq!(sizes().await, [1]);
        let pod = server.list(&ResourceId::new("", "pods"), Some("default"))[0].name().to_owned();
        let pod = format!("/api/v1/namespaces/default/pods/{pod}");
        let finalizers = |all: Value| json!({"metadata": {"finalizers": all}});
        client.patch(&pod, MERGE_PATCH, &finalizers(json!(["example.com/wait"]))).await;
        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}});
        client.patch(&format!("{deployments}/d"), MERGE_PATCH, &image).await;
        assert_eq!(sizes().await, [0]);
        client.patch(&pod, MERGE_PATCH, &finalizers(Value::Null)).await;
        assert_eq!(sizes().await, [0, 1]);
    }
}
