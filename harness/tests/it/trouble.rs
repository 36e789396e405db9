//! The API server slow, refusing, restarting, failing or busy for five minutes: the controllers wait with growing pauses,
//! never storm it, and do by themselves what there is to do once it is well. Virtual time.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use crate::fleet::{Dice, Fleet, JSON, MERGE, TAINT, check_world, user, world};
use http::Method;
use plumbline::apiserver::faults::{On, Rule, Verdict, WatchEnd};
use plumbline::apiserver::kubelet::{self, Options};
use plumbline::apiserver::status::Status;
use plumbline::apiserver::workloads::keep_workloads;
use plumbline::apiserver::{ApiServer, ApiServerConfig};
use plumbline::time::{Clock, epoch, run_virtual};
use plumbline::transcript::Happening;
use plumbline_controllers::runtime::clock::Clock as SubjectClock;
use rstest::rstest;
use serde_json::json;

/// How long the trouble lasts, minutes.
const MINUTES: usize = 5;

/// What is wrong with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Connections break without an answer.
    Refusing,
    /// Every answer is 500.
    Failing,
    /// Every answer is 429, come back in a second.
    Busy,
    /// Every answer takes twenty seconds.
    Slow,
    /// Every answer takes longer than anybody waits.
    Hanging,
    /// Down for three seconds out of twenty, and it has forgotten what watches could go on from.
    Restarting,
}

impl Trouble {
    fn verdict(self) -> Verdict {
        match self {
            Self::Refusing | Self::Restarting => Verdict::Drop { applied: false },
            Self::Failing => Verdict::Reply { status: Status::internal("trouble"), applied: false },
            Self::Busy => Verdict::Reply { status: Status::too_many_requests("busy", 1), applied: false },
            Self::Slow => Verdict::Delay { by: Duration::from_secs(20), applied: false },
            Self::Hanging => Verdict::Hang { applied: false, tell: Arc::new(|| ()) },
        }
    }

    fn begin(self, server: &ApiServer) {
        let on = On::Predicate(Arc::new(|request, _| request.user_agent.starts_with("replica-")));
        let rule =
            Rule { name: Some("trouble".into()), on, nth: 1, count: None, percent: 100, verdict: self.verdict() };
        server.faults().arm(rule);
        server.faults().end_watches(None, WatchEnd::Broken);
        server.compact(server.store().revision());
    }

    /// Lets the trouble last.
    async fn last(self, server: &ApiServer) {
        for _ in 0..MINUTES * 3 {
            self.begin(server);
            let down = if self == Self::Restarting { 3 } else { 20 };
            server.clock().sleep(Duration::from_secs(down)).await;
            if self == Self::Restarting {
                server.faults().heal(None);
            }
            server.clock().sleep(Duration::from_secs(20 - down)).await;
            server.faults().heal(None);
        }
    }
}

/// Requests of the controllers in each minute of the trouble.
fn requests(server: &ApiServer, from: Duration) -> Vec<usize> {
    let mut minutes = vec![0; MINUTES];
    server.transcript().with(|entries| {
        for entry in entries {
            let Happening::Request(exchange) = &entry.what else { continue };
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

async fn suffer(trouble: Trouble) -> Vec<usize> {
    let clock = Clock::virtual_from(epoch());
    let server = ApiServer::new(ApiServerConfig::new(clock.clone()));
    server.seed(world()).unwrap();
    let background =
        [tokio::spawn(keep_workloads(server.clone())), tokio::spawn(kubelet::run(server.clone(), Options::default()))];
    let subject_clock = SubjectClock::simulated(clock.now());
    let mut fleet =
        Fleet { server: server.clone(), clock: subject_clock, dice: Dice::new(7), started: 0, elects: false };
    let replica = fleet.start();
    clock.sleep(Duration::from_mins(1)).await;
    check_world(&server);
    // There is work for each controller, and all of it is in its queues when the trouble begins.
    for node in ["node-1", "node-2"] {
        let taints = json!({ "spec": { "taints": [{ "key": TAINT, "effect": "NoExecute" }] } });
        assert_eq!(user(&server, Method::PATCH, &format!("/api/v1/nodes/{node}"), MERGE, taints).await, 200);
    }
    user(&server, Method::DELETE, "/api/v1/nodes/node-3", JSON, json!({})).await;
    user(&server, Method::POST, "/api/v1/nodes", JSON, crate::fleet::node("node-9")).await;
    clock.sleep(Duration::from_millis(5)).await;
    let begin = clock.elapsed();
    trouble.last(&server).await;
    // Quarantine of the lost node, two sweeps, and the longest pause of any back-off that five minutes can earn.
    clock.sleep(Duration::from_mins(12)).await;
    assert!(replica.is_running(), "it gave up");
    check_world(&server);
    replica.kill();
    background.iter().for_each(tokio::task::JoinHandle::abort);
    requests(&server, begin)
}

/// Bounds: of the first minute, in which every pause begins at its shortest, and of each later one. About twice of what
/// 13 pods, 9 nodes and 3 budgets cost today; busy is what the server asks for, a repetition a second.
#[rstest]
#[case::refusing(Trouble::Refusing, 300, 60)]
#[case::failing(Trouble::Failing, 300, 60)]
#[case::busy(Trouble::Busy, 1_200, 800)]
#[case::slow(Trouble::Slow, 100, 60)]
#[case::hanging(Trouble::Hanging, 100, 60)]
#[case::restarting(Trouble::Restarting, 300, 200)]
fn a_server_in_trouble_is_not_stormed_and_nothing_is_lost(
    #[case] trouble: Trouble,
    #[case] first: usize,
    #[case] later: usize,
) {
    let minutes = run_virtual(suffer(trouble)).unwrap();
    println!("{trouble:?}: requests in each minute: {minutes:?}");
    assert!(minutes.iter().sum::<usize>() > 0, "nothing was tried");
    assert!(minutes[0] <= first, "a storm: {minutes:?}");
    assert!(minutes[1..].iter().all(|count| *count <= later), "a storm that lasts: {minutes:?}");
}
