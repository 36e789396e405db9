//! `plumbline conform`: tests an implementation and writes its conformance report.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use plumbline::fixture::{Controller, Fixture};

use super::colour::ColourArgs;
use super::environment::{EnvironmentArgs, SubjectKind};
use super::error::CliError;
use super::guests::FixturesApart;
use super::select::FixturesFolder;
use super::site::SiteAfterRun;
use super::streams::notify;
use super::{environment, output_file, replay};
use crate::conformance::archive::EVIDENCE;
use crate::conformance::deviations::{self, Deviation};
use crate::conformance::history;
use crate::conformance::implementation::Implementation;
use crate::conformance::profile::{ALL, Profiles};
use crate::conformance::report::{
    ConformanceOutcome, ConformanceReport, OutcomeCounts, ProfileSummary, Suite, TestedSubject,
};
use crate::conformance::report_writer::{JSON, JUNIT, ReportWriter, YAML};
use crate::conformance::template::{self, ReportInput};
use crate::conformance::tested_program::{self, OwnPrograms};
use crate::digest;
use crate::exit::Exit;
use crate::html::Html;
use crate::plan::{Filter, Plan};
use crate::process::signals;
use crate::report::terminal::Terminal;
use crate::report::{Event, Reporter, grouping};
use crate::runner::suite;
use crate::subject::command;

/// Flags of `conform`.
#[derive(Debug, clap::Args)]
pub(super) struct ConformArgs {
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

    /// Format of an additional report
    #[arg(long, value_enum, requires = "output")]
    format: Option<PageFormat>,

    /// Write the additional report to this file
    #[arg(long, short, value_name = "FILE", requires = "format")]
    output: Option<PathBuf>,

    /// Also make a website in this folder, of this report and those in harness/reports, if there are any; a site that
    /// is there is replaced
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,

    #[command(flatten)]
    folder: FixturesFolder,

    #[command(flatten)]
    colour: ColourArgs,

    #[command(flatten)]
    pub(super) environment: EnvironmentArgs,
}

/// Formats of an additional report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PageFormat {
    /// One HTML page with a timeline of each fixture
    Html,
}

/// The input files, read before anything starts.
struct ConformInputs {
    claim: Implementation,
    profiles: Profiles,
    /// Fixtures of the profile.
    fixtures: Vec<Fixture>,
    /// Known deviations that apply to these fixtures.
    deviations: Vec<Deviation>,
    suite: Suite,
}

/// Runs the verb. `explain_flags` are the flags with which `explain` runs the same subject on the same fixtures.
pub(super) fn main(args: &ConformArgs, explain_flags: &str) -> Result<Exit, CliError> {
    let claim = Implementation::load(&args.implementation).map_err(CliError::BadFixtures)?;
    // Before all fixtures are read, which takes a while.
    let own = OwnPrograms::at_hand();
    check_subject(args, &claim, &own)?;
    let mut given = read(args, claim)?;
    if args.environment.names_features() {
        let message =
            format!("--features cannot be used with `conform`: declare them in {}", args.implementation.display());
        return Err(CliError::Usage(message));
    }
    if !args.environment.tolerance().is_zero() {
        let message = "--tolerance cannot be used with `conform`, which applies the fixtures' tolerances; remove it \
                       (`run --tolerance` shows the results on a slow machine)";
        return Err(CliError::Usage(message.to_owned()));
    }
    if let Some(path) = &args.output {
        output_file::ensure_writable(output_file::OUTPUT, path)?;
    }
    let made = args.out.join(YAML);
    let site = args.site.as_ref().map(|folder| SiteAfterRun::new(folder, &made)).transpose()?;
    output_file::ensure_writable_folder("--out", &args.out)?;
    let of_profile = Controller::parse(&args.profile);
    let added = of_profile.filter(|_| args.environment.takes_controllers_from_profile());
    let added = added.map_or_else(String::new, |controller| format!(" --subject-controllers {controller}"));
    let flags = format!("{explain_flags}{added}");
    let apart = FixturesApart { flags: &flags, ..FixturesApart::default() };
    let mut environment = args.environment.for_profile(of_profile).start_apart(false, apart)?;
    environment.options.keeps_records = args.output.is_some();
    let mut offered = environment.test_bed.capabilities();
    if let Some(release) = offered.release {
        given.fixtures.retain(|fixture| fixture.releases.contains(release));
        let covers = |deviation: &Deviation| given.fixtures.iter().any(|fixture| deviation.covers(&fixture.id));
        given.deviations.retain(covers);
    }
    let blank = blank(args, &given, &environment)?;
    offered.features = given.claim.features.iter().cloned().collect();
    let plan = Plan::new(&given.fixtures, &offered, &Filter::default());
    let flags = environment.with_seed(flags.trim_start());
    let origin = replay::origin(&environment.test_bed, &flags)?;
    let writer = ReportWriter::create(blank, &origin, &args.out).map_err(CliError::environment)?;
    let progress = io::stderr().is_terminal();
    let terminal = Terminal::new(io::stderr().lock(), args.colour.is_on(progress), progress);
    let terminal = terminal.with_explain_flags(&flags);
    let title = format!("plumbline: {} {}", given.claim.project, given.claim.version);
    let page = |file| Ok::<_, CliError>(Html::new(output_file::create(Some(file))?, &title, &given.fixtures));
    let page = args.output.as_deref().map(page).transpose()?;
    let mut all = ConformReporter { writer, terminal: terminal.with_page(args.output.as_deref()), page };
    let run = suite::run(&plan, &environment.test_bed, environment.options, &mut all);
    let mut writer = all.writer;
    drop(all.terminal);
    writer.keep_server_logs(&environment.logs_of_broken_cluster())?;
    let closed = environment.close();
    run?;
    // What an interrupted run has shown is shown, too.
    if closed.is_ok() || signals::requested().is_some() {
        summary(&writer, &args.out)?;
        site.map_or(Ok(()), |site| site.make(&made))?;
    }
    closed?;
    let report = writer.report();
    // What its clients call themselves shows only when they have sent requests.
    let problems = tested_program::problems(&report.implementation, &report.subject, &own);
    if let Some((field, why)) = problems.first() {
        return Err(CliError::Refuted(format!("{}: {field} {why}; `verify` refuses it", made.display())));
    }
    exit(report)
}

/// Refuses to judge our own controllers in the name of another implementation, and a run without a subject.
fn check_subject(args: &ConformArgs, claim: &Implementation, own: &OwnPrograms) -> Result<(), CliError> {
    let why = match args.environment.named_subject() {
        Some(SubjectKind::External) => return Ok(()),
        Some(SubjectKind::Command) => return check_program(args, claim, own),
        Some(SubjectKind::InProcess) if claim.is_own() => return Ok(()),
        Some(SubjectKind::InProcess) => format!(
            "--subject in-process is Plumbline's own implementation, and {} describes {}: name its program with \
             --command '…'",
            args.implementation.display(),
            claim.project
        ),
        Some(SubjectKind::None) => "--subject none leaves nothing to judge: use --command '…'".to_owned(),
        None => format!(
            "`conform` judges an implementation: name the program of {} with --command '…', or use --subject external \
             for controllers that run in the cluster",
            claim.project
        ),
    };
    Err(CliError::Usage(why))
}

/// Refuses a program that is not the implementation's, as far as its command line and its file show it.
fn check_program(args: &ConformArgs, claim: &Implementation, own: &OwnPrograms) -> Result<(), CliError> {
    let Some(what) = args.environment.command() else { return Ok(()) };
    let (program, _) = environment::command_line(what)?;
    let subject = TestedSubject {
        kind: command::KIND.to_owned(),
        what: what.to_owned(),
        // What cannot be read does not start either, which is said then.
        digest: digest::program(&program).and_then(|file| digest::file(&file).ok()),
        ..TestedSubject::default()
    };
    match tested_program::problems(claim, &subject, own).as_slice() {
        [] => Ok(()),
        [(field, why), ..] => {
            let word = if *field == "subject.what" { "--command" } else { "the digest of the program of --command" };
            Err(CliError::Usage(format!("{word} {why} ({} describes it)", args.implementation.display())))
        }
    }
}

/// Forwards events to the report, to the terminal on standard error, and to the additional report.
struct ConformReporter<W> {
    writer: ReportWriter,
    terminal: Terminal<W>,
    page: Option<Html<Box<dyn Write>>>,
}

impl<W: Write> Reporter for ConformReporter<W> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        self.writer.event(event)?;
        self.page.as_mut().map_or(Ok(()), |page| page.event(event))?;
        self.terminal.event(event)
    }
}

fn read(args: &ConformArgs, claim: Implementation) -> Result<ConformInputs, CliError> {
    let root = args.folder.find()?;
    let all = args.folder.load()?;
    let profiles = Profiles::load(&root, &all).map_err(CliError::BadFixtures)?;
    if !profiles.has(&args.profile) {
        let known = profiles.names().join(", ");
        return Err(CliError::Usage(format!("--profile: unknown profile `{}`; known: {known}", args.profile)));
    }
    let usual = root.join("deviations").join(format!("{}.yaml", claim.project));
    let file = args.deviations.clone().or_else(|| usual.is_file().then_some(usual));
    let known =
        file.map_or_else(|| Ok(Vec::new()), |file| deviations::load(&file, &all)).map_err(CliError::BadFixtures)?;
    let commit = history::commit_of(&root);
    let suite = Suite {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        digest: digest::suite(&root).map_err(CliError::environment)?,
        modified: commit.as_ref().is_some_and(|at| at.modified),
        commit: commit.map(|at| at.commit),
    };
    let fixtures: Vec<Fixture> =
        all.into_iter().filter(|fixture| profiles.selects(&args.profile, &fixture.id)).collect();
    let speaks = |deviation: &Deviation| fixtures.iter().any(|fixture| deviation.covers(&fixture.id));
    let deviations = known.into_iter().filter(speaks).collect();
    Ok(ConformInputs { claim, profiles, fixtures, deviations, suite })
}

/// Creates the report before the first fixture.
fn blank(
    args: &ConformArgs,
    given: &ConformInputs,
    environment: &environment::Environment,
) -> Result<ConformanceReport, CliError> {
    let report_input = ReportInput {
        implementation: &given.claim,
        profile: &args.profile,
        profiles: &given.profiles,
        fixtures: &given.fixtures,
        deviations: &given.deviations,
        suite: &given.suite,
    };
    template::not_run_report(report_input, &environment.test_bed).map_err(CliError::environment)
}

/// Prints the results and the paths of the output files.
fn summary(writer: &ReportWriter, folder: &Path) -> io::Result<()> {
    let report = writer.report();
    let mut out = super::streams::stdout();
    let claim = &report.implementation;
    let subject = &report.subject;
    writeln!(
        out,
        "{} {} ({}) on {} {}\n",
        claim.project, claim.version, subject.name, report.cluster.name, report.kubernetes_version
    )?;
    for profile in &report.profiles {
        profile_lines(profile, &mut out)?;
    }
    let word = |outcome| match outcome {
        ConformanceOutcome::Fail => "FAIL",
        ConformanceOutcome::KnownDeviation => "known",
        ConformanceOutcome::Inconclusive => "unsure",
        _ => "flaky",
    };
    let listed = [
        ConformanceOutcome::Fail,
        ConformanceOutcome::Inconclusive,
        ConformanceOutcome::KnownDeviation,
        ConformanceOutcome::Flaky,
    ];
    for outcome in listed {
        for fixture in report.with(outcome) {
            let reason = if fixture.reason.is_empty() { String::new() } else { format!(": {}", fixture.reason) };
            writeln!(out, "{:<6} {} ({}){reason}", word(outcome), fixture.id, fixture.level)?;
        }
    }
    if report.with(ConformanceOutcome::KnownDeviation).any(|fixture| fixture.level == "core") {
        writeln!(out, "Known deviations in core fixtures still prevent conformance.")?;
    }
    if report.with(ConformanceOutcome::Inconclusive).next().is_some() {
        writeln!(
            out,
            "Inconclusive fixtures prevent conformance: run again when the machine is less busy, or with -j 1."
        )?;
    }
    for write in grouping::bystander_writes(report.fixtures.iter().map(|fixture| fixture.bystanders.as_slice())) {
        writeln!(out, "others {write}, not judged")?;
    }
    let at = |name: &str| folder.join(name).display().to_string();
    writeln!(out, "\nreport    {} (with {JSON} and {JUNIT})", at(YAML))?;
    if writer.evidence() > 0 {
        writeln!(out, "evidence  {}", at(&format!("{EVIDENCE}/index.yaml")))?;
        let trust = if subject.kind == command::KIND { " --trust" } else { "" };
        writeln!(out, "again     plumbline replay{trust} {}", shell_words::quote(&folder.display().to_string()))?;
    }
    writeln!(out, "digest    {}", report.digest)
}

fn profile_lines(profile: &ProfileSummary, out: &mut impl Write) -> io::Result<()> {
    let verdict = if profile.conformant { "✓ conformant" } else { "✗ not conformant" };
    let why = if profile.conformant { String::new() } else { format!(": {}", profile.reasons.join(", ")) };
    writeln!(out, "{:<16} {verdict}{why}", profile.name)?;
    for (level, counts) in &profile.levels {
        writeln!(out, "  {level:<12}   {}", OutcomeCounts::tally(*counts))?;
    }
    if let Some(line) = profile.idle_line() {
        writeln!(out, "  {line}")?;
    }
    if !profile.failed_features.is_empty() {
        writeln!(out, "  declared, but failed: {}", profile.failed_features.join(", "))?;
    }
    Ok(())
}

/// Returns the exit code of the report.
fn exit(report: &ConformanceReport) -> Result<Exit, CliError> {
    let unneeded = deviations::unneeded(&report.deviations, &report.fixtures);
    if !unneeded.is_empty() {
        let line = |entry: &Deviation| format!("\n  {}: all of its fixtures passed; remove the entry", entry.fixtures);
        let lines = unneeded.iter().map(|entry| line(entry)).collect::<Vec<_>>().concat();
        if report.is_success() {
            return Err(CliError::Refuted(format!("known deviations that did not occur:{lines}")));
        }
        notify(&format!("plumbline: known deviations that did not occur:{lines}"));
    }
    Ok(if report.is_success() {
        Exit::Ok
    } else if report.is_inconclusive() {
        Exit::Inconclusive
    } else {
        Exit::FixturesFailed
    })
}
