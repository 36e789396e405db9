//! This program as a guest: started again inside a tracer, so that it and all that it starts live in virtual time.
//!
//! The tracer is `plumbline-guest`. A verb that can run in virtual time calls [`run_again`] outside, and does its work
//! when [`is_inside`] is true: on its wall clock, which is then virtual.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;

use plumbline_guest::{Clock, End, Guest, Order, Outcome, TIME_SOCKET};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

/// The exit code of a program that a signal has ended is this number and the signal's.
const SIGNAL: u8 = 128;

/// The kind of time in which programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ProgramTime {
    /// Time moves only while all programs rest: waiting costs nothing
    Virtual,
    /// The time of the machine
    Wall,
}

impl ProgramTime {
    /// Virtual where programs can be traced.
    #[must_use]
    pub const fn usual() -> Self {
        if cfg!(all(target_os = "linux", target_arch = "x86_64")) { Self::Virtual } else { Self::Wall }
    }
}

/// Returns true if this process lives in virtual time.
#[must_use]
pub fn is_inside() -> bool {
    std::env::var_os(TIME_SOCKET).is_some()
}

/// Connects to the clock of the virtual time in which this process lives.
///
/// # Errors
///
/// Returns an error if the process is not inside, or the tracer does not answer.
pub fn clock() -> io::Result<Clock> {
    Clock::from_env()
}

/// Waits until everything in the virtual time of this process rests and nothing is due. Time does not move.
///
/// # Errors
///
/// Returns an error if the process is not inside, or the tracer does not answer.
pub async fn settle() -> io::Result<()> {
    let path = std::env::var_os(TIME_SOCKET).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let mut stream = BufReader::new(UnixStream::connect(path).await?);
    stream.write_all(format!("{}\n", Order::Settle).as_bytes()).await?;
    let mut reply = String::new();
    stream.read_line(&mut reply).await?;
    if reply.contains("\"error\"") || reply.is_empty() { Err(io::Error::other(reply)) } else { Ok(()) }
}

/// Runs this program again, with the same arguments, in virtual time, and waits until it ends. A signal to this process
/// ends it.
///
/// # Errors
///
/// Returns the reason why programs cannot be traced here, with what to do.
pub fn run_again(configure: impl FnOnce(Guest) -> Guest) -> Result<Outcome, GuestRunError> {
    let program = std::env::current_exe().map_err(GuestRunError::Program)?;
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let running = configure(Guest::new(program).args(arguments)).start()?;
    running.terminate_on_signals()?;
    Ok(running.wait()?)
}

/// Reasons why this program could not be run again in virtual time.
#[derive(Debug, thiserror::Error)]
pub enum GuestRunError {
    /// The file of this program is not known.
    #[error("the file of this program: {0}; use --time wall")]
    Program(io::Error),
    /// It cannot be traced.
    #[error("{0}; use --time wall")]
    Guest(#[from] plumbline_guest::GuestError),
}

/// Returns the exit code of a guest as a shell shows it.
#[must_use]
pub fn exit_code(outcome: &Outcome) -> u8 {
    let signal = outcome.status.signal().map(|signal| SIGNAL.wrapping_add(u8::try_from(signal).unwrap_or(0)));
    signal.or_else(|| outcome.status.code().and_then(|code| u8::try_from(code).ok())).unwrap_or(u8::MAX)
}

/// Returns the reason for which a limit ended the guest, if one did.
#[must_use]
pub fn limit(end: End) -> Option<&'static str> {
    match end {
        End::VirtualLimit => Some("the limit of virtual time was reached; everything was killed (--limit)"),
        End::RealLimit => Some("the limit of real time was reached; everything was killed (--real-limit)"),
        End::TooManyProcesses => Some("there were too many processes; everything was killed"),
        _ => None,
    }
}
