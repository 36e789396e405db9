//! Runs a whole plan, several fixtures at a time. Results arrive in any order; the report is ordered by id.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::isolate::{self, JobOutcome};
use super::verdict;
use super::{RunError, RunRecorder, StartUpError, drive, timing};
use crate::cluster::{Cluster, EmbeddedCluster};
use crate::fixture::{Fixture, Problems, parse};
use crate::plan::{Capabilities, Plan};
use crate::process::signals;
use crate::report::{Event, FixtureReport, JudgedRun, Outcome, Reporter, RunReport};
use crate::subject::Subject;
use crate::subject::in_process::InProcess;
use crate::time::Stopwatch;

/// Additional wall time after which a fixture counts as hanging. In virtual time the slowest take a fraction of a
/// second; on the wall clock a subject may need a while to start.
const HANG: Duration = Duration::from_mins(2);

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Number of fixtures that run in parallel.
    pub jobs: usize,
    /// Starts nothing new after the first failure.
    pub fail_fast: bool,
    /// On the wall clock: minimum tolerance, which overrides smaller values in fixtures.
    pub tolerance: Duration,
    /// On the wall clock: number of retries of a failed fixture. A fixture that passes on a retry is `flaky`.
    pub retries: u8,
    /// Wall time, in addition to the fixture's own duration, after which it counts as hanging.
    pub hang: Duration,
}

impl RunOptions {
    /// Runs all fixtures one at a time, without retries.
    #[must_use]
    pub const fn one_by_one() -> Self {
        Self { jobs: 1, fail_fast: false, tolerance: Duration::ZERO, retries: 0, hang: HANG }
    }
}

/// The cluster and the subject of all runs.
#[derive(Clone)]
pub struct TestBed {
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// The subject.
    pub subject: Arc<dyn Subject>,
}

impl TestBed {
    /// Our own controllers in process, in virtual time.
    #[must_use]
    pub fn embedded() -> Self {
        Self { cluster: Arc::new(EmbeddedCluster::default()), subject: Arc::new(InProcess) }
    }

    /// Returns the combined capabilities of cluster and subject.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let lacks = self.subject.lacks();
        Capabilities {
            capabilities: self.cluster.capabilities().difference(&lacks).copied().collect(),
            controllers: self.subject.controllers(),
            features: self.subject.features(),
        }
    }
}

/// Starts an external subject once in an empty cluster before anything is judged. A subject that does not start would
/// fail every fixture, which would not be a statement about its controllers.
///
/// # Errors
///
/// The reason why it is not ready, with the end of its log.
pub fn check_start_up(test_bed: &TestBed) -> Result<(), StartUpError> {
    let controllers = test_bed.subject.controllers();
    if test_bed.subject.is_virtual() || controllers.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = controllers.iter().map(|controller| controller.as_str()).collect();
    let text = format!(
        "promise: It starts.\nrule: G-001\nlevel: provisional\nfeature: podgc.cycle\ncontrollers: [{}]\n\
         steps: [{{ at: 0s, expect: {{ absent: pods/none }} }}]\n",
        names.join(", ")
    );
    let (fixtures, problems) = parse::read(Path::new("rehearsal.yaml"), "faults", &text);
    let Some(fixture) = fixtures.first().filter(|_| problems.is_empty()) else {
        return Err(StartUpError::Check(Problems(problems)));
    };
    let (recorder, starts) = (RunRecorder::default(), timing::start_permits());
    let context = drive::RunContext { cluster: &*test_bed.cluster, subject: &*test_bed.subject, starts: &starts };
    if let Err(error) = drive::run(fixture, context, &recorder) {
        recorder.fail(RunError::Runtime(error));
    }
    let errors = recorder.record().errors;
    if errors.is_empty() { Ok(()) } else { Err(StartUpError::Run(errors)) }
}

/// Runs `plan` and reports to `reporter`.
///
/// # Errors
///
/// If the reporter cannot write; fixtures that are already running still finish.
pub fn run(
    plan: &Plan<'_>,
    test_bed: &TestBed,
    options: RunOptions,
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
    let mut fixtures: Vec<Fixture> = Vec::new();
    for fixture in plan.runs() {
        let skip = || test_bed.cluster.refuses(fixture).or_else(|| test_bed.subject.cannot_show(fixture));
        match test_bed.subject.refuses(&fixture.flags) {
            Some(why) => reports.push(verdict::blank(fixture, Outcome::Unsupported, why)),
            None => match skip() {
                Some(why) => reports.push(verdict::blank(fixture, Outcome::Skip, why)),
                None => fixtures.push(fixture.clone()),
            },
        }
    }
    if !test_bed.cluster.is_virtual() {
        // Longest first, to minimize the total time.
        fixtures.sort_by_key(|fixture| std::cmp::Reverse(fixture.wall_end(timing::TAIL)));
    }
    let mut results: Vec<Option<FixtureReport>> = vec![None; fixtures.len()];
    let (mut first_failure, mut broken) = (None, None);
    let is_virtual = test_bed.cluster.is_virtual();
    run_all(&fixtures, test_bed, options, |index, mut judged| {
        if !is_virtual {
            judged.report.virtual_millis = 0;
        }
        if judged.report.has_failed() && broken.is_none() {
            broken = test_bed.cluster.broken();
        }
        cut_short(&mut judged.report, broken.as_deref());
        if written.is_ok() {
            written = reporter.event(Event::Finished(&judged));
        }
        let report = judged.report;
        if report.has_failed() {
            first_failure.get_or_insert_with(|| report.id.clone());
        }
        results[index] = Some(report);
        written.is_ok()
            && broken.is_none()
            && signals::requested().is_none()
            && !(options.fail_fast && first_failure.is_some())
    });
    let why = match (signals::requested(), broken, first_failure) {
        (Some(signal), ..) => format!("interrupted by {signal}"),
        (None, Some(_), _) => "the cluster broke before this fixture ran".to_owned(),
        (None, None, Some(id)) => format!("--fail-fast after {id}"),
        (None, None, None) => "the run ended early".to_owned(),
    };
    for (fixture, result) in fixtures.iter().zip(results) {
        reports.push(result.unwrap_or_else(|| verdict::blank(fixture, Outcome::NotRun, why.as_str())));
    }
    let wall = u64::try_from(stopwatch.elapsed().as_millis()).unwrap_or(u64::MAX);
    let report = RunReport::new(test_bed.subject.name(), test_bed.cluster.name(), wall, reports);
    written.and_then(|()| reporter.event(Event::Ended(&report)))?;
    Ok(report)
}

/// Marks failures as not run if the cluster broke or the run was interrupted: they are no statement about the subject.
fn cut_short(report: &mut FixtureReport, broken: Option<&str>) {
    let why = match (signals::requested(), broken) {
        (Some(signal), _) if report.outcome == Outcome::Fail => format!("interrupted by {signal}"),
        (None, Some(why)) if report.has_failed() => {
            format!("the cluster broke: {}", why.lines().next().unwrap_or_default())
        }
        _ => return,
    };
    (report.outcome, report.reason) = (Outcome::NotRun, why);
}

/// Runs `fixtures` in parallel. `done` gets index and result and returns whether to continue.
///
/// In a shared cluster, fixtures that affect others run one by one after all others have ended.
pub fn run_all(
    fixtures: &[Fixture],
    test_bed: &TestBed,
    options: RunOptions,
    mut done: impl FnMut(usize, JudgedRun) -> bool,
) {
    let alone = |index: &usize| test_bed.cluster.must_be_alone(&fixtures[*index]);
    let (lane, side_by_side): (Vec<usize>, Vec<usize>) = (0..fixtures.len()).partition(alone);
    let mut go_on = true;
    for (indices, jobs) in [(side_by_side, options.jobs), (lane, 1)] {
        if go_on && !indices.is_empty() {
            let part: Vec<Fixture> = indices.iter().map(|index| fixtures[*index].clone()).collect();
            run_part(part, test_bed, RunOptions { jobs, ..options }, |index, judged| {
                go_on = done(indices[index], judged) && go_on;
                go_on
            });
        }
    }
}

fn run_part(
    fixtures: Vec<Fixture>,
    test_bed: &TestBed,
    options: RunOptions,
    mut done: impl FnMut(usize, JudgedRun) -> bool,
) {
    let longest = fixtures.iter().map(|fixture| fixture.wall_end(timing::TAIL)).max().unwrap_or_default();
    let attempts = if test_bed.cluster.is_virtual() { 1 } else { 1 + u32::from(options.retries) };
    let limit = if test_bed.cluster.is_virtual() { options.hang } else { (longest + options.hang) * attempts };
    let shared: Arc<Vec<(Fixture, Mutex<RunRecorder>)>> = Arc::new(
        fixtures
            .into_iter()
            .map(|fixture| (with_min_tolerance(fixture, options.tolerance), Mutex::default()))
            .collect(),
    );
    let record_of = |shared: &[(Fixture, Mutex<RunRecorder>)], index: usize| {
        shared[index].1.lock().unwrap_or_else(PoisonError::into_inner).clone()
    };
    let work = {
        let (shared, test_bed, starts) = (shared.clone(), test_bed.clone(), timing::start_permits());
        move |index: usize| {
            let (fixture, recorder) = &shared[index];
            let (mut attempt, mut before) = (1, None);
            loop {
                let fresh = RunRecorder::default();
                *recorder.lock().unwrap_or_else(PoisonError::into_inner) = fresh.clone();
                let judged = run_once(fixture, &test_bed, &starts, &fresh);
                match judged.report.outcome {
                    Outcome::Fail if attempt < attempts && signals::requested().is_none() => {
                        attempt += 1;
                        before = Some(judged);
                    }
                    Outcome::Pass => return before.map_or(judged, |before| flaky(before, attempt)),
                    _ => return judged,
                }
            }
        }
    };
    isolate::run_each(shared.len(), options.jobs, limit, work, |index, ended| {
        let broken = |message: &str| verdict::broken(&shared[index].0, &record_of(&shared, index).record(), message);
        let judged = match ended {
            JobOutcome::Returned(judged) => judged,
            JobOutcome::Panicked(text) => broken(&format!("the fixture's run panicked: {text}")),
            JobOutcome::Hung(limit) => {
                let seconds = limit.as_secs();
                broken(&format!("hangs: still running after {seconds} s of wall time; its thread was abandoned"))
            }
        };
        done(index, judged)
    });
}

fn with_min_tolerance(mut fixture: Fixture, tolerance: Duration) -> Fixture {
    fixture.tolerance = fixture.tolerance.max(tolerance);
    fixture
}

fn run_once(fixture: &Fixture, test_bed: &TestBed, starts: &Semaphore, recorder: &RunRecorder) -> JudgedRun {
    let stopwatch = Stopwatch::start();
    let context = drive::RunContext { cluster: &*test_bed.cluster, subject: &*test_bed.subject, starts };
    if let Err(error) = drive::run(fixture, context, recorder) {
        recorder.fail(RunError::Runtime(error));
    }
    let mut judged = verdict::judge(fixture, &recorder.record());
    judged.report.wall_micros = u64::try_from(stopwatch.elapsed().as_micros()).unwrap_or(u64::MAX);
    judged
}

/// Reports a fixture that passed on a retry, with the failure of an earlier attempt.
fn flaky(mut before: JudgedRun, attempt: u32) -> JudgedRun {
    before.report.outcome = Outcome::Flaky;
    before.report.reason = format!("passed at attempt {attempt}");
    before
}
