//! The state of the tracer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use jiff::Timestamp;

use super::arch::Architecture as _;
use super::backlog::Backlog;
use super::calls::Memory;
use super::clocks::{Clocks, Family, NEVER, round_up};
use super::control::Control;
use super::device_io::Batch;
use super::image::Image;
use super::outside::Outside;
use super::sys::{self, Child, Interrupter, Registers};
use super::table::{Activity, Table};
use super::timers::Timers;
use crate::outcome::End;
use crate::protocol::Reading;
use crate::report::{Report, UnvirtualCall};
use crate::settings::{Network, Settings};

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The command runs.
    Running,
    /// It got `SIGTERM`, and has until this real time.
    Ending(u64),
    /// Everything is being killed.
    Killing,
}

/// The tracer of one guest. It belongs to the thread that traces.
pub(crate) struct Tracer {
    pub(crate) settings: Settings,
    pub(crate) clocks: Clocks,
    pub(crate) image: Option<Image>,
    pub(crate) table: Table,
    pub(crate) timers: Timers,
    /// True once a program has opened a pseudo-terminal.
    pub(crate) has_terminals: bool,
    /// True once a program has set a timeout of a socket or a terminal.
    pub(crate) has_timeouts: bool,
    /// Timeouts of sockets by their numbers, for receiving and for sending, where the tracer must not ask the kernel.
    pub(crate) sockets: BTreeMap<u64, [u64; 2]>,
    /// Requests of asynchronous I/O that are not done.
    pub(crate) batches: Vec<Batch>,
    pub(crate) control: Control,
    pub(crate) report: Report,
    unvirtual: BTreeMap<(&'static str, bool, String), u64>,
    /// Threads that stopped before their parent announced them.
    pub(crate) unannounced: BTreeSet<i32>,
    /// Threads that look for children that have ended, once all events are handled.
    pub(crate) looking: Vec<i32>,
    /// The main process, and its wait status once it has ended.
    pub(crate) main: Child,
    pub(crate) status: Option<i32>,
    /// The files that it shares with programs outside.
    pub(crate) outside: Outside,
    /// Packets on their way.
    pub(crate) backlog: Backlog,
    /// True once the main process has executed its program.
    pub(crate) has_started: bool,
    /// The real time at which the command was found to have ended.
    pub(crate) over_since: Option<u64>,
    /// The reason for which the command's program is refused.
    pub(crate) refusal: Option<&'static str>,
    pub(crate) phase: Phase,
    pub(crate) end: End,
    pub(crate) order: Arc<AtomicU8>,
    pub(crate) interrupter: Interrupter,
    /// The thread that was busy at the last proof.
    pub(crate) busy: Option<i32>,
    /// The number of the last move of time before which all threads were interrupted, for a test.
    pub(crate) disturbed: u64,
    /// The busy thread that was interrupted to see where it runs.
    pub(crate) inspected: Option<i32>,
    /// Real times: of the start, of the last rest, of the last probe, of the next looks for orders and at the processor
    /// time.
    pub(crate) start: u64,
    pub(crate) last_rest: u64,
    pub(crate) last_probe: u64,
    pub(crate) next_orders: u64,
    pub(crate) next_look: u64,
    /// The virtual time at which the limit was reached.
    pub(crate) limited_time: Option<u64>,
    /// The real time until which a yield is taken to last long.
    pub(crate) crowded_until: u64,
    /// The processor time of processes that have ended since the last rest, and that at which time crept last.
    pub(crate) ended_time: u64,
    pub(crate) crept: u64,
}

/// The memory of a thread's program.
pub(crate) struct ProgramMemory(pub(crate) i32);

impl Memory for ProgramMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        sys::read_memory(self.0, address, bytes)
    }
}

impl Tracer {
    /// Makes a tracer of a forked child.
    pub(crate) fn new(
        settings: Settings,
        clocks: Clocks,
        image: Option<Image>,
        control: Control,
        main: Child,
        order: Arc<AtomicU8>,
        interrupter: Interrupter,
    ) -> Self {
        let now = sys::real_monotonic();
        Self {
            settings,
            clocks,
            image,
            table: Table::default(),
            timers: Timers::default(),
            has_terminals: false,
            has_timeouts: false,
            sockets: BTreeMap::new(),
            batches: Vec::new(),
            control,
            report: Report::default(),
            unvirtual: BTreeMap::new(),
            unannounced: BTreeSet::new(),
            looking: Vec::new(),
            main,
            status: None,
            outside: Outside::default(),
            backlog: Backlog::open(),
            has_started: false,
            over_since: None,
            refusal: None,
            phase: Phase::Running,
            end: End::Exited,
            order,
            interrupter,
            busy: None,
            disturbed: 0,
            inspected: None,
            start: now,
            last_rest: now,
            last_probe: 0,
            next_orders: 0,
            next_look: 0,
            crowded_until: 0,
            limited_time: None,
            ended_time: 0,
            crept: 0,
        }
    }

    /// Moves all clocks.
    pub(crate) fn set_time(&mut self, elapsed: u64) {
        self.clocks.elapsed = elapsed;
        if let Some(image) = &self.image {
            image.show(&self.clocks);
        }
    }

    /// Returns the next deadline, exactly as the program asked for it.
    pub(crate) fn next_deadline(&self) -> u64 {
        let threads = self.table.threads.values().filter_map(super::table::Thread::deadline);
        threads.min().unwrap_or(NEVER).min(self.timers.next())
    }

    /// Returns the state of the clock for clients.
    pub(crate) fn reading(clocks: &Clocks, next: u64) -> Reading {
        let now = i128::from(clocks.now(Family::Realtime));
        Reading {
            now: Timestamp::from_nanosecond(now).unwrap_or(Timestamp::MAX),
            elapsed_ns: clocks.elapsed,
            next_ns: (next != NEVER).then_some(round_up(next)),
        }
    }

    /// Records a call that is not virtual, and true if it was refused.
    pub(crate) fn note(&mut self, call: &'static str, is_refused: bool, thread: i32) {
        *self.unvirtual.entry((call, is_refused, self.table.program(thread))).or_default() += 1;
    }

    /// Records a connection to another machine, which there is not in a network of its own.
    pub(crate) fn note_connection(&mut self, address: SocketAddr, thread: i32) {
        if self.settings.network == Network::Private {
            let program = self.table.program(thread);
            self.warn(format!(
                "{program} connects to {address}, outside: programs here have a loopback device only; do it before the \
                 run, or use --network shared"
            ));
        }
    }

    /// Records a warning, once.
    pub(crate) fn warn(&mut self, warning: String) {
        if !self.report.warnings.contains(&warning) {
            self.report.warnings.push(warning);
        }
    }

    /// Returns the finished report.
    pub(crate) fn finish(&mut self) -> Report {
        use std::time::Duration;
        let strangers: Vec<String> = self.control.strangers().iter().cloned().collect();
        for program in strangers {
            self.warn(format!("{program} tried to move the time, which is not its own; its orders were refused"));
        }
        let mut report = std::mem::take(&mut self.report);
        report.virtual_time = Duration::from_nanos(self.limited_time.unwrap_or(self.clocks.elapsed));
        report.real_time = Duration::from_nanos(sys::real_monotonic() - self.start);
        report.tracer_time = Duration::from_nanos(sys::processor_time());
        let unvirtual = std::mem::take(&mut self.unvirtual).into_iter();
        report.unvirtual = unvirtual
            .map(|((call, is_refused, program), count)| UnvirtualCall {
                call: call.to_owned(),
                program,
                count,
                is_refused,
            })
            .collect();
        report
    }

    /// Continues a stopped thread. One that was killed at this moment reports its end by itself.
    pub(crate) fn resume(&self, thread: i32, signal: i32) {
        let is_followed = self.table.threads.get(&thread).is_some_and(super::table::Thread::is_followed);
        let _ = sys::resume(thread, is_followed, signal);
    }

    /// Answers the call at which a thread has stopped, without the kernel.
    pub(crate) fn answer(&self, thread: i32, registers: &mut Registers, result: i64) {
        registers.set_number(-1);
        registers.set_result(result);
        let _ = sys::set_registers(thread, registers);
        self.resume(thread, 0);
    }

    /// Notes that a thread does something else from now on.
    pub(crate) fn set_activity(&mut self, thread: i32, activity: Activity) {
        if let Some(thread) = self.table.threads.get_mut(&thread) {
            thread.activity = activity;
        }
    }

    /// Writes to a program's memory; an address of zero means nowhere. Returns false if there is no such memory.
    pub(crate) fn write(thread: i32, address: u64, bytes: &[u8]) -> bool {
        address == 0 || sys::write_memory(thread, address, bytes)
    }
}
