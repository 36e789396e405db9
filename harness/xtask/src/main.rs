//! Maintainers' tasks: the checked-in tables of Kubernetes' types, Kubernetes' own end-to-end tests against the API
//! server, and the fixtures of each rule. `README.md` says how to go to the next Kubernetes version.

mod catalogue;
mod check;
mod definitions;
mod go;
mod idle;
mod internal;
mod layout;
mod messages;
mod names;
mod roles;
mod served;
mod source;
mod structs;
mod upstream;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use plumbline_suite::cli::{self, ServeArgs};

use catalogue::CatalogueArgs;
use check::Outcome;
use source::{Checkout, Error};
use upstream::UpstreamArgs;

/// The name of the program in its messages.
const PROGRAM: &str = "xtask";

#[derive(Parser)]
#[command(name = PROGRAM, about = "Tasks for Plumbline's maintainers")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Make the tables of Kubernetes' types.
    Codegen {
        /// A Kubernetes checkout: api/, pkg/apis/, plugin/ and staging/ are read.
        #[arg(long, value_name = "PATH")]
        kubernetes: PathBuf,
        /// The minor version of the checkout, for the tables' headers.
        #[arg(long = "kubernetes-version", value_name = "MINOR", default_value = "1.36")]
        version: String,
        /// Write nothing; print a diff and exit with 1 if a table differs.
        #[arg(long)]
        check: bool,
    },
    /// Make the table of what the API server serves, in its SERVED.md.
    Served,
    /// Show the fixtures of each rule, and fail if a rule has none.
    Catalogue(CatalogueArgs),
    /// Measure which fixtures a program passes that does nothing, and write fixtures/idle.yaml.
    Idle,
    /// Run Kubernetes' own end-to-end tests against the API server.
    Upstream(Box<UpstreamArgs>),
    /// `plumbline serve`: the API server that `upstream` starts as a process of its own.
    #[command(hide = true)]
    Serve(Box<ServeArgs>),
}

fn main() -> ExitCode {
    cli::helper().unwrap_or_else(|| match Args::parse().task {
        Task::Codegen { kubernetes, version, check } => ended(codegen(&Checkout::new(kubernetes, version), check)),
        Task::Served => ended(served()),
        Task::Catalogue(args) => cli::ended(PROGRAM, catalogue::main(&args), true).into(),
        Task::Idle => ended(idle::main()),
        Task::Upstream(args) => cli::ended(PROGRAM, upstream::main(&args), false).into(),
        Task::Serve(args) => cli::ended(PROGRAM, cli::serve(&args), false).into(),
    })
}

/// Returns the exit code of a task that makes tables.
fn ended(outcome: Result<bool, Error>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Makes the table of what the API server serves.
fn served() -> Result<bool, Error> {
    let path = layout::root().join(served::PATH);
    let text = std::fs::read_to_string(&path).map_err(|error| Error::Read { path: path.clone(), error })?;
    let updated = served::updated(&text).map_err(|problem| Error::input(served::PATH, problem.to_string()))?;
    check::write(&path, &updated).map(|_| true)
}

/// Makes all tables; returns `false` if `check` found differences.
fn codegen(checkout: &Checkout, check: bool) -> Result<bool, Error> {
    let mut out = io::stdout().lock();
    let mut same = true;
    for table in layout::tables(checkout)? {
        let path = layout::root().join(table.path);
        let outcome = if check { check::compare(&path, &table.text)? } else { check::write(&path, &table.text)? };
        let line = match outcome {
            Outcome::Same => format!("unchanged {}\n", table.path),
            Outcome::Written => format!("written   {}\n", table.path),
            Outcome::Differs(diff) => {
                same = false;
                format!("differs   {}\n{diff}", table.path)
            }
        };
        out.write_all(line.as_bytes()).map_err(|error| Error::Write { path, error })?;
    }
    Ok(same)
}
