//! The application as a whole: which controllers start, in which order, and that it can be stopped at any time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plumbline_controllers::app::{self, App, AppError, Config, ControllerName};
use plumbline_controllers::runtime::leader::{Election, Timing};
use plumbline_controllers::runtime::metrics::Metrics;
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{clock, empty, failure, list, must_end, pass, serve};

const ALL: &[&str] = &[
    "policy/poddisruptionbudgets",
    "pods",
    "nodes",
    "replicationcontrollers",
    "apps/replicasets",
    "apps/deployments",
    "apps/statefulsets",
];

fn config(controllers: &[ControllerName]) -> Config {
    Config { controllers: controllers.iter().copied().collect(), ..Config::default() }
}

fn node(name: &str) -> Value {
    json!({ "metadata": { "name": name, "uid": name, "resourceVersion": "3" } })
}

#[rstest]
#[case::ttl(&[ControllerName::Ttl], &["nodes"])]
#[case::podgc(&[ControllerName::PodGarbageCollector], &["pods", "nodes"])]
#[case::taint_eviction(&[ControllerName::TaintEviction], &["pods", "nodes"])]
#[case::all(&ControllerName::ALL, ALL)]
#[tokio::test(start_paused = true)]
async fn only_required_informers_exist_and_each_once(
    #[case] controllers: &[ControllerName],
    #[case] resources: &[&str],
) {
    let (clients, log) = serve(|_| empty());
    let stop = CancellationToken::new();
    let app = App::new(&config(controllers), clients, clock(), Metrics::new(), stop.clone());
    let mut informers: Vec<_> = app.informers().into_iter().map(|status| status.resource).collect();
    informers.sort();
    let mut expected = resources.to_vec();
    expected.sort_unstable();
    assert_eq!(informers, expected);
    let app = tokio::spawn(app.run());
    pass(Duration::from_secs(1)).await;
    stop.cancel();
    assert!(must_end(app).await.unwrap().is_ok());
    let lists = log.lock().iter().filter(|line| !line.ends_with("(watch)")).count();
    assert_eq!(lists, resources.len(), "one list each: {:?}", log.lock());
}

#[tokio::test(start_paused = true)]
async fn controllers_wait_until_all_caches_are_synced() {
    let (clients, log) = serve(|line| match line {
        "GET /api/v1/nodes" => list(&[node("n1")]),
        "GET /api/v1/pods" => failure(403, "Forbidden"),
        _ => empty(),
    });
    let run = app::run(
        config(&[ControllerName::Ttl, ControllerName::PodGarbageCollector]),
        clients,
        clock(),
        CancellationToken::new(),
    );
    let app = tokio::spawn(run);
    pass(Duration::from_mins(5)).await;
    assert!(!log.lock().iter().any(|line| line.starts_with("PATCH")), "{:?}", log.lock());
    app.abort();
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_stops_every_task_at_once() {
    let (clients, log) = serve(|line| match line {
        "GET /api/v1/nodes" => list(&[node("n1")]),
        line if line.starts_with("PATCH") => failure(500, "InternalError"),
        _ => empty(),
    });
    let app = tokio::spawn(app::run(Config::default(), clients, clock(), CancellationToken::new()));
    pass(Duration::from_secs(5)).await;
    app.abort();
    let _ = must_end(app).await;
    let sent = log.lock().len();
    assert!(sent > 10, "it was busy retrying");
    pass(Duration::from_hours(1)).await;
    assert_eq!(log.lock().len(), sent, "nothing is sent after the crash");
    let metrics = tokio::runtime::Handle::current().metrics();
    assert_eq!(metrics.num_alive_tasks(), 0, "no task is left");
}

#[tokio::test(start_paused = true)]
async fn two_runs_send_the_same_requests_in_the_same_order() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let (clients, log) = serve(|line| match line {
            "GET /api/v1/nodes" => list(&[node("n1"), node("n2"), node("n3")]),
            "PATCH /api/v1/nodes/n2" => failure(500, "InternalError"),
            _ => empty(),
        });
        let app = tokio::spawn(app::run(Config::default(), clients, clock(), CancellationToken::new()));
        pass(Duration::from_secs(100)).await;
        app.abort();
        runs.push(std::mem::take(&mut *log.lock()));
    }
    assert!(runs[0].len() > 20);
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_the_caches_are_synced_is_orderly() {
    let (clients, _) = serve(|_| failure(500, "InternalError"));
    let stop = CancellationToken::new();
    let app = tokio::spawn(app::run(Config::default(), clients, clock(), stop.clone()));
    pass(Duration::from_secs(30)).await;
    stop.cancel();
    assert!(matches!(must_end(app).await.unwrap(), Ok::<(), AppError>(())));
}

fn elected(identity: &str) -> Config {
    let name = "l".to_owned();
    let namespace = "kube-system".to_owned();
    let election = Election { name, namespace, identity: identity.into(), timing: Timing::default() };
    Config { election: Some(election), ..config(&[ControllerName::Ttl]) }
}

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn lease(holder: &str) -> Value {
    json!({ "metadata": { "name": "l", "resourceVersion": "9" },
        "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 } })
}

fn writes(log: &crate::support::Log) -> Vec<String> {
    let log = log.lock();
    log.iter().filter(|line| !line.starts_with("GET") && !line.contains("/events")).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_standby_reads_and_waits_and_writes_nothing() {
    let (clients, log) = serve(|line| match line {
        "GET /api/v1/nodes" => list(&[node("n1")]),
        line if line.contains("/leases/l") => (200, lease("somebody")),
        _ => empty(),
    });
    let stop = CancellationToken::new();
    let app = tokio::spawn(app::run(elected("me"), clients, clock(), stop.clone()));
    pass(Duration::from_secs(14)).await;
    assert!(log.lock().iter().any(|line| line == "GET /api/v1/nodes (watch)"), "its caches are warm");
    stop.cancel();
    assert!(must_end(app).await.unwrap().is_ok());
    assert_eq!(writes(&log), Vec::<String>::new());
}

/// A standby observes changes of the cluster for weeks and takes nothing from its queues.
#[rstest]
#[case::standby("somebody", 0)]
#[case::leader("me", 1)]
#[tokio::test(start_paused = true)]
async fn a_standby_gathers_no_work_and_records_no_events(#[case] holder: &'static str, #[case] working: usize) {
    let generation = AtomicUsize::new(0);
    let meta = |name: &str, uid: usize| {
        json!({ "name": name, "namespace": "ns", "uid": uid.to_string(),
        "resourceVersion": "3" })
    };
    let budget = move |name| json!({ "metadata": meta(name, 0), "spec": { "minAvailable": 1, "selector": {} } });
    let (clients, log) = serve(move |line| match line {
        "GET /api/v1/nodes" => list(&[node("n1")]),
        "GET /apis/policy/v1/poddisruptionbudgets" => list(&[budget("a"), budget("b")]),
        "GET /api/v1/pods" => {
            let uid = generation.fetch_add(1, Ordering::Relaxed);
            let announced =
                json!({ "type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
            list(&[json!({ "metadata": meta("p", uid), "spec": { "nodeName": "n1" },
                    "status": { "conditions": [announced] } })])
        }
        "GET /api/v1/pods (watch)" => failure(410, "Expired"),
        line if line.contains("/leases/l") => {
            // The holder renews the lease.
            let mut lease = lease(holder);
            lease["spec"]["leaseTransitions"] = generation.fetch_add(1, Ordering::Relaxed).into();
            (200, lease)
        }
        line if line.starts_with("GET") => empty(),
        _ => failure(403, "Forbidden"),
    });
    let stop = CancellationToken::new();
    let config = Config { controllers: ControllerName::ALL.into(), ..elected("me") };
    let app = App::new(&config, clients, clock(), Metrics::new(), stop.clone());
    let diagnostics = app.diagnostics();
    let app = tokio::spawn(app.run());
    pass(Duration::from_secs(90)).await;
    assert!(log.lock().iter().filter(|line| *line == "GET /api/v1/pods").count() > 3, "pods went");
    let metrics = diagnostics.metrics();
    let counts = ["workqueue_adds_total{", "workqueue_retries_total{"];
    let counted = |line: &&str| counts.iter().any(|name| line.starts_with(name)) && !line.ends_with(" 0");
    assert_eq!(metrics.lines().filter(counted).count().min(1), working, "{metrics}");
    stop.cancel();
    // The writer of events completes after one attempt for each queued event.
    let _ = must_end(app).await;
    let events = log.lock().iter().filter(|line| line.starts_with("POST /api/v1/namespaces/ns/events")).count();
    assert_eq!(events.min(1), working);
}

#[tokio::test(start_paused = true)]
async fn the_leader_works_and_releases_the_lease_as_the_last_thing_it_does() {
    let (clients, log) = serve(|line| match line {
        "GET /api/v1/nodes" => list(&[node("n1")]),
        line if line.ends_with("/leases/l") => (200, lease("me")),
        _ => empty(),
    });
    let stop = CancellationToken::new();
    let app = tokio::spawn(app::run(elected("me"), clients, clock(), stop.clone()));
    pass(Duration::from_secs(3)).await;
    stop.cancel();
    assert!(must_end(app).await.unwrap().is_ok());
    let renewal = format!("PUT {LEASE}/l");
    assert_eq!(writes(&log), [&renewal, "PATCH /api/v1/nodes/n1", &renewal, &renewal]);
    assert_eq!(log.lock().last(), Some(&renewal));
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_everything_at_once() {
    let renewals = AtomicUsize::new(0);
    let (clients, log) = serve(move |line| match line {
        "GET /api/v1/nodes" => list(&[node("n1")]),
        line if line.starts_with("PATCH") => failure(500, "InternalError"),
        line if line.starts_with("PUT") && renewals.fetch_add(1, Ordering::SeqCst) > 3 => failure(409, "Conflict"),
        line if line.ends_with("/leases/l") && renewals.load(Ordering::SeqCst) > 3 => (200, lease("other")),
        line if line.ends_with("/leases/l") => (200, lease("me")),
        _ => empty(),
    });
    let app = tokio::spawn(app::run(elected("me"), clients, clock(), CancellationToken::new()));
    let error = must_end(app).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "leader election lost: the lease is held by other");
    let sent = log.lock().len();
    assert!(writes(&log).len() > 5, "it was busy");
    pass(Duration::from_hours(1)).await;
    assert_eq!(log.lock().len(), sent, "nothing is sent any more");
}
