//! `plumbline replay`: runs the failures of an archive or folder of evidence again.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use plumbline::fixture::Fixture;

use super::environment::EnvironmentArgs;
use super::error::CliError;
use super::guests::FixturesApart;
use super::streams::notify;
use crate::conformance::archive::EvidenceSource;
use crate::conformance::evidence::{self, FixtureEvidence, ORIGIN_VERSION, RunOrigin};
use crate::exit::Exit;
use crate::fixtures::{self, OneFixtureError};
use crate::plan::{Filter, Plan};
use crate::report::{Event, Failure, FixtureReport, JudgedRun, Outcome, Reporter};
use crate::runner::suite::{self, TestBed};

/// The outcomes of fixtures that failed.
const FAILED: [&str; 2] = ["fail", "known-deviation"];

/// Flags of `replay`.
#[derive(Debug, clap::Args)]
pub(super) struct ReplayArgs {
    /// An archive that `run --evidence` or `publish` has written, or the folder of `conform --out`
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,

    /// Parts of ids of its fixtures [default: all]
    #[arg(value_name = "FIXTURE")]
    fixtures: Vec<String>,

    /// Run the command that the archive names. Only for archives whose origin you trust
    #[arg(long)]
    trust: bool,
}

/// Runs the verb.
pub(super) fn main(args: &ReplayArgs) -> Result<Exit, CliError> {
    let name = args.archive.display();
    let (origin, evidence) = read(args)?;
    let fixtures = evidence.iter().map(fixture).collect::<Result<Vec<_>, _>>()?;
    let arguments = EnvironmentArgs::read(&origin.flags)?;
    if let Some(command) = arguments.command().filter(|_| !args.trust) {
        return Err(CliError::Usage(format!(
            "{name} runs a command: {command}\n  next: read it, and add --trust if it may run on this machine"
        )));
    }
    let texts = evidence.iter().map(|one| (PathBuf::from(&one.file), one.text.clone())).collect();
    let environment = arguments.start_apart(false, FixturesApart { flags: &origin.flags, texts })?;
    for line in changed_environment(&origin, &environment.test_bed) {
        notify(&format!("plumbline: {line}"));
    }
    let mut offered = environment.test_bed.capabilities();
    offered.features.insert("*".to_owned());
    let plan = Plan::new(&fixtures, &offered, &Filter::default());
    let mut kept = TranscriptKeeper::default();
    let report = suite::run(&plan, &environment.test_bed, environment.options, &mut kept);
    environment.close()?;
    let report = report?;
    let mut exit = Exit::Ok;
    let mut out = super::streams::stdout();
    for before in &evidence {
        let now = report.fixtures.iter().find(|one| one.id == before.fixture);
        let now = now.ok_or_else(|| CliError::Nothing(format!("{} did not run", before.fixture)))?;
        let mut found = differences(before, now);
        let transcript = kept.transcripts.get(&now.id).map_or("", String::as_str);
        if origin.is_virtual && before.transcript != transcript {
            found.push(first_difference(&before.transcript, transcript));
        }
        show(now, origin.is_virtual, &found, &mut out)?;
        if !found.is_empty() {
            exit = Exit::Differ;
        }
    }
    Ok(exit)
}

/// Reads the archive: its origin, and the evidence of the selected fixtures.
fn read(args: &ReplayArgs) -> Result<(RunOrigin, Vec<FixtureEvidence>), CliError> {
    let name = args.archive.display();
    let refuted = |error: &dyn std::fmt::Display| CliError::Refuted(format!("{name}: {error}"));
    if let Err(error) = std::fs::metadata(&args.archive) {
        return Err(CliError::Environment(format!("unable to read {name}: {error}")));
    }
    let mut source = EvidenceSource::open(&args.archive).map_err(|error| refuted(&error))?;
    let origin = evidence::origin(&mut source).map_err(|error| refuted(&error))?.ok_or_else(|| {
        refuted(&"it does not say how its run was made, as what `run --evidence` and `conform` write does since 0.2.0")
    })?;
    let mut evidence = evidence::read(&mut source).map_err(|error| refuted(&error))?;
    let is_selected =
        |one: &FixtureEvidence| args.fixtures.is_empty() || args.fixtures.iter().any(|part| one.fixture.contains(part));
    // Others say less of the subject than of the machine.
    evidence.retain(|one| FAILED.contains(&one.outcome.as_str()));
    let why = if evidence.is_empty() { "no failures" } else { "no failure of such a fixture" };
    evidence.retain(is_selected);
    if evidence.is_empty() {
        return Err(CliError::Nothing(format!("{name} has {why}")));
    }
    Ok((origin, evidence))
}

/// Reads the fixture that the evidence has.
fn fixture(evidence: &FixtureEvidence) -> Result<Fixture, CliError> {
    let read = fixtures::read_one(&evidence.fixture, Path::new(&evidence.file), &evidence.text);
    read.map_err(|error| match error {
        OneFixtureError::Problems(problems) => CliError::BadFixtures(problems),
        OneFixtureError::Missing(_) => {
            CliError::Refuted(format!("fixture.yaml of {} has no such fixture", evidence.fixture))
        }
    })
}

/// Returns the differences between a failure and another run of its fixture, one per line; empty if it came out the
/// same.
fn differences(before: &FixtureEvidence, now: &FixtureReport) -> Vec<String> {
    let mut out = Vec::new();
    if now.outcome != Outcome::Fail {
        out.push(format!("outcome: {} before, {} now", Outcome::Fail.participle(), now.outcome.participle()));
    }
    let lines = |failures: &[Failure]| -> Vec<String> {
        failures.iter().map(|failure| failure.to_string().replace('\n', "; ")).collect()
    };
    let earlier = lines(&before.checks);
    let later = lines(&now.failures);
    out.extend(earlier.iter().filter(|line| !later.contains(line)).map(|line| format!("failed before only: {line}")));
    out.extend(later.iter().filter(|line| !earlier.contains(line)).map(|line| format!("fails now only: {line}")));
    out
}

/// Describes the origin of a run on `test_bed`, for its evidence.
pub(super) fn origin(test_bed: &TestBed, flags: &str) -> Result<RunOrigin, CliError> {
    let identity = test_bed.subject.identity().map_err(CliError::environment)?;
    let kubernetes = test_bed.cluster.kubernetes().map_err(CliError::environment)?;
    Ok(RunOrigin {
        api_version: ORIGIN_VERSION.to_owned(),
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

/// Returns what is not as in the archive.
fn changed_environment(before: &RunOrigin, test_bed: &TestBed) -> Vec<String> {
    let Ok(now) = origin(test_bed, &before.flags) else { return Vec::new() };
    let pairs = [
        ("plumbline", &before.plumbline, &now.plumbline),
        ("the API server", &before.kubernetes, &now.kubernetes),
        ("the subject", &before.identity, &now.identity),
    ];
    let mut lines: Vec<String> = pairs
        .iter()
        .filter(|(_, before, now)| before != now)
        .map(|(what, before, now)| format!("{what} was {before} in the archive and is {now} now"))
        .collect();
    if before.digest != now.digest {
        lines.push("the subject's program has changed since the archive was written".to_owned());
    }
    lines
}

/// Names the first line at which two transcripts differ.
fn first_difference(before: &str, now: &str) -> String {
    let mut a = before.lines();
    let mut b = now.lines();
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

fn show(now: &FixtureReport, is_virtual: bool, found: &[String], out: &mut impl Write) -> io::Result<()> {
    if found.is_empty() {
        let what = if is_virtual { "outcome, failures and transcript" } else { "outcome and failures" };
        writeln!(out, "{} came out the same: {what} are equal ({})", now.id, now.outcome.participle())?;
    } else {
        writeln!(out, "{} came out differently", now.id)?;
    }
    for difference in found {
        writeln!(out, "  {}", difference.replace('\n', "\n  "))?;
    }
    out.flush()
}

/// Keeps the transcript of each fixture.
#[derive(Default)]
struct TranscriptKeeper {
    transcripts: BTreeMap<String, String>,
}

impl Reporter for TranscriptKeeper {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        if let Event::Finished(JudgedRun { report, transcript, .. }) = event {
            self.transcripts.insert(report.id.clone(), transcript.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::canned;

    #[test]
    fn runs_differ_in_outcome_and_failures() {
        let failed = canned().fixtures[0].clone();
        let before = FixtureEvidence {
            fixture: failed.id.clone(),
            file: failed.file.clone(),
            text: String::new(),
            promise: failed.promise.clone(),
            outcome: "fail".to_owned(),
            checks: failed.failures.iter().map(|one| Failure { excerpt: String::new(), ..one.clone() }).collect(),
            failures: String::new(),
            transcript: failed.transcript.clone(),
        };
        assert_eq!(differences(&before, &failed), Vec::<String>::new());
        let passed = FixtureReport { outcome: Outcome::Pass, failures: Vec::new(), ..failed };
        let found = differences(&before, &passed);
        assert_eq!(found[0], "outcome: failed before, passed now");
        assert!(found[1].starts_with("failed before only: pods/a must exist until t=+59s; expected: "), "{found:?}");
    }
}
