//! Rest: due deadlines end their waits, clients are answered, and time moves on.

use super::clocks::{NEVER, round_up};
use super::state::{Phase, Tracer};
use super::sys;
use super::table::{Activity, Thread};
use super::waits::next_random;
use crate::outcome::End;

/// A step that was taken at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Programs were woken, or clients answered.
    Some,
    /// At least one thread was interrupted: it stops without fail.
    Interrupted,
    /// Nothing is due, and time must not move: only an event from outside wakes a program.
    Idle,
}

impl Tracer {
    /// Acts at a moment of rest.
    pub(crate) fn at_rest(&mut self) -> Progress {
        let now = self.clocks.elapsed;
        let next = self.next_deadline();
        if self.control.receive(|| Self::reading(&self.clocks, next)) {
            return Progress::Some;
        }
        if next <= now {
            return self.fire(next);
        }
        if self.deliver_terminal_data() && !self.is_at_rest() || self.find_socket_waits() {
            return Progress::Some;
        }
        if self.settings.is_disturbed && self.disturb() {
            return Progress::Interrupted;
        }
        let next = self.next_deadline();
        let reading = || Self::reading(&self.clocks, next);
        if self.control.rest(reading) {
            return Progress::Some;
        }
        let (moment, bound) = self.control.bounds();
        let target = round_up(next.min(moment));
        if next.min(moment) > bound || target > self.clocks.latest() {
            return Progress::Idle;
        }
        // A client's own moment may lie inside a millisecond: time stops there exactly.
        let target = if moment < next { moment } else { target };
        if self.end_at_limit(target) {
            return Progress::Some;
        }
        self.look_for_prompt(target - now);
        self.report.hops += 1;
        self.set_time(target);
        self.control.moved(|| Self::reading(&self.clocks, next));
        if next <= target { self.fire(next) } else { Progress::Some }
    }

    /// Begins to end the run if the next time is beyond the limit. Returns true then.
    pub(crate) fn end_at_limit(&mut self, target: u64) -> bool {
        let limit = self.settings.virtual_limit.map_or(NEVER, |limit| limit.as_nanos() as u64);
        if target <= limit || self.phase != Phase::Running {
            return false;
        }
        self.set_time(limit.max(self.clocks.elapsed));
        // The command's farewell is not part of the account.
        self.limited_time = Some(self.clocks.elapsed);
        self.terminate(libc::SIGTERM, End::VirtualLimit);
        true
    }

    /// Interrupts all threads once before each move of time. Returns true if at least one stops.
    fn disturb(&mut self) -> bool {
        let next = self.report.hops + 1;
        let is_due = std::mem::replace(&mut self.disturbed, next) < next;
        let mut is_any = false;
        for (thread, entry) in self.table.threads.iter_mut().filter(|_| is_due) {
            is_any |= Self::order(*thread, entry);
        }
        is_any
    }

    /// Orders a thread to stop, for a test. Returns false if it cannot obey.
    fn order(thread: i32, entry: &mut Thread) -> bool {
        let can_stop = !entry.is_stopped() && !entry.is_dead && !entry.is_vforking;
        let is_given = can_stop && sys::interrupt(thread).is_ok();
        entry.is_ordered |= is_given;
        is_given
    }

    /// Orders the thread that probably runs to stop, for a test, at a moment of the next microseconds: another stop on
    /// its way into a call may take the order away.
    pub(crate) fn disturb_busy(&mut self) {
        /// One of so many stops is followed by such an order, at most so many nanoseconds later.
        const RARITY: u64 = 8;
        const LATEST: u64 = 30_000;
        let mut seed = self.report.stops;
        let Some(thread) = self.busy.filter(|_| seed.is_multiple_of(RARITY)) else { return };
        let moment = sys::real_monotonic() + next_random(&mut seed) % LATEST;
        while sys::real_monotonic() < moment {}
        if let Some(entry) = self.table.threads.get_mut(&thread) {
            Self::order(thread, entry);
        }
    }

    /// Ends all waits with exactly this deadline. Others that are due as well follow after the next rest, so that
    /// deadlines inside a millisecond keep their order.
    pub(crate) fn fire(&mut self, deadline: u64) -> Progress {
        let mut progress = Progress::Some;
        for (thread, entry) in &mut self.table.threads {
            if entry.deadline() != Some(deadline) {
                continue;
            }
            match (&mut entry.activity, &mut entry.socket_wait) {
                (Activity::Waiting(active), _) => active.is_over = true,
                (_, Some(wait)) if wait.account == entry.watch.account() => {
                    wait.is_over = true;
                    entry.is_ordered = true;
                }
                // It has run since: that wait is over, and the thread may be in another one.
                _ => {
                    entry.socket_wait = None;
                    continue;
                }
            }
            // A thread that was killed at this moment reports its end by itself.
            if sys::interrupt(*thread).is_ok() {
                progress = Progress::Interrupted;
            }
        }
        let processes: Vec<i32> = self.table.processes.keys().copied().collect();
        self.timers.expire(deadline, self.clocks.elapsed, &processes);
        progress
    }

    /// Ends naps that are over in real time, while other threads are busy. Returns the real time of the next end.
    ///
    /// They do not count as naps without progress: a thread that polls a busy one would otherwise move time once the
    /// busy one is done.
    pub(crate) fn end_naps(&mut self, now: u64) -> u64 {
        let mut next = NEVER;
        for (thread, entry) in &mut self.table.threads {
            let Activity::Waiting(active) = &mut entry.activity else { continue };
            match active.nap_end.filter(|_| !active.is_over) {
                // It was busy itself at the last proof: it is on its way to sleep.
                Some(_) if self.busy == Some(*thread) => {}
                Some(end) if end <= now => {
                    active.is_over = true;
                    entry.naps.1 = entry.naps.1.saturating_sub(1);
                    let _ = sys::interrupt(*thread);
                }
                Some(end) => next = next.min(end),
                None => {}
            }
        }
        next
    }
}
