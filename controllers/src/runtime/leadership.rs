//! Whether this process may write at this moment: the answer of leader election, asked at the door of every write.
//!
//! A claim is measured from before its renewal was *sent*, and ends `renew-deadline` later; everybody else waits
//! `lease-duration` from when they *saw* the renewal, which is later. What lies between the two is time for requests
//! that are on their way. Two clocks have to agree that the claim holds: the monotonic one, which nobody can set back,
//! and the wall clock, which goes on while a machine sleeps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::clock::{Clock, saturating_add};

/// The write was not sent: this replica does not hold the lease, or is no longer sure that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: this replica does not hold the lease")]
pub struct NotLeader;

/// Whether this process may write, and how much longer. Cheap to clone; clones share the answer.
#[derive(Clone, Debug)]
pub struct Leadership {
    claim: Arc<Mutex<Claim>>,
}

#[derive(Clone, Copy, Debug)]
enum Claim {
    /// There is no election.
    Always,
    /// Somebody else leads, or nobody.
    None,
    /// This process leads.
    Until { renewed: Duration, monotonic: Duration, wall: Timestamp },
}

impl Leadership {
    /// Of a process without leader election: it may always write.
    pub fn always() -> Self {
        Self::with(Claim::Always)
    }

    /// Of a candidate: it may not write before [`Self::renew`].
    pub fn candidate() -> Self {
        Self::with(Claim::None)
    }

    fn with(claim: Claim) -> Self {
        Self { claim: Arc::new(Mutex::new(claim)) }
    }

    /// The lease was renewed by a request sent at `sent` (both clocks): the claim holds for `validity` from then on.
    pub fn renew(&self, sent: (Duration, Timestamp), validity: Duration) {
        let (monotonic, wall) = (sent.0.saturating_add(validity), saturating_add(sent.1, validity));
        *self.lock() = Claim::Until { renewed: sent.0, monotonic, wall };
    }

    /// The claim is over.
    pub fn revoke(&self) {
        *self.lock() = Claim::None;
    }

    /// How much longer writes may be sent; `None` when they may not.
    pub fn remaining(&self, clock: &Clock) -> Option<Duration> {
        match *self.lock() {
            Claim::Always => Some(Duration::MAX),
            Claim::None => None,
            Claim::Until { monotonic, wall, .. } => {
                let remaining = monotonic.saturating_sub(clock.monotonic()).min(clock.until(wall)?);
                (!remaining.is_zero()).then_some(remaining)
            }
        }
    }

    /// Whether this process leads, whether or not it still may write.
    pub fn is_leader(&self) -> bool {
        !matches!(*self.lock(), Claim::None)
    }

    /// Since when the lease was not renewed although this process believes that it leads.
    pub fn unrenewed_for(&self, clock: &Clock) -> Option<Duration> {
        match *self.lock() {
            Claim::Until { renewed, .. } => Some(clock.monotonic().saturating_sub(renewed)),
            Claim::Always | Claim::None => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Claim> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_ends_by_itself() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let leadership = Leadership::candidate();
        assert_eq!(leadership.remaining(&clock), None);
        leadership.renew((clock.monotonic(), clock.now()), s(10));
        clock.sleep(s(9)).await;
        assert_eq!(leadership.remaining(&clock), Some(s(1)));
        assert_eq!(leadership.unrenewed_for(&clock), Some(s(9)));
        clock.sleep(s(1)).await;
        assert_eq!(leadership.remaining(&clock), None);
        assert!(leadership.is_leader(), "it has not been told yet");
        leadership.revoke();
        assert!(!leadership.is_leader());
        assert_eq!(Leadership::always().remaining(&clock), Some(Duration::MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_that_jumped_ahead_closes_the_door_until_the_next_renewal() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let leadership = Leadership::candidate();
        let before_sleep = "2025-12-31T23:59:50Z".parse().unwrap();
        leadership.renew((clock.monotonic(), before_sleep), s(10));
        assert_eq!(leadership.remaining(&clock), None, "the machine slept, the monotonic clock stood still");
        leadership.renew((clock.monotonic(), clock.now()), s(10));
        assert_eq!(leadership.remaining(&clock), Some(s(10)));
    }
}
