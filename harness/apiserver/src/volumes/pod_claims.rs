//! The claims that pods bring along: of ephemeral volumes, and from templates of resource claims. See
//! `pkg/controller/volume/ephemeral/controller.go` and `pkg/controller/resourceclaim/controller.go`.

use std::collections::BTreeSet;

use crate::backoff::Retries;
use crate::controllers::{ControllerClient, WatchMux, WatchSet};
use crate::event_sink::Event;
use crate::json::fields::{array_field, non_null, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::server::ApiServer;
use crate::store::ResourceId;

/// The annotation of a claim with its name in the pod.
const CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";

/// Longest beginning of a generated name.
const PREFIX_MAX: usize = 57;

/// Creates the claims of pods. Never returns.
pub async fn create_pod_claims(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/claim-controller");
    let pods = ResourceId::new("", "pods");
    let templates = ResourceId::new("resource.k8s.io", "resourceclaimtemplates");
    let mut feed = WatchMux::new(&server, WatchSet::Resources(vec![pods.clone(), templates]));
    let mut retries: Retries<(String, String)> = Retries::default();
    // Pods whose template does not exist.
    let mut waiting: BTreeSet<(String, String)> = BTreeSet::new();
    loop {
        let changes = feed.next_until(retries.next()).await;
        let mut due: BTreeSet<(String, String)> = retries.due(server.clock().now());
        for (resource, change) in changes {
            if change.is_deletion() {
                continue;
            }
            if resource == pods {
                due.extend(change.objects().iter().map(|pod| (pod.namespace().to_owned(), pod.name().to_owned())));
            } else {
                due.append(&mut waiting);
            }
        }
        for key in due {
            let Some(stored) = server.get(&pods, &key.0, &key.1) else { continue };
            let pod = server.decoded(&stored);
            if !metadata::is_deleted(&pod) {
                create_volume_claims(&agent, &pod).await;
                if !create_resource_claims(&agent, &pod).await {
                    waiting.insert(key.clone());
                }
            }
            let refused = agent.take_refusal();
            retries.settle(&key, refused, server.clock().now());
        }
    }
}

fn owner(pod: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": metadata::name(pod), "uid": metadata::uid(pod),
        "controller": true, "blockOwnerDeletion": true})
}

fn is_for_pod(claim: &Value, pod: &Value) -> bool {
    metadata::controller(claim).is_some_and(|owner| str_field(owner, "uid") == metadata::uid(pod))
}

/// The source of events about ephemeral volumes, and about claims of devices.
const COMPONENTS: [&str; 2] = ["ephemeral_volume", "resource_claim"];

fn warn(agent: &ControllerClient, pod: &Value, component: &'static str, reason: &str, message: String) {
    let about = json!({"apiVersion": "v1", "kind": "Pod", "namespace": metadata::namespace(pod),
        "name": metadata::name(pod), "uid": metadata::uid(pod)});
    agent.server().events().record(Event::warning(about, component, reason, message));
}

async fn create_volume_claims(agent: &ControllerClient, pod: &Value) {
    let namespace = metadata::namespace(pod);
    let server = agent.server();
    for volume in array_field(&pod["spec"], "volumes") {
        let Some(template) = non_null(volume, "ephemeral").and_then(|source| non_null(source, "volumeClaimTemplate"))
        else {
            continue;
        };
        let volume = str_field(volume, "name");
        let name = format!("{}-{volume}", metadata::name(pod));
        if let Some(known) = server.get(&ResourceId::new("", "persistentvolumeclaims"), namespace, &name) {
            if !is_for_pod(&known.value(), pod) {
                let why = format!(
                    "ephemeral volume {volume}: PVC {namespace}/{name} was not created for pod {namespace}/{} (pod is not owner)",
                    metadata::name(pod)
                );
                warn(agent, pod, COMPONENTS[0], "FailedBinding", why);
            }
            continue;
        }
        let mut metadata = json!({"name": name, "ownerReferences": [owner(pod)]});
        for field in ["annotations", "labels"] {
            if let Some(value) = non_null(&template["metadata"], field) {
                metadata[field] = value.clone();
            }
        }
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]});
        let reply = agent.create(&format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"), &claim).await;
        if !reply.is_ok() {
            let why = format!("ephemeral volume {volume}: create PVC {name}: {}", reply.message());
            warn(agent, pod, COMPONENTS[0], "FailedBinding", why);
        }
    }
}

/// Creates the resource claims of a pod and names them in its status. Returns false if a template is missing.
async fn create_resource_claims(agent: &ControllerClient, pod: &Value) -> bool {
    let namespace = metadata::namespace(pod);
    let server = agent.server();
    let mut statuses = array_field(&pod["status"], "resourceClaimStatuses").to_vec();
    let known = statuses.len();
    let mut complete = true;
    for claim in array_field(&pod["spec"], "resourceClaims") {
        let name = str_field(claim, "name");
        let template = str_field(claim, "resourceClaimTemplateName");
        if template.is_empty() || statuses.iter().any(|status| status["name"] == name) {
            continue;
        }
        let path = ResourceId::new("resource.k8s.io", "resourceclaimtemplates");
        let Some(stored) = server.get(&path, namespace, template) else {
            let why = format!(
                "PodResourceClaim {name}: resource claim template {template:?}: resourceclaimtemplate.resource.k8s.io {template:?} not found"
            );
            warn(agent, pod, COMPONENTS[1], "FailedResourceClaimCreation", why);
            complete = false;
            continue;
        };
        if let Some(created) = resource_claim(agent, pod, name, &server.decoded(&stored)).await {
            statuses.push(json!({"name": name, "resourceClaimName": created}));
        }
    }
    if statuses.len() > known {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}/status", metadata::name(pod));
        let patch = json!({"metadata": {"uid": metadata::uid(pod)}, "status": {"resourceClaimStatuses": statuses}});
        agent.patch(&path, crate::controllers::STRATEGIC_PATCH, &patch).await;
    }
    complete
}

/// Returns the name of a claim of the pod: one that it has already, or a new one.
async fn resource_claim(agent: &ControllerClient, pod: &Value, name: &str, template: &Value) -> Option<String> {
    let namespace = metadata::namespace(pod);
    let server = agent.server();
    let claims = server.list(&ResourceId::new("resource.k8s.io", "resourceclaims"), Some(namespace));
    let orphan = claims
        .iter()
        .map(|claim| server.decoded(claim))
        .find(|claim| is_for_pod(claim, pod) && metadata::annotation(claim, CLAIM_NAME) == Some(name));
    if let Some(orphan) = orphan {
        return Some(metadata::name(&orphan).to_owned());
    }
    let mut prefix = format!("{}-{name}", metadata::name(pod));
    prefix.truncate(prefix.floor_char_boundary(PREFIX_MAX - 1));
    let given = &template["spec"]["metadata"];
    let mut own = json!({"generateName": format!("{prefix}-"), "ownerReferences": [owner(pod)]});
    own["annotations"] = non_null(given, "annotations").cloned().unwrap_or_else(|| json!({}));
    own["annotations"][CLAIM_NAME] = name.into();
    if let Some(labels) = non_null(given, "labels") {
        own["labels"] = labels.clone();
    }
    let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": own,
        "spec": template["spec"]["spec"]});
    let reply = agent.create(&format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"), &claim).await;
    reply.is_ok().then(|| metadata::name(&reply.body()).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::faults::FaultRuleSpec;

    const NAMESPACE: &str = "/api/v1/namespaces/default";

    fn claims(server: &ApiServer, group: &str, plural: &str) -> Vec<Value> {
        server.list(&ResourceId::new(group, plural), Some("default")).iter().map(|stored| stored.value()).collect()
    }

    #[test]
    fn pods_bring_their_claims() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            tokio::spawn(create_pod_claims(server.clone()));
            let client = ControllerClient::new(&server, "user");
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
                "volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]}});
            assert!(client.create(&format!("{NAMESPACE}/pods"), &pod).await.is_ok());
            settle().await;
            let volumes = claims(&server, "", "persistentvolumeclaims");
            assert_eq!(volumes.len(), 1);
            assert_eq!((metadata::name(&volumes[0]), &volumes[0]["metadata"]["labels"]["a"]), ("p-data", &json!("b")));
            assert_eq!(volumes[0]["metadata"]["ownerReferences"][0]["kind"], "Pod");
            assert_eq!(claims(&server, "resource.k8s.io", "resourceclaims").len(), 0, "the template is missing");

            let template = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "t"},
                "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x"}}]}}}});
            let path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
            assert!(client.create(path, &template).await.is_ok());
            settle().await;
            let made = claims(&server, "resource.k8s.io", "resourceclaims");
            assert_eq!(made.len(), 1);
            assert!(metadata::name(&made[0]).starts_with("p-gpu-"), "{}", made[0]);
            assert_eq!(metadata::annotation(&made[0], CLAIM_NAME), Some("gpu"));
            let pod = claims(&server, "", "pods").remove(0);
            let shown = &pod["status"]["resourceClaimStatuses"];
            assert_eq!(*shown, json!([{"name": "gpu", "resourceClaimName": metadata::name(&made[0])}]));
        })
        .unwrap();
    }

    // https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/volume/ephemeral/controller.go#L296-L300
    #[test]
    fn refused_claims_have_an_event() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            tokio::spawn(crate::events::publish_events(server.clone()));
            tokio::spawn(create_pod_claims(server.clone()));
            let rule = serde_json::json!({"on": {"verbs": ["create"], "group": "", "resource": "persistentvolumeclaims"},
                "count": 1, "verdict": {"reply": {"code": 403, "message": "exceeded quota: q"}}});
            server.faults().arm(serde_json::from_value::<FaultRuleSpec>(rule).expect("a rule").into());
            let client = ControllerClient::new(&server, "user");
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]}});
            assert!(client.create(&format!("{NAMESPACE}/pods"), &pod).await.is_ok());
            settle().await;
            let events = claims(&server, "", "events");
            let shown = events.iter().map(|event| [&event["source"]["component"], &event["reason"], &event["message"]]);
            let why = "ephemeral volume data: create PVC p-data: exceeded quota: q";
            assert_eq!(shown.collect::<Vec<_>>(), [["ephemeral_volume", "FailedBinding", why]]);
        })
        .unwrap();
    }
}
