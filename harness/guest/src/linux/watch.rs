//! Reads the state of a thread from `/proc`.

use std::fmt::Display;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// The most bytes that are read of the name of a function of the kernel.
pub(crate) const CHANNEL: usize = 64;

/// Functions of the kernel in which threads wait for an event, and are woken by signals. There are others.
const WAITS_FOR_EVENTS: [&[u8]; 10] = [
    b"futex_do_wait",
    b"do_epoll_wait",
    b"futex_wait_queue",
    b"ep_poll",
    b"hrtimer_nanosleep",
    b"poll_schedule_timeout.constprop.0",
    b"do_wait",
    b"anon_pipe_read",
    b"pipe_read",
    b"sk_wait_data",
];

/// The state of a thread that is not on a processor and does not wait for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep<'a> {
    /// It waits for an event, in this function of the kernel.
    Waiting(&'a [u8]),
    /// It waits for a disk or another short event of the kernel.
    Uninterruptible,
    /// It has ended.
    Dead,
}

/// The account of a thread's time on processors: it changes whenever the thread has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    bytes: [u8; 64],
    length: usize,
}

impl Account {
    /// Returns the nanoseconds that the thread has run.
    pub(crate) fn running_time(&self) -> u64 {
        let text = std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default();
        text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

/// A file of `/proc` that is read again and again. It stays open while the limit of open files permits it.
#[derive(Debug)]
struct ProcFile {
    path: String,
    file: Option<File>,
}

impl ProcFile {
    fn new(path: String) -> Self {
        let file = File::open(&path).ok();
        Self { path, file }
    }

    /// Reads the beginning of the file; 0 bytes if it is gone.
    fn read(&self, bytes: &mut [u8]) -> usize {
        match &self.file {
            Some(file) => file.read_at(bytes, 0).unwrap_or(0),
            None => File::open(&self.path).and_then(|file| file.read_at(bytes, 0)).unwrap_or(0),
        }
    }
}

/// The files of one thread.
#[derive(Debug)]
pub(crate) struct Watch {
    account: ProcFile,
    state: ProcFile,
    channel: ProcFile,
}

impl Watch {
    /// Opens the files.
    pub(crate) fn new(process: i32, thread: i32) -> Self {
        let file = |name: &str| ProcFile::new(format!("/proc/{process}/task/{thread}/{name}"));
        Self { account: file("schedstat"), state: file("stat"), channel: file("wchan") }
    }

    /// Reads the account of its time.
    pub(crate) fn account(&self) -> Account {
        let mut account = Account { bytes: [0; 64], length: 0 };
        account.length = self.account.read(&mut account.bytes);
        account
    }

    /// Returns true if the thread is off its processor and not queued for one.
    ///
    /// The state in `stat` does not tell: a thread sets it before it checks once more and leaves the processor, and
    /// keeps it when it is preempted there.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked_in(&mut [0; CHANNEL]).is_some()
    }

    /// Makes the scheduler let go of a thread that has gone to sleep. Returns true if it is blocked then, and was not.
    ///
    /// Since Linux 6.12, a thread that has had more than its share of a processor stays queued there when it sleeps,
    /// until its turn would have come, which takes milliseconds beside programs that compute. To ask in which call it
    /// waits makes the kernel take it out at once (`wait_task_inactive`).
    pub(crate) fn dequeue(&self, thread: i32) -> bool {
        let is_asleep = || matches!(current_call(thread), Some(CallState::Blocked(..)));
        !self.is_blocked() && self.state() == Some(b'S') && is_asleep() && self.is_blocked()
    }

    /// Returns true if the thread has ended.
    pub(crate) fn is_dead(&self) -> bool {
        self.sleep(&mut [0; CHANNEL]) == Some(Sleep::Dead)
    }

    /// Returns the function of the kernel in which the thread is blocked, as [`is_blocked`](Self::is_blocked) says.
    fn blocked_in<'a>(&self, bytes: &'a mut [u8; CHANNEL]) -> Option<&'a [u8]> {
        let length = self.channel.read(bytes);
        Some(&bytes[..length]).filter(|name| !name.is_empty() && **name != *b"0")
    }

    fn state(&self) -> Option<u8> {
        let mut bytes = [0; 256];
        let length = self.state.read(&mut bytes);
        // The name, in brackets, may contain anything.
        let end = bytes[..length].iter().rposition(|byte| *byte == b')')?;
        bytes.get(end + 2).copied()
    }

    /// Returns true if the thread has something to do.
    pub(crate) fn is_running(&self) -> bool {
        self.state() == Some(b'R')
    }

    /// Returns the kind of its sleep; `None` if it runs, is queued, or is stopped by the tracer.
    pub(crate) fn sleep<'a>(&self, channel: &'a mut [u8; CHANNEL]) -> Option<Sleep<'a>> {
        let length = self.channel.read(channel);
        if WAITS_FOR_EVENTS.contains(&&channel[..length]) {
            // The kernel works longer for the state than for all else of a proof.
            return Some(Sleep::Waiting(&channel[..length]));
        }
        match self.state()? {
            b'S' => self.blocked_in(channel).map(Sleep::Waiting),
            b'D' => self.is_blocked().then_some(Sleep::Uninterruptible),
            b'Z' | b'X' => Some(Sleep::Dead),
            _ => None,
        }
    }
}

/// Returns the process of a thread and that process's parent; `None` if it is gone.
pub(crate) fn process_and_parent(thread: i32) -> Option<(i32, i32)> {
    let status = ProcStatus::of(thread)?;
    let number = |name: &str| status.field(name)?.parse().ok();
    Some((number("Tgid:")?, number("PPid:")?))
}

/// Returns true if another program traces this one.
pub(crate) fn is_traced() -> bool {
    ProcStatus::of("self").is_some_and(|status| status.field("TracerPid:").is_some_and(|tracer| tracer != "0"))
}

/// Returns true if a process has another user than this one, or another group.
pub(crate) fn is_of_another_user(process: i32) -> bool {
    let users = |status: Option<ProcStatus>| {
        ["Uid:", "Gid:"].map(|name| status.as_ref().and_then(|status| status.field(name)).map(str::to_owned))
    };
    users(ProcStatus::of(process)) != users(ProcStatus::of("self"))
}

/// The state of a process or thread as `/proc` shows it at one moment.
struct ProcStatus(String);

impl ProcStatus {
    /// Reads the state of a process or thread; `None` if it is gone.
    fn of(number: impl Display) -> Option<Self> {
        fs::read_to_string(format!("/proc/{number}/status")).ok().map(Self)
    }

    /// Returns the value of the line with this name.
    fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
    }
}

/// Returns true if a signal has a handler in the thread's process.
pub(crate) fn is_caught(thread: i32, signal: i32) -> bool {
    has_signal(thread, "SigCgt:", signal)
}

/// Returns true if the thread's process ignores a signal, explicitly or because it has no handler for it.
pub(crate) fn is_ignored(thread: i32, signal: i32) -> bool {
    let by_default = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];
    has_signal(thread, "SigIgn:", signal) || (by_default.contains(&signal) && !is_caught(thread, signal))
}

/// Returns true if a signal is pending for a thread or for its process.
pub(crate) fn is_pending(thread: i32, signal: i32) -> bool {
    has_signal(thread, "SigPnd:", signal) || has_signal(thread, "ShdPnd:", signal)
}

fn has_signal(thread: i32, set: &str, signal: i32) -> bool {
    let status = ProcStatus::of(thread);
    let mask = status.as_ref().and_then(|status| u64::from_str_radix(status.field(set)?, 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Returns the number of a thread in its own namespace.
pub(crate) fn inner_number(thread: i32) -> Option<i32> {
    ProcStatus::of(thread)?.field("NSpid:")?.split_whitespace().last()?.parse().ok()
}

/// Returns the name of a thread.
pub(crate) fn thread_name(thread: i32) -> String {
    fs::read_to_string(format!("/proc/{thread}/comm"))
        .map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
}

/// Returns the file that a process executes.
pub(crate) fn executable(process: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/exe")).ok()
}

/// A thread in a system call, or not.
pub(crate) enum CallState {
    /// It runs, or is about to.
    Running,
    /// It is blocked in the system call of this number, with these arguments.
    Blocked(i64, Vec<u64>),
}

/// Returns the system call in which a thread is; `None` if that cannot be read.
pub(crate) fn current_call(thread: i32) -> Option<CallState> {
    let text = fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    let mut words = text.split_whitespace();
    let number = words.next()?;
    if number == "running" {
        return Some(CallState::Running);
    }
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    Some(CallState::Blocked(number.parse().ok()?, words.map_while(hex).collect()))
}

/// Returns true if shared memory of System V has the same numbers in a process as here.
pub(crate) fn shares_memory(process: i32) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/ipc")).ok();
    let own = namespace("self");
    own.is_none() || namespace(&process.to_string()) == own
}

/// Returns the name of a process's open file: a path, or `pipe:[…]` or `socket:[…]` with its number.
pub(crate) fn file_name(process: i32, file: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/fd/{file}")).ok()
}

/// Returns the numbers and names of a process's open files.
pub(crate) fn files(process: i32) -> Vec<(i32, PathBuf)> {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let file = |file: fs::DirEntry| Some((file.file_name().to_str()?.parse().ok()?, fs::read_link(file.path()).ok()?));
    files.flatten().filter_map(file).collect()
}

/// Returns the number of a socket, by which all its copies are known; `None` for other files.
pub(crate) fn socket_of(process: i32, file: i32) -> Option<u64> {
    file_name(process, file)?.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeping_thread_differs_from_a_running_one() {
        let own = std::process::id() as i32;
        let thread = fs::read_link("/proc/thread-self").expect("this thread");
        let thread = thread.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
        assert_eq!(Watch::new(own, thread).sleep(&mut [0; CHANNEL]), None, "it runs");
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let (say, hear) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            let thread = fs::read_link("/proc/thread-self").expect("this thread");
            say.send(thread.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number"))
                .expect("heard");
            receive.recv().expect("a message");
        });
        let watch = Watch::new(own, hear.recv().expect("a thread"));
        while !matches!(watch.sleep(&mut [0; CHANNEL]), Some(Sleep::Waiting(_))) {
            std::thread::yield_now();
        }
        let account = watch.account();
        assert_eq!(account, watch.account());
        send.send(()).expect("received");
        sleeper.join().expect("an end");
        // A thread is joined a little before it is gone.
        while watch.account().length > 0 {
            std::thread::yield_now();
        }
        assert!(account.running_time() > 0);
    }
}
