//! The log lines that operators search for: each states what failed, what it means and what happens next.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plumbline_controllers::app::{self, Config, ControllerName};
use plumbline_controllers::runtime::metrics::Metrics;
use plumbline_controllers::runtime::queue::WorkQueue;
use plumbline_controllers::runtime::workers::{self, Outcome};
use serde_json::{Value, json};
use support::{clock, empty, failure, list, must_end, pass, serve};
use tokio_util::sync::CancellationToken;
use tracing_test::traced_test;

async fn run(controller: ControllerName, answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) {
    let (clients, _) = serve(answer);
    let config = Config { controllers: [controller].into(), ..Config::default() };
    let stop = CancellationToken::new();
    let app = app::run(config, clients, clock(), stop.clone());
    let stopper = async {
        pass(Duration::from_mins(1)).await;
        stop.cancel();
    };
    assert!(must_end(async { tokio::join!(app, stopper) }).await.0.is_ok());
}

fn budget() -> Value {
    json!({
        "metadata": { "namespace": "ns", "name": "pdb", "uid": "u", "resourceVersion": "3", "generation": 1 },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "x" } } },
    })
}

#[traced_test]
#[tokio::test(start_paused = true)]
async fn a_cache_that_does_not_sync_is_named() {
    run(ControllerName::Ttl, |_| failure(403, "Forbidden")).await;
    assert!(logs_contain("list or watch failed, the cache may be stale"));
    assert!(logs_contain("Forbidden says the server"));
    assert!(logs_contain("still waiting for caches, controllers are not started missing=[\"nodes\"]"));
}

#[traced_test]
#[tokio::test(start_paused = true)]
async fn a_cache_that_syncs_after_failures_says_so() {
    let lists = AtomicUsize::new(0);
    run(ControllerName::Ttl, move |line| match line {
        "GET /api/v1/nodes" if lists.fetch_add(1, Ordering::SeqCst) == 0 => failure(500, "InternalError"),
        _ => empty(),
    })
    .await;
    assert!(logs_contain("watch works again"));
    assert!(logs_contain("cache synced resource=\"nodes\" objects=0"));
    assert!(logs_contain("started controller=\"ttl-controller\""));
    assert!(logs_contain("stopping") && logs_contain("stopped"));
}

#[traced_test]
#[tokio::test(start_paused = true)]
async fn a_write_is_logged_with_its_reason() {
    let node = json!({ "metadata": { "name": "n1", "uid": "u", "resourceVersion": "3" } });
    run(
        ControllerName::Ttl,
        move |line| if line == "GET /api/v1/nodes" { list(std::slice::from_ref(&node)) } else { empty() },
    )
    .await;
    assert!(logs_contain("written action=PATCH nodes n1 why="));
}

#[traced_test]
#[tokio::test(start_paused = true)]
async fn a_budget_that_cannot_be_synced_fails_safe_loudly() {
    run(ControllerName::Disruption, |line| match line {
        "GET /apis/policy/v1/poddisruptionbudgets" => list(&[budget()]),
        line if line.starts_with("PUT") => failure(500, "InternalError"),
        _ => empty(),
    })
    .await;
    assert!(logs_contain("write failed action=PUT poddisruptionbudgets/status ns/pdb"));
    assert!(logs_contain("failed to sync budget, no disruption is allowed until it succeeds budget=ns/pdb"));
    assert!(logs_contain("unable to write the fail-safe status, trying again"));
}

#[traced_test]
#[tokio::test(start_paused = true)]
async fn a_panicking_sync_is_caught_and_its_key_retried() {
    let clock = clock();
    let queue = WorkQueue::new(clock.clone(), Metrics::new().queue("test"));
    let stop = CancellationToken::new();
    let syncs = AtomicUsize::new(0);
    queue.add("bad");
    queue.add("good");
    let sync = |key: &'static str| {
        let nth = syncs.fetch_add(1, Ordering::SeqCst);
        let stop = stop.clone();
        async move {
            assert!(key != "bad" || nth > 0, "boom");
            if nth == 2 {
                stop.cancel();
            }
            Outcome::Forget
        }
    };
    must_end(workers::run("test", &queue, 1, &stop, sync)).await;
    assert_eq!(syncs.load(Ordering::SeqCst), 3, "bad, good, bad again");
    assert!(logs_contain("sync panicked, the key will be retried queue=\"test\" key=\"bad\" panic=\"boom\""));
}
