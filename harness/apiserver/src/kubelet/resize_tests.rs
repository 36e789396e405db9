//! Tests of resizes and of containers that are replaced, with the loop of the kubelets.

use std::time::Duration;

use crate::clock::{Clock, epoch, run_virtual, settle};
use crate::controllers::{ControllerClient, STRATEGIC_PATCH};
use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::kubelet::{KubeletOptions, run};
use crate::server::{ApiServer, ApiServerConfig};
use crate::store::ResourceId;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Runs a test with a node of two processors and the pods `a` and `b`, which request 1 and 0.5 of them.
fn with_pods(test: impl AsyncFnOnce(&ApiServer, &ControllerClient)) {
    run_virtual(async {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "9"}}});
        server.seed([node]).expect("seeded");
        tokio::spawn(crate::events::publish_events(server.clone()));
        tokio::spawn(run(server.clone(), KubeletOptions::default()));
        let client = ControllerClient::new(&server, "user");
        for (name, cpu) in [("a", "1"), ("b", "500m")] {
            let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}},
                "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]});
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"nodeName": "n", "containers": [container]}});
            assert!(client.create(PODS, &pod).await.is_ok());
        }
        server.clock().sleep(Duration::from_secs(2)).await;
        test(&server, &client).await;
    })
    .expect("a runtime");
}

async fn patch(client: &ControllerClient, path: &str, container: Value) {
    let mut container = container;
    container["name"] = json!("c");
    let patch = json!({"spec": {"containers": [container]}});
    let reply = client.patch(&format!("{PODS}/{path}"), STRATEGIC_PATCH, &patch).await;
    assert!(reply.is_ok(), "{}", reply.body());
    settle().await;
}

async fn resize(client: &ControllerClient, cpu: &str, memory: &str) {
    patch(client, "a/resize", json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}})).await;
}

fn status(server: &ApiServer) -> Value {
    server.get(&ResourceId::new("", "pods"), "default", "a").expect("a pod").value()["status"].clone()
}

/// Returns the processors that the container of `a` has, and those of the pod.
fn processors(server: &ApiServer) -> [Value; 3] {
    let status = status(server);
    let container = &status["containerStatuses"][0];
    [&container["resources"]["requests"], &container["allocatedResources"], &status["allocatedResources"]]
        .map(|amounts| amounts["cpu"].clone())
}

/// Returns the events of `a` about these reasons.
fn events(server: &ApiServer, reasons: &[&str]) -> Vec<String> {
    let all = server.list(&ResourceId::new("", "events"), Some("default"));
    let all = all.iter().map(|event| event.value()).filter(|event| event["involvedObject"]["name"] == "a");
    let mut shown: Vec<String> = all
        .filter(|event| reasons.contains(&str_field(event, "reason")))
        .map(|event| {
            let place = str_field(&event["involvedObject"], "fieldPath").to_owned();
            format!(
                "{} {} {place} {}",
                str_field(&event, "type"),
                str_field(&event, "reason"),
                str_field(&event, "message")
            )
        })
        .collect();
    shown.sort();
    shown
}

/// `handlePodResourcesResize` in `pkg/kubelet/allocation/allocation_manager.go`, and `TestRetryPendingResizes` there.
#[test]
fn a_resize_waits_for_room() {
    with_pods(async |server, client| {
        assert_eq!(processors(server), [json!("1"), json!("1"), json!("1")]);
        resize(client, "1500m", "1Mi").await;
        assert_eq!(processors(server), [json!("1500m"), json!("1500m"), json!("1500m")]);
        let containers = |cpu: &str| {
            format!(
                "{{\"containers\":[{{\"name\":\"c\",\"resources\":{{\"requests\":{{\"cpu\":\"{cpu}\",\"memory\":\"1Mi\"}}}}}}]"
            )
        };
        let resizes = ["ResizeStarted", "ResizeCompleted", "ResizeDeferred"];
        let mut expected = vec![
            format!("Normal ResizeCompleted  Pod resize completed: {},\"generation\":2}}", containers("1500m")),
            format!("Normal ResizeStarted  Pod resize started: {},\"generation\":2}}", containers("1500m")),
        ];
        assert_eq!(events(server, &resizes), expected);

        resize(client, "1800m", "1Mi").await;
        let why = "Node didn't have enough resource: cpu, requested: 1800, used: 500, capacity: 2000";
        let pending = |status: &Value| {
            let conditions = array_field(status, "conditions");
            conditions.iter().find(|one| one["type"] == "PodResizePending").cloned().unwrap_or_default()
        };
        let found = pending(&status(server));
        assert_eq!(
            (&found["status"], &found["reason"], &found["message"], &found["observedGeneration"]),
            (&json!("True"), &json!("Deferred"), &json!(why), &json!(3))
        );
        assert_eq!(processors(server), [json!("1500m"), json!("1500m"), json!("1500m")]);
        expected.push(format!(
            "Warning ResizeDeferred  Pod resize Deferred: {},\"generation\":3,\"error\":\"{why}\"}}",
            containers("1800m")
        ));
        assert_eq!(events(server, &resizes), expected);
        let revision = || server.get(&ResourceId::new("", "pods"), "default", "a").expect("a pod").revision();
        let before = revision();
        server.clock().sleep(Duration::from_mins(5)).await;
        assert_eq!(revision(), before, "nothing is written while it waits");

        assert!(client.delete(&format!("{PODS}/b?gracePeriodSeconds=0"), None).await.is_ok());
        server.clock().sleep(Duration::from_secs(1)).await;
        assert_eq!(processors(server), [json!("1800m"), json!("1800m"), json!("1800m")]);
        assert_eq!(pending(&status(server)), Value::Null);
        assert_eq!(events(server, &resizes).len(), 5);
        assert_eq!(status(server)["containerStatuses"][0]["restartCount"], 0);
    });
}

/// `computePodActions` in `pkg/kubelet/kuberuntime/kuberuntime_manager.go`.
#[test]
fn changed_containers_start_again() {
    with_pods(async |server, client| {
        resize(client, "1", "2Mi").await;
        let container = status(server)["containerStatuses"][0].clone();
        assert_eq!(
            (&container["restartCount"], &container["resources"]["requests"]["memory"]),
            (&json!(1), &json!("2Mi"))
        );
        let place = "spec.containers{c}";
        let mut expected = vec![format!("Normal Killing {place} Container c resize requires restart")];
        assert_eq!(events(server, &["Killing"]), expected);
        patch(client, "a", json!({"image": "j"})).await;
        let container = status(server)["containerStatuses"][0].clone();
        assert_eq!((&container["restartCount"], &container["image"]), (&json!(2), &json!("j")));
        expected.insert(0, format!("Normal Killing {place} Container c definition changed, will be restarted"));
        assert_eq!(events(server, &["Killing"]), expected);
    });
}
