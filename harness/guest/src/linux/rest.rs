//! The proof that all threads rest.
//!
//! Three passes: read the accounts of all threads, look whether each is asleep, read all accounts again. If none has
//! changed, no thread has run between the passes, so all of them slept at a common moment. A thread that has not run
//! since the last proof keeps its account from there, and sleeps in the same place if it is still blocked. A thread
//! that waits for a program outside, such as that of a file system, does not count as asleep, and nothing rests while a
//! device works for a program, or while a packet is on its way between the first two passes.

use super::outside::Outside;
use super::state::Tracer;
use super::table::{Activity, GroupStop, Thread};
use super::watch::{CHANNEL, Sleep};

impl Thread {
    /// Returns true if it sleeps, and not until a program outside has done its part.
    pub(super) fn is_asleep(&mut self, thread: i32, outside: &Outside) -> bool {
        if self.is_stopped() {
            // One that is killed or continued is on its way, and its parent may sleep until it gets there.
            return !self.watch.is_running();
        }
        if self.is_dead {
            return true;
        }
        match self.activity {
            Activity::Starting | Activity::Calling(_) | Activity::Mapping(_) => return false,
            Activity::Running | Activity::Waiting(_) => {}
        }
        if self.resting.is_some() {
            return self.watch.is_blocked();
        }
        let mut channel = [0; CHANNEL];
        match self.watch.sleep(&mut channel) {
            Some(Sleep::Waiting(channel)) => !outside.is_awaited(self.process, thread, channel),
            Some(Sleep::Dead) => {
                // It is never blocked again, unless another thread takes its number with an exec.
                self.is_dead = true;
                true
            }
            // A parent in vfork cannot be interrupted until its child goes on.
            Some(Sleep::Uninterruptible) => self.is_vforking,
            None => false,
        }
    }
}

impl Tracer {
    /// Returns true if all threads slept at a common moment during this call, and no event is left.
    pub(crate) fn is_at_rest(&mut self) -> bool {
        self.report.proofs += 1;
        if self.is_device_busy() {
            return false;
        }
        // Most often, the thread that was busy last time still is.
        if let Some(thread) = self.busy
            && let Some(entry) = self.table.threads.get_mut(&thread)
        {
            entry.resting = None;
            if !entry.is_stopped() && !entry.is_dead && !entry.watch.is_blocked() {
                // Only a main thread stays after its end, until the others have ended.
                entry.is_dead = thread == entry.process && entry.watch.is_dead();
                if !entry.is_dead {
                    return false;
                }
            }
        }
        for entry in self.table.threads.values_mut() {
            entry.sample = Some(entry.resting.unwrap_or_else(|| entry.watch.account()));
        }
        // A packet on its way wakes its receiver later. A thread that sends one after this has run since its account
        // was taken, and a receiver that was woken before this is found awake below.
        if self.backlog.is_waiting() {
            return false;
        }
        let outside = &self.outside;
        let asleep = |thread: i32, entry: &mut Thread| entry.is_asleep(thread, outside);
        let same = |_, entry: &mut Thread| entry.is_stopped() || Some(entry.watch.account()) == entry.sample;
        for is_quiet in [&asleep as &dyn Fn(i32, &mut Thread) -> bool, &same] {
            for (thread, entry) in &mut self.table.threads {
                if !is_quiet(*thread, entry) {
                    entry.resting = None;
                    self.busy = Some(*thread);
                    return false;
                }
            }
        }
        self.busy = None;
        for entry in self.table.threads.values_mut() {
            if entry.resting.is_none() {
                if entry.group_stop == GroupStop::Continued {
                    entry.group_stop = GroupStop::None;
                }
                entry.resting = entry.sample;
                entry.running_time = entry.sample.map_or(0, |account| account.running_time());
            }
        }
        true
    }
}
