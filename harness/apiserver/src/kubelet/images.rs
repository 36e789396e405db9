//! Images that cannot be pulled, and the pods that wait for them. PURE. See `pkg/kubelet/images/image_manager.go` and
//! `GenerateContainersReadyCondition` in `pkg/kubelet/status/generate.go`.

use crate::glob::glob;
use crate::json::fields::array_field;
use crate::json::{Value, json};

/// The reason of a container that waits for its image.
const WAITING: &str = "ImagePullBackOff";

/// Returns true if an image matches one of the patterns, in which `*` is any text.
fn is_missing(image: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| glob(pattern, image))
}

/// Returns true if a pod's status says that it waits for images, and one of them is still missing.
pub(super) fn are_awaited(pod: &Value, patterns: &[String]) -> bool {
    let containers = array_field(&pod["spec"], "containers");
    array_field(&pod["status"], "containerStatuses").iter().any(|status| {
        let image = containers.iter().find(|container| container["name"] == status["name"]);
        status.pointer("/state/waiting/reason").is_some_and(|reason| reason == WAITING)
            && image.is_some_and(|container| {
                container["image"] == status["image"]
                    && is_missing(container["image"].as_str().unwrap_or_default(), patterns)
            })
    })
}

/// Changes the status of a running pod to that of one some of whose images are missing.
pub(super) fn wait_for(status: &mut Value, patterns: &[String]) {
    let mut waiting = Vec::new();
    for container in status["containerStatuses"].as_array_mut().into_iter().flatten() {
        let image = container["image"].as_str().unwrap_or_default().to_owned();
        if is_missing(&image, patterns) {
            waiting.push(container["name"].as_str().unwrap_or_default().to_owned());
            for field in ["ready", "started"] {
                container[field] = json!(false);
            }
            container["imageID"] = json!("");
            container["containerID"] = json!("");
            container["state"] =
                json!({"waiting": {"reason": WAITING, "message": format!("Back-off pulling image {image:?}")}});
        }
    }
    if waiting.is_empty() {
        return;
    }
    status["phase"] = json!("Pending");
    let message = format!("containers with unready status: [{}]", waiting.join(" "));
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if matches!(condition["type"].as_str(), Some("Ready" | "ContainersReady")) {
            condition["status"] = json!("False");
            condition["reason"] = json!("ContainersNotReady");
            condition["message"] = json!(message);
        }
    }
}

/// Removes the reasons of conditions that a pod no longer has, in a patch of its status.
pub(super) fn clear_reasons(status: &mut Value, pod: &Value) {
    let before = array_field(&pod["status"], "conditions");
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        let known = before.iter().find(|known| known["type"] == condition["type"]);
        for field in ["reason", "message"] {
            if condition.get(field).is_none() && known.is_some_and(|known| known.get(field).is_some()) {
                condition[field] = Value::Null;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{Clock, epoch, run_virtual};
    use crate::controllers::{ControllerClient, STRATEGIC_PATCH};
    use crate::kubelet::{KubeletOptions, run};
    use crate::server::{ApiServer, ApiServerConfig};
    use crate::store::ResourceId;

    #[test]
    fn a_pod_waits_for_its_image() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            server.seed([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).expect("seeded");
            let missing_images = vec!["*:broken".to_owned()];
            tokio::spawn(run(server.clone(), KubeletOptions { missing_images, ..KubeletOptions::default() }));
            let client = ControllerClient::new(&server, "user");
            let containers = json!([{"name": "good", "image": "web:1"}, {"name": "bad", "image": "web:broken"}]);
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"nodeName": "n", "containers": containers}});
            assert!(client.create("/api/v1/namespaces/default/pods", &pod).await.is_ok());
            server.clock().sleep(Duration::from_mins(1)).await;
            let read = || server.get(&ResourceId::new("", "pods"), "default", "p").expect("the pod").value();
            let waiting = read();
            assert_eq!(waiting["status"]["phase"], "Pending");
            assert_eq!(waiting["status"]["containerStatuses"][0]["ready"], true);
            assert_eq!(waiting["status"]["containerStatuses"][1]["state"]["waiting"]["reason"], WAITING);
            let conditions = array_field(&waiting["status"], "conditions");
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready").expect("Ready");
            assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("ContainersNotReady")));

            server.clock().sleep(Duration::from_mins(1)).await;
            assert_eq!(read(), waiting, "its status is written once");
            let other = json!({"spec": {"containers": [{"name": "bad", "image": "web:2"}]}});
            client.patch("/api/v1/namespaces/default/pods/p", STRATEGIC_PATCH, &other).await;
            server.clock().sleep(Duration::from_secs(1)).await;
            let running = read();
            assert_eq!(running["status"]["phase"], "Running", "{running}");
            assert_eq!(running["status"]["containerStatuses"][1]["ready"], true);
            assert_eq!(running["status"]["podIP"], waiting["status"]["podIP"]);
            assert_eq!(running["status"]["podIP"], "10.1.0.1", "outside of the services' range");
            let conditions = array_field(&running["status"], "conditions");
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready").expect("Ready");
            assert_eq!((&ready["status"], ready.get("reason")), (&json!("True"), None));
        })
        .expect("a runtime");
    }
}
