//! Runs two replicas of our controllers and kills the leader at random points under load (15 times; 200 times with
//! `PLUMBLINE_TESTS=full`); in between it is cut off from the server or asked to stop. Virtual time and one seed:
//! every run is the same.
//!
//! The network between a replica and the server has delays, so that requests of a dead leader still arrive. The test
//! checks the server's transcript: who held the lease when a write arrived, what each delete changed, and what is left
//! to do at the end.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderValue, Method, header};
use plumbline::apiserver::kubelet::{self, KubeletOptions};
use plumbline::apiserver::workloads::run_workload_controllers;
use plumbline::apiserver::{ApiRequest, ApiServer, ApiServerConfig, ResourceId};
use plumbline::time::{Clock, epoch, run_virtual};
use plumbline::transcript::{Actor, Attributed as _, Change, ChangeKind, EntryKind, TranscriptEntry};
use plumbline_controllers::app::AppError;
use plumbline_controllers::runtime::clock::Clock as SubjectClock;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::fleet::{
    Dice, Fleet, JSON, MERGE, Replica, SLOWEST, TAINT, check_world, is_tainted, node, text, user, world,
};
use crate::support;

/// Number of times the leader is killed. It ends in other ways half as often in addition.
const KILLS: usize = 15;
/// Number of kills with `PLUMBLINE_TESTS=full`.
const KILLS_IN_FULL: usize = 200;
/// A leader that is cut off gives up after its renew deadline (10 s) at the latest, including the timeout of its
/// requests.
const LEARNS_WITHIN: Duration = Duration::from_secs(30);
/// Ways for a leader to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Killed at once, with requests in flight.
    Killed,
    /// The server is unreachable; the program continues to run.
    CutOff,
    /// Orderly stop, as on SIGTERM.
    Stopped,
}

async fn end(clock: Clock, replica: Replica, how: End) {
    let Replica { name, task, stop, down } = replica;
    match how {
        End::Killed => task.abort(),
        End::CutOff => {
            down.store(true, Ordering::SeqCst);
            let mut task = task;
            if let Some(ended) = clock.timeout(LEARNS_WITHIN, &mut task).await {
                let error = ended.unwrap().unwrap_err();
                assert!(matches!(error, AppError::LostLease(_)), "{name}: {error}");
            } else {
                // The reply that granted the lease was still in flight: the replica never learned of it and keeps
                // trying.
                stop.cancel();
                assert!(task.await.unwrap().is_ok(), "{name}");
            }
        }
        End::Stopped => {
            stop.cancel();
            let ended = task.await.unwrap();
            assert!(ended.is_ok(), "{name}: {ended:?}");
        }
    }
}

fn holder(server: &ApiServer) -> String {
    let lease = server.get(&ResourceId::new("coordination.k8s.io", "leases"), "kube-system", "plumbline-controllers");
    let holder = lease.map(|lease| lease.value()["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned());
    holder.unwrap_or_default()
}

/// Taints and untaints nodes at random; now and then one is removed for good and another is added; budgets change; jobs
/// end.
async fn load(server: ApiServer, dice: Dice) {
    let nodes = ResourceId::new("", "nodes");
    let mut made = 6;
    loop {
        server.clock().sleep(Duration::from_millis(250) + dice.millis(1_500)).await;
        let names: Vec<String> = server.list(&nodes, None).iter().map(|node| node.name().to_owned()).collect();
        let chosen = &names[dice.roll(names.len() as u64) as usize];
        let path = format!("/api/v1/nodes/{chosen}");
        match dice.roll(10) {
            0..3 => {
                let taints = json!({ "spec": { "taints": [{ "key": TAINT, "effect": "NoExecute" }] } });
                user(&server, Method::PATCH, &path, MERGE, taints).await;
            }
            3..6 => {
                user(&server, Method::PATCH, &path, MERGE, json!({ "spec": { "taints": null } })).await;
            }
            6 if names.len() > 3 => {
                user(&server, Method::DELETE, &path, JSON, json!({})).await;
            }
            7 if names.len() < 8 => {
                made += 1;
                user(&server, Method::POST, "/api/v1/nodes", JSON, node(&format!("node-{made}"))).await;
            }
            8 => {
                let budget = ["web", "api", "db"][dice.roll(3) as usize];
                let path = format!("/apis/policy/v1/namespaces/default/poddisruptionbudgets/{budget}");
                let spec = json!({ "spec": { "maxUnavailable": dice.roll(4) } });
                user(&server, Method::PATCH, &path, MERGE, spec).await;
            }
            _ => {
                made += 1;
                let name = format!("job-{made}");
                let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
                    "spec": { "nodeName": chosen, "terminationGracePeriodSeconds": 1, "tolerations": [{ "operator": "Exists" }],
                        "containers": [{ "name": "c", "image": "i" }] } });
                user(&server, Method::POST, "/api/v1/namespaces/default/pods", JSON, pod).await;
                let done = json!({ "status": { "phase": "Succeeded" } });
                user(&server, Method::PATCH, &format!("/api/v1/namespaces/default/pods/{name}/status"), MERGE, done)
                    .await;
            }
        }
    }
}

/// Number of leaders that ended, by way.
#[derive(Debug, Default)]
struct Tally {
    ends: BTreeMap<String, usize>,
}

async fn fail_over(seed: u64) -> (ApiServer, Tally) {
    let clock = Clock::virtual_from(epoch());
    let server = ApiServer::new(ApiServerConfig::new(clock.clone()));
    server.seed(world()).unwrap();
    let dice = Dice::new(seed);
    let background = [
        tokio::spawn(run_workload_controllers(server.clone())),
        tokio::spawn(kubelet::run(server.clone(), KubeletOptions::default())),
    ];
    let mut fleet = Fleet {
        server: server.clone(),
        clock: SubjectClock::simulated(clock.now()),
        dice: dice.clone(),
        started: 0,
        elects: true,
    };
    let mut replicas = vec![fleet.start(), fleet.start()];
    let load = tokio::spawn(load(server.clone(), dice.clone()));
    let mut tally = Tally::default();
    let mut endings = Vec::new();
    let enough = if support::is_full() { KILLS_IN_FULL } else { KILLS };
    while tally.ends.get("Killed").is_none_or(|kills| *kills < enough) {
        clock.sleep(dice.millis(8_000)).await;
        let leader = holder(&server);
        let Some(at) = replicas.iter().position(|replica| replica.name == leader) else {
            continue;
        };
        let how = match dice.roll(10) {
            0..6 => End::Killed,
            6..8 => End::CutOff,
            _ => End::Stopped,
        };
        *tally.ends.entry(format!("{how:?}")).or_default() += 1;
        server.transcript().note(clock.elapsed(), format!("{leader}: {how:?}"));
        endings.push(tokio::spawn(end(clock.clone(), replicas.remove(at), how)));
        clock.sleep(dice.millis(3_000)).await;
        replicas.push(fleet.start());
    }
    load.abort();
    for ending in endings {
        ending.await.unwrap();
    }
    // Leaves time for the last takeover, including quarantine and sweeps.
    clock.sleep(Duration::from_mins(4)).await;
    for replica in replicas {
        end(clock.clone(), replica, End::Stopped).await;
    }
    background.iter().for_each(JoinHandle::abort);
    (server, tally)
}

/// Returns the replica that sent a request, if a replica did.
fn replica_of(user_agent: &str) -> Option<&str> {
    user_agent.split('/').next().filter(|name| name.starts_with("replica-"))
}

fn is_controllers(actor: &Actor) -> bool {
    matches!(actor, Actor::Disruption | Actor::PodGc | Actor::TaintEviction | Actor::Ttl)
}

/// Checks that the sender of each write of a controller and each event held the lease when it arrived.
fn check_writers(entries: &[TranscriptEntry]) -> (usize, usize) {
    let mut holder = String::new();
    let mut writes = 0;
    let mut terms = 0;
    for entry in entries {
        match &entry.what {
            EntryKind::Change(change) if change.resource == "leases" && change.name == "plumbline-controllers" => {
                let new = change.new.as_ref().map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap_or_default());
                let new = new.unwrap_or_default();
                terms += usize::from(!new.is_empty() && new != holder);
                new.clone_into(&mut holder);
            }
            EntryKind::Request(exchange) if exchange.request.is_write() => {
                let request = &exchange.request;
                let Some(replica) = replica_of(&request.user_agent) else { continue };
                if request.resource == "leases" {
                    continue;
                }
                writes += 1;
                assert_eq!(
                    replica, holder,
                    "{:?}: {} {} arrived from {replica}, the lease is {holder}'s",
                    entry.at, request.verb, request.path
                );
            }
            _ => {}
        }
    }
    (writes, terms)
}

/// Checks every pod that controllers evicted, by UID: exactly one request deleted it, and the deletion was due. A
/// second delete of the same pod, which a successor may send, must have changed nothing.
fn check_evictions(entries: &[TranscriptEntry]) -> usize {
    let (mut nodes, mut gone_nodes) = (BTreeMap::<String, Value>::new(), BTreeMap::<String, Duration>::new());
    let mut untainted = BTreeMap::<String, Duration>::new();
    let mut ended = BTreeSet::new();
    let deletes: BTreeMap<usize, Actor> = entries.iter().filter_map(controllers_delete).collect();
    for entry in entries {
        let EntryKind::Change(change) = &entry.what else { continue };
        if change.resource == "nodes" && change.group.is_empty() {
            note_node(change, entry.at, &mut nodes, &mut gone_nodes, &mut untainted);
        }
        let Some(actor) = change.request.and_then(|seq| deletes.get(&seq)) else { continue };
        let old = change.old.as_ref().unwrap();
        let uid = text(old, "/metadata/uid").to_owned();
        let begun = text(old, "/metadata/deletionTimestamp").is_empty();
        let graceful = change.kind == ChangeKind::Modified;
        if !begun && graceful {
            let times = ["/metadata/deletionTimestamp", "/metadata/deletionGracePeriodSeconds"];
            let new = change.new.as_ref().unwrap();
            let same = times.iter().all(|path| old.pointer(path) == new.pointer(path));
            // Pods left terminating when their node was removed are deleted by podgc again, without delay.
            let left_over = *actor == Actor::PodGc && gone_nodes.contains_key(text(old, "/spec/nodeName"));
            assert!(same || left_over, "{:?}: {} was evicted twice", entry.at, change.name);
        }
        if !begun {
            continue;
        }
        assert!(ended.insert(uid), "{:?}: {} was ended twice", entry.at, change.name);
        let node = text(old, "/spec/nodeName");
        let due = if *actor == Actor::TaintEviction {
            // The taint may have been removed while the request was in flight.
            let tainted = nodes.get(node).is_some_and(is_tainted);
            let late = Duration::from_millis(4 * SLOWEST);
            let just_now = untainted.get(node).is_some_and(|at| entry.at.saturating_sub(*at) <= late);
            tainted || just_now || gone_nodes.contains_key(node)
        } else {
            let finished = matches!(text(old, "/status/phase"), "Succeeded" | "Failed");
            finished && (gone_nodes.contains_key(node) || text(old, "/metadata/name").starts_with("job-"))
        };
        assert!(due, "{:?}: {actor} ended {} on {node} without a reason: {old}", entry.at, change.name);
    }
    ended.len()
}

fn controllers_delete(entry: &TranscriptEntry) -> Option<(usize, Actor)> {
    let EntryKind::Request(exchange) = &entry.what else { return None };
    let is_delete = exchange.request.verb == "delete" && exchange.request.resource == "pods";
    (is_delete && is_controllers(&entry.actor())).then(|| (entry.seq, entry.actor()))
}

fn note_node(
    change: &Change,
    at: Duration,
    nodes: &mut BTreeMap<String, Value>,
    gone: &mut BTreeMap<String, Duration>,
    untainted: &mut BTreeMap<String, Duration>,
) {
    if change.old.as_deref().is_some_and(is_tainted) && !change.new.as_deref().is_some_and(is_tainted) {
        untainted.insert(change.name.clone(), at);
    }
    if let Some(new) = &change.new {
        nodes.insert(change.name.clone(), Value::clone(new));
        gone.remove(&change.name);
    } else {
        nodes.remove(&change.name);
        gone.insert(change.name.clone(), at);
    }
}

#[test]
fn killed_leaders_lose_nothing_and_do_nothing_twice() {
    let (server, tally) = run_virtual(fail_over(5)).unwrap();
    let (writes, terms, ended) = server
        .transcript()
        .with(|entries| (check_writers(entries).0, check_writers(entries).1, check_evictions(entries)));
    check_world(&server);
    let virtual_minutes = server.transcript().with(|entries| entries.last().unwrap().at.as_secs() / 60);
    println!(
        "{:?}: {terms} terms in {virtual_minutes} virtual minutes, {writes} writes each by the holder of the lease, {ended} pods ended once each",
        tally.ends
    );
    let ends = tally.ends.values().sum::<usize>();
    assert!(terms > ends, "only {terms} terms after {ends} ends");
    assert!(writes > 4 * ends && ended > ends, "too little work: {writes} writes, {ended} pods");
}

/// Proves that the check can fail: it finds a writer without the lease.
#[test]
fn a_second_writer_would_be_found() {
    let (server, ()) = run_virtual(async {
        let clock = Clock::virtual_from(epoch());
        let server = ApiServer::new(ApiServerConfig::new(clock.clone()));
        server.seed(world()).unwrap();
        let mut fleet = Fleet {
            server: server.clone(),
            clock: SubjectClock::simulated(clock.now()),
            dice: Dice::new(1),
            started: 0,
            elects: true,
        };
        let replica = fleet.start();
        clock.sleep(Duration::from_secs(10)).await;
        end(clock.clone(), replica, End::Stopped).await;
        let mut request = ApiRequest::new(Method::PATCH, "/api/v1/nodes/node-1");
        request.headers.insert(header::USER_AGENT, HeaderValue::from_static("replica-9/ttl-controller"));
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MERGE));
        request.body = json!({ "metadata": { "annotations": { "a": "b" } } }).to_string().into();
        assert_eq!(server.handle(request).await.status, 200);
        (server, ())
    })
    .unwrap();
    let found = std::panic::catch_unwind(|| server.transcript().with(check_writers));
    let found = *found.unwrap_err().downcast::<String>().unwrap();
    assert!(found.contains("arrived from replica-9, the lease is 's"), "{found}");
}
