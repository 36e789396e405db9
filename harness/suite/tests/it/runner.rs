//! The runner with misbehaving subjects, which are small stand-ins here.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use plumbline::fixture::{Controller, Fixture, parse};
use plumbline_suite::report::JudgedRun;
use plumbline_suite::report::Outcome;
use plumbline_suite::runner::suite::{self, RunOptions, TestBed};
use plumbline_suite::subject::client_factory::ClientFactory;
use plumbline_suite::subject::task::{RunningTask, TaskController, TaskSubject};
use plumbline_suite::subject::{Launch, SubjectError};

const USER_AGENT: &str = "stand-in/1 (test) ttl-controller";

/// The work of a stand-in once it runs.
type SendWork = fn(kube::Client) -> futures::future::BoxFuture<'static, ()>;

struct StandIn {
    work: SendWork,
    refuse: bool,
}

impl TaskController for StandIn {
    fn name(&self) -> String {
        "stand-in".to_owned()
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        Controller::ALL.into()
    }

    fn start(&self, launch: &Launch<'_>) -> Result<RunningTask, SubjectError> {
        assert!(!self.refuse, "refuses to start");
        let factory = ClientFactory::new(launch.access, launch.clock)?;
        let work = (self.work)(factory.client(USER_AGENT));
        Ok(RunningTask::spawn(factory, async move {
            work.await;
            std::future::pending::<Result<(), String>>().await
        }))
    }
}

fn fixture(name: &str, yaml: &str) -> Fixture {
    let head = "promise: A stand-in is treated as it deserves.\nrule: BR-19-01\nlevel: core\nfeature: ttl.annotation\n";
    let text = format!("{head}{yaml}");
    let (mut fixtures, problems) = parse::read(Path::new(&format!("fixtures/ttl/{name}.yaml")), "ttl", &text);
    assert!(problems.is_empty(), "{problems:?}");
    fixtures.remove(0)
}

fn run(fixtures: &[Fixture], subject: StandIn) -> Vec<JudgedRun> {
    let test_bed = TestBed { subject: Arc::new(TaskSubject::new(subject)), ..TestBed::embedded() };
    let mut results = vec![None; fixtures.len()];
    suite::run_all(fixtures, &test_bed, RunOptions { jobs: 2, ..RunOptions::one_by_one() }, |index, judged| {
        results[index] = Some(judged);
        true
    });
    results.into_iter().flatten().collect()
}

fn messages(judged: &JudgedRun) -> String {
    judged.report.failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const QUIET: &str = "given: { pods: [a] }\nsteps:\n- { until: 10s, consistently: { exists: pods/a } }\n";

#[test]
fn a_panic_in_a_task_of_the_subject_fails_the_fixture() {
    let work: SendWork = |client| {
        async move {
            let pod = Api::<Pod>::default_namespaced(client).get("a").await.expect("it exists");
            panic!("no idea what to do with {}", pod.metadata.name.unwrap_or_default());
        }
        .boxed()
    };
    let judged = run(&[fixture("panic", QUIET)], StandIn { work, refuse: false });
    let text = messages(&judged[0]);
    assert_eq!(judged[0].report.outcome, Outcome::Fail);
    assert!(text.contains("the subject panicked: no idea what to do with a at "), "{text}");
    assert!(judged[0].transcript.contains("ttl            GET    pods/a 200"), "{}", judged[0].transcript);
}

#[test]
fn a_panic_of_the_run_fails_its_fixture_and_stops_no_other() {
    let work: SendWork = |_| std::future::ready(()).boxed();
    let fixtures = [fixture("one", QUIET), fixture("two", QUIET), fixture("three", QUIET)];
    let judged = run(&fixtures, StandIn { work, refuse: true });
    assert_eq!(judged.len(), 3);
    for judged in judged {
        let text = messages(&judged);
        assert!(text.contains("the fixture's run panicked: refuses to start at "), "{text}");
    }
}

#[test]
fn a_subject_that_runs_away_is_stopped() {
    let work: SendWork = |client| {
        async move {
            let pods = Api::<Pod>::default_namespaced(client);
            loop {
                let _ = pods.get("a").await;
            }
        }
        .boxed()
    };
    let judged = run(&[fixture("loop", QUIET)], StandIn { work, refuse: false });
    let text = messages(&judged[0]);
    assert!(text.contains("the controllers ended by themselves at t=+0s: more than 20000 requests at t=+0s"), "{text}");
}

#[test]
fn a_crash_is_exact_to_the_request() {
    let yaml = "given:\n  pods: [a]\n  faults: [{ on: POST pods, nth: 2, crash: WHEN, restart: 5s }]\nsteps:\n- { until: 10s, consistently: { exists: pods/a } }\n";
    let work: SendWork = |client| {
        async move {
            let pods = Api::<Pod>::default_namespaced(client);
            for number in 0.. {
                let pod = serde_json::json!({
                    "metadata": {"generateName": format!("p{number}-")}, "spec": {"containers": [{"name": "c", "image": "i"}]},
                });
                let pod: Pod = serde_json::from_value(pod).expect("a pod");
                if number == 3 || pods.create(&PostParams::default(), &pod).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
        .boxed()
    };
    for (when, before_restart) in [("before", 1), ("after", 2)] {
        let judged = run(&[fixture("crash", &yaml.replace("WHEN", when))], StandIn { work, refuse: false });
        let crash = judged[0].transcript.find("the controllers crash").expect("a crash");
        let start = judged[0].transcript.find("t=+5s").expect("a restart");
        assert!(crash < start, "{}", judged[0].transcript);
        let created = judged[0]
            .entries
            .iter()
            .filter(|entry| entry.at.is_zero() && matches!(&entry.what, plumbline::transcript::EntryKind::Change(_)));
        assert_eq!(created.count(), before_restart, "{}", judged[0].transcript);
    }
}
