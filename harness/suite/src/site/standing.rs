//! The table of a site: implementations, Kubernetes versions and controllers, and the report that counts for each.
//!
//! PURE: functions of the reports.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use plumbline::fixture::Controller;
use serde::Serialize;

use super::published::PublishedReport;
use crate::conformance::profile::ALL;
use crate::conformance::report::{ConformanceOutcome, ConformanceReport, FixtureResult, ProfileSummary};

/// Number of Kubernetes versions for which a report counts as current.
const WINDOW: usize = 2;

/// A minor version of Kubernetes: `1.36`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minor {
    major: u32,
    minor: u32,
}

impl Minor {
    /// Parses the beginning of `v1.36.0`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix('v')?.split('.');
        let mut number = || parts.next()?.parse().ok();
        Some(Self { major: number()?, minor: number()? })
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The state of a controller of an implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every core fixture passed.
    Conformant,
    /// A core fixture did not pass.
    NotConformant,
    /// Nothing failed, but the machine was too busy for some fixtures.
    Inconclusive,
    /// The run did not reach its end.
    Incomplete,
    /// The implementation does not have this controller.
    NotImplemented,
    /// No report covers it.
    NotTested,
}

impl Verdict {
    /// The words in tables and badges.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Conformant => "conformant",
            Self::NotConformant => "not conformant",
            Self::Inconclusive => "inconclusive",
            Self::Incomplete => "incomplete run",
            Self::NotImplemented => "not implemented",
            Self::NotTested => "not tested",
        }
    }
}

/// The state of one controller in a row.
#[derive(Clone, Copy, Debug)]
pub struct BoardCell<'a> {
    /// The controller, which is also the name of its profile.
    pub controller: &'static str,
    /// Its state.
    pub verdict: Verdict,
    /// The summary that it comes from.
    pub summary: Option<&'a ProfileSummary>,
    /// The report that it comes from.
    pub source: Option<&'a PublishedReport>,
}

/// An implementation on a Kubernetes version.
#[derive(Clone, Debug)]
pub struct BoardRow<'a> {
    /// The implementation's name.
    pub project: &'a str,
    /// The Kubernetes version.
    pub minor: Minor,
    /// One cell for each controller.
    pub cells: Vec<BoardCell<'a>>,
}

impl<'a> BoardRow<'a> {
    /// The reports that its cells come from, each once, newest first.
    #[must_use]
    pub fn sources(&self) -> Vec<&'a PublishedReport> {
        let mut sources: Vec<&PublishedReport> = self.cells.iter().filter_map(|cell| cell.source).collect();
        sources.sort_by(|a, b| (&b.report.time, &b.report.digest).cmp(&(&a.report.time, &a.report.digest)));
        sources.dedup_by(|a, b| std::ptr::eq(*a, *b));
        sources
    }

    fn conformant(&self) -> usize {
        self.cells.iter().filter(|cell| cell.verdict == Verdict::Conformant).count()
    }
}

/// The whole table.
#[derive(Clone, Debug)]
pub struct Board<'a> {
    /// The Kubernetes versions of current reports, newest first.
    pub window: Vec<Minor>,
    /// Rows in the window: newest Kubernetes version first, then by number of conformant controllers.
    pub current: Vec<BoardRow<'a>>,
    /// Rows of older versions, in the same order.
    pub former: Vec<BoardRow<'a>>,
}

impl<'a> Board<'a> {
    /// Arranges the reports.
    #[must_use]
    pub fn new(reports: &'a [PublishedReport]) -> Self {
        let mut groups: BTreeMap<(Minor, &str), Vec<&PublishedReport>> = BTreeMap::new();
        for one in reports {
            let Some(minor) = Minor::parse(&one.report.kubernetes_version) else { continue };
            groups.entry((minor, &one.report.implementation.project)).or_default().push(one);
        }
        let minors = |of: &dyn Fn(&ConformanceReport) -> bool| -> BTreeSet<Minor> {
            let counted = groups.iter().filter(|(_, reports)| reports.iter().any(|one| of(&one.report)));
            counted.map(|((minor, _), _)| *minor).collect()
        };
        // A run that did not finish moves no other report out of the window.
        let mut versions = minors(&ConformanceReport::is_finished);
        if versions.is_empty() {
            versions = minors(&|_| true);
        }
        let window: Vec<Minor> = versions.into_iter().rev().take(WINDOW).collect();
        let row = |((minor, project), reports): (&(Minor, &'a str), &Vec<&'a PublishedReport>)| BoardRow {
            project,
            minor: *minor,
            cells: Controller::ALL.map(|controller| cell(controller.as_str(), reports)).into(),
        };
        let mut rows: Vec<BoardRow<'_>> = groups.iter().map(row).collect();
        rows.sort_by_key(|row| (Reverse(row.minor), Reverse(row.conformant()), row.project));
        let oldest = window.last().copied();
        let (current, former) = rows.into_iter().partition(|row| Some(row.minor) >= oldest);
        Self { window, current, former }
    }

    /// All rows, current ones first.
    pub fn rows(&self) -> impl Iterator<Item = &BoardRow<'a>> {
        self.current.iter().chain(&self.former)
    }
}

/// Returns the cell of a controller from the report that counts: a complete report of all profiles before a complete
/// one of this profile alone before a finished one with inconclusive fixtures before an unfinished one, then the
/// newest.
fn cell<'a>(controller: &'static str, reports: &[&'a PublishedReport]) -> BoardCell<'a> {
    let candidates = reports.iter().filter_map(|one| {
        let summary = one.report.profiles.iter().find(|summary| summary.name == controller)?;
        let full = one.report.profile == ALL && one.report.is_complete();
        let complete = !in_profile(&one.report, controller).any(|fixture| fixture.outcome.is_open());
        let finished = one.report.is_finished();
        let rank = (full, complete, finished, one.report.time.as_str(), one.report.digest.as_str());
        Some((rank, *one, summary))
    });
    let Some((_, source, summary)) = candidates.max_by_key(|(rank, ..)| *rank) else {
        return BoardCell { controller, verdict: Verdict::NotTested, summary: None, source: None };
    };
    let declared = &source.report.subject.controllers;
    let verdict = if !declared.is_empty() && !declared.iter().any(|name| name == controller) {
        Verdict::NotImplemented
    } else {
        verdict(&source.report, summary)
    };
    BoardCell { controller, verdict, summary: Some(summary), source: Some(source) }
}

/// Returns the state of a controller that the report covers.
fn verdict(report: &ConformanceReport, summary: &ProfileSummary) -> Verdict {
    let core = core(report, &summary.name);
    if in_profile(report, &summary.name).any(|fixture| fixture.outcome == ConformanceOutcome::NotRun) {
        Verdict::Incomplete
    } else if summary.conformant {
        Verdict::Conformant
    } else if core.passed + core.inconclusive == core.required && core.required > 0 {
        Verdict::Inconclusive
    } else {
        Verdict::NotConformant
    }
}

/// Returns the fixtures of a profile.
pub fn in_profile<'a>(report: &'a ConformanceReport, profile: &'a str) -> impl Iterator<Item = &'a FixtureResult> {
    report.fixtures.iter().filter(move |fixture| fixture.profiles.iter().any(|name| name == profile))
}

/// Numbers of core fixtures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounts {
    /// Fixtures that passed.
    pub passed: usize,
    /// Fixtures for which the machine was too busy.
    pub inconclusive: usize,
    /// Fixtures that the profile requires of this subject.
    pub required: usize,
}

/// Counts the core fixtures of a profile that it requires of this subject.
#[must_use]
pub fn core(report: &ConformanceReport, profile: &str) -> CoreCounts {
    let is_required = |fixture: &&FixtureResult| {
        fixture.level == "core" && !fixture.is_out_of_reach(profile, &report.subject.controllers)
    };
    let mut counts = CoreCounts::default();
    for fixture in in_profile(report, profile).filter(is_required) {
        counts.required += 1;
        counts.passed += usize::from(fixture.outcome == ConformanceOutcome::Pass);
        counts.inconclusive += usize::from(fixture.outcome == ConformanceOutcome::Inconclusive);
    }
    counts
}

/// Numbers of fixtures of a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureCounts {
    /// Fixtures that passed.
    pub passed: usize,
    /// Fixtures that failed as the implementation is known to.
    pub deviations: usize,
    /// Fixtures for which the machine was too busy.
    pub inconclusive: usize,
    /// Fixtures that ran and have a result.
    pub ran: usize,
    /// Fixtures that the profile requires of this subject.
    pub expected: usize,
}

/// Returns the features of a profile with their numbers of fixtures, by feature.
#[must_use]
pub fn features<'a>(report: &'a ConformanceReport, profile: &'a str) -> BTreeMap<&'a str, FeatureCounts> {
    let mut features: BTreeMap<&str, FeatureCounts> = BTreeMap::new();
    for fixture in in_profile(report, profile) {
        let counts = features.entry(&fixture.feature).or_default();
        counts.passed += usize::from(fixture.outcome == ConformanceOutcome::Pass);
        counts.deviations += usize::from(fixture.outcome == ConformanceOutcome::KnownDeviation);
        counts.inconclusive += usize::from(fixture.outcome == ConformanceOutcome::Inconclusive);
        counts.ran += usize::from(fixture.outcome.has_run() && !fixture.outcome.is_open());
        counts.expected += usize::from(!fixture.is_out_of_reach(profile, &report.subject.controllers));
    }
    features
}
