//! The results of a run: the versioned, serializable model, and the reporters that output it.
//!
//! A single stream of [`Event`]s feeds every [`Reporter`]. Counts are always derived from the list of outcomes.
//!
//! - [`terminal`], [`markdown`]: for people · [`json`]: for programs · [`junit`]: for CI systems
//! - [`grouping`]: failures by their cause · `progress`: lines while a run goes on

pub mod grouping;
pub mod json;
pub mod junit;
pub mod markdown;
mod progress;
pub mod terminal;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use plumbline::transcript::{Delivery, RecordedJson, TranscriptEntry, redact};
use serde::{Deserialize, Serialize};

use self::grouping::{BystanderWrite, SharedCause};
use crate::load::{FixtureLoad, MachineLoad, RunLoad};

/// Version of [`RunReport`] in JSON. Within a version, fields may be added but keep their meaning.
pub const API_VERSION: &str = "plumbline/v1";

/// The outcome of a fixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// All promises were kept.
    Pass,
    /// A promise was broken.
    Fail,
    /// It failed first and passed on a retry (wall-clock clusters).
    Flaky,
    /// It ran, but the machine was too busy for the result to show anything; the report has the reason.
    Inconclusive,
    /// It could not run in this environment; the report has the reason.
    Skip,
    /// The subject does not support the feature.
    Unsupported,
    /// The run ended before it was started.
    NotRun,
}

impl Outcome {
    /// All outcomes, in the order of summaries.
    pub const ALL: [Self; 7] =
        [Self::Pass, Self::Fail, Self::Flaky, Self::Inconclusive, Self::Skip, Self::Unsupported, Self::NotRun];

    /// Returns true if the fixture ran to its end.
    #[must_use]
    pub const fn has_run(self) -> bool {
        matches!(self, Self::Pass | Self::Fail | Self::Flaky | Self::Inconclusive)
    }

    /// Returns the word for summaries: `3 passed`.
    #[must_use]
    pub const fn participle(self) -> &'static str {
        match self {
            Self::Pass => "passed",
            Self::Fail => "failed",
            Self::Flaky => "flaky",
            Self::Inconclusive => "inconclusive",
            Self::Skip => "skipped",
            Self::Unsupported => "unsupported",
            Self::NotRun => "not run",
        }
    }
}

/// The report of a whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunReport {
    /// [`API_VERSION`].
    pub api_version: String,
    /// `RunReport`.
    pub kind: String,
    /// The version of plumbline that ran it.
    pub plumbline: String,
    /// The subject, such as `in-process`.
    pub subject: String,
    /// The cluster, such as `embedded`.
    pub cluster: String,
    /// Seed of what was drawn for each fixture, such as the names of its objects; absent if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Number of fixtures by outcome; derived from `fixtures`.
    pub counts: BTreeMap<Outcome, usize>,
    /// Sum of the virtual time of all fixtures, in milliseconds; 0 on the wall clock.
    pub virtual_millis: u64,
    /// Wall time of the run, in milliseconds; 0 if the program that ran it was in virtual time, too. Differs from run
    /// to run.
    pub wall_millis: u64,
    /// Load of the machine; absent in virtual time. Differs from run to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<MachineLoad>,
    /// Causes that several failed fixtures share; derived from `fixtures`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_causes: Vec<SharedCause>,
    /// All selected fixtures, ordered by suite and id.
    pub fixtures: Vec<FixtureReport>,
}

impl RunReport {
    /// Sorts `fixtures` and derives the sums.
    #[must_use]
    pub fn new(subject: &str, cluster: &str, wall_millis: u64, mut fixtures: Vec<FixtureReport>) -> Self {
        fixtures.sort_by(|a, b| (&a.suite, &a.id).cmp(&(&b.suite, &b.id)));
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "RunReport".to_owned(),
            plumbline: env!("CARGO_PKG_VERSION").to_owned(),
            subject: subject.to_owned(),
            cluster: cluster.to_owned(),
            seed: None,
            counts: counts(&fixtures),
            virtual_millis: fixtures.iter().map(|fixture| fixture.virtual_millis).sum(),
            wall_millis,
            load: None,
            shared_causes: grouping::shared_causes(&fixtures),
            fixtures,
        }
    }

    /// Returns the failed fixtures by cause: first those of each shared cause, then each of the others on its own.
    #[must_use]
    pub fn failures_by_cause(&self) -> Vec<FailedFixtures<'_>> {
        let failed = || self.fixtures.iter().filter(|fixture| fixture.outcome == Outcome::Fail);
        let is_shared = |id: &String| self.shared_causes.iter().any(|cause| cause.fixtures.contains(id));
        let shared = self.shared_causes.iter().map(|cause| FailedFixtures {
            cause: Some(cause),
            fixtures: failed().filter(|fixture| cause.fixtures.contains(&fixture.id)).collect(),
        });
        let alone = failed().filter(|fixture| !is_shared(&fixture.id));
        shared.chain(alone.map(|fixture| FailedFixtures { cause: None, fixtures: vec![fixture] })).collect()
    }

    /// Counts the reasons why fixtures did not run or were flaky: `3 skipped: needs faults`.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let has_reason =
            |fixture: &&FixtureReport| !fixture.reason.is_empty() && fixture.outcome != Outcome::Inconclusive;
        for fixture in self.fixtures.iter().filter(has_reason) {
            *reasons.entry((fixture.outcome.participle(), &fixture.reason)).or_default() += 1;
        }
        reasons.into_iter().map(|((word, reason), count)| format!("{count} {word}: {reason}")).collect()
    }

    /// Groups the bystanders' writes of all fixtures.
    #[must_use]
    pub fn bystander_writes(&self) -> Vec<BystanderWrite> {
        grouping::bystander_writes(self.fixtures.iter().map(|fixture| fixture.bystanders.as_slice()))
    }

    /// Returns the number of fixtures with this outcome.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.counts.get(&outcome).copied().unwrap_or_default()
    }

    /// Returns true if a binding promise was broken; provisional fixtures are reported but do not count.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.fixtures.iter().any(FixtureReport::has_failed)
    }

    /// Returns true if a binding fixture is inconclusive.
    #[must_use]
    pub fn is_inconclusive(&self) -> bool {
        self.fixtures.iter().any(|fixture| fixture.outcome == Outcome::Inconclusive && fixture.level != "provisional")
    }

    /// Returns the real time of the run and of its median fixture, as text; `None` if it is unknown.
    #[must_use]
    pub fn real_time(&self) -> Option<String> {
        let seconds = self.wall_millis as f64 / 1000.0;
        let median = self.median_wall_micros() as f64 / 1000.0;
        (self.wall_millis > 0).then(|| format!("{seconds:.2} s (median {median:.1} ms per fixture)"))
    }

    /// Returns the median wall time of the fixtures that ran, in microseconds.
    #[must_use]
    pub fn median_wall_micros(&self) -> u64 {
        let ran = |fixture: &&FixtureReport| fixture.outcome.has_run();
        let mut times: Vec<u64> = self.fixtures.iter().filter(ran).map(|fixture| fixture.wall_micros).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    }

    /// Groups the fixtures by suite, suites in order.
    #[must_use]
    pub fn suites(&self) -> BTreeMap<&str, Vec<&FixtureReport>> {
        let mut suites: BTreeMap<&str, Vec<&FixtureReport>> = BTreeMap::new();
        for fixture in &self.fixtures {
            suites.entry(&fixture.suite).or_default().push(fixture);
        }
        suites
    }
}

/// Failed fixtures with a common cause, or a single one.
#[derive(Clone, Debug)]
pub struct FailedFixtures<'a> {
    /// The cause; `None` if no other fixture shares it.
    pub cause: Option<&'a SharedCause>,
    /// The fixtures; at least one.
    pub fixtures: Vec<&'a FixtureReport>,
}

/// Returns the command that explains a fixture; `flags` select the subject, the cluster and the folder of fixtures.
#[must_use]
pub fn explain_command(id: &str, flags: &str) -> String {
    format!("plumbline explain {} {flags}", shell_words::quote(id)).trim_end().to_owned()
}

/// Counts outcomes.
fn counts<'a>(fixtures: impl IntoIterator<Item = &'a FixtureReport>) -> BTreeMap<Outcome, usize> {
    let mut counts = BTreeMap::new();
    for fixture in fixtures {
        *counts.entry(fixture.outcome).or_default() += 1;
    }
    counts
}

/// Formats the outcomes of `fixtures`: `44 passed, 1 failed`.
#[must_use]
pub fn tally<'a>(fixtures: impl IntoIterator<Item = &'a FixtureReport>) -> String {
    let counts = counts(fixtures);
    let parts = Outcome::ALL
        .iter()
        .filter_map(|outcome| counts.get(outcome).map(|count| format!("{count} {}", outcome.participle())));
    parts.collect::<Vec<_>>().join(", ")
}

/// The report of one fixture (of one row, if it has a matrix).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FixtureReport {
    /// The id: `podgc/orphaned-quarantine`, `ttl/boundary[up-100]`.
    pub id: String,
    /// The first segment of the id.
    pub suite: String,
    /// Path of the fixture's file.
    pub file: String,
    /// The promise, in a sentence.
    pub promise: String,
    /// Rules and catalogue entries that it covers.
    pub rules: Vec<String>,
    /// A sentence for each of the rules that the catalogue has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rule_texts: BTreeMap<String, String>,
    /// The level: `core`, `extended`, `hardened`, `upstream`, `provisional`.
    pub level: String,
    /// The feature that a subject must declare.
    pub feature: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason why it is inconclusive, was skipped, is unsupported or did not run; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The failures of the last attempt that failed; empty if it passed at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// The whole transcript of the last attempt that failed; empty if it passed at once, unless the transcripts of all
    /// fixtures were asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transcript: String,
    /// The subject's log (warnings and errors) of the last attempt that failed; empty if it passed at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Writes by clients of the subject that are none of the controllers under test, to resources that no fixture
    /// judges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bystanders: Vec<String>,
    /// Load of the machine, if the fixture ran on the wall clock and did not pass at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<FixtureLoad>,
    /// Elapsed virtual time, in milliseconds; 0 on the wall clock.
    pub virtual_millis: u64,
    /// Wall time, in microseconds. Differs from run to run.
    pub wall_micros: u64,
}

impl FixtureReport {
    /// Returns true if a binding promise was broken.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.outcome == Outcome::Fail && self.level != "provisional"
    }

    /// Returns a line for each rule: its id, and the sentence that the catalogue has for it.
    #[must_use]
    pub fn rule_lines(&self) -> Vec<String> {
        let line = |rule: &String| match self.rule_texts.get(rule) {
            Some(text) => format!("{rule}: {text}"),
            None => rule.clone(),
        };
        self.rules.iter().map(line).collect()
    }

    /// Returns the anchor of the fixture in an HTML report, with the time of its first failure: `podgc/orphaned@60s`.
    #[must_use]
    pub fn anchor(&self) -> String {
        let at = self.failures.iter().find_map(|failure| failure.at_millis);
        let seconds = |millis| redact::seconds(Duration::from_millis(millis));
        at.map_or_else(|| self.id.clone(), |millis| format!("{}@{}", self.id, seconds(millis)))
    }

    /// Returns the file and, if a line of it is not met, the line.
    #[must_use]
    pub fn place(&self) -> String {
        match self.failures.first().map_or(0, |failure| failure.line) {
            0 => self.file.clone(),
            line => format!("{}:{line}", self.file),
        }
    }
}

/// A single failure of a fixture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// The failed check, in a sentence.
    pub message: String,
    /// Line in the fixture's file that demands it; 0 if no line does (invariants, panics).
    #[serde(default)]
    pub line: u64,
    /// The expected state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expected: String,
    /// The observed state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub observed: String,
    /// Time of the failure, in milliseconds since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_millis: Option<u64>,
    /// The transcript around that time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub excerpt: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.expected.is_empty() {
            write!(f, "\nexpected: {}", self.expected)?;
        }
        if !self.observed.is_empty() {
            write!(f, "\nobserved: {}", self.observed)?;
        }
        Ok(())
    }
}

/// The result of a fixture that has run, with its transcript.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JudgedRun {
    /// The report.
    pub report: FixtureReport,
    /// The whole transcript as text.
    pub transcript: String,
    /// The names by which the subject's clients called themselves: product and version.
    pub clients: BTreeSet<String>,
    /// The raw, unredacted entries.
    pub entries: Vec<TranscriptEntry>,
    /// The watch events that were sent.
    pub deliveries: Vec<Delivery>,
    /// The objects before the controllers started.
    pub initial: Arc<[RecordedJson]>,
    /// The time at `t=+0s`.
    pub start: Timestamp,
    /// Allowed deviation of times and lateness of reactions; zero in virtual time.
    pub leeway: Duration,
    /// Load of the machine, on the wall clock.
    #[serde(skip)]
    pub load: RunLoad,
    /// If the fixture failed: the objects at the end, ordered by resource, namespace and name.
    pub objects: Vec<RecordedJson>,
}

/// An event of the run, reported as it happens.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The run begins.
    Started {
        /// Number of fixtures in the plan, skipped ones included.
        fixtures: usize,
        /// Number of suites among them.
        suites: usize,
        /// Number of fixtures that run in parallel.
        jobs: usize,
    },
    /// A fixture has ended. Fixtures end in any order; the result includes the transcript of passed ones.
    Finished(&'a JudgedRun),
    /// All fixtures have ended.
    Ended(&'a RunReport),
}

/// Outputs a run.
pub trait Reporter {
    /// Handles `event`.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    fn event(&mut self, event: Event<'_>) -> io::Result<()>;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn canned() -> RunReport {
        let fixture = |id: &str, outcome| FixtureReport {
            id: id.to_owned(),
            suite: id.split('/').next().unwrap_or_default().to_owned(),
            file: format!("fixtures/{id}.yaml"),
            promise: "A pod of a missing node is deleted after 40 s.".to_owned(),
            rules: vec!["BR-24-03".to_owned()],
            rule_texts: [("BR-24-03".to_owned(), "an orphan is deleted after 40 s".to_owned())].into(),
            level: "core".to_owned(),
            feature: "podgc.orphaned".to_owned(),
            outcome,
            reason: String::new(),
            failures: Vec::new(),
            transcript: String::new(),
            log: Vec::new(),
            bystanders: Vec::new(),
            load: None,
            virtual_millis: 120_000,
            wall_micros: 1500,
        };
        let failed = FixtureReport {
            failures: vec![Failure {
                message: "pods/a must exist until t=+59s".to_owned(),
                line: 12,
                expected: "phase: Running\nready: true".to_owned(),
                observed: "phase: Failed\nready: true".to_owned(),
                at_millis: Some(40_000),
                excerpt: "t=+40s    podgc          DELETE pods/a 200\n".to_owned(),
            }],
            transcript: "t=+40s    podgc          DELETE pods/a 200\n".to_owned(),
            log: vec!["WARN it was me".to_owned()],
            ..fixture("podgc/orphaned", Outcome::Fail)
        };
        let skipped =
            FixtureReport { reason: "needs faults".to_owned(), virtual_millis: 0, ..fixture("ttl/far", Outcome::Skip) };
        RunReport::new("in-process", "embedded", 1234, vec![skipped, fixture("ttl/near", Outcome::Pass), failed])
    }

    #[test]
    fn counts_come_from_the_list() {
        let report = canned();
        let order: Vec<&str> = report.fixtures.iter().map(|fixture| fixture.id.as_str()).collect();
        assert_eq!(order, ["podgc/orphaned", "ttl/far", "ttl/near"]);
        assert_eq!(
            (report.count(Outcome::Pass), report.count(Outcome::Fail), report.count(Outcome::NotRun)),
            (1, 1, 0)
        );
        assert_eq!(tally(&report.fixtures), "1 passed, 1 failed, 1 skipped");
        assert!(report.has_failed());
        let provisional = |fixture: FixtureReport| FixtureReport { level: "provisional".to_owned(), ..fixture };
        let fixtures = report.fixtures.iter().cloned().map(provisional).collect();
        assert!(!RunReport::new("in-process", "embedded", 0, fixtures).has_failed());
        assert_eq!((report.virtual_millis, report.median_wall_micros()), (240_000, 1500));
    }
}
