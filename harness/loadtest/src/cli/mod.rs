//! The command line: one file per verb, with the exit codes of `plumbline`.

mod bench;
mod program;
mod scale;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use plumbline_suite::cli::{self, ServeArgs};

use program::PROGRAM;

/// Measures the API server under the load of a large cluster, and controllers in one
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version, about)]
struct Cli {
    #[command(subcommand)]
    verb: CliVerb,
}

#[derive(Debug, Subcommand)]
enum CliVerb {
    /// Benchmark the fake API server
    Bench(bench::BenchArgs),
    /// Benchmark controllers in a large cluster
    Scale(Box<scale::ScaleArgs>),
    /// `plumbline serve`: the fake API server that the other verbs start as a process of its own
    #[command(hide = true)]
    Serve(Box<ServeArgs>),
}

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        CliVerb::Bench(args) => bench::main(&args),
        CliVerb::Scale(args) => scale::main(&args),
        CliVerb::Serve(args) => cli::serve(&args),
    };
    cli::ended(PROGRAM, result, false).into()
}
