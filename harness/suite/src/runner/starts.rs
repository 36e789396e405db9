//! Starts of subjects on the wall clock: programs that start use the processors and delay those that run, so only some
//! start at the same time.

use plumbline::time::Stopwatch;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::RunRecorder;
use super::isolate::JobTimer;

/// Limits the number of subjects that start at the same time.
#[derive(Debug)]
pub struct StartLimit {
    permits: Semaphore,
}

/// Permission to start; ends when it is dropped.
pub(super) struct StartPermit<'a> {
    _permit: SemaphorePermit<'a>,
    recorder: RunRecorder,
}

impl StartLimit {
    /// Allows `count` starts at the same time.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { permits: Semaphore::new(count.max(1)) }
    }

    /// Waits for a permit. Waiting does not count as running time of the job.
    pub(super) async fn acquire(&self, timer: &JobTimer, recorder: &RunRecorder) -> Option<StartPermit<'_>> {
        timer.pause();
        let stopwatch = Stopwatch::start();
        let permit = self.permits.acquire().await;
        timer.restart();
        recorder.update(|record| record.queued += stopwatch.elapsed());
        permit.ok().map(|permit| StartPermit::new(permit, recorder))
    }

    /// Returns a permit if one is free. A restart does not wait, because the fixture says when it happens; but new
    /// starts wait for it.
    pub(super) fn try_acquire(&self, recorder: &RunRecorder) -> Option<StartPermit<'_>> {
        self.permits.try_acquire().ok().map(|permit| StartPermit::new(permit, recorder))
    }

    /// Replaces the permit of a thread that was abandoned, if it held one.
    pub(super) fn replace_permit_of(&self, recorder: &RunRecorder) {
        let count = recorder.update(|record| std::mem::take(&mut record.permits));
        self.permits.add_permits(count);
    }
}

impl<'a> StartPermit<'a> {
    fn new(permit: SemaphorePermit<'a>, recorder: &RunRecorder) -> Self {
        recorder.update(|record| record.permits += 1);
        Self { _permit: permit, recorder: recorder.clone() }
    }
}

impl Drop for StartPermit<'_> {
    fn drop(&mut self) {
        self.recorder.update(|record| record.permits = record.permits.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_thread_keeps_no_permit() {
        let limit = StartLimit::new(1);
        let recorder = RunRecorder::default();
        let permit = limit.try_acquire(&recorder).expect("a permit");
        let other = RunRecorder::default();
        assert!(limit.try_acquire(&other).is_none());
        limit.replace_permit_of(&other);
        assert!(limit.try_acquire(&other).is_none(), "the other holds none");
        limit.replace_permit_of(&recorder);
        let next = limit.try_acquire(&other).expect("a new permit");
        assert_eq!(other.update(|record| record.permits), 1);
        drop((permit, next));
        assert_eq!(recorder.update(|record| record.permits), 0);
    }
}
