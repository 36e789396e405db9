//! Runs the suite over HTTPS: `plumbline run` on the command line, against `plumbline serve`, and against etcd and
//! kube-apiserver where they are installed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use libtest_mimic::Trial;
use plumbline::fixture::Controller;
use plumbline::time::{Clock, run_wall};
use plumbline_suite::cluster::Access;
use plumbline_suite::report::{Outcome, RunReport};
use plumbline_suite::subject::in_process::InProcess;
use plumbline_suite::subject::{Launch, Subject as _};
use serde_json::json;

use crate::outages::LONG;
use crate::tools::{eventually, folder, trial};

/// One fixture of each kind: counting, an eviction, faults, a crash, delayed watches, a quarantine, timers, a tainted
/// node.
const FIXTURES: [&str; 6] = [
    "disruption/status-min-available[",
    "api/eviction-takes-from-the-budget",
    "disruption/conflict-is-recomputed",
    "taint-eviction/untolerated-is-immediate",
    "taint-eviction/crash-around-mark-and-delete",
    "ttl/patch-touches-one-annotation",
];

pub(crate) fn trials() -> Vec<Trial> {
    let envtest = crate::envtest::lacks();
    vec![
        trial("remote::what_runs_in_the_cluster_is_tested", None, || async { external() }),
        trial("remote::fixtures_run_on_a_cluster_that_is_there", None, || async { found() }),
        trial("remote::names_are_drawn_on_a_cluster_that_is_there", None, || async { drawn() }),
        trial("remote::without_leave_the_cluster_is_not_changed", None, || async { careful() }),
        trial("remote::a_server_that_dies_is_reported_and_nothing_passes", None, || async { dies() }),
        trial("remote::a_definition_on_its_way_out_is_waited_for", None, || async { waits() }),
        trial("remote::external_subjects_go_with_real_clusters", None, || async { usage() }),
        trial("remote::fixtures_run_on_envtest", envtest, || async { envtest_runs() }),
    ]
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `plumbline run` with these arguments and a JSON report.
pub(crate) fn run(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumbline"));
    command.current_dir(root()).env_remove("PLUMBLINE_FIXTURES").env("NO_COLOR", "1");
    command.args(["run", "--format", "json"]).args(words);
    command
}

pub(crate) fn report(output: &Output) -> RunReport {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Checks that at least `at_least` fixtures passed, none failed, and that every skip has a reason.
pub(crate) fn all_well(output: &Output, at_least: usize) {
    let report = report(output);
    let described = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{described}");
    for fixture in &report.fixtures {
        assert!(matches!(fixture.outcome, Outcome::Pass | Outcome::Skip), "{}: {described}", fixture.id);
        assert_eq!(fixture.outcome == Outcome::Skip, !fixture.reason.is_empty(), "{}", fixture.id);
    }
    assert!(report.count(Outcome::Pass) >= at_least, "{described}");
}

/// `plumbline serve` in a separate process.
pub(crate) struct Serving {
    child: Child,
    kubeconfig: String,
}

impl Serving {
    pub(crate) fn start(test: &str) -> Self {
        let kubeconfig = folder(test).join("kubeconfig").display().to_string();
        let mut child = Command::new(env!("CARGO_BIN_EXE_plumbline"))
            .args(["serve", "--listen", "127.0.0.1:0", "--kubeconfig", &kubeconfig])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("it tells its address");
        assert!(line.starts_with("ready https://"), "{line}");
        Self { child, kubeconfig }
    }

    pub(crate) fn words(&self) -> [&str; 5] {
        ["--cluster", "kubeconfig", "--kubeconfig", &self.kubeconfig, "--no-bystanders"]
    }

    fn client(&self) -> kube::Client {
        plumbline_suite::cluster::client::from_file(Path::new(&self.kubeconfig)).expect("a client")
    }

    /// The names of all nodes.
    pub(crate) fn nodes(&self) -> Vec<String> {
        self.names::<k8s_openapi::api::core::v1::Node>()
    }

    /// The names of all namespaces.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        self.names::<k8s_openapi::api::core::v1::Namespace>()
    }

    /// Runs on a separate thread, because trials already run inside a runtime.
    fn names<K>(&self) -> Vec<String>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let list = async {
            let list =
                kube::Api::<K>::all(self.client()).list(&kube::api::ListParams::default()).await.expect("a list");
            list.items.into_iter().map(|object| kube::ResourceExt::name_any(&object)).collect()
        };
        std::thread::scope(|scope| scope.spawn(|| crate::tools::runtime().block_on(list)).join().expect("a list"))
    }
}

/// The run waits for a custom resource definition of an earlier fixture that is still being deleted.
fn waits() {
    let serving = Serving::start("remote-waits");
    let definition = json!({
        "metadata": { "name": "testworkloads.apps.test.io", "finalizers": ["example.com/hold"] },
        "spec": {
            "group": "apps.test.io",
            "names": { "kind": "TestWorkload", "plural": "testworkloads" },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    let definition: CustomResourceDefinition = serde_json::from_value(definition).expect("a definition");
    let name = definition.metadata.name.clone().expect("a name");
    let definitions = || kube::Api::<CustomResourceDefinition>::all(serving.client());
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    std::thread::scope(|scope| {
        let leave = async {
            definitions().create(&PostParams::default(), &definition).await.expect("it is made");
            definitions().delete(&name, &DeleteParams::default()).await.expect("it goes");
        };
        scope.spawn(|| crate::tools::runtime().block_on(leave)).join().expect("it is left behind");
        let words = [&serving.words()[..], &["--allow-disruptive", "disruption/owner-scale-asked-once"]].concat();
        let running = run(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let end = async {
            Clock::wall().sleep(Duration::from_secs(2)).await;
            definitions().patch(&name, &PatchParams::default(), &free).await.expect("it ends");
        };
        scope.spawn(|| crate::tools::runtime().block_on(end));
        all_well(&running.wait_with_output().expect("it ends"), 1);
    });
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn found() {
    let serving = Serving::start("remote-found");
    let words = [&serving.words()[..], &["--allow-disruptive", "--tolerance", "3s"], &FIXTURES].concat();
    let output = run(&words).output().expect("it runs");
    all_well(&output, FIXTURES.len());
    let report = report(&output);
    assert_eq!((report.cluster.as_str(), report.subject.as_str()), ("kubeconfig", "in-process"));
    assert_eq!(serving.nodes(), Vec::<String>::new());
}

/// The cluster has other names than the fixtures, also for the namespaces that it creates for them.
fn drawn() {
    let serving = Serving::start("remote-drawn");
    let words = [&serving.words()[..], &["--allow-disruptive", "--tolerance", "3s", "--seed", "7"], &FIXTURES].concat();
    let output = run(&words).output().expect("it runs");
    all_well(&output, FIXTURES.len());
    assert_eq!(report(&output).seed, Some(7));
    assert_eq!(serving.nodes(), Vec::<String>::new());
}

fn careful() {
    let serving = Serving::start("remote-careful");
    let words = [&serving.words()[..], &["taint-eviction/untolerated-is-immediate"]].concat();
    let output = run(&words).output().expect("it runs");
    let report = report(&output);
    assert_eq!(output.status.code(), Some(4), "nothing ran");
    for fixture in &report.fixtures {
        assert_eq!(fixture.outcome, Outcome::Skip);
        assert!(fixture.reason.contains("allow it with --allow-disruptive"), "{}", fixture.reason);
    }
}

fn dies() {
    let mut serving = Serving::start("remote-dies");
    let words = [&serving.words()[..], &["--allow-disruptive"], &LONG].concat();
    let running = run(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    eventually("the fixtures have begun", || !serving.nodes().is_empty());
    serving.child.kill().expect("it runs");
    let output = running.wait_with_output().expect("it ends");
    let described = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(96), "{described}");
    assert!(described.contains("the cluster failed during the run; later results are invalid"), "{described}");
    let report = report(&output);
    assert_eq!(report.count(Outcome::Pass) + report.count(Outcome::Fail), 0, "{described}");
    assert_eq!(report.count(Outcome::NotRun), 2, "{described}");
    let unrun = report.fixtures.iter().filter(|fixture| fixture.outcome == Outcome::NotRun);
    assert!(unrun.into_iter().all(|fixture| fixture.reason.contains("the cluster broke")), "{described}");
}

fn usage() {
    let output = run(&["--subject", "external"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let described = String::from_utf8_lossy(&output.stderr);
    assert!(described.contains("--subject external requires a real cluster"), "{described}");
}

/// Our controllers as an external subject: they connect to the server by themselves.
fn external() {
    let serving = Serving::start("remote-external");
    let kubeconfig = serving.kubeconfig.clone();
    let over = Arc::new(AtomicBool::new(false));
    let described = over.clone();
    let controllers = std::thread::spawn(move || {
        run_wall(async {
            let clock = Clock::wall();
            let launch = Launch {
                controllers: &Controller::ALL,
                flags: &BTreeMap::new(),
                replicas: 1,
                access: Access::Kubeconfig(Path::new(&kubeconfig)),
                clock: &clock,
            };
            let mut running = InProcess.launch(&launch).expect("they start");
            while !described.load(Ordering::SeqCst) {
                clock.sleep(Duration::from_millis(50)).await;
            }
            running.stop().await
        })
    });
    let words = [
        "--subject",
        "external",
        "--subject-name",
        "somebody",
        "--tolerance",
        "3s",
        "--allow-disruptive",
        "ttl/between-the-bounds-history-decides",
    ];
    let words = [&serving.words()[..], &words].concat();
    let output = run(&words).output().expect("it runs");
    over.store(true, Ordering::SeqCst);
    controllers.join().expect("no panic").expect("a runtime").expect("they stop well");
    all_well(&output, 1);
    assert_eq!(report(&output).subject, "somebody");
    // No controller is running now.
    let output = run(&words).output().expect("it runs");
    assert_eq!(output.status.code(), Some(100), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(report(&output).count(Outcome::Pass), 0);
}

fn envtest_runs() {
    let logs = folder("remote-envtest");
    let kept = logs.display().to_string();
    let words = [&["--cluster", "envtest", "--tolerance", "3s", "--logs", &kept][..], &FIXTURES].concat();
    let assets = crate::envtest::assets().expect("the programs");
    let output = run(&words).env("KUBEBUILDER_ASSETS", assets).output().expect("it runs");
    all_well(&output, FIXTURES.len());
    assert!(logs.join("kube-apiserver.log").exists(), "logs stay");
}
