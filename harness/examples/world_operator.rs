//! A typical operator, unmodified, and its tests with the test kit: custom resource, finalizer, owned objects,
//! server-side apply, status, Events. `cargo run -p plumbline --example world_operator` prints a transcript, and with
//! the argument `bench` the time that a test takes.

/// The operator: keeps a Deployment and a ConfigMap for each `Cache`.
mod operator {
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
    pub(crate) struct CacheSpec {
        /// Number of pods.
        #[schemars(range(min = 0, max = 9))]
        pub(crate) replicas: i32,
    }

    /// The observed state of a cache.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    pub(crate) struct CacheStatus {
        /// `Progressing` or `Ready`.
        pub(crate) phase: String,
    }

    /// Failures of a reconcile.
    #[derive(Debug, thiserror::Error)]
    pub(crate) enum Error {
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
    pub(crate) async fn run(client: Client) {
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
        let (name, namespace) = (cache.name_any(), cache.namespace().unwrap_or_default());
        let (client, parameters) = (&context.client, PatchParams::apply(MANAGER).force());
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
}

use operator::{Cache, CacheSpec};
use plumbline::time::Stopwatch;
use plumbline::world::Simulation::{Gc, Kubelets, Workloads};
use plumbline::world::{World, hours, minutes};

/// A cache becomes ready although the server fails three times, stays so without further writes, and leaves nothing
/// behind.
async fn life_of_a_cache(t: &World) -> plumbline::Result {
    t.simulate([Gc, Workloads, Kubelets(1)]);
    t.define::<Cache>().await?;
    t.fault("PATCH deployments/* 500")?.times(3);
    t.run("cachefleet", operator::run)?;
    t.create(&Cache::new("c0", CacheSpec { replicas: 2 })).await?;
    t.advance(hours(3)).await?;
    t.expect("match: { caches/c0: { status: { phase: Ready } } }, never: DELETE *")?;
    t.expect("count: { PATCH caches/c0/status 200: '<=2' }, events: [Normal Ready on caches/c0]")?;
    t.crash("cachefleet")?;
    t.delete("caches/c0").await?;
    t.advance(minutes(1)).await?;
    t.expect("exists: caches/c0")?;
    t.start("cachefleet")?;
    t.advance(minutes(1)).await?;
    t.expect("absent: [caches/c0, deployments/c0, configmaps/c0, pods/*]")
}

/// Caches are created, live for three hours, and are deleted.
async fn lives(t: &World, caches: usize) -> plumbline::Result {
    t.simulate([Gc, Workloads, Kubelets(1)]);
    t.define::<Cache>().await?;
    t.run("cachefleet", operator::run)?;
    for number in 0..caches {
        t.create(&Cache::new(&format!("c{number}"), CacheSpec { replicas: 2 })).await?;
    }
    t.advance(hours(3)).await?;
    for number in 0..caches {
        t.delete(&format!("caches/c{number}")).await?;
    }
    t.advance(minutes(1)).await?;
    t.expect("absent: [caches/*, deployments/*, pods/*]")
}

/// Prints the wall time per world.
#[expect(clippy::print_stdout, reason = "this is the output of the example")]
fn measure(name: &str, runs: u32, test: impl AsyncFn(&World) -> plumbline::Result) -> plumbline::Result {
    World::test(&test)?;
    let watch = Stopwatch::start();
    for _ in 0..runs {
        World::test(&test)?;
    }
    println!("{name:<48} {:8.3} ms", watch.elapsed().as_secs_f64() * 1000.0 / f64::from(runs));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is the output of the example")]
fn main() -> plumbline::Result {
    if std::env::args().nth(1).as_deref() == Some("bench") {
        measure("empty world", 1000, async |_| Ok(()))?;
        measure("definition, operator, 1 object, 3 h, deletion", 100, async |t| lives(t, 1).await)?;
        return measure("definition, operator, 10 objects, 3 h, deletion", 20, async |t| lives(t, 10).await);
    }
    World::test(async |t| {
        life_of_a_cache(t).await?;
        print!("{}", t.transcript());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_lives_and_dies() {
        World::test(life_of_a_cache).unwrap();
    }

    #[test]
    fn the_story_of_a_cache() {
        World::test(async |t| {
            life_of_a_cache(t).await?;
            insta::assert_snapshot!(t.transcript().of("cachefleet").changes(), @r"
            t=+0s       cachefleet     PATCH  caches/c0 200
                    metadata: +finalizers=[example.org/cachefleet]
            t=+0s       cachefleet     PATCH  configmaps/c0 201
            t=+20s      cachefleet     PATCH  deployments/c0 201
            t=+20s      cachefleet     PATCH  caches/c0/status 200
                    +status={phase: Progressing}
            t=+20s      cachefleet     POST   events 201
                    Normal Progressing about Cache/c0 » 0 of 2 pods are ready
            t=+20.5s    cachefleet     PATCH  caches/c0/status 200
                    status: phase Progressing→Ready
            t=+20.5s    cachefleet     POST   events 201
                    Normal Ready about Cache/c0 » 2 of 2 pods are ready
            t=+10800s   harness        --     cachefleet crashes
            t=+10860s   harness        --     cachefleet starts
            t=+10860s   cachefleet     DELETE configmaps/c0 200
                    removed
            t=+10860s   cachefleet     PATCH  caches/c0 200
                    removed
            ");
            Ok(())
        })
        .unwrap();
    }

    /// kube-runtime reconciles objects that are due at the same time in a random order.
    #[test]
    fn ten_caches_have_the_same_transcript_in_each_run() {
        let runs = std::env::var("PLUMBLINE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(5);
        World::builder()
            .is_deterministic(runs, async |t| {
                t.simulate([Gc, Kubelets(1)]);
                t.define::<Cache>().await?;
                t.run("cachefleet", operator::run)?;
                for number in 0..10 {
                    t.create(&Cache::new(&format!("c{number}"), CacheSpec { replicas: 1 })).await?;
                }
                t.advance(hours(1)).await
            })
            .unwrap();
    }

    /// The operator needs no more rights than it has in its manifest.
    #[test]
    fn the_role_is_sufficient() {
        World::test(async |t| {
            t.simulate([Gc, Workloads, Kubelets(1)]);
            t.define::<Cache>().await?;
            t.run_as("cachefleet", include_str!("world_operator.rbac.yaml"), operator::run).await?;
            t.create(&Cache::new("c0", CacheSpec { replicas: 2 })).await?;
            t.advance(hours(1)).await?;
            t.delete("caches/c0").await?;
            t.advance(minutes(1)).await?;
            t.expect("absent: caches/*, count: { ANY */*/* 403: 0 }")
        })
        .unwrap();
    }
}
