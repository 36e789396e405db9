//! `plumbline conform`: tests an implementation and writes its conformance report.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::place::PlaceArgs;
use super::select::Folder;
use super::{Error, place, talk};
use crate::conformance::begin::{self, Scope};
use crate::conformance::claim::Implementation;
use crate::conformance::deviations::{self, Deviation};
use crate::conformance::digest;
use crate::conformance::profile::{ALL, Profiles};
use crate::conformance::record::{EVIDENCE, JSON, JUNIT, Record, YAML};
use crate::conformance::report::{ConformanceReport, Counts, Outcome, Suite, Summary};
use crate::exit::Exit;
use crate::fixture::Fixture;
use crate::plan::{Filter, Plan};
use crate::report::terminal::Terminal;
use crate::report::{Event, Reporter};
use crate::runner::suite;

/// Flags of `conform`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File that describes the implementation: organization, project, url, version, contacts, features
    #[arg(long, value_name = "FILE")]
    implementation: PathBuf,

    /// Profile to conform to: disruption, podgc, taint-eviction, ttl, all
    #[arg(long, value_name = "PROFILE", default_value = ALL)]
    profile: String,

    /// File of known deviations [default: `deviations/<project>.yaml` in the fixtures folder, if it exists]
    #[arg(long, value_name = "FILE")]
    deviations: Option<PathBuf>,

    /// Output folder for the report, the JUnit file and the evidence
    #[arg(long, value_name = "DIR", default_value = "conformance")]
    out: PathBuf,

    #[command(flatten)]
    folder: Folder,

    #[command(flatten)]
    place: PlaceArgs,
}

/// The input files, read before anything starts.
struct Given {
    claim: Implementation,
    profiles: Profiles,
    /// Fixtures of the profile.
    fixtures: Vec<Fixture>,
    /// Known deviations that apply to these fixtures.
    deviations: Vec<Deviation>,
    suite: Suite,
}

/// Runs the verb.
pub(super) fn main(args: &Args) -> Result<Exit, Error> {
    let given = read(args)?;
    if args.place.names_features() {
        let message =
            format!("--features cannot be used with `conform`: declare them in {}", args.implementation.display());
        return Err(Error::Usage(message));
    }
    if !args.place.tolerance().is_zero() {
        let message = "--tolerance cannot be used with `conform`, which applies the fixtures' tolerances; remove it (`run --tolerance` \
                       shows the results on a slow machine)";
        return Err(Error::Usage(message.to_owned()));
    }
    let place = args.place.start(false)?;
    let blank = blank(args, &given, &place)?;
    let mut offered = place.arena.capabilities();
    offered.features = given.claim.features.iter().cloned().collect();
    let plan = Plan::new(&given.fixtures, &offered, &Filter::default());
    let record = Record::begin(blank, &args.out).map_err(Error::Environment)?;
    let progress = io::stderr().is_terminal();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let mut both = Both { record, terminal: Terminal::new(io::stderr().lock(), progress && !plain, progress) };
    let run = suite::run(&plan, &place.arena, place.options, &mut both);
    let mut record = both.record;
    drop(both.terminal);
    record.keep_server_logs(&place.logs_of_broken_cluster())?;
    place.close()?;
    run?;
    summary(&record, &args.out)?;
    exit(record.report())
}

/// Forwards events to the report and to the terminal on standard error.
struct Both<W> {
    record: Record,
    terminal: Terminal<W>,
}

impl<W: Write> Reporter for Both<W> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        self.record.event(event)?;
        self.terminal.event(event)
    }
}

fn read(args: &Args) -> Result<Given, Error> {
    let claim = Implementation::load(&args.implementation).map_err(Error::BadFixtures)?;
    let root = args.folder.find()?;
    let all = args.folder.load()?;
    let profiles = Profiles::load(&root, &all).map_err(Error::BadFixtures)?;
    if !profiles.has(&args.profile) {
        let known = profiles.names().join(", ");
        return Err(Error::Usage(format!("--profile: unknown profile `{}`; known: {known}", args.profile)));
    }
    let usual = root.join("deviations").join(format!("{}.yaml", claim.project));
    let file = args.deviations.clone().or_else(|| usual.is_file().then_some(usual));
    let known =
        file.map_or_else(|| Ok(Vec::new()), |file| deviations::load(&file, &all)).map_err(Error::BadFixtures)?;
    let suite = Suite {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        digest: digest::suite(&root).map_err(Error::Environment)?,
    };
    let fixtures: Vec<Fixture> =
        all.into_iter().filter(|fixture| profiles.selects(&args.profile, &fixture.id)).collect();
    let speaks = |deviation: &Deviation| fixtures.iter().any(|fixture| deviation.covers(&fixture.id));
    let deviations = known.into_iter().filter(speaks).collect();
    Ok(Given { claim, profiles, fixtures, deviations, suite })
}

/// Creates the report before the first fixture.
fn blank(args: &Args, given: &Given, place: &place::Place) -> Result<ConformanceReport, Error> {
    let scope = Scope {
        implementation: &given.claim,
        profile: &args.profile,
        profiles: &given.profiles,
        fixtures: &given.fixtures,
        deviations: &given.deviations,
        suite: &given.suite,
    };
    begin::blank(scope, &place.arena).map_err(Error::Environment)
}

/// Prints the results and the paths of the output files.
fn summary(record: &Record, folder: &Path) -> io::Result<()> {
    let report = record.report();
    let mut out = io::stdout().lock();
    let (claim, subject) = (&report.implementation, &report.subject);
    writeln!(
        out,
        "{} {} ({}) on {} {}\n",
        claim.project, claim.version, subject.name, report.cluster.name, report.kubernetes_version
    )?;
    for profile in &report.profiles {
        profile_lines(profile, &mut out)?;
    }
    let word = |outcome| match outcome {
        Outcome::Fail => "FAIL",
        Outcome::KnownDeviation => "known",
        _ => "flaky",
    };
    for outcome in [Outcome::Fail, Outcome::KnownDeviation, Outcome::Flaky] {
        for fixture in report.with(outcome) {
            let reason = if fixture.reason.is_empty() { String::new() } else { format!(": {}", fixture.reason) };
            writeln!(out, "{:<6} {} ({}){reason}", word(outcome), fixture.id, fixture.level)?;
        }
    }
    if report.with(Outcome::KnownDeviation).any(|fixture| fixture.level == "core") {
        writeln!(out, "Known deviations in core fixtures still prevent conformance.")?;
    }
    let at = |name: &str| folder.join(name).display().to_string();
    writeln!(out, "\nreport    {} (with {JSON} and {JUNIT})", at(YAML))?;
    if record.evidence() > 0 {
        writeln!(out, "evidence  {}", at(&format!("{EVIDENCE}/index.yaml")))?;
    }
    writeln!(out, "digest    {}", report.digest)
}

fn profile_lines(profile: &Summary, out: &mut impl Write) -> io::Result<()> {
    let verdict = if profile.conformant { "✓ conformant" } else { "✗ not conformant" };
    let why = if profile.conformant { String::new() } else { format!(": {}", profile.reasons.join(", ")) };
    writeln!(out, "{:<16} {verdict}{why}", profile.name)?;
    for (level, counts) in &profile.levels {
        writeln!(out, "  {level:<12}   {}", Counts::tally(*counts))?;
    }
    if !profile.failed_features.is_empty() {
        writeln!(out, "  declared, but failed: {}", profile.failed_features.join(", "))?;
    }
    Ok(())
}

/// Returns the exit code of the report.
fn exit(report: &ConformanceReport) -> Result<Exit, Error> {
    let unneeded = deviations::unneeded(&report.deviations, &report.fixtures);
    if !unneeded.is_empty() {
        let line = |entry: &Deviation| format!("\n  {}: all of its fixtures passed; remove the entry", entry.fixtures);
        let told = unneeded.iter().map(|entry| line(entry)).collect::<Vec<_>>().concat();
        if report.is_success() {
            return Err(Error::Refuted(format!("known deviations that did not occur:{told}")));
        }
        talk(&format!("plumbline: known deviations that did not occur:{told}"));
    }
    Ok(if report.is_success() { Exit::Ok } else { Exit::FixturesFailed })
}
