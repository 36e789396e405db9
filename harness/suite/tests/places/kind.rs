//! The kind workflow with a fake program that records its arguments and prints a kubeconfig from the test.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use plumbline::apiserver::listener::{ListenOptions, listen};
use plumbline::apiserver::{ApiServer, ApiServerConfig};
use plumbline::time::Clock;
use plumbline_suite::cluster::provision::FailureKind;
use plumbline_suite::cluster::provision::kind::{KindOptions, start};
use tokio_util::sync::CancellationToken;

use crate::tools::{folder, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("kind::makes_and_deletes_a_cluster", None, lives),
        trial("kind::what_a_killed_harness_left_is_deleted_by_the_next", None, leftovers),
        trial("kind::what_kind_complains_about_is_reported_and_deleted", None, complains),
        trial("kind::no_kind_no_cluster", None, missing),
    ]
}

/// Creates a `kind` script that runs `create` when asked to create a cluster. `$HERE` is its folder, `$5` is `--config`
/// and so on.
fn fake(here: &Path, create: &str) -> KindOptions {
    let program = here.join("kind");
    let script = format!(
        "#!/bin/sh\nHERE={}\necho \"$@\" >>$HERE/asked\ncase \"$1 $2\" in\n'create cluster') cp \"$6\" $HERE/config; {create};;\n\
         'get clusters') echo plumbline-junk; echo other; cat $HERE/clusters 2>/dev/null; true;;\nesac\n",
        here.display()
    );
    std::fs::write(&program, script).expect("a script");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    KindOptions {
        kind_program: program,
        kind_image: Some("node:x".to_owned()),
        kind_built_in_controllers: false,
        kind_ready_limit: 20,
    }
}

/// Returns the name in `create cluster --name NAME …`, and all recorded calls.
fn asked(here: &Path) -> (String, Vec<String>) {
    let text = std::fs::read_to_string(here.join("asked")).expect("it was asked");
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let create = lines.iter().find(|line| line.starts_with("create")).expect("a cluster was to be made");
    (create.split(' ').nth(3).expect("a name").to_owned(), lines.clone())
}

async fn lives() {
    let here = folder("kind-lives");
    let listening =
        listen(ApiServer::new(ApiServerConfig::new(Clock::wall())), ListenOptions::loopback()).await.expect("a port");
    listening.write_kubeconfig(&here.join("served")).expect("a kubeconfig");
    let stop = CancellationToken::new();
    tokio::spawn(listening.serve(stop.clone()));

    let options = fake(&here, "cp $HERE/served \"$8\"");
    let mut server = start(&options, &here.join("logs")).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(server.version.starts_with("v1."), "{}", server.version);
    assert_eq!((server.ended().await, server.image.as_deref()), (None, Some("node:x")));
    let (name, lines) = asked(&here);
    assert!(name.starts_with("plumbline-") && name.contains(&format!("-{}-", std::process::id())), "{name}");
    assert_eq!(lines.len(), 2, "clusters that are not a dead harness's are left alone: {lines:?}");
    assert!(lines[1].ends_with(" --image node:x"), "{}", lines[1]);
    let config = std::fs::read_to_string(here.join("config")).expect("a configuration");
    assert!(config.contains("-ttl-controller"), "{config}");

    let kubeconfig = server.kubeconfig.clone();
    server.stop().await.unwrap_or_else(|error| panic!("{error}"));
    let (_, lines) = asked(&here);
    assert!(lines[2].starts_with("export logs ") && lines[2].ends_with(&format!(" --name {name}")), "{lines:?}");
    assert_eq!(lines[3], format!("delete cluster --name {name} --kubeconfig {}", kubeconfig.display()));
    assert!(!kubeconfig.exists());
    stop.cancel();
}

async fn leftovers() {
    let here = folder("kind-leftovers");
    let options = fake(&here, "exit 1");
    let begun = async || start(&options, &here.join("logs")).await.map(|_| ()).expect_err("it makes none");
    begun().await;
    let (mine, _) = asked(&here);
    // A process with our id but another start time is dead; a process of another machine may still be alive.
    let dead = format!("{mine}0");
    let elsewhere = "plumbline-0a0b0c0d-1-1";
    std::fs::write(here.join("clusters"), format!("{mine}\n{elsewhere}\n{dead}\n")).expect("a list");
    std::fs::remove_file(here.join("asked")).expect("a file");
    begun().await;
    let (_, lines) = asked(&here);
    assert_eq!(lines[..2], ["get clusters".to_owned(), format!("delete cluster --name {dead}")], "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains(elsewhere)), "{lines:?}");
    assert!(lines[2].starts_with(&format!("create cluster --name {mine} ")), "{lines:?}");
}

async fn complains() {
    let here = folder("kind-complains");
    let options = fake(&here, "echo 'ERROR: failed to create cluster: no space left' >&2; exit 1");
    let error = start(&options, &here.join("logs")).await.map(|_| ()).expect_err("it cannot start");
    assert_eq!(error.kind, FailureKind::Failed);
    assert!(error.what.contains("exited with code 1"), "{error}");
    assert_eq!(error.evidence, ["ERROR: failed to create cluster: no space left"]);
    let (name, lines) = asked(&here);
    assert!(lines.iter().any(|line| line.starts_with(&format!("delete cluster --name {name} "))), "{lines:?}");
}

async fn missing() {
    let options = KindOptions { kind_program: PathBuf::from("/nowhere/kind"), ..fake(&folder("kind-missing"), "true") };
    let error = start(&options, &folder("kind-missing-logs")).await.map(|_| ()).expect_err("there is none");
    assert_eq!((error.kind, error.evidence), (FailureKind::Missing, vec!["/nowhere/kind".to_owned()]));
}
