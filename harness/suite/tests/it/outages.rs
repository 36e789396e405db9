//! The API server is slow, refusing, restarting, failing or busy for five minutes: the controllers back off, never
//! storm it, and catch up by themselves when it has recovered. Virtual time.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use plumbline::apiserver::faults::{FaultAction, FaultRule, RuleMatcher, WatchEnd};
use plumbline::apiserver::kubelet::{self, KubeletOptions};
use plumbline::apiserver::workloads::run_workload_controllers;
use plumbline::apiserver::{ApiServer, ApiServerConfig};
use plumbline::time::{Clock, epoch, run_virtual};
use plumbline::transcript::EntryKind;
use plumbline_controllers::runtime::clock::Clock as SubjectClock;
use rstest::rstest;
use serde_json::json;

use crate::fleet::{Dice, Fleet, JSON, MERGE, TAINT, check_world, user, world};

/// Duration of the fault, in minutes.
const MINUTES: usize = 5;

/// The fault of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    /// Connections break without a reply.
    Refusing,
    /// Every reply is 500.
    Failing,
    /// Every reply is 429 with a Retry-After of one second.
    Busy,
    /// Every reply takes twenty seconds.
    Slow,
    /// Every reply takes longer than any client's timeout.
    Hanging,
    /// Down for three seconds out of twenty, and the watch history is lost.
    Restarting,
}

/// Returns a reply with the usual reason of a code.
fn reply(code: u16, retry_after: Option<i32>) -> FaultAction {
    FaultAction::Reply { code, reason: None, message: Some("outage".to_owned()), retry_after, applied: false }
}

impl Outage {
    fn verdict(self) -> FaultAction {
        match self {
            Self::Refusing | Self::Restarting => FaultAction::Drop { applied: false },
            Self::Failing => reply(500, None),
            Self::Busy => reply(429, Some(1)),
            Self::Slow => FaultAction::Delay { by: Duration::from_secs(20), applied: false },
            Self::Hanging => FaultAction::Hang { applied: false, tell: Arc::new(|| ()) },
        }
    }

    fn begin(self, server: &ApiServer) {
        let on = RuleMatcher::Fn(Arc::new(|request, _| request.user_agent.starts_with("replica-")));
        let rule =
            FaultRule { name: Some("outage".into()), on, nth: 1, count: None, percent: 100, verdict: self.verdict() };
        server.faults().arm(rule);
        server.faults().end_watches(None, WatchEnd::Broken);
        server.compact(server.revision());
    }

    /// Keeps the fault active for its duration.
    async fn last(self, server: &ApiServer) {
        for _ in 0..MINUTES * 3 {
            self.begin(server);
            let down = if self == Self::Restarting { 3 } else { 20 };
            server.clock().sleep(Duration::from_secs(down)).await;
            if self == Self::Restarting {
                server.faults().clear(None);
            }
            server.clock().sleep(Duration::from_secs(20 - down)).await;
            server.faults().clear(None);
        }
    }
}

/// Requests of the controllers in each minute of the fault.
fn requests(server: &ApiServer, from: Duration) -> Vec<usize> {
    let mut minutes = vec![0; MINUTES];
    server.transcript().with(|entries| {
        for entry in entries {
            let EntryKind::Request(exchange) = &entry.what else { continue };
            let minute = entry.at.checked_sub(from).map(|since| since.as_secs() as usize / 60);
            if exchange.request.user_agent.starts_with("replica-")
                && let Some(count) = minute.and_then(|minute| minutes.get_mut(minute))
            {
                *count += 1;
            }
        }
    });
    minutes
}

async fn suffer(outage: Outage) -> Vec<usize> {
    let clock = Clock::virtual_from(epoch());
    let server = ApiServer::new(ApiServerConfig::new(clock.clone()));
    server.seed(world()).unwrap();
    let background = [
        tokio::spawn(run_workload_controllers(server.clone())),
        tokio::spawn(kubelet::run(server.clone(), KubeletOptions::default())),
    ];
    let subject_clock = SubjectClock::simulated(clock.now());
    let mut fleet =
        Fleet { server: server.clone(), clock: subject_clock, dice: Dice::new(7), started: 0, elects: false };
    let replica = fleet.start();
    clock.sleep(Duration::from_mins(1)).await;
    check_world(&server);
    // Each controller has work, and all of it is queued when the fault begins.
    for node in ["node-1", "node-2"] {
        let taints = json!({ "spec": { "taints": [{ "key": TAINT, "effect": "NoExecute" }] } });
        assert_eq!(user(&server, Method::PATCH, &format!("/api/v1/nodes/{node}"), MERGE, taints).await, 200);
    }
    user(&server, Method::DELETE, "/api/v1/nodes/node-3", JSON, json!({})).await;
    user(&server, Method::POST, "/api/v1/nodes", JSON, crate::fleet::node("node-9")).await;
    clock.sleep(Duration::from_millis(5)).await;
    let begin = clock.elapsed();
    outage.last(&server).await;
    // The quarantine of the lost node, two sweeps, and the longest back-off that five minutes of failures can cause.
    clock.sleep(Duration::from_mins(12)).await;
    assert!(replica.is_running(), "it gave up");
    check_world(&server);
    replica.kill();
    background.iter().for_each(tokio::task::JoinHandle::abort);
    requests(&server, begin)
}

/// Bounds for the first minute, in which every back-off starts at its shortest, and for each later one. About twice the
/// requests that 13 pods, 9 nodes and 3 budgets cause today; for the busy server they follow from its Retry-After of
/// one second.
#[rstest]
#[case::refusing(Outage::Refusing, 300, 60)]
#[case::failing(Outage::Failing, 300, 60)]
#[case::busy(Outage::Busy, 1_200, 800)]
#[case::slow(Outage::Slow, 100, 60)]
#[case::hanging(Outage::Hanging, 100, 60)]
#[case::restarting(Outage::Restarting, 300, 200)]
fn a_failing_server_is_not_flooded_and_nothing_is_lost(
    #[case] outage: Outage,
    #[case] first: usize,
    #[case] later: usize,
) {
    let minutes = run_virtual(suffer(outage)).unwrap();
    println!("{outage:?}: requests in each minute: {minutes:?}");
    assert!(minutes.iter().sum::<usize>() > 0, "nothing was tried");
    assert!(minutes[0] <= first, "a storm: {minutes:?}");
    assert!(minutes[1..].iter().all(|count| *count <= later), "a storm that lasts: {minutes:?}");
}
