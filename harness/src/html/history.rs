//! Compares a run with a former one: new, fixed and remaining failures. PURE.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::report::{API_VERSION, Outcome, RunReport};

/// The differences between two runs, as ids of fixtures in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunHistory {
    /// Failed now, and not before.
    pub new: Vec<String>,
    /// Failed before, and passed now.
    pub fixed: Vec<String>,
    /// Failed before and now.
    pub still: Vec<String>,
    /// Failed before, and have no result now.
    pub unknown: Vec<String>,
}

/// A former report that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FormerReportError {
    /// Not JSON.
    #[error("it is not JSON: {0}")]
    Json(serde_json::Error),
    /// A report of another version or kind.
    #[error("it has apiVersion `{version}` and kind `{kind}`, expected `{API_VERSION}` and `RunReport`")]
    Version {
        /// The document's `apiVersion`.
        version: String,
        /// The document's `kind`.
        kind: String,
    },
}

/// Reads a report that `run --format json` has written.
///
/// # Errors
///
/// Returns an error if it is no report, or one of another version.
pub fn read(text: &str) -> Result<RunReport, FormerReportError> {
    let document: Value = serde_json::from_str(text).map_err(FormerReportError::Json)?;
    let field = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (field("apiVersion"), field("kind"));
    if (version.as_str(), kind.as_str()) != (API_VERSION, "RunReport") {
        return Err(FormerReportError::Version { version, kind });
    }
    serde_json::from_value(document).map_err(FormerReportError::Json)
}

/// Compares `now` with `before`.
#[must_use]
pub fn compare(before: &RunReport, now: &RunReport) -> RunHistory {
    let outcomes = |report: &RunReport| -> BTreeMap<String, Outcome> {
        report.fixtures.iter().map(|fixture| (fixture.id.clone(), fixture.outcome)).collect()
    };
    let (before, now) = (outcomes(before), outcomes(now));
    let failed_before = |id: &String| before.get(id) == Some(&Outcome::Fail);
    let mut history = RunHistory::default();
    for (id, outcome) in &now {
        let list = match (failed_before(id), outcome) {
            (false, Outcome::Fail) => &mut history.new,
            (true, Outcome::Fail) => &mut history.still,
            (true, Outcome::Pass | Outcome::Flaky) => &mut history.fixed,
            (true, _) => &mut history.unknown,
            (false, _) => continue,
        };
        list.push(id.clone());
    }
    history.unknown.extend(before.keys().filter(|id| failed_before(id) && !now.contains_key(*id)).cloned());
    history
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
        let (pass, fail, skip) = (Outcome::Pass, Outcome::Fail, Outcome::Skip);
        let history = compare(&with([fail, pass, fail]), &with([fail, fail, pass]));
        let ids = |id: &str| vec![id.to_owned()];
        let expected = RunHistory {
            new: ids("ttl/far"),
            fixed: ids("ttl/near"),
            still: ids("podgc/orphaned"),
            unknown: Vec::new(),
        };
        assert_eq!(history, expected);
        let mut short = with([skip, pass, pass]);
        short.fixtures.truncate(2);
        let expected = vec!["podgc/orphaned".to_owned(), "ttl/near".to_owned()];
        assert_eq!(compare(&with([fail, pass, fail]), &short).unknown, expected);
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
