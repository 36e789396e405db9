//! The results of a run, and the orders that end it.

use std::fmt::{self, Display};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread::JoinHandle;

use crate::report::Report;
use crate::settings::EpochError;

/// An error that keeps a guest from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// The machine is none on which programs can be traced.
    #[error(
        "programs run in virtual time on Linux on x86-64 only, not on {os} on {arch}: run this in a container for \
         linux/amd64"
    )]
    Unsupported {
        /// The operating system.
        os: &'static str,
        /// The processor.
        arch: &'static str,
    },
    /// The program cannot be executed.
    #[error("{}: {source}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The reason: not found, not executable, made for another machine.
        source: io::Error,
    },
    /// The program can be executed, but not in virtual time.
    #[error("{}: {reason}", program.display())]
    Refused {
        /// The program.
        program: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// The time of day at the start cannot be shown.
    #[error(transparent)]
    Epoch(#[from] EpochError),
    /// The system forbids what the tracer needs.
    #[error("{what}: {source}")]
    System {
        /// The operation, and what to do.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

/// The reason for which a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The command has ended by itself.
    Exited,
    /// The limit of virtual time was reached; everything was killed.
    VirtualLimit,
    /// The limit of real time was reached; everything was killed.
    RealLimit,
    /// There were more processes than permitted; everything was killed.
    TooManyProcesses,
    /// [`Running::terminate`] was called.
    Terminated,
}

/// The result of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The exit status of the command.
    pub status: ExitStatus,
    /// The reason for the end.
    pub end: End,
    /// The account of the run.
    pub report: Report,
}

/// The exit code of a run that has reached one of its limits, as of timeout(1).
const LIMIT: u8 = 124;

/// The exit code of a command that a signal has ended is this number and the signal's.
const SIGNAL: u8 = 128;

impl Outcome {
    /// Returns the exit code as a shell shows it: that of the command, or 128 and the number of the signal that has
    /// ended it; 124 after a limit.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.end.limit().is_some() {
            return LIMIT;
        }
        let signal = self.status.signal().map(|signal| SIGNAL.wrapping_add(signal as u8));
        signal.or_else(|| self.status.code().map(|code| code as u8)).unwrap_or(u8::MAX)
    }
}

/// The report, and the limit that has ended the run, in lines for standard error.
impl Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.report)?;
        self.end.limit().map_or(Ok(()), |limit| writeln!(f, "{limit}; everything was killed"))
    }
}

impl End {
    /// Returns the limit that has ended the run, if one has.
    #[must_use]
    pub const fn limit(self) -> Option<&'static str> {
        match self {
            Self::VirtualLimit => Some("the limit of virtual time was reached (--limit)"),
            Self::RealLimit => Some("the limit of real time was reached (--real-limit)"),
            Self::TooManyProcesses => Some("there were more processes than permitted (plumbline-guest --processes)"),
            Self::Exited | Self::Terminated => None,
        }
    }
}

/// The order to end the command with `SIGTERM`.
pub(crate) const TERMINATE: u8 = 1;

/// The order to kill everything; higher numbers are as well.
pub(crate) const KILL: u8 = 2;

/// The thread that traces.
pub(crate) type TracerThread = JoinHandle<Result<Outcome, GuestError>>;
