//! The command line: one file per verb. Data goes to standard output, talk to standard error.

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

/// Runs Kubernetes' disruption-class controllers against an embedded API server in virtual time and checks what they promise.
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
    /// Run fixtures again and again, shuffled and with changing numbers of jobs, until one differs from its first run
    Repeat(repeat::Args),
    /// List fixtures, or what the filters select of them
    List(list::Args),
    /// Check fixtures without running them
    Lint(lint::Args),
    /// Show a fixture's promise, its steps and the transcript of a run
    Explain(explain::Args),
    /// Test an implementation and write its conformance report
    Conform(conform::Args),
    /// Check that a conformance report can be true
    Verify(verify::Args),
    /// Show which fixture covers which rule, and fail if one is missing
    Catalogue(catalogue::Args),
    /// Show where two subjects differ
    Compare(compare::Args),
    /// Serve the fake API server to kubectl and other clients
    Serve(serve::Args),
    /// Measure the fake API server
    Bench(bench::Args),
    /// Measure controllers in a large cluster
    Scale(Box<scale::Args>),
}

/// Why a verb could not do its work.
#[derive(Debug)]
enum Error {
    /// Fixtures that cannot be used.
    BadFixtures(crate::fixture::Problems),
    /// Flags that do not go together.
    Usage(String),
    /// The filters select nothing.
    Nothing(String),
    /// A document says what is not so.
    Refuted(String),
    /// Something around us does not work.
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

/// A length of time as flags take it: `250ms`, `5s`, `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|error| format!("{error} (write it like 250ms, 5s, 1m30s)"))?;
    Duration::try_from(duration).map_err(|_| "a duration cannot be negative".to_owned())
}

/// Says something to the user, beside the data.
fn talk(text: &str) {
    // There is nobody left to tell when standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
