//! The manifests and the runbook agree with the program.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::CommandFactory as _;
use http::{Request, Response};
use http_body_util::Full;
use kube::Client;
use kube::client::Body;
use plumbline_controllers::app::{App, Config, EVENT_GRACE, STOP_GRACE};
use plumbline_controllers::args::{Args, layers};
use plumbline_controllers::runtime::client::ClientFactory;
use plumbline_controllers::runtime::clock::Clock;
use plumbline_controllers::runtime::metrics::Metrics;
use plumbline_controllers::runtime::metrics::text::prometheus;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::BoxError;

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn deployment() -> Value {
    serde_saphyr::from_str(&file("deploy/deployment.yaml")).unwrap()
}

fn manifests(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            manifests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn the_programs_own_flags_are_used() {
    let container = &deployment()["spec"]["template"]["spec"]["containers"][0];
    let given = container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
    let argv = ["plumbline-controllers"].into_iter().chain(given).map(OsString::from);
    let args = layers::parse(argv, |_| None, |path| fs::read_to_string(path)).unwrap();
    let election = args.leader_elect.election("me").unwrap().expect("two replicas need an election");
    assert!(args.config().is_ok());
    let port = args.serve.options("").unwrap().expect("probes need a port").address.port();
    assert_eq!(container["ports"][0]["containerPort"], port);
    for probe in ["livenessProbe", "readinessProbe"] {
        let get = &container[probe]["httpGet"];
        assert_eq!((&get["port"], &get["scheme"]), (&json!("https"), &json!("HTTPS")));
    }
    let grace = deployment()["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    let needed = STOP_GRACE + EVENT_GRACE + election.timing.renew_deadline;
    assert!(Duration::from_secs(grace) >= needed, "{grace} s are less than the {needed:?} that stopping may take");
    let role = file("deploy/rbac.yaml");
    assert!(role.contains(&format!("resourceNames: [{}]", election.name)), "the lease's name is in the role");
}

#[test]
fn the_pod_may_do_nothing_that_it_does_not_need() {
    let pod = &deployment()["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0]["securityContext"];
    let expected = json!({ "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] } });
    assert_eq!(*container, expected);
    for forbidden in ["hostNetwork", "hostPID", "hostIPC", "volumes"] {
        assert_eq!(pod[forbidden], Value::Null, "{forbidden}");
    }
    let user = pod["securityContext"]["runAsUser"].as_u64().unwrap();
    let group = pod["securityContext"]["runAsGroup"].as_u64().unwrap();
    assert!(file("deploy/Dockerfile").contains(&format!("USER {user}:{group}\n")), "the image's user is the pod's");
}

#[test]
fn every_manifest_is_part_of_the_base_or_of_a_component() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let mut files = Vec::new();
    manifests(&root, &mut files);
    assert!(files.len() > 6, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        for document in text.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            assert!(object["apiVersion"].is_string() && object["kind"].is_string(), "{path:?}");
        }
        let name = path.file_name().unwrap().to_str().unwrap();
        if name != "kustomization.yaml" {
            let list: Value =
                serde_saphyr::from_str(&fs::read_to_string(path.with_file_name("kustomization.yaml")).unwrap())
                    .unwrap();
            assert!(list["resources"].as_array().unwrap().contains(&name.into()), "{name} is not in its kustomization");
        }
    }
}

#[test]
fn the_runbook_names_every_flag() {
    let runbook = file("RUNBOOK.md");
    for argument in Args::command().get_arguments() {
        let name = argument.get_long().unwrap();
        // In a group of flags, the first is written in full, the others from where they differ.
        let named = runbook.contains(&format!("`--{name}`"))
            || ["leader-elect-lease-duration", "leader-elect-resource-lock"].iter().any(|first| {
                let common = first.rsplit_once('-').unwrap().0.rsplit_once('-').unwrap().0;
                let rest = name.strip_prefix(common);
                rest.is_some_and(|rest| {
                    runbook.contains(&format!("`--{first}`")) && runbook.contains(&format!("`{rest}`"))
                })
            });
        assert!(named, "--{name} is not in RUNBOOK.md");
    }
}

/// Returns every metric with a sample: families without one are not shown.
fn all_metrics() -> String {
    let clients: ClientFactory = Arc::new(|_| {
        let service = tower::service_fn(|_: Request<Body>| async {
            Err::<Response<Full<Bytes>>, BoxError>("nothing is asked here".into())
        });
        Client::new(service, "default")
    });
    let metrics = Metrics::new();
    metrics.force_delete("ns", "orphaned");
    metrics.force_delete_error("ns", "orphaned");
    metrics.event_dropped("spam");
    metrics.fail_safe("disruption");
    metrics.leader("lease", true);
    metrics.leader_slow_path("lease");
    metrics.running("ttl-controller", true);
    let requests = metrics.requests();
    requests.answered("GET", "200", Duration::ZERO);
    requests.repeated("GET", "429");
    requests.throttled("GET", Duration::ZERO);
    requests.sent("PUT", 1);
    requests.received("GET", 1);
    let app = App::new(&Config::default(), clients, Clock::wall(), metrics, CancellationToken::new());
    prometheus(&app.diagnostics().metrics())
}

#[tokio::test]
async fn the_runbook_names_every_metric() {
    let runbook = file("RUNBOOK.md");
    let text = all_metrics();
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names.iter().filter(|name| !name.starts_with("process_")) {
        // In a row of metrics, the first is written in full, the others from where they differ.
        let ending = |(at, _): (usize, char)| runbook.contains(&format!("_{}`", &name[at + 1..]));
        let named =
            runbook.contains(&format!("`{name}`")) || name.char_indices().filter(|(_, c)| *c == '_').any(ending);
        assert!(named, "{name} is not in RUNBOOK.md");
    }
}
