//! Compares a failed run with its accepted snapshot. PURE.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::conformance::compare::{DiffRow, aligned};
use crate::fixture::Fixture;

/// Returns the path of the snapshot of a fixture's file: `snapshots/podgc/a.snap` for `fixtures/podgc/a.yaml`.
pub(super) fn path(fixture: &Fixture) -> Option<PathBuf> {
    let suite = fixture.file.parent()?;
    let root = suite.parent()?.parent().unwrap_or(Path::new("."));
    Some(crate::snapshot::file(&root.join("snapshots"), fixture.stem()))
}

/// Returns the snapshot's lines and those of the run's `transcript` side by side; empty if they are equal or the
/// snapshot has no such row.
pub(super) fn rows(snapshot: &str, row: Option<&str>, transcript: &str) -> Vec<DiffRow> {
    section(snapshot, row).map(|accepted| aligned(accepted, transcript, Duration::ZERO)).unwrap_or_default()
}

/// Returns the transcript in a snapshot file: below the header, and of a fixture with rows below the row's heading.
fn section<'a>(snapshot: &'a str, row: Option<&str>) -> Option<&'a str> {
    let content = snapshot.strip_prefix("---\n")?.split_once("\n---\n")?.1;
    let Some(row) = row else { return Some(content) };
    let heading = format!("## {row}\n");
    let begin = match content.strip_prefix(&heading) {
        Some(rest) => rest,
        None => content.split_once(&format!("\n{heading}"))?.1,
    };
    Some(begin.split_once("\n\n## ").map_or(begin, |(section, _)| section))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_of_a_row_is_compared() {
        let snapshot = "---\nsource: x\n---\n## up\nt=+0s one\nt=+1s two\n\n## down\nt=+0s three\n";
        assert_eq!(section(snapshot, Some("up")), Some("t=+0s one\nt=+1s two"));
        assert_eq!(section(snapshot, Some("down")), Some("t=+0s three\n"));
        assert_eq!(section(snapshot, Some("left")), None);
        let differences = rows(snapshot, Some("up"), "t=+0s one\nt=+1s zwei\n");
        assert_eq!(differences.iter().map(|row| row.same).collect::<Vec<_>>(), [true, false]);
        assert_eq!(rows("---\n---\n\n---\nt=+0s one", None, "t=+0s one"), []);
    }
}
