//! `plumbline run`: runs fixtures.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use plumbline::fixture::Fixture;
use serde::de::DeserializeOwned;

use super::colour::ColourArgs;
use super::environment::{Environment, EnvironmentArgs};
use super::error::CliError;
use super::guests::FixturesApart;
use super::select::Selection;
use super::{memory, output_file, replay, watch, wrap};
use crate::conformance::evidence::EvidenceRecorder;
use crate::exit::Exit;
use crate::html::{Html, history};
use crate::report::json::Json;
use crate::report::junit::Junit;
use crate::report::markdown::Markdown;
use crate::report::terminal::Terminal;
use crate::report::{Event, Reporter, RunReport};
use crate::runner::suite::{self, TranscriptSelection};

/// Flags of `run`.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    select: Selection,

    #[command(flatten)]
    colour: ColourArgs,

    /// Start no further fixture after the first failure; the rest is reported as not run
    #[arg(long)]
    fail_fast: bool,

    /// Fixtures whose transcript the report contains
    #[arg(long, value_enum, default_value_t = TranscriptSelection::Failed)]
    transcripts: TranscriptSelection,

    /// Format of the report
    #[arg(long, value_enum, default_value_t = RunFormat::Human)]
    format: RunFormat,

    /// Write the report to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write the evidence of all failures to this file: an archive whose fixtures `replay` runs again
    #[arg(long, value_name = "FILE.zip")]
    evidence: Option<PathBuf>,

    /// Report of a former run (JSON), with which the HTML report compares: new, fixed, remaining and flaky failures.
    /// May be repeated, the oldest first
    #[arg(long, value_name = "REPORT")]
    since: Vec<PathBuf>,

    /// Then wait for changes of fixtures and of the subject's program, and run again what they touch
    #[arg(long, conflicts_with_all = ["format", "output", "since"])]
    watch: bool,

    #[command(flatten)]
    pub(super) environment: EnvironmentArgs,
}

/// Report formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RunFormat {
    /// Text for a terminal
    Human,
    /// One JSON document (apiVersion plumbline/v1)
    Json,
    /// `JUnit` XML
    Junit,
    /// Markdown, such as for the summary of a CI job
    Markdown,
    /// One HTML page with a timeline of each fixture
    Html,
}

impl RunArgs {
    /// Returns the first filter.
    pub(super) fn first_filter(&self) -> Option<&str> {
        self.select.first()
    }

    /// Returns the selection of fixtures.
    pub(super) const fn select(&self) -> &Selection {
        &self.select
    }

    /// Returns the files of the subject's program, which may change.
    pub(super) fn programs(&self) -> Vec<PathBuf> {
        self.environment.programs()
    }

    /// Returns true if it waits for changes of files, which takes real time.
    pub(super) const fn watches(&self) -> bool {
        self.watch
    }

    /// Returns true if the subject is a part of this program.
    pub(super) fn is_in_process(&self) -> bool {
        self.environment.command().is_none()
    }

    /// Starts the cluster and the subject, which `flags` select as well.
    pub(super) fn start(&self, flags: &str) -> Result<Environment, CliError> {
        let apart = FixturesApart { flags, ..FixturesApart::default() };
        let mut environment = self.environment.start_apart(self.fail_fast, apart)?;
        environment.options.transcripts = self.transcripts;
        environment.options.keeps_records = self.format == RunFormat::Html;
        Ok(environment)
    }
}

/// Runs the verb. `explain_flags` are the flags with which `explain` runs the same subject on the same fixtures.
pub(super) fn main(args: &RunArgs, explain_flags: &str) -> Result<Exit, CliError> {
    if args.environment.starts_no_program() {
        memory::use_small_pages();
    }
    if args.watch {
        return watch::main(args, explain_flags);
    }
    let fixtures = args.select.load()?;
    let outputs = [(output_file::OUTPUT, &args.output), ("--evidence", &args.evidence)];
    for (flag, path) in outputs {
        path.iter().try_for_each(|path| output_file::ensure_writable(flag, path))?;
    }
    let environment = args.start(explain_flags)?;
    let report = run_once(args, explain_flags, &fixtures, &environment);
    environment.close()?;
    Ok(exit(&report?))
}

/// Runs the selected ones of `fixtures`.
pub(super) fn run_once(
    args: &RunArgs,
    explain_flags: &str,
    fixtures: &[Fixture],
    environment: &Environment,
) -> Result<RunReport, CliError> {
    let plan = args.select.plan(fixtures, &environment.test_bed.capabilities())?;
    let explain_flags = &environment.with_seed(explain_flags);
    let title =
        format!("Fixtures of {} on {}", environment.test_bed.subject.name(), environment.test_bed.cluster.name());
    let mut reporters = reporters(args, explain_flags, fixtures, &title)?;
    if let Some(archive) = &args.evidence {
        let origin = replay::origin(&environment.test_bed, explain_flags)?;
        let recorder = EvidenceRecorder::create(archive, &origin).map_err(CliError::environment)?;
        reporters.0.push(Box::new(recorder));
    }
    Ok(suite::run(&plan, &environment.test_bed, environment.options, &mut reporters)?)
}

/// Returns the exit code of a report.
pub(super) fn exit(report: &RunReport) -> Exit {
    if report.has_failed() {
        Exit::FixturesFailed
    } else if report.is_inconclusive() {
        Exit::Inconclusive
    } else if !report.fixtures.iter().any(|fixture| fixture.outcome.has_run()) {
        Exit::NothingSelected
    } else {
        Exit::Ok
    }
}

/// Forwards events to several reporters.
struct MultiReporter(Vec<Box<dyn Reporter>>);

impl Reporter for MultiReporter {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|reporter| reporter.event(event))
    }
}

/// Reads the report that `flag` names, of this kind.
pub fn read_report<T: DeserializeOwned>(flag: &str, path: &Path, kind: &'static str) -> Result<T, CliError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| CliError::Environment(format!("unable to read {}: {error}", path.display())))?;
    history::read_as(&text, kind).map_err(|error| CliError::Usage(format!("{flag} {}: {error}", path.display())))
}

/// Creates the requested reporter, and one for the terminal on standard error if the report is a document.
fn reporters(
    args: &RunArgs,
    explain_flags: &str,
    fixtures: &[Fixture],
    title: &str,
) -> Result<MultiReporter, CliError> {
    if !args.since.is_empty() && args.format != RunFormat::Html {
        return Err(CliError::Usage("--since requires --format html".to_owned()));
    }
    let before =
        args.since.iter().map(|path| read_report("--since", path, "RunReport")).collect::<Result<Vec<_>, _>>()?;
    let out = output_file::create(args.output.as_deref())?;
    let progress = io::stderr().is_terminal();
    let terminal = |out: Box<dyn Write>, is_terminal: bool, progress| {
        let colour = args.colour.is_on(is_terminal);
        let out = if is_terminal { wrap::to_terminal(out) } else { out };
        Terminal::new(out, colour, progress).with_explain_flags(explain_flags)
    };
    let to_stderr = || terminal(Box::new(io::stderr().lock()), io::stderr().is_terminal(), progress);
    let message = || -> Box<dyn Reporter> { Box::new(to_stderr()) };
    Ok(MultiReporter(match args.format {
        RunFormat::Human if args.output.is_none() => {
            vec![Box::new(terminal(out, io::stdout().is_terminal(), progress))]
        }
        RunFormat::Human => vec![Box::new(terminal(out, false, progress))],
        RunFormat::Json => vec![Box::new(Json(out)), message()],
        RunFormat::Junit => vec![Box::new(Junit(out)), message()],
        RunFormat::Markdown => vec![Box::new(Markdown { out, explain_flags: explain_flags.to_owned() }), message()],
        RunFormat::Html => {
            let page = Html::new(out, title, fixtures).since(before);
            vec![Box::new(page), Box::new(to_stderr().with_page(args.output.as_deref()))]
        }
    }))
}
