//! Tells whether this process may write now: the result of leader election, checked before every write is sent.
//!
//! A claim is measured from before its renewal was *sent* and ends `renew-deadline` later. Other replicas wait
//! `lease-duration` from when they *observed* the renewal, which is later. The difference is time for requests in
//! flight. Two clocks must agree that the claim holds: the monotonic one, which cannot be set back, and the wall clock,
//! which continues while the machine is suspended.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::clock::{Clock, saturating_add};

/// The error of a write that was not sent: this replica does not hold the lease, or cannot be sure that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: this replica does not hold the lease")]
pub struct NotLeader;

/// The permission of this process to write, and its remaining time. Cheap to clone; clones share the state.
#[derive(Clone, Debug)]
pub struct Leadership {
    claim: Arc<Mutex<Claim>>,
}

#[derive(Clone, Copy, Debug)]
enum Claim {
    /// There is no election.
    Always,
    /// This process does not lead.
    None,
    /// This process leads.
    Until { renewed: Duration, monotonic: Duration, wall: Timestamp },
}

impl Leadership {
    /// Creates the leadership of a process without leader election: it may always write.
    pub fn always() -> Self {
        Self::with(Claim::Always)
    }

    /// Creates the leadership of a candidate: it may not write before [`Self::renew`].
    pub fn candidate() -> Self {
        Self::with(Claim::None)
    }

    fn with(claim: Claim) -> Self {
        Self { claim: Arc::new(Mutex::new(claim)) }
    }

    /// Extends the claim after a renewal: it holds for `validity` from the time `sent` (both clocks) at which the
    /// request was sent.
    pub fn renew(&self, sent: (Duration, Timestamp), validity: Duration) {
        let monotonic = sent.0.saturating_add(validity);
        let wall = saturating_add(sent.1, validity);
        *self.claim.lock() = Claim::Until { renewed: sent.0, monotonic, wall };
    }

    /// Ends the claim.
    pub fn revoke(&self) {
        *self.claim.lock() = Claim::None;
    }

    /// Returns how much longer writes may be sent; `None` if they may not.
    pub fn remaining(&self, clock: &Clock) -> Option<Duration> {
        match *self.claim.lock() {
            Claim::Always => Some(Duration::MAX),
            Claim::None => None,
            Claim::Until { monotonic, wall, .. } => {
                let remaining = monotonic.saturating_sub(clock.monotonic()).min(clock.until(wall)?);
                (!remaining.is_zero()).then_some(remaining)
            }
        }
    }

    /// Returns true if this process leads, even if it may no longer write.
    pub fn is_leader(&self) -> bool {
        !matches!(*self.claim.lock(), Claim::None)
    }

    /// Returns how long the lease has not been renewed, if this process believes that it leads.
    pub fn unrenewed_for(&self, clock: &Clock) -> Option<Duration> {
        match *self.claim.lock() {
            Claim::Until { renewed, .. } => Some(clock.monotonic().saturating_sub(renewed)),
            Claim::Always | Claim::None => None,
        }
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
        assert!(leadership.is_leader(), "it has not noticed yet");
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
