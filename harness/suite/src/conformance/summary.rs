//! A published report in words: `SUMMARY.md`. PURE.
//!
//! Texts of implementations and transcripts come from strangers: they are shown as code, which nothing in them ends.

use std::fmt::Write as _;

use super::causes::{FailureCause, OUTCOMES};
use super::report::{ConformanceOutcome, ConformanceReport, Mode, OutcomeCounts};

/// Most rows of a table of causes.
const MAX_CAUSES: usize = 40;
/// Most letters of a cause in the table.
const MAX_LETTERS: usize = 140;

/// Returns the summary of a report with these causes of its failures.
#[must_use]
pub fn text(report: &ConformanceReport, causes: &[FailureCause]) -> String {
    let implementation = &report.implementation;
    let suite = &report.suite;
    let mut out = format!("# {} {}\n\n", implementation.project, code(&implementation.version));
    let time = match report.mode {
        Mode::Virtual => "virtual time",
        Mode::Wall => "real time",
    };
    let commit = suite.commit.as_deref().map_or_else(String::new, |commit| format!(" at {}", code(commit)));
    let facts = [
        ("by", format!("{}, {}", code(&implementation.organization), code(&implementation.url))),
        ("on", format!("Kubernetes {}, {}, {time}", code(&report.kubernetes_version), code(&report.cluster.name))),
        (
            "run",
            format!("{}, {} fixtures of profile {}", code(&report.time), report.fixtures.len(), code(&report.profile)),
        ),
        ("suite", format!("{}{commit}", code(&suite.version))),
        ("report", code(&report.digest)),
    ];
    for (name, fact) in facts {
        let _ = writeln!(out, "- {name}: {fact}");
    }
    out.push('\n');
    profiles(report, &mut out);
    for outcome in OUTCOMES {
        let causes: Vec<&FailureCause> = causes.iter().filter(|cause| cause.outcome == outcome).collect();
        if !causes.is_empty() {
            table(outcome, &causes, &mut out);
        }
    }
    let _ = writeln!(
        out,
        "`plumbline verify report.yaml` checks this folder, and the archive of all evidence if it is next to it."
    );
    out
}

fn profiles(report: &ConformanceReport, out: &mut String) {
    let levels: Vec<&String> = report.profiles.iter().flat_map(|profile| profile.levels.keys()).collect();
    let mut columns: Vec<&String> = Vec::new();
    for level in levels {
        if !columns.contains(&level) {
            columns.push(level);
        }
    }
    columns.sort();
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = ["profile", "conformant"].map(str::to_owned).into_iter();
    out.push_str(&row(heads.chain(columns.iter().map(|level| code(level))).collect()));
    out.push_str(&row(vec!["---".to_owned(); columns.len() + 2]));
    for profile in &report.profiles {
        let verdict = if profile.conformant { "yes" } else { "no" };
        let tally = |level: &&String| profile.levels.get(*level).copied().map(OutcomeCounts::tally).unwrap_or_default();
        let first = [code(&profile.name), verdict.to_owned()].into_iter();
        out.push_str(&row(first.chain(columns.iter().map(tally)).collect()));
    }
    out.push('\n');
    let lines = report.profiles.iter().filter_map(|profile| Some((profile, profile.idle_line()?)));
    let lines: Vec<String> = lines.map(|(profile, line)| format!("- {}: {line}\n", code(&profile.name))).collect();
    if !lines.is_empty() {
        out.push_str(&lines.concat());
        out.push('\n');
    }
}

fn table(outcome: ConformanceOutcome, causes: &[&FailureCause], out: &mut String) {
    let title = match outcome {
        ConformanceOutcome::KnownDeviation => "Known deviations",
        ConformanceOutcome::Flaky => "Flaky fixtures",
        ConformanceOutcome::Inconclusive => "Inconclusive fixtures",
        _ => "Failures",
    };
    let fixtures: usize = causes.iter().map(|cause| cause.fixtures.len()).sum();
    let _ = writeln!(out, "## {title}\n\n{fixtures} fixtures, {} causes:\n", causes.len());
    out.push_str("| fixtures | cause | first fixture |\n| --- | --- | --- |\n");
    for cause in causes.iter().take(MAX_CAUSES) {
        let first = cause.fixtures.first().map(|id| code(id)).unwrap_or_default();
        let first = match &cause.file {
            Some(file) => format!("[{first}]({file})"),
            None => first,
        };
        let text: String = cause.cause.chars().take(MAX_LETTERS).collect();
        let text = if text.is_empty() { "no evidence".to_owned() } else { code(&text) };
        let _ = writeln!(out, "| {} | {text} | {first} |", cause.fixtures.len());
    }
    if let Some(more) = causes.len().checked_sub(MAX_CAUSES).filter(|more| *more > 0) {
        let _ = writeln!(out, "\n{more} more are in `causes.yaml`.");
    }
    out.push('\n');
}

/// Returns a text as code in a cell of a table.
fn code(text: &str) -> String {
    let safe = |letter: char| match letter {
        '`' => '\'',
        '|' => '¦',
        letter if letter.is_control() => ' ',
        letter => letter,
    };
    let text: String = text.chars().map(safe).collect();
    if text.trim().is_empty() { String::new() } else { format!("`{}`", text.trim()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::report::tests::{report, result};

    #[test]
    fn a_summary_has_verdicts_and_causes() {
        let fixtures = [("podgc/a", ConformanceOutcome::Pass), ("podgc/b", ConformanceOutcome::Fail)];
        let mut sealed = report("podgc", fixtures.map(|(id, outcome)| result(id, "core", outcome)).into());
        "`v1`|<b>".clone_into(&mut sealed.implementation.version);
        let cause = FailureCause {
            cause: "writes `x` | y".to_owned(),
            outcome: ConformanceOutcome::Fail,
            fixtures: vec!["podgc/b".to_owned()],
            promise: String::new(),
            failures: String::new(),
            file: Some("transcripts/01-podgc-b.txt".to_owned()),
            transcript: None,
        };
        let text = text(&sealed, &[cause]);
        assert!(text.starts_with("# collector `'v1'¦<b>`\n"), "{text}");
        assert!(text.contains("| `podgc` | no | 1 passed, 1 failed |"), "{text}");
        let row = "| 1 | `writes 'x' ¦ y` | [`podgc/b`](transcripts/01-podgc-b.txt) |\n";
        assert!(text.contains("## Failures\n\n1 fixtures, 1 causes:\n") && text.contains(row), "{text}");
    }
}
