//! The log lines that operators search for: each states what failed, what it means and what happens next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plumbline_controllers::app::{self, Config, ControllerName};
use plumbline_controllers::runtime::client::ClientFactory;
use plumbline_controllers::runtime::metrics::Metrics;
use plumbline_controllers::runtime::queue::WorkQueue;
use plumbline_controllers::runtime::workers::{self, Outcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing_test::traced_test;

use crate::support::{clock, empty, failure, list, must_end, pass, serve, serve_with_events};

async fn run(controller: ControllerName, answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) {
    let (clients, _) = serve(answer);
    run_for_a_minute(Config { controllers: [controller].into(), ..Config::default() }, clients).await;
}

async fn run_for_a_minute(config: Config, clients: ClientFactory) {
    let stop = CancellationToken::new();
    let app = app::run(config, clients, clock(), stop.clone());
    let stopper = async {
        pass(Duration::from_secs(65)).await;
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

/// Returns an error unless a line of this level contains `text`.
fn has(level: &str, text: &str) -> impl Fn(&[&str]) -> Result<(), String> {
    move |lines| {
        let found = lines.iter().any(|line| line.contains(&format!(" {level} ")) && line.contains(text));
        found.then_some(()).ok_or_else(|| format!("no line of level {level} with {text:?}"))
    }
}

#[traced_test]
#[tokio::test(start_paused = true)]
async fn a_budget_that_is_gone_is_logged_and_no_error() {
    let gone = json!({ "type": "DELETED", "object": budget() });
    let (clients, log) = serve_with_events(
        |line| match line {
            "GET /apis/policy/v1/poddisruptionbudgets" => list(&[budget()]),
            line if line.starts_with("PUT") => (200, json!({})),
            _ => empty(),
        },
        move |path| path.ends_with("/poddisruptionbudgets").then(|| gone.clone()),
    );
    let config = Config { controllers: [ControllerName::Disruption].into(), ..Config::default() };
    run_for_a_minute(config, clients).await;
    logs_assert(has("INFO", "budget was deleted, nothing to sync budget=ns/pdb"));
    assert!(!logs_contain("ERROR"));
    assert_eq!(log.lock().iter().filter(|line| line.starts_with("PUT")).count(), 1, "not after its deletion");
}

/// A pod on a node that does not exist.
fn orphan(name: &str) -> Value {
    json!({
        "metadata": { "namespace": "ns", "name": name, "uid": "u", "resourceVersion": "3" },
        "spec": { "nodeName": "n1" }, "status": { "phase": "Running" },
    })
}

/// Each case has a pod and a code of its own, so that its lines are known.
#[traced_test]
#[tokio::test(start_paused = true)]
async fn a_collection_that_fails_is_an_error() {
    for (failing, code, reason) in [
        ("GET /api/v1/nodes/n1", 500, "InternalError"),
        ("PATCH", 503, "ServiceUnavailable"),
        ("PATCH", 409, "Conflict"),
        ("DELETE", 403, "Forbidden"),
        ("DELETE", 410, "Gone"),
    ] {
        run(ControllerName::PodGarbageCollector, move |line| match line {
            line if line.starts_with(failing) => failure(code, reason),
            "GET /api/v1/pods" => list(&[orphan(&format!("p{code}"))]),
            "GET /api/v1/nodes/n1" => failure(404, "NotFound"),
            _ => empty(),
        })
        .await;
        let line = if failing.starts_with("GET") {
            "unable to check whether the node exists, its pods are kept node=\"n1\" ".to_owned()
        } else {
            format!("pod was not deleted, the next cycle tries again pod=ns/p{code} reason=\"orphaned\" ")
        };
        logs_assert(has("ERROR", &format!("{line}error={reason} says the server")));
    }
}

#[traced_test]
#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_patched_is_logged_and_tried_again() {
    let node = json!({ "metadata": { "name": "n1", "uid": "u", "resourceVersion": "3" } });
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    run(ControllerName::Ttl, move |line| match line {
        "GET /api/v1/nodes" => list(std::slice::from_ref(&node)),
        "PATCH /api/v1/nodes/n1" => {
            counted.fetch_add(1, Ordering::SeqCst);
            failure(500, "InternalError")
        }
        _ => empty(),
    })
    .await;
    logs_assert(has("WARN", "write failed action=PATCH nodes n1 why=\"the cluster size requires another ttl\""));
    assert!(tries.load(Ordering::SeqCst) > 5);
}

#[traced_test]
#[tokio::test(start_paused = true)]
async fn an_eviction_that_fails_is_logged_after_five_tries() {
    let node = json!({
        "metadata": { "name": "n1", "uid": "u", "resourceVersion": "3" },
        "spec": { "taints": [{ "key": "k", "effect": "NoExecute" }] },
    });
    let deletes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&deletes);
    run(ControllerName::TaintEviction, move |line| match line {
        "GET /api/v1/nodes" => list(std::slice::from_ref(&node)),
        "GET /api/v1/pods" => list(&[orphan("p")]),
        "GET /api/v1/namespaces/ns/pods/p" => (200, orphan("p")),
        line if line.starts_with("DELETE") => match counted.fetch_add(1, Ordering::SeqCst) {
            0..5 => failure(500, "InternalError"),
            _ => (200, json!({})),
        },
        _ => empty(),
    })
    .await;
    logs_assert(has("WARN", "write failed action=DELETE pods ns/p why=\"NoExecute taint\""));
    logs_assert(has("WARN", "pod was not evicted, retrying with back-off pod=ns/p"));
    logs_assert(has("INFO", "written action=DELETE pods ns/p why=\"NoExecute taint\""));
    assert_eq!(deletes.load(Ordering::SeqCst), 6);
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
