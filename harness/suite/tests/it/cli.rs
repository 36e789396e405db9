//! The program as its users meet it: exit codes, results on standard output, diagnostics on standard error.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use plumbline_suite::report::{Outcome, RunReport};

use super::skips::skip;
use crate::support;

pub(crate) const GOOD: &str = include_str!("../samples/good.yaml");

/// Creates a folder of fixtures for the test of this name.
pub(crate) fn folder(test: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&root);
    for (name, text) in files {
        let path = root.join("fixtures").join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
        std::fs::write(path, text).expect("a writable file");
    }
    root
}

/// Runs the program in a folder.
pub(crate) fn plumbline(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("the program starts")
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = support::program();
    command.current_dir(folder).env_remove("PLUMBLINE_FIXTURES").args(arguments);
    command
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("killed: {output:?}"))
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn two() -> Vec<(&'static str, &'static str)> {
    vec![("podgc/good.yaml", GOOD), ("podgc/bad.yaml", BAD)]
}

/// Like [`GOOD`], with an expectation that cannot hold.
pub(crate) const BAD: &str = "\
promise: A pod of a missing node lives for ever.
rule: BR-24-03
level: core
feature: podgc.orphaned
given: { nodes: [n1], pods: [a on n1] }
steps:
- { at: 5s, delete: nodes/n1 }
- { until: 300s, consistently: { exists: pods/a } }
allow: [WRITE pods/a, WRITE pods/a/status]
";

#[test]
fn without_a_verb_it_runs_everything() {
    let root = folder("no-verb", &[("podgc/good.yaml", GOOD)]);
    let output = plumbline(&root, &[]);
    assert_eq!((code(&output), err(&output).as_str()), (0, ""), "{}", out(&output));
    let text = out(&output);
    assert!(text.starts_with("1 fixture, 1 suite, "), "{text}");
    assert!(text.contains("\n1 passed of 1 · 80 s of virtual time in "), "{text}");
    assert!(!text.contains('\x1b'), "no colours into a pipe: {text:?}");
}

#[test]
fn without_arguments_and_fixtures_it_greets() {
    let folder = tempfile::tempdir().expect("a writable folder");
    let output = plumbline(folder.path(), &[]);
    assert_eq!((code(&output), err(&output).as_str()), (0, ""));
    let text = out(&output);
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.starts_with(concat!("plumbline ", env!("CARGO_PKG_VERSION"), ": ")), "{text}");
    // The commands that it shows exist.
    for line in text.lines().filter_map(|line| line.strip_prefix("  plumbline ")) {
        let verb = line.split_whitespace().next().expect("a word");
        let output = plumbline(folder.path(), &if verb == "--help" { vec![verb] } else { vec![verb, "--help"] });
        assert_eq!(code(&output), 0, "{verb}: {}", err(&output));
    }
}

/// A project's own folder of that name is none of fixtures.
#[test]
fn a_folder_of_other_fixtures_is_passed_over() {
    let folder = tempfile::tempdir().expect("a writable folder");
    let others = folder.path().join("fixtures/users");
    std::fs::create_dir_all(&others).expect("a folder");
    std::fs::write(folder.path().join("fixtures/users.yaml"), "- name: a\n").expect("a file");
    std::fs::write(others.join("b.yaml"), "name: b\n").expect("a file");
    let output = plumbline(folder.path(), &[]);
    assert!(out(&output).starts_with("plumbline "), "it greets: {}{}", out(&output), err(&output));
    let output = plumbline(folder.path(), &["list", "ttl/grow-100-to-101"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
}

#[test]
fn the_version_is_there_for_people_and_programs() {
    let output = plumbline(Path::new("."), &["version"]);
    assert_eq!((code(&output), err(&output).as_str()), (0, ""));
    assert_eq!(out(&output), concat!("plumbline ", env!("CARGO_PKG_VERSION"), " (Kubernetes 1.36, 1.37)\n"));
    let output = plumbline(Path::new("."), &["version", "--json"]);
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["kubernetesVersions"], serde_json::json!(["1.36", "1.37"]));
    assert_eq!(version["architecture"], std::env::consts::ARCH);
    assert!(version["static"].is_boolean(), "{version}");
}

#[test]
fn a_server_that_cannot_start_says_what_to_do() {
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = busy.local_addr().expect("an address").to_string();
    for (arguments, expected) in [
        (&["--listen", address.as_str()][..], "--listen 127.0.0.1:0 takes a free port\n"),
        (&["--listen", "192.0.2.1:0", "--allow-remote"], "use an address of this machine, such as 127.0.0.1\n"),
        (&["--kubeconfig", "/proc/none/kc"], "name a file in a folder that you can write with --kubeconfig\n"),
    ] {
        let output = plumbline(Path::new("."), &[&["serve"], arguments].concat());
        assert_eq!(code(&output), 96, "{arguments:?}");
        let said = err(&output);
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("plumbline: unable to ")).collect();
        assert!(lines.len() == 1 && said.ends_with(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_failure_shows_expected_observed_and_transcript() {
    let output = plumbline(&folder("failure", &two()), &["run", "--jobs", "1"]);
    assert_eq!(code(&output), 100);
    let text = out(&output);
    for part in [
        "FAIL podgc/bad  (fixtures/podgc/bad.yaml:8)",
        "✗ exists: pods/a at t=+60s (line 8)",
        "expected: pods/a exists",
        "t=+60s      podgc          DELETE pods/a 200  grace=0  uid=[uid-a]",
        "1 passed, 1 failed of 2 ·",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

#[test]
fn colours_are_chosen() {
    let root = folder("colours", &two());
    for (choice, expected) in [("always", true), ("never", false), ("auto", false)] {
        let text = out(&plumbline(&root, &["run", "--color", choice]));
        assert_eq!(text.contains("\x1b["), expected, "--color {choice}: {text:?}");
    }
}

#[test]
fn filters_that_select_nothing_are_an_error() {
    let root = folder("nothing", &two());
    for arguments in [["run", "nonsense"], ["list", "nonsense"], ["run", "--suite=ttl"], ["explain", "nonsense"]] {
        let output = plumbline(&root, &arguments);
        assert_eq!((code(&output), out(&output).as_str()), (4, ""), "{arguments:?}");
        assert!(err(&output).contains("selects none of 2 fixtures"), "{}", err(&output));
    }
}

#[test]
fn each_filter_must_select_something() {
    let root = folder("each-filter", &two());
    for (arguments, exit, message) in [
        (&["run", "good", "podgc/godo"][..], 4, "`podgc/godo` selects none of 2 fixtures (did you mean `podgc/good`?)"),
        (&["run", "podgc/*", "pdogc/*"], 4, "`pdogc/*` selects none of 2 fixtures (did you mean `podgc/*`?)"),
        (&["list", "--suite", "podgc,ttl"], 4, "--suite ttl selects none of 2 fixtures (suites: podgc)"),
        (&["run", "--level=hardened", "good"], 4, "--level hardened selects none of 2 fixtures"),
        (&["explain", "podgc/bda"], 4, "did you mean `podgc/bad`?"),
        (&["explian", "good"], 2, "`explian` is not a verb (did you mean `plumbline explain`?)"),
        (&["repaet", "good"], 2, "plumbline run repaet"),
        (&["expaln", "good"], 2, "`expaln` is not a verb and selects no fixture (did you mean `plumbline explain`?)"),
        (&["run", "explian", "good"], 4, "`explian` selects none of 2 fixtures"),
    ] {
        let output = plumbline(&root, arguments);
        assert_eq!((code(&output), out(&output).as_str()), (exit, ""), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(message), "{arguments:?}: {}", err(&output));
        assert_eq!(err(&output).lines().count(), 1, "what matches is not mentioned: {}", err(&output));
    }
}

#[test]
fn failures_of_one_cause_are_one_group() {
    let files = [("podgc/bad-1.yaml", BAD), ("podgc/bad-2.yaml", BAD), ("podgc/good.yaml", GOOD)];
    let root = folder("causes", &files);
    let text = out(&plumbline(&root, &["run"]));
    for part in
        ["2 of 2 failures share: exists: pods/a", "FAIL podgc/bad-1  (", "the same in:\n    FAIL podgc/bad-2  ("]
    {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert_eq!(text.matches("    transcript:").count(), 1, "{text}");
    let output = plumbline(&root, &["run", "--format=json"]);
    let report: RunReport = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(report.shared_causes[0].fixtures, ["podgc/bad-1", "podgc/bad-2"]);
    let text = out(&plumbline(&root, &["run", "--format=markdown"]));
    assert!(text.contains("\n## 2 of 2 failures share: exists: pods/a\n\n- `podgc/bad-1`"), "{text}");
}

#[test]
fn transcripts_of_passes_are_there_if_asked_for() {
    let root = folder("transcripts", &two());
    let output = plumbline(&root, &["run", "good", "--transcripts=all"]);
    assert!(out(&output).contains("PASS podgc/good  (fixtures/podgc/good.yaml)\n  t=+5s  "), "{}", out(&output));
    for (more, shown) in [(&[][..], false), (&["--transcripts=all"], true)] {
        let output = plumbline(&root, &[&["run", "good", "--format=json"], more].concat());
        let report: RunReport = serde_json::from_slice(&output.stdout).expect("one JSON document");
        assert_eq!(report.fixtures[0].transcript.contains("DELETE pods/a"), shown);
    }
}

/// The suggested command names the folder of the fixtures, and works.
#[test]
fn a_failure_suggests_the_command_that_explains_it() {
    let root = folder("hint", &two());
    std::fs::rename(root.join("fixtures"), root.join("my fixtures")).expect("a writable folder");
    let text = out(&plumbline(&root, &["run", "--jobs=2", "--fixtures", "my fixtures"]));
    let line = text.lines().find_map(|line| line.trim().strip_prefix("more: plumbline ")).expect("a suggestion");
    assert_eq!(line, "explain podgc/bad --fixtures 'my fixtures'");
    let words = shell_words::split(line).expect("a command line");
    let output = plumbline(&root, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code(&output), 100, "{}", err(&output));
    let text = out(&output);
    assert!(
        text.contains("subject   in-process on embedded, virtual time") && text.contains("outcome   failed"),
        "{text}"
    );
}

#[test]
fn explain_runs_the_given_subject() {
    let root = folder("explain-subject", &two());
    let output =
        plumbline(&root, &["explain", "podgc/good", "--logs=logs", "--command", "sh -c 'exit 3' {kubeconfig}"]);
    assert_eq!((code(&output), out(&output).as_str()), (96, ""), "{}", err(&output));
    assert!(err(&output).contains("sh does not start") && err(&output).contains("code 3"), "{}", err(&output));
    let output = plumbline(&root, &["explain", "podgc/good", "--subject", "none"]);
    assert_eq!(code(&output), 4);
    let text = out(&output);
    assert!(text.contains("outcome   unsupported: the subject does not run: podgc"), "{text}");
    assert!(!text.contains("\ntranscript"), "it has not run: {text}");
}

#[test]
fn filters_select_by_name_rule_suite_and_level() {
    let root = folder("filters", &two());
    for arguments in [&["run", "good"][..], &["podgc/go*"], &["run", "--suite", "podgc", "--level=core", "good"]] {
        let output = plumbline(&root, arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}{}", out(&output), err(&output));
        assert!(out(&output).contains("1 passed of 1 "), "{}", out(&output));
    }
    assert_eq!(code(&plumbline(&root, &["BR-24-03"])), 100);
}

#[test]
fn bad_fixtures_stop_every_run_that_could_select_them() {
    let misspelt = GOOD.replace("delete: nodes/n1", "delte: nodes/n1");
    let root = folder("bad-fixtures", &[("podgc/good.yaml", GOOD), ("podgc/worse.yaml", &misspelt)]);
    for arguments in [&["run"][..], &["list"], &["lint"], &["run", "podgc/*"], &["explain", "worse"]] {
        let output = plumbline(&root, arguments);
        assert_eq!((code(&output), out(&output).as_str()), (3, ""), "{arguments:?}");
        let text = err(&output);
        assert!(text.contains("fixtures/podgc/worse.yaml:7:") && text.contains("did you mean `delete`?"), "{text}");
    }
    let output = plumbline(&root, &["run", "podgc/good"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
}

#[test]
fn wrong_flags_are_claps_business() {
    let root = folder("usage", &two());
    for arguments in [["run", "--format=xml"], ["run", "--jobs=0"], ["run", "--level=high"], ["lint", "--nonsense"]] {
        let output = plumbline(&root, &arguments);
        assert_eq!((code(&output), out(&output).as_str()), (2, ""), "{arguments:?}");
        assert!(err(&output).contains("error: "), "{}", err(&output));
    }
}

#[test]
fn what_is_missing_around_us_is_named() {
    let root = folder("environment", &two());
    let output = plumbline(&root, &["run", "--fixtures", "elsewhere"]);
    assert_eq!(code(&output), 96);
    assert!(err(&output).contains("the folder elsewhere (--fixtures) does not exist"), "{}", err(&output));
    let output = plumbline(&root, &["run", "--output", "no/such/folder/report"]);
    assert_eq!(code(&output), 96);
    assert!(err(&output).contains("unable to write no/such/folder/report"), "{}", err(&output));
}

#[test]
fn json_is_on_stdout_and_messages_are_on_stderr() {
    let output = plumbline(&folder("json", &two()), &["run", "--format", "json", "--jobs", "2"]);
    assert_eq!(code(&output), 100);
    let report: RunReport = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!((report.api_version.as_str(), report.kind.as_str()), ("plumbline/v1", "RunReport"));
    assert_eq!((report.count(Outcome::Pass), report.count(Outcome::Fail), report.fixtures.len()), (1, 1, 2));
    assert_eq!(report.fixtures[0].id, "podgc/bad");
    assert!(report.fixtures[0].transcript.contains("DELETE pods/a"));
    assert!(err(&output).contains("1 passed, 1 failed of 2"), "{}", err(&output));
}

#[test]
fn junit_goes_to_a_file() {
    let root = folder("junit", &two());
    let output = plumbline(&root, &["run", "--format=junit", "--output=report.xml"]);
    assert_eq!((code(&output), out(&output).as_str()), (100, ""));
    let text = std::fs::read_to_string(root.join("report.xml")).expect("the report");
    assert!(text.contains("tests=\"2\" skipped=\"0\" failures=\"1\""), "{text}");
}

#[test]
fn fail_fast_says_what_did_not_run() {
    let files: Vec<(String, &str)> = (0..9).map(|index| (format!("podgc/bad-{index}.yaml"), BAD)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let output = plumbline(&folder("fail-fast", &files), &["run", "--fail-fast", "--jobs=1", "--format=json"]);
    assert_eq!(code(&output), 100);
    let report: RunReport = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let failed = report.count(Outcome::Fail);
    let not_run = report.count(Outcome::NotRun);
    assert!((1..=3).contains(&failed) && failed + not_run == 9, "{failed} failed, {not_run} not run");
    assert!(report.fixtures.iter().any(|fixture| fixture.reason == "--fail-fast after podgc/bad-0"));
}

#[test]
fn what_is_repeated_stays_the_same() {
    let root = folder("repeat", &two());
    let output = plumbline(&root, &["repeat", "--runs=4", "--jobs=1..3", "--seed=7"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(
        out(&output).starts_with("2 fixtures, 4 runs of each, shuffled (seed 7), 1 to 3 jobs, "),
        "{}",
        out(&output)
    );
    assert_eq!(code(&plumbline(&root, &["repeat", "--jobs=3..1"])), 2);
}

#[test]
fn what_was_repeated_until_a_signal_is_reported() {
    let root = folder("repeat-until", &two());
    let mut child = command(&root, &["repeat", "--runs=4000000000"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("plumbline starts");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    // Printed after the first fifty runs.
    said.read_line(&mut line).expect("text");
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    let output = child.wait_with_output().expect("an end");
    said.read_to_string(&mut line).expect("text");
    assert_eq!(code(&output), 96, "{line}");
    assert!(line.contains("interrupted by SIGTERM after "), "{line}");
    assert!(
        out(&output).starts_with("2 fixtures, ") && out(&output).ends_with(": no difference\n"),
        "{}",
        out(&output)
    );
}

#[test]
fn a_fault_that_hits_nothing_fails_its_fixture() {
    let idle = "given: { nodes: [n1], pods: [a on n1], faults: [{ on: WATCH pods, drop: before }] }";
    let text = GOOD.replace("given: { nodes: [n1], pods: [a on n1] }", idle);
    let output = plumbline(&folder("idle-fault", &[("podgc/idle.yaml", text.as_str())]), &["run"]);
    assert_eq!(code(&output), 100);
    let described = "the fault on `WATCH pods` affected nothing: no request matched it (write `*:pods` for objects of all namespaces)";
    assert!(out(&output).contains(described), "{}", out(&output));
}

#[test]
fn list_shows_ids_and_promises() {
    let root = folder("list", &two());
    let output = plumbline(&root, &["list"]);
    assert_eq!(code(&output), 0);
    assert!(out(&output).starts_with("podgc/bad   core         A pod of a missing node lives for ever.  [BR-24-03]\n"));
    let output = plumbline(&root, &["list", "--json", "good"]);
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!(line["id"], "podgc/good");
    assert_eq!(plumbline(&root, &["list", "--format", "json", "good"]).stdout, output.stdout);
}

#[test]
fn lint_counts_what_is_fine() {
    let root = folder("lint", &two());
    assert_eq!(out(&plumbline(&root, &["lint"])), "2 fixtures are well formed\n");
    assert_eq!(out(&plumbline(&root, &["lint", "fixtures/podgc/good.yaml"])), "1 fixture is well formed\n");
    assert_eq!(code(&plumbline(&root, &["lint", "fixtures/podgc/missing.yaml"])), 96);
}

#[test]
fn explain_shows_promise_steps_and_transcript() {
    let root = folder("explain", &two());
    let output = plumbline(&root, &["explain", "podgc/good"]);
    assert_eq!(code(&output), 0);
    let text = out(&output);
    for part in [
        "promise   A pod of",
        "rules     BR-24-03",
        "by: 80s, eventually",
        "PATCH  pods/a/status 200",
        "outcome   passed",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert_eq!(code(&plumbline(&root, &["explain", "podgc/bad"])), 100);
}

#[test]
fn a_closed_pipe_is_a_quiet_end_and_a_lost_verdict_no_success() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let filter = "ttl/hysteresis-down";
    for (arguments, expected) in [
        (&["list"][..], 0),
        (&["list", "--format", "json"], 0),
        (&["lint"], 0),
        (&["schema"], 0),
        (&["version"], 0),
        (&["help", "clusters"], 0),
        (&["explain", filter], 0),
        (&["run", filter], 96),
    ] {
        let mut command = command(root, arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(code(&output), expected, "{arguments:?}: {}", err(&output));
        assert!(!err(&output).contains("unable to write"), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn help_documents_the_exit_codes() {
    let output = plumbline(Path::new("."), &["--help"]);
    assert_eq!(code(&output), 0);
    for exit in ["0  ", "1  ", "2  ", "3  ", "4  ", "5  ", "96 ", "100", "101", "102"] {
        assert!(out(&output).contains(&format!("\n  {exit}")), "{}", out(&output));
    }
}

/// [`GOOD`] as a promise of Kubernetes 1.37 and later.
fn since_1_37() -> String {
    GOOD.replace("level: core", "level: core\nsince: \"1.37\"")
}

#[test]
fn a_run_judges_by_one_release_of_kubernetes() {
    let later = since_1_37();
    let folder = folder("releases", &[("podgc/good.yaml", GOOD), ("podgc/later.yaml", &later)]);
    let outcome = |arguments: &[&str]| {
        let output = plumbline(&folder, &[&["run", "--format", "json"], arguments].concat());
        assert_eq!(code(&output), 0, "{}", err(&output));
        let report: RunReport = serde_json::from_str(&out(&output)).expect("a report");
        let later = report.fixtures.into_iter().find(|fixture| fixture.id == "podgc/later").expect("listed");
        (later.outcome, later.reason)
    };
    let why = "is about Kubernetes 1.37 and later; this run judges 1.36";
    assert_eq!(outcome(&[]), (Outcome::Skip, why.to_owned()));
    assert_eq!(outcome(&["--kubernetes-version", "1.37"]), (Outcome::Pass, String::new()));

    let only = plumbline(&folder, &["run", "podgc/later"]);
    assert_eq!(code(&only), i32::from(plumbline_suite::exit::Exit::NothingSelected.code()), "{}", err(&only));
    let explained = plumbline(&folder, &["explain", "podgc/later"]);
    assert_eq!(code(&explained), 0, "{}", err(&explained));
    assert!(out(&explained).contains("releases  Kubernetes 1.37 and later"), "{}", out(&explained));

    let unknown = plumbline(&folder, &["run", "--kubernetes-version", "1.99"]);
    assert_eq!(code(&unknown), 2);
    assert!(err(&unknown).contains("Kubernetes 1.99 cannot be served; available: 1.36, 1.37"), "{}", err(&unknown));
}

/// On a terminal of 60 columns, which the program `script` provides.
#[test]
fn a_terminal_gets_wrapped_lines_and_keeps_no_progress_bar() {
    let root = folder("terminal", &two());
    let program = support::PROGRAM;
    let session = format!("stty cols 60 rows 40; exec '{program}' run");
    let mut script = Command::new("script");
    script.current_dir(&root).env_remove("PLUMBLINE_FIXTURES").args(["-qec", &session, "/dev/null"]);
    let Ok(output) = script.stdin(Stdio::null()).output() else {
        return skip("cli", "there is no program `script`");
    };
    assert_eq!(code(&output), 100);
    let text = out(&output).replace('\r', "");
    assert!(text.contains("\x1b["), "it is a terminal: {text}");
    // Each picture of the bar begins by erasing the line.
    let lines: Vec<&str> = text.lines().map(|line| line.rsplit("\x1b[2K").next().unwrap_or(line)).collect();
    assert!(lines.iter().all(|line| !line.contains(['░', '█'])), "{text:?}");
    let message = "+DisruptionTarget=True/DeletionByPodGC since\n";
    assert!(lines.join("\n").contains(message), "long lines are wrapped: {text}");
}

/// Two screens of 50 lines, at 100 columns.
#[test]
fn help_fits_two_screens() {
    let root = folder("help", &[]);
    std::fs::create_dir_all(&root).expect("a writable folder");
    let help = |arguments: &[&str]| {
        let output = command(&root, arguments).env("COLUMNS", "100").output().expect("the program starts");
        assert_eq!((code(&output), err(&output).as_str()), (0, ""), "{arguments:?}");
        out(&output)
    };
    let top = help(&["--help"]);
    let verbs = top.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<&str> =
        verbs.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 12 && verbs.contains(&"serve"), "{verbs:?}");
    for verb in verbs.iter().filter(|verb| **verb != "help") {
        let short = help(&[verb, "--help"]);
        let same = help(&[verb, "-h"]);
        assert!(short.lines().count() <= 100, "{verb} --help has {} lines", short.lines().count());
        assert!(short.lines().all(|line| line.chars().count() <= 100), "{verb} --help is too wide:\n{short}");
        assert_eq!(short, same);
    }
    assert!(top.lines().count() <= 100);
    let run = help(&["run", "--help"]);
    let all = help(&["help", "run"]);
    let clusters = help(&["help", "clusters"]);
    assert!(run.contains("plumbline help clusters") && !run.contains("--k3s-image"), "{run}");
    assert!(run.contains("Cluster and subject:\n      --cluster "), "{run}");
    for flag in ["--envtest-assets", "--k3s-image", "--kind-image", "--kubeconfig"] {
        assert!(all.contains(flag) && clusters.contains(flag), "{flag}: {clusters}");
    }
    assert!(clusters.lines().count() <= 100, "{clusters}");
}
