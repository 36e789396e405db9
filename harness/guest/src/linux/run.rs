//! The loop of the tracer's thread.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::arch::Architecture as _;
use super::calls::{self, LoopCall};
use super::clocks::GRAIN;
use super::fire::Progress;
use super::state::{Phase, ProgramMemory, Tracer};
use super::sys;
use super::table::{Activity, Habit, Probe};
use super::watch;
use crate::outcome::{End, KILL, TERMINATE};
use crate::report::{MOST_SPINS, Spin};

/// The pauses between two attempts to prove rest, in nanoseconds. The first ones only let others run.
const PAUSES: [u64; 8] = [0, 0, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000];

/// The longest pause while nothing is due, and the real time between two looks for orders while threads are busy.
const IDLE: u64 = 1_000_000;

/// The longest real time that a yield takes on a machine that is not crowded, and the pause in its place on one that
/// is.
const LONG_YIELD: u64 = 200_000;
const CROWDED_PAUSE: u64 = 50_000;
/// The real time for which a machine is taken to be crowded after a long yield.
const CROWDED: u64 = 100_000_000;

/// The real time that others have to end by themselves once the command has ended.
const FAREWELL: u64 = 200_000_000;

/// The real time between two looks at the processor time of busy programs.
const LOOK: u64 = 100_000_000;

/// The real time between two probes of a busy thread, and the processor time that it has used before: beside others
/// that run, and alone.
const PROBE: u64 = 2_000_000;
const BUSY: u64 = 10_000_000;
const BUSY_ALONE: u64 = 2_000_000;
/// The real time without rest after which a thread is probed that has used less.
const UNRESTED: u64 = 20_000_000;
/// The polls of a probed thread after which it waits for the clock to show more than its deadline.
const POLLS: u32 = 8;
/// The real time for which a thread that does work is not probed again.
const WORKS: u64 = 200_000_000;
/// The processor time without rest from which on a program is busy when the run is ended.
const BUSY_END: u64 = 500_000_000;
/// The most calls of a probe that do no work.
const LOOKS: u32 = 50;

impl Tracer {
    /// Runs until nothing is traced any more.
    pub(crate) fn run(&mut self) {
        let mut attempts = 0;
        while let Some(is_any) = self.handle_events() {
            self.check_end();
            if is_any || attempts == 0 {
                attempts = 1;
                if self.settings.is_disturbed {
                    self.disturb_busy();
                }
                // A thread that goes on most often stops again soon, at the next wait. One that stops all the time must
                // not keep others from what they are owed in real time.
                let now = sys::real_monotonic();
                if now < self.next_orders {
                    if self.let_run(now) {
                        attempts = 0;
                    }
                    continue;
                }
            }
            if self.is_at_rest() {
                match self.handle_events() {
                    None => return,
                    // A thread may run again.
                    Some(true) => {
                        attempts = 0;
                        continue;
                    }
                    Some(false) => {}
                }
                (self.last_rest, self.ended_time, self.crept) = (sys::real_monotonic(), 0, 0);
                self.next_orders = self.last_rest + IDLE;
                if self.status.is_some() && self.phase != Phase::Killing {
                    self.kill_left_over();
                    continue;
                }
                match self.at_rest() {
                    Progress::Some => attempts = 0,
                    Progress::Interrupted => {
                        self.wait_stop();
                        attempts = 0;
                    }
                    Progress::Idle => self.wait_idle(),
                }
                continue;
            }
            self.wait_busy(attempts);
            attempts += 1;
        }
    }

    /// Waits for the stop of an interrupted thread.
    fn wait_stop(&mut self) {
        if let Ok(Some(event)) = sys::next_event(true) {
            self.handle(event);
        }
    }

    /// Waits for an event, an order, or a millisecond.
    fn wait_idle(&mut self) {
        if self.control.is_manual() {
            sys::wait_readable(&self.control.files(), IDLE);
        } else {
            self.wait_event(IDLE);
        }
    }

    /// Waits a little, with each attempt longer, while threads run.
    fn wait_busy(&mut self, attempts: usize) {
        let now = sys::real_monotonic();
        // Beside a program that stops all the time there are few attempts between two events.
        let nap_end = self.end_naps(now);
        if now >= self.next_orders {
            self.next_orders = now + IDLE;
            let next = self.next_deadline();
            self.control.receive(|| Self::reading(&self.clocks, next));
            self.probe(now);
            self.follow_reader();
            self.guard(now);
        }
        let pause = PAUSES[attempts.min(PAUSES.len() - 1)];
        if pause == 0 {
            self.let_run(now);
            return;
        }
        let busy = self.busy.and_then(|thread| Some((thread, self.table.threads.get(&thread)?)));
        if busy.is_some_and(|(thread, entry)| entry.watch.dequeue(thread)) {
            return;
        }
        self.wait_event(pause.min(nap_end.saturating_sub(now)).max(1));
    }

    /// Lets others run for a moment. Returns true if an event was handled.
    ///
    /// A thread that yields lets all others have a turn that wait for its processor, which are milliseconds for each
    /// stop beside programs that compute. One that sleeps goes on at once after the stop.
    fn let_run(&mut self, now: u64) -> bool {
        if now < self.crowded_until {
            return self.wait_event(CROWDED_PAUSE);
        }
        sys::yield_now();
        let after = sys::real_monotonic();
        if after - now > LONG_YIELD {
            self.crowded_until = after + CROWDED;
        }
        false
    }

    /// Waits for an event and handles it. Returns false if there was none.
    pub(crate) fn wait_event(&mut self, nanoseconds: u64) -> bool {
        self.interrupter.set(nanoseconds);
        let event = sys::next_event(true);
        self.interrupter.set(0);
        let Ok(Some(event)) = event else { return false };
        self.handle(event);
        true
    }

    /// Ends the run when it is time to.
    fn check_end(&mut self) {
        if self.status.is_some() && self.phase != Phase::Killing {
            let since = *self.over_since.get_or_insert_with(sys::real_monotonic);
            if self.table.processes.is_empty() || sys::real_monotonic() >= since + FAREWELL {
                self.kill_left_over();
            }
            return;
        }
        let order = self.order.load(Ordering::Relaxed);
        let now = if order != 0 || self.settings.real_limit.is_some() { sys::real_monotonic() } else { 0 };
        match self.phase {
            Phase::Running if order == TERMINATE => {
                self.note_busy_end();
                match sys::end_signal() {
                    Some(signal) => self.terminate(signal, End::Terminated),
                    // The terminal has sent it to the command, too.
                    None => self.begin_end(End::Terminated),
                }
            }
            Phase::Running | Phase::Ending(_) if order >= KILL => self.kill(End::Terminated),
            Phase::Ending(end) => {
                if sys::real_monotonic() >= end {
                    self.kill(self.end);
                }
            }
            Phase::Running => {
                let limit = self.settings.real_limit.map(|limit| self.start + limit.as_nanos() as u64);
                if limit.is_some_and(|limit| now >= limit) {
                    let busy = self.busy.map(|thread| (watch::thread_name(thread), self.table.program(thread)));
                    if let Some((name, program)) = busy {
                        self.warn(format!(
                            "at the limit of real time, the thread {name} of {program} was busy, or waited for a program \
                             outside"
                        ));
                    }
                    self.note_busy_end();
                    self.terminate(libc::SIGTERM, End::RealLimit);
                }
            }
            Phase::Killing => {}
        }
    }

    /// Asks the command to end, and gives it the grace.
    pub(crate) fn terminate(&mut self, signal: i32, end: End) {
        // It may have ended at this moment.
        let _ = sys::kill(self.main.process, signal);
        self.begin_end(end);
    }

    fn begin_end(&mut self, end: End) {
        self.end = end;
        self.phase = Phase::Ending(sys::real_monotonic() + self.settings.grace.as_nanos() as u64);
    }

    /// Kills what the command has left running. Others that end because it has ended are given the time to do so.
    fn kill_left_over(&mut self) {
        self.report.left_over = self.table.processes.len() as u64;
        self.kill(self.end);
    }

    /// Kills everything that is traced.
    pub(crate) fn kill(&mut self, end: End) {
        self.phase = Phase::Killing;
        self.end = end;
        for process in self.table.processes.keys() {
            // Those that have ended are reported later.
            let _ = sys::kill(*process, libc::SIGKILL);
        }
    }

    /// Begins to look at the calls of a thread that has been busy since the last rest.
    ///
    /// Time does not move at a deadline until all threads rest. A program that waits until the clock shows more than
    /// the deadline, as Python's `subprocess` does, polls without a limit then; so does Python's `Connection.poll`,
    /// whose deadline is the moment at which it begins.
    fn probe(&mut self, now: u64) {
        if now < self.last_rest.max(self.last_probe).saturating_add(PROBE) {
            return;
        }
        self.last_probe = now;
        let elapsed = self.clocks.elapsed;
        let Some(thread) = self.busy else { return };
        let Some(entry) = self.table.threads.get(&thread) else { return };
        if entry.works_until > now || entry.probe.is_some() || !matches!(entry.activity, Activity::Running) {
            return;
        }
        let used = entry.watch.account().running_time().saturating_sub(entry.running_time);
        // Besides one that is alone, only a wait that ended at this moment can have a deadline that the clock does not
        // exceed.
        let has_ended = entry.timed_out_at == Some(elapsed) && used >= BUSY;
        // One that yields to other programs of a busy machine uses hardly any processor time.
        let least = if now >= self.last_rest.saturating_add(UNRESTED) { 0 } else { BUSY_ALONE };
        let may_wait = has_ended || used >= least && self.is_alone(thread);
        if may_wait
            && sys::interrupt(thread).is_ok()
            && let Some(entry) = self.table.threads.get_mut(&thread)
        {
            // It has left the wait that was known at the last rest.
            (entry.probe, entry.socket_wait) = (Some(Probe::default()), None);
            entry.is_ordered = true;
        }
    }

    /// Returns true if all other threads have slept since the last time that this was asked.
    pub(crate) fn is_alone(&mut self, thread: i32) -> bool {
        let outside = &self.outside;
        let mut is_alone = true;
        for (other, entry) in self.table.threads.iter_mut().filter(|(other, _)| **other != thread) {
            let account = entry.watch.account();
            let has_slept = entry.probed.replace(account) == Some(account);
            is_alone &= has_slept && !entry.is_napping() && entry.is_asleep(*other, outside);
        }
        is_alone
    }

    /// Returns the probe of a thread at its first stop since it was ordered to stop.
    ///
    /// Any stop takes the order away, also one inside of a call, to which a thread that makes such calls all the time
    /// most often is on its way. Its next stop is then the exit of that call.
    pub(crate) fn begun_probe(thread: i32, is_inside: bool) -> Probe {
        let registers = sys::registers(thread).ok().filter(|_| is_inside);
        let inside = registers.map(|registers| calls::loop_call(&registers.call(), &ProgramMemory(thread)));
        Probe { has_begun: true, inside, ..Probe::default() }
    }

    /// Looks at a call of a probed thread. If it only polls, or is alone and only yields, time moves on by a
    /// millisecond.
    pub(crate) fn on_probed_call(&mut self, thread: i32) {
        let last = self.last_reading(thread);
        let Some(entry) = self.table.threads.get_mut(&thread) else { return };
        let Some(probe) = &mut entry.probe else { return };
        let is_counting = *probe.last.get_or_insert(last) != last;
        let Ok(mut registers) = sys::registers(thread) else { return };
        let Some(call) = probe.inside.take() else {
            let call = registers.call();
            probe.inside = Some(calls::loop_call(&call, &ProgramMemory(thread)));
            if call.number == libc::SYS_sched_yield {
                // No thread inside wants its turn, and those outside would take it for milliseconds.
                registers.set_number(-1);
                registers.set_result(0);
                let _ = sys::set_registers(thread, &registers);
            }
            return;
        };
        match call.with_result(registers.result()) {
            LoopCall::Looks | LoopCall::Compares => probe.others += 1,
            LoopCall::Yields => (probe.others, probe.yields) = (probe.others + 1, probe.yields + 1),
            LoopCall::Works => {
                let pause = if entry.habit == Habit::Loops { 0 } else { WORKS };
                self.end_probe(thread, sys::real_monotonic() + pause);
                return;
            }
            LoopCall::Polls => probe.polls += 1,
        }
        let Probe { polls, others, yields, .. } = *probe;
        let looks = if entry.habit == Habit::Loops { POLLS } else { LOOKS };
        if polls >= POLLS || others >= looks && yields >= looks / 2 && self.is_alone(thread) {
            // Readings of the time of day count nanoseconds, and it may wait for those: there are not many.
            let has_woken = !is_counting && self.creep(GRAIN);
            self.end_probe(thread, 0);
            // While one that yields is alone, its next calls show whether it still waits. One that polls may do work
            // that needs no calls: for it, time does not move faster than in reality.
            let goes_on = polls < POLLS && !is_counting && !has_woken && self.is_alone(thread);
            if let Some(entry) = self.table.threads.get_mut(&thread) {
                if !is_counting {
                    entry.habit = Habit::Loops;
                }
                entry.probe = goes_on.then(|| Probe { has_begun: true, ..Probe::default() });
            }
        } else if others >= LOOKS {
            self.end_probe(thread, sys::real_monotonic() + WORKS);
        }
    }

    fn end_probe(&mut self, thread: i32, works_until: u64) {
        if let Some(entry) = self.table.threads.get_mut(&thread) {
            (entry.probe, entry.works_until) = (None, works_until);
        }
    }

    /// Moves time while threads are busy, and ends the waits that are due. Returns true if there were any, or if the
    /// run ends.
    pub(crate) fn creep(&mut self, by: u64) -> bool {
        if self.end_at_limit(self.clocks.elapsed.saturating_add(by)) {
            return true;
        }
        self.set_time(self.clocks.elapsed + by);
        let mut has_woken = false;
        let mut next = self.next_deadline();
        while next <= self.clocks.elapsed {
            self.fire(next);
            has_woken = true;
            next = self.next_deadline();
        }
        has_woken
    }

    /// Returns the processor time that each thread has used since the last rest.
    fn used_since_rest(&self) -> BTreeMap<i32, u64> {
        let threads = self.table.threads.iter();
        threads
            .map(|(thread, entry)| (*thread, entry.watch.account().running_time().saturating_sub(entry.running_time)))
            .collect()
    }

    /// Adds the busiest thread to the report, and begins to look what it executes.
    fn note_spin(&mut self, used: &BTreeMap<i32, u64>, total: u64, is_at_end: bool) {
        let Some((thread, _)) = used.iter().max_by_key(|(_, time)| **time) else { return };
        self.report.spins.push(Spin {
            program: self.table.program(*thread),
            thread: watch::thread_name(*thread),
            thread_id: *thread,
            processor_time: std::time::Duration::from_nanos(total),
            stack: Vec::new(),
            is_at_end,
        });
        // A call that sends or receives in pieces would end with a part.
        if let Some(entry) = self.table.threads.get_mut(thread).filter(|entry| !entry.watch.is_blocked()) {
            entry.is_ordered = sys::interrupt(*thread).is_ok();
            self.inspected = entry.is_ordered.then_some(*thread);
        }
    }

    /// Notes what is busy when the run is ended from outside, or by its limit: that is why it did not end by itself.
    fn note_busy_end(&mut self) {
        let used = self.used_since_rest();
        let total = self.ended_time + used.values().sum::<u64>();
        if total >= BUSY_END {
            self.note_spin(&used, total, true);
        }
    }

    /// Lets time creep once busy programs have used so much processor time without rest that they probably wait for a
    /// time in a loop.
    fn guard(&mut self, now: u64) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + if self.crept > 0 { LOOK / 10 } else { LOOK };
        let used = self.used_since_rest();
        let total = self.ended_time + used.values().sum::<u64>();
        let guard = self.settings.spin.as_nanos() as u64;
        if total < guard.saturating_add(self.crept) {
            return;
        }
        if self.crept == 0 && self.report.spins.len() < MOST_SPINS {
            self.note_spin(&used, total, false);
        }
        let by = (total - guard - self.crept).max(GRAIN) / GRAIN * GRAIN;
        self.crept += by;
        self.creep(by);
    }
}
