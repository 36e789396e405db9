//! k3s in a real container but with a fake image: the test builds it from scratch around this program, which imitates
//! `rancher/k3s` where the harness touches it (`server …`, port 6443, the kubeconfig). Skipped without Docker, unless
//! `PLUMBLINE_REQUIRE_DOCKER` is set.

use std::any::Any;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::LazyLock;

use libtest_mimic::Trial;
use plumbline::apiserver::listener::{ListenOptions, listen};
use plumbline::apiserver::{ApiServer, ApiServerConfig};
use plumbline::time::Clock;
use plumbline_suite::cluster::provision::k3s::{K3sOptions, start};
use plumbline_suite::cluster::provision::{EnvironmentError, FailureKind, Server};
use tokio_util::sync::CancellationToken;

use crate::envtest::client;
use crate::tools::{Harness, eventually, folder, runtime, trial};

/// First argument of the program in the container.
pub(crate) const STAND_IN: &str = "k3s-stand-in";
const TAG: &str = "test";

/// The image of this test process, built at first use.
static IMAGE: LazyLock<String> = LazyLock::new(|| {
    // A harness to be killed uses the image of the test that started it.
    std::env::var("PLUMBLINE_TEST_IMAGE").unwrap_or_else(|_| make_image())
});

/// `true` if Docker can start privileged containers here; inside containers and sandboxes it often cannot.
static PRIVILEGED: LazyLock<bool> = LazyLock::new(|| {
    let image = format!("{}:{TAG}", *IMAGE);
    // The program itself exits with 1, as it does not support agents; Docker's own errors are 125 and above.
    let output = docker(&["run", "--rm", "--privileged", &image]);
    output.is_some_and(|output| output.status.code() == Some(1))
});

pub(crate) fn trials() -> Vec<Trial> {
    let docker = docker(&["version", "--format", "{{.Server.Version}}"]).is_some_and(|output| output.status.success());
    // Where Docker is required, as in CI, a skip would hide a failure.
    let required = std::env::var_os("PLUMBLINE_REQUIRE_DOCKER").is_some();
    let skip = (!docker && !required).then_some("Docker is not available");
    vec![
        trial("k3s::starts_serves_and_stops", skip, lives),
        trial("k3s::fixtures_run_and_nothing_is_left", skip, || async { fixtures_run() }),
        trial("k3s::a_bad_argument_is_named_with_the_log", skip, bad_argument),
        trial("k3s::a_port_that_is_taken_is_reported", skip, port_taken),
        trial("k3s::an_image_that_is_not_here_is_reported", skip, no_image),
        trial("k3s::a_killed_harness_leaves_no_container", skip, || async { killed_harness() }),
        trial("k3s::leftovers_of_dead_harnesses_are_removed", skip, leftovers),
        trial("k3s::no_docker_no_server", None, no_docker),
    ]
}

fn docker(words: &[&str]) -> Option<Output> {
    Command::new("docker").args(words).stdin(Stdio::null()).output().ok()
}

fn said(words: &[&str]) -> String {
    let output = docker(words).expect("docker");
    assert!(output.status.success(), "docker {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Copies this program and the libraries that it needs into an image.
fn make_image() -> String {
    let name = format!("plumbline-k3s-stand-in-{}", std::process::id());
    let root = folder("image");
    let me = std::env::current_exe().expect("this program");
    let libraries = Command::new("ldd").arg(&me).output().expect("ldd").stdout;
    let libraries = String::from_utf8(libraries).expect("text");
    for path in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        std::fs::copy(path, to).expect("a library");
    }
    let program = root.join("bin/k3s");
    std::fs::create_dir_all(root.join("bin")).expect("a folder");
    std::fs::copy(&me, &program).expect("the program");
    // Stripping debug information reduces the size to a tenth.
    let _ = Command::new("strip").arg(&program).status();
    let archive = folder("image-archive").join("image.tar");
    let packed = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status().expect("tar");
    assert!(packed.success());
    let entry = format!("ENTRYPOINT [\"/bin/k3s\", \"{STAND_IN}\"]");
    // As in rancher/k3s, the default command is `agent`.
    let words = ["import", "--change", &entry, "--change", "CMD [\"agent\"]", &archive.display().to_string()];
    said(&[&words[..], &[&format!("{name}:{TAG}")]].concat());
    name
}

/// Removes the image if it was built.
pub(crate) fn clean_up() {
    if let Some(name) = LazyLock::get(&IMAGE) {
        let _ = docker(&["rmi", "--force", &format!("{name}:{TAG}")]);
    }
}

/// Runs in the container: a fake API server that behaves like k3s.
pub(crate) fn stand_in(words: &[String]) -> ExitCode {
    let tell = |text: &str| writeln!(std::io::stderr(), "{text}").expect("somebody reads");
    let known = ["--disable=", "--disable-agent", "--disable-network-policy", "--disable-scheduler"];
    let known = [&known[..], &["--disable-cloud-controller", "--kube-controller-manager-arg=", "--debug"]].concat();
    let strange = words.iter().skip(1).find(|word| !known.iter().any(|flag| word.starts_with(flag)));
    if words.first().map(String::as_str) != Some("server") || strange.is_some() {
        let flag = strange.map_or("server", String::as_str).trim_start_matches('-');
        tell(&format!("Incorrect Usage: flag provided but not defined: -{flag}"));
        return ExitCode::FAILURE;
    }
    runtime().block_on(async {
        let server = ApiServer::new(ApiServerConfig::new(Clock::wall()));
        let address = ([0, 0, 0, 0], 6443).into();
        let options = ListenOptions { address, allow_remote: true, ..ListenOptions::loopback() };
        let listening = listen(server, options).await.expect("a free port");
        let path = Path::new("/etc/rancher/k3s/k3s.yaml");
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        listening.write_kubeconfig(path).expect("a kubeconfig");
        tell("k3s is up and running");
        listening.serve(CancellationToken::new()).await;
    });
    ExitCode::SUCCESS
}

fn options() -> K3sOptions {
    K3sOptions {
        k3s_image: IMAGE.clone(),
        k3s_tag: TAG.to_owned(),
        k3s_built_in_controllers: false,
        k3s_unprivileged: !*PRIVILEGED,
        k3s_arg: Vec::new(),
        k3s_port: None,
        k3s_ready_limit: 60,
    }
}

pub(crate) async fn hold(words: &[String]) -> (String, Box<dyn Any>) {
    let server = start(&options(), Path::new(&words[0])).await.unwrap_or_else(|error| panic!("{error}"));
    (server.kubeconfig.display().to_string(), Box::new(server))
}

fn failure(result: Result<Server, EnvironmentError>) -> EnvironmentError {
    result.map(|server| panic!("it starts: {server:?}")).expect_err("a failure")
}

/// Names of the containers of this test's image, running or not.
fn containers() -> Vec<String> {
    let filter = format!("ancestor={}:{TAG}", *IMAGE);
    said(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter]).lines().map(str::to_owned).collect()
}

async fn lives() {
    let logs = folder("k3s-lives");
    let mut server = start(&options(), &logs).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(server.version.starts_with("v1."), "{}", server.version);
    assert!(server.allows_disruption && server.built_in.is_empty());
    assert_eq!(server.image, Some(format!("{}:{TAG}", *IMAGE)));
    assert_eq!(server.ended().await, None);
    let namespaces = client(&server).await.list_core_api_versions().await.expect("it answers");
    assert_eq!(namespaces.versions, ["v1"]);

    let id = container_of(&server.kubeconfig);
    let inspected = said(&["inspect", "--format", "{{json .Config.Cmd}} {{.HostConfig.Privileged}}", &id]);
    assert!(inspected.contains("-taint-eviction-controller"), "{inspected}");
    assert!(inspected.ends_with(&format!(" {}", *PRIVILEGED)), "{inspected}");

    let kubeconfig = server.kubeconfig.clone();
    server.stop().await.unwrap_or_else(|error| panic!("{error}"));
    assert!(!kubeconfig.exists(), "the kubeconfig goes with the server");
    let log = std::fs::read_to_string(logs.join("k3s.log")).expect("the log stays");
    assert!(log.contains("k3s is up and running"), "{log}");
}

/// Runs the command line that is used with a real k3s, apart from the image.
fn fixtures_run() {
    let logs = folder("k3s-fixtures").display().to_string();
    let unprivileged = if *PRIVILEGED { None } else { Some("--k3s-unprivileged") };
    let words = ["--cluster", "k3s", "--k3s-image", &IMAGE, "--k3s-tag", TAG, "--logs", &logs, "--tolerance", "3s"];
    let words = [&words[..], &["--k3s-arg", "--debug=suite"]].concat();
    let fixtures = ["api/eviction-takes-from-the-budget", "taint-eviction/untolerated-is-immediate"];
    let words: Vec<&str> = words.into_iter().chain(unprivileged).chain(fixtures).collect();
    let output = crate::remote::run(&words).output().expect("it runs");
    crate::remote::all_well(&output, fixtures.len());
    assert_eq!(crate::remote::report(&output).cluster, "k3s");
    assert!(Path::new(&logs).join("k3s.log").exists(), "the log stays");
    let left = about(&["inspect", "--format", "{{.Config.Cmd}}"]);
    assert!(!left.iter().any(|(_, command)| command.contains("--debug=suite")), "it stays behind: {left:?}");
}

async fn bad_argument() {
    let options = K3sOptions { k3s_arg: vec!["--no-such-flag".to_owned()], ..options() };
    let error = failure(start(&options, &folder("k3s-bad")).await);
    assert_eq!(error.kind, FailureKind::Failed);
    assert!(error.what.starts_with("the container of k3s exited with code 1"), "{error}");
    assert_eq!(error.evidence, ["Incorrect Usage: flag provided but not defined: -no-such-flag"]);
    assert!(error.next.contains("--k3s-arg"), "{error}");
}

async fn port_taken() {
    // Listens on all addresses, as Docker does for published ports.
    let taken = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let options = K3sOptions { k3s_port: Some(port), k3s_arg: vec!["--debug=port".to_owned()], ..options() };
    let error = failure(start(&options, &folder("k3s-port")).await);
    assert_eq!(error.kind, FailureKind::Failed);
    assert!(error.next.contains("--k3s-port") && error.what.contains(&port.to_string()), "{error}");
    let left = about(&["inspect", "--format", "{{.Config.Cmd}}"]);
    assert!(!left.iter().any(|(_, command)| command.contains("--debug=port")), "it stays behind: {left:?}");
}

async fn no_image() {
    let options = K3sOptions { k3s_image: "localhost:1/plumbline/no-such-image".to_owned(), ..options() };
    let error = failure(start(&options, &folder("k3s-no-image")).await);
    assert_eq!(error.kind, FailureKind::Missing);
    assert!(error.what.starts_with("the image localhost:1/plumbline/no-such-image:test is not available: "), "{error}");
    assert!(error.next.contains("docker pull") && error.next.contains("PLUMBLINE_K3S_IMAGE"), "{error}");
}

/// Inspects each container of this test's image. Containers of other tests may disappear at any time.
fn about(words: &[&str]) -> Vec<(String, String)> {
    let one = |id: String| {
        let output = docker(&[words, &[&id]].concat()).filter(|output| output.status.success())?;
        Some((id, String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    };
    containers().into_iter().filter_map(one).collect()
}

/// Finds the container that publishes the port in this kubeconfig.
fn container_of(kubeconfig: &Path) -> String {
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
    let port = text.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next()).expect("a port").to_owned();
    // IPv6 ports are numbered separately: another container may have the same number there.
    let published = format!("0.0.0.0:{port}");
    let mut ports = about(&["port"]).into_iter();
    ports.find(|(_, text)| text.split_whitespace().any(|word| word == published)).expect("a container with that port").0
}

fn harness(test: &str) -> Harness {
    Harness::start_with(&["k3s", &folder(test).display().to_string()], &[("PLUMBLINE_TEST_IMAGE", &IMAGE)])
}

fn killed_harness() {
    let mut harness = harness("k3s-killed");
    let kubeconfig = PathBuf::from(&harness.described);
    let id = container_of(&kubeconfig);
    harness.kill();
    eventually("the container is gone", || !containers().contains(&id));
    eventually("the folder and all processes are gone", || !kubeconfig.exists() && harness.descendants().is_empty());
}

async fn leftovers() {
    // A container whose owner is dead, and one whose owner is this process.
    let host_of = |owner: &str| owner.split('-').next().expect("a host").to_owned();
    let server = start(&options(), &folder("k3s-owner")).await.unwrap_or_else(|error| panic!("{error}"));
    let mine = container_of(&server.kubeconfig);
    let owner = said(&["inspect", "--format", "{{index .Config.Labels \"plumbline.owner\"}}", &mine]);
    let dead = format!("plumbline.owner={}-4294967295-1", host_of(&owner));
    let image = format!("{}:{TAG}", *IMAGE);
    let left = said(&["create", "--label", &dead, &image, "server"]);
    let second = start(&options(), &folder("k3s-second")).await.unwrap_or_else(|error| panic!("{error}"));
    let now = containers();
    assert!(!now.contains(&left), "the leftover is gone");
    assert!(now.contains(&mine), "what is in use stays");
    for server in [server, second] {
        server.stop().await.unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(!containers().contains(&mine));
}

async fn no_docker() {
    // Runs in a separate process, because Docker's address is read from the environment only once.
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args([crate::tools::HOLD, "k3s", &folder("k3s-no-docker").display().to_string()])
        .env("DOCKER_HOST", "unix:///no/such/docker.sock")
        .env("PLUMBLINE_TEST_IMAGE", "any")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("Docker is not available: ") && text.contains("next: start Docker"), "{text}");
}
