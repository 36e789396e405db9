//! A controller on kube 2, which is three major versions older than the one of Plumbline's test kit: it keeps a
//! ConfigMap with the number of pods of each Service.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi_old::api::core::v1::{ConfigMap, Pod, Service};
use kube_old::api::{Api, ListParams, Patch, PatchParams};
use kube_old::runtime::controller::{Action, Controller};
use kube_old::runtime::watcher;
use kube_old::{Client, Error, Resource as _, ResourceExt as _};
use serde_json::json;

/// Runs the controller until its streams end.
pub async fn run(client: Client) {
    Controller::new(Api::<Service>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(10)), Arc::new(client))
        .for_each(|_| async {})
        .await;
}

async fn reconcile(service: Arc<Service>, client: Arc<Client>) -> Result<Action, Error> {
    let name = service.name_any();
    let namespace = service.namespace().unwrap_or_default();
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
    let labels: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let pods = Api::<Pod>::namespaced(client.as_ref().clone(), &namespace);
    let count = pods.list(&ListParams::default().labels(&labels.join(","))).await?.items.len();
    let owner = service.controller_owner_ref(&()).map(|owner| vec![owner]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owner},
        "data": {"pods": count.to_string()}});
    let maps = Api::<ConfigMap>::namespaced(client.as_ref().clone(), &namespace);
    maps.patch(&name, &PatchParams::apply("counter").force(), &Patch::Apply(&map)).await?;
    Ok(Action::requeue(Duration::from_mins(1)))
}
