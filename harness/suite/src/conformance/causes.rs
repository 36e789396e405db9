//! The causes of failures, for readers of a report: which fixtures share each, and one transcript.
//!
//! A published report has them as `causes.yaml`; for a report with its evidence they are derived from that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evidence::FixtureEvidence;
use super::report::{ConformanceOutcome, ConformanceReport};
use crate::report::grouping::{self, FixtureFailures};

/// A cause of failures. All of its fixtures have the same outcome and belong to the same profiles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailureCause {
    /// The common failure of the fixtures, in a line; empty if there is no evidence of them.
    pub cause: String,
    /// Their outcome.
    pub outcome: ConformanceOutcome,
    /// Their ids, sorted. The other fields are about the first.
    pub fixtures: Vec<String>,
    /// Its promise.
    pub promise: String,
    /// Its failed checks, as text.
    pub failures: String,
    /// The file with its transcript, next to the report; absent if the report has none of this cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its transcript.
    #[serde(skip)]
    pub transcript: Option<String>,
}

/// Outcomes that have causes.
pub const OUTCOMES: [ConformanceOutcome; 4] = [
    ConformanceOutcome::Fail,
    ConformanceOutcome::KnownDeviation,
    ConformanceOutcome::Flaky,
    ConformanceOutcome::Inconclusive,
];

/// Returns the causes of a report's failures: by outcome, those with most fixtures first.
#[must_use]
pub fn of(report: &ConformanceReport, evidence: &[FixtureEvidence]) -> Vec<FailureCause> {
    let evidence: BTreeMap<&str, &FixtureEvidence> = evidence.iter().map(|one| (one.fixture.as_str(), one)).collect();
    let mut groups: BTreeMap<(ConformanceOutcome, &[String]), Vec<&str>> = BTreeMap::new();
    for fixture in report.fixtures.iter().filter(|fixture| OUTCOMES.contains(&fixture.outcome)) {
        groups.entry((fixture.outcome, &fixture.profiles)).or_default().push(&fixture.id);
    }
    let mut causes = Vec::new();
    for ((outcome, _), ids) in groups {
        let (known, unknown): (Vec<&str>, Vec<&str>) = ids.into_iter().partition(|id| evidence.contains_key(id));
        let known: Vec<&FixtureEvidence> = known.iter().filter_map(|id| evidence.get(id).copied()).collect();
        let shared =
            grouping::by_cause(known.iter().map(|one| FixtureFailures { id: &one.fixture, failures: &one.checks }));
        let alone = known.iter().filter(|one| !shared.iter().any(|cause| cause.fixtures.contains(&one.fixture)));
        let alone = alone.map(|one| (first_check(one), vec![one.fixture.clone()]));
        for (cause, fixtures) in shared.iter().map(|one| (one.cause.clone(), one.fixtures.clone())).chain(alone) {
            causes.push(cause_of(cause, outcome, fixtures, &evidence));
        }
        if !unknown.is_empty() {
            let fixtures = unknown.into_iter().map(str::to_owned).collect();
            causes.push(cause_of(String::new(), outcome, fixtures, &evidence));
        }
    }
    causes.sort_by(|a, b| {
        let by_size = || b.fixtures.len().cmp(&a.fixtures.len());
        a.outcome.cmp(&b.outcome).then_with(by_size).then_with(|| a.fixtures.cmp(&b.fixtures))
    });
    causes
}

fn cause_of(
    cause: String,
    outcome: ConformanceOutcome,
    mut fixtures: Vec<String>,
    evidence: &BTreeMap<&str, &FixtureEvidence>,
) -> FailureCause {
    fixtures.sort();
    let first = fixtures.first().and_then(|id| evidence.get(id.as_str()));
    let text = |field: fn(&FixtureEvidence) -> &String| first.map(|one| field(one).clone()).unwrap_or_default();
    FailureCause {
        cause,
        outcome,
        promise: text(|one| &one.promise),
        failures: text(|one| &one.failures),
        file: None,
        transcript: first.map(|one| one.transcript.clone()),
        fixtures,
    }
}

/// Returns the first line of a fixture's first failed check.
fn first_check(evidence: &FixtureEvidence) -> String {
    let message = evidence.checks.first().map_or("", |check| check.message.as_str());
    message.lines().next().unwrap_or_default().to_owned()
}
