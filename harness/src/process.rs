//! Processes that never outlive the harness: subjects, etcd, API servers.
//!
//! A process is started through a *guard*, this very program with a hidden verb ([`guard`]). The guard leads a process group
//! of its own, starts the process in another one, and holds a pipe from the harness. When the pipe breaks, because the
//! harness drops it, panics or is killed with SIGKILL, the guard ends the whole group of the process, children included. A
//! child that left the group falls to the guard when its parents end, and is ended too.
//! Output goes through the guard into a log file that stops growing at a limit.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, Read, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin};

/// The hidden verb.
pub const VERB: &str = "__guard";
/// How much of a process's output is kept, in bytes.
const LOG_LIMIT: u64 = 16 * 1024 * 1024;
/// How long a process may take to end when the harness has gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(2);
/// How often a guard looks for children that are left.
const ORPHAN_PAUSE: Duration = Duration::from_millis(5);
/// How long a guard may take beyond what it grants its process.
const GUARD_GRACE: Duration = Duration::from_secs(5);

/// Ports for programs that are about to start: below those that systems give to outgoing connections.
const PORTS: Range<u16> = 15_000..30_000;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Names the program that has the verb [`VERB`], for programs that have not (tests). The first call counts.
pub fn use_guard(program: impl Into<PathBuf>) {
    let _ = PROGRAM.set(program.into());
}

/// This program, or the one that stands for it.
pub(crate) fn program() -> io::Result<PathBuf> {
    PROGRAM.get().map_or_else(std::env::current_exe, |program| Ok(program.clone()))
}

/// How to start a process.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Variables added to the environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its working folder; the harness's if absent.
    pub folder: Option<PathBuf>,
    /// Where its standard output and standard error go, in order of arrival.
    pub log: PathBuf,
}

/// A process under guard. Dropping it ends the process.
#[derive(Debug)]
pub struct Guarded {
    guard: Child,
    orders: Option<ChildStdin>,
    log: PathBuf,
    program: String,
}

impl Start {
    /// Starts it. Call in a tokio runtime.
    ///
    /// # Errors
    ///
    /// When the program does not exist or cannot be run, or there is no room for another process; the text names it.
    pub fn spawn(&self) -> Result<Guarded, String> {
        let name = self.argv.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
        let failed = |error: io::Error| format!("unable to start {name}: {error}");
        File::create(&self.log).map_err(|error| format!("unable to write the log {}: {error}", self.log.display()))?;
        let mut command = std::process::Command::new(program().map_err(failed)?);
        command.arg(VERB).arg(&self.log).args(&self.argv).envs(self.env.iter().map(|(key, value)| (key, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        // A group of its own: Ctrl-C in the terminal is for the harness, which then breaks the pipe.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut guard = tokio::process::Command::from(command).spawn().map_err(failed)?;
        let orders = guard.stdin.take();
        Ok(Guarded { guard, orders, log: self.log.clone(), program: name })
    }
}

impl Guarded {
    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.guard.try_wait().ok()??;
        Some(self.describe(status))
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

    /// Its process id, where the system tells (`/proc`): soon after the start, until its end.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let guard = self.guard.id()?;
        let children = std::fs::read_to_string(format!("/proc/{guard}/task/{guard}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// Ends it and its children where they stand; returns at once.
    pub fn kill(&mut self) {
        if let Some(orders) = self.orders.take() {
            // A pipe has room for a word; nothing waits.
            let kill = async move {
                let mut orders = orders;
                let _ = orders.write_all(b"kill\n").await;
                // The guard takes the end of the pipe for an order of its own: it must come after the word.
                drop(orders);
            };
            let _ = futures::FutureExt::now_or_never(kill);
        }
    }

    /// Asks it to end with SIGTERM and waits, at most `grace`; then kills it.
    ///
    /// # Errors
    ///
    /// When it had to be killed or ended with an error; the text says which.
    pub async fn terminate(&mut self, grace: Duration) -> Result<(), String> {
        if let Some(mut orders) = self.orders.take() {
            let order = format!("term {}\n", grace.as_millis());
            // Whoever does not read any more has ended.
            let _ = orders.write_all(order.as_bytes()).await;
            let status = crate::time::Clock::wall().timeout(grace + GUARD_GRACE, self.guard.wait()).await;
            drop(orders);
            return match status {
                Some(Ok(status)) if status.code() == Some(HAD_TO_KILL) => {
                    Err(format!("{} was still running {} s after SIGTERM", self.program, grace.as_secs()))
                }
                // Ended by the signal itself: it has no handler, and that is its right.
                Some(Ok(status)) if matches!(status.code(), Some(0 | 143)) => Ok(()),
                Some(Ok(status)) => Err(self.describe(status)),
                Some(Err(error)) => Err(format!("unable to wait for {}: {error}", self.program)),
                None => Err(format!("the guard of {} does not answer", self.program)),
            };
        }
        Ok(())
    }

    /// The last `count` lines of its output.
    #[must_use]
    pub fn log_tail(&self, count: usize) -> Vec<String> {
        tail(&self.log, count)
    }

    /// Where its output goes.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }
}

/// The last `count` lines of a file; none if it cannot be read.
#[must_use]
pub fn tail(path: &Path, count: usize) -> Vec<String> {
    last_lines(&std::fs::read(path).unwrap_or_default(), count)
}

/// The last `count` lines of what a program wrote.
pub(crate) fn last_lines(bytes: &[u8], count: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| (*line).to_owned()).collect()
}

/// Exit codes of the guard, beside its process's own.
const NOT_STARTED: i32 = 127;
const HAD_TO_KILL: i32 = 124;
const GUARD_SAYS: &str = "guard: ";

/// The guard itself: `LOG PROGRAM [ARGUMENT…]`. Returns the exit code.
///
/// Orders come over standard input: `kill`, `term MILLISECONDS`; the end of it is an order to end soon.
#[must_use]
pub fn guard(arguments: &[OsString]) -> i32 {
    let [log, program, rest @ ..] = arguments else { return NOT_STARTED };
    let Ok(log) = File::options().append(true).create(true).open(log) else { return NOT_STARTED };
    let log = Arc::new(Mutex::new(Log { file: log, left: LOG_LIMIT }));
    // Where the system has no such thing, only the group is ended.
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
            Log::write(
                &log,
                format!("{GUARD_SAYS}unable to start {}: {error}\n", program.to_string_lossy()).as_bytes(),
            );
            return NOT_STARTED;
        }
    };
    let pumps = [child.stdout.take().map(|out| pump(out, log.clone())), child.stderr.take().map(|err| pump(err, log))];
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
    // Whatever it left behind in its group goes with it.
    signal(group, Signal::KILL);
    end_orphans();
    // Their output ends with the last of them; one that cannot be killed must not hold the guard.
    let pumps: Vec<_> = pumps.into_iter().flatten().collect();
    wait_until(|| pumps.iter().all(std::thread::JoinHandle::is_finished));
    match (status, killed.get()) {
        (_, Some(())) => HAD_TO_KILL,
        (Ok(status), None) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
        (Err(_), None) => NOT_STARTED,
    }
}

/// Ends what the process left behind outside of its group, generation by generation.
fn end_orphans() {
    wait_until(|| match rustix::process::wait(WaitOptions::NOHANG) {
        // A child that has ended is reaped; others may be left.
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

/// The guard's own children, where the system tells (`/proc`).
fn children() -> Vec<Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let numbers =
        texts.flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>());
    numbers.filter_map(Pid::from_raw).collect()
}

/// Asks until it is so, for a few seconds at most.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let mut left = ORPHAN_GRACE.as_millis() / ORPHAN_PAUSE.as_millis();
    while !is_so() && left > 0 {
        left -= 1;
        std::thread::sleep(ORPHAN_PAUSE);
    }
}

/// Follows orders until the process has ended and the guard with it. `killed` is set when SIGTERM was not enough.
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

/// Whoever asks the guard itself to end means its process.
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

/// A log file with a limit.
struct Log {
    file: File,
    left: u64,
}

impl Log {
    fn write(log: &Mutex<Self>, bytes: &[u8]) {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let length = bytes.len() as u64;
        if log.left == 0 {
            return;
        }
        // A full disk must not stop the process whose log this is.
        if length <= log.left {
            let _ = log.file.write_all(bytes);
            log.left -= length;
        } else {
            let _ = writeln!(log.file, "{GUARD_SAYS}the log ends here, at its limit");
            log.left = 0;
        }
    }
}

fn pump(mut from: impl Read + Send + 'static, log: Arc<Mutex<Log>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            Log::write(&log, &buffer[..length]);
        }
    })
}

/// A port for a program that is about to start. Nobody has it at the moment, and nobody gets it by chance meanwhile: a run of
/// many fixtures at once has hundreds of outgoing connections, whose ports come from elsewhere. This process gives each of
/// its ports once before it begins again; processes side by side begin at different places.
///
/// # Errors
///
/// When none can be had.
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
