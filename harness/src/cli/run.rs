//! `plumbline run`: runs fixtures.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use clap::ValueEnum;

use super::CliError;
use super::environment::EnvironmentArgs;
use super::select::Selection;
use crate::exit::Exit;
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
    environment: EnvironmentArgs,

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
}

impl RunArgs {
    /// Returns the first filter.
    pub(super) fn first_filter(&self) -> Option<&str> {
        self.select.first()
    }
}

/// Runs the verb. `explain_flags` are the flags with which `explain` runs the same subject on the same fixtures.
pub(super) fn main(args: &RunArgs, explain_flags: &str) -> Result<Exit, CliError> {
    let fixtures = args.select.load()?;
    let mut environment = args.environment.start(args.fail_fast)?;
    environment.options.transcripts = args.transcripts;
    let plan = args.select.plan(&fixtures, &environment.arena.capabilities())?;
    let mut reporters = reporters(args, explain_flags)?;
    let report = suite::run(&plan, &environment.arena, environment.options, &mut reporters);
    environment.close()?;
    Ok(exit(&report?))
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

/// Creates the requested reporter, and one for the terminal on standard error if the report is a document.
fn reporters(args: &RunArgs, explain_flags: &str) -> Result<MultiReporter, CliError> {
    let out: Box<dyn Write> = match &args.output {
        Some(path) => {
            let file = File::create(path)
                .map_err(|error| CliError::Environment(format!("unable to write {}: {error}", path.display())))?;
            Box::new(BufWriter::new(file))
        }
        None => Box::new(super::stdout()),
    };
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let progress = io::stderr().is_terminal();
    let terminal = |out: Box<dyn Write>, is_terminal: bool, progress| {
        Terminal::new(out, !plain && is_terminal, progress).with_explain_flags(explain_flags)
    };
    let message = |progress| -> Box<dyn Reporter> {
        Box::new(terminal(Box::new(io::stderr().lock()), io::stderr().is_terminal(), progress))
    };
    Ok(MultiReporter(match args.format {
        RunFormat::Human if args.output.is_none() => {
            vec![Box::new(terminal(out, io::stdout().is_terminal(), progress))]
        }
        RunFormat::Human => vec![Box::new(terminal(out, false, progress))],
        RunFormat::Json => vec![Box::new(Json(out)), message(progress)],
        RunFormat::Junit => vec![Box::new(Junit(out)), message(progress)],
        RunFormat::Markdown => {
            vec![Box::new(Markdown { out, explain_flags: explain_flags.to_owned() }), message(progress)]
        }
    }))
}
