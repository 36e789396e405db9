//! The guard: the parent of one process, with one thread, so that a tracer has little to watch.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use plumbline::time::Clock;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::signal::unix::SignalKind;
use tokio::task::{JoinHandle, LocalSet};

use super::log::{GUARD_SAYS, LimitedLog, Output};

/// The hidden verb.
pub const VERB: &str = "__guard";

/// Exit codes of the guard, in addition to those of its process.
pub(super) const NOT_STARTED: i32 = 127;
pub(super) const HAD_TO_KILL: i32 = 124;

/// Limit for the log of a process, in bytes.
const LOG_LIMIT: u64 = 16 * 1024 * 1024;
/// Grace period of a process when the harness is gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(2);
/// Pause between two checks for remaining children.
const ORPHAN_PAUSE: Duration = Duration::from_millis(5);

type SharedLog = Rc<RefCell<LimitedLog>>;

/// Runs `LOG PROGRAM [ARGUMENT…]` and returns the exit code.
///
/// Reads an order from standard input: `kill`, `term MILLISECONDS`; end of input is an order to end the process with a
/// short grace period, and so are SIGTERM, SIGINT and SIGHUP.
#[must_use]
pub fn main(arguments: &[OsString]) -> i32 {
    let [log, program, rest @ ..] = arguments else { return NOT_STARTED };
    let Ok(log) = File::options().append(true).create(true).open(log) else { return NOT_STARTED };
    // Without a subreaper (Linux only) just the group is ended.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return NOT_STARTED };
    let log = Rc::new(RefCell::new(LimitedLog::new(log, LOG_LIMIT)));
    LocalSet::new().block_on(&runtime, run(log, program, rest))
}

async fn run(log: SharedLog, program: &OsString, arguments: &[OsString]) -> i32 {
    let spawned = Command::new(program)
        .args(arguments)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let text = format!("{GUARD_SAYS}unable to start {}: {error}\n", program.to_string_lossy());
            log.borrow_mut().write(Output::Guard, text.as_bytes());
            return NOT_STARTED;
        }
    };
    let out = child.stdout.take().map(|out| pump(out, Output::Stdout, log.clone()));
    let pumps = [out, child.stderr.take().map(|err| pump(err, Output::Stderr, log))];
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let code = end(&mut child, group).await;
    // End everything that is left in its group.
    signal(group, Signal::KILL);
    poll(reap_orphan).await;
    // The copies end with the last writer; one that cannot be killed must not block the guard.
    poll(|| pumps.iter().flatten().all(JoinHandle::is_finished)).await;
    code
}

/// Waits for the end of the process, by itself or by an order, and returns the exit code.
async fn end(child: &mut Child, group: Option<Pid>) -> i32 {
    let grace = tokio::select! {
        status = child.wait() => return status.map_or(NOT_STARTED, code),
        grace = order() => grace,
        () = signalled() => Some(ORPHAN_GRACE),
    };
    if let Some(grace) = grace {
        signal(group, Signal::TERM);
        if let Some(status) = Clock::wall().timeout(grace, child.wait()).await {
            return status.map_or(NOT_STARTED, code);
        }
    }
    signal(group, Signal::KILL);
    let status = child.wait().await;
    if grace.is_some() { HAD_TO_KILL } else { status.map_or(NOT_STARTED, code) }
}

fn code(status: std::process::ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Waits for an order. Returns the grace period of the process; `None` is an order to kill it.
async fn order() -> Option<Duration> {
    let mut order = String::new();
    if let Ok(input) = std::io::stdin().as_fd().try_clone_to_owned().and_then(pipe::Receiver::from_owned_fd) {
        // An error is the end of the harness, too.
        let _ = BufReader::new(input).read_line(&mut order).await;
    }
    match order.trim() {
        "kill" => None,
        order => {
            let grace = order.strip_prefix("term ").and_then(|millis| millis.parse().ok());
            Some(grace.map_or(ORPHAN_GRACE, Duration::from_millis))
        }
    }
}

/// Waits for a signal that ends programs.
async fn signalled() {
    let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let [Ok(mut term), Ok(mut int), Ok(mut hup)] = signals.map(tokio::signal::unix::signal) else {
        return std::future::pending().await;
    };
    tokio::select! { _ = term.recv() => {}, _ = int.recv() => {}, _ = hup.recv() => {} }
}

/// Reaps or kills children that left the process group, generation by generation. Returns true if there are none.
fn reap_orphan() -> bool {
    match rustix::process::wait(WaitOptions::NOHANG) {
        // Reaped an ended child; there may be more.
        Ok(Some(_)) => false,
        Ok(None) => {
            for child in children() {
                let _ = rustix::process::kill_process(child, Signal::KILL);
            }
            false
        }
        Err(_) => true,
    }
}

/// Returns the guard's own children from `/proc`.
fn children() -> Vec<Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let numbers =
        texts.flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>());
    numbers.filter_map(Pid::from_raw).collect()
}

/// Asks until the condition holds, for a few seconds at most.
async fn poll(mut is_so: impl FnMut() -> bool) {
    let mut left = ORPHAN_GRACE.as_millis() / ORPHAN_PAUSE.as_millis();
    while !is_so() && left > 0 {
        left -= 1;
        Clock::wall().sleep(ORPHAN_PAUSE).await;
    }
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // It may have ended already.
        let _ = kill_process_group(group, signal);
    }
}

fn pump(mut from: impl AsyncRead + Unpin + 'static, of: Output, log: SharedLog) -> JoinHandle<()> {
    tokio::task::spawn_local(async move {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            log.borrow_mut().write(of, &buffer[..length]);
        }
    })
}
