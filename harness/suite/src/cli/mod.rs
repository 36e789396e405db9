//! The command line: one file per verb. Results go to standard output, progress and diagnostics to standard error.
//!
//! The programs `plumbline-loadtest` and `xtask` share its errors, its output and some of its flags.

mod colour;
mod compare;
mod conform;
mod environment;
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
mod test;
mod value;
mod verify;
mod version;
mod watch;
mod wrap;

use std::ffi::OsString;
use std::io::{self, StdoutLock, Write};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use plumbline_guest::Outcome;

use crate::cluster::provision;
use crate::exit::Exit;
use crate::explore::programs::worker;
use crate::guest;
use crate::process::{self, crash_cleanup};
use crate::runner::guests::inside;

use environment::EnvironmentArgs;
pub use environment::{ClusterKind, RealClusterArgs, controller, variable};
pub use run::read_report;
pub use select::FixturesFolder;
pub use serve::ServeArgs;
pub use value::ValueError;

/// The name of the program in its messages.
const PROGRAM: &str = "plumbline";

/// Tests Kubernetes controllers: a cluster with a clock, a conformance suite, and exploration of faults
///
/// Without a verb: `run`, or without fixtures and arguments a greeting.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    verb: Option<CliVerb>,
    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
enum CliVerb {
    /// Run fixtures (the default)
    Run(run::RunArgs),
    /// Run fixtures repeatedly, shuffled and with varying numbers of jobs, until one differs from its first run
    Repeat(repeat::RepeatArgs),
    /// Run the fixtures of an archive (`run --evidence`) again and compare
    Replay(replay::ReplayArgs),
    /// Show the changes of snapshots between two commits, equal ones once
    Review(review::ReviewArgs),
    /// List fixtures, or the ones selected by filters
    List(list::ListArgs),
    /// Check fixtures without running them
    Lint(lint::LintArgs),
    /// Print the JSON Schema of fixtures, for editors
    Schema,
    /// Print the version of this program and the releases of Kubernetes that it serves
    Version(version::VersionArgs),
    /// Show a fixture's promise, steps and the transcript of a run
    Explain(explain::ExplainArgs),
    /// Test an implementation and write its conformance report
    Conform(conform::ConformArgs),
    /// Verify that conformance reports are consistent
    Verify(verify::VerifyArgs),
    /// Copy a conformance report to the published ones
    Publish(verify::PublishArgs),
    /// Make a website of conformance reports
    Site(site::SiteArgs),
    /// Inject faults that no fixture names and judge the runs without the fixtures' expectations
    Explore(Box<explore::ExploreArgs>),
    /// Compare two subjects
    Compare(compare::CompareArgs),
    /// Serve the fake API server to kubectl and other clients
    Serve(ServeArgs),
    /// Run a command beside a cluster of its own, both in virtual time: waiting costs nothing
    ///
    /// Without --kubelet, --loops, --controllers, --disable-admission-plugins or --bare the cluster is like one of kind
    /// (--like kind): one node, all loops and controllers. With one of them it has the defaults below.
    Test(Box<test::TestArgs>),
}

/// Reasons why a verb failed.
#[derive(Debug)]
pub enum CliError {
    /// Invalid fixtures.
    BadFixtures(plumbline::fixture::Problems),
    /// Invalid or conflicting flags.
    Usage(String),
    /// The filters select no fixture.
    Nothing(String),
    /// A filter selects no fixture.
    IdleFilter {
        /// The filter, if it is a word.
        first: Option<String>,
        /// The error.
        message: String,
    },
    /// A document is inconsistent.
    Refuted(String),
    /// The environment failed.
    Environment(String),
    /// The reader of standard output, such as `head`, has closed the pipe.
    StdoutClosed,
}

impl CliError {
    /// Returns the error of a part that a verb needs.
    fn environment(error: impl std::fmt::Display) -> Self {
        Self::Environment(error.to_string())
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.get_ref() {
            Some(inner) if inner.is::<StdoutClosed>() => Self::StdoutClosed,
            _ => Self::Environment(format!("unable to write: {error}")),
        }
    }
}

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
    let misspelt = if cli.verb.is_none() { cli.run.first_filter().and_then(hint::misspelt_verb) } else { None };
    if let Some(error) = misspelt {
        return ended(PROGRAM, Err(error), true).into();
    }
    if cli.needs_guest() {
        return run_in_guest();
    }
    let result = match cli.verb {
        None => run::main(&cli.run, &explain_flags).map_err(|error| hint::verb_instead(error, cli.run.first_filter())),
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

impl CliVerb {
    /// Returns true if the verb judges nothing: a reader of its output may close the pipe when it has enough.
    const fn only_shows(&self) -> bool {
        matches!(
            self,
            Self::List(_) | Self::Lint(_) | Self::Schema | Self::Version(_) | Self::Explain(_) | Self::Review(_)
        )
    }
}

impl Cli {
    /// Returns true if this process has to be traced, because the verb runs a program in virtual time beside what it
    /// does itself.
    fn needs_guest(&self) -> bool {
        let whole = |environment: &EnvironmentArgs| environment.needs_guest() && !environment.runs_apart();
        let of_run = |run: &run::RunArgs| !run.watches() && whole(&run.environment);
        match &self.verb {
            None => of_run(&self.run),
            Some(CliVerb::Run(args)) => of_run(args),
            Some(CliVerb::Explain(args)) => whole(&args.environment),
            Some(CliVerb::Conform(args)) => whole(&args.environment),
            Some(CliVerb::Compare(args)) => args.environments().any(|environment| whole(&environment)),
            Some(CliVerb::Repeat(args)) => args.needs_guest(),
            _ => false,
        }
    }
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

/// Writes the account of a guest's time to standard error, and returns its exit code.
fn report_guest(outcome: &Outcome) -> u8 {
    notify_all(outcome);
    outcome.exit_code()
}

/// Writes the lines of a text to standard error, each with the name of the program.
fn notify_all(text: &impl std::fmt::Display) {
    for line in text.to_string().lines() {
        notify(&format!("{PROGRAM}: {line}"));
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

/// Standard output. Writing to a pipe that its reader has closed fails with [`StdoutClosed`], which ends the program
/// quietly.
pub struct Stdout(StdoutLock<'static>);

/// The reader of standard output has closed the pipe.
#[derive(Debug, thiserror::Error)]
#[error("standard output is closed")]
struct StdoutClosed;

/// Locks standard output.
#[must_use]
pub fn stdout() -> Stdout {
    Stdout(io::stdout().lock())
}

fn mark_closed(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::BrokenPipe { io::Error::new(error.kind(), StdoutClosed) } else { error }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(mark_closed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(mark_closed)
    }
}

/// Writes a message to standard error, in one piece: another thread may write to the same file.
pub fn notify(text: &str) {
    // If standard error is closed, the message is lost.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}
