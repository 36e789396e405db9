//! Published reports hold, the site can be made of them, and a program in Python gets from its first run to the site.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use plumbline_suite::conformance::report::ConformanceReport;
use plumbline_suite::site;

use crate::source_files::repository;
use crate::support;

/// Fixtures of a few seconds of wall time for the example in Python.
const QUICK: [&str; 4] =
    ["equal-value-is-not-written", "grow-100-to-101", "grow-over-a-boundary", "patch-touches-one-annotation"];

fn harness() -> PathBuf {
    repository().join("harness")
}

/// Returns an empty folder for a test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reports").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a writable folder");
    folder
}

/// Runs plumbline in `folder`; returns exit code, standard output and standard error.
fn plumbline(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = support::program();
    command.current_dir(folder).env_remove("PLUMBLINE_FIXTURES").args(arguments);
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn published() -> Vec<PathBuf> {
    site::find(&[harness().join("reports")]).expect("published reports")
}

fn read(path: &Path) -> ConformanceReport {
    let text = fs::read_to_string(path).expect("a readable report");
    ConformanceReport::read(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn published_reports_hold() {
    for path in published() {
        let report = read(&path);
        let home = harness().join("reports").join(&report.kubernetes_version).join(&report.implementation.project);
        assert_eq!(path, home.join("report.yaml"));
        assert!(report.is_finished() && !report.suite.modified, "{}", path.display());
    }
    let paths: Vec<String> = published().iter().map(|path| path.display().to_string()).collect();
    let arguments: Vec<&str> = ["verify"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let (code, out, err) = plumbline(&repository(), &arguments);
    // An export or a shallow clone has no former fixtures to compare with; the site checks the rest.
    if err.contains("is not in the history of") || err.contains("git rev-parse:") || err.contains("run git:") {
        return crate::skips::skip("reports", &format!("{} is of a suite that this clone lacks", paths[0]));
    }
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.matches(" is consistent: ").count(), paths.len(), "{out}");
}

/// The evidence is in archives, which the repository does not have.
#[test]
fn published_reports_are_small() {
    let mut files = 0;
    let mut bytes = 0;
    let mut folders = vec![harness().join("reports")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a readable folder").map(|entry| entry.expect("an entry")) {
            let metadata = entry.metadata().expect("metadata");
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if !entry.file_name().to_string_lossy().ends_with(".evidence.zip") {
                (files, bytes) = (files + 1, bytes + metadata.len());
            }
        }
    }
    let reports = published().len();
    assert!(
        files <= 15 * reports && bytes <= 400_000 * reports as u64,
        "{files} files, {bytes} bytes, {reports} reports"
    );
}

#[test]
fn the_site_of_the_published_reports_can_be_made() {
    let out = scratch("site");
    let reports = harness().join("reports").display().to_string();
    let (code, stdout, err) = plumbline(&out, &["site", &reports, "--out", "made"]);
    assert_eq!(code, 0, "{err}");
    assert!(stdout.starts_with("made/index.html: "), "{stdout}");
    let page = fs::read_to_string(out.join("made/index.html")).expect("a page");
    let projects: BTreeSet<String> = published().iter().map(|path| read(path).implementation.project).collect();
    assert!(projects.len() >= 2, "{projects:?}");
    for project in projects {
        assert!(page.contains(&format!(">{project}<")), "{project} is not on the page");
        assert!(out.join("made/badges").join(&project).is_dir(), "{project} has no badge");
    }
    let (code, _, err) = plumbline(&out, &["site", "made", "--out", "again"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("no report found in made"), "{err}");
}

/// The whole way of another implementation: conform, verify, publish, site.
#[test]
fn the_example_in_python_is_conformant() {
    let python = std::env::var("PLUMBLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if Command::new(&python).arg("--version").output().is_err() {
        crate::skips::skip("reports", &format!("{python} cannot be run"));
        return;
    }
    let root = scratch("python");
    fs::create_dir_all(root.join("fixtures/ttl")).expect("a writable folder");
    for name in QUICK {
        let file = format!("fixtures/ttl/{name}.yaml");
        fs::copy(harness().with_file_name(&file), root.join(&file)).expect("a fixture");
    }
    let profiles = "profiles:\n- { name: ttl, about: The annotation., fixtures: [ttl/*] }\n";
    fs::write(root.join("fixtures/profiles.yaml"), profiles).expect("a writable folder");
    let example = |name: &str| harness().join("examples").join(name).display().to_string();
    let description = example("ttl_controller.yaml");
    let script = example("ttl_controller.py");
    let command = format!("{python} {script} {{server}} {{token-file}} {{ca-file}} {{flags}}");
    let words = ["conform", "--profile", "ttl", "--implementation", &description, "--command", &command, "-j", "2"];
    let (code, out, err) = plumbline(&root, &words);
    assert_eq!(code, 0, "{out}{err}");
    let report = read(&root.join("conformance/report.yaml"));
    assert!(report.profiles[0].conformant && report.profiles[0].levels["core"].pass >= QUICK.len(), "{out}");
    assert!(report.subject.files.contains_key(&script), "{:?}", report.subject.files);

    let (code, out, err) = plumbline(&root, &["publish", "conformance/report.yaml", "--to", "reports"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, "reports/v1.36.0/ttl-in-python/report.yaml\n");
    let archive = root.join("reports/v1.36.0/ttl-in-python.evidence.zip");
    for (is_there, word) in [(true, "all evidence is that of this report: "), (false, "evidence is not at hand: ")] {
        let (code, verified, err) = plumbline(&root, &["verify", out.trim()]);
        assert_eq!(code, 0, "{err}");
        assert!(verified.contains(word) && archive.is_file() == is_there, "{verified}");
        let _ = fs::remove_file(&archive);
    }
    let (code, _, err) = plumbline(&root, &["site", "reports"]);
    assert_eq!(code, 0, "{err}");
    let badge = fs::read_to_string(root.join("site/badges/ttl-in-python/ttl.json")).expect("a badge");
    assert!(badge.contains("\"message\": \"conformant, Kubernetes 1.36\""), "{badge}");

    fs::remove_file(root.join(format!("fixtures/ttl/{}.yaml", QUICK[0]))).expect("a file");
    let (code, _, err) = plumbline(&root, &["verify", "reports/v1.36.0/ttl-in-python/report.yaml"]);
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("suite.digest: says sha256:"), "another suite is refused: {err}");
}
