//! Deployments: one ReplicaSet per template, and rolling or recreating updates. See
//! `pkg/controller/deployment/{rolling,recreate,sync}.go`.

use super::progress::{self, Conditions};
use super::scaling::{DESIRED, MAX_REPLICAS, is_rolling, is_scaling_event, resolve_fenceposts, scaled};
use super::{NamespaceController, count, desired_replicas};
use crate::controllers::MERGE_PATCH;
use crate::json::{Map, Value, json};
use crate::metadata::{self, is_deleted};

const HASH_LABEL: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Annotations of a Deployment that are not copied to its replica sets (`annotationsToSkip` in
/// `pkg/controller/deployment/util/deployment_util.go`).
const NOT_COPIED: [&str; 6] = [
    REVISION,
    DESIRED,
    MAX_REPLICAS,
    "deployment.kubernetes.io/revision-history",
    "deprecated.deployment.rollback.to",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// Syncs the replica sets and the status of one Deployment.
pub(super) async fn keep(controller: &NamespaceController, name: &str) {
    let Some(deployment) = controller.workload(name) else { return };
    if is_deleted(&deployment) {
        return;
    }
    controller.claim("apps", "replicasets", &deployment).await;
    let now = controller.agent.server().clock().now();
    let deployment = match progress::paused(&deployment, now) {
        Some(conditions) => set_conditions(controller, deployment, conditions).await,
        None => deployment,
    };
    let sets = controller.controlled_objects("apps", "replicasets", &deployment);
    let new = sets.iter().find(|set| same_template(set, &deployment));
    let mut conditions = None;
    let rolls = deployment["spec"]["paused"] != json!(true) && !is_scaling_event(&deployment, &sets);
    if !rolls {
        for (set, replicas) in scaled(&deployment, new, &sets) {
            scale(controller, &deployment, set, replicas).await;
        }
    } else if let Some(new) = new {
        mark_revision(controller, &deployment, new, &sets).await;
        conditions = progress::found(&deployment, metadata::name(new), now);
        for (set, replicas) in next_replicas(&deployment, new, &sets) {
            scale(controller, &deployment, set, replicas).await;
        }
    } else {
        let (set, error) = create_set(controller, &deployment, &sets).await;
        conditions = progress::created(&deployment, &set, error.as_deref(), now);
        if let Some(error) = error {
            controller.record(&deployment, "ReplicaSetCreateError", progress::failed_creation(&set, &error));
            if let Some(conditions) = conditions {
                set_conditions(controller, deployment, conditions).await;
            }
            return;
        }
    }
    let Some(mut deployment) = controller.workload(name) else { return };
    if let Some(conditions) = conditions {
        deployment = set_conditions(controller, deployment, conditions).await;
    }
    let sets = controller.controlled_objects("apps", "replicasets", &deployment);
    for set in beyond_history(&deployment, &sets) {
        let path = format!("/apis/apps/v1/namespaces/{}/replicasets/{}", controller.namespace, metadata::name(set));
        controller.agent.delete(&path, Some(&json!({"preconditions": {"uid": metadata::uid(set)}}))).await;
    }
    let new = sets.iter().find(|set| same_template(set, &deployment));
    let status = if rolls { progress::rollout_status } else { progress::status }(&deployment, &sets, new, now);
    controller.write_status(&deployment, &status).await;
}

/// Writes conditions; returns the deployment with them.
async fn set_conditions(controller: &NamespaceController, mut deployment: Value, conditions: Conditions) -> Value {
    let conditions = conditions.into_json();
    controller.write_status(&deployment, &json!({"conditions": conditions})).await;
    deployment["status"]["conditions"] = conditions;
    deployment
}

/// Returns the old replica sets without pods that exceed `revisionHistoryLimit`, the oldest first; none before the
/// rollout is done.
fn beyond_history<'a>(deployment: &Value, sets: &'a [Value]) -> Vec<&'a Value> {
    let Some(limit) = deployment.pointer("/spec/revisionHistoryLimit").and_then(Value::as_i64) else {
        return Vec::new();
    };
    let wanted = desired_replicas(deployment);
    let is_new = |set: &&Value| same_template(set, deployment);
    if sets.iter().find(is_new).is_none_or(|new| count(new, "/status/availableReplicas") != wanted) {
        return Vec::new();
    }
    let empty = |set: &&Value| {
        count(set, "/spec/replicas") == 0 && count(set, "/status/replicas") == 0 && !is_deleted(set) && !is_new(set)
    };
    let mut old: Vec<&Value> = sets.iter().filter(empty).collect();
    old.sort_by_key(|set| revision(set));
    let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    old.truncate(surplus);
    old
}

/// Returns a hash of the template in the alphabet of generated names.
pub(super) fn template_hash(template: &Value) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = template.to_string();
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

/// Creates the replica set of the present template. Returns its name, and why it cannot be created.
async fn create_set(controller: &NamespaceController, deployment: &Value, sets: &[Value]) -> (String, Option<String>) {
    let hash = template_hash(&deployment["spec"]["template"]);
    let name = metadata::name(deployment);
    let mut template = deployment["spec"]["template"].clone();
    metadata::set_label(&mut template, HASH_LABEL, hash.as_str());
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH_LABEL] = json!(hash);
    let next = sets.iter().map(revision).max().unwrap_or(0) + 1;
    let existing: i64 = sets.iter().map(|set| count(set, "/spec/replicas")).sum();
    let (surge, _) = resolve_fenceposts(deployment);
    let room = (desired_replicas(deployment) + surge - existing).clamp(0, desired_replicas(deployment));
    let replicas = if !is_rolling(deployment) && existing > 0 { 0 } else { room };
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": format!("{name}-{hash}"), "namespace": controller.namespace, "labels": template["metadata"]["labels"],
            "annotations": set_annotations(deployment, next), "ownerReferences": controller.owner_references(deployment)},
        "spec": {"replicas": replicas, "minReadySeconds": count(deployment, "/spec/minReadySeconds"), "selector": selector,
            "template": template}});
    let path = format!("/apis/apps/v1/namespaces/{}/replicasets", controller.namespace);
    let response = controller.agent.create(&path, &set).await;
    let set = metadata::name(&set).to_owned();
    // One that exists is found in the next round.
    (
        set,
        (!response.is_ok() && response.code != 409 && !response.is_for_ending_namespace()).then(|| response.message()),
    )
}

/// Returns the Deployment's annotations (such as the change cause) with the revision and the sizes added.
fn set_annotations(deployment: &Value, revision: i64) -> Value {
    let own = metadata::annotations(deployment).into_iter().flatten();
    let kept = own.filter(|(name, _)| !NOT_COPIED.contains(&name.as_str()));
    let mut all: Map = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    all.insert(REVISION, json!(revision.to_string()));
    all.extend(size_annotations(deployment));
    Value::Object(all)
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
    if set_annotations(deployment, wanted)
        .as_object()
        .into_iter()
        .flatten()
        .any(|(k, v)| new["metadata"]["annotations"][k] != *v)
        || delay(new) != delay(deployment)
    {
        let patch = json!({"metadata": {"annotations": set_annotations(deployment, wanted)},
            "spec": {"minReadySeconds": delay(deployment)}});
        let path = format!("/apis/apps/v1/namespaces/{}/replicasets/{}", controller.namespace, metadata::name(new));
        controller.agent.patch(&path, MERGE_PATCH, &patch).await;
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

async fn scale(controller: &NamespaceController, deployment: &Value, set: &Value, replicas: i64) {
    let name = metadata::name(set);
    let path = format!("/apis/apps/v1/namespaces/{}/replicasets/{name}", controller.namespace);
    let annotations: Map = size_annotations(deployment).into_iter().collect();
    let patch = json!({"metadata": {"annotations": Value::Object(annotations)}, "spec": {"replicas": replicas}});
    controller.agent.patch(&path, MERGE_PATCH, &patch).await;
}

/// Returns the replica sets to scale now, with their new sizes.
fn next_replicas<'a>(deployment: &Value, new: &'a Value, sets: &'a [Value]) -> Vec<(&'a Value, i64)> {
    let wanted = desired_replicas(deployment);
    let size = |set: &Value| count(set, "/spec/replicas");
    let old: Vec<&Value> =
        sets.iter().filter(|set| metadata::uid(set) != metadata::uid(new) && size(set) > 0).collect();
    let old_size: i64 = old.iter().map(|set| size(set)).sum();
    let new_size = size(new);
    if !is_rolling(deployment) {
        let left = sets.iter().filter(|set| metadata::uid(set) != metadata::uid(new));
        let running: i64 = left.map(|set| count(set, "/status/replicas")).sum();
        let mut changes: Vec<(&Value, i64)> = old.into_iter().map(|set| (set, 0)).collect();
        if changes.is_empty() && running == 0 && new_size != wanted {
            changes.push((new, wanted));
        }
        return changes;
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
    oldest_first.sort_by_key(|(set, _)| revision(set));
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
    use super::*;
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

    #[rstest]
    #[case(0, &["a", "b"])]
    #[case(1, &["a"])]
    #[case(2, &[])]
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
}
