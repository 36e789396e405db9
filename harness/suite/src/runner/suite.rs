//! Runs a whole plan, several fixtures at a time. Results arrive in any order; the report is ordered by id.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plumbline::fixture::{Fixture, Problems, Release, parse};
use plumbline::time::Stopwatch;
use plumbline_apiserver::KubernetesVersion;

use super::guests::FixtureGuests;
use super::isolate::{self, JobOutcome, JobTimer};
use super::verdict;
use super::{RunError, RunRecord, RunRecorder, StartLimit, StartUpError, drive, timing};
use crate::cluster::{Cluster, ClusterTime, EmbeddedCluster};
use crate::guest;
use crate::load::doubt::{RunConditions, doubt};
use crate::load::{self, FixtureLoad, Lateness, MachineLoad, StartCost, capacity};
use crate::plan::{Capabilities, Plan};
use crate::process::signals;
use crate::report::{Event, FixtureReport, JudgedRun, Outcome, Reporter, RunReport};
use crate::subject::Subject;
use crate::subject::in_process::InProcess;

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
    /// Wall time, in addition to the fixture's own duration, after which it counts as hanging. Waiting for other
    /// fixtures does not count.
    pub hang: Duration,
    /// Fixtures whose transcript the report contains.
    pub transcripts: TranscriptSelection,
    /// True if reporters draw the raw record, which is expensive to get from fixtures that run in other processes.
    pub keeps_records: bool,
    /// Cost of a start of the subject, if it was measured.
    pub start_cost: Option<StartCost>,
}

/// Fixtures whose transcript a report contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TranscriptSelection {
    /// Those that failed, at least at first
    #[default]
    Failed,
    /// All that ran
    All,
}

impl TranscriptSelection {
    /// Adds the transcript to the report of a fixture that passed, if it is asked for.
    fn keep(self, judged: &mut JudgedRun) {
        if self == Self::All {
            judged.report.transcript.clone_from(&judged.transcript);
        }
    }
}

impl RunOptions {
    /// Runs all fixtures one at a time, without retries.
    #[must_use]
    pub const fn one_by_one() -> Self {
        Self {
            jobs: 1,
            fail_fast: false,
            tolerance: Duration::ZERO,
            retries: 0,
            hang: HANG,
            transcripts: TranscriptSelection::Failed,
            keeps_records: false,
            start_cost: None,
        }
    }
}

/// The cluster and the subject of all runs.
#[derive(Clone)]
pub struct TestBed {
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// The subject.
    pub subject: Arc<dyn Subject>,
    /// The processes in which the fixtures run; `None` if they run in this one.
    pub guests: Option<Arc<FixtureGuests>>,
}

impl TestBed {
    /// Our own controllers in process, in virtual time.
    #[must_use]
    pub fn embedded() -> Self {
        Self::embedded_at(KubernetesVersion::default())
    }

    /// The same on an API server that behaves as this release of Kubernetes.
    #[must_use]
    pub fn embedded_at(kubernetes: KubernetesVersion) -> Self {
        let cluster = EmbeddedCluster { kubernetes, ..EmbeddedCluster::default() };
        Self::new(Arc::new(cluster), Arc::new(InProcess))
    }

    /// A cluster and a subject whose fixtures run in this process.
    #[must_use]
    pub fn new(cluster: Arc<dyn Cluster>, subject: Arc<dyn Subject>) -> Self {
        Self { cluster, subject, guests: None }
    }

    fn context<'a>(&'a self, starts: &'a StartLimit, timer: &'a JobTimer) -> drive::RunContext<'a> {
        drive::RunContext { cluster: &*self.cluster, subject: &*self.subject, starts, timer, until: None }
    }

    /// Returns the combined capabilities of cluster and subject.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let lacks = self.subject.lacks();
        Capabilities {
            capabilities: self.cluster.capabilities().difference(&lacks).copied().collect(),
            controllers: self.subject.controllers(),
            features: self.subject.features(),
            release: self.cluster.kubernetes().ok().as_deref().and_then(Release::of_git_version),
        }
    }
}

/// The result of a start-up check that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartUp {
    /// User agents of the subject that read what its controllers need and name none of them.
    pub unnamed_agents: BTreeSet<String>,
    /// Cost of the start; `None` in virtual time and for subjects that the harness does not start.
    pub cost: Option<StartCost>,
}

/// Starts an external subject once in an empty cluster before anything is judged. A subject that does not start would
/// fail every fixture, which would not be a statement about its controllers.
///
/// # Errors
///
/// The reason why it is not ready, with the end of its log.
pub fn check_start_up(test_bed: &TestBed) -> Result<StartUp, StartUpError> {
    let controllers = test_bed.subject.controllers();
    if test_bed.subject.is_virtual() || controllers.is_empty() {
        return Ok(StartUp::default());
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
    let recorder = RunRecorder::default();
    let starts = StartLimit::new(1);
    drive_with_port(fixture, test_bed.context(&starts, &JobTimer::default()), &recorder);
    let record = recorder.record();
    if !record.errors.is_empty() {
        return Err(StartUpError::Run(record.errors));
    }
    let unnamed_agents = timing::unnamed_agents(fixture, &record.transcript.entries());
    Ok(StartUp { unnamed_agents, cost: record.start_cost })
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
    let suites = plan.entries.iter().map(|entry| &entry.fixture.suite).collect::<BTreeSet<_>>();
    let mut written =
        reporter.event(Event::Started { fixtures: plan.entries.len(), suites: suites.len(), jobs: options.jobs });

    let (mut reports, mut fixtures) = sort_out(plan, test_bed);
    if !test_bed.cluster.is_virtual() {
        // Longest first, to minimize the total time.
        fixtures.sort_by_key(|fixture| std::cmp::Reverse(fixture.wall_end(timing::TAIL)));
    }
    let mut results: Vec<Option<FixtureReport>> = vec![None; fixtures.len()];
    let mut first_failure = None;
    let mut broken = None;
    let is_virtual = test_bed.cluster.is_virtual();
    let mut machine = LoadSummary::default();
    run_all(&fixtures, test_bed, options, |index, mut judged| {
        if !is_virtual {
            judged.report.virtual_millis = 0;
        }
        if judged.report.has_failed() && broken.is_none() {
            broken = test_bed.cluster.broken();
        }
        cut_short(&mut judged.report, broken.as_deref());
        machine.add(&judged);
        options.transcripts.keep(&mut judged);
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
    let wall = real(stopwatch.elapsed());
    let wall = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
    let mut report = RunReport::new(test_bed.subject.name(), test_bed.cluster.name(), wall, reports);
    report.seed = test_bed.cluster.seed();
    report.load = (!is_virtual).then(|| machine.report(options.jobs));
    written.and_then(|()| reporter.event(Event::Ended(&report)))?;
    Ok(report)
}

/// Returns reports of the fixtures that cannot run, and the fixtures that can.
fn sort_out(plan: &Plan<'_>, test_bed: &TestBed) -> (Vec<FixtureReport>, Vec<Fixture>) {
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
    (reports, fixtures)
}

/// Sums up the load of the machine during a run.
#[derive(Default)]
struct LoadSummary {
    delays: Vec<Duration>,
    load_average: Option<f64>,
    repeated: usize,
}

impl LoadSummary {
    fn add(&mut self, judged: &JudgedRun) {
        self.delays.extend(&judged.load.delays);
        let highest = self.load_average.unwrap_or_default();
        self.load_average = load::load_average().map(|now| now.max(highest));
        self.repeated += usize::from(judged.report.load.as_ref().is_some_and(|load| !load.repeated.is_empty()));
    }

    fn report(&self, jobs: usize) -> MachineLoad {
        MachineLoad {
            cores: load::cores(),
            jobs,
            load_average: self.load_average,
            lateness: Lateness::of(&self.delays),
            repeated: self.repeated,
        }
    }
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
/// In a shared cluster, fixtures that affect others run one by one after all others have ended. At the end,
/// inconclusive fixtures are repeated one by one, up to [`REPETITIONS`] times.
pub fn run_all(
    fixtures: &[Fixture],
    test_bed: &TestBed,
    options: RunOptions,
    mut done: impl FnMut(usize, JudgedRun) -> bool,
) {
    let alone = |index: &usize| test_bed.cluster.must_be_alone(&fixtures[*index]);
    let (lane, side_by_side): (Vec<usize>, Vec<usize>) = (0..fixtures.len()).partition(alone);
    let pick = |indices: &[usize]| -> Vec<Fixture> { indices.iter().map(|index| fixtures[*index].clone()).collect() };
    let mut go_on = true;
    let mut doubtful: Vec<(usize, JudgedRun)> = Vec::new();
    for (indices, jobs) in [(side_by_side, options.jobs), (lane, 1)] {
        if go_on && !indices.is_empty() {
            run_part(pick(&indices), test_bed, RunOptions { jobs, ..options }, |index, judged| {
                if judged.report.outcome == Outcome::Inconclusive {
                    doubtful.push((indices[index], judged));
                    go_on = go_on && signals::requested().is_none();
                } else {
                    go_on = done(indices[index], judged) && go_on;
                }
                go_on
            });
        }
    }
    for repetition in 1..=REPETITIONS {
        if !go_on || doubtful.is_empty() {
            break;
        }
        let indices: Vec<usize> = doubtful.iter().map(|(index, _)| *index).collect();
        let mut before: Vec<Option<JudgedRun>> = doubtful.drain(..).map(|(_, judged)| Some(judged)).collect();
        run_part(pick(&indices), test_bed, RunOptions { jobs: 1, ..options }, |place, judged| {
            let judged = match before[place].take() {
                Some(before) => repeated(&before, judged),
                None => judged,
            };
            if judged.report.outcome == Outcome::Inconclusive && repetition < REPETITIONS {
                doubtful.push((indices[place], judged));
                go_on = go_on && signals::requested().is_none();
            } else {
                go_on = done(indices[place], judged) && go_on;
            }
            go_on
        });
        // The run was interrupted before these were repeated.
        doubtful.extend(indices.into_iter().zip(before).filter_map(|(index, judged)| Some((index, judged?))));
    }
    for (index, judged) in doubtful {
        done(index, judged);
    }
}

/// Number of times that an inconclusive fixture is repeated alone, until it has a result.
const REPETITIONS: usize = 3;

/// Reports the result of a repeated fixture, with the reason for the first repetition.
fn repeated(before: &JudgedRun, mut judged: JudgedRun) -> JudgedRun {
    let why = match &before.report.load {
        Some(load) if !load.repeated.is_empty() => load.repeated.clone(),
        _ => before.report.reason.clone(),
    };
    let report = &mut judged.report;
    if report.outcome == Outcome::Inconclusive {
        report.reason = format!("{} (alone; before: {why})", report.reason);
    }
    report.load.get_or_insert_with(|| FixtureLoad::of(&judged.load)).repeated = why;
    judged
}

fn run_part(
    fixtures: Vec<Fixture>,
    test_bed: &TestBed,
    options: RunOptions,
    mut done: impl FnMut(usize, JudgedRun) -> bool,
) {
    let longest = fixtures.iter().map(|fixture| fixture.wall_end(timing::TAIL)).max().unwrap_or_default();
    let attempts = if test_bed.cluster.is_virtual() { 1 } else { 1 + u32::from(options.retries) };
    let limit = match test_bed.cluster.time() {
        // Their own processes limit them.
        _ if test_bed.guests.is_some() => Duration::MAX,
        // The limit is virtual, too.
        ClusterTime::Traced => {
            fixtures.iter().map(|fixture| fixture.end() + fixture.late).max().unwrap_or_default() + options.hang
        }
        ClusterTime::Virtual => options.hang,
        ClusterTime::Wall => longest + options.hang,
    };
    let shared: Arc<Vec<(Fixture, Mutex<RunRecorder>)>> = Arc::new(
        fixtures
            .into_iter()
            .map(|fixture| (with_min_tolerance(fixture, options.tolerance), Mutex::default()))
            .collect(),
    );
    let recorder_of = |shared: &[(Fixture, Mutex<RunRecorder>)], index: usize| shared[index].1.lock().clone();
    let starts = Arc::new(StartLimit::new(capacity::starts(options.start_cost.as_ref(), load::cores())));
    let work = {
        let shared = shared.clone();
        let test_bed = test_bed.clone();
        let starts = starts.clone();
        move |index: usize, timer: &JobTimer| {
            let (fixture, recorder) = &shared[index];
            let mut attempt = 1;
            let mut before = None;
            loop {
                let fresh = RunRecorder::default();
                *recorder.lock() = fresh.clone();
                let judged = match &test_bed.guests {
                    Some(guests) => run_elsewhere(fixture, guests, options),
                    None => run_once(fixture, &test_bed, options, test_bed.context(&starts, timer), &fresh),
                };
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
        let fixture = &shared[index].0;
        let broken = |record: &RunRecord, message: &str| verdict::broken(fixture, record, message);
        let judged = match ended {
            JobOutcome::Returned(judged) => judged,
            JobOutcome::Panicked(text) => {
                let record = recorder_of(&shared, index).record();
                broken(&record, &format!("the fixture's run panicked: {text}"))
            }
            JobOutcome::Hung(limit) => {
                let recorder = recorder_of(&shared, index);
                starts.replace_permit_of(&recorder);
                let record = recorder.record();
                let seconds = limit.as_secs();
                let message = format!("hangs: still running after {seconds} s of wall time; its thread was abandoned");
                weighed(broken(&record, &message), &record, test_bed, options)
            }
        };
        done(index, judged)
    });
}

/// Returns true if the run failed because the subject could not listen on the port that was chosen for it.
fn lost_its_port(record: &RunRecord) -> bool {
    let says = |text: &str| text.to_ascii_lowercase().contains("address already in use");
    record.errors.iter().any(|error| matches!(**error, RunError::NotReady(_) | RunError::Ended { .. }))
        && (record.errors.iter().any(|error| says(&error.to_string())) || record.log.iter().any(|line| says(line)))
}

fn with_min_tolerance(mut fixture: Fixture, tolerance: Duration) -> Fixture {
    fixture.tolerance = fixture.tolerance.max(tolerance);
    fixture
}

/// Runs `fixture`, again if the subject could not listen on its port.
fn drive_with_port(fixture: &Fixture, context: drive::RunContext<'_>, recorder: &RunRecorder) {
    for _ in 0..PORT_TRIES {
        recorder.update(|record| *record = RunRecord::default());
        if let Err(error) = drive::run(fixture, context, recorder) {
            recorder.fail(RunError::Runtime(error));
        }
        if !recorder.update(|record| lost_its_port(record)) {
            return;
        }
    }
}

/// Number of tries for a subject whose port was taken by another process between its choice and its use.
const PORT_TRIES: usize = 3;

fn run_once(
    fixture: &Fixture,
    test_bed: &TestBed,
    options: RunOptions,
    context: drive::RunContext<'_>,
    recorder: &RunRecorder,
) -> JudgedRun {
    let stopwatch = Stopwatch::start();
    drive_with_port(fixture, context, recorder);
    let record = recorder.record();
    let mut judged = weighed(verdict::judge(fixture, &record), &record, test_bed, options);
    judged.report.wall_micros = micros(real(stopwatch.elapsed().saturating_sub(record.queued)));
    judged
}

/// Runs `fixture` in another process, in virtual time.
fn run_elsewhere(fixture: &Fixture, guests: &FixtureGuests, options: RunOptions) -> JudgedRun {
    let stopwatch = Stopwatch::start();
    match guests.run(fixture, options.keeps_records) {
        Ok(mut judged) => {
            judged.report.wall_micros = micros(stopwatch.elapsed());
            judged
        }
        Err(error) if error.is_of_the_program() => {
            let mut judged = verdict::broken(fixture, &RunRecord::default(), &error.to_string());
            judged.report.wall_micros = micros(stopwatch.elapsed());
            judged
        }
        Err(error) => {
            let mut judged = verdict::broken(fixture, &RunRecord::default(), "");
            judged.report = verdict::blank(fixture, Outcome::NotRun, error.to_string());
            judged
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns an elapsed time if the stopwatch ran in real time; zero where the whole process is in virtual time.
fn real(elapsed: Duration) -> Duration {
    if guest::is_inside() { Duration::ZERO } else { elapsed }
}

/// Marks the run as inconclusive if the machine was too busy for it to show anything, and adds the load to the report
/// of a run that did not pass.
fn weighed(mut judged: JudgedRun, record: &RunRecord, test_bed: &TestBed, options: RunOptions) -> JudgedRun {
    let is_interrupted = record.errors.iter().any(|error| matches!(**error, RunError::Interrupted(_)));
    let has_verdict = matches!(judged.report.outcome, Outcome::Pass | Outcome::Fail);
    if test_bed.cluster.is_virtual() || is_interrupted || !has_verdict {
        return judged;
    }
    let conditions = RunConditions {
        failed: judged.report.outcome == Outcome::Fail,
        alone: options.jobs == 1,
        tolerance: record.tolerance,
        first_request: options.start_cost.map(|cost| cost.first_request),
    };
    if let Some(why) = doubt(&record.load, conditions) {
        (judged.report.outcome, judged.report.reason) = (Outcome::Inconclusive, why);
    }
    if judged.report.outcome != Outcome::Pass {
        judged.report.load = Some(FixtureLoad::of(&record.load));
    }
    judged
}

/// Reports a fixture that passed on a retry, with the failure of an earlier attempt.
fn flaky(mut before: JudgedRun, attempt: u32) -> JudgedRun {
    before.report.outcome = Outcome::Flaky;
    before.report.reason = format!("passed at attempt {attempt}");
    before
}
