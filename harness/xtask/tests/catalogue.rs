//! `xtask catalogue`: formats and exit codes. What counts as a gap is tested beside the suite's catalogue.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rstest::rstest;
use serde_json::Value;

fn catalogue(fixtures: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["catalogue", "--fixtures"]).arg(fixtures).args(args).output().expect("xtask starts")
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[rstest]
#[case("markdown", "| BR-24-03 |", "[podgc/orphaned-quarantine-40s](fixtures/podgc/orphaned-quarantine-40s.yaml)")]
#[case("html", "<td>BR-24-03</td>", "<a href=\"snapshots/podgc/orphaned-quarantine-40s.snap\">snap</a>")]
#[case("table", "BR-24-03", "podgc/orphaned-quarantine-40s")]
fn a_rule_is_listed_with_its_fixtures(#[case] format: &str, #[case] id: &str, #[case] fixture: &str) {
    let output = catalogue(&fixtures(), &["--format", format]);
    let line = text(&output.stdout).lines().find(|line| line.contains(id)).expect("a line for the rule");
    for part in [fixture, "at the boundary: podgc/", "beyond: podgc/"] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn the_document_has_a_row_for_each_rule() {
    let output = catalogue(&fixtures(), &["--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let map: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = map["rows"].as_array().expect("rows").iter();
    assert_eq!(rows.filter(|row| row["id"].as_str().is_some_and(|id| id.starts_with("BR-"))).count(), 25);
}

#[test]
fn a_gap_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixtures = folder.path().join("fixtures");
    fs::create_dir_all(fixtures.join("api")).expect("a folder");
    let fixture = "promise: A pod is there.\nrule: [D-001]\nlevel: core\nfeature: api.objects\n\
                   given: { nodes: [n1], pods: [a on n1] }\nsteps: [{ at: 1s, expect: { exists: pods/a } }]\n";
    let list = "sections:\n- title: One\n  source: somewhere\n  rules: { D-001: a }\n";
    for (name, text) in [("api/a.yaml", fixture), ("catalogue.yaml", list), ("NOT-COVERED.md", "")] {
        fs::write(fixtures.join(name), text).expect("a file");
    }
    let output = catalogue(&fixtures, &[]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("api/a has no snapshot"), "{}", text(&output.stderr));
}
