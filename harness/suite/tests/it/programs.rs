//! Explorations of programs: a sound operator has no finding, each planted mistake is found, shrunk and repeated, and
//! what cannot be explored says what to add.
//!
//! Needs Python, and a machine on which programs can be traced; others skip.

use std::process::{Command, Output};

use rstest::rstest;
use serde_json::Value;

use crate::support;

const OPERATOR: &str = "python3 harness/suite/tests/it/programs/widgets.py {server} {token-file} {ca-file}";
const SCENARIO: &str = "harness/suite/tests/it/programs/widgets.yaml";
const MENDED: &str = "harness/suite/tests/it/programs/mended.yaml";

fn can_run() -> bool {
    if Command::new("python3").arg("--version").output().is_err() {
        crate::skips::skip("programs", "there is no python3");
        return false;
    }
    let traced = plumbline(&["test", "--", "true"]);
    if !traced.status.success() {
        crate::skips::skip("programs", &String::from_utf8_lossy(&traced.stderr));
    }
    traced.status.success()
}

fn plumbline(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumbline"));
    command.args(arguments).env_remove("RUST_LOG").env_remove("PLUMBLINE_FIXTURES");
    command.current_dir(crate::source_files::repository()).output().expect("the program starts")
}

/// Explores the operator with this mistake, or a sound one.
fn explored(bug: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    explored_in(SCENARIO, bug, flags)
}

/// The same with this scenario.
fn explored_in(scenario: &str, bug: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let bug = format!("BUG={bug}");
    // A machine with other work is no reason to give a run up.
    let own = [
        "explore",
        "--command",
        OPERATOR,
        "--scenario",
        scenario,
        "--command-env",
        &bug,
        "--http",
        "--run-limit",
        "5m",
    ];
    let output = plumbline(&[&own[..], flags].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Some plans of each kind, more of them with `PLUMBLINE_TESTS=full`: all of them take minutes.
#[test]
fn a_sound_operator_has_no_finding() {
    if !can_run() {
        return;
    }
    let plans = if support::is_full() { 24 } else { 8 };
    let (code, out, err) = explored("", &["--plans", &plans.to_string(), "--format", "json"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let report: Value = serde_json::from_str(&out).expect("a document");
    let scenario = &report["scenarios"][0];
    assert_eq!((&scenario["tried"], &scenario["alike"]), (&plans.into(), &1.0.into()), "{out}");
    assert!(scenario["points"].as_u64() > Some(20) && scenario["planned"].as_u64() == Some(plans), "{out}");
}

/// Each mistake is shown by the plan that leads to it.
#[rstest]
#[case::two_writes_and_a_crash_between("garbage", "crash-after@POST:configmaps#1", "end state · configmaps · is left")]
#[case::no_retry_after_a_conflict("no-retry", "409@PUT:configmaps/a-data#1", "end state · configmaps · data.size")]
#[case::no_retry_after_a_failure("no-retry", "500@PUT:widgets/a/status#2", "end state · widgets · status.size")]
#[case::an_orphan("orphan", "crash-before@DELETE:configmaps/b-data#1", "end state · configmaps · is left")]
#[case::a_delete_by_a_stale_list("stale-delete", "time-travel-30s@EVENT:widgets/b#1", "deletes · configmaps · deleted")]
#[case::an_exception("panic", "crash-after@PUT:widgets/a/status#1", "alive · a panic")]
fn each_planted_mistake_is_found(#[case] bug: &str, #[case] plan: &str, #[case] fingerprint: &str) {
    if !can_run() {
        return;
    }
    let (code, out, err) = explored(bug, &["--replay", &format!("scenario/widgets:{plan}")]);
    assert!(code == Some(100) && out.contains(&format!("✗ {fingerprint}")), "{out}{err}");
}

/// The second change brings what was dropped after a conflict, so that only the beginning of the scenario shows it.
#[rstest]
#[case::at_the_end("no-retry", "scenario/mended", "no breach")]
#[case::before_the_second_change("no-retry", "scenario/mended~1", "✗ end state · configmaps · data.size")]
#[case::a_sound_operator("", "scenario/mended~1", "no breach")]
fn a_mistake_that_a_later_step_mends_is_found(#[case] bug: &str, #[case] scenario: &str, #[case] expected: &str) {
    if !can_run() {
        return;
    }
    let plan = format!("{scenario}:409@PUT:configmaps/a-data#1");
    let (code, out, err) = explored_in(MENDED, bug, &["--replay", &plan]);
    let wanted = if expected.starts_with('✗') { 100 } else { 0 };
    assert!(code == Some(wanted) && out.contains(expected), "{out}{err}");
}

/// The example of the manual is the scenario that these tests explore.
#[test]
fn the_manual_shows_the_scenario() {
    let read = |path: &str| std::fs::read_to_string(crate::source_files::repository().join(path)).expect(path);
    assert!(read("harness/EXPLORE.md").contains(&read(SCENARIO)));
}

/// Mistakes that the run without any fault shows.
#[rstest]
#[case::status_by_update("status-by-update", "✗ status · widgets · by an update")]
#[case::hot_loop("hot-loop", "times within a second")]
fn mistakes_without_any_fault_are_found(#[case] bug: &str, #[case] text: &str) {
    if !can_run() {
        return;
    }
    let (code, out, err) = explored(bug, &["--plans", "1", "--no-shrink"]);
    assert!(matches!(code, Some(5 | 100)) && out.contains(text), "{out}{err}");
}

/// A job without the selector that a creation generates would be refused when the program updates it.
#[test]
fn given_objects_are_as_if_created() {
    if !can_run() {
        return;
    }
    let script = "python3 harness/suite/tests/it/programs/labels.py {server} {token-file}";
    let objects = "/apis/batch/v1/namespaces/default/jobs/a /api/v1/namespaces/default/services/a";
    let scenario = "harness/suite/tests/it/programs/labels.yaml";
    let command = format!("{script} {objects}");
    let output = plumbline(&[
        "explore",
        "--command",
        &command,
        "--scenario",
        scenario,
        "--http",
        "--run-limit",
        "5m",
        "--replay",
        "scenario/labels:none",
    ]);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}{}", String::from_utf8_lossy(&output.stderr));
    for update in ["PUT    jobs/a 200", "PUT    services/a 200"] {
        assert!(out.contains(update), "{out}");
    }
    assert!(!out.contains("clusterIP") && !out.contains("selector"), "{out}");
}

#[test]
fn a_missing_scenario_is_named() {
    let output = plumbline(&["explore", "--command", "true", "--scenario", "no-such.yaml"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("no-such.yaml: unable to read the scenario: No such file"), "{err}");
    assert_eq!(output.status.code(), Some(3), "{err}");
}
