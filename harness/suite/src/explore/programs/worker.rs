//! The process that runs one plan: this program again, inside a tracer in virtual time. It reads a job and writes
//! facts.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use plumbline::fixture::{Fixture, Problems, parse};
use plumbline::time::Stopwatch;
use plumbline::world::server_resources;

use super::job::{Ending, EndingKind, Facts, Scenario, WorkerJob};
use super::script::{self, ProgramScript};
use super::{loops, survey};
use crate::cluster::{Around, AroundError, Role, ServedCluster};
use crate::runner::drive::{self, RunContext};
use crate::runner::isolate::JobTimer;
use crate::runner::next::NextStep;
use crate::runner::{RunError, RunRecorder, StartLimit};
use crate::subject::command::Command;

/// The hidden verb: `__plan JOB FACTS`.
pub const VERB: &str = "__plan";

/// The mark in the id of a scenario that ends with one of its steps: `scenario/widgets~2`.
pub const BEGINNING: char = '~';

/// Virtual time without a write before a checkpoint.
const CALM: Duration = Duration::from_secs(20);

/// Time after the first checkpoint from which on a run whose program goes round in a loop is shortened, and the length
/// of its windows then.
const LEAST: Duration = Duration::from_secs(90);

/// A reason for which a worker has no facts.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The verb has other arguments than its two files.
    #[error("expected {VERB} JOB FACTS")]
    Arguments,
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The job or the facts are no JSON of this version.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The cluster around the program cannot be made.
    #[error(transparent)]
    Around(#[from] AroundError),
}

/// Entry point of the worker. `around` makes the cluster around the program.
///
/// # Errors
///
/// Returns an error if the job cannot be read or the facts cannot be written.
pub fn main(
    arguments: &[OsString],
    around: impl FnOnce(&[String]) -> Result<Around, AroundError>,
) -> Result<(), WorkerError> {
    let [job, facts] = arguments else { return Err(WorkerError::Arguments) };
    let file = |path: &OsString| {
        let path = PathBuf::from(path);
        move |source| WorkerError::File { path, source }
    };
    let job: WorkerJob = serde_json::from_slice(&std::fs::read(job).map_err(file(job))?)?;
    let around = around(&job.program.around)?;
    let text = serde_json::to_vec(&run(&job, Some(around)))?;
    std::fs::write(facts, text).map_err(file(facts))
}

/// Reads a scenario, with its manifests before its own objects.
///
/// # Errors
///
/// All problems of its text.
pub fn fixture(scenario: &Scenario) -> Result<Fixture, Problems> {
    let known = server_resources(&scenario.manifests);
    let mut fixture = parse::scenario(&scenario.file, &scenario.text, known)?;
    fixture.given.objects = scenario.manifests.iter().chain(fixture.given.objects.iter()).cloned().collect();
    if let Some(steps) = scenario.steps {
        fixture.steps.truncate(steps);
        fixture.id = format!("{}{BEGINNING}{steps}", fixture.id);
    }
    Ok(fixture)
}

/// Runs a job in this process.
#[must_use]
pub fn run(job: &WorkerJob, around: Option<Around>) -> Facts {
    let ended = |kind: EndingKind, text: String| Facts { ending: Some(Ending { kind, text }), ..Facts::default() };
    let prepared = fixture(&job.scenario)
        .map_err(|problems| problems.to_string())
        .and_then(|fixture| Ok((fixture, script::faults(job).map_err(|error| error.to_string())?)));
    let (fixture, faults) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return ended(EndingKind::Environment, why),
    };
    let role = match job.program.role.as_deref().map(Role::read).transpose() {
        Ok(role) => role,
        Err(why) => return ended(EndingKind::Environment, why.to_string()),
    };
    let cluster = ServedCluster { role, plain: job.program.http, around, ..ServedCluster::default() };
    let subject = Command {
        name: job.program.name.clone(),
        argv: job.program.argv.clone(),
        env: job.program.env.clone(),
        log_folder: job.logs.clone(),
        any: true,
        ..Command::default()
    };
    let script = script::script(&fixture, job, &faults);
    drive_and_survey(job, &cluster, &subject, &script)
}

fn drive_and_survey(job: &WorkerJob, cluster: &ServedCluster, subject: &Command, script: &ProgramScript) -> Facts {
    let watch = Stopwatch::start();
    let recorder = RunRecorder::default();
    let starts = StartLimit::new(1);
    let timer = JobTimer::default();
    let over_at = Cell::new(None);
    let saved = Cell::new(Duration::ZERO);
    let time = |step: usize| script.fixture.steps.get(step).map(|step| step.at).unwrap_or_default();
    let until = |step: usize| {
        let Some(expected) = job.expected.as_ref() else { return NextStep::AT_ITS_TIME };
        let at = time(step).saturating_sub(saved.get());
        let is_checkpoint = script.checkpoints.contains(&step);
        let is_over = recorder.update(|record| {
            let transcript = record.transcript.clone();
            is_checkpoint
                && record.exits.is_empty()
                && transcript.with(|entries| {
                    survey::is_calm(entries, at.saturating_sub(CALM), expected)
                        && expected.matches(&survey::state(record, entries, Some(expected)))
                })
        });
        if is_over {
            over_at.set(Some(step));
            return NextStep::None;
        }
        // The run goes on to show the end that another one has; a loop shows it soon.
        let next = time(step + 1).saturating_sub(time(step));
        let is_window = is_checkpoint || step >= script.converged;
        let loops =
            || recorder.update(|record| record.transcript.with(|entries| loops::goes_round(entries, at, expected)));
        if !is_window || at.saturating_sub(time(script.checkpoints[0])) < LEAST || next <= LEAST || !loops() {
            return NextStep::AT_ITS_TIME;
        }
        let kept = if step < script.converged { Duration::ZERO } else { LEAST };
        let by = next.saturating_sub(kept);
        saved.set(saved.get() + by);
        NextStep::Sooner(by)
    };
    let context = RunContext { cluster, subject, starts: &starts, timer: &timer, until: Some(&until) };
    if let Err(error) = drive::run(&script.fixture, context, &recorder) {
        recorder.fail(RunError::Runtime(error));
    }
    let record = recorder.record();
    let deliveries = record.transcript.deliveries();
    let mut facts = survey::survey(script, &record, &deliveries, over_at.get(), job.expected.as_ref());
    facts.wall = u64::try_from(watch.elapsed().as_micros()).unwrap_or(u64::MAX);
    facts
}
