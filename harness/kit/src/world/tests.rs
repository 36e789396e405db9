//! Tests of worlds: what a test gets, and the errors when it or its controller is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Client, CustomResource, ResourceExt as _};
use rstest::rstest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Simulation::{Gc, Kubelets, Namespaces, Workloads};
use super::*;
use crate::time::{self, Clock};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.org", version = "v1", kind = "Cache", shortname = "ca", namespaced)]
#[kube(status = "CacheStatus")]
struct CacheSpec {
    #[schemars(range(min = 0, max = 9))]
    replicas: i32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct CacheStatus {
    phase: String,
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// Labels each ConfigMap, and looks at it every five minutes.
async fn label(client: Client) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let reconcile = |map: Arc<ConfigMap>, client: Arc<Client>| async move {
        let maps = Api::<ConfigMap>::default_namespaced(Client::clone(&client));
        let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
        maps.patch(&map.name_any(), &PatchParams::default(), &patch).await?;
        Ok::<_, kube::Error>(Action::requeue(minutes(5)))
    };
    let controller = Controller::new(maps, watcher::Config::default());
    controller.run(reconcile, |_, _, _| Action::requeue(seconds(7)), Arc::new(client)).for_each(|_| async {}).await;
}

fn message(result: Result) -> String {
    result.expect_err("an error").to_string()
}

#[test]
fn a_controller_works_for_hours() {
    World::test(async |t| {
        t.run("labeller", label)?;
        t.create(&map("a")).await?;
        t.advance(hours(3)).await?;
        assert_eq!(t.get::<ConfigMap>("a").await?.labels()["seen"], "yes");
        assert_eq!(t.elapsed(), hours(3));
        t.expect("count: { PATCH configmaps/a 200: 38 }, never: DELETE *")?;
        insta::assert_snapshot!(t.transcript().of("labeller"), @r"
        t=+0s       labeller       PATCH  configmaps/a 200
                metadata: +labels={seen: yes}
        t=+0s       labeller       PATCH  configmaps/a 200
                nothing changed
                the same every 300s, 37 times, until t=+10800s
        ");
        insta::assert_snapshot!(t.transcript().of("labeller").changes(), @r"
        t=+0s       labeller       PATCH  configmaps/a 200
                metadata: +labels={seen: yes}
        ");
        Ok(())
    })
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_world_in_a_runtime_of_the_test() -> Result {
    let t = World::new()?;
    t.run("labeller", label)?;
    t.create(&map("a")).await?;
    t.advance(hours(3)).await?;
    assert_eq!(t.elapsed(), hours(3));
    t.expect("count: { PATCH configmaps/a 200: 38 }")?;
    t.finish()
}

#[tokio::test]
async fn a_world_needs_virtual_time() {
    let error = World::new().unwrap_err().to_string();
    assert!(error.contains("start_paused = true"), "{error}");
    let nested = message(World::test(async |_| Ok(())));
    assert!(nested.contains("use World::new in an async one"), "{nested}");
    assert!(nested.contains("world/tests.rs:"), "the place is the test's: {nested}");
}

#[test]
fn a_world_without_a_runtime() {
    assert!(World::new().unwrap_err().to_string().contains("a world needs a runtime"));
}

const TWO_DOCUMENTS: &str = "
kind: Namespace
apiVersion: v1
metadata: {name: other}
---
kind: Secret
apiVersion: v1
metadata: {name: s, namespace: other}
";

/// A `Cache` as JSON.
fn cache(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "example.org/v1",
        "kind": "Cache",
        "metadata": {"name": name, "finalizers": ["example.org/x"]},
        "spec": {"replicas": replicas},
    })
}

#[test]
fn objects_in_all_forms() {
    World::test(async |t| {
        t.define::<Cache>().await?;
        t.create(&Cache::new("typed", CacheSpec { replicas: 2 })).await?;
        let dynamic: DynamicObject = serde_json::from_value(map("dynamic"))?;
        t.create(&dynamic).await?;
        t.create(TWO_DOCUMENTS).await?;
        assert_eq!(t.get::<Cache>("typed").await?.spec.replicas, 2);
        assert_eq!(t.edit::<Cache>("typed", |cache| cache.spec.replicas = 3).await?.spec.replicas, 3);
        assert_eq!(t.list::<Cache>().await?.len(), 1);
        t.patch("ca/typed/status", &json!({"status": {"phase": "Ready"}})).await?;
        t.apply(&cache("typed", 4)).await?;
        assert_eq!(t.object("caches/typed").await?.unwrap()["status"]["phase"], "Ready");
        assert!(t.object("other:secrets/s").await?.is_some());
        assert!(t.object("other:secrets/t").await?.is_none());
        t.delete("configmaps/dynamic").await?;
        t.expect("absent: configmaps/dynamic, match: { caches/typed: { spec: { replicas: 4 } } }")
    })
    .unwrap();
}

const BAD_SCHEMA: &str = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, \
    metadata: {name: xs.x.io}, spec: {group: x.io, scope: Namespaced, names: {plural: xs, kind: X}, \
    versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: objekt}}}]}}";

#[rstest]
#[case::too_many(&cache("c", 10), "less than or equal to 9")]
#[case::no_kind(&json!({"metadata": {"name": "c"}}), "needs `apiVersion` and `kind`")]
#[case::unknown_kind(&json!({"apiVersion": "x.io/v1", "kind": "X"}), "t.define::<X>()")]
#[case::other_version(&json!({"apiVersion": "v1", "kind": "Deployment"}), "did you mean apiVersion `apps/v1`?")]
#[case::number(&json!(7), "an object is expected")]
#[case::bad_yaml(&json!("a: ["), "not YAML of objects")]
#[case::bad_definition(&json!(BAD_SCHEMA), "xs.x.io")]
fn objects_that_the_server_refuses(#[case] object: &Value, #[case] says: &str) {
    let error = message(World::test(async |t| {
        t.define::<Cache>().await?;
        t.create(object).await.map(|_| ())
    }));
    assert!(error.contains(says) && error.contains("world/tests.rs:"), "{error}");
}

#[test]
fn a_missing_object_comes_with_those_that_exist() {
    let error = message(World::test(async |t| {
        t.create(&map("a")).await?;
        t.get::<ConfigMap>("b").await.map(|_| ())
    }));
    assert!(error.contains("configmaps that exist: a"), "{error}");
}

#[rstest]
#[case(Duration::ZERO, "call settle")]
#[case(Duration::MAX, "advance by at most 366 days")]
fn times_that_cannot_pass(#[case] by: Duration, #[case] says: &str) {
    let error = message(World::test(async |t| t.advance(by).await));
    assert!(error.contains(says), "{error}");
}

#[test]
fn pods_start_on_nodes_of_both_kinds() {
    World::test(async |t| {
        t.simulate([Gc, Namespaces, Workloads, Kubelets(0)]);
        t.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"}})).await?;
        t.create(
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, \
             selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, \
             spec: {containers: [{name: web, image: nginx}]}}}}",
        )
        .await?;
        t.advance(seconds(5)).await?;
        assert!(t.get::<Node>("mine").await?.spec.unwrap().taints.is_none());
        assert_eq!(t.get::<Deployment>("web").await?.status.unwrap().ready_replicas, Some(2));
        t.delete("deployments/web").await?;
        t.advance(seconds(40)).await?;
        t.expect("absent: pods/*")
    })
    .unwrap();
}

/// A controller that writes its own trigger.
async fn spin(client: Client) {
    let maps = Api::<ConfigMap>::default_namespaced(client);
    for number in 0.. {
        let patch = Patch::Merge(json!({"data": {"number": format!("{number}")}}));
        let _ = maps.patch("a", &PatchParams::default(), &patch).await;
    }
}

#[test]
fn a_hot_loop_ends_the_test_with_its_name() {
    let error = message(World::test(async |t| {
        t.create(&map("a")).await?;
        t.run("spinner", spin)?;
        t.advance(seconds(1)).await
    }));
    let says = "controller `spinner` sent `PATCH /api/v1/namespaces/default/configmaps/a` more than 100 times at t=+0s";
    assert!(error.contains(says) && error.contains("t=+0s spinner PATCH configmaps/a 200"), "{error}");
}

/// A controller that writes its own trigger, a millisecond after each write.
async fn spin_slowly(client: Client) {
    let maps = Api::<ConfigMap>::default_namespaced(client);
    for number in 0.. {
        let patch = Patch::Merge(json!({"data": {"number": format!("{number}")}}));
        let _ = maps.patch("a", &PatchParams::default(), &patch).await;
        Clock::virtual_from(time::epoch()).sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_hot_loop_in_which_time_passes_ends_the_test() {
    let error = message(World::test(async |t| {
        t.create(&map("a")).await?;
        t.run("spinner", spin_slowly)?;
        t.advance(hours(24)).await
    }));
    let says = "sent `PATCH /api/v1/namespaces/default/configmaps/a` more than 3000 times within a minute, until t=+3s";
    assert!(error.contains(says), "{error}");
}

#[rstest]
#[case::computes(|_| async { loop { tokio::task::yield_now().await } }.boxed())]
#[case::waits(|_| async { tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_secs(3))).await.unwrap() }.boxed())]
fn a_test_in_which_nothing_happens_ends(#[case] start: fn(Client) -> futures::future::BoxFuture<'static, ()>) {
    let patience = Duration::from_millis(300);
    let error = message(World::builder().patience(patience).test(async |t| {
        t.run("sleeper", start)?;
        t.advance(seconds(1)).await
    }));
    assert!(error.contains("virtual time has stayed at t=+0s") && error.contains("controller `sleeper`"), "{error}");
}

#[test]
fn a_test_that_waits_for_nothing_ends() {
    let patience = Duration::from_millis(300);
    let error = message(World::builder().patience(patience).test(async |_| std::future::pending().await));
    assert!(error.contains("virtual time has stayed"), "{error}");
}

#[rstest]
#[case::fails(|_| async { Err("no lease".to_owned()) }.boxed(), "controller `it` ended at t=+0s: no lease")]
#[case::panics(|_| async { panic!("no way") }.boxed(), "controller `it` ended at t=+0s: panicked: no way")]
#[case::socket(
    |_| async { tokio::net::TcpListener::bind("127.0.0.1:0").await.map(|_| ()).map_err(|error| error.to_string()) }.boxed(),
    "virtual time has no sockets"
)]
fn a_controller_that_ends_ends_the_test(
    #[case] start: fn(Client) -> futures::future::BoxFuture<'static, std::result::Result<(), String>>,
    #[case] says: &str,
) {
    let error = message(World::test(async |t| {
        t.run("it", start)?;
        t.advance(seconds(1)).await
    }));
    assert!(error.contains(says), "{error}");
}

#[test]
fn crashes_are_exact() {
    World::test(async |t| {
        t.run("labeller", label)?;
        t.create(&map("a")).await?;
        t.advance(minutes(1)).await?;
        t.crash("labeller")?;
        t.create(&map("b")).await?;
        t.quiet_for(hours(1)).await?;
        t.start("labeller")?;
        t.advance(seconds(1)).await?;
        t.restart("labeller")?;
        t.advance(seconds(1)).await?;
        assert!(message(t.start("labeller")).contains("runs already"));
        assert!(message(t.crash("labller")).contains("there are: labeller"));
        assert!(message(t.run("user", label)).contains("names another party"));
        assert!(message(t.run("Ä", label)).contains("lower-case letters"));
        insta::assert_snapshot!(t.transcript().changes(), @r"
        t=+0s       user           POST   configmaps/a 201
        t=+0s       labeller       PATCH  configmaps/a 200
                metadata: +labels={seen: yes}
        t=+60s      harness        --     labeller crashes
        t=+60s      user           POST   configmaps/b 201
        t=+3660s    harness        --     labeller starts
        t=+3660s    labeller       PATCH  configmaps/b 200
                metadata: +labels={seen: yes}
        t=+3661s    harness        --     labeller crashes and starts again
        ");
        Ok(())
    })
    .unwrap();
}

#[test]
fn faults_in_the_words_of_fixtures() {
    World::test(async |t| {
        t.fault("PATCH configmaps/a 500")?.times(2);
        let lost = t.fault("on: PATCH configmaps/b, drop: after, count: 1")?;
        t.run("labeller", label)?;
        t.create(&map("a")).await?;
        t.create(&map("b")).await?;
        t.advance(minutes(1)).await?;
        assert_eq!(lost.hits(), 1);
        t.expect("count: { PATCH configmaps/a 500: 2, PATCH configmaps/a 200: 2 }")?;
        t.fault("name: gone, on: PATCH configmaps/*, reply: 410")?;
        t.heal("gone")?;
        assert!(message(t.heal("gone")).contains("no fault is named `gone`"));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_crash_by_a_fault_hits_the_controller_that_asked() {
    World::test(async |t| {
        t.fault("on: PATCH configmaps/a, crash: after, restart: 10s, count: 1")?;
        t.run("labeller", label)?;
        t.run("bystander", |client| async move {
            let maps = Api::<ConfigMap>::default_namespaced(client);
            maps.create(&PostParams::default(), &serde_json::from_value(map("own")).unwrap()).await.map(|_| ())
        })?;
        t.create(&map("a")).await?;
        t.advance(minutes(1)).await?;
        insta::assert_snapshot!(t.transcript(), @r"
        t=+0s       user           POST   configmaps/a 201
        t=+0s       bystander      POST   configmaps/own 201
        t=+0s       harness        --     bystander ends
        t=+0s       labeller       PATCH  configmaps/a no reply
                metadata: +labels={seen: yes}
        t=+0s       harness        --     labeller crashes after PATCH configmaps/a
        t=+10s      harness        --     labeller starts
        t=+10s      labeller       PATCH  configmaps/a 200
                nothing changed
        t=+10s      labeller       PATCH  configmaps/own 200
                metadata: +labels={seen: yes}
        t=+10s      labeller       PATCH  configmaps/own 200
                nothing changed
        ");
        Ok(())
    })
    .unwrap();
}

#[test]
fn watches_lists_clock_and_outages() {
    World::test(async |t| {
        t.run("labeller", label)?;
        t.settle().await?;
        t.watch_fault("hold configmaps")?;
        t.create(&map("a")).await?;
        t.quiet_for(minutes(1)).await?;
        t.watch_fault("release configmaps")?;
        t.settle().await?;
        t.expect("count: { PATCH configmaps/a: 2 }")?;
        t.outage(minutes(1)).await?;
        t.compact();
        t.skew(SignedDuration::from_secs(90));
        t.create(&map("b")).await?;
        t.advance(minutes(10)).await?;
        t.expect(
            "match: { configmaps/b: { metadata: { labels: { seen: 'yes' }, creationTimestamp: { $time: 210s } } } }",
        )?;
        assert!(message(t.watch_fault("hodl pods")).contains("did you mean `hold`?"));
        Ok(())
    })
    .unwrap();
}

#[rstest]
#[case::word("PATHC pods/* 500", "did you mean `PATCH`?")]
#[case::resource("PATCH pdos/* 500", "did you mean `pods`?")]
#[case::code("PATCH pods/*", "no status code")]
fn unknown_words_of_a_fault(#[case] text: &str, #[case] says: &str) {
    let error = message(World::test(async |t| t.fault(text).map(|_| ())));
    assert!(error.contains(says), "{error}");
}

#[test]
fn a_fault_that_meets_nothing_fails_the_test() {
    let error = message(World::test(async |t| t.fault("PATCH pods/* 500").map(|_| ())));
    assert!(error.contains("the fault `PATCH pods/*` has affected no request"), "{error}");
}

#[rstest]
#[case::never("never: PATCH configmaps/*", "never: PATCH configmaps/*")]
#[case::count("count: { PATCH configmaps/a: 3 }", "expected 3 requests")]
#[case::writes("writes: [PATCH configmaps/b]", "expected PATCH configmaps/b")]
#[case::only("only: PATCH pods/*", "only writes that the fixture expects")]
#[case::order("order: [PATCH configmaps/b, PATCH configmaps/a]", "order")]
#[case::quiet("quiet: true", "expected no writes")]
#[case::exists("exists: configmaps/c", "configmaps/c exists")]
#[case::pattern("match: { configmaps/a: { data: { x: 'y' } } }", "data")]
fn broken_expectations_show_the_transcript(#[case] text: &str, #[case] says: &str) {
    let error = message(World::test(async |t| {
        t.run("labeller", label)?;
        t.create(&map("a")).await?;
        t.settle().await?;
        t.expect("count: { PATCH configmaps/a: 2 }, only: PATCH configmaps/*, order: PATCH configmaps/a")?;
        t.expect(text)
    }));
    assert!(error.contains(says), "{error}");
    assert!(error.contains("t=+0s       labeller       PATCH  configmaps/a 200"), "{error}");
}

#[test]
fn rules_for_every_controller() {
    let judged = |rule: Rule| {
        message(World::test(async |t| {
            t.uphold([rule]);
            t.define::<Cache>().await?;
            t.create(&cache("c", 1)).await?;
            t.create(&map("a")).await?;
            t.run("labeller", label)?;
            t.run("misplacer", |client| async move {
                let caches = Api::<Cache>::default_namespaced(client);
                caches
                    .patch("c", &PatchParams::default(), &Patch::Merge(json!({"status": {"phase": "x"}})))
                    .await
                    .map(|_| ())
            })?;
            t.delete("caches/c").await?;
            t.advance(minutes(10)).await
        }))
    };
    assert!(judged(Rule::NoIdleWrites).contains("it changed nothing"));
    assert!(judged(Rule::StatusBySubresource).contains("misplacer PATCH caches/c"));
    assert!(judged(Rule::FinalizersAreRemoved).contains("Cache c has [\"example.org/x\"]"));
}

/// A controller that writes every `pause`.
fn writer(pause: Duration) -> impl Fn(Client) -> futures::future::BoxFuture<'static, ()> + Send + Sync {
    move |client| {
        async move {
            let maps = Api::<ConfigMap>::default_namespaced(client);
            for number in 0.. {
                let patch = Patch::Merge(json!({"data": {"number": format!("{number}")}}));
                let _ = maps.patch("a", &PatchParams::default(), &patch).await;
                Clock::virtual_from(time::epoch()).sleep(pause).await;
            }
        }
        .boxed()
    }
}

#[rstest]
#[case::often(minutes(9), None, true)]
#[case::seldom(minutes(10), None, false)]
#[case::after_another_client(minutes(15), Some("user"), true)]
#[case::after_a_fault(minutes(15), Some("fault"), true)]
fn writes_after_a_quiet_time(#[case] pause: Duration, #[case] cause: Option<&str>, #[case] holds: bool) {
    let outcome = World::test(async |t| {
        t.uphold([Rule::NoWritesAfterQuiet]);
        t.create(&map("a")).await?;
        if cause == Some("fault") {
            t.fault("PATCH configmaps/a 500")?;
        }
        t.run("writer", writer(pause))?;
        t.advance(minutes(14)).await?;
        if cause == Some("user") {
            t.patch("configmaps/a", &json!({"metadata": {"labels": {"a": "b"}}})).await?;
        }
        t.advance(minutes(6)).await
    });
    if holds {
        outcome.unwrap();
    } else {
        let error = message(outcome);
        assert!(error.contains("when all is quiet for 600 s") && error.contains("PATCH configmaps/a"), "{error}");
    }
}

/// The usual ends of a controller's program: Ctrl-C, and a page of metrics.
#[test]
fn signals_and_sockets_are_an_option() {
    let watch = |client: Client| async move {
        let _listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        let maps = Api::<ConfigMap>::default_namespaced(client);
        let controller = Controller::new(maps, watcher::Config::default()).shutdown_on_signal();
        let reconcile = |_, _| async { Ok::<_, kube::Error>(Action::requeue(minutes(5))) };
        controller.run(reconcile, |_, _, _| Action::requeue(seconds(7)), Arc::new(())).for_each(|_| async {}).await;
        Ok::<_, String>(())
    };
    let test = async |t: &World| {
        t.run("it", watch)?;
        t.advance(hours(3)).await
    };
    World::builder().io().test(test).unwrap();
    let error = message(World::test(test));
    assert!(error.contains("World::builder().io()"), "{error}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the system's clock is what is tested")]
fn controllers_can_see_the_time_of_the_world_as_the_systems() {
    plumbline_entropy::follow(time::time_of_day);
    let start = Timestamp::constant(2_000_000_000, 0);
    let before = Timestamp::now();
    World::builder()
        .start(start)
        .test(async |t| {
            t.advance(hours(3)).await?;
            assert_eq!(Timestamp::now(), start + hours(3));
            assert_eq!(Timestamp::now(), start + hours(3) + Duration::from_millis(1), "reading takes time");
            Ok(())
        })
        .unwrap();
    assert!(before <= Timestamp::now() && Timestamp::now() < start, "outside of the world");
}

#[test]
fn checks_that_always_hold() {
    let error = message(World::test(async |t| {
        t.always("few lines", |transcript| match transcript.to_string().lines().count() {
            0..10 => Ok(()),
            count => Err(format!("{count} lines")),
        });
        t.advance(seconds(1)).await?;
        t.create(&json!([map("a"), map("b"), map("c"), map("d"), map("e"), map("f"), map("g")])).await?;
        for name in ["h", "i", "j"] {
            t.create(&map(name)).await?;
            t.advance(seconds(1)).await?;
        }
        t.note("too far");
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            t.patch(&format!("configmaps/{name}"), &json!({"data": {"of": name}})).await?;
        }
        t.advance(seconds(1)).await
    }));
    assert!(error.starts_with("few lines: ") && error.contains("configmaps/h"), "{error}");
}

const ROLE: &str = "
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: labeller}
rules: [{apiGroups: [''], resources: [configmaps], verbs: [list, watch]}]
---
kind: ClusterRoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: labeller}
roleRef: {kind: ClusterRole, name: labeller, apiGroup: rbac.authorization.k8s.io}
subjects: [{kind: ServiceAccount, name: labeller, namespace: tools}]
";

#[test]
fn a_role_is_enforced() {
    World::test(async |t| {
        t.run_as("labeller", ROLE, label).await?;
        t.create(&map("a")).await?;
        t.advance(seconds(1)).await?;
        t.expect("count: { PATCH configmaps/a 403: 1, PATCH configmaps/a 200: 0 }")?;
        let error = message(t.run_as("other", "{kind: Namespace, apiVersion: v1, metadata: {name: n}}", label).await);
        assert!(error.contains("0 service accounts"), "{error}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn ten_objects_are_reconciled_in_any_order() {
    World::builder()
        .is_deterministic(20, async |t| {
            t.run("labeller", label)?;
            for number in 0..10 {
                t.create(&map(&format!("m{number}"))).await?;
            }
            t.advance(hours(1)).await
        })
        .unwrap();
}

#[test]
fn a_difference_between_two_runs_is_shown() {
    let runs = AtomicU32::new(0);
    let error = message(World::builder().is_deterministic(3, async |t| {
        // One run is not compared.
        let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
        t.create(&map(if run == 4 { "c" } else { "a" })).await.map(|_| ())
    }));
    assert!(error.starts_with("run 3 differs from the first one in line 1 of the transcript:"), "{error}");
    assert!(error.contains("configmaps/a 201") && error.contains("configmaps/c 201"), "{error}");
}

/// A task of the test that outlives its world.
#[tokio::test(start_paused = true)]
async fn a_world_that_is_gone_answers_with_an_error() {
    let world = World::new().unwrap();
    let client = Client::new(world.service("counter").unwrap(), "default");
    let maps = Api::<ConfigMap>::default_namespaced(client);
    let everything = ListParams::default();
    assert!(maps.list(&everything).await.is_ok());
    drop(world);
    let error = maps.list(&everything).await.unwrap_err();
    assert!(error.to_string().contains("the world of `counter` has ended: keep the `World`"), "{error}");
}

#[test]
fn another_version_of_kube_gets_a_service() {
    World::test(async |t| {
        let client = Client::new(t.service("elsewhere")?, "default");
        tokio::spawn(label(client));
        t.create(&map("a")).await?;
        t.advance(seconds(1)).await?;
        t.expect("count: { elsewhere PATCH configmaps/a: 2 }")
    })
    .unwrap();
}
