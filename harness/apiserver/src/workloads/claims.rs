//! The volume claims of stateful sets: one for each pod and template, kept when the pod is replaced.
//!
//! See `pkg/controller/statefulset/stateful_set_utils.go` and `stateful_pod_control.go` of Kubernetes 1.36.

use super::namespace_controller::NamespaceController;
use crate::controllers::MERGE_PATCH;
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata;
use crate::store::ResourceId;

/// The resource of claims.
const CLAIMS: &str = "persistentvolumeclaims";
/// The field of a set with the templates of its claims.
const TEMPLATES: &str = "volumeClaimTemplates";

/// The retention policy of the claims of a set: `persistentVolumeClaimRetentionPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retention {
    /// They are deleted with the set.
    with_set: bool,
    /// They are deleted with a pod that the set no longer wants.
    with_pod: bool,
}

impl Retention {
    fn of(set: &Value) -> Self {
        let is_delete = |field: &str| set["spec"]["persistentVolumeClaimRetentionPolicy"][field] == "Delete";
        Self { with_set: is_delete("whenDeleted"), with_pod: is_delete("whenScaled") }
    }
}

/// The policy of sets that leave their claims alone.
const RETAIN: Retention = Retention { with_set: false, with_pod: false };

/// Returns true if an owner has the name of the set or the pod, but is an earlier one: `hasStaleOwnerRef`. Its claim is
/// left to the garbage collector.
fn is_stale(owners: &[Value], set: &Value, pod: &Value) -> bool {
    [("apps/v1", "StatefulSet", set), ("v1", "Pod", pod)].into_iter().any(|(version, kind, object)| {
        let is_namesake =
            |owner: &Value| metadata::refers_to(owner, version, kind) && owner["name"] == metadata::name(object);
        owners.iter().any(|owner| is_namesake(owner) && owner["uid"] != metadata::uid(object))
    })
}

/// Returns the name of the claim of a template for the pod `pod`.
fn claim_name(template: &Value, pod: &str) -> String {
    format!("{}-{pod}", metadata::name(template))
}

/// Returns the claims that the pod of this name needs.
fn claims(set: &Value, pod: &str) -> Vec<Value> {
    let selector = set["spec"]["selector"]["matchLabels"].as_object();
    let claim = |template: &Value| {
        let mut claim = template.clone();
        if let Some(claim) = claim.as_object_mut() {
            claim.remove("status");
            claim.insert("apiVersion", "v1".into());
            claim.insert("kind", "PersistentVolumeClaim".into());
        }
        metadata::set(&mut claim, "name", claim_name(template, pod));
        metadata::set(&mut claim, "namespace", metadata::namespace(set));
        for (key, value) in selector.into_iter().flatten() {
            metadata::set_label(&mut claim, key, value.clone());
        }
        claim
    };
    array_field(&set["spec"], TEMPLATES).iter().map(claim).collect()
}

/// Gives the pod the volumes of its claims. A volume of the template with the name of a claim is replaced.
pub(super) fn add_volumes(set: &Value, pod: &mut Value) {
    let templates = array_field(&set["spec"], TEMPLATES);
    if templates.is_empty() {
        return;
    }
    let name = metadata::name(pod).to_owned();
    let mut volumes: Vec<Value> = templates
        .iter()
        .map(|template| {
            let claim = json!({"claimName": claim_name(template, &name), "readOnly": false});
            json!({"name": metadata::name(template), "persistentVolumeClaim": claim})
        })
        .collect();
    let is_claim = |volume: &Value| templates.iter().any(|template| volume["name"] == metadata::name(template));
    volumes.extend(array_field(&pod["spec"], "volumes").iter().filter(|volume| !is_claim(volume)).cloned());
    pod["spec"]["volumes"] = volumes.into();
}

/// Creates the claims of a pod that do not exist. Returns false if one cannot be created: the pod comes after them.
pub(super) async fn create_missing(controller: &NamespaceController, set: &Value, pod: &str) -> bool {
    let resource = ResourceId::new("", CLAIMS);
    let policy = Retention::of(set);
    let mut all = true;
    for mut claim in claims(set, pod) {
        let name = metadata::name(&claim).to_owned();
        if controller.agent.server().get(&resource, &controller.namespace, &name).is_none() {
            if policy.with_set {
                metadata::set(&mut claim, "ownerReferences", controller.owner_references(set));
            }
            let response = controller.agent.create(&controller.core_path(CLAIMS, ""), &claim).await;
            all &= response.is_ok();
            let set_name = metadata::name(set);
            if response.is_ok() {
                let message = format!("Create Claim {name} Pod {pod} in StatefulSet {set_name} success");
                controller.record_success(set, "SuccessfulCreate", message);
            } else if !response.is_for_ending_namespace() {
                let error = response.message();
                let message =
                    format!("Create Claim {name} for Pod {pod} in StatefulSet {set_name} failed error: {error}");
                controller.record(set, "FailedCreate", message);
            }
        }
    }
    all
}

/// Makes the claims of a pod belong to what they are deleted with: the set, or the pod once the set does not want it.
pub(super) async fn update_owners(controller: &NamespaceController, set: &Value, pod: &Value, is_wanted: bool) {
    let resource = ResourceId::new("", CLAIMS);
    let policy = Retention::of(set);
    for template in array_field(&set["spec"], TEMPLATES) {
        let name = claim_name(template, metadata::name(pod));
        let Some(claim) =
            controller.agent.server().get(&resource, &controller.namespace, &name).map(|it| controller.decoded(&it))
        else {
            continue;
        };
        let known = metadata::owner_references(&claim);
        if is_stale(known, set, pod) {
            continue;
        }
        let of_others = |owner: &&Value| owner["uid"] != metadata::uid(set) && owner["uid"] != metadata::uid(pod);
        let mut owners: Vec<Value> = known.iter().filter(of_others).cloned().collect();
        if policy != RETAIN && owners.iter().any(|owner| owner["controller"] == true) {
            let message = format!(
                "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, the \
                 retention policy is ignored for this claim"
            );
            controller.record(set, "ConflictingController", message);
        } else if policy.with_pod && !is_wanted {
            owners.push(
                json!({"apiVersion": "v1", "kind": "Pod", "name": metadata::name(pod), "uid": metadata::uid(pod),
                "controller": true, "blockOwnerDeletion": true}),
            );
        } else if policy.with_set {
            owners.extend(controller.owner_references(set).as_array().cloned().unwrap_or_default());
        }
        if owners != known {
            let owners = if owners.is_empty() { Value::Null } else { Value::Array(owners) };
            let patch = json!({"metadata": {"uid": metadata::uid(&claim), "ownerReferences": owners,
                "resourceVersion": metadata::resource_version(&claim)}});
            controller.agent.patch(&controller.core_path(CLAIMS, &name), MERGE_PATCH, &patch).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::controllers::ControllerClient;
    use crate::garbage_collector;
    use crate::kubelet::{self, KubeletOptions};
    use crate::server::ApiServer;

    const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

    /// Returns a server on which a set of two pods with a claim each has come to rest.
    async fn world(policy: Value) -> (ApiServer, ControllerClient) {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        server.seed([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).expect("seeded");
        tokio::spawn(super::super::run_workload_controllers(server.clone()));
        tokio::spawn(kubelet::run(server.clone(), KubeletOptions::default()));
        tokio::spawn(garbage_collector::collect_garbage(server.clone(), Duration::ZERO));
        tokio::spawn(crate::volumes::release_volumes(server.clone()));
        let client = ControllerClient::new(&server, "user");
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {
            "replicas": 2, "serviceName": "s", "selector": {"matchLabels": {"app": "s"}},
            "persistentVolumeClaimRetentionPolicy": policy,
            "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"tier": "db"}}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
            "template": {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "a"}],
                "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]}}}});
        let created = client.create(SETS, &set).await;
        assert!(created.is_ok(), "{}", created.body());
        server.clock().sleep(Duration::from_secs(30)).await;
        (server, client)
    }

    fn claims_of(server: &ApiServer) -> Vec<Value> {
        let all = server.list(&ResourceId::new("", "persistentvolumeclaims"), Some("default"));
        all.iter().map(|stored| stored.value()).collect()
    }

    fn names(server: &ApiServer) -> Vec<String> {
        claims_of(server).iter().map(|claim| metadata::name(claim).to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn each_pod_has_a_claim_that_outlives_it() {
        let (server, client) = world(json!({})).await;
        assert_eq!(names(&server), ["data-s-0", "data-s-1"]);
        let claim = &claims_of(&server)[0];
        assert_eq!(claim["metadata"]["labels"], json!({"app": "s", "tier": "db"}));
        assert!(metadata::owner_references(claim).is_empty());
        let pod = server.get(&ResourceId::new("", "pods"), "default", "s-0").expect("a pod").value();
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-s-0"}},
            {"name": "tmp", "emptyDir": {}}]);
        assert_eq!(pod["spec"]["volumes"], volumes);
        client.patch(&format!("{SETS}/s"), MERGE_PATCH, &json!({"spec": {"replicas": 0}})).await;
        server.clock().sleep(Duration::from_mins(2)).await;
        assert!(client.delete(&format!("{SETS}/s"), None).await.is_ok());
        server.clock().sleep(Duration::from_mins(2)).await;
        assert_eq!(names(&server), ["data-s-0", "data-s-1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn claims_go_with_the_pod_or_the_set_if_the_policy_says_so() {
        let (server, client) = world(json!({"whenScaled": "Delete", "whenDeleted": "Delete"})).await;
        client.patch(&format!("{SETS}/s"), MERGE_PATCH, &json!({"spec": {"replicas": 1}})).await;
        server.clock().sleep(Duration::from_mins(2)).await;
        assert_eq!(names(&server), ["data-s-0"]);
        // A pod that is replaced keeps its claim.
        let uid = metadata::uid(&claims_of(&server)[0]).to_owned();
        assert!(client.delete("/api/v1/namespaces/default/pods/s-0", None).await.is_ok());
        server.clock().sleep(Duration::from_mins(2)).await;
        assert_eq!(metadata::uid(&claims_of(&server)[0]), uid);
        assert!(client.delete(&format!("{SETS}/s"), None).await.is_ok());
        server.clock().sleep(Duration::from_mins(2)).await;
        assert!(names(&server).is_empty(), "{:?}", names(&server));
    }

    /// `hasUnexpectedController` and `UpdatePodClaimForRetentionPolicy`.
    #[tokio::test(start_paused = true)]
    async fn a_claim_of_another_controller_is_left_alone() {
        let (server, client) = world(json!({"whenScaled": "Retain", "whenDeleted": "Delete"})).await;
        let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
        server.events().attach(sender);
        let node = server.get(&ResourceId::new("", "nodes"), "", "n").expect("a node");
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": node.uid(), "controller": true});
        let theirs = json!({"metadata": {"ownerReferences": [owner]}});
        let path = "/api/v1/namespaces/default/persistentvolumeclaims/data-s-0";
        assert!(client.patch(path, MERGE_PATCH, &theirs).await.is_ok());
        assert!(
            client.patch(&format!("{SETS}/s"), MERGE_PATCH, &json!({"metadata": {"labels": {"a": "b"}}})).await.is_ok()
        );
        server.clock().sleep(Duration::from_secs(1)).await;
        let claim = claims_of(&server).remove(0);
        assert_eq!(metadata::owner_references(&claim), [owner]);
        let event = events.try_recv().expect("an event");
        let message = "PersistentVolumeClaim data-s-0 has a conflicting OwnerReference that acts as a manging controller, \
                       the retention policy is ignored for this claim";
        assert_eq!((event.reason.as_str(), event.message.as_str()), ("ConflictingController", message));
    }
}
