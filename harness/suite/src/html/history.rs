//! Compares a run with former ones: new, fixed, remaining and flaky failures. PURE.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::report::{API_VERSION, Outcome, RunReport};

/// The differences between a run and former ones, as ids of fixtures in order. A flaky fixture is in no other list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunHistory {
    /// Failed now, and not in the run before.
    pub new: Vec<String>,
    /// Failed in the run before, and passed now.
    pub fixed: Vec<String>,
    /// Failed in the run before and now.
    pub still: Vec<String>,
    /// Passed on a retry now, or changed between passed and failed more than once; with the outcomes, the oldest first.
    pub flaky: Vec<(String, Vec<Outcome>)>,
    /// Failed in the run before, and have no result now.
    pub unknown: Vec<String>,
    /// Number of former runs.
    pub runs: usize,
}

/// A former report that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FormerReportError {
    /// Not JSON.
    #[error("it is not JSON: {0}")]
    Json(serde_json::Error),
    /// A report of another version or kind.
    #[error("it has apiVersion `{version}` and kind `{kind}`, expected `{API_VERSION}` and `{expected}`")]
    Version {
        /// The document's `apiVersion`.
        version: String,
        /// The document's `kind`.
        kind: String,
        /// The expected kind.
        expected: &'static str,
    },
}

/// Reads a report that `run --format json` has written.
///
/// # Errors
///
/// Returns an error if it is no report, or one of another version.
pub fn read(text: &str) -> Result<RunReport, FormerReportError> {
    read_as(text, "RunReport")
}

/// Reads a report of this kind.
///
/// # Errors
///
/// Returns an error if it is no report, or one of another version or kind.
pub fn read_as<T: DeserializeOwned>(text: &str, expected: &'static str) -> Result<T, FormerReportError> {
    let document: Value = serde_json::from_str(text).map_err(FormerReportError::Json)?;
    let field = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
    let version = field("apiVersion");
    let kind = field("kind");
    if (version.as_str(), kind.as_str()) != (API_VERSION, expected) {
        return Err(FormerReportError::Version { version, kind, expected });
    }
    serde_json::from_value(document).map_err(FormerReportError::Json)
}

/// Compares `now` with former runs, the oldest first; `None` if there are none.
#[must_use]
pub fn compare(before: &[RunReport], now: &RunReport) -> Option<RunHistory> {
    let last = before.last()?;
    let outcomes = |report: &RunReport| -> BTreeMap<String, Outcome> {
        report.fixtures.iter().map(|fixture| (fixture.id.clone(), fixture.outcome)).collect()
    };
    let runs: Vec<_> = before.iter().chain([now]).map(outcomes).collect();
    let ids: BTreeSet<&String> = [last, now].into_iter().flat_map(|run| &run.fixtures).map(|one| &one.id).collect();
    let mut history = RunHistory { runs: before.len(), ..RunHistory::default() };
    for id in ids {
        let results: Vec<Outcome> = runs.iter().filter_map(|run| run.get(id).copied()).collect();
        let in_run = |back: usize| runs.iter().rev().nth(back).and_then(|run| run.get(id).copied());
        let failed_before = in_run(1) == Some(Outcome::Fail);
        let list = match (failed_before, in_run(0)) {
            (_, now) if is_flaky(&results, now) => {
                history.flaky.push((id.clone(), results));
                continue;
            }
            (false, Some(Outcome::Fail)) => &mut history.new,
            (true, Some(Outcome::Fail)) => &mut history.still,
            (true, Some(Outcome::Pass)) => &mut history.fixed,
            (true, _) => &mut history.unknown,
            (false, _) => continue,
        };
        list.push(id.clone());
    }
    Some(history)
}

/// Returns true if a fixture passed on a retry `now`, or changed between passed and failed more than once.
fn is_flaky(results: &[Outcome], now: Option<Outcome>) -> bool {
    let mut verdicts: Vec<bool> = results
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Pass => Some(true),
            Outcome::Fail => Some(false),
            Outcome::Flaky | Outcome::Inconclusive | Outcome::Skip | Outcome::Unsupported | Outcome::NotRun => None,
        })
        .collect();
    verdicts.dedup();
    now == Some(Outcome::Flaky) || verdicts.len() > 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::canned;

    #[test]
    fn failures_are_new_fixed_or_remain() {
        let with = |outcomes: [Outcome; 3]| {
            let mut report = canned();
            report.fixtures.iter_mut().zip(outcomes).for_each(|(fixture, outcome)| fixture.outcome = outcome);
            report
        };
        let pass = Outcome::Pass;
        let fail = Outcome::Fail;
        let skip = Outcome::Skip;
        let history = compare(&[with([fail, pass, fail])], &with([fail, fail, pass])).expect("a former run");
        let ids = |id: &str| vec![id.to_owned()];
        let expected = RunHistory {
            new: ids("ttl/far"),
            fixed: ids("ttl/near"),
            still: ids("podgc/orphaned"),
            runs: 1,
            ..RunHistory::default()
        };
        assert_eq!(history, expected);
        let mut short = with([skip, pass, pass]);
        short.fixtures.truncate(2);
        let expected = vec!["podgc/orphaned".to_owned(), "ttl/near".to_owned()];
        assert_eq!(compare(&[with([fail, pass, fail])], &short).expect("a former run").unknown, expected);
        assert_eq!(compare(&[], &short), None);
    }

    #[test]
    fn what_changes_more_than_once_is_flaky() {
        let with = |outcome| {
            let mut report = canned();
            report.fixtures.truncate(1);
            report.fixtures[0].outcome = outcome;
            report
        };
        let pass = Outcome::Pass;
        let fail = Outcome::Fail;
        let skip = Outcome::Skip;
        let flaky = |before: &[Outcome], now| {
            let before: Vec<RunReport> = before.iter().copied().map(with).collect();
            let history = compare(&before, &with(now)).expect("former runs");
            history.flaky.into_iter().map(|(_, results)| results).next()
        };
        assert_eq!(flaky(&[fail, pass], fail), Some(vec![fail, pass, fail]));
        assert_eq!(flaky(&[pass, fail, skip], pass), Some(vec![pass, fail, skip, pass]));
        assert_eq!(flaky(&[pass], Outcome::Flaky), Some(vec![pass, Outcome::Flaky]));
        assert_eq!(flaky(&[pass, pass, fail], fail), None, "it began to fail");
        assert_eq!(flaky(&[fail, fail], pass), None, "it was fixed");
    }

    #[test]
    fn a_report_of_another_version_is_refused() {
        let text = serde_json::to_string(&canned()).expect("JSON");
        assert_eq!(read(&text).expect("our own"), canned());
        let other = text.replace("plumbline/v1", "plumbline/v9");
        let error = read(&other).expect_err("another version").to_string();
        assert_eq!(
            error,
            "it has apiVersion `plumbline/v9` and kind `RunReport`, expected `plumbline/v1` and `RunReport`"
        );
    }
}
