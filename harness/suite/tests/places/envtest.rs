//! etcd and kube-apiserver. Without the programs, in `KUBEBUILDER_ASSETS` or a usual location, these tests are skipped;
//! error handling is tested with fake programs.

use std::any::Any;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use libtest_mimic::Trial;
use plumbline_suite::cluster::provision::envtest::{EnvtestOptions, start};
use plumbline_suite::cluster::provision::{EnvironmentError, FailureKind, Server};
use serde_json::json;

use crate::tools::{Harness, eventually, folder, trial};

/// First argument of the program that replaces etcd.
pub(crate) const ETCD_STAND_IN: &str = "etcd-stand-in";

/// Folder of the real programs, if they are installed.
static ASSETS: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let named = std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()).map(PathBuf::from);
    let places = [named, Some("/usr/local/kubebuilder/bin".into())].into_iter().flatten();
    places.into_iter().find(|place| place.join("etcd").is_file() && place.join("kube-apiserver").is_file())
});

/// Returns the reason why no real server can be started here, if there is one.
pub(crate) fn lacks() -> Option<&'static str> {
    ASSETS.is_none().then_some("no etcd and kube-apiserver; set KUBEBUILDER_ASSETS")
}

/// The folder of the real programs.
pub(crate) fn assets() -> Option<&'static Path> {
    ASSETS.as_deref()
}

pub(crate) fn trials() -> Vec<Trial> {
    let skip = lacks();
    vec![
        trial("envtest::starts_serves_and_stops", skip, lives),
        trial("envtest::fixtures_run_in_virtual_time", skip, || async { virtual_time() }),
        trial("envtest::a_bad_flag_is_named_with_the_log", skip, bad_flag),
        trial("envtest::a_server_that_dies_is_reported", skip, dies),
        trial("envtest::a_killed_harness_leaves_nothing", skip, || async { killed_harness() }),
        trial("envtest::a_program_that_ends_is_named_with_its_log", None, ends_at_once),
        trial("envtest::a_server_that_ends_is_named_with_its_log", None, server_ends_at_once),
        trial("envtest::storage_that_never_is_ready_is_named", None, storage_never_ready),
        trial("envtest::a_server_that_never_is_ready_is_named", None, never_ready),
        trial("envtest::no_programs_no_server", None, missing),
    ]
}

/// etcd, kube-apiserver and our controllers in virtual time.
fn virtual_time() {
    let fixtures = ["podgc/orphaned-quarantine-40s", "ttl/grow-100-to-101"];
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_plumbline"))
        .args(["run", "--cluster", "envtest", "--time", "virtual"])
        .args(fixtures)
        .env_remove("PLUMBLINE_FIXTURES")
        .env("KUBEBUILDER_ASSETS", ASSETS.as_deref().expect("programs"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("the program starts");
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("2 passed") && err.contains("plumbline: virtual time: "), "{out}{err}");
}

fn options() -> EnvtestOptions {
    EnvtestOptions { envtest_assets: ASSETS.clone(), envtest_ready_limit: 90, ..EnvtestOptions::default() }
}

pub(crate) async fn hold(words: &[String]) -> (String, Box<dyn Any>) {
    let server = start(&options(), Path::new(&words[0])).await.unwrap_or_else(|error| panic!("{error}"));
    (server.kubeconfig.display().to_string(), Box::new(server))
}

pub(crate) async fn client(server: &Server) -> Client {
    let file = Kubeconfig::read_from(&server.kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a configuration");
    Client::try_from(config).expect("a client")
}

fn failure(result: Result<Server, EnvironmentError>) -> EnvironmentError {
    result.map(|server| panic!("it starts: {server:?}")).expect_err("a failure")
}

async fn lives() {
    let logs = folder("envtest-lives");
    let mut server = start(&options(), &logs).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(server.version.starts_with("v1."), "{}", server.version);
    assert!(server.allows_disruption && server.built_in.is_empty());
    assert_eq!(server.ended().await, None);
    let mode = std::fs::metadata(&server.kubeconfig).expect("a kubeconfig").permissions().mode();
    assert_eq!(mode & 0o077, 0, "others may read the token");

    // Pods in this namespace need no service account.
    let pods: Api<Pod> = Api::default_namespaced(client(&server).await);
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    let made = pods.create(&PostParams::default(), &pod).await.expect("the pod is made");
    assert!(made.metadata.uid.is_some());

    let kubeconfig = server.kubeconfig.clone();
    server.stop().await.unwrap_or_else(|error| panic!("{error}"));
    assert!(!kubeconfig.exists(), "the kubeconfig goes with the server");
    assert!(logs.join("etcd.log").exists() && logs.join("kube-apiserver.log").exists(), "logs stay");
    assert!(pods.get("a").await.is_err(), "the server is gone");
}

async fn bad_flag() {
    let logs = folder("envtest-bad-flag");
    let options = EnvtestOptions { envtest_apiserver_arg: vec!["--no-such-flag".to_owned()], ..options() };
    let error = failure(start(&options, &logs).await);
    assert_eq!(error.kind, FailureKind::Failed);
    assert!(error.what.contains("kube-apiserver exited with code 1"), "{error}");
    assert!(error.evidence.iter().any(|line| line.contains("unknown flag: --no-such-flag")), "{error}");
}

async fn dies() {
    let logs = folder("envtest-dies");
    let mut server = start(&options(), &logs).await.unwrap_or_else(|error| panic!("{error}"));
    let file = Kubeconfig::read_from(&server.kubeconfig).expect("a kubeconfig");
    let url = file.clusters[0].cluster.as_ref().and_then(|cluster| cluster.server.clone()).expect("a server");
    let port = url.rsplit(':').next().expect("a port").to_owned();
    // Finds the process id of this server among all: its command line has our port.
    let flag = format!("--secure-port={port}");
    let found = std::fs::read_dir("/proc").expect("Linux").filter_map(Result::ok).find(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"/kube-apiserver"))
            && words.any(|word| word == flag.as_bytes())
    });
    let number = found.expect("it runs").file_name();
    let killed = std::process::Command::new("kill").arg("-9").arg(&number).status().expect("kill");
    assert!(killed.success());
    let mut end = None;
    for _ in 0..100 {
        end = server.ended().await;
        if end.is_some() {
            break;
        }
        plumbline::time::Clock::wall().sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(end.expect("it has ended").contains("kube-apiserver was killed by signal 9"));
    // `stop` reports the failure too, and stops the rest.
    assert_eq!(server.stop().await.expect_err("it was dead").kind, FailureKind::Failed);
}

fn killed_harness() {
    let logs = folder("envtest-killed");
    let mut harness = Harness::start(&["envtest", &logs.display().to_string()]);
    let kubeconfig = PathBuf::from(&harness.described);
    assert!(kubeconfig.exists());
    let before = harness.descendants();
    for program in ["/etcd ", "/kube-apiserver "] {
        assert!(before.iter().any(|line| line.contains(program)), "{before:?}");
    }
    harness.kill();
    eventually("everything that the harness started has ended", || harness.descendants().is_empty());
    assert!(!kubeconfig.parent().expect("a folder").exists(), "the temporary folder is gone");
}

/// Creates a folder with these shell scripts as etcd and kube-apiserver.
fn fake(test: &str, scripts: [&str; 2], limit: u64) -> EnvtestOptions {
    let folder = folder(test).join("bin");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (program, script) in ["etcd", "kube-apiserver"].into_iter().zip(scripts) {
        // Another process writes the file: a child that another test starts at this moment inherits our open
        // descriptors, and a file that is open for writing cannot be run ("Text file busy").
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#;
        let path = folder.join(program);
        let written = std::process::Command::new("sh").arg("-c").arg(write).arg(path).arg(script).status();
        assert!(written.expect("a shell").success());
    }
    EnvtestOptions { envtest_assets: Some(folder), envtest_ready_limit: limit, ..EnvtestOptions::default() }
}

/// A script for an etcd that accepts connections and does nothing else.
fn listening() -> String {
    let me = std::env::current_exe().expect("this program");
    format!("exec '{}' {ETCD_STAND_IN} \"$@\"", me.display())
}

/// Runs the etcd stand-in: it listens on the address in `--listen-client-urls`.
pub(crate) fn etcd_stand_in(words: &[String]) {
    let url = words.iter().find_map(|word| word.strip_prefix("--listen-client-urls=http://")).expect("the flag");
    let listener = std::net::TcpListener::bind(url).expect("a free port");
    for connection in listener.incoming() {
        drop(connection);
    }
}

async fn ends_at_once() {
    let no_room = "echo 'no room in the data folder'; exit 7";
    // A server whose storage ended would report another error; the storage's own error must be reported first.
    let options = fake("envtest-ends", [no_room, "echo 'no etcd'; exit 1"], 60);
    let logs = folder("envtest-ends-logs");
    let error = failure(start(&options, &logs).await);
    assert_eq!(error.kind, FailureKind::Failed);
    assert!(error.what.contains("etcd exited with code 7"), "{error}");
    assert!(error.what.contains(&logs.join("etcd.log").display().to_string()), "{error}");
    assert_eq!(error.evidence, ["no room in the data folder"]);
}

async fn server_ends_at_once() {
    let options = fake("envtest-server-ends", [&listening(), "echo 'no such flag'; exit 1"], 60);
    let logs = folder("envtest-server-ends-logs");
    let error = failure(start(&options, &logs).await);
    assert_eq!(error.kind, FailureKind::Failed);
    assert!(error.what.contains("kube-apiserver exited with code 1"), "{error}");
    assert_eq!(error.evidence, ["no such flag"]);
}

async fn storage_never_ready() {
    let options = fake("envtest-no-storage", ["echo starting; exec sleep 1003", "exit 1"], 2);
    let error = failure(start(&options, &folder("envtest-no-storage-logs")).await);
    assert_eq!(error.kind, FailureKind::NotReady);
    assert!(error.what.starts_with("etcd is not ready after 2 s: port "), "{error}");
}

async fn never_ready() {
    let options = fake("envtest-never", [&listening(), "echo starting; exec sleep 1003"], 5);
    let logs = folder("envtest-never-logs");
    let error = failure(start(&options, &logs).await);
    assert_eq!(error.kind, FailureKind::NotReady);
    assert!(error.what.starts_with("kube-apiserver is not ready after 5 s: "), "{error}");
    assert_eq!(error.evidence, ["starting"]);
}

async fn missing() {
    let options = EnvtestOptions { envtest_assets: Some("/nowhere".into()), ..EnvtestOptions::default() };
    let error = failure(start(&options, &folder("envtest-missing")).await);
    assert_eq!(error.kind, FailureKind::Missing);
    assert_eq!(error.evidence, ["/nowhere: no etcd, no kube-apiserver"]);
}
