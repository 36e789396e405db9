//! `plumbline run`: runs fixtures.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use clap::ValueEnum;

use super::Error;
use super::place::PlaceArgs;
use super::select::Select;
use crate::exit::Exit;
use crate::report::json::Json;
use crate::report::junit::Junit;
use crate::report::terminal::Terminal;
use crate::report::{Event, Outcome, Reporter, RunReport};
use crate::runner::suite;

/// Flags of `run`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    select: Select,

    #[command(flatten)]
    place: PlaceArgs,

    /// Start no further fixture after the first failure; the rest is reported as not run
    #[arg(long)]
    fail_fast: bool,

    /// Format of the report
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,

    /// Write the report to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Report formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text for a terminal
    Human,
    /// One JSON document (apiVersion plumbline/v1)
    Json,
    /// `JUnit` XML
    Junit,
}

/// Runs the verb.
pub(super) fn main(args: &Args) -> Result<Exit, Error> {
    let fixtures = args.select.load()?;
    let place = args.place.start(args.fail_fast)?;
    let plan = args.select.plan(&fixtures, &place.arena.capabilities())?;
    let mut reporters = reporters(args)?;
    let report = suite::run(&plan, &place.arena, place.options, &mut reporters);
    place.close()?;
    Ok(exit(&report?))
}

/// Returns the exit code of a report.
fn exit(report: &RunReport) -> Exit {
    if report.has_failed() {
        Exit::FixturesFailed
    } else if [Outcome::Pass, Outcome::Flaky, Outcome::Fail].iter().all(|outcome| report.count(*outcome) == 0) {
        Exit::NothingSelected
    } else {
        Exit::Ok
    }
}

/// Forwards events to several reporters.
struct All(Vec<Box<dyn Reporter>>);

impl Reporter for All {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|reporter| reporter.event(event))
    }
}

/// Creates the requested reporter, and one for the terminal on standard error if the report is a document.
fn reporters(args: &Args) -> Result<All, Error> {
    let out: Box<dyn Write> = match &args.output {
        Some(path) => {
            let file = File::create(path)
                .map_err(|error| Error::Environment(format!("unable to write {}: {error}", path.display())))?;
            Box::new(BufWriter::new(file))
        }
        None => Box::new(io::stdout().lock()),
    };
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let progress = io::stderr().is_terminal();
    let talk = |progress| -> Box<dyn Reporter> {
        Box::new(Terminal::new(io::stderr().lock(), !plain && io::stderr().is_terminal(), progress))
    };
    Ok(All(match args.format {
        Format::Human if args.output.is_none() => {
            vec![Box::new(Terminal::new(out, !plain && io::stdout().is_terminal(), progress))]
        }
        Format::Human => vec![Box::new(Terminal::new(out, false, progress))],
        Format::Json => vec![Box::new(Json(out)), talk(progress)],
        Format::Junit => vec![Box::new(Junit(out)), talk(progress)],
    }))
}
