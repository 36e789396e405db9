//! The threads and processes that are traced.

use std::collections::BTreeMap;

use super::arch::Call;
use super::calls::{LoopCall, Notification, Wait};
use super::clocks::Family;
use super::sys::Registers;
use super::watch::{self, Account, Watch};

/// The activity of a thread, as far as the tracer takes part in it.
#[derive(Debug)]
pub(crate) enum Activity {
    /// It was announced, and has not stopped for the first time.
    Starting,
    /// It runs, or sleeps in a call that is not the tracer's.
    Running,
    /// It is in a wait that the tracer has changed.
    Waiting(Box<ActiveWait>),
    /// It is in a call whose result the tracer reads.
    Calling(Pending),
    /// It maps the image of the clocks, after an exec: a step and the registers of its program.
    Mapping(Mapping),
}

/// A wait in progress.
#[derive(Debug)]
pub(crate) struct ActiveWait {
    pub(crate) wait: Wait,
    /// The registers with the original call.
    pub(crate) original: Registers,
    /// The moment at which a nap ends in real time, should the others not rest until then.
    pub(crate) nap_end: Option<u64>,
    /// True once it was interrupted because of its deadline.
    pub(crate) is_over: bool,
}

/// A call whose result the tracer reads.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    /// `timer_create`, which writes the number to an address.
    CreateTimer(Family, Notification, u64),
    /// `setsockopt` of a timeout, with the place of the value and, if that was changed, the value.
    SetTimeout(u64, Option<[u8; 16]>),
    /// `seccomp` in the place of a call with these registers, which comes again after it.
    StopAtSends(Box<Registers>),
    /// `getsockopt` of a timeout, which writes the value and its length to these places.
    GetTimeout(u64, u64),
    /// `io_submit`, with the context, the list of requests, and the end of the context's ring before; `None` if there
    /// is no such context.
    Submit(u64, u64, Option<u32>),
    /// `adjtimex` or `clock_adjtime`, which writes to an address.
    Adjustment(u64),
    /// `times`.
    Times,
    /// `sysinfo`, which writes to an address.
    SystemInformation(u64),
}

/// A step of mapping the image.
#[derive(Debug)]
pub(crate) enum Mapping {
    /// The exec returns next.
    Exec,
    /// The call that maps it is next, or the one that makes a place for it, as long as there is none.
    Enter(Box<Registers>, AuxiliaryVector, Option<u64>),
    /// The call returns next.
    Leave(Box<Registers>, AuxiliaryVector, Option<u64>),
}

/// The entries of a program's auxiliary vector that the tracer changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AuxiliaryVector {
    /// The place of the entry with the address of the vDSO.
    pub(crate) vdso_entry: Option<u64>,
    /// The address of the vDSO.
    pub(crate) vdso: u64,
    /// The address of 16 random bytes.
    pub(crate) random: Option<u64>,
}

/// A wait that was interrupted and that the kernel starts again: it keeps its deadline, and a nap its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restart {
    pub(crate) call: Call,
    pub(crate) instruction: u64,
    pub(crate) stack: u64,
    pub(crate) deadline: u64,
    pub(crate) nap_end: Option<u64>,
}

/// A wait on a socket or a terminal with a timeout.
#[derive(Clone, Debug)]
pub(crate) struct SocketWait {
    /// The account of the thread at the beginning: it has not run since.
    pub(crate) account: Account,
    /// The number of the call, its arguments and its place.
    pub(crate) call: (i64, Vec<u64>),
    pub(crate) deadline: u64,
    /// The result at the deadline; `None` if the call goes on without one, unless it has got something.
    pub(crate) timeout: Option<i64>,
    /// True once it was interrupted because of its deadline.
    pub(crate) is_over: bool,
    /// True if the same call goes on after an interruption.
    pub(crate) is_restarted: bool,
}

/// A look at the calls of a busy thread, which stops at each of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probe {
    /// False until the thread has stopped, maybe inside of a call.
    pub(crate) has_begun: bool,
    /// The time of day that its program had read last at the first call.
    pub(crate) last: Option<u64>,
    /// The kind of the call, between its entry and its exit.
    pub(crate) inside: Option<LoopCall>,
    /// Numbers of calls that poll, of those that yield, and of these and others that do no work.
    pub(crate) polls: u32,
    pub(crate) yields: u32,
    pub(crate) others: u32,
}

/// The readings of a thread's program, when the thread was alone and began to be observed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readings {
    /// The virtual time.
    pub(crate) elapsed: u64,
    pub(crate) count: u64,
    pub(crate) running_time: u64,
    /// True once the thread is taken to wait.
    pub(crate) waits: bool,
}

/// The result of the earlier probes of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    Unknown,
    /// It has waited in a loop, and is likely to do so again.
    Loops,
}

/// A stop of a whole process, as by `SIGSTOP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupStop {
    None,
    Stopped,
    /// It is over, and the thread has not rested since.
    Continued,
}

/// One thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) process: i32,
    pub(crate) activity: Activity,
    pub(crate) group_stop: GroupStop,
    /// True once it has ended and others of its process live on.
    pub(crate) is_dead: bool,
    /// True while it waits for a child of `vfork`.
    pub(crate) is_vforking: bool,
    pub(crate) restart: Option<Restart>,
    /// A wait that has failed with `EINTR`: it goes on if the signal turns out to be ignored.
    pub(crate) interrupted: Option<Restart>,
    pub(crate) probe: Option<Probe>,
    pub(crate) habit: Habit,
    /// True once the tracer has ordered it to stop, unless at the deadline of a wait that it follows, until it has
    /// stopped for that or its wait has ended.
    pub(crate) is_ordered: bool,
    /// The readings of its program when it began to be observed, if it is busy.
    pub(crate) readings: Option<Readings>,
    /// Its account when a probe looked whether another thread is alone.
    pub(crate) probed: Option<Account>,
    /// The virtual time at which its last wait timed out.
    pub(crate) timed_out_at: Option<u64>,
    /// The real time until which it is not probed: it did work.
    pub(crate) works_until: u64,
    pub(crate) socket_wait: Option<SocketWait>,
    /// The account with which it was proven to sleep, if it has not run since.
    pub(crate) resting: Option<Account>,
    /// The account of the present proof.
    pub(crate) sample: Option<Account>,
    /// Its running time at the last rest.
    pub(crate) running_time: u64,
    /// The virtual time of its last nap, and the number of naps since that did not end beside a busy thread.
    pub(crate) naps: (u64, u32),
    /// The state of its random numbers, and the number of its children.
    pub(crate) random: u64,
    pub(crate) children: u64,
    pub(crate) watch: Watch,
}

impl Thread {
    /// Makes a thread.
    pub(crate) fn new(process: i32, thread: i32, activity: Activity, random: u64) -> Self {
        Self {
            process,
            activity,
            group_stop: GroupStop::None,
            is_dead: false,
            is_vforking: false,
            restart: None,
            interrupted: None,
            probe: None,
            habit: Habit::Unknown,
            is_ordered: false,
            readings: None,
            probed: None,
            timed_out_at: None,
            works_until: 0,
            socket_wait: None,
            resting: None,
            sample: None,
            running_time: 0,
            naps: (0, 0),
            random,
            children: 0,
            watch: Watch::new(process, thread),
        }
    }

    /// Returns the deadline of its wait.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match &self.activity {
            Activity::Waiting(active) if !active.is_over => Some(active.wait.deadline),
            _ => self.socket_wait.as_ref().filter(|wait| !wait.is_over).map(|wait| wait.deadline),
        }
    }

    /// Returns true in a group stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.group_stop == GroupStop::Stopped
    }

    /// Returns true if it is in a nap, which ends in real time.
    pub(crate) fn is_napping(&self) -> bool {
        matches!(&self.activity, Activity::Waiting(active) if active.nap_end.is_some())
    }

    /// Returns true if the tracer follows its calls to their exits.
    pub(crate) fn is_followed(&self) -> bool {
        self.probe.is_some_and(|probe| probe.has_begun)
            || matches!(self.activity, Activity::Waiting(_) | Activity::Calling(_) | Activity::Mapping(_))
    }
}

/// One process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    /// The name of its program.
    pub(crate) program: String,
    /// The address of the image of the clocks.
    pub(crate) image: Option<u64>,
    /// The time of day that it has read last, if it asks the kernel.
    pub(crate) last: u64,
    /// True once it stops when it sends, or cannot be made to.
    pub(crate) stops_at_sends: bool,
}

/// All threads and processes.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) threads: BTreeMap<i32, Thread>,
    pub(crate) processes: BTreeMap<i32, Process>,
}

impl Table {
    /// Removes a thread. Returns its process if that was its last one.
    pub(crate) fn remove(&mut self, thread: i32) -> Option<i32> {
        let process = self.threads.remove(&thread)?.process;
        if self.threads.values().any(|other| other.process == process) {
            return None;
        }
        self.processes.remove(&process).map(|_| process)
    }

    /// Returns the thread of a process that has this number in its own namespace.
    pub(crate) fn numbered(&self, process: i32, number: i32) -> Option<i32> {
        let own = self.threads.iter().filter(|(_, entry)| entry.process == process).map(|(thread, _)| *thread);
        own.into_iter().find(|thread| watch::inner_number(*thread) == Some(number))
    }

    /// Returns the name of the program that a thread executes.
    pub(crate) fn program(&self, thread: i32) -> String {
        let process = self.threads.get(&thread).and_then(|thread| self.processes.get(&thread.process));
        process.map_or_else(|| "?".to_owned(), |process| process.program.clone())
    }

    /// Returns the address of the image in a thread's process.
    pub(crate) fn image(&self, thread: i32) -> Option<u64> {
        self.processes.get(&self.threads.get(&thread)?.process)?.image
    }
}
