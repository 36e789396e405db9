//! The proof that all threads rest.
//!
//! Three passes: read the accounts of all threads, look whether each is asleep, read all accounts again. If none has
//! changed, no thread has run between the passes, so all of them slept at a common moment. A thread that has not run
//! since the last proof keeps its account from there, and sleeps in the same place if it is still blocked.

use super::state::Tracer;
use super::table::{Activity, Thread};
use super::watch::Sleep;

impl Thread {
    /// Returns true if it sleeps.
    fn is_asleep(&self) -> bool {
        if self.is_stopped {
            return true;
        }
        match self.activity {
            Activity::Starting | Activity::Calling(_) | Activity::Mapping(_) => return false,
            Activity::Running | Activity::Waiting(_) => {}
        }
        if self.resting.is_some() {
            return self.watch.is_blocked();
        }
        match self.watch.sleep() {
            Some(Sleep::Waiting | Sleep::Dead) => true,
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
        // Most often, the thread that was busy last time still is.
        if let Some(entry) = self.busy.and_then(|thread| self.table.threads.get_mut(&thread)) {
            entry.resting = None;
            if !entry.is_stopped && !entry.watch.is_blocked() {
                return false;
            }
        }
        for entry in self.table.threads.values_mut() {
            entry.sample = Some(entry.resting.unwrap_or_else(|| entry.watch.account()));
        }
        let asleep = |entry: &Thread| entry.is_asleep();
        let same = |entry: &Thread| entry.is_stopped || Some(entry.watch.account()) == entry.sample;
        for is_quiet in [&asleep as &dyn Fn(&Thread) -> bool, &same] {
            if let Some((thread, entry)) = self.table.threads.iter_mut().find(|(_, entry)| !is_quiet(entry)) {
                entry.resting = None;
                self.busy = Some(*thread);
                return false;
            }
        }
        self.busy = None;
        for entry in self.table.threads.values_mut() {
            if entry.resting.is_none() {
                entry.resting = entry.sample;
                entry.running_time = entry.sample.map_or(0, |account| account.running_time());
            }
        }
        true
    }
}
