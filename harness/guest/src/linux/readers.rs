//! Threads that wait for a time by reading a clock in a loop, while all others sleep.
//!
//! They never rest. The image counts all readings of a program: one that reads so often that it can hardly do anything
//! else waits. Time then moves on by a millisecond each time that the loop has seen the last one, so that it ends at
//! the first millisecond at which it can, in each run.

use super::clocks::GRAIN;
use super::state::Tracer;
use super::sys;
use super::table::{Activity, Readings};

/// The processor time for which a thread reads a clock in a loop before it is taken to wait.
const WAITED: u64 = 20_000_000;
/// The most processor time for each reading of such a loop. A loop of an interpreter takes a tenth, and a program that
/// logs takes more.
const PER_READING: u64 = 1000;
/// The readings after which a loop has seen a time.
const SEEN: u64 = 64;
/// The longest real time that a loop has for that, and the real time after which others get their turn.
const STEP: u64 = 500_000;
const TURN: u64 = 1_000_000;
/// The real time between two looks.
const GLANCE: u64 = 5_000;

impl Tracer {
    /// Lets time pass for the busy thread if it waits by reading a clock.
    pub(crate) fn follow_reader(&mut self) {
        let Some(thread) = self.busy else { return };
        let Some(count) = self.readings(thread) else { return };
        let elapsed = self.clocks.elapsed;
        let Some(entry) = self.table.threads.get_mut(&thread) else { return };
        if !matches!(entry.activity, Activity::Running) {
            return;
        }
        let running_time = entry.watch.account().running_time();
        let now = Readings { elapsed, count, running_time, waits: false };
        let before = *entry.readings.get_or_insert(now);
        let used = running_time.saturating_sub(before.running_time);
        let read = count.saturating_sub(before.count);
        if before.waits && read < SEEN || !before.waits && before.elapsed == elapsed && used < WAITED {
            return;
        }
        let is_reading = before.elapsed == elapsed && used <= read.saturating_mul(PER_READING);
        let is_alone = is_reading && self.is_alone(thread);
        let now = Readings { waits: is_alone || is_reading && before.waits, ..now };
        let now = if is_alone { self.pass_time_of_reader(thread, now) } else { now };
        if let Some(entry) = self.table.threads.get_mut(&thread) {
            entry.readings = Some(now);
        }
    }

    /// Moves time on while a loop of readings sees it, and returns what it has seen.
    fn pass_time_of_reader(&mut self, thread: i32, mut last: Readings) -> Readings {
        let end = sys::real_monotonic() + TURN;
        // Others that a move wakes have their turn first.
        while !self.creep(GRAIN) && sys::real_monotonic() < end {
            // Those until now have seen the time before.
            let seen = self.readings(thread).unwrap_or(last.count);
            (last.elapsed, last.count) = (self.clocks.elapsed, seen);
            let limit = sys::real_monotonic() + STEP;
            loop {
                let count = self.readings(thread).unwrap_or(0);
                if count.saturating_sub(last.count) >= SEEN {
                    last.count = count;
                    break;
                }
                if self.wait_event(GLANCE) || sys::real_monotonic() >= limit {
                    return last;
                }
            }
        }
        last.elapsed = self.clocks.elapsed;
        last
    }

    /// Returns the number of readings of a thread's program and its forks; `None` if it asks the kernel.
    fn readings(&self, thread: i32) -> Option<u64> {
        let place = self.image.as_ref()?.readings(self.table.image(thread)?);
        let mut bytes = [0; 8];
        sys::read_memory(thread, place, &mut bytes).then(|| u64::from_ne_bytes(bytes))
    }
}
