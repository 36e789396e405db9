//! What an implementation is known not to do, each with a reason: `fixtures/deviations/<project>.yaml`.
//!
//! A known deviation is told apart from a failure; it is no excuse: a core fixture that deviates keeps its profile from being
//! conformant. An entry that nothing needs is an error, so that the file never says more than is true.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::report::{FixtureResult, Outcome};
use crate::fixture::decode::Cursor;
use crate::fixture::error::Fail;
use crate::fixture::pattern::glob;
use crate::fixture::schema::{Record, may, must};
use crate::fixture::strict::{self, words};
use crate::fixture::{Fixture, Problems};

/// One entry.
const RECORD: Record = Record {
    name: "deviation",
    doc: "Something that is known to be different.",
    fields: &[
        must("fixtures", "glob", "The ids of the fixtures that fail."),
        must("reason", "text", "Why they do."),
        may("upstream", "e.g. `kubernetes/kubernetes#82149`", "The issue where that is discussed."),
        may("sometimes", "`true`", "It depends on who is first: in a lucky run all of the fixtures pass."),
    ],
};

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deviation {
    /// Glob over ids.
    pub fixtures: String,
    /// Why those fixtures fail.
    pub reason: String,
    /// The issue where that is discussed; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub upstream: String,
    /// Whether all of the fixtures may pass all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sometimes: bool,
}

impl Deviation {
    /// Whether it speaks of the fixture.
    #[must_use]
    pub fn covers(&self, id: &str) -> bool {
        glob(&self.fixtures, id)
    }

    /// What a report says about a fixture that deviates.
    #[must_use]
    pub fn text(&self) -> String {
        if self.upstream.is_empty() { self.reason.clone() } else { format!("{} ({})", self.reason, self.upstream) }
    }
}

/// Reads a file of deviations from the suite `fixtures`.
///
/// # Errors
///
/// Every problem with its line; a glob that matches no fixture is one.
pub fn load(file: &Path, fixtures: &[Fixture]) -> Result<Vec<Deviation>, Problems> {
    strict::load(file, |cursor| read(cursor, fixtures))
}

/// As [`load`], of a text that was read.
///
/// # Errors
///
/// As [`load`].
pub fn parse(file: &Path, text: &str, fixtures: &[Fixture]) -> Result<Vec<Deviation>, Problems> {
    strict::parse(file, text, |cursor| read(cursor, fixtures))
}

fn read(cursor: &Cursor<'_>, fixtures: &[Fixture]) -> Option<Vec<Deviation>> {
    let mut deviations: Vec<Deviation> = Vec::new();
    for entry in cursor.list() {
        let Some(fields) = entry.record(&RECORD) else { continue };
        let (pattern, reason) = (words(&fields, "fixtures"), words(&fields, "reason"));
        let upstream = if fields.has("upstream") { words(&fields, "upstream") } else { Some(String::new()) };
        let (Some(pattern), Some(reason), Some(upstream)) = (pattern, reason, upstream) else { continue };
        let place = fields.get("fixtures")?;
        if !fixtures.iter().any(|fixture| glob(&pattern, &fixture.id)) {
            place.fail(Fail::new(format!("`{pattern}` matches no fixture")).hint("take the entry out"));
        }
        if deviations.iter().any(|other| other.fixtures == pattern) {
            place.fail(Fail::new(format!("`{pattern}` stands here twice")));
        }
        let sometimes = fields.get("sometimes").is_some_and(|cursor| cursor.flag().unwrap_or_default());
        deviations.push(Deviation { fixtures: pattern, reason, upstream, sometimes });
    }
    Some(deviations)
}

/// Makes a failure that is known a known deviation.
pub fn apply(deviations: &[Deviation], result: &mut FixtureResult) {
    if result.outcome != Outcome::Fail {
        return;
    }
    if let Some(deviation) = deviations.iter().find(|deviation| deviation.covers(&result.id)) {
        result.outcome = Outcome::KnownDeviation;
        result.reason = deviation.text();
    }
}

/// The entries that nothing needs, but for those that luck decides: all of their fixtures ran, and passed. As long as one waits
/// for its turn, or cannot be seen in this place, nobody knows.
#[must_use]
pub fn unneeded<'a>(deviations: &'a [Deviation], results: &[FixtureResult]) -> Vec<&'a Deviation> {
    let unneeded = |deviation: &&Deviation| {
        let covered = || results.iter().filter(|result| deviation.covers(&result.id)).map(|result| result.outcome);
        let passed = |outcome| matches!(outcome, Outcome::Pass | Outcome::Flaky);
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
        "d.yaml:1:13: [0].fixtures: `podgc/orfan-*` matches no fixture\n  hint: take the entry out"
    )]
    #[case("ttl/b[*]", "podgc/orphan-*", "[1].fixtures: `podgc/orphan-*` stands here twice")]
    #[case("reason: Known.", "resaon: Known.", "did you mean `reason`?")]
    #[case("Known.", "''", "[1].reason: expected a text that is not empty")]
    #[case("- fixtures: podgc/orphan-*\n  ", "- ", "`fixtures` is missing")]
    fn what_is_wrong_is_named(#[case] from: &str, #[case] to: &str, #[case] message: &str) {
        assert!(GOOD.contains(from));
        let problems = parse(Path::new("d.yaml"), &GOOD.replacen(from, to, 1), &suite()).expect_err("a bad file");
        assert!(problems.to_string().contains(message), "{problems}");
    }

    #[rstest]
    #[case::failure(Outcome::Fail, Outcome::KnownDeviation)]
    #[case::pass(Outcome::Pass, Outcome::Pass)]
    #[case::flaky(Outcome::Flaky, Outcome::Flaky)]
    #[case::skip(Outcome::Skip, Outcome::Skip)]
    #[case::not_run(Outcome::NotRun, Outcome::NotRun)]
    fn only_failures_are_excused(#[case] before: Outcome, #[case] after: Outcome) {
        let deviations = parse(Path::new("d.yaml"), GOOD, &suite()).expect("a good file");
        let mut one = result("podgc/orphan-a", "core", before);
        apply(&deviations, &mut one);
        assert_eq!(one.outcome, after);
        let mut other = result("podgc/b", "core", before);
        apply(&deviations, &mut other);
        assert_eq!(other.outcome, before, "nobody speaks of it");
    }

    #[rstest]
    #[case::still_fails(&[("a/1", Outcome::KnownDeviation), ("a/2", Outcome::Pass)], false)]
    #[case::all_pass(&[("a/1", Outcome::Pass), ("a/2", Outcome::Flaky)], true)]
    #[case::one_could_not_be_seen(&[("a/1", Outcome::Pass), ("a/2", Outcome::Skip)], false)]
    #[case::one_is_not_claimed(&[("a/1", Outcome::Pass), ("a/2", Outcome::Unsupported)], false)]
    #[case::one_waits(&[("a/1", Outcome::Pass), ("a/2", Outcome::NotRun)], false)]
    #[case::none_could_be_seen(&[("a/1", Outcome::NotRun), ("a/2", Outcome::Unsupported)], false)]
    #[case::another_profile(&[("b/1", Outcome::Pass)], false)]
    fn an_entry_must_be_needed(#[case] outcomes: &[(&str, Outcome)], #[case] unneeded: bool) {
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
