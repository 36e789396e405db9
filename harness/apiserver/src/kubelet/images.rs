//! Images that cannot be pulled. PURE. See `pkg/kubelet/images/image_manager.go`.

use crate::glob::glob;

/// The reason of a container that waits for its image.
pub(super) const WAITING: &str = "ImagePullBackOff";

/// Returns true if an image matches one of the patterns, in which `*` is any text.
pub(super) fn is_missing(image: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| glob(pattern, image))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{Clock, epoch, run_virtual};
    use crate::controllers::{ControllerClient, STRATEGIC_PATCH};
    use crate::json::fields::array_field;
    use crate::json::json;
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
