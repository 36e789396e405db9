//! The results of a run, and the orders that end it.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread::JoinHandle;

use crate::report::Report;

/// An error that keeps a guest from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// The machine is none on which programs can be traced.
    #[error(
        "programs run in virtual time on Linux on x86-64 only, not on {os} on {arch}: use the container image of \
         plumbline for linux/amd64"
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

/// The order to end the command with `SIGTERM`.
pub(crate) const TERMINATE: u8 = 1;

/// The order to kill everything; higher numbers are as well.
pub(crate) const KILL: u8 = 2;

/// The thread that traces.
pub(crate) type TracerThread = JoinHandle<Result<Outcome, GuestError>>;
