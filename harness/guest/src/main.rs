//! Runs a command in virtual time from the command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use plumbline_guest::{Epoch, Guest, GuestError, Network, Outcome};

/// The exit code of an error of this program.
const ERROR: u8 = 125;
/// The exit code of a command that cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The exit code of a command that is not found.
const NOT_FOUND: u8 = 127;

/// Runs a command and everything that it starts in virtual time.
///
/// The exit code is that of the command, or 128 and the number of the signal that has ended it; 124 after a limit,
/// 125 for an error of this program, 126 and 127 for a command that cannot be executed or is not found.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Time of day at the start, such as 2030-01-01T00:00:00Z [default: now]
    #[arg(long)]
    epoch: Option<Timestamp>,
    /// Makes the random numbers of the system repeatable
    #[arg(long)]
    seed: Option<u64>,
    /// Network of the programs: a namespace with a loopback device, or that of this machine
    #[arg(long, value_enum, default_value_t = NetworkChoice::Private)]
    network: NetworkChoice,
    /// Lets time pass only by orders over the time socket
    #[arg(long)]
    manual: bool,
    /// Limit of virtual time, such as 24h
    #[arg(long, value_name = "DURATION")]
    limit: Option<SignedDuration>,
    /// Limit of real time, such as 5m
    #[arg(long, value_name = "DURATION")]
    real_limit: Option<SignedDuration>,
    /// Processor time without rest after which time creeps, for programs that wait in a loop
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    spin: SignedDuration,
    /// Most processes at a time
    #[arg(long, default_value_t = 4096)]
    processes: usize,
    /// File for the report as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Prints no report to the standard error
    #[arg(long, short)]
    quiet: bool,
    /// Command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<std::ffi::OsString>,
}

/// The network, on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum NetworkChoice {
    Private,
    Shared,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err((code, message)) => {
            complain(&message);
            ExitCode::from(code)
        }
    }
}

#[expect(clippy::print_stderr, reason = "the messages of this program; those of the command have both streams")]
fn complain(message: &str) {
    eprintln!("plumbline-guest: {message}");
}

fn run(arguments: &Arguments) -> Result<u8, (u8, String)> {
    let duration = |duration: SignedDuration| {
        Duration::try_from(duration)
            .map_err(|_| (ERROR, format!("the duration {duration:#} is negative: use one such as 5m")))
    };
    let (program, rest) = arguments.command.split_first().ok_or_else(|| (ERROR, "no command".to_owned()))?;
    let mut guest = Guest::new(program)
        .args(rest)
        .spin_guard(duration(arguments.spin)?)
        .process_limit(arguments.processes)
        .network(match arguments.network {
            NetworkChoice::Private => Network::Private,
            NetworkChoice::Shared => Network::Shared,
        });
    if let Some(time) = arguments.epoch {
        guest = guest.epoch(Epoch::Fixed(time));
    }
    if let Some(seed) = arguments.seed {
        guest = guest.seed(seed);
    }
    if arguments.manual {
        guest = guest.manual();
    }
    if let Some(limit) = arguments.limit {
        guest = guest.virtual_limit(duration(limit)?);
    }
    if let Some(limit) = arguments.real_limit {
        guest = guest.real_limit(duration(limit)?);
    }
    let running = guest.start().map_err(failure)?;
    running.terminate_on_signals().map_err(failure)?;
    let outcome = running.wait().map_err(failure)?;
    finish(arguments, &outcome)
}

/// Returns the exit code and the message of an error.
fn failure(error: GuestError) -> (u8, String) {
    let code = match &error {
        GuestError::Program { source, .. } if source.kind() == std::io::ErrorKind::NotFound => NOT_FOUND,
        GuestError::Program { .. } | GuestError::Refused { .. } => NOT_EXECUTABLE,
        _ => ERROR,
    };
    (code, error.to_string())
}

/// Shows the report and returns the exit code.
fn finish(arguments: &Arguments, outcome: &Outcome) -> Result<u8, (u8, String)> {
    if let Some(path) = &arguments.report {
        let json = serde_json::to_string_pretty(&outcome.report).map_err(|error| (ERROR, error.to_string()))?;
        std::fs::write(path, json + "\n").map_err(|error| (ERROR, format!("{}: {error}", path.display())))?;
    }
    if !arguments.quiet || outcome.end.limit().is_some() {
        for line in outcome.to_string().lines() {
            complain(line);
        }
    }
    Ok(outcome.exit_code())
}
