//! Compares two subjects on the same fixtures. Pure, over two lists of results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::report::{FixtureReport, Outcome, explain_command};

/// Number of equal lines shown around a difference.
const CONTEXT: usize = 2;

/// The results of one fixture that are compared.
#[derive(Clone, Debug)]
pub struct ComparedRun {
    /// Its report.
    pub report: FixtureReport,
    /// Its transcript; in wall time, the one grouped by object ([`plumbline::transcript::by_object`]).
    pub transcript: String,
    /// Inherent inaccuracy of its times; zero in virtual time.
    pub leeway: Duration,
}

/// The differences of two subjects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// `plumbline/v1`.
    pub api_version: &'static str,
    /// `Comparison`.
    pub kind: &'static str,
    /// Name of the first subject.
    pub a: String,
    /// Name of the second subject.
    pub b: String,
    /// Number of fixtures that at least one of them ran.
    pub fixtures: usize,
    /// Fixtures with different results, sorted by id.
    pub differences: Vec<Difference>,
    /// Fixtures that only one of them ran, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_comparable: Vec<NotComparable>,
}

/// A fixture that only one of the subjects ran: the cluster lacks a capability, or the feature is not declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotComparable {
    /// The fixture.
    pub id: String,
    /// The subject that did not run it, and the reason.
    pub reason: String,
}

/// A fixture with different results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The fixture.
    pub id: String,
    /// Path of its file.
    #[serde(skip)]
    pub file: String,
    /// Its promise.
    pub promise: String,
    /// Result of the first subject.
    pub a: SubjectResult,
    /// Result of the second subject.
    pub b: SubjectResult,
    /// The transcripts side by side; empty if they are equal.
    pub rows: Vec<DiffRow>,
}

/// Result of a fixture with one of the subjects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectResult {
    /// `None` if the subject did not run the fixture at all.
    pub outcome: Option<Outcome>,
    /// Reason of a skip and the like.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Messages of the failed checks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// A line of each transcript, or of one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffRow {
    /// True if both lines are equal.
    pub same: bool,
    /// The first subject's line.
    pub a: Option<String>,
    /// The second subject's line.
    pub b: Option<String>,
}

/// Settings of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompareOptions {
    /// Compares outcomes only.
    pub outcomes_only: bool,
    /// Times that differ by no more than this are equal. In wall time no two runs agree to the millisecond.
    pub tolerance: Duration,
}

/// Compares the results `a` and `b`, in any order.
#[must_use]
pub fn compare(names: [&str; 2], a: &[ComparedRun], b: &[ComparedRun], options: CompareOptions) -> Comparison {
    let mut fixtures: BTreeMap<&str, [Option<&ComparedRun>; 2]> = BTreeMap::new();
    for (side, list) in [a, b].into_iter().enumerate() {
        for seen in list {
            fixtures.entry(&seen.report.id).or_default()[side] = Some(seen);
        }
    }
    let count = fixtures.len();
    let not_comparable: Vec<NotComparable> =
        fixtures.iter().filter_map(|(id, [a, b])| not_comparable(id, *a, *b)).collect();
    fixtures.retain(|id, _| !not_comparable.iter().any(|other| other.id == *id));
    let differences = fixtures.values().filter_map(|[a, b]| difference(*a, *b, options)).collect();
    let [a, b] = names.map(str::to_owned);
    let api_version = "plumbline/v1";
    let kind = "Comparison";
    Comparison { api_version, kind, a, b, fixtures: count, differences, not_comparable }
}

fn not_comparable(id: &str, a: Option<&ComparedRun>, b: Option<&ComparedRun>) -> Option<NotComparable> {
    let unseen = |report: &FixtureReport| {
        (!report.outcome.has_run() || report.outcome == Outcome::Inconclusive)
            .then(|| format!("{}: {}", report.outcome.participle(), report.reason))
    };
    let a = unseen(&a?.report);
    let b = unseen(&b?.report);
    let reason = match (a, b) {
        (Some(why), None) => format!("A {why}"),
        (None, Some(why)) => format!("B {why}"),
        _ => return None,
    };
    Some(NotComparable { id: id.to_owned(), reason })
}

fn difference(a: Option<&ComparedRun>, b: Option<&ComparedRun>, options: CompareOptions) -> Option<Difference> {
    let known = &a.or(b)?.report;
    let result = |seen: Option<&ComparedRun>| {
        let of_run = |ComparedRun { report, .. }: &ComparedRun| SubjectResult {
            outcome: Some(report.outcome),
            reason: report.reason.clone(),
            failures: report.failures.iter().map(|failure| failure.message.clone()).collect(),
        };
        seen.map(of_run).unwrap_or_default()
    };
    let result_a = result(a);
    let result_b = result(b);
    let text = |seen: Option<&ComparedRun>| seen.map(|seen| seen.transcript.clone()).unwrap_or_default();
    let leeway = [a, b].into_iter().flatten().map(|seen| seen.leeway).fold(options.tolerance, Duration::max);
    let rows = if options.outcomes_only { Vec::new() } else { aligned(&text(a), &text(b), leeway) };
    if result_a.outcome == result_b.outcome && rows.is_empty() {
        return None;
    }
    let id = known.id.clone();
    let file = known.file.clone();
    let promise = known.promise.clone();
    Some(Difference { id, file, promise, a: result_a, b: result_b, rows })
}

/// Returns the lines of two transcripts side by side; empty if they are equal. Times that differ by no more than
/// `tolerance` are equal.
#[must_use]
pub fn aligned(a: &str, b: &str, tolerance: Duration) -> Vec<DiffRow> {
    let (a, b): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    let lines = |lines: &[&str]| lines.iter().map(|line| ComparedLine::new(line, tolerance)).collect::<Vec<_>>();
    let read_a = lines(&a);
    let read_b = lines(&b);
    let keys = |lines: &[ComparedLine]| lines.iter().map(|line| line.key.clone()).collect::<Vec<_>>();
    let pair = |a: Option<&&str>, b: Option<&&str>, same| DiffRow {
        same,
        a: a.map(|line| (*line).to_owned()),
        b: b.map(|line| (*line).to_owned()),
    };
    let mut rows = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &keys(&read_a), &keys(&read_b)) {
        let range_a = op.old_range();
        let range_b = op.new_range();
        for offset in 0..range_a.len().max(range_b.len()) {
            let index = |range: &std::ops::Range<usize>| (offset < range.len()).then_some(range.start + offset);
            let index_a = index(&range_a);
            let index_b = index(&range_b);
            let same = matches!(op, DiffOp::Equal { .. })
                && matches!((index_a, index_b), (Some(x), Some(y)) if read_a[x].is_near(&read_b[y], tolerance));
            rows.push(pair(index_a.and_then(|x| a.get(x)), index_b.and_then(|y| b.get(y)), same));
        }
    }
    if rows.iter().all(|row| row.same) { Vec::new() } else { rows }
}

/// A line of a transcript, with its times separated if they need not agree exactly.
struct ComparedLine {
    key: String,
    /// In seconds. One at the beginning of the line is the time of the entry; the others are times in objects.
    times: Vec<f64>,
}

/// Additional tolerance for times in objects: Kubernetes truncates them to whole seconds.
const WHOLE_SECONDS: f64 = 1.0;

impl ComparedLine {
    fn new(line: &str, tolerance: Duration) -> Self {
        if tolerance.is_zero() {
            return Self { key: line.to_owned(), times: Vec::new() };
        }
        let mut key = String::new();
        let mut times = Vec::new();
        // The width of the first column depends on the length of the time.
        let spaced = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut rest = spaced.as_str();
        while let Some(found) = rest.find("t=") {
            let (before, after) = rest.split_at(found + "t=".len());
            let end = after.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).unwrap_or(after.len());
            key.push_str(before);
            match after[..end].parse::<f64>() {
                Ok(time) => times.push(time),
                Err(_) => key.push_str(&after[..end]),
            }
            rest = &after[end..];
        }
        key.push_str(rest);
        Self { key, times }
    }

    fn is_near(&self, other: &Self, tolerance: Duration) -> bool {
        let says_when = |index: usize| index == 0 && self.key.starts_with("t=");
        let leeway = |index: usize| tolerance.as_secs_f64() + if says_when(index) { 0.0 } else { WHOLE_SECONDS };
        let near = |(index, (a, b)): (usize, (&f64, &f64))| (a - b).abs() <= leeway(index);
        self.times.len() == other.times.len() && self.times.iter().zip(&other.times).enumerate().all(near)
    }
}

impl Comparison {
    /// Returns true if no fixture differs.
    #[must_use]
    pub const fn is_equal(&self) -> bool {
        self.differences.is_empty()
    }

    /// Formats the comparison for a terminal. `width` is the number of columns for a side-by-side view; with `None`
    /// lines are below each other, marked `-` and `+`. `explain_flags` are those with which `explain` runs each of the
    /// subjects; with `None` no command is suggested.
    #[must_use]
    pub fn text(&self, width: Option<usize>, explain_flags: [Option<&str>; 2]) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "A  {}\nB  {}\n", self.a, self.b);
        for difference in &self.differences {
            let _ = writeln!(out, "{}  {}", difference.id, difference.promise);
            let a = difference.a.words();
            let b = difference.b.words();
            if a == b {
                let _ = writeln!(out, "  both: {a}");
            } else {
                let _ = writeln!(out, "  A: {a}\n  B: {b}");
            }
            for line in show(&difference.rows, width) {
                let _ = writeln!(out, "  {}", line.trim_end());
            }
            for (name, result, flags) in
                [("A", &difference.a, explain_flags[0]), ("B", &difference.b, explain_flags[1])]
            {
                if let (Some(flags), true) = (flags, result.outcome.is_some_and(Outcome::has_run)) {
                    let _ = writeln!(out, "  more of {name}: {}", explain_command(&difference.id, flags));
                }
            }
            out.push('\n');
        }
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for one in &self.not_comparable {
            *reasons.entry(&one.reason).or_default() += 1;
        }
        for (reason, count) in reasons {
            let _ = writeln!(out, "{count} not compared: {reason}");
        }
        let differ = self.differences.len();
        let all = self.fixtures - self.not_comparable.len();
        let _ = if differ == 0 {
            writeln!(out, "no difference in {all} fixtures")
        } else {
            writeln!(out, "{differ} of {all} fixtures differ")
        };
        out
    }
}

impl SubjectResult {
    fn words(&self) -> String {
        let outcome = self.outcome.map_or("not run", Outcome::participle);
        let why: Vec<&str> = [self.reason.as_str()]
            .into_iter()
            .chain(self.failures.iter().map(String::as_str))
            .filter(|text| !text.is_empty())
            .collect();
        if why.is_empty() { outcome.to_owned() } else { format!("{outcome}: {}", why.join("; ").replace('\n', " ")) }
    }
}

/// Returns the rows around differences.
fn show(rows: &[DiffRow], width: Option<usize>) -> Vec<String> {
    let near = |index: usize| {
        let from = index.saturating_sub(CONTEXT);
        let to = (index + CONTEXT + 1).min(rows.len());
        rows[from..to].iter().any(|row| !row.same)
    };
    let mut lines = Vec::new();
    let mut left_out = 0;
    for (index, row) in rows.iter().enumerate() {
        if !near(index) {
            left_out += 1;
            continue;
        }
        if left_out > 0 {
            lines.push(format!("… {left_out} alike"));
            left_out = 0;
        }
        match width {
            Some(width) => lines.push(beside(row, width)),
            None => lines.extend(below(row)),
        }
    }
    if left_out > 0 {
        lines.push(format!("… {left_out} alike"));
    }
    lines
}

fn below(row: &DiffRow) -> Vec<String> {
    let line = |mark: &str, text: &Option<String>| text.as_ref().map(|text| format!("{mark} {text}"));
    if row.same {
        return line(" ", &row.a).into_iter().collect();
    }
    [line("-", &row.a), line("+", &row.b)].into_iter().flatten().collect()
}

fn beside(row: &DiffRow, width: usize) -> String {
    let column = width.saturating_sub(6) / 2;
    let cut = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        let mut short: String = text.chars().take(column).collect();
        if text.chars().count() > column {
            short.pop();
            short.push('…');
        }
        short
    };
    let mark = match (row.same, &row.a, &row.b) {
        (true, ..) => ' ',
        (false, Some(_), None) => '<',
        (false, None, _) => '>',
        (false, Some(_), Some(_)) => '|',
    };
    format!("{:<column$} {mark} {}", cut(&row.a), cut(&row.b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::conformance::report::tests::fixture;
    use crate::runner::verdict;

    fn seen(id: &str, outcome: Outcome, transcript: &str) -> ComparedRun {
        let report = verdict::blank(&fixture(id, "core"), outcome, "");
        ComparedRun { report, transcript: transcript.to_owned(), leeway: Duration::ZERO }
    }

    const WALL: CompareOptions = CompareOptions { outcomes_only: false, tolerance: Duration::from_millis(500) };
    const EXACT: CompareOptions = CompareOptions { outcomes_only: false, tolerance: Duration::ZERO };
    const OUTCOMES: CompareOptions = CompareOptions { outcomes_only: true, tolerance: Duration::ZERO };

    const ONE: &str = "t=+5s       user           DELETE nodes/n1 200\n        removed\nt=+60s      podgc          DELETE pods/a 200  grace=0\n";

    #[rstest]
    #[case::alike(ONE, EXACT, true)]
    #[case::later(&ONE.replace("t=+60s ", "t=+60.25s "), EXACT, false)]
    #[case::a_little_later(&ONE.replace("t=+60s      ", "t=+60.25s   "), WALL, true)]
    #[case::too_late(&ONE.replace("t=+60s ", "t=+61s "), WALL, false)]
    #[case::something_else(&ONE.replace("grace=0", "grace=30"), WALL, false)]
    #[case::less("t=+5s       user           DELETE nodes/n1 200\n        removed\n", WALL, false)]
    #[case::outcomes_only("", OUTCOMES, true)]
    fn transcripts_are_compared(#[case] other: &str, #[case] options: CompareOptions, #[case] equal: bool) {
        let a = [seen("podgc/x", Outcome::Pass, ONE)];
        let b = [seen("podgc/x", Outcome::Pass, other)];
        assert_eq!(compare(["a", "b"], &a, &b, options).is_equal(), equal);
        assert_eq!(compare(["b", "a"], &b, &a, options).is_equal(), equal, "the other way round");
    }

    #[test]
    fn outcomes_are_compared_and_what_one_did_not_see() {
        let a = [
            seen("podgc/x", Outcome::Pass, ""),
            seen("podgc/y", Outcome::Pass, ""),
            seen("podgc/z", Outcome::Skip, ""),
        ];
        let b = [seen("podgc/y", Outcome::Fail, ""), seen("podgc/z", Outcome::Skip, "")];
        let comparison = compare(["a", "b"], &a, &b, OUTCOMES);
        let described: Vec<_> =
            comparison.differences.iter().map(|one| (one.id.as_str(), one.a.outcome, one.b.outcome)).collect();
        assert_eq!(
            described,
            [("podgc/x", Some(Outcome::Pass), None), ("podgc/y", Some(Outcome::Pass), Some(Outcome::Fail))]
        );
        assert_eq!(comparison.fixtures, 3);
    }

    #[test]
    fn moments_before_the_start_are_moments_too() {
        let line = |moment: &str| format!("t=+5s  ttl  PATCH nodes/n1 200\n        +seen=t={moment}s\n");
        let equal = |a: &str, b: &str| {
            let a = [seen("x/x", Outcome::Pass, &line(a))];
            let b = [seen("x/x", Outcome::Pass, &line(b))];
            compare(["a", "b"], &a, &b, WALL).is_equal()
        };
        assert!(equal("-0.34", "-0.71") && equal("-0.34", "+0.2") && !equal("-0.34", "+2"));
    }

    #[test]
    fn what_one_side_was_not_shown_is_not_compared() {
        let mut far = seen("podgc/x", Outcome::Skip, "");
        "needs virtual-time".clone_into(&mut far.report.reason);
        let a = [seen("podgc/x", Outcome::Pass, ONE)];
        let b = [far];
        let comparison = compare(["a", "b"], &a, &b, WALL);
        assert!(comparison.is_equal());
        assert!(
            comparison
                .text(None, [None, None])
                .contains("1 not compared: B skipped: needs virtual-time\nno difference in 0 fixtures")
        );
    }

    fn shown(width: Option<usize>) -> String {
        let mut later = ONE.replace("t=+60s ", "t=+80s ");
        later.push_str("t=+90s      podgc          GET    nodes/n1 404\n");
        let a = [seen("podgc/x", Outcome::Pass, ONE)];
        let b = [seen("podgc/x", Outcome::Fail, &later)];
        compare(["ours", "theirs"], &a, &b, EXACT).text(width, [Some(""), Some("--command ./theirs")])
    }

    #[test]
    fn one_below_the_other() {
        insta::assert_snapshot!(shown(None), @r"
        A  ours
        B  theirs

        podgc/x  A pod of a missing node is deleted after its quarantine.
          A: passed
          B: failed
            t=+5s       user           DELETE nodes/n1 200
                    removed
          - t=+60s      podgc          DELETE pods/a 200  grace=0
          + t=+80s      podgc          DELETE pods/a 200  grace=0
          + t=+90s      podgc          GET    nodes/n1 404
          more of A: plumbline explain podgc/x
          more of B: plumbline explain podgc/x --command ./theirs

        1 of 1 fixtures differ
        ");
    }

    #[test]
    fn side_by_side() {
        insta::assert_snapshot!(shown(Some(100)), @r"
        A  ours
        B  theirs

        podgc/x  A pod of a missing node is deleted after its quarantine.
          A: passed
          B: failed
          t=+5s       user           DELETE nodes/n1 200    t=+5s       user           DELETE nodes/n1 200
                  removed                                           removed
          t=+60s      podgc          DELETE pods/a 200  … | t=+80s      podgc          DELETE pods/a 200  …
                                                          > t=+90s      podgc          GET    nodes/n1 404
          more of A: plumbline explain podgc/x
          more of B: plumbline explain podgc/x --command ./theirs

        1 of 1 fixtures differ
        ");
    }

    proptest! {
        #[test]
        fn a_transcript_equals_itself(text in "(t=\\+[0-9]{1,3}(\\.[0-9])?s [a-z ]{0,9}\n){0,9}", width in 0_usize..200) {
            let list = [seen("podgc/x", Outcome::Fail, &text)];
            for options in [EXACT, WALL, OUTCOMES] {
                prop_assert!(compare(["a", "a"], &list, &list, options).is_equal());
            }
            let other = [seen("podgc/x", Outcome::Fail, &format!("{text}t=+1s x\n"))];
            let different = compare(["a", "b"], &list, &other, WALL);
            prop_assert_eq!(different.differences.len(), 1);
            prop_assert!(different.text(Some(width), [None, Some("")]).contains("1 of 1"));
        }
    }
}
