//! `plumbline explain`: a fixture in detail: promise, steps, and the transcript of a run.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use plumbline::fixture::Fixture;

use super::environment::EnvironmentArgs;
use super::error::CliError;
use super::guests::FixturesApart;
use super::select::{FixturesFolder, Selection};
use super::streams::notify;
use super::{output_file, run};
use crate::exit::Exit;
use crate::html::Html;
use crate::plan::{Capabilities, Filter, Plan};
use crate::report::{Event, FixtureReport, Outcome, Reporter};
use crate::runner::suite::{self, TestBed, TranscriptSelection};

/// Maximum number of fixtures to explain.
const LIMIT: usize = 20;

/// Flags of `explain`.
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    /// The fixture's id, or a filter as for `run`
    #[arg(value_name = "FIXTURE")]
    fixture: String,

    #[command(flatten)]
    folder: FixturesFolder,

    /// Format of the explanation
    #[arg(long, value_enum, default_value_t = ExplainFormat::Human)]
    format: ExplainFormat,

    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    pub(super) environment: EnvironmentArgs,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExplainFormat {
    /// Text for a terminal
    Human,
    /// One HTML page with a timeline of each fixture
    Html,
}

/// Runs the verb. `flags` are those that select subject and cluster.
pub(super) fn main(args: &ExplainArgs, flags: &str) -> Result<Exit, CliError> {
    let mut fixtures = selected(args)?;
    let more = fixtures.len().saturating_sub(LIMIT);
    fixtures.truncate(LIMIT);
    let chosen = args.environment.in_release_of(&fixtures);
    let apart = FixturesApart { flags: &chosen.with_release(flags), ..FixturesApart::default() };
    let mut environment = chosen.start_apart(false, apart)?;
    environment.options.keeps_records = args.format == ExplainFormat::Html;
    environment.options.transcripts = TranscriptSelection::All;
    let test_bed = &environment.test_bed;
    let subject = description(test_bed);
    if !test_bed.cluster.is_virtual() {
        let many = if fixtures.len() == 1 { "1 fixture".to_owned() } else { format!("{} fixtures", fixtures.len()) };
        notify(&format!("plumbline: {many}, {subject}"));
    }
    let mut offered = test_bed.capabilities();
    // A fixture that is asked for by name is shown even if the subject does not declare its feature.
    offered.features.insert("*".to_owned());
    let plan = Plan::new(&fixtures, &offered, &Filter::default());
    let mut out = output_file::create(args.output.as_deref())?;
    if args.format == ExplainFormat::Html {
        let title = format!("Fixtures of {} on {}", test_bed.subject.name(), test_bed.cluster.name());
        let report = suite::run(&plan, test_bed, environment.options, &mut Html::new(out, &title, &fixtures));
        environment.close()?;
        return Ok(run::exit(&report?));
    }
    let report = suite::run(&plan, test_bed, environment.options, &mut SilentReporter);
    environment.close()?;
    let report = report?;
    for fixture in &fixtures {
        let result = report.fixtures.iter().find(|result| result.id == fixture.id);
        result.map_or(Ok(()), |result| explain(fixture, result, &subject, &mut out))?;
    }
    if more > 0 {
        writeln!(out, "… and {more} more")?;
    }
    out.flush()?;
    Ok(run::exit(&report))
}

/// Returns the fixture with this id, otherwise those that the filter selects.
fn selected(args: &ExplainArgs) -> Result<Vec<Fixture>, CliError> {
    let select = Selection::one(&args.fixture, &args.folder);
    let mut fixtures = select.load()?;
    if let Some(index) = fixtures.iter().position(|fixture| fixture.id == args.fixture) {
        return Ok(vec![fixtures.swap_remove(index)]);
    }
    let plan = select.plan(&fixtures, &Capabilities::everything())?;
    Ok(plan.runs().cloned().collect())
}

/// Describes who runs where: `me.py on fake, wall clock`.
fn description(test_bed: &TestBed) -> String {
    let clock = if test_bed.cluster.is_virtual() { "virtual time" } else { "wall clock" };
    format!("{} on {}, {clock}", test_bed.subject.name(), test_bed.cluster.name())
}

/// Ignores all events.
struct SilentReporter;

impl Reporter for SilentReporter {
    fn event(&mut self, _: Event<'_>) -> io::Result<()> {
        Ok(())
    }
}

fn explain(fixture: &Fixture, result: &FixtureReport, subject: &str, out: &mut impl Write) -> io::Result<()> {
    let bar = "─".repeat(fixture.id.chars().count());
    writeln!(out, "{}\n{bar}", fixture.id)?;
    writeln!(out, "promise   {}", fixture.promise)?;
    for (index, line) in result.rule_lines().iter().enumerate() {
        writeln!(out, "{:<9} {line}", if index == 0 { "rules" } else { "" })?;
    }
    writeln!(out, "level     {} ({})", fixture.level, fixture.feature)?;
    if !fixture.why.is_empty() {
        writeln!(out, "          {}", fixture.why)?;
    }
    if !fixture.releases.is_unlimited() {
        writeln!(out, "releases  {}", fixture.releases)?;
    }
    if !fixture.source.is_empty() {
        writeln!(out, "source    {}", fixture.source.join(", "))?;
    }
    if let Some(row) = &fixture.row {
        let values: Vec<String> = row.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(out, "row       {} ({})", row.id, values.join(", "))?;
    }
    let controllers: Vec<&str> = fixture.controllers.iter().map(|controller| controller.as_str()).collect();
    let flags: Vec<String> = fixture.flags.iter().map(|(name, value)| format!("--{name}={value}")).collect();
    let runs = format!("{} {}", controllers.join(", "), flags.join(" "));
    writeln!(out, "runs      {}", runs.trim())?;
    writeln!(out, "subject   {subject}")?;
    writeln!(out, "\n{}", fixture.file.display())?;
    source(fixture, out)?;
    if !matches!(result.outcome, Outcome::Skip | Outcome::Unsupported | Outcome::NotRun) {
        transcript(result, out)?;
    }
    let reason = if result.reason.is_empty() { String::new() } else { format!(": {}", result.reason) };
    writeln!(out, "\noutcome   {}{reason}", result.outcome.participle())?;
    for failure in &result.failures {
        writeln!(out, "  ✗ {}", failure.to_string().replace('\n', "\n    "))?;
    }
    for write in &result.bystanders {
        writeln!(out, "  not judged: {write}")?;
    }
    for line in &result.log {
        writeln!(out, "  log: {line}")?;
    }
    writeln!(out)
}

fn transcript(result: &FixtureReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\ntranscript")?;
    for line in result.transcript.lines() {
        writeln!(out, "  {line}")?;
    }
    if result.transcript.is_empty() {
        writeln!(out, "  (no writes)")?;
    }
    Ok(())
}

/// Prints the steps as written in the file.
fn source(fixture: &Fixture, out: &mut impl Write) -> io::Result<()> {
    let Ok(text) = std::fs::read_to_string(&fixture.file) else { return Ok(()) };
    for (number, line) in text.lines().enumerate().skip_while(|(_, line)| !line.starts_with("given")) {
        writeln!(out, "  {:>3}  {line}", number + 1)?;
    }
    Ok(())
}
