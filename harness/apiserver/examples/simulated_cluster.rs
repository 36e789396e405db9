//! A Deployment becomes ready in virtual time: the workload controllers make its pods, the scheduler binds them, and
//! the kubelets report them ready.

use std::error::Error;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, PostParams};
use plumbline_apiserver::clock::{run_virtual, settle};
use plumbline_apiserver::{ApiServer, kubelet, workloads};
use serde_json::json;

async fn example() -> Result<Vec<String>, Box<dyn Error>> {
    let server = ApiServer::builder().build();
    // Seeded nodes do not pass admission, so they have no taint `not-ready`.
    server.seed(["n1", "n2"].map(|name| {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    }))?;
    tokio::spawn(workloads::run_workload_controllers(server.clone()));
    tokio::spawn(kubelet::run(server.clone(), kubelet::KubeletOptions::default()));

    let deployments: Api<Deployment> = Api::default_namespaced(server.client("user"));
    let web = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    }))?;
    deployments.create(&PostParams::default(), &web).await?;

    server.clock().sleep(Duration::from_secs(5)).await;
    settle().await;
    let status = deployments.get("web").await?.status.unwrap_or_default();
    let mut lines = vec![format!("ready: {} of 3", status.ready_replicas.unwrap_or_default())];
    let pods: Api<Pod> = Api::default_namespaced(server.client("user"));
    for pod in pods.list(&ListParams::default()).await? {
        let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        lines.push(format!("{} on {node}", pod.metadata.name.unwrap_or_default()));
    }
    Ok(lines)
}

#[expect(clippy::print_stdout, reason = "this is the output of the example")]
fn main() -> Result<(), Box<dyn Error>> {
    for line in run_virtual(example())?? {
        println!("{line}");
    }
    Ok(())
}
