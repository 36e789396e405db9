//! Child processes that never outlive the harness: subjects, etcd, API servers.
//!
//! A process is started through a *guard*: this program, started with a hidden verb ([`guard`]). The guard leads its
//! own process group, starts the process in another group, and holds a pipe from the harness. When the pipe closes (the
//! harness drops it, panics or is killed with SIGKILL), the guard ends the whole group of the process, children
//! included. Children that left the group are re-parented to the guard and ended too.
//! The guard copies the output to a log file that stops growing at a limit.

pub mod crash_cleanup;
mod log;
pub mod signals;
pub mod tempdir;
pub mod tree;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin};

use log::{LimitedLog, Output};

/// The hidden verb.
pub const VERB: &str = "__guard";
/// Limit for the log of a process, in bytes.
const LOG_LIMIT: u64 = 16 * 1024 * 1024;
/// Grace period of a process when the harness is gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(2);
/// Pause between two checks for remaining children.
const ORPHAN_PAUSE: Duration = Duration::from_millis(5);
/// Extra time for a guard beyond the grace period of its process.
const GUARD_GRACE: Duration = Duration::from_secs(5);

/// Ports for programs that are about to start: below the range that systems use for outgoing connections.
const PORTS: Range<u16> = 15_000..30_000;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the program that implements [`VERB`], for programs that do not (tests). Only the first call has an effect.
pub fn use_guard(program: impl Into<PathBuf>) {
    let _ = PROGRAM.set(program.into());
}

/// Returns the program that implements [`VERB`]: this one unless [`use_guard`] set another.
pub fn program() -> io::Result<PathBuf> {
    PROGRAM.get().map_or_else(std::env::current_exe, |program| Ok(program.clone()))
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
        command.arg(VERB).arg(&self.log).args(&self.argv).envs(self.env.iter().map(|(key, value)| (key, value)));
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
            Some(NOT_STARTED) => {
                let why = self.log_tail(1).pop().unwrap_or_else(|| format!("unable to start {program}"));
                why.trim_start_matches(GUARD_SAYS).to_owned()
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
                Some(Ok(status)) if status.code() == Some(HAD_TO_KILL) => {
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

/// Exit codes of the guard, in addition to those of its process.
const NOT_STARTED: i32 = 127;
const HAD_TO_KILL: i32 = 124;
const GUARD_SAYS: &str = "guard: ";

/// Entry point of the guard: `LOG PROGRAM [ARGUMENT…]`. Returns the exit code.
///
/// Reads orders from standard input: `kill`, `term MILLISECONDS`; end of input is an order to end the process with a
/// short grace period.
#[must_use]
pub fn guard(arguments: &[OsString]) -> i32 {
    let [log, program, rest @ ..] = arguments else { return NOT_STARTED };
    let Ok(log) = File::options().append(true).create(true).open(log) else { return NOT_STARTED };
    let log = Arc::new(Mutex::new(LimitedLog::new(log, LOG_LIMIT)));
    // Without a subreaper (Linux only) just the group is ended.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let spawned = std::process::Command::new(program)
        .args(rest)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let text = format!("{GUARD_SAYS}unable to start {}: {error}\n", program.to_string_lossy());
            log.lock().write(Output::Guard, text.as_bytes());
            return NOT_STARTED;
        }
    };
    let out = child.stdout.take().map(|out| pump(out, Output::Stdout, log.clone()));
    let pumps = [out, child.stderr.take().map(|err| pump(err, Output::Stderr, log))];
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let killed = Arc::new(OnceLock::new());
    std::thread::spawn({
        let killed = killed.clone();
        move || obey(group, &killed)
    });
    std::thread::spawn({
        let killed = killed.clone();
        move || heed_signals(group, &killed)
    });
    let status = child.wait();
    // End everything that is left in its group.
    signal(group, Signal::KILL);
    end_orphans();
    // The copies end with the last writer; one that cannot be killed must not block the guard.
    let pumps: Vec<_> = pumps.into_iter().flatten().collect();
    wait_until(|| pumps.iter().all(std::thread::JoinHandle::is_finished));
    match (status, killed.get()) {
        (_, Some(())) => HAD_TO_KILL,
        (Ok(status), None) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
        (Err(_), None) => NOT_STARTED,
    }
}

/// Ends children that left the process group, generation by generation.
fn end_orphans() {
    wait_until(|| match rustix::process::wait(WaitOptions::NOHANG) {
        // Reaped an ended child; there may be more.
        Ok(Some(_)) => false,
        Ok(None) => {
            for child in children() {
                let _ = rustix::process::kill_process(child, Signal::KILL);
            }
            false
        }
        Err(_) => true,
    });
}

/// Returns the guard's own children from `/proc`.
fn children() -> Vec<Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let numbers =
        texts.flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>());
    numbers.filter_map(Pid::from_raw).collect()
}

/// Polls until the condition holds, for a few seconds at most.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let mut left = ORPHAN_GRACE.as_millis() / ORPHAN_PAUSE.as_millis();
    while !is_so() && left > 0 {
        left -= 1;
        std::thread::sleep(ORPHAN_PAUSE);
    }
}

/// Executes one order and then waits for the end of the process. Sets `killed` if SIGTERM was not enough.
fn obey(group: Option<Pid>, killed: &OnceLock<()>) {
    let mut order = String::new();
    let read = io::stdin().lock().read_line(&mut order);
    let grace = match (read, order.trim().split_once(' ')) {
        (Ok(_), Some(("term", millis))) => Duration::from_millis(millis.parse().unwrap_or_default()),
        (Ok(length), None) if length > 0 => {
            signal(group, Signal::KILL);
            return;
        }
        _ => ORPHAN_GRACE,
    };
    end(group, grace, killed);
}

/// Forwards signals to the process: SIGTERM, SIGINT and SIGHUP to the guard end its process.
fn heed_signals(group: Option<Pid>, killed: &OnceLock<()>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let asked = runtime.block_on(async {
        let [Ok(mut term), Ok(mut int), Ok(mut hup)] =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal)
        else {
            return None;
        };
        tokio::select! { asked = term.recv() => asked, asked = int.recv() => asked, asked = hup.recv() => asked }
    });
    if asked.is_some() {
        end(group, ORPHAN_GRACE, killed);
    }
}

fn end(group: Option<Pid>, grace: Duration, killed: &OnceLock<()>) {
    signal(group, Signal::TERM);
    std::thread::sleep(grace);
    let _ = killed.set(());
    signal(group, Signal::KILL);
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // It may have ended already.
        let _ = kill_process_group(group, signal);
    }
}

fn pump(mut from: impl Read + Send + 'static, of: Output, log: Arc<Mutex<LimitedLog>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            log.lock().write(of, &buffer[..length]);
        }
    })
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
