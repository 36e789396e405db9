//! Programs that fail as subjects: the error messages, the evidence that is kept, and that no process is left running.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use plumbline_suite::conformance::report::ConformanceReport;
use rstest::rstest;

use crate::source_files::repository;
use crate::support;

/// The description of our own controllers: one of the programs is them, with a flag, and no other project may have them
/// judged.
const CLAIM: &str = "organization: Example\nproject: plumbline-controllers\n\
                     url: https://github.com/plumbline/plumbline\nversion: v0\ncontacts: [n@example.com]\n";

/// Runs the program in a folder of its own; returns exit code, standard output, standard error and the folder.
fn plumbline(test: &str, arguments: &[&str]) -> (i32, String, String, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("subjects").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a writable folder");
    fs::write(folder.join("me.yaml"), CLAIM).expect("a writable folder");
    let mut command = support::program();
    command.current_dir(&folder).env("PLUMBLINE_FIXTURES", repository().join("fixtures")).args(arguments);
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().unwrap_or(-1), text(stdout), text(stderr), folder)
}

/// Returns the command lines of all processes that contain `word`.
fn running(word: &str) -> Vec<String> {
    let line = |entry: fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    };
    let lines = fs::read_dir("/proc").expect("/proc").flatten().filter_map(line);
    lines.filter(|line| line.contains(word)).collect()
}

#[rstest]
#[case::exits("exits", "sh -c 'echo no such flag >&2; exit 3' {kubeconfig}", &[], &["sh exited with code 3", "no such flag"])]
#[case::is_no_program("text", "./me.yaml {kubeconfig}", &[], &["unable to start ./me.yaml"])]
#[case::hangs(
    "hangs",
    "sh -c 'echo dreaming; sleep 77001' {kubeconfig}",
    &["--ready-timeout", "1s"],
    &["never became ready: after 1 s it has not listed or watched nodes, poddisruptionbudgets, pods", "dreaming"]
)]
#[case::says_never_that_it_is_ready(
    "never-ready",
    "sh -c 'trap \"\" TERM; sleep 77002; sleep 77002' {kubeconfig}",
    &["--ready-timeout", "1s", "--ready-url", "http://127.0.0.1:{port}/readyz"],
    &["the subject is not ready after 1 s", "/readyz", "empty log"]
)]
#[case::never_logs_the_line(
    "no-line",
    "sh -c 'echo starting; sleep 77003' {kubeconfig}",
    &["--ready-timeout", "1s", "--ready-log", "^ready$"],
    &["no line of its log matches ^ready$", "starting"]
)]
fn a_subject_that_does_not_start(
    #[case] name: &str,
    #[case] command: &str,
    #[case] more: &[&str],
    #[case] described: &[&str],
) {
    let next = match name {
        "text" => "next: give --command the path of a program",
        "exits" => "next: run its command line by hand\n",
        _ => "next: run its command line by hand; if it only needs more time, increase --ready-timeout",
    };
    for verb in [&["run", "ttl/hysteresis-down"][..], &["conform", "--implementation", "me.yaml"][..]] {
        let (code, out, err, folder) = plumbline(name, &[verb, &["--command", command], more].concat());
        assert_eq!((code, out.as_str()), (96, ""), "{err}");
        assert!(err.contains("does not start, so no fixture was run") && err.contains(next), "{err}");
        for words in described {
            assert!(err.contains(words), "{words}: {err}");
        }
        assert!(!folder.join("conformance/report.yaml").exists(), "nothing was tested");
        // Its logs are kept in the folder that the error names.
        let logs = err.split("\n  logs: ").nth(1).and_then(|rest| rest.lines().next()).expect("the folder of the logs");
        assert!(fs::read_dir(logs).expect("a folder").count() >= 1, "{logs}");
        fs::remove_dir_all(Path::new(logs).parent().expect("the run's folder")).expect("it is ours");
    }
    // Each case sleeps for a different time, which distinguishes its processes from the others'.
    if let Some((_, rest)) = command.split_once("sleep 770") {
        let left = running(&format!("sleep 770{}", &rest[..2]));
        assert_eq!(left, <[&str; 0]>::default());
    }
}

/// It started, so its exit is a failure of the subject: the fixture fails, and the evidence contains its exit status.
#[test]
fn a_subject_that_ends_in_mid_run() {
    // Runs the real controllers as the subject, kills them after 15 seconds and exits with 7.
    let ours = support::controllers();
    let script = format!(
        "{} --leader-elect=false --secure-port=0 --kubeconfig={{kubeconfig}} --controllers={{controllers}} & sleep 15; kill $!; exit 7",
        ours.display()
    );
    let line = format!("sh -c '{script}'");
    let fixtures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("subjects/stays");
    fs::create_dir_all(fixtures.join("podgc")).expect("a writable folder");
    fs::write(fixtures.join("podgc/stays.yaml"), STAYS).expect("a writable folder");
    let fixtures = fixtures.to_str().expect("UTF-8");
    let (code, out, err, _) = plumbline("mid-run", &["run", "--fixtures", fixtures, "--command", &line]);
    assert_eq!(code, 100, "{out}{err}");
    assert!(out.contains("the controllers ended by themselves") && out.contains("sh exited with code 7"), "{out}{err}");
}

/// Lasts longer than its subject lives.
const STAYS: &str = "\
promise: A pod whose node exists stays.
rule: BR-24-03
level: core
feature: podgc.orphaned
given: { nodes: [n1], pods: [a on n1] }
steps: [{ at: 20s, expect: { exists: pods/a } }]
";

const RESTARTS: &str = "\
promise: Who crashes while a step waits for him is started again in time, not when the step gives up.
rule: BR-19-07
level: core
feature: ttl.annotation
given: { nodes: [n1], faults: [{ on: PATCH nodes/n1, crash: before, restart: 1s, count: 1 }] }
steps:
- { by: 6s, eventually: { match: { nodes/n1: { metadata: { annotations: { node.alpha.kubernetes.io/ttl: \"0\" } } } } } }
expect: { count: { PATCH nodes/n1: 2 } }
";

#[test]
fn who_crashes_while_a_step_waits_starts_again() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("subjects/restarts");
    fs::create_dir_all(folder.join("ttl")).expect("a writable folder");
    fs::write(folder.join("ttl/restarts.yaml"), RESTARTS).expect("a writable folder");
    let mut command = support::program();
    let output = command.env("PLUMBLINE_FIXTURES", &folder).args(["run", "--wall-clock"]).output();
    let output = output.expect("the program starts");
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(out.contains("1 passed of 1") && out.contains("on the wall clock"), "{out}");
}

/// The restart counts from the crash, which may come before the controllers are ready, however long they took to start.
#[test]
fn a_slow_start_does_not_delay_a_later_restart() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("subjects/slow-start");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("ttl")).expect("a writable folder");
    fs::write(folder.join("ttl/restarts.yaml"), RESTARTS).expect("a writable folder");
    let starts = folder.join("starts");
    // The rehearsal is start 0, the fixture begins with start 1.
    let script = format!(
        "n=$(cat {starts} 2>/dev/null || echo 0); echo $((n+1)) >{starts}; if [ $n -eq 1 ]; then sleep 8; fi; \
         exec {controllers} --leader-elect=false --secure-port=0 --kubeconfig={{kubeconfig}} \
         --controllers={{controllers}}",
        starts = starts.display(),
        controllers = support::controllers().display(),
    );
    let mut command = support::program();
    command.env("PLUMBLINE_FIXTURES", &folder).args(["run", "--subject-controllers", "ttl"]);
    let output = command.args(["--command", &format!("sh -c '{script}'")]).output().expect("the program starts");
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(out.contains("1 passed of 1"), "{out}");
}

/// Rounds down where Kubernetes rounds up: through `conform --command`, over HTTPS, on the wall clock. `broken.rs`
/// lists the failures in virtual time.
#[test]
fn a_broken_command_fails_what_it_should_over_https() {
    let ours = support::controllers();
    let fixtures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("subjects-rounding");
    let _ = fs::remove_dir_all(&fixtures);
    fs::create_dir_all(fixtures.join("disruption")).expect("a writable folder");
    for name in ["status-max-unavailable-percent", "status-min-available"] {
        let file = format!("disruption/{name}.yaml");
        fs::copy(repository().join("fixtures").join(&file), fixtures.join(&file)).expect("a fixture");
    }
    let profiles = "profiles: [{ name: disruption, about: Budgets., fixtures: [disruption/*] }]\n";
    fs::write(fixtures.join("profiles.yaml"), profiles).expect("a writable folder");
    let command = format!("{} --leader-elect=false --secure-port=0 --max-unavailable-rounding=down", ours.display());
    let fixtures = fixtures.display().to_string();
    let words = ["conform", "--implementation", "me.yaml", "--fixtures", &fixtures, "--command", &command];
    let beside = ["--command-env", "A_TOKEN=not-for-others", "--companion", "disruption=ttl-controller"];
    let (code, out, err, folder) = plumbline("rounding", &[&words[..], &beside].concat());
    assert_eq!(code, 100, "{out}{err}");
    let failed: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("FAIL   ")).collect();
    let failed: Vec<&str> = failed.iter().filter_map(|line| line.split(' ').next()).collect();
    let rows = ["1-of-1-is-1", "30-of-3-is-1", "30-of-7-at-the-limit", "30-of-7-is-3", "30-of-7-one-above"];
    let rows = [&rows[..], &["30-of-7-one-healthy", "50-of-5-is-3", "more-pods-than-scale"]].concat();
    let expected: Vec<String> =
        rows.iter().map(|row| format!("disruption/status-max-unavailable-percent[{row}]")).collect();
    assert_eq!(failed, expected, "{out}");
    assert!(out.contains("disruption       ✗ not conformant: 8 of "), "{out}");
    let report = folder.join("conformance/report.yaml").display().to_string();
    // Options given with the command are part of the tested configuration and are in the report; values of variables
    // are not.
    let text = fs::read_to_string(&report).expect("a report");
    let read = ConformanceReport::read(&text).expect("our own document");
    assert_eq!(read.subject.environment, ["A_TOKEN"], "{text}");
    assert_eq!(read.subject.companions, ["disruption=ttl-controller"], "{text}");
    assert!(!text.contains("not-for-others"), "{text}");
    let mut verify = support::program();
    let verified = verify.args(["verify", &report, "--fixtures", &fixtures]).output().expect("it starts");
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stderr));
}
