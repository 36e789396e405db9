//! Child processes that never outlive the harness: subjects, etcd, API servers.
//!
//! A process is started through a *guard*: this program, started with a hidden verb ([`guard`]). The guard leads its
//! own process group, starts the process in another group, and holds a pipe from the harness. When the pipe closes (the
//! harness drops it, panics or is killed with SIGKILL), the guard ends the whole group of the process, children
//! included. Children that left the group are re-parented to the guard and ended too.
//! The guard copies the output to a log file that stops growing at a limit.

pub mod crash_cleanup;
pub mod guard;
mod log;
pub mod signals;
pub mod tempdir;
pub mod tree;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use rustix::process::Pid;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin};

/// Extra time for a guard beyond the grace period of its process.
const GUARD_GRACE: Duration = Duration::from_secs(5);

/// Ports for programs that are about to start: below the range that systems use for outgoing connections.
const PORTS: Range<u16> = 15_000..30_000;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the program that implements [`guard::VERB`], for programs that do not (tests). Only the first call has an
/// effect.
pub fn use_guard(program: impl Into<PathBuf>) {
    let _ = PROGRAM.set(program.into());
}

/// Returns the program that implements [`guard::VERB`]: this one unless [`use_guard`] set another.
pub fn program() -> io::Result<PathBuf> {
    PROGRAM.get().map_or_else(std::env::current_exe, |program| Ok(program.clone()))
}

/// Returns true if a program is a file: at its path, or in a folder of `PATH` if it is a name.
pub fn is_program(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    if program.contains('/') {
        Path::new(program).is_file()
    } else {
        std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    }
}

/// Description of a process to start.
#[derive(Clone, Debug, Default)]
pub struct ProcessSpec {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Variables added to the environment.
    pub env: Vec<(OsString, OsString)>,
    /// Working folder; the harness's if `None`.
    pub folder: Option<PathBuf>,
    /// File that receives standard output and standard error, in order of arrival.
    pub log: PathBuf,
}

/// A process under a guard. Dropping it ends the process.
#[derive(Debug)]
pub struct GuardedProcess {
    guard: Child,
    orders: Option<ChildStdin>,
    log: PathBuf,
    program: String,
}

/// Failures of a process under a guard.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program does not exist or cannot be run, or no process can be created.
    #[error("unable to start {program}: {error}")]
    NotStarted {
        /// The program.
        program: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// The log cannot be written.
    #[error("unable to write the log {}: {error}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The process did not end by itself.
    #[error("{program} was still running {} s after SIGTERM", grace.as_secs())]
    Killed {
        /// The program.
        program: String,
        /// The time that it was given.
        grace: Duration,
    },
    /// The process ended with an error. The text says how.
    #[error("{0}")]
    Ended(String),
    /// The end of the process cannot be awaited.
    #[error("unable to wait for {program}: {error}")]
    Wait {
        /// The program.
        program: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// The guard of this program does not respond.
    #[error("the guard of {0} does not respond")]
    Guard(String),
}

impl ProcessSpec {
    /// Starts the process. Call this in a tokio runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the program does not exist or cannot be run, or no process can be created; the message names
    /// it.
    pub fn spawn(&self) -> Result<GuardedProcess, ProcessError> {
        let name = self.argv.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
        let failed = |error| ProcessError::NotStarted { program: name.clone(), error };
        File::create(&self.log).map_err(|error| ProcessError::Log { path: self.log.clone(), error })?;
        let mut command = std::process::Command::new(program().map_err(failed)?);
        command.arg(guard::VERB).arg(&self.log).args(&self.argv).envs(self.env.iter().map(|(key, value)| (key, value)));
        // The time of a run belongs to the harness.
        command.env_remove(plumbline_guest::TIME_SOCKET);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        // A separate process group: Ctrl-C in the terminal is for the harness, which then closes the pipe.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut guard = tokio::process::Command::from(command).spawn().map_err(failed)?;
        let orders = guard.stdin.take();
        Ok(GuardedProcess { guard, orders, log: self.log.clone(), program: name })
    }
}

impl GuardedProcess {
    /// Returns the reason for its end if it has ended.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.guard.try_wait().ok()??;
        Some(self.describe(status))
    }

    /// Resolves when the process has ended. Elsewhere than on Linux it never does.
    #[must_use]
    pub fn end_signal(&self) -> LocalBoxFuture<'static, ()> {
        let Some(pid) = self.guard.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) else {
            return std::future::ready(()).boxed_local();
        };
        ended_guard(pid).boxed_local()
    }

    fn describe(&self, status: ExitStatus) -> String {
        let program = &self.program;
        match status.code() {
            Some(guard::NOT_STARTED) => {
                let why = self.log_tail(1).pop().unwrap_or_else(|| format!("unable to start {program}"));
                why.trim_start_matches(log::GUARD_SAYS).to_owned()
            }
            Some(code) if code > 128 => format!("{program} was killed by signal {}", code - 128),
            Some(code) => format!("{program} exited with code {code}"),
            None => format!("the guard of {program} was killed by signal {}", status.signal().unwrap_or_default()),
        }
    }

    /// Returns the process id from `/proc`, available shortly after the start and until the end.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let guard = self.guard.id()?;
        let children = std::fs::read_to_string(format!("/proc/{guard}/task/{guard}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// Returns the tree of the process and its children, for measurements.
    #[must_use]
    pub fn tree(&self) -> Option<tree::ProcessTree> {
        self.guard.id().map(|guard| tree::ProcessTree { guard })
    }

    /// Kills the process and its children; returns immediately.
    pub fn kill(&mut self) {
        if let Some(orders) = self.orders.take() {
            // The pipe's buffer holds the word, so this does not block.
            let kill = async move {
                let mut orders = orders;
                let _ = orders.write_all(b"kill\n").await;
                // The end of the pipe is also an order to the guard, so it must come after the word.
                drop(orders);
            };
            let _ = futures::FutureExt::now_or_never(kill);
        }
    }

    /// Sends SIGTERM and waits up to `grace` for the end; then kills the process.
    ///
    /// # Errors
    ///
    /// Returns an error if the process had to be killed or exited with an error.
    pub async fn terminate(&mut self, grace: Duration) -> Result<(), ProcessError> {
        if let Some(mut orders) = self.orders.take() {
            let order = format!("term {}\n", grace.as_millis());
            // A guard that no longer reads has ended.
            let _ = orders.write_all(order.as_bytes()).await;
            let status = plumbline::time::Clock::wall().timeout(grace + GUARD_GRACE, self.guard.wait()).await;
            drop(orders);
            return match status {
                Some(Ok(status)) if status.code() == Some(guard::HAD_TO_KILL) => {
                    Err(ProcessError::Killed { program: self.program.clone(), grace })
                }
                // Terminated by the signal itself: a program without a handler is fine.
                Some(Ok(status)) if matches!(status.code(), Some(0 | 143)) => Ok(()),
                Some(Ok(status)) => Err(ProcessError::Ended(self.describe(status))),
                Some(Err(error)) => Err(ProcessError::Wait { program: self.program.clone(), error }),
                None => Err(ProcessError::Guard(self.program.clone())),
            };
        }
        Ok(())
    }

    /// Returns the last `count` lines of its output.
    #[must_use]
    pub fn log_tail(&self, count: usize) -> Vec<String> {
        tail(&self.log, count)
    }

    /// The file that receives its output.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }
}

/// Resolves when the guard has ended.
#[cfg(target_os = "linux")]
async fn ended_guard(pid: Pid) {
    use rustix::process::{PidfdFlags, pidfd_open};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    let watched = pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(io::Error::from);
    #[expect(deprecated, reason = "the file owns its descriptor, which is all that the other constructor asks for")]
    let watched = watched.and_then(|file| AsyncFd::with_interest(file, Interest::READABLE));
    match watched {
        // An error of the runtime is as good a reason to look whether it has ended.
        Ok(file) => drop(file.readable().await),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(target_os = "linux"))]
async fn ended_guard(_: Pid) {
    std::future::pending().await
}

/// Returns the last `count` lines of a file; empty if it cannot be read.
#[must_use]
pub fn tail(path: &Path, count: usize) -> Vec<String> {
    last_lines(&std::fs::read(path).unwrap_or_default(), count)
}

/// Returns the last `count` lines of a program's output.
pub(crate) fn last_lines(bytes: &[u8], count: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| (*line).to_owned()).collect()
}

/// Returns a port for a program that is about to start. The port is free now and unlikely to be taken soon: the range
/// excludes the ports of outgoing connections, of which a run with many fixtures has hundreds. This process cycles
/// through the range; parallel processes start at different offsets.
///
/// # Errors
///
/// Returns an error if no port is free.
pub fn free_port() -> io::Result<u16> {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    let begin = std::process::id().wrapping_mul(977) % u32::from(count);
    let mut failed = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..count {
        let step = u32::from(GIVEN.fetch_add(1, Ordering::Relaxed) % count);
        let port = PORTS.start + ((begin + step) % u32::from(count)) as u16;
        match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
            Ok(_) => return Ok(port),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
