//! `plumbline verify`: verifies that a conformance report is consistent.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::CliError;
use super::select::FixturesFolder;
use crate::conformance::manifest;
use crate::conformance::profile::Profiles;
use crate::conformance::report::ConformanceReport;
use crate::conformance::report_writer::NOT_RUN;
use crate::conformance::verify::{ReferenceSuite, verify};
use crate::digest;
use crate::exit::Exit;

/// Flags of `verify`.
#[derive(Debug, clap::Args)]
pub(super) struct VerifyArgs {
    /// Report to verify, YAML or JSON
    #[arg(value_name = "REPORT")]
    report: PathBuf,

    #[command(flatten)]
    folder: FixturesFolder,
}

/// Runs the verb.
pub(super) fn main(args: &VerifyArgs) -> Result<Exit, CliError> {
    let root = args.folder.find()?;
    let fixtures = args.folder.load()?;
    let profiles = Profiles::load(&root, &fixtures).map_err(CliError::BadFixtures)?;
    let digest = digest::suite(&root).map_err(|error| CliError::Environment(error.to_string()))?;
    let name = args.report.display();
    let text = std::fs::read_to_string(&args.report)
        .map_err(|error| CliError::Environment(format!("unable to read {name}: {error}")))?;
    let report = ConformanceReport::read(&text)
        .map_err(|error| CliError::Refuted(format!("{name} is not a conformance report: {error}")))?;
    let mut findings = verify(&report, ReferenceSuite { fixtures: &fixtures, profiles: &profiles, digest: &digest });
    // The evidence of a killed run may be incomplete.
    if report.fixtures.iter().all(|fixture| fixture.reason != NOT_RUN) {
        let beside = args.report.parent().unwrap_or(Path::new("."));
        findings
            .extend(manifest::check(beside, &report.digest).map_err(|error| CliError::Environment(error.to_string()))?);
    }
    if !findings.is_empty() {
        let told = findings.iter().map(|finding| format!("\n  {finding}")).collect::<Vec<_>>().concat();
        let things = if findings.len() == 1 { "problem" } else { "problems" };
        return Err(CliError::Refuted(format!("{name} is inconsistent, {} {things}:{told}", findings.len())));
    }
    let mut out = super::stdout();
    writeln!(
        out,
        "{name} is consistent: {} fixtures, suite {}, {}",
        report.fixtures.len(),
        report.suite.version,
        report.digest
    )?;
    for profile in &report.profiles {
        let verdict = if profile.conformant { "conformant" } else { "not conformant" };
        let why = if profile.conformant { String::new() } else { format!(": {}", profile.reasons.join(", ")) };
        writeln!(out, "  {:<16} {verdict}{why}", profile.name)?;
    }
    Ok(Exit::Ok)
}
