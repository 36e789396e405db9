//! The command line: one file per verb. Results go to standard output, progress and diagnostics to standard error.
//!
//! The programs `plumbline-loadtest` and `xtask` share its errors, its output and some of its flags.

mod colour;
mod command_line;
mod compare;
mod conform;
mod environment;
mod error;
mod explain;
mod explore;
mod explore_program;
mod greeting;
mod guests;
mod help;
mod hint;
mod lint;
mod list;
mod manifests;
mod memory;
mod misspelt_verb;
mod output_file;
mod repeat;
mod replay;
mod review;
mod run;
mod schema;
mod select;
mod serve;
mod site;
mod start;
mod streams;
mod test;
mod value;
mod verify;
mod version;
mod watch;
mod wrap;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::cluster::provision;
use crate::exit::Exit;
use crate::explore::programs::worker;
use crate::guest;
use crate::process::{self, crash_cleanup};
use crate::runner::guests::inside;

pub use command_line::Cli;
use command_line::CliVerb;
use environment::EnvironmentArgs;
pub use environment::{ClusterKind, RealClusterArgs, controller, variable};
pub use error::CliError;
use guests::report_guest;
pub use run::read_report;
pub use select::FixturesFolder;
pub use serve::ServeArgs;
use streams::PROGRAM;
pub use streams::{Stdout, notify, stdout};
pub use value::ValueError;

/// Runs the program with the process's arguments. `fixtures` is the ZIP archive of those that the program carries; they
/// are used if there is no other folder.
#[must_use]
pub fn main(fixtures: &'static [u8]) -> ExitCode {
    select::carry(fixtures);
    if std::env::args_os().nth(1).is_some_and(|verb| verb == guests::VERB) {
        return ended(PROGRAM, run_ordered_fixtures(std::env::args_os().skip(2)), false).into();
    }
    if help::asks_for_clusters(std::env::args_os().skip(1)) {
        return ended(PROGRAM, help::clusters().map(|()| Exit::Ok).map_err(CliError::from), true).into();
    }
    if std::env::args_os().len() < 2 && !select::has_fixtures_nearby() {
        return ended(PROGRAM, greeting::main().map(|()| Exit::Ok).map_err(CliError::from), true).into();
    }
    let given = help::program(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&given).unwrap_or_else(|error| error.exit());
    let of_verb = given.subcommand().map_or(&given, |(_, of_verb)| of_verb);
    let explain_flags = hint::explain_flags(of_verb);
    let only_shows = cli.verb.as_ref().is_some_and(CliVerb::only_shows);
    let misspelt =
        if cli.verb.is_none() { cli.run.first_filter().and_then(misspelt_verb::misspelt_verb) } else { None };
    if let Some(error) = misspelt {
        return ended(PROGRAM, Err(error), true).into();
    }
    if cli.needs_guest() {
        return run_in_guest();
    }
    let result = match cli.verb {
        None => run::main(&cli.run, &explain_flags)
            .map_err(|error| misspelt_verb::verb_instead(error, cli.run.first_filter())),
        Some(CliVerb::Run(args)) => run::main(&args, &explain_flags),
        Some(CliVerb::Repeat(args)) => repeat::main(&args, &explain_flags),
        Some(CliVerb::Review(args)) => review::main(&args),
        Some(CliVerb::Replay(args)) => replay::main(&args),
        Some(CliVerb::List(args)) => list::main(&args),
        Some(CliVerb::Lint(args)) => lint::main(&args),
        Some(CliVerb::Schema) => schema::main(),
        Some(CliVerb::Version(args)) => version::main(args),
        Some(CliVerb::Explain(args)) => explain::main(&args, &explain_flags),
        Some(CliVerb::Explore(args)) => explore::main(&args),
        Some(CliVerb::Conform(args)) => conform::main(&args, &explain_flags),
        Some(CliVerb::Verify(args)) => verify::main(&args),
        Some(CliVerb::Publish(args)) => verify::publish(&args),
        Some(CliVerb::Site(args)) => site::main(&args),
        Some(CliVerb::Compare(args)) => compare::main(&args, of_verb),
        Some(CliVerb::Serve(args)) => serve(&args),
        // The exit code is that of the command.
        Some(CliVerb::Test(args)) => match test::main(&args) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => Err(error),
        },
    };
    ended(PROGRAM, result, only_shows).into()
}

/// Runs the fixtures that another process of this program orders. `words` are flags of cluster and subject.
fn run_ordered_fixtures(words: impl Iterator<Item = OsString>) -> Result<Exit, CliError> {
    let environment = EnvironmentArgs::of_words(words).map_err(|error| CliError::Usage(error.to_string()))?;
    let (test_bed, options) = environment.prepare()?;
    inside::serve(&test_bed, options, io::stdin().lock(), stdout())?;
    Ok(Exit::Ok)
}

/// Runs this program again in virtual time, and returns its exit code.
fn run_in_guest() -> ExitCode {
    match guest::run_again(|guest| guest) {
        Ok(outcome) => ExitCode::from(report_guest(&outcome)),
        Err(error) => ended(PROGRAM, Err(CliError::environment(error)), false).into(),
    }
}

/// Runs the process if this program was started by itself as a helper: the guard of a child process, the run of a plan,
/// or the cleanup after a crash. Hidden verbs bypass clap: their arguments belong to another program.
#[must_use]
pub fn helper() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let verb = arguments.next()?;
    if verb == process::guard::VERB {
        let code = process::guard::main(&arguments.collect::<Vec<_>>());
        return Some(u8::try_from(code).unwrap_or(u8::MAX).into());
    }
    if verb == worker::VERB {
        let ran = worker::main(&arguments.collect::<Vec<_>>(), serve::around);
        return Some(ended(PROGRAM, ran.map(|()| Exit::Ok).map_err(CliError::environment), false).into());
    }
    if verb == crash_cleanup::VERB {
        return Some(crash_cleanup::main(&arguments.collect::<Vec<_>>(), provision::remove_containers).into());
    }
    None
}

/// Runs `plumbline serve`.
///
/// # Errors
///
/// Returns an error if the server cannot be started, or has failed.
pub fn serve(args: &ServeArgs) -> Result<Exit, CliError> {
    serve::main(args).map_err(CliError::environment)
}

/// Returns the exit code of a program, and says why if something went wrong. `only_shows`: nothing is judged, so that a
/// reader may close standard output early.
#[must_use]
pub fn ended(program: &str, result: Result<Exit, CliError>, only_shows: bool) -> Exit {
    let (exit, message) = match result {
        Ok(exit) => return exit,
        Err(CliError::BadFixtures(problems)) => (Exit::BadFixtures, problems.to_string()),
        Err(CliError::Usage(message)) => (Exit::Usage, message),
        Err(CliError::Nothing(message) | CliError::IdleFilter { message, .. }) => (Exit::NothingSelected, message),
        Err(CliError::Refuted(message)) => (Exit::Refuted, message),
        Err(CliError::Environment(message)) => (Exit::Environment, message),
        Err(CliError::StdoutClosed) if only_shows => return Exit::Ok,
        // A verdict that could not be written must not pass for a success.
        Err(CliError::StdoutClosed) => return Exit::Environment,
    };
    notify(&format!("{program}: {message}"));
    exit
}
