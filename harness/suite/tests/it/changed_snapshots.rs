//! The summary of changed snapshots in pull requests: `plumbline review`, run in a repository of its own.

use std::fs;
use std::path::{Path, PathBuf};

use rstest::rstest;

use crate::git_repository::GitRepository;
use crate::source_files;

const TRANSCRIPT: &str = "snapshots/ttl/a.snap";
const REPORT: &str = "harness/loadtest/src/scale/report/snapshots/table.snap";

/// Returns a repository with a commit of two snapshots, and one more commit that changes both.
fn repository() -> GitRepository {
    let repository = GitRepository::new();
    repository.write(TRANSCRIPT, "first line\nold transcript\n");
    repository.write(REPORT, "old report\n");
    repository.commit("before");
    repository.git(&["tag", "before"]);
    repository.write(TRANSCRIPT, "first line\nnew transcript\n");
    repository.write(REPORT, "new report\n");
    repository.write("README.md", "no snapshot\n");
    repository.commit("after");
    repository
}

/// Returns the summary with this base and this outcome of the comparison.
fn summary(repository: &GitRepository, base: &str, compared: &str) -> String {
    let range = format!("{base}..HEAD");
    let pending = format!("--pending={compared}");
    let output = repository.review(&[&range, &pending, "--format", "markdown"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn every_snapshot_that_a_branch_changes_is_shown() {
    let summary = summary(&repository(), "before", "success");
    assert!(summary.starts_with("### Snapshots\n\n2 snapshots changed, in 2 groups.\n"), "{summary}");
    for line in ["-old transcript\n+new transcript\n", "-old report\n+new report\n"] {
        assert!(summary.contains(line), "{line:?} is missing: {summary}");
    }
    assert!(!summary.contains("README"), "{summary}");
    assert!(summary.contains("The run saw what the snapshots say."), "{summary}");
}

#[test]
fn what_a_run_saw_differently_is_shown_wherever_the_snapshot_is() {
    let repository = repository();
    repository.write("snapshots/ttl/a.snap.new", "first line\nthird transcript\n");
    repository.write("harness/loadtest/src/scale/report/snapshots/table.snap.new", "third report\n");
    repository.write("snapshots/ttl/unknown.snap.new", "a new fixture\n");
    repository.write("target/debug/other.snap.new", "not the repository's\n");
    let summary = summary(&repository, "before", "failure");
    assert!(summary.contains("The run saw something else in 3 of them."), "{summary}");
    for part in [
        "<summary>changed: ttl/a</summary>",
        "-new transcript\n+third transcript\n",
        "<summary>changed: harness/loadtest/src/scale/report/snapshots/table.snap</summary>",
        "-new report\n+third report\n",
        "<summary>new: ttl/unknown</summary>",
        "+a new fixture\n",
    ] {
        assert!(summary.contains(part), "{part:?} is missing: {summary}");
    }
}

#[rstest]
#[case::equal("success", "The run saw what the snapshots say.")]
#[case::failed("failure", "The comparison failed without a new snapshot")]
#[case::skipped("skipped", "Nothing was compared: the comparison did not run (skipped).")]
fn a_run_without_new_snapshots_is_good_only_if_it_ended_well(#[case] compared: &str, #[case] text: &str) {
    let summary = summary(&repository(), "HEAD", compared);
    assert!(summary.contains("No snapshot changed."), "{summary}");
    assert!(summary.contains(text), "{summary}");
}

#[test]
fn a_long_difference_is_cut_off() {
    let repository = repository();
    repository.write("snapshots/ttl/a.snap.new", "ä".repeat(100_000));
    let summary = summary(&repository, "before", "failure");
    assert!(summary.contains("ä … (cut off)\n"), "the reader learns of it");
    assert!(summary.len() < 70_000, "{} bytes", summary.len());
}

/// The workflow runs the tests of every folder that has snapshots, and keeps what they saw.
#[test]
fn the_workflow_compares_every_folder_of_snapshots() {
    let root = source_files::repository();
    let workflow = fs::read_to_string(root.join(".github/workflows/conformance.yaml")).expect("the workflow");
    let mut folders = Vec::new();
    for top in ["snapshots", "harness", "controllers"] {
        folders_of_snapshots(&root.join(top), &mut folders);
    }
    assert!(folders.len() > 6, "{folders:?}");
    for folder in folders {
        let folder = folder.strip_prefix(&root).expect("a folder of the repository");
        let command = if folder.starts_with("snapshots") {
            "--test snapshots".to_owned()
        } else {
            let path = folder.display().to_string();
            let parts =
                path.strip_prefix("harness/").and_then(|path| path.strip_suffix("/snapshots")?.split_once("/src/"));
            let (package, module) = parts.expect("a module of a package");
            format!("-p plumbline-{package} --lib {}", module.replace('/', "::"))
        };
        let kept = format!("{}/**/*.snap.new", folder.iter().next().expect("a folder").display());
        for part in [command, kept] {
            assert!(workflow.contains(&part), "{}: no {part:?} in the workflow", folder.display());
        }
    }
}

fn folders_of_snapshots(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    if entries.iter().any(|path| path.extension().is_some_and(|extension| extension == "snap")) {
        found.push(folder.to_owned());
    }
    for path in entries.iter().filter(|path| path.is_dir()) {
        folders_of_snapshots(path, found);
    }
}
