//! A week of churn in virtual time: rolling deployments, flapping taints, lost nodes, evictions, jobs that end. The
//! controllers' state must stay proportional to the cluster, and their caches must equal the server's objects. One
//! seed: every run is the same.
//!
//! Every test run simulates four hours of a small cluster. `PLUMBLINE_TESTS=full cargo test --release -p
//! plumbline-suite --test it soak:: -- --nocapture` simulates a week with 10,000 nodes and prints figures.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod churn;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use plumbline::apiserver::HistoryLimits;
use plumbline::apiserver::RecordMode;
use plumbline::apiserver::event_ttl::expire_events;
use plumbline::apiserver::{ApiServer, ApiServerConfig, ResourceId};
use plumbline::time::{Clock, Stopwatch, epoch, run_virtual, settle};
use plumbline_controllers::app::{App, Config};
use plumbline_controllers::runtime::client::{ClientFactory, Limits, user_agent};
use plumbline_controllers::runtime::clock::Clock as SubjectClock;
use plumbline_controllers::runtime::diagnostics::Diagnostics;
use plumbline_controllers::runtime::leader::{Election, Timing};
use plumbline_controllers::runtime::metrics::Metrics;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fleet::Dice;
use crate::support;
use churn::{Churn, FINISHED, Size};

const SMALL: Size = Size { nodes: 14, apps: 2, replicas: 6, hours: 4, events: 1 };
const FULL: Size = Size { nodes: 10_000, apps: 1_000, replicas: 20, hours: 7 * 24, events: 6 };
const DAY: usize = 24 * 60;
/// Minutes between samples of the controllers' state.
const LOOK: usize = 5;
/// Minutes without new churn at the end; longer than any toleration, quarantine and back-off.
const CALM: usize = 120;
/// Time that the caches get to receive the last watch events.
const SETTLE_TIME: Duration = Duration::from_secs(1);
const LEASE: &str = "no-other-leader";

/// Starts our controllers on `server`, without a simulated network.
fn subject(server: &ApiServer, election: Option<Election>) -> (Diagnostics, JoinHandle<()>) {
    let server = server.clone();
    let clock = SubjectClock::simulated(server.clock().now());
    let clients: ClientFactory = Arc::new(move |name: &str| server.client(&user_agent(name)));
    let config = Config {
        election,
        terminated_pod_gc_threshold: FINISHED,
        limits: Limits { qps: 0.0, ..Limits::default() },
        ..Config::default()
    };
    let app = App::new(&config, clients, clock, Metrics::new(), CancellationToken::new());
    let diagnostics = app.diagnostics();
    let task = tokio::spawn(async move {
        let ended = Box::pin(app.run()).await;
        panic!("the controllers ended: {ended:?}");
    });
    (diagnostics, task)
}

/// Caches by resource: number of objects and checksum.
fn caches(diagnostics: &Diagnostics) -> BTreeMap<String, (u64, String)> {
    let caches = diagnostics.caches();
    let all = caches["informers"].as_array().unwrap().iter().map(|cache| {
        let text = |name: &str| cache[name].as_str().unwrap().to_owned();
        (text("resource"), (cache["objects"].as_u64().unwrap(), text("checksum")))
    });
    all.collect()
}

/// Pending state by name: keys in each queue, timers, nodes in quarantine.
fn kept(diagnostics: &Diagnostics) -> BTreeMap<String, u64> {
    let caches = diagnostics.caches();
    let list = |name: &str| caches[name].as_array().unwrap().clone();
    let number = |value: &Value| value.as_u64().unwrap();
    let mut kept = BTreeMap::new();
    for queue in list("queues") {
        for state in ["ready", "delayed", "inWork"] {
            kept.insert(format!("{} {state}", queue["name"].as_str().unwrap()), number(&queue[state]));
        }
    }
    for pending in list("pending") {
        kept.insert(pending["name"].as_str().unwrap().to_owned(), number(&pending["count"]));
    }
    assert!(kept.len() > 10 && kept.contains_key("taint_evictions_scheduled"), "{kept:?}");
    kept
}

/// Checks that the caches equal the server's objects: same number of objects, and same checksums as caches filled by a
/// new list.
async fn check_drift(server: &ApiServer, diagnostics: &Diagnostics) {
    server.clock().sleep(SETTLE_TIME).await;
    settle().await;
    let before = caches(diagnostics);
    for (resource, (objects, _)) in &before {
        let (group, plural) = resource.split_once('/').unwrap_or(("", resource.as_str()));
        assert_eq!(*objects as usize, server.list(&ResourceId::new(group, plural), None).len(), "{resource}");
    }
    let timing = Timing::default();
    let election = Election { name: LEASE.into(), namespace: "kube-system".into(), identity: "auditor".into(), timing };
    let (fresh, task) = subject(server, Some(election));
    server.clock().sleep(SETTLE_TIME).await;
    settle().await;
    assert_eq!(caches(diagnostics), caches(&fresh), "caches have drifted from the server");
    assert_eq!(fresh.caches()["phase"], "waiting", "a standby only fills its caches");
    task.abort();
}

/// A lease held by another replica: controllers that ask for it fill their caches and do nothing else.
fn occupied(server: &ApiServer) -> Value {
    let now = server.clock().now().to_string();
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": LEASE, "namespace": "kube-system" },
        "spec": { "holderIdentity": "somebody", "leaseDurationSeconds": i32::MAX, "acquireTime": now, "renewTime": now } })
}

/// Resident memory of this process in bytes, server and churn included; 0 if the system does not report it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

/// The highest values of each day.
#[derive(Debug, Default)]
struct Peaks {
    days: Vec<BTreeMap<String, u64>>,
    resident: Vec<u64>,
}

impl Peaks {
    fn look(&mut self, day: usize, kept: BTreeMap<String, u64>) {
        self.days.resize_with(self.days.len().max(day + 1), BTreeMap::new);
        for (name, count) in kept {
            let peak = self.days[day].entry(name).or_default();
            *peak = (*peak).max(count);
        }
    }

    /// Checks that no later day exceeds twice the maximum of the first two days plus 20, and that memory stays bounded.
    fn check(&self) {
        let first = |name: &str| self.days.iter().take(2).filter_map(|day| day.get(name)).max().copied().unwrap_or(0);
        for (day, peaks) in self.days.iter().enumerate().skip(2) {
            for (name, peak) in peaks {
                assert!(*peak <= 2 * first(name) + 20, "{name} grows: {peak} on day {}: {self:#?}", day + 1);
            }
        }
        if let [_, second, .., last] = self.resident.as_slice() {
            assert!(*last <= second / 4 * 5 + (64 << 20), "memory grows: {:?}", self.resident);
        }
    }
}

async fn soak(size: Size, seed: u64) -> (Peaks, Churn) {
    let clock = Clock::virtual_from(epoch());
    // Each resource has its own history, and those of rarely changed ones would fill up for days, which would look like
    // a leak.
    let history = HistoryLimits { entries: 8192, bytes: 8 << 20 };
    let config = ApiServerConfig { record: RecordMode::Off, history, ..ApiServerConfig::new(clock.clone()) };
    let server = ApiServer::new(config);
    server.seed([occupied(&server)]).unwrap();
    let expiry = tokio::spawn(expire_events(server.clone()));
    let mut churn = Churn::start(server.clone(), size, Dice::new(seed)).await;
    let (diagnostics, task) = subject(&server, None);
    let mut peaks = Peaks::default();
    let watch = Stopwatch::start();
    for step in 0..size.hours * 60 {
        churn.happen().await;
        settle().await;
        clock.sleep(Duration::from_secs(30)).await;
        if step % LOOK == 0 {
            peaks.look(step / DAY, kept(&diagnostics));
        }
        clock.sleep(Duration::from_secs(30)).await;
        assert!(!task.is_finished(), "the controllers ended at minute {step}");
        if (step + 1) % DAY == 0 {
            check_drift(&server, &diagnostics).await;
            peaks.resident.push(resident());
            let day = (step + 1) / DAY;
            let wall = watch.elapsed().as_secs();
            let revision = server.revision();
            let described = format!("day {day}: {wall} s, {revision} changes, resident {} MB", resident() >> 20);
            let _ = writeln!(std::io::stderr(), "{described}");
        }
    }
    churn.calm_down().await;
    for _ in 0..CALM {
        churn.keep_up().await;
        clock.sleep(Duration::from_mins(1)).await;
    }
    check_drift(&server, &diagnostics).await;
    churn.check();
    let left: BTreeMap<String, u64> = kept(&diagnostics).into_iter().filter(|(_, count)| *count > 0).collect();
    assert!(left.is_empty(), "kept for ever: {left:?}");
    task.abort();
    expiry.abort();
    (peaks, churn)
}

#[test]
fn a_week_of_churn_leaves_nothing_behind() {
    let is_full = support::is_full();
    let size = if is_full { FULL } else { SMALL };
    let watch = Stopwatch::start();
    let (peaks, churn) = run_virtual(soak(size, 42)).unwrap();
    peaks.check();
    println!("{size:?} in {:.0} s", watch.elapsed().as_secs_f64());
    println!("happened: {:?}", churn.tally);
    println!("highest of each day: {:#?}", peaks.days);
    let rounds = if is_full { 100 } else { 3 };
    for what in
        ["nodes tainted", "taints flapped", "nodes lost", "rollouts", "evictions", "jobs ended", "replica sets scaled"]
    {
        assert!(churn.tally.get(what).is_some_and(|count| *count >= rounds), "too little happened: {:?}", churn.tally);
    }
    let highest = |name: &str| peaks.days.iter().filter_map(|day| day.get(name)).max().copied().unwrap_or(0);
    for name in ["taint_evictions_scheduled", "podgc_nodes_in_quarantine"] {
        assert!(highest(name) > 0, "{name} was never seen at work: the checks look at the wrong moment");
    }
}
