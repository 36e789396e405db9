//! The command line: one file per verb. Results go to standard output, progress and diagnostics to standard error.

mod bench;
mod catalogue;
mod compare;
mod conform;
mod explain;
mod lint;
mod list;
mod place;
mod repeat;
mod run;
mod scale;
mod select;
mod serve;
mod verify;

use std::io::{self, Write};
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::exit::{self, Exit};

/// Runs Kubernetes' disruption-class controllers against an embedded API server in virtual time and checks their
/// behaviour
///
/// Without a verb: `run`.
#[derive(Debug, Parser)]
#[command(name = "plumbline", version, about, after_help = exit::HELP, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: run::Args,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run fixtures (the default)
    Run(run::Args),
    /// Run fixtures repeatedly, shuffled and with varying numbers of jobs, until one differs from its first run
    Repeat(repeat::Args),
    /// List fixtures, or the ones selected by filters
    List(list::Args),
    /// Check fixtures without running them
    Lint(lint::Args),
    /// Show a fixture's promise, steps and the transcript of a run
    Explain(explain::Args),
    /// Test an implementation and write its conformance report
    Conform(conform::Args),
    /// Verify that a conformance report is consistent
    Verify(verify::Args),
    /// Show the fixtures of each rule, and fail if a rule has none
    Catalogue(catalogue::Args),
    /// Compare two subjects
    Compare(compare::Args),
    /// Serve the fake API server to kubectl and other clients
    Serve(serve::Args),
    /// Benchmark the fake API server
    Bench(bench::Args),
    /// Benchmark controllers in a large cluster
    Scale(Box<scale::Args>),
}

/// Reasons why a verb failed.
#[derive(Debug)]
enum Error {
    /// Invalid fixtures.
    BadFixtures(crate::fixture::Problems),
    /// Invalid or conflicting flags.
    Usage(String),
    /// The filters select no fixture.
    Nothing(String),
    /// A document is inconsistent.
    Refuted(String),
    /// The environment failed.
    Environment(String),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Environment(format!("unable to write: {error}"))
    }
}

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> Exit {
    let cli = Cli::parse();
    let result = match cli.verb {
        None => run::main(&cli.run),
        Some(Verb::Run(args)) => run::main(&args),
        Some(Verb::Repeat(args)) => repeat::main(&args),
        Some(Verb::List(args)) => list::main(&args),
        Some(Verb::Lint(args)) => lint::main(&args),
        Some(Verb::Explain(args)) => explain::main(&args),
        Some(Verb::Conform(args)) => conform::main(&args),
        Some(Verb::Verify(args)) => verify::main(&args),
        Some(Verb::Catalogue(args)) => catalogue::main(&args),
        Some(Verb::Compare(args)) => compare::main(&args),
        Some(Verb::Bench(args)) => bench::main(&args),
        Some(Verb::Scale(args)) => scale::main(&args),
        Some(Verb::Serve(args)) => serve::main(&args).map_err(Error::Environment),
    };
    let (exit, message) = match result {
        Ok(exit) => return exit,
        Err(Error::BadFixtures(problems)) => (Exit::BadFixtures, problems.to_string()),
        Err(Error::Usage(message)) => (Exit::Usage, message),
        Err(Error::Nothing(message)) => (Exit::NothingSelected, message),
        Err(Error::Refuted(message)) => (Exit::Refuted, message),
        Err(Error::Environment(message)) => (Exit::Environment, message),
    };
    talk(&format!("plumbline: {message}"));
    exit
}

/// Parses a duration: `250ms`, `5s`, `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|error| format!("{error} (write it like 250ms, 5s, 1m30s)"))?;
    Duration::try_from(duration).map_err(|_| "a duration cannot be negative".to_owned())
}

/// Writes a message to standard error.
fn talk(text: &str) {
    // If standard error is closed, the message is lost.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
