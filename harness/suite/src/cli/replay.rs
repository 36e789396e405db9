//! `plumbline replay`: runs the fixture of a capsule again.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use plumbline::fixture::{Fixture, Problems, parse};

use super::environment::EnvironmentArgs;
use super::{CliError, notify};
use crate::capsule::{self, Capsule, CapsuleOrigin};
use crate::exit::Exit;
use crate::plan::{Filter, Plan};
use crate::report::{Event, JudgedRun, Reporter};
use crate::runner::suite::{self, TestBed};

/// Flags of `replay`.
#[derive(Debug, clap::Args)]
pub(super) struct ReplayArgs {
    /// A capsule that `run --capsule` has written
    #[arg(value_name = "CAPSULE")]
    capsule: PathBuf,

    /// Run the command that the capsule names. Only for capsules whose origin you trust
    #[arg(long)]
    trust: bool,
}

/// Runs the verb.
pub(super) fn main(args: &ReplayArgs) -> Result<Exit, CliError> {
    let name = args.capsule.display();
    let (capsule, text) =
        capsule::read(&args.capsule).map_err(|error| CliError::Refuted(format!("{name}: {error}")))?;
    let fixture = fixture(&capsule, &text)?;
    let arguments = EnvironmentArgs::read(&capsule.origin.flags)?;
    if let Some(command) = arguments.command().filter(|_| !args.trust) {
        return Err(CliError::Usage(format!(
            "{name} runs a command: {command}\n  next: read it, and add --trust if it may run on this machine"
        )));
    }
    let environment = arguments.start(false)?;
    for line in changed_environment(&capsule.origin, &environment.arena) {
        notify(&format!("plumbline: {line}"));
    }
    let mut offered = environment.arena.capabilities();
    offered.features.insert("*".to_owned());
    let fixtures = [fixture];
    let plan = Plan::new(&fixtures, &offered, &Filter::default());
    let mut last = TranscriptKeeper::default();
    let report = suite::run(&plan, &environment.arena, environment.options, &mut last);
    environment.close()?;
    let report = report?;
    let now = report.fixtures.first().ok_or_else(|| CliError::Nothing("the fixture did not run".to_owned()))?;
    let mut found = capsule::differences(&capsule.report, now);
    if capsule.origin.is_virtual && capsule.report.transcript != last.transcript {
        found.push(first_difference(&capsule.report.transcript, &last.transcript));
    }
    show(&capsule, &found, &mut super::stdout())?;
    Ok(if found.is_empty() { Exit::Ok } else { Exit::Differ })
}

/// Reads the capsule's fixture.
fn fixture(capsule: &Capsule, text: &str) -> Result<Fixture, CliError> {
    let report = &capsule.report;
    let (fixtures, problems) = parse::read(Path::new(&report.file), &report.suite, text);
    if !problems.is_empty() {
        return Err(CliError::BadFixtures(Problems(problems)));
    }
    let missing = || CliError::Refuted(format!("the capsule's fixture.yaml has no fixture {}", report.id));
    fixtures.into_iter().find(|fixture| fixture.id == report.id).ok_or_else(missing)
}

/// Describes the origin of a run on `test_bed`, for capsules.
pub(super) fn origin(test_bed: &TestBed, flags: &str) -> Result<CapsuleOrigin, CliError> {
    let identity = test_bed.subject.identity().map_err(|error| CliError::Environment(error.to_string()))?;
    let kubernetes = test_bed.cluster.kubernetes().map_err(|error| CliError::Environment(error.to_string()))?;
    Ok(CapsuleOrigin {
        plumbline: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes,
        cluster: test_bed.cluster.name().to_owned(),
        subject: test_bed.subject.name().to_owned(),
        identity: identity.what,
        digest: identity.digest,
        flags: flags.to_owned(),
        is_virtual: test_bed.cluster.is_virtual(),
    })
}

/// Returns what is not as in the capsule.
fn changed_environment(before: &CapsuleOrigin, test_bed: &TestBed) -> Vec<String> {
    let Ok(now) = origin(test_bed, &before.flags) else { return Vec::new() };
    let pairs = [
        ("plumbline", &before.plumbline, &now.plumbline),
        ("the API server", &before.kubernetes, &now.kubernetes),
        ("the subject", &before.identity, &now.identity),
    ];
    let mut lines: Vec<String> = pairs
        .iter()
        .filter(|(_, before, now)| before != now)
        .map(|(what, before, now)| format!("{what} was {before} in the capsule and is {now} now"))
        .collect();
    if before.digest != now.digest {
        lines.push("the subject's program has changed since the capsule was written".to_owned());
    }
    lines
}

/// Names the first line at which two transcripts differ.
fn first_difference(before: &str, now: &str) -> String {
    let (mut a, mut b) = (before.lines(), now.lines());
    for number in 1.. {
        match (a.next(), b.next()) {
            (None, None) => break,
            (one, other) if one == other => {}
            (one, other) => {
                let text = |line: Option<&str>| line.unwrap_or("(the end)").trim_end().to_owned();
                return format!("transcript, line {number}:\n  before: {}\n  now:    {}", text(one), text(other));
            }
        }
    }
    "transcript: its line ends differ".to_owned()
}

fn show(capsule: &Capsule, found: &[String], out: &mut impl Write) -> io::Result<()> {
    let report = &capsule.report;
    if found.is_empty() {
        let what = if capsule.origin.is_virtual { "outcome, failures and transcript" } else { "outcome and failures" };
        writeln!(out, "{} came out the same: {what} are equal ({})", report.id, report.outcome.participle())?;
    } else {
        writeln!(out, "{} came out differently", report.id)?;
    }
    for difference in found {
        writeln!(out, "  {}", difference.replace('\n', "\n  "))?;
    }
    out.flush()
}

/// Keeps the transcript of the last run.
#[derive(Default)]
struct TranscriptKeeper {
    transcript: String,
}

impl Reporter for TranscriptKeeper {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        if let Event::Finished(JudgedRun { transcript, .. }) = event {
            self.transcript.clone_from(transcript);
        }
        Ok(())
    }
}
