//! Candidates against a server with one lease that may be unavailable, slow or wrong.

use std::sync::Arc;

use parking_lot::Mutex;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::runtime::testing::{MockResponse, ReceivedRequest, RequestLog, failure, must_end, serve};

type Fault = fn() -> MockResponse;

/// A server with one versioned lease.
#[derive(Clone, Default)]
struct Server {
    lease: Arc<Mutex<Option<Value>>>,
    /// The response to send instead, while set.
    fault: Arc<Mutex<Option<Fault>>>,
    /// Accept writes, but break the connection before the response.
    torn: Arc<Mutex<bool>>,
    /// Number of releases that a renewal overtakes.
    overtaken: Arc<Mutex<u32>>,
}

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

impl Server {
    fn answer(&self, seen: &ReceivedRequest) -> MockResponse {
        if let Some(fault) = *self.fault.lock() {
            return fault();
        }
        let mut lease = self.lease.lock();
        let version = lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        let (method, path) = seen.line.split_once(' ').unwrap();
        let path = path.split('?').next().unwrap();
        let next = match (method, path.strip_prefix(PATH), &version) {
            ("POST", Some(""), _) if seen.user_agent.ends_with("leader-election") && version.is_none() => {
                "1".to_owned()
            }
            ("POST", Some(""), _) => return failure(409, "AlreadyExists"),
            ("GET" | "PUT", Some("/l"), None) => return failure(404, "NotFound"),
            ("GET", Some("/l"), Some(_)) => return MockResponse::Json(200, lease.clone().unwrap()),
            ("PUT", Some("/l"), Some(version)) if seen.body["metadata"]["resourceVersion"] != *version => {
                return failure(409, "Conflict");
            }
            ("PUT", Some("/l"), Some(_)) if seen.body["spec"]["holderIdentity"] == "" && self.overtakes() => {
                let lease = lease.as_mut().unwrap();
                lease["metadata"]["resourceVersion"] =
                    format!("9{}", lease["metadata"]["resourceVersion"].as_str().unwrap()).into();
                return failure(409, "Conflict");
            }
            ("PUT", Some("/l"), Some(version)) => (version.as_str().unwrap().parse::<u64>().unwrap() + 1).to_string(),
            ("POST", None, _) => return MockResponse::Json(201, seen.body.clone()),
            _ => panic!("{}", seen.line),
        };
        let mut body = seen.body.clone();
        body["metadata"]["resourceVersion"] = next.into();
        body["metadata"]["uid"] = "u".into();
        *lease = Some(body.clone());
        if *self.torn.lock() { MockResponse::Torn } else { MockResponse::Json(200, body) }
    }

    fn overtakes(&self) -> bool {
        let mut left = self.overtaken.lock();
        let overtakes = *left > 0;
        *left = left.saturating_sub(1);
        overtakes
    }

    fn holder(&self) -> String {
        let lease = self.lease.lock();
        lease.as_ref().map_or("-", |lease| lease["spec"]["holderIdentity"].as_str().unwrap()).to_owned()
    }

    fn set(&self, holder: &str, version: &str) {
        let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 7 });
        *self.lease.lock() = Some(json!({ "metadata": { "name": "l", "resourceVersion": version }, "spec": spec }));
    }

    fn fail_with(&self, fault: Option<Fault>) {
        *self.fault.lock() = fault;
    }
}

struct Candidate {
    elector: LeaderElector,
    leadership: Leadership,
    metrics: Metrics,
    log: RequestLog,
    _events: tokio::task::JoinSet<()>,
}

fn candidate(server: &Server, clock: &Clock, identity: &str) -> Candidate {
    let behind = server.clone();
    let (plain, log) = serve(clock, move |seen| behind.answer(seen));
    let leadership = Leadership::candidate();
    let metrics = Metrics::new();
    let (recorder, run) = Recorder::new("test", plain.clone(), clock.clone(), metrics.clone());
    let mut events = tokio::task::JoinSet::new();
    events.spawn(run);
    let election = Election {
        name: "l".into(),
        namespace: "kube-system".into(),
        identity: identity.into(),
        timing: Timing::default(),
    };
    let elector = LeaderElector::new(election, plain, clock.clone(), leadership.clone(), metrics.clone(), recorder);
    Candidate { elector, leadership, metrics, log, _events: events }
}

fn clock() -> Clock {
    Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap())
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn the_first_creates_the_lease_and_renews_it_every_two_seconds_with_one_request() {
    let server = Server::default();
    let clock = clock();
    let mut one = candidate(&server, &clock, "one");
    assert_eq!(one.leadership.remaining(&clock), None, "nothing is written before");
    must_end(one.elector.acquire()).await;
    assert_eq!(one.leadership.remaining(&clock), Some(s(10)));
    assert_eq!(one.metrics.value("leader_election_master_status", &[("name", "l")]), Some(1.0));
    let kept = clock.timeout(s(61), one.elector.renew_until_lost()).await;
    assert!(kept.is_err(), "{kept:?}");
    let puts = one.log.lock().iter().filter(|seen| seen.line.starts_with("PUT")).count();
    let gets = one.log.lock().iter().filter(|seen| seen.line.starts_with("GET")).count();
    assert_eq!((puts, gets), (30, 1));
    let lease = server.lease.lock().clone().unwrap();
    assert_eq!(lease["spec"]["acquireTime"], "2026-01-01T00:00:00.000000Z");
    assert_eq!(lease["spec"]["renewTime"], "2026-01-01T00:01:00.000000Z");
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_when_the_lease_has_run_out_and_not_before() {
    let server = Server::default();
    let clock = clock();
    server.set("dead", "3");
    let mut two = candidate(&server, &clock, "two");
    assert!(clock.timeout(s(15), two.elector.acquire()).await.is_err(), "too early");
    assert_eq!(server.holder(), "dead");
    must_end(two.elector.acquire()).await;
    assert!(clock.monotonic() < s(15) + s(5), "{:?}", clock.monotonic());
    assert_eq!(server.holder(), "two");
    assert_eq!(server.lease.lock().as_ref().unwrap()["spec"]["leaseTransitions"], 8);
}

#[tokio::test(start_paused = true)]
async fn a_standby_waits_again_after_each_observed_renewal() {
    let server = Server::default();
    let clock = clock();
    server.set("busy", "3");
    let mut two = candidate(&server, &clock, "two");
    for version in 4..20 {
        assert!(clock.timeout(s(12), two.elector.acquire()).await.is_err());
        let mut lease = server.lease.lock();
        let lease = lease.as_mut().unwrap();
        lease["metadata"]["resourceVersion"] = version.to_string().into();
        lease["spec"]["renewTime"] = clock.now().to_string().into();
    }
    assert_eq!(server.holder(), "busy");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_the_next_look() {
    let server = Server::default();
    let clock = clock();
    let mut one = candidate(&server, &clock, "one");
    let mut two = candidate(&server, &clock, "two");
    must_end(one.elector.acquire()).await;
    assert!(clock.timeout(s(3), two.elector.acquire()).await.is_err());
    let mut elector = one.elector.shut_down_events();
    must_end(elector.release()).await;
    assert_eq!((server.holder().as_str(), one.leadership.remaining(&clock)), ("", None));
    let released = clock.monotonic();
    must_end(two.elector.acquire()).await;
    assert!(clock.monotonic() < released + s(5));
    clock.sleep(s(1)).await;
    let log = one.log.lock();
    let events: Vec<_> = log.iter().filter_map(|seen| seen.body["message"].as_str()).collect();
    assert_eq!(events, ["one became leader", "one stopped leading"]);
}

#[rstest]
#[case::away(|| MockResponse::Reset)]
#[case::silent(|| MockResponse::Hang)]
#[case::failing(|| failure(500, "InternalError"))]
#[case::busy(|| MockResponse::RetryAfter(429, 3))]
#[case::forbidding(|| failure(403, "Forbidden"))]
#[tokio::test(start_paused = true)]
async fn a_failing_server_ends_leadership_after_the_renew_deadline(#[case] fault: Fault) {
    let server = Server::default();
    let clock = clock();
    let mut one = candidate(&server, &clock, "one");
    must_end(one.elector.acquire()).await;
    server.fail_with(Some(fault));
    assert_eq!(must_end(one.elector.renew_until_lost()).await, LeaseLost::Unrenewed { limit: s(10) });
    assert_eq!(clock.monotonic(), s(10), "after the renewal that was sent last");
    assert_eq!(one.leadership.remaining(&clock), None);
    assert_eq!(one.metrics.value("leader_election_master_status", &[("name", "l")]), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn a_failure_shorter_than_the_deadline_keeps_the_lease() {
    let server = Server::default();
    let clock = clock();
    let mut one = candidate(&server, &clock, "one");
    must_end(one.elector.acquire()).await;
    for _ in 0..20 {
        server.fail_with(Some(|| failure(503, "ServiceUnavailable")));
        assert!(clock.timeout(s(5), one.elector.renew_until_lost()).await.is_err());
        server.fail_with(None);
        assert!(clock.timeout(s(5), one.elector.renew_until_lost()).await.is_err());
    }
    assert!(one.leadership.remaining(&clock).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_was_lost_is_found_out_about() {
    let server = Server::default();
    let clock = clock();
    let mut one = candidate(&server, &clock, "one");
    must_end(one.elector.acquire()).await;
    *server.torn.lock() = true;
    assert!(clock.timeout(s(3), one.elector.renew_until_lost()).await.is_err());
    *server.torn.lock() = false;
    assert!(clock.timeout(s(30), one.elector.renew_until_lost()).await.is_err(), "still leading");
    assert!(one.metrics.value("leader_election_slowpath_total", &[("name", "l")]) > Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_another_replica_is_lost_at_once() {
    let server = Server::default();
    let clock = clock();
    let mut one = candidate(&server, &clock, "one");
    must_end(one.elector.acquire()).await;
    server.set("two", "77");
    assert_eq!(must_end(one.elector.renew_until_lost()).await, LeaseLost::Taken { holder: "two".into() });
    assert_eq!(clock.monotonic(), s(2));
    assert_eq!(one.leadership.remaining(&clock), None);
    must_end(one.elector.release()).await;
    assert_eq!(server.holder(), "two", "what is not ours is not released");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_is_created_again() {
    let server = Server::default();
    let clock = clock();
    let mut one = candidate(&server, &clock, "one");
    must_end(one.elector.acquire()).await;
    *server.lease.lock() = None;
    assert!(clock.timeout(s(3), one.elector.renew_until_lost()).await.is_err());
    assert_eq!(server.holder(), "one");
}

/// As client-go 0.37 (kubernetes/kubernetes#137988); that of 0.36 leaves the lease to its expiry.
#[tokio::test(start_paused = true)]
async fn a_release_that_a_renewal_overtakes_is_tried_again() {
    let server = Server::default();
    let clock = clock();
    let mut one = candidate(&server, &clock, "one");
    must_end(one.elector.acquire()).await;
    *server.overtaken.lock() = 2;
    let sent = one.log.lock().len();
    must_end(one.elector.release()).await;
    assert_eq!(server.holder(), "");
    let log = one.log.lock();
    let log: Vec<_> = log[sent..].iter().filter(|seen| seen.line.contains("/leases/")).collect();
    let log: Vec<_> = log.iter().map(|seen| &seen.line[..3]).collect();
    assert_eq!(log, ["GET", "PUT", "GET", "PUT", "GET", "PUT"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_asked_for_in_vain_is_released_too() {
    let server = Server::default();
    let clock = clock();
    let mut one = candidate(&server, &clock, "one");
    *server.torn.lock() = true;
    assert!(clock.timeout(Duration::from_millis(500), one.elector.acquire()).await.is_err());
    assert_eq!(server.holder(), "one", "the write arrived, its answer did not");
    *server.torn.lock() = false;
    must_end(one.elector.release()).await;
    assert_eq!(server.holder(), "");
}

#[rstest]
#[case::default(15, 10, 2_000, Ok(()))]
#[case::duration(10, 10, 2_000, Err(TimingError::Duration))]
#[case::deadline(15, 10, 8_334, Err(TimingError::Deadline))]
#[case::just_enough(15, 10, 8_333, Ok(()))]
#[case::zero(15, 10, 0, Err(TimingError::Zero))]
#[case::no_time(0, 0, 0, Err(TimingError::Zero))]
fn timings(
    #[case] lease: u64,
    #[case] deadline: u64,
    #[case] retry_ms: u64,
    #[case] expected: Result<(), TimingError>,
) {
    let retry_period = Duration::from_millis(retry_ms);
    let timing = Timing { lease_duration: s(lease), renew_deadline: s(deadline), retry_period };
    assert_eq!(timing.validate(), expected);
}
