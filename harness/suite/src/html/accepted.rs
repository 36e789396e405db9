//! Compares a failed run with its accepted snapshot. PURE.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumbline::fixture::Fixture;

use super::model::{AlignedLines, LINES_BEFORE, MAX_LINES};
use crate::conformance::compare::aligned;

/// Returns the path of the snapshot of a fixture's file: `snapshots/podgc/a.snap` for `fixtures/podgc/a.yaml`.
pub(super) fn path(fixture: &Fixture) -> Option<PathBuf> {
    let suite = fixture.file.parent()?;
    let root = suite.parent()?.parent().unwrap_or(Path::new("."));
    Some(crate::snapshot::file(&root.join("snapshots"), fixture.stem()))
}

/// Returns the snapshot's lines and those of the run's `transcript` side by side; `None` if they are equal or the
/// snapshot has no such row. Of long texts only the part around the first difference is compared.
pub(super) fn lines(snapshot: &str, row: Option<&str>, transcript: &str) -> Option<AlignedLines> {
    let accepted = section(snapshot, row)?;
    let ran = transcript;
    let first = accepted.lines().zip(ran.lines()).take_while(|(a, b)| a == b).count();
    let total = accepted.lines().count().max(ran.lines().count());
    let before = if total > MAX_LINES { first.saturating_sub(LINES_BEFORE) } else { 0 };
    let part = |text: &str| text.lines().skip(before).take(MAX_LINES).collect::<Vec<_>>().join("\n");
    let rows = aligned(&part(accepted), &part(ran), Duration::ZERO);
    (!rows.is_empty()).then_some(AlignedLines { rows, before, total })
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
        let differences = lines(snapshot, Some("up"), "t=+0s one\nt=+1s zwei\n").expect("a difference");
        assert_eq!(differences.rows.iter().map(|row| row.same).collect::<Vec<_>>(), [true, false]);
        assert_eq!(lines("---\n---\n\n---\nt=+0s one", None, "t=+0s one"), None);
    }

    #[test]
    fn a_long_text_is_compared_around_the_first_difference() {
        let line = |n: usize, word: &str| format!("t=+{n}s {}\n", if n < 50_000 { "a" } else { word });
        let text = |word: &str| (0..100_000).map(|n| line(n, word)).collect::<String>();
        let snapshot = format!("---\nsource: x\n---\n{}", text("b"));
        let cut = lines(&snapshot, None, &text("c")).expect("a difference");
        assert_eq!((cut.before, cut.total), (50_000 - LINES_BEFORE, 100_000));
        assert_eq!(cut.rows.iter().position(|row| !row.same), Some(LINES_BEFORE));
        assert!(cut.rows.len() <= 2 * MAX_LINES);
    }
}
