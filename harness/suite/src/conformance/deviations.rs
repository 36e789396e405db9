//! Known deviations of an implementation, each with a reason: `fixtures/deviations/<project>.yaml`.
//!
//! A known deviation is reported separately from a failure, but is no excuse: a core fixture that deviates prevents
//! conformance. An entry whose fixtures all pass is an error, so that the file stays accurate.

use std::path::Path;

use plumbline::fixture::decode::Cursor;
use plumbline::fixture::error::Fail;
use plumbline::fixture::pattern::glob;
use plumbline::fixture::schema::{Record, may, must};
use plumbline::fixture::{Fixture, Problems};
use serde::{Deserialize, Serialize};

use super::report::{ConformanceOutcome, FixtureResult};
use crate::strict::{self, words};

/// Schema of an entry.
const RECORD: Record = Record {
    name: "deviation",
    doc: "A known difference.",
    fields: &[
        must("fixtures", "glob", "Ids of the failing fixtures."),
        must("reason", "text", "Reason for the failures."),
        may("upstream", "e.g. `kubernetes/kubernetes#82149`", "Issue that discusses it."),
        may("sometimes", "`true`", "The result depends on a race: all of the fixtures may pass."),
    ],
};

/// A known deviation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deviation {
    /// Glob over fixture ids.
    pub fixtures: String,
    /// The reason for the failures.
    pub reason: String,
    /// The issue that discusses it; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub upstream: String,
    /// True if all of the fixtures may also pass.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sometimes: bool,
}

impl Deviation {
    /// Returns true if it applies to the fixture.
    #[must_use]
    pub fn covers(&self, id: &str) -> bool {
        glob(&self.fixtures, id)
    }

    /// Returns the reason in reports.
    #[must_use]
    pub fn text(&self) -> String {
        if self.upstream.is_empty() { self.reason.clone() } else { format!("{} ({})", self.reason, self.upstream) }
    }
}

/// Reads a deviations file for the suite `fixtures`.
///
/// # Errors
///
/// Returns every problem with its line, including globs that match no fixture.
pub fn load(file: &Path, fixtures: &[Fixture]) -> Result<Vec<Deviation>, Problems> {
    strict::load(file, |cursor| read(cursor, fixtures))
}

/// Parses a text; otherwise like [`load`].
///
/// # Errors
///
/// The same as for [`load`].
pub fn parse(file: &Path, text: &str, fixtures: &[Fixture]) -> Result<Vec<Deviation>, Problems> {
    strict::parse(file, text, |cursor| read(cursor, fixtures))
}

fn read(cursor: &Cursor<'_>, fixtures: &[Fixture]) -> Option<Vec<Deviation>> {
    let mut deviations: Vec<Deviation> = Vec::new();
    for entry in cursor.list() {
        let Some(fields) = entry.record(&RECORD) else { continue };
        let pattern = words(&fields, "fixtures");
        let reason = words(&fields, "reason");
        let upstream = if fields.has("upstream") { words(&fields, "upstream") } else { Some(String::new()) };
        let (Some(pattern), Some(reason), Some(upstream)) = (pattern, reason, upstream) else { continue };
        let place = fields.get("fixtures")?;
        if !fixtures.iter().any(|fixture| glob(&pattern, &fixture.id)) {
            place.fail(Fail::new(format!("`{pattern}` matches no fixture")).hint("remove the entry"));
        }
        if deviations.iter().any(|other| other.fixtures == pattern) {
            place.fail(Fail::new(format!("`{pattern}` is listed twice")));
        }
        let sometimes = fields.get("sometimes").is_some_and(|cursor| cursor.flag().unwrap_or_default());
        deviations.push(Deviation { fixtures: pattern, reason, upstream, sometimes });
    }
    Some(deviations)
}

/// Turns a known failure into a known deviation.
pub fn apply(deviations: &[Deviation], result: &mut FixtureResult) {
    if result.outcome != ConformanceOutcome::Fail {
        return;
    }
    if let Some(deviation) = deviations.iter().find(|deviation| deviation.covers(&result.id)) {
        result.outcome = ConformanceOutcome::KnownDeviation;
        result.reason = deviation.text();
    }
}

/// Returns the entries that are not needed: all of their fixtures ran and passed. Entries marked `sometimes` and
/// entries with fixtures that have not run or were skipped are not included.
#[must_use]
pub fn unneeded<'a>(deviations: &'a [Deviation], results: &[FixtureResult]) -> Vec<&'a Deviation> {
    let unneeded = |deviation: &&Deviation| {
        let covered = || results.iter().filter(|result| deviation.covers(&result.id)).map(|result| result.outcome);
        let passed = |outcome| matches!(outcome, ConformanceOutcome::Pass | ConformanceOutcome::Flaky);
        !deviation.sometimes && covered().next().is_some() && covered().all(passed)
    };
    deviations.iter().filter(unneeded).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::conformance::report::tests::{fixture, result};

    const GOOD: &str = "\
- fixtures: podgc/orphan-*
  reason: The collector asks the cache only.
  upstream: example/project#12
- { fixtures: 'ttl/b[*]', reason: Known. }
";

    fn suite() -> Vec<Fixture> {
        ["podgc/orphan-a", "podgc/b", "ttl/b[x]"].map(|id| fixture(id, "core")).into()
    }

    #[test]
    fn a_good_file_is_read() {
        let read = parse(Path::new("d.yaml"), GOOD, &suite()).expect("a good file");
        assert_eq!(read.len(), 2);
        assert!(read[0].covers("podgc/orphan-a") && !read[0].covers("podgc/b") && read[1].covers("ttl/b[x]"));
        assert_eq!(read[0].text(), "The collector asks the cache only. (example/project#12)");
        assert_eq!(read[1].text(), "Known.");
    }

    #[rstest]
    #[case(
        "podgc/orphan-*",
        "podgc/orfan-*",
        "d.yaml:1:13: [0].fixtures: `podgc/orfan-*` matches no fixture\n  hint: remove the entry"
    )]
    #[case("ttl/b[*]", "podgc/orphan-*", "[1].fixtures: `podgc/orphan-*` is listed twice")]
    #[case("reason: Known.", "resaon: Known.", "did you mean `reason`?")]
    #[case("Known.", "''", "[1].reason: expected a text that is not empty")]
    #[case("- fixtures: podgc/orphan-*\n  ", "- ", "`fixtures` is missing")]
    fn what_is_wrong_is_named(#[case] from: &str, #[case] to: &str, #[case] message: &str) {
        assert!(GOOD.contains(from));
        let problems = parse(Path::new("d.yaml"), &GOOD.replacen(from, to, 1), &suite()).expect_err("a bad file");
        assert!(problems.to_string().contains(message), "{problems}");
    }

    #[rstest]
    #[case::failure(ConformanceOutcome::Fail, ConformanceOutcome::KnownDeviation)]
    #[case::pass(ConformanceOutcome::Pass, ConformanceOutcome::Pass)]
    #[case::flaky(ConformanceOutcome::Flaky, ConformanceOutcome::Flaky)]
    #[case::skip(ConformanceOutcome::Skip, ConformanceOutcome::Skip)]
    #[case::not_run(ConformanceOutcome::NotRun, ConformanceOutcome::NotRun)]
    fn only_failures_are_excused(#[case] before: ConformanceOutcome, #[case] after: ConformanceOutcome) {
        let deviations = parse(Path::new("d.yaml"), GOOD, &suite()).expect("a good file");
        let mut one = result("podgc/orphan-a", "core", before);
        apply(&deviations, &mut one);
        assert_eq!(one.outcome, after);
        let mut other = result("podgc/b", "core", before);
        apply(&deviations, &mut other);
        assert_eq!(other.outcome, before, "no entry covers it");
    }

    #[rstest]
    #[case::still_fails(&[("a/1", ConformanceOutcome::KnownDeviation), ("a/2", ConformanceOutcome::Pass)], false)]
    #[case::all_pass(&[("a/1", ConformanceOutcome::Pass), ("a/2", ConformanceOutcome::Flaky)], true)]
    #[case::one_could_not_be_seen(&[("a/1", ConformanceOutcome::Pass), ("a/2", ConformanceOutcome::Skip)], false)]
    #[case::one_is_not_claimed(&[("a/1", ConformanceOutcome::Pass), ("a/2", ConformanceOutcome::Unsupported)], false)]
    #[case::one_waits(&[("a/1", ConformanceOutcome::Pass), ("a/2", ConformanceOutcome::NotRun)], false)]
    #[case::none_could_be_seen(&[("a/1", ConformanceOutcome::NotRun), ("a/2", ConformanceOutcome::Unsupported)], false)]
    #[case::another_profile(&[("b/1", ConformanceOutcome::Pass)], false)]
    fn an_entry_must_be_needed(#[case] outcomes: &[(&str, ConformanceOutcome)], #[case] unneeded: bool) {
        let always = Deviation {
            fixtures: "a/*".to_owned(),
            reason: "Known.".to_owned(),
            upstream: String::new(),
            sometimes: false,
        };
        let results: Vec<_> = outcomes.iter().map(|(id, outcome)| result(id, "hardened", *outcome)).collect();
        let sometimes = Deviation { sometimes: true, ..always.clone() };
        assert_eq!(!super::unneeded(&[always], &results).is_empty(), unneeded);
        assert_eq!(super::unneeded(&[sometimes], &results), [] as [&Deviation; 0]);
    }
}
