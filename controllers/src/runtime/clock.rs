//! The one source of time: wall time in production, tokio's (possibly paused) time in simulations.
//!
//! Nothing else in the crate reads a clock or sleeps; `.clippy.toml` refuses it. Two kinds of time are offered:
//! [`Clock::now`] for what is written down (conditions, events, deadlines derived from object timestamps) and
//! [`Clock::monotonic`] for what is only waited for (queues, back-off, rate limits), which a step of the system clock
//! cannot disturb.
#![expect(clippy::disallowed_methods, reason = "this is the clock that everything else takes")]

use std::future::Future;
#[cfg(test)]
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A handle to the time the controllers live in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock {
    source: TimeSource,
    started: Instant,
}

#[derive(Clone, Debug)]
enum TimeSource {
    Wall,
    Simulated {
        epoch: Timestamp,
    },
    /// Stands where it was put, whatever time passes: the hands of a clock that somebody turns.
    #[cfg(test)]
    Manual(Arc<Mutex<Timestamp>>),
}

/// The limit of a [`Clock::timeout`] passed before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not finished after {}s", limit.as_secs_f64())]
pub struct Elapsed {
    /// The limit that passed.
    pub limit: Duration,
}

impl Clock {
    /// The system's clock.
    pub fn wall() -> Self {
        Self { source: TimeSource::Wall, started: Instant::now() }
    }

    /// A clock that reads `epoch` now and advances with tokio's time, paused or not.
    ///
    /// Clones share the origin; a second call with the same epoch after time has passed makes a clock that lags.
    pub fn simulated(epoch: Timestamp) -> Self {
        Self { source: TimeSource::Simulated { epoch }, started: Instant::now() }
    }

    /// A clock that reads what `wall` holds.
    #[cfg(test)]
    pub(crate) fn manual(wall: Arc<Mutex<Timestamp>>) -> Self {
        Self { source: TimeSource::Manual(wall), started: Instant::now() }
    }

    /// The current time, in nanosecond precision as far as the source has it.
    pub fn now(&self) -> Timestamp {
        match &self.source {
            TimeSource::Wall => Timestamp::now(),
            TimeSource::Simulated { epoch } => saturating_add(*epoch, self.monotonic()),
            #[cfg(test)]
            TimeSource::Manual(wall) => *wall.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
        }
    }

    /// Time since this clock was made: never steps back, unaffected by changes of the system's clock.
    pub fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits for `duration` (tokio's timer resolution: rounded up to a millisecond).
    pub async fn sleep(&self, duration: Duration) {
        if !duration.is_zero() {
            tokio::time::sleep(duration).await;
        }
    }

    /// Waits until [`Clock::monotonic`] is at least `deadline`.
    pub async fn sleep_until_monotonic(&self, deadline: Duration) {
        match self.started.checked_add(deadline) {
            Some(at) => tokio::time::sleep_until(at).await,
            // Beyond all time there is.
            None => std::future::pending().await,
        }
    }

    /// The time left until `deadline`, `None` when it has been reached.
    pub fn until(&self, deadline: Timestamp) -> Option<Duration> {
        let left = Duration::try_from(deadline.duration_since(self.now())).ok()?;
        (!left.is_zero()).then_some(left)
    }

    /// Runs `future` for at most `limit`.
    ///
    /// # Errors
    /// [`Elapsed`] when the limit passed first; the future is dropped then.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        tokio::time::timeout(limit, future).await.map_err(|_| Elapsed { limit })
    }
}

/// `at + by`, held at the last representable instant instead of overflowing.
pub fn saturating_add(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_time_follows_tokio() {
        let clock = Clock::simulated(epoch());
        clock.sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30Z");
        clock.sleep_until_monotonic(Duration::from_secs(100)).await;
        assert_eq!(clock.monotonic(), Duration::from_secs(100));
        assert_eq!(clock.until(epoch()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_gives_up_at_the_limit() {
        let clock = Clock::simulated(epoch());
        let limit = Duration::from_secs(30);
        assert_eq!(clock.timeout(limit, std::future::pending::<()>()).await, Err(Elapsed { limit }));
        assert_eq!(clock.monotonic(), limit);
        assert_eq!(clock.timeout(limit, async { 7 }).await, Ok(7));
    }

    #[test]
    fn addition_saturates() {
        assert_eq!(saturating_add(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
    }
}
