//! A typical operator, as it would be without Plumbline: it keeps a Deployment and a ConfigMap for each [`Cache`], with
//! a finalizer, server-side apply, a status and Events. `tests/` shows how it is tested.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::watcher;
use kube::{Client, CustomResource, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const MANAGER: &str = "cachefleet";
const FINALIZER: &str = "example.org/cachefleet";

/// The desired state of a cache.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.org", version = "v1", kind = "Cache", namespaced, status = "CacheStatus")]
pub struct CacheSpec {
    /// Number of pods.
    #[schemars(range(min = 0, max = 9))]
    pub replicas: i32,
}

/// The observed state of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct CacheStatus {
    /// `Progressing` or `Ready`.
    pub phase: String,
}

/// Failures of a reconcile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused a request.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// The finalizer could not be set or removed, or the clean-up failed.
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<Self>>),
}

struct Context {
    client: Client,
    recorder: Recorder,
}

/// Runs the operator until its streams end.
pub async fn run(client: Client) {
    let recorder = Recorder::new(client.clone(), Reporter::from(MANAGER));
    let context = Arc::new(Context { client: client.clone(), recorder });
    Controller::new(Api::<Cache>::all(client.clone()), watcher::Config::default())
        .owns(Api::<Deployment>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(10)), context)
        .for_each(|_| async {})
        .await;
}

async fn reconcile(cache: Arc<Cache>, context: Arc<Context>) -> Result<Action, Error> {
    let api = Api::<Cache>::namespaced(context.client.clone(), &cache.namespace().unwrap_or_default());
    let done = finalizer(&api, FINALIZER, cache, |event| async {
        match event {
            finalizer::Event::Apply(cache) => apply(&cache, &context).await,
            finalizer::Event::Cleanup(cache) => clean_up(&cache, &context).await,
        }
    });
    Ok(done.await.map_err(Box::new)?)
}

async fn apply(cache: &Cache, context: &Context) -> Result<Action, Error> {
    let name = cache.name_any();
    let namespace = cache.namespace().unwrap_or_default();
    let client = &context.client;
    let parameters = PatchParams::apply(MANAGER).force();
    let owner = cache.controller_owner_ref(&()).map(|owner| vec![owner]);
    let meta = json!({"name": name, "ownerReferences": owner});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"size": "64Mi"}});
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    maps.patch(&name, &parameters, &Patch::Apply(&map)).await?;
    let labels = json!({"cache": name});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {
            "replicas": cache.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "cache", "image": "memcached"}]},
            },
        },
    });
    let deployments = Api::<Deployment>::namespaced(client.clone(), &namespace);
    let deployment = deployments.patch(&name, &parameters, &Patch::Apply(&deployment)).await?;
    let ready = deployment.status.and_then(|status| status.ready_replicas).unwrap_or_default();
    let phase = if ready == cache.spec.replicas { "Ready" } else { "Progressing" };
    let status = CacheStatus { phase: phase.to_owned() };
    if cache.status.as_ref() != Some(&status) {
        let caches = Api::<Cache>::namespaced(client.clone(), &namespace);
        let patch = json!({"apiVersion": "example.org/v1", "kind": "Cache", "status": status});
        caches.patch_status(&name, &parameters, &Patch::Apply(&patch)).await?;
        let event = Event {
            type_: EventType::Normal,
            reason: phase.to_owned(),
            note: Some(format!("{ready} of {} pods are ready", cache.spec.replicas)),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        context.recorder.publish(&event, &cache.object_ref(&())).await?;
    }
    Ok(Action::requeue(Duration::from_mins(5)))
}

/// Deletes what the garbage collector would delete later.
async fn clean_up(cache: &Cache, context: &Context) -> Result<Action, Error> {
    let namespace = cache.namespace().unwrap_or_default();
    let maps = Api::<ConfigMap>::namespaced(context.client.clone(), &namespace);
    match maps.delete(&cache.name_any(), &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        result => drop(result?),
    }
    Ok(Action::await_change())
}
