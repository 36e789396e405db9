//! A whole plan, side by side; results in whatever order, the report in the order of ids.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::isolate::{self, Ended};
use super::verdict::{self, Judged};
use super::{Evidence, drive};
use crate::cluster::Embedded;
use crate::fixture::Fixture;
use crate::plan::{Place, Plan};
use crate::report::{Event, FixtureReport, Outcome, Reporter, RunReport};
use crate::subject::Subject;
use crate::time::Stopwatch;

/// Wall time after which a fixture counts as hanging. The slowest take a fraction of a second.
const WALL_LIMIT: Duration = Duration::from_mins(1);

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many fixtures run side by side.
    pub jobs: usize,
    /// Start nothing new after the first failure.
    pub fail_fast: bool,
}

/// What the embedded cluster and `subject` offer together.
#[must_use]
pub fn place(subject: &dyn Subject) -> Place {
    Place { capabilities: Embedded::capabilities(), controllers: subject.controllers(), features: subject.features() }
}

/// Runs what `plan` says and tells `reporter`.
///
/// # Errors
///
/// When the reporter cannot write; fixtures that run are waited for all the same.
pub fn run(
    plan: &Plan<'_>,
    subject: &Arc<dyn Subject>,
    options: Options,
    reporter: &mut dyn Reporter,
) -> io::Result<RunReport> {
    let stopwatch = Stopwatch::start();
    let suites = plan.entries.iter().map(|entry| &entry.fixture.suite).collect::<std::collections::BTreeSet<_>>();
    let mut written =
        reporter.event(Event::Started { fixtures: plan.entries.len(), suites: suites.len(), jobs: options.jobs });

    let mut reports: Vec<FixtureReport> = Vec::with_capacity(plan.entries.len());
    for (fixture, skip) in plan.skips() {
        let outcome = if skip.is_unsupported() { Outcome::Unsupported } else { Outcome::Skip };
        reports.push(verdict::blank(fixture, outcome, skip.to_string()));
    }
    let fixtures: Vec<Fixture> = plan.runs().cloned().collect();
    let mut results: Vec<Option<FixtureReport>> = vec![None; fixtures.len()];
    let mut first_failure = None;
    run_all(&fixtures, subject, options.jobs, |index, judged| {
        let report = judged.report;
        if written.is_ok() {
            written = reporter.event(Event::Finished(&report));
        }
        if report.has_failed() {
            first_failure.get_or_insert_with(|| report.id.clone());
        }
        results[index] = Some(report);
        written.is_ok() && !(options.fail_fast && first_failure.is_some())
    });
    let why = first_failure.map_or_else(|| "the run ended early".to_owned(), |id| format!("--fail-fast after {id}"));
    for (fixture, result) in fixtures.iter().zip(results) {
        reports.push(result.unwrap_or_else(|| verdict::blank(fixture, Outcome::NotRun, why.as_str())));
    }
    let wall = u64::try_from(stopwatch.elapsed().as_millis()).unwrap_or(u64::MAX);
    let report = RunReport::new(subject.name(), Embedded::NAME, wall, reports);
    written.and_then(|()| reporter.event(Event::Ended(&report)))?;
    Ok(report)
}

/// Runs `fixtures`, `jobs` at a time. `done` gets index and result and answers whether to go on.
pub fn run_all(
    fixtures: &[Fixture],
    subject: &Arc<dyn Subject>,
    jobs: usize,
    mut done: impl FnMut(usize, Judged) -> bool,
) {
    let shared: Arc<Vec<(Fixture, Evidence)>> =
        Arc::new(fixtures.iter().map(|fixture| (fixture.clone(), Evidence::default())).collect());
    let work = {
        let (shared, subject) = (shared.clone(), subject.clone());
        move |index: usize| {
            let stopwatch = Stopwatch::start();
            let (fixture, evidence) = &shared[index];
            if let Err(error) = drive::run(fixture, &*subject, evidence) {
                evidence.update(|gathered| gathered.troubles.push(format!("unable to make a runtime: {error}")));
            }
            let mut judged = verdict::judge(fixture, &evidence.gathered());
            judged.report.wall_micros = u64::try_from(stopwatch.elapsed().as_micros()).unwrap_or(u64::MAX);
            judged
        }
    };
    isolate::run_each(fixtures.len(), jobs, WALL_LIMIT, work, |index, ended| {
        let broken = |message: &str| {
            let (fixture, evidence) = &shared[index];
            verdict::broken(fixture, &evidence.gathered(), message)
        };
        let judged = match ended {
            Ended::With(judged) => judged,
            Ended::Panicked(text) => broken(&format!("the fixture's run panicked: {text}")),
            Ended::Hung(limit) => {
                let seconds = limit.as_secs();
                broken(&format!("hangs: no end after {seconds} s of wall time; its thread was left behind"))
            }
        };
        done(index, judged)
    });
}
