//! Failed runs: their messages, the evidence they keep, and that they leave nothing else behind, also in an existing
//! cluster.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use libtest_mimic::Trial;
use plumbline_suite::report::Outcome;

use crate::remote::{Serving, report, run};
use crate::tools::{eventually, folder, trial};

/// Two fixtures that take minutes; the nodes of the first one remain.
pub(crate) const LONG: [&str; 2] =
    ["taint-eviction/default-tolerations-last-five-minutes", "disruption/disrupted-pod-claim-120s"];

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("outages::a_terminated_harness_leaves_nothing_behind", None, || async { terminated() }),
        trial("outages::what_a_killed_harness_left_is_removed_by_the_next", None, || async { killed() }),
        trial("outages::logs_stay_where_an_error_says_they_are", None, || async { logs_stay() }),
        trial("outages::a_subject_that_does_not_start_is_not_judged_on_a_real_cluster", None, || async { rehearsed() }),
        trial("outages::refusals_use_the_names_of_the_fixture", None, || async { refused() }),
        trial("outages::a_report_in_which_nothing_ran_is_refused", None, || async { verified() }),
    ]
}

/// Starts a run of [`LONG`] that uses `temporary` for temporary files, and waits until it has begun.
fn begun(serving: &Serving, temporary: &Path) -> Child {
    let words = [&serving.words()[..], &["--allow-disruptive"], &LONG].concat();
    let running =
        run(&words).env("TMPDIR", temporary).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    eventually("the fixtures have begun", || !serving.nodes().is_empty());
    running
}

fn inside(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect()
}

/// Names of namespaces that the server did not create itself.
fn namespaces(serving: &Serving) -> Vec<String> {
    serving.namespaces().into_iter().filter(|name| name.contains("-pl")).collect()
}

fn terminated() {
    let serving = Serving::start("outage-terminated");
    let temporary = folder("outage-terminated-tmp");
    let running = begun(&serving, &temporary);
    assert!(!namespaces(&serving).is_empty() && !inside(&temporary).is_empty());
    let asked = Command::new("kill").args(["-TERM", &running.id().to_string()]).status().expect("kill");
    assert!(asked.success());
    let output = running.wait_with_output().expect("it ends");
    let described = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(96), "{described}");
    assert!(described.contains("interrupted by SIGTERM; everything that was started has been stopped"), "{described}");
    let report = report(&output);
    assert_eq!(report.count(Outcome::NotRun), 2, "{described}");
    let unrun = report.fixtures.iter().filter(|one| one.outcome == Outcome::NotRun);
    assert!(unrun.into_iter().all(|one| one.reason == "interrupted by SIGTERM"), "{described}");
    assert_eq!(serving.nodes(), Vec::<String>::new());
    eventually("the namespaces have gone", || namespaces(&serving).is_empty());
    assert_eq!(inside(&temporary), Vec::<PathBuf>::new());
}

fn killed() {
    let serving = Serving::start("outage-killed");
    let temporary = folder("outage-killed-tmp");
    let mut running = begun(&serving, &temporary);
    running.kill().expect("SIGKILL");
    running.wait().expect("an end");
    eventually("the temporary folders have gone", || inside(&temporary).is_empty());
    assert!(!serving.nodes().is_empty(), "a dead harness cannot clean the cluster up");
    let words = [&serving.words()[..], &["disruption/status-min-available["]].concat();
    let output = run(&words).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(serving.nodes(), Vec::<String>::new());
    eventually("the namespaces have gone", || namespaces(&serving).is_empty());
}

fn logs_stay() {
    let assets = folder("outage-assets");
    let temporary = folder("outage-logs-tmp");
    for name in ["etcd", "kube-apiserver"] {
        let file = assets.join(name);
        std::fs::write(&file, "#!/bin/sh\necho the disk is full\nexit 3\n").expect("a program");
        let mode = Command::new("chmod").arg("+x").arg(&file).status().expect("chmod");
        assert!(mode.success());
    }
    let mut command = run(&["--cluster", "envtest", "ttl/hysteresis-down"]);
    let output = command.env("KUBEBUILDER_ASSETS", &assets).env("TMPDIR", &temporary).output().expect("it runs");
    let described = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(96), "{described}");
    let logs = described.split("\n  logs: ").nth(1).expect("the folder of the logs").trim();
    let log = std::fs::read_to_string(Path::new(logs).join("etcd.log")).expect("etcd's log");
    assert!(log.contains("the disk is full"), "{log}");
    assert!(described.contains(&format!("{logs}/etcd.log")), "the error names that very file: {described}");
    assert_eq!(inside(Path::new(logs).parent().expect("a folder")).len(), 1, "no secrets stay");
}

fn rehearsed() {
    let serving = Serving::start("outage-rehearsed");
    let words = [&serving.words()[..], &["--allow-disruptive", "ttl/hysteresis-down"]].concat();
    let command = ["--command", "sh -c 'echo no such flag; exit 3' {kubeconfig}"];
    let temporary = folder("outage-rehearsed-tmp");
    let output = run(&[&words[..], &command].concat()).env("TMPDIR", &temporary).output().expect("it runs");
    let described = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(96), "{described}");
    assert!(
        described.contains("sh does not start, so no fixture was run") && described.contains("no such flag"),
        "{described}"
    );
    eventually("the namespaces have gone", || namespaces(&serving).is_empty());
}

const GOOD: &str = include_str!("../samples/good.yaml");
/// The description of our own controllers, which may run in process.
const CLAIM: &str = "organization: E\nproject: plumbline-controllers\nurl: https://github.com/plumbline/plumbline\n\
                     version: v1\ncontacts: [e@example.org]\n";

fn verified() {
    let serving = Serving::start("outage-verified");
    let root = folder("outage-verified-run");
    std::fs::create_dir_all(root.join("fixtures/podgc")).expect("a folder");
    for (name, text) in [
        ("fixtures/podgc/good.yaml", GOOD),
        ("fixtures/profiles.yaml", "profiles: [{ name: podgc, about: The collector., fixtures: [podgc/*] }]\n"),
        ("me.yaml", CLAIM),
    ] {
        std::fs::write(root.join(name), text).expect("a file");
    }
    let plumbline = |words: &[&str]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumbline"));
        command.current_dir(&root).env_remove("PLUMBLINE_FIXTURES").args(words).output().expect("it runs")
    };
    let words = ["conform", "--implementation", "me.yaml", "--subject", "in-process"];
    let conform = plumbline(&[&words[..], &serving.words()].concat());
    let described = String::from_utf8_lossy(&conform.stdout);
    assert_eq!(conform.status.code(), Some(100), "{described}{}", String::from_utf8_lossy(&conform.stderr));
    assert!(described.contains("not conformant: 1 of 1 core fixtures skipped"), "{described}");
    let verify = plumbline(&["verify", "conformance/report.yaml"]);
    let refusal = String::from_utf8_lossy(&verify.stderr);
    assert_eq!(verify.status.code(), Some(5), "{refusal}");
    assert!(refusal.contains("none of the 1 listed fixtures has run"), "{refusal}");
}

/// A fixture with a node that the API server rejects as invalid.
const INVALID: &str = "\
promise: A node gets its annotation.
rule: BR-19-07
level: core
feature: ttl.annotation
given: { nodes: [{ name: n1, labels: { zone: \"not a label!\" } }] }
steps: [{ by: 5s, eventually: { exists: nodes/n1 } }]
";

fn refused() {
    let serving = Serving::start("outage-refused");
    let fixtures = folder("outage-refused-fixtures");
    std::fs::create_dir_all(fixtures.join("ttl")).expect("a folder");
    std::fs::write(fixtures.join("ttl/invalid.yaml"), INVALID).expect("a file");
    let fixtures = fixtures.display().to_string();
    let words = [&serving.words()[..], &["--allow-disruptive", "--fixtures", &fixtures]].concat();
    let reasons = || {
        let output = run(&words).output().expect("it runs");
        assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
        report(&output).fixtures.remove(0).reason
    };
    let first = reasons();
    let second = reasons();
    assert!(first.starts_with("the server refuses nodes/n1 with 422: Node \"n1\" is invalid"), "{first}");
    assert_eq!(first, second, "two runs write the same report");
}
