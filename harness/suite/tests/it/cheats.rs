//! Programs that know the test instead of doing the work fail, and the report says what they knew. An honest program
//! that asks the server instead of watching it passes the same fixture.

use std::path::PathBuf;
use std::process::{Command, Output};

use plumbline::fixture::objects;
use rstest::rstest;

use crate::serving::Server;
use crate::source_files::repository;

/// The fixture whose outcome a script could fake: a pod is deleted 60 s after the start.
const FIXTURE: &str = "podgc/orphaned-quarantine-40s";

/// Returns a Python; `None`, after reporting a skip, if there is none.
fn python() -> Option<String> {
    let python = std::env::var("PLUMBLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let works = Command::new(&python).arg("--version").output().is_ok();
    if !works {
        crate::skips::skip("cheats", &format!("{python} cannot be run"));
    }
    works.then_some(python)
}

fn harness(path: &str) -> PathBuf {
    repository().join("harness").join(path)
}

/// Runs fixtures against a program; returns exit code, standard output and standard error.
fn run(words: &str, more: &[&str]) -> (i32, String, String) {
    judge("podgc", words, more)
}

fn judge(controller: &str, words: &str, more: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumbline"));
    command.current_dir(repository()).args(["run", "--subject-controllers", controller, "--command", words]).args(more);
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn cheat(python: &str, kind: &str) -> String {
    format!(
        "{python} {} {kind} {{server}} {{token-file}} {{ca-file}}",
        harness("suite/tests/it/cheats/cheat.py").display()
    )
}

#[rstest]
#[case::the_name("name", "/api/v1/namespaces/default/pods/a/status with the name of the fixture's file")]
#[case::the_uid("uid", "with a uid of the fixture's file")]
#[case::that_there_is_one_pod("all", "pods/decoy-of-a is a decoy")]
#[case::that_there_is_a_transcript("transcript", "asked for a path of the test harness, GET /plumbline/transcript")]
fn a_program_fails_that_knows(#[case] what: &str, #[case] sentence: &str) {
    let Some(python) = python() else { return };
    let kind =
        if what == "uid" { format!("uid:{}", objects::uid("pods", Some("default"), "a")) } else { what.to_owned() };
    let (code, out, err) = run(&cheat(&python, &kind), &[FIXTURE]);
    assert_eq!(code, 100, "{out}{err}");
    assert!(out.contains(sentence), "{out}{err}");
}

/// A clock that stopped would end no fixture. The name of its socket is not in the program's own environment.
#[test]
fn a_program_cannot_stop_the_time_in_which_it_is_judged() {
    let Some(python) = python() else { return };
    let (code, out, err) = run(&cheat(&python, "time"), &[FIXTURE]);
    assert_eq!(code, 100, "{out}{err}");
    if err.contains("virtual time: ") {
        assert!(err.contains(" tried to move the time, which is not its own; its orders were refused"), "{out}{err}");
    }
}

/// It has one thread, lists pods and nodes one after the other, and survives a crash at its first list.
#[test]
fn a_poller_passes_and_a_seed_draws_the_same() {
    let Some(python) = python() else { return };
    let script = harness("examples/podgc_controller.py");
    let honest = format!("{python} {} {{server}} {{token-file}} {{ca-file}} {{flags}}", script.display());
    let fixtures = [
        FIXTURE,
        "podgc/orphaned-live-get-finds-the-node",
        "faults/podgc-crash-at-every-call[before-the-list-of-pods]",
        "faults/podgc-crash-at-every-call[after-the-list-of-nodes]",
    ];
    let (code, out, err) = run(&honest, &fixtures);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("--seed "), "the report has the seed: {out}");
    let transcript = |seed: &str| {
        let (code, out, err) = run(&honest, &[FIXTURE, "--seed", seed, "--transcripts", "all"]);
        assert_eq!(code, 0, "{out}{err}");
        let (_, transcript) = out.split_once("PASS ").expect("a transcript");
        transcript.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    let first = transcript("1");
    assert!(first.contains("DELETE pods/a 200") && first.contains("[uid-a]"), "{first}");
    assert_eq!(first, transcript("2"), "the transcript has the fixture's names with any seed");
}

/// The same on a server that is there: names are drawn, too.
#[test]
fn on_a_real_server_a_program_fails_that_knows_a_name() {
    let Some(python) = python() else { return };
    let server = Server::start(&[]);
    let kubeconfig = server.kubeconfig().display().to_string();
    let words = ["--cluster", "kubeconfig", "--kubeconfig", &kubeconfig, "--no-bystanders", "--allow-disruptive"];
    let words =
        [&words[..], &["--tolerance", "5s", "--transcripts", "all", "ttl/patch-touches-one-annotation"]].concat();
    let honest = harness("examples/ttl_controller.py").display().to_string();
    let (code, out, err) = judge("ttl", &format!("{python} {honest} {{server}} {{token-file}} {{ca-file}}"), &words);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("names and uids were drawn: --seed ") && out.contains("PATCH  nodes/n1 200"), "{out}{err}");
    let (code, out, err) = judge("ttl", &cheat(&python, "node:n1"), &words);
    assert_eq!(code, 100, "{out}{err}");
    assert!(out.contains("GET /api/v1/nodes/n1 with the name of the fixture's file"), "{out}{err}");
}
