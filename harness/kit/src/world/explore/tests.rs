//! Tests of explorations.

use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::*;
use crate::world::seconds;

fn map(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::default_namespaced(client)
}

/// Labels each ConfigMap. A fault delays it by a few seconds at most.
async fn label(client: Client) {
    use futures::StreamExt as _;
    let reconcile = |found: Arc<ConfigMap>, client: Arc<Client>| async move {
        if found.labels().contains_key("seen") {
            return Ok(Action::await_change());
        }
        let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
        maps(Client::clone(&client)).patch(&found.name_any(), &PatchParams::default(), &patch).await?;
        Ok::<_, kube::Error>(Action::await_change())
    };
    let controller = Controller::new(maps(client.clone()), watcher::Config::default());
    controller.run(reconcile, |_, _, _| Action::requeue(seconds(3)), Arc::new(client)).for_each(|_| async {}).await;
}

async fn labelled(t: &World) -> Result {
    t.run("labeller", label)?;
    t.create(&map("a")).await?;
    t.advance(seconds(5)).await?;
    t.create(&map("b")).await?;
    t.advance(seconds(5)).await
}

/// Creates a ConfigMap, and forgets it if that fails.
async fn create_once(client: Client) {
    let map = serde_json::from_value(map("a")).expect("a ConfigMap");
    drop(maps(client).create(&PostParams::default(), &map).await);
    std::future::pending::<()>().await;
}

async fn created(t: &World) -> Result {
    t.run("creator", create_once)?;
    t.advance(seconds(5)).await
}

#[test]
fn a_sound_controller_has_no_finding() {
    let summary = Explorer::new().runs(40).explore(labelled).expect("no finding");
    assert_eq!(summary.tried, 40, "{summary}");
    assert!(summary.to_string().contains("were not tried: raise Explorer::runs"), "{summary}");
}

#[test]
fn a_controller_that_does_not_retry_is_found_and_the_finding_repeats() {
    let error = Explorer::new().explore(created).expect_err("a finding").to_string();
    assert!(error.contains("✗ end state · configmaps · is missing"), "{error}");
    assert!(error.contains("replay(\"409") || error.contains("replay(\"429"), "{error}");
    let again = Explorer::new().replay("drop@POST:configmaps#1", created).expect_err("the finding").to_string();
    assert!(again.starts_with("end state · configmaps · is missing"), "{again}");
    let nowhere = Explorer::new().replay("drop@POST:secrets#1", created).expect_err("no such point").to_string();
    assert!(nowhere.contains("its points: POST:configmaps#1"), "{nowhere}");
}

/// Creates twenty `ConfigMap`s, and does not repeat the creation of the last one.
async fn create_twenty(client: Client) {
    for number in 0..20 {
        let map = serde_json::from_value(map(&format!("a{number:02}"))).expect("a ConfigMap");
        while !matches!(maps(client.clone()).get_opt(&format!("a{number:02}")).await, Ok(Some(_))) {
            drop(maps(client.clone()).create(&PostParams::default(), &map).await);
            if number == 19 {
                break;
            }
            plumbline_apiserver::clock::Clock::virtual_from(crate::time::epoch()).sleep(seconds(1)).await;
        }
    }
    std::future::pending::<()>().await;
}

/// In the order of the requests, faults at the last creation would come after some four hundred others.
#[test]
fn a_mistake_at_the_end_is_found_early() {
    let error = Explorer::new().runs(60).at_least(0).explore(async |t| {
        t.run("creator", create_twenty)?;
        t.advance(seconds(60)).await
    });
    let error = error.expect_err("a finding").to_string();
    assert!(error.contains("configmaps/a19: it is missing"), "{error}");
}

#[test]
fn a_controller_that_differs_from_run_to_run_is_refused() {
    let runs = AtomicU32::new(0);
    let error = Explorer::new().explore(async |t| {
        let name = format!("a{}", runs.fetch_add(1, Ordering::Relaxed));
        t.create(&map(&name)).await?;
        t.advance(seconds(1)).await
    });
    let text = error.expect_err("a difference").to_string();
    assert!(text.starts_with("the test is not deterministic") && text.contains("configmaps/a1"), "{text}");
}

/// Creates a ConfigMap of another name after each error, and deletes those that it has too many of.
async fn create_and_prune(client: Client) {
    for number in 0.. {
        let map = serde_json::from_value(map(&format!("a{number}"))).expect("a ConfigMap");
        if maps(client.clone()).create(&PostParams::default(), &map).await.is_ok() {
            for old in 0..number {
                drop(maps(client.clone()).delete(&format!("a{old}"), &kube::api::DeleteParams::default()).await);
            }
            break;
        }
    }
    std::future::pending::<()>().await;
}

/// Creates one ConfigMap in each second, without an end, once a request has failed.
async fn run_away(client: Client) {
    let create = async |number: u32| {
        let map = serde_json::from_value(map(&format!("a{number}"))).expect("a ConfigMap");
        maps(client.clone()).create(&PostParams::default(), &map).await.is_ok()
    };
    let exists = matches!(maps(client.clone()).get_opt("a0").await, Ok(Some(_)));
    if !exists && !create(0).await {
        for number in 1.. {
            create(number).await;
            plumbline_apiserver::clock::Clock::virtual_from(crate::time::epoch()).sleep(seconds(1)).await;
        }
    }
    std::future::pending::<()>().await;
}

/// Creates a ConfigMap in each half hour, and tries again every five seconds.
async fn keep_a_schedule(client: Client) {
    let clock = plumbline_apiserver::clock::Clock::virtual_from(crate::time::epoch());
    loop {
        let now = crate::time::time_of_day().expect("a world").as_secs();
        let map = serde_json::from_value(map(&format!("slot-{}", now / 1800 * 1800))).expect("a ConfigMap");
        let made = match maps(client.clone()).create(&PostParams::default(), &map).await {
            Err(kube::Error::Api(status)) => status.reason == "AlreadyExists",
            made => made.is_ok(),
        };
        clock.sleep(seconds(if made { 1800 - now % 1800 } else { 5 })).await;
    }
}

/// Some faults make a run longer, with more slots.
#[test]
fn a_longer_run_is_compared_with_one_that_is_as_long() {
    let explored = Explorer::new().explore(async |t| {
        t.run("scheduler", keep_a_schedule)?;
        t.advance(seconds(70 * 60)).await
    });
    let summary = explored.expect("no finding");
    assert_eq!((summary.points, summary.tried), (4, summary.planned), "{summary}");
}

#[test]
fn what_was_created_too_often_is_found_although_it_is_gone() {
    let error = Explorer::new().explore(async |t| {
        t.run("pruner", create_and_prune)?;
        t.advance(seconds(5)).await
    });
    let error = error.expect_err("a finding").to_string();
    assert!(error.contains("✗ creations · configmaps") || error.contains("is missing"), "{error}");
}

#[test]
fn a_world_that_runs_away_is_a_finding() {
    let error = Explorer::new().runs(20).explore(async |t| {
        t.run("runner", run_away)?;
        t.advance(seconds(5)).await
    });
    let error = error.expect_err("a finding").to_string();
    assert!(error.contains("the run was stopped after") && error.contains("POST configmaps"), "{error}");
}

fn pause(time: Duration) -> impl Future<Output = ()> {
    let clock = plumbline_apiserver::clock::Clock::virtual_from(crate::time::epoch());
    async move { clock.sleep(time).await }
}

/// Creates a ConfigMap whose name is invalid, again and again.
async fn insist(client: Client) {
    let map = serde_json::from_value(map("Not_A_Name")).expect("a ConfigMap");
    loop {
        drop(maps(client.clone()).create(&PostParams::default(), &map).await);
        pause(seconds(60)).await;
    }
}

/// Creates a ConfigMap for a widget, without an owner.
async fn leave(client: Client) {
    create_once_as("w-data", client).await;
}

async fn create_once_as(name: &str, client: Client) {
    let map = serde_json::from_value(map(name)).expect("a ConfigMap");
    while !matches!(maps(client.clone()).get_opt(name).await, Ok(Some(_))) {
        drop(maps(client.clone()).create(&PostParams::default(), &map).await);
        pause(seconds(1)).await;
    }
    std::future::pending::<()>().await;
}

/// Looks at a ConfigMap, and deletes the one of that name ten seconds later.
async fn delete_late(client: Client) {
    if matches!(maps(client.clone()).get_opt("a").await, Ok(Some(_))) {
        pause(seconds(10)).await;
        drop(maps(client.clone()).delete("a", &kube::api::DeleteParams::default()).await);
    }
    std::future::pending::<()>().await;
}

/// Labels each ConfigMap by an update of what the cache shows, with the version of a fresh read.
async fn label_with_fresh_version(client: Client) {
    use futures::StreamExt as _;
    let reconcile = |found: Arc<ConfigMap>, client: Arc<Client>| async move {
        if !found.labels().contains_key("seen") {
            let mut map = ConfigMap::clone(&found);
            map.labels_mut().insert("seen".to_owned(), "yes".to_owned());
            map.metadata.resource_version =
                maps(Client::clone(&client)).get(&found.name_any()).await?.resource_version();
            maps(Client::clone(&client)).replace(&found.name_any(), &PostParams::default(), &map).await?;
        }
        Ok::<_, kube::Error>(Action::await_change())
    };
    let controller = Controller::new(maps(client.clone()), watcher::Config::default());
    controller.run(reconcile, |_, _, _| Action::requeue(seconds(3)), Arc::new(client)).for_each(|_| async {}).await;
}

#[test]
fn an_update_that_undoes_what_it_had_not_seen_is_found() {
    let error = Explorer::new().explore(async |t| {
        t.run("labeller", label_with_fresh_version)?;
        t.create(&map("a")).await?;
        t.advance(seconds(60)).await
    });
    let error = error.expect_err("a finding").to_string();
    assert!(error.contains("✗ blind · configmaps · undone"), "{error}");
    assert!(error.contains("replay(\"touch-read@GET:configmaps/a#1\", test)"), "{error}");
}

const WIDGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: widgets.example.org }
spec:
  group: example.org
  scope: Namespaced
  names: { plural: widgets, kind: Widget }
  versions: [{ name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object } } }]
---
apiVersion: example.org/v1
kind: Widget
metadata: { name: w }
";

#[test]
fn what_the_run_without_faults_shows_is_a_finding() {
    let found = |test: &(dyn Fn(&World) -> Result + Sync)| {
        let explored = Explorer::new().runs(1).explore(async |t| {
            test(t)?;
            t.create(WIDGETS).await?;
            t.advance(seconds(5)).await?;
            t.delete("widgets/w").await?;
            if t.object("configmaps/a").await?.is_some() {
                t.delete("configmaps/a").await?;
                t.create(&map("a")).await?;
            }
            t.advance(seconds(115)).await
        });
        explored.expect_err("a finding").to_string()
    };
    let refused = found(&|t| t.run("insister", insist));
    assert!(refused.contains("✗ refused · configmaps · create 422") && refused.contains("5 times"), "{refused}");
    let left = found(&|t| t.run("leaver", leave));
    assert!(left.contains("configmaps/w-data is left: it was made for widgets/w, which is deleted"), "{left}");
    let blind = found(&|t| {
        t.seed([map("a")])?;
        t.run("deleter", delete_late)
    });
    assert!(blind.contains("✗ blind · configmaps · delete") && blind.contains("preconditions.uid"), "{blind}");
    for text in [refused, left, blind] {
        assert!(text.contains("it happens without any fault"), "{text}");
    }
}

#[test]
fn an_exploration_that_tried_too_little_fails() {
    let error = Explorer::new().time(Duration::ZERO).explore(labelled).expect_err("nothing was tried").to_string();
    assert!(error.starts_with("too little was explored: 0 of "), "{error}");
    let summary = Explorer::new().time(Duration::ZERO).at_least(0).explore(labelled).expect("it was allowed");
    assert_eq!(summary.tried, 0);
}

#[test]
fn a_test_that_fails_without_faults_is_not_explored() {
    let error = Explorer::new().explore(async |_| Err(Error::new("wrong")));
    assert!(error.expect_err("the failure").to_string().starts_with("without any fault: test: wrong"));
}
