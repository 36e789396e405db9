//! `plumbline test`: a cluster and a command, both in virtual time.
//!
//! ```text
//! plumbline test … ── tracer ──► plumbline test … (inside) ── serves the cluster
//!                                        └── COMMAND, with KUBECONFIG and everything that it starts
//! ```

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use jiff::Timestamp;
use plumbline::time::Clock;
use plumbline_apiserver::listener::write_private_file;
use plumbline_guest::{Epoch, Outcome};
use tokio_util::sync::CancellationToken;

use super::error::CliError;
use super::guests::report_guest;
use super::output_file;
use super::serve::{self, ServeArgs};
use super::value::ValueError;
use crate::duration::parse_duration;
use crate::guest::{self, ProgramTime};

/// The leases that kubelets renew.
const HEARTBEATS: &str = "kube-node-lease:leases/";

/// Time that the command has to end by itself after a signal, before it gets `SIGTERM`.
const GRACE: Duration = Duration::from_secs(1);

/// Flags that name files.
const REPORT: &str = "--report";
const TRANSCRIPT: &str = "--transcript";

/// Exit codes for a command that does not start, as shells have them.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Lines of the transcript that a failed run prints.
const SHOWN: usize = 200;

/// Characters of a line that it prints of them.
const WIDTH: usize = 300;

/// Flags of `test`.
#[derive(Debug, clap::Args)]
pub(super) struct TestArgs {
    /// Time in which the command runs: virtual, or that of the machine [default: virtual where programs can be traced]
    #[arg(long, value_enum, value_name = "TIME")]
    time: Option<ProgramTime>,

    /// Virtual time of day at the start, such as 2030-01-01T00:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = epoch)]
    epoch: Option<Timestamp>,

    /// Make the random numbers of the system repeatable. Only in virtual time
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Kill everything after this virtual time. Only in virtual time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    limit: Option<Duration>,

    /// Kill everything after this real time. Only in virtual time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    real_limit: Option<Duration>,

    /// Network in virtual time: private, with a loopback device only, or shared
    #[arg(long, value_enum, value_name = "NETWORK", hide_possible_values = true)]
    network: Option<NetworkChoice>,

    /// Write the transcript to this file [default: its end to standard error after a failure]
    #[arg(long, value_name = "FILE")]
    transcript: Option<PathBuf>,

    /// Write the report about the virtual time to this file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    #[command(flatten)]
    serve: ServeArgs,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The network of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum NetworkChoice {
    /// A loopback device of their own
    Private,
    /// That of the machine
    Shared,
}

/// Reads a time of day.
fn epoch(text: &str) -> Result<Timestamp, ValueError> {
    let time = text.parse().map_err(|_| ValueError::new("expected a time such as 2030-01-01T00:00:00Z"))?;
    Epoch::fixed(time).map(|_| time).map_err(|error| ValueError::new(error.to_string()))
}

/// Runs the verb and returns the exit code of the command.
pub(super) fn main(args: &TestArgs) -> Result<u8, CliError> {
    let time = args.time.unwrap_or(ProgramTime::usual());
    if guest::is_inside() {
        return run(args);
    }
    if time == ProgramTime::Wall {
        let own = [
            ("--epoch", args.epoch.is_some()),
            ("--seed", args.seed.is_some()),
            ("--limit", args.limit.is_some()),
            ("--real-limit", args.real_limit.is_some()),
            ("--network", args.network.is_some()),
            ("--report", args.report.is_some()),
        ];
        if let Some((flag, _)) = own.iter().find(|(_, is_given)| *is_given) {
            return Err(CliError::Usage(format!(
                "{flag} needs virtual time: remove it, or run with --time virtual on Linux on x86-64"
            )));
        }
        return run(args);
    }
    if args.serve.has_manual_clock() {
        return Err(CliError::Usage(
            "--clock manual is for --time wall: in virtual time the clock is that of all programs, which stops for the \
             order `manual` to PLUMBLINE_TIME_SOCKET"
                .to_owned(),
        ));
    }
    if let Some(path) = &args.report {
        output_file::ensure_writable(REPORT, path)?;
    }
    let outcome = guest::run_again(|mut guest| {
        if let Some(epoch) = args.epoch {
            guest = guest.epoch(Epoch::Fixed(epoch));
        }
        if let Some(seed) = args.seed {
            guest = guest.seed(seed);
        }
        if let Some(limit) = args.limit {
            guest = guest.virtual_limit(limit);
        }
        if args.network == Some(NetworkChoice::Shared) {
            guest = guest.network(plumbline_guest::Network::Shared);
        }
        if let Some(limit) = args.real_limit {
            guest = guest.real_limit(limit);
        }
        guest
    });
    let outcome = outcome.map_err(CliError::environment)?;
    if let Some(path) = &args.report {
        write_report(path, &outcome)?;
    }
    Ok(report_guest(&outcome))
}

fn write_report(path: &Path, outcome: &Outcome) -> Result<(), CliError> {
    let json = serde_json::to_string_pretty(&outcome.report).map_err(CliError::environment)?;
    output_file::write(REPORT, path, json + "\n")
}

/// Serves the cluster and runs the command beside it.
fn run(args: &TestArgs) -> Result<u8, CliError> {
    if let Some(path) = &args.transcript {
        output_file::ensure_writable(TRANSCRIPT, path)?;
    }
    serve::logging();
    let runtime = serve::runtime().map_err(CliError::environment)?;
    let outcome = runtime.block_on(serve_and_run(args));
    runtime.shutdown_background();
    outcome
}

async fn serve_and_run(args: &TestArgs) -> Result<u8, CliError> {
    let folder = tempfile::Builder::new().prefix("plumbline-test-").tempdir();
    let folder = folder.map_err(|error| CliError::environment(format!("unable to create a folder: {error}")))?;
    let kubeconfig = args.serve.kubeconfig.clone().unwrap_or_else(|| folder.path().join("kubeconfig"));
    let serve_args = args.serve.or_like_kind();
    let served = serve::start(&serve_args).await.map_err(CliError::environment)?;
    let listening = served.listening;
    write_private_file(&kubeconfig, &served.kubeconfig)
        .map_err(|error| output_file::unwritable("--kubeconfig", &kubeconfig, &error))?;
    let url = listening.url();
    let token = listening.token().to_owned();

    let stop = CancellationToken::new();
    let serving = tokio::spawn(listening.serve(stop.clone()));
    let mut signals = serve::Signals::new().map_err(serve::ServeError::Signals).map_err(CliError::environment)?;
    let (program, arguments) = args.command.split_first().ok_or_else(|| CliError::environment("no command"))?;
    let mut command = tokio::process::Command::new(program);
    command
        .args(arguments)
        .env("KUBECONFIG", &kubeconfig)
        .env("USE_EXISTING_CLUSTER", "true")
        .env("PLUMBLINE_URL", &url)
        .env("PLUMBLINE_TOKEN", &token)
        .kill_on_drop(true);
    let start = served.handler.transcript();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            super::streams::notify(&format!(
                "plumbline: unable to start {}: {error}; the words after -- are a program and its arguments",
                program.display()
            ));
            return Ok(if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE });
        }
    };
    let status = tokio::select! {
        biased;
        status = child.wait() => status.map_err(CliError::environment)?,
        () = signals.any() => {
            // The command may go on for longer than this process may.
            show(args, &served.handler.transcript(), &start, Some("the run was ended"))?;
            // A terminal has sent its signal to the command as well.
            if Clock::wall().timeout(GRACE, child.wait()).await.is_none() {
                terminate(&child);
            }
            let status = child.wait().await.map_err(CliError::environment)?;
            if args.transcript.is_some() {
                show(args, &served.handler.transcript(), &start, None)?;
            }
            return Ok(code(status));
        }
    };
    let end = (!status.success()).then(|| format!("the command ended with {status}"));
    show(args, &served.handler.transcript(), &start, end.as_deref())?;
    stop.cancel();
    // It ends when the last connection is closed; a client that does not close its own is not waited for.
    serving.abort();
    Ok(code(status))
}

/// Returns the exit code of a command: its own, or 128 and the number of the signal that has ended it.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().and_then(|signal| u8::try_from(128 + signal).ok());
    signal.or_else(|| status.code().and_then(|code| u8::try_from(code).ok())).unwrap_or(u8::MAX)
}

fn terminate(child: &tokio::process::Child) {
    let pid = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        // A child that has ended needs no signal.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Returns the lines of a transcript without the heartbeats of nodes: one every ten seconds hides what a test is about.
fn without_heartbeats(transcript: &str) -> Vec<&str> {
    let mut is_heartbeat = false;
    let mut keep = |line: &&str| {
        if line.starts_with("t=") {
            is_heartbeat = line.contains(" kubelet ") && line.contains(HEARTBEATS);
        }
        !is_heartbeat
    };
    transcript.lines().filter(|line| keep(line)).collect()
}

/// Writes the transcript where it was asked for; otherwise its end if there is a bad one, without that of the cluster's
/// start.
fn show(args: &TestArgs, transcript: &str, start: &str, end: Option<&str>) -> Result<(), CliError> {
    if let Some(path) = &args.transcript {
        return output_file::write(TRANSCRIPT, path, transcript);
    }
    let Some(end) = end else { return Ok(()) };
    let lines = without_heartbeats(transcript.strip_prefix(start).unwrap_or(transcript));
    if lines.is_empty() {
        super::streams::notify(&format!("plumbline: {end}; nothing has happened in the cluster since its start"));
        return Ok(());
    }
    let left_out = lines.len().saturating_sub(SHOWN);
    let heading = if left_out > 0 {
        format!(", without the first {left_out} lines (--transcript FILE has all)")
    } else {
        String::new()
    };
    let cut = |line: &&str| match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => (*line).to_owned(),
    };
    let text = lines.get(left_out..).unwrap_or_default().iter().map(cut).collect::<Vec<_>>().join("\n");
    super::streams::notify(&format!(
        "plumbline: {end}; the transcript of the cluster since its start{heading}:\n{text}"
    ));
    Ok(())
}
