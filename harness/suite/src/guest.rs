//! This program as a guest: started again inside a tracer, so that it and all that it starts live in virtual time.
//!
//! The tracer is `plumbline-guest`. A verb that can run in virtual time calls [`run_again`] outside, and does its work
//! when [`is_inside`] is true: on its wall clock, which is then virtual.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;

use plumbline::time::Clock;
use plumbline_guest::{Guest, Outcome, TIME_SOCKET};

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

/// Returns true if this process lives in virtual time: the tracer that its environment names is there. A shell may have
/// kept the name of one that has ended.
#[must_use]
pub fn is_inside() -> bool {
    static IS_INSIDE: OnceLock<bool> = OnceLock::new();
    *IS_INSIDE.get_or_init(|| std::env::var_os(TIME_SOCKET).is_some_and(|path| UnixStream::connect(path).is_ok()))
}

/// Returns a clock that shows the system's time: exact inside, where it moves only while all programs wait.
#[must_use]
pub fn system_clock() -> Clock {
    if is_inside() { Clock::traced() } else { Clock::wall() }
}

/// Runs this program again, with the same arguments, in virtual time, and waits until it ends. A signal to this process
/// ends it.
///
/// # Errors
///
/// Returns the reason why programs cannot be traced here, with what to do.
pub fn run_again(configure: impl FnOnce(Guest) -> Guest) -> Result<Outcome, GuestRunError> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let running = configure(Guest::new(program()?).args(arguments)).start()?;
    running.terminate_on_signals()?;
    Ok(running.wait()?)
}

/// Returns the file of this program.
///
/// # Errors
///
/// Returns an error if it is not known.
pub fn program() -> Result<PathBuf, GuestRunError> {
    std::env::current_exe().map_err(GuestRunError::Program)
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
