//! The scales of the pods' owners as they follow from the objects, for built-in kinds and those of custom resource
//! definitions.
//!
//! Sources: `pkg/controller/disruption/disruption.go` (`getPodReplicaSet`, `getPodDeployment`, `getScaleController`),
//! and the texts of its errors.

use crate::expect::world::ObjectStates;
use crate::metadata::{self, controller};
use serde_json::Value;

/// The scale of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerScale {
    /// UID of the owner, or of the Deployment above it, and the replicas that count.
    Found(String, i64),
    /// No scale can be found, for a reason that begins with this text.
    Failed(String),
    /// The owner is of a kind about which the objects say nothing.
    Unknown,
}

/// The begin of the reason if there is no object of the owner's name and UID.
const MISSING: &str = "found no controllers for pod ";

/// Built-in kinds without the scale subresource, their versions, and their resources.
const WITHOUT_SCALE: [(&str, &str, &str); 3] =
    [("ConfigMap", "v1", "configmaps"), ("DaemonSet", "apps/v1", "daemonsets.apps"), ("Job", "batch/v1", "jobs.batch")];

/// Returns the scale of an owner, which an owner reference of a pod names. Custom kinds, which the controllers read
/// when they need them and do not watch, are known only if nothing disturbs the run, which is `calm` then.
#[must_use]
pub fn scale(world: &ObjectStates, namespace: Option<&str>, owner: &Value, calm: bool) -> OwnerScale {
    let (Some(kind), Some(version)) = (owner["kind"].as_str(), owner["apiVersion"].as_str()) else {
        return OwnerScale::Unknown;
    };
    if version.matches('/').count() > 1 {
        return OwnerScale::Failed(format!("unexpected GroupVersion string: {version}"));
    }
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let plural = match (kind, group) {
        ("ReplicaSet", "apps" | "extensions") => "replicasets",
        ("StatefulSet", "apps") => "statefulsets",
        ("ReplicationController", "") => "replicationcontrollers",
        _ if calm => return custom_scale(world, namespace, owner, (kind, version, group)),
        _ => return OwnerScale::Unknown,
    };
    let Some(found) = named(world, plural, namespace, owner) else { return OwnerScale::Failed(MISSING.to_owned()) };
    let above = controller(found).filter(|above| plural == "replicasets" && is_deployment(above));
    let deployment = above.and_then(|above| named(world, "deployments", namespace, above));
    match (metadata::uid(deployment.unwrap_or(found)), deployment.unwrap_or(found)["spec"]["replicas"].as_i64()) {
        (Some(uid), Some(replicas)) => OwnerScale::Found(uid.to_owned(), replicas),
        _ => OwnerScale::Unknown,
    }
}

fn is_deployment(owner: &Value) -> bool {
    let version = owner["apiVersion"].as_str().unwrap_or_default();
    owner["kind"] == "Deployment" && (version.starts_with("apps/") || version.starts_with("extensions/"))
}

/// Returns the object of the name and UID of an owner reference.
fn named<'w>(world: &'w ObjectStates, plural: &'w str, namespace: Option<&str>, owner: &Value) -> Option<&'w Value> {
    let mut all = world.all(plural);
    let is_owner = |object: &Value| metadata::uid(object) == owner["uid"].as_str();
    let (_, object) = all
        .find(|(key, object)| key.namespace.as_deref() == namespace && key.name == owner["name"] && is_owner(object))?;
    Some(object)
}

/// Returns the scale of an owner whose kind a custom resource definition declares. Other kinds of groups that are not
/// Kubernetes' own are not served.
fn custom_scale(
    world: &ObjectStates,
    namespace: Option<&str>,
    owner: &Value,
    (kind, version, group): (&str, &str, &str),
) -> OwnerScale {
    if let Some((.., resource)) =
        WITHOUT_SCALE.iter().find(|(known, in_version, _)| (*known, *in_version) == (kind, version))
    {
        return OwnerScale::Failed(format!("{resource} does not implement the scale subresource"));
    }
    if !group.contains('.') || group.ends_with(".k8s.io") {
        return OwnerScale::Unknown;
    }
    let declares = |crd: &Value| crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == kind;
    let mut crds = world.all("customresourcedefinitions").filter(|(_, crd)| declares(crd));
    let served = crds.find_map(|(_, crd)| {
        let name = version.rsplit('/').next().unwrap_or_default();
        let versions = crd["spec"]["versions"].as_array()?;
        let found = versions.iter().find(|found| found["name"] == name && found["served"] != false)?;
        Some((crd["spec"]["names"]["plural"].as_str()?, &found["subresources"]["scale"]["specReplicasPath"]))
    });
    let Some((plural, path)) = served else {
        return OwnerScale::Failed(format!("no matches for kind \"{kind}\" in version \"{version}\""));
    };
    // A name that cannot be part of a path is not sent.
    let name = owner["name"].as_str().unwrap_or_default();
    if name.contains(['/', '%']) || name == "." || name == ".." {
        return OwnerScale::Failed(format!("invalid resource name \"{name}\""));
    }
    let Some(path) = path.as_str() else {
        return OwnerScale::Failed(format!("{plural}.{group} does not implement the scale subresource"));
    };
    let Some(found) = named(world, plural, namespace, owner) else { return OwnerScale::Failed(MISSING.to_owned()) };
    // A change of its scale alone leads to no sync.
    if metadata::generation(found).is_some_and(|generation| generation > 1) {
        return OwnerScale::Unknown;
    }
    // A path that the object lacks counts as zero.
    let replicas = found.pointer(&path.replace('.', "/")).map_or(Some(0), Value::as_i64);
    match (metadata::uid(found), replicas) {
        (Some(uid), Some(replicas)) => OwnerScale::Found(uid.to_owned(), replicas),
        _ => OwnerScale::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::expect::Run;
    use crate::transcript::RecordedJson;

    fn world() -> ObjectStates {
        let named = |kind: &str, version: &str, rest: Value| {
            let mut object = json!({"apiVersion": version, "kind": kind, "spec": rest,
                "metadata": {"name": "web", "namespace": "default", "uid": kind}});
            if kind == "ReplicaSet" {
                let above = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "Deployment",
                    "controller": true});
                object["metadata"]["ownerReferences"] = json!([above]);
            }
            object
        };
        let crd = |kind: &str, plural: &str, subresources: Value| {
            let versions = json!([{"name": "v1", "served": true, "subresources": subresources}]);
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": plural},
                "spec": {"group": "x.io", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                    "versions": versions}})
        };
        let scale = json!({"scale": {"specReplicasPath": ".spec.size"}});
        let objects = [
            named("Deployment", "apps/v1", json!({"replicas": 5})),
            named("ReplicaSet", "apps/v1", json!({"replicas": 3})),
            named("StatefulSet", "apps/v1", json!({"replicas": 2})),
            crd("Scaled", "scaleds", scale),
            crd("Plain", "plains", json!({})),
            named("Scaled", "x.io/v1", json!({"size": 7})),
        ];
        let initial: Vec<RecordedJson> = objects.into_iter().map(Into::into).collect();
        let run = Run {
            start: jiff::Timestamp::UNIX_EPOCH,
            initial: &initial,
            entries: &[],
            marks: &[],
            replies: &[],
            scrapes: &[],
            end: Duration::ZERO,
            tolerance: Duration::ZERO,
            late: Duration::ZERO,
            deliveries: None,
        };
        ObjectStates::new(&run, "default")
    }

    #[rstest]
    #[case::through_its_deployment("apps/v1", "ReplicaSet", "ReplicaSet", "5")]
    #[case::its_own("apps/v1", "StatefulSet", "StatefulSet", "2")]
    #[case::custom("x.io/v1", "Scaled", "Scaled", "7")]
    #[case::of_another_uid("apps/v1", "StatefulSet", "other", MISSING)]
    #[case::custom_of_another_uid("x.io/v1", "Scaled", "other", MISSING)]
    #[case::without_scale("x.io/v1", "Plain", "u", "plains.x.io does not implement the scale subresource")]
    #[case::not_served("x.io/v2", "Scaled", "Scaled", "no matches for kind \"Scaled\" in version \"x.io/v2\"")]
    #[case::no_version("x.io/v1/v1", "Scaled", "Scaled", "unexpected GroupVersion string: x.io/v1/v1")]
    #[case::built_in("batch/v1", "Job", "u", "jobs.batch does not implement the scale subresource")]
    #[case::built_in_without_a_model("batch/v1", "CronJob", "u", "unknown")]
    fn owners_have_scales(#[case] version: &str, #[case] kind: &str, #[case] uid: &str, #[case] wanted: &str) {
        let owner = json!({"apiVersion": version, "kind": kind, "name": "web", "uid": uid});
        let found = match scale(&world(), Some("default"), &owner, true) {
            OwnerScale::Found(_, replicas) => replicas.to_string(),
            OwnerScale::Failed(reason) => reason,
            OwnerScale::Unknown => "unknown".to_owned(),
        };
        assert_eq!(found, wanted);
    }
}
