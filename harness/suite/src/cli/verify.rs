//! `plumbline verify`: verifies that conformance reports are consistent. `plumbline publish`: copies one to the
//! published reports.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use plumbline::fixture::{Fixture, parse};

use super::error::CliError;
use super::select::FixturesFolder;
use crate::conformance::history::{self, FormerFixturesError};
use crate::conformance::profile::Profiles;
use crate::conformance::publish::{self, PublishError};
use crate::conformance::report::ConformanceReport;
use crate::conformance::report_writer::{NOT_RUN, YAML};
use crate::conformance::slim;
use crate::conformance::slim::EvidenceAtHand;
use crate::conformance::tested_program::{self, OwnPrograms};
use crate::conformance::verify::{ReferenceSuite, verify};
use crate::digest;
use crate::exit::Exit;

/// Flags of `verify`.
#[derive(Debug, clap::Args)]
pub(super) struct VerifyArgs {
    /// Reports to verify, YAML or JSON, or the folders of runs. One of an earlier suite is compared with the fixtures
    /// of its commit, if the fixtures folder is in a git repository with that commit
    #[arg(value_name = "REPORT", required = true)]
    reports: Vec<PathBuf>,

    #[command(flatten)]
    folder: FixturesFolder,
}

/// Flags of `publish`.
#[derive(Debug, clap::Args)]
pub(super) struct PublishArgs {
    /// `report.yaml` of a run, next to its evidence
    #[arg(value_name = "REPORT")]
    report: PathBuf,

    /// Folder of the published reports: `<Kubernetes version>/<project>/report.yaml`
    #[arg(long, value_name = "DIR", default_value = publish::FOLDER)]
    to: PathBuf,

    #[command(flatten)]
    folder: FixturesFolder,
}

/// The fixtures that reports are compared with.
struct ReferenceFixtures {
    root: PathBuf,
    fixtures: Vec<Fixture>,
    profiles: Profiles,
    digest: String,
    own: OwnPrograms,
}

impl ReferenceFixtures {
    fn load(root: PathBuf) -> Result<Self, CliError> {
        let fixtures = parse::load(&root).map_err(CliError::BadFixtures)?;
        let profiles = Profiles::load(&root, &fixtures).map_err(CliError::BadFixtures)?;
        let digest = digest::suite(&root).map_err(CliError::environment)?;
        Ok(Self { root, fixtures, profiles, digest, own: OwnPrograms::at_hand() })
    }

    fn suite(&self) -> ReferenceSuite<'_> {
        ReferenceSuite { fixtures: &self.fixtures, profiles: &self.profiles, digest: &self.digest, own: &self.own }
    }

    /// Returns the fixtures of the commit that the report names, if it is of another suite.
    ///
    /// # Errors
    ///
    /// Returns the reason if that commit or its fixtures cannot be read.
    fn former(&self, report: &ConformanceReport, scratch: &Path) -> Result<Option<Self>, FormerFixturesError> {
        let suite = &report.suite;
        let Some(commit) = suite.commit.as_deref().filter(|_| suite.digest != self.digest && !suite.modified) else {
            return Ok(None);
        };
        let root = history::fixtures_at(&self.root, commit, &suite.digest, scratch)?;
        Self::load(root).map(Some).map_err(|_| FormerFixturesError::Unreadable(commit.to_owned()))
    }
}

/// Runs `verify`.
pub(super) fn main(args: &VerifyArgs) -> Result<Exit, CliError> {
    let reference = ReferenceFixtures::load(args.folder.find()?)?;
    let mut refused = Vec::new();
    for path in &args.reports {
        match checked(path, &reference) {
            Ok(consistent) => consistent.describe(path)?,
            Err(CliError::Refuted(why)) => refused.push(why),
            Err(error) => return Err(error),
        }
    }
    if refused.is_empty() { Ok(Exit::Ok) } else { Err(CliError::Refuted(refused.join("\n"))) }
}

/// Runs `publish`.
pub(super) fn publish(args: &PublishArgs) -> Result<Exit, CliError> {
    if args.report.file_name().is_none_or(|name| name != YAML) {
        let message = format!("{}: name the file {YAML} of a run, next to its evidence", args.report.display());
        return Err(CliError::Usage(message));
    }
    let report = checked(&args.report, &ReferenceFixtures::load(args.folder.find()?)?)?.report;
    let from = args.report.parent().unwrap_or(Path::new("."));
    let home = publish::publish(&report, from, &args.to).map_err(|error| match error {
        PublishError::Refused(_) => CliError::Refuted(error.to_string()),
        PublishError::Io { .. } => CliError::environment(error),
    })?;
    writeln!(super::streams::stdout(), "{}", home.join(YAML).display())?;
    Ok(Exit::Ok)
}

/// A report that is consistent.
struct ConsistentReport {
    report: ConformanceReport,
    /// A word about its suite.
    suite: String,
    evidence: EvidenceAtHand,
}

/// Reads and verifies the report at `path`.
fn checked(path: &Path, reference: &ReferenceFixtures) -> Result<ConsistentReport, CliError> {
    let of_folder = path.is_dir().then(|| path.join(YAML));
    let path = of_folder.as_deref().unwrap_or(path);
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| CliError::Environment(format!("unable to read {name}: {error}")))?;
    let report = ConformanceReport::read(&text).map_err(|error| {
        let why = if is_run_report(&text) {
            "it is a RunReport of `plumbline run`, which may be of a focused run; write one with `plumbline conform`"
        } else {
            &error.to_string()
        };
        CliError::Refuted(format!("{name} is not a conformance report: {why}"))
    })?;
    let scratch = tempfile::tempdir()
        .map_err(|error| CliError::Environment(format!("unable to create a temporary folder: {error}")))?;
    let (former, reason) = match reference.former(&report, scratch.path()) {
        Ok(former) => (former, String::new()),
        Err(error @ (FormerFixturesError::Git(_) | FormerFixturesError::Folder { .. })) => {
            return Err(CliError::Environment(format!(
                "unable to verify {name} with the fixtures of its commit: {error}"
            )));
        }
        Err(reason) => (None, format!("\n  {reason}")),
    };
    let mut findings = verify(&report, former.as_ref().unwrap_or(reference).suite());
    let mut evidence = EvidenceAtHand::Nothing;
    // The evidence of a killed run may be incomplete.
    if report.fixtures.iter().all(|fixture| fixture.reason != NOT_RUN) {
        let beside = path.parent().unwrap_or(Path::new("."));
        let (problems, at_hand) = slim::check(beside, &report).map_err(CliError::environment)?;
        findings.extend(problems);
        evidence = at_hand;
    }
    if !findings.is_empty() {
        let lines = findings.iter().map(|finding| format!("\n  {finding}")).collect::<Vec<_>>().concat();
        let things = if findings.len() == 1 { "problem" } else { "problems" };
        let message = format!("{name} is inconsistent, {} {things}:{lines}{reason}", findings.len());
        return Err(CliError::Refuted(message));
    }
    let commit = report.suite.commit.as_deref().filter(|_| former.is_some());
    let suite = commit.map_or_else(|| report.suite.version.clone(), |at| format!("{} at {at}", report.suite.version));
    Ok(ConsistentReport { report, suite, evidence })
}

impl ConsistentReport {
    fn describe(&self, path: &Path) -> Result<(), CliError> {
        let Self { report, suite, evidence } = self;
        let mut out = super::streams::stdout();
        let name = path.display();
        let fixtures = report.fixtures.len();
        writeln!(out, "{name} is consistent: {fixtures} fixtures, suite {suite}, {}", report.digest)?;
        for profile in &report.profiles {
            let verdict = if profile.conformant { "conformant" } else { "not conformant" };
            let why = if profile.conformant { String::new() } else { format!(": {}", profile.reasons.join(", ")) };
            writeln!(out, "  {:<16} {verdict}{why}", profile.name)?;
        }
        if let Some(line) = tested_program::not_shown(&report.implementation, &report.subject) {
            writeln!(out, "  {line}")?;
        }
        match evidence {
            EvidenceAtHand::Nothing => writeln!(out, "  no evidence is next to it")?,
            EvidenceAtHand::Everything(at) => writeln!(out, "  all evidence is that of this report: {}", at.display())?,
            EvidenceAtHand::Published(archive) => writeln!(
                out,
                "  summary, causes and transcripts are those of this report; the archive of all evidence is not at hand: {}",
                archive.display()
            )?,
        }
        Ok(())
    }
}

/// Returns true for the JSON document of `plumbline run`.
fn is_run_report(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok_and(|value| value["kind"] == "RunReport")
}
