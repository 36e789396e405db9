//! A kube client against a server in this process, in virtual time: a write, a watch, and an hour that passes at once.

use std::error::Error;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use plumbline_apiserver::ApiServer;
use plumbline_apiserver::clock::run_virtual;
use serde_json::json;

/// A writer that creates one config map per hour.
async fn write(maps: Api<ConfigMap>, server: ApiServer) -> Result<(), kube::Error> {
    for number in 1_u32.. {
        server.clock().sleep(Duration::from_hours(1)).await;
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("hour-{number}"));
        maps.create(&PostParams::default(), &map).await?;
    }
    Ok(())
}

async fn example() -> Result<Vec<String>, Box<dyn Error>> {
    let server = ApiServer::builder().seed(1).build();
    server.seed([json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "first"}})])?;

    let maps: Api<ConfigMap> = Api::default_namespaced(server.client("reader"));
    let version = maps.get("first").await?.metadata.resource_version.unwrap_or_default();
    tokio::spawn(write(Api::default_namespaced(server.client("writer")), server.clone()));

    let mut lines = Vec::new();
    let mut events = std::pin::pin!(maps.watch(&WatchParams::default(), &version).await?);
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Added(map) = event {
            let name = map.metadata.name.unwrap_or_default();
            lines.push(format!("t=+{}s {name}", server.clock().elapsed().as_secs()));
        }
        if lines.len() == 2 {
            break;
        }
    }
    lines.push(format!("{} entries in the record", server.transcript().len()));
    Ok(lines)
}

#[expect(clippy::print_stdout, reason = "this is the output of the example")]
fn main() -> Result<(), Box<dyn Error>> {
    for line in run_virtual(example())?? {
        println!("{line}");
    }
    Ok(())
}
