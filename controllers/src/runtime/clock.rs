//! The only source of time: wall time in production, tokio's (possibly paused) time in simulations.
//!
//! No other module reads a clock or sleeps; `.clippy.toml` forbids it. There are two kinds of time: [`Clock::now`] for
//! times that are written to objects (conditions, events, deadlines derived from object timestamps) and
//! [`Clock::monotonic`] for waiting (queues, back-off, rate limits), which steps of the system clock cannot affect.
#![expect(clippy::disallowed_methods, reason = "this is the clock that all other modules use")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
#[cfg(test)]
use parking_lot::Mutex;
use tokio::time::Instant;

/// A handle to the clock of the controllers. Cheap to clone.
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
        /// Milliseconds by which the wall clock differs.
        step: Arc<AtomicI64>,
    },
    /// A manual clock for tests; it moves only when set.
    #[cfg(test)]
    Manual(Arc<Mutex<Timestamp>>),
}

/// The error of a [`Clock::timeout`] whose limit passed before the future completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not finished after {}s", limit.as_secs_f64())]
pub struct Elapsed {
    /// The limit that passed.
    pub limit: Duration,
}

impl Clock {
    /// Creates a clock that reads the system's time.
    pub fn wall() -> Self {
        Self { source: TimeSource::Wall, started: Instant::now() }
    }

    /// Creates a clock that reads `epoch` now and advances with tokio's time, paused or not.
    ///
    /// Clones share the origin. A second clock created later with the same epoch lags behind.
    pub fn simulated(epoch: Timestamp) -> Self {
        Self::simulated_with_steps(epoch, Arc::default())
    }

    /// Creates a clock as [`Self::simulated`] whose [`Self::now`] differs from that by `step`, in milliseconds: a wall
    /// clock that is set.
    pub fn simulated_with_steps(epoch: Timestamp, step: Arc<AtomicI64>) -> Self {
        Self { source: TimeSource::Simulated { epoch, step }, started: Instant::now() }
    }

    /// Creates a clock that reads the value of `wall`.
    #[cfg(test)]
    pub(crate) fn manual(wall: Arc<Mutex<Timestamp>>) -> Self {
        Self { source: TimeSource::Manual(wall), started: Instant::now() }
    }

    /// Returns the current time with the source's precision, up to nanoseconds.
    pub fn now(&self) -> Timestamp {
        match &self.source {
            TimeSource::Wall => Timestamp::now(),
            TimeSource::Simulated { epoch, step } => {
                let now = saturating_add(*epoch, self.monotonic());
                now.checked_add(SignedDuration::from_millis(step.load(Ordering::Relaxed))).unwrap_or(now)
            }
            #[cfg(test)]
            TimeSource::Manual(wall) => *wall.lock(),
        }
    }

    /// Returns the time since this clock was created: never steps back, unaffected by changes of the system's clock.
    pub fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits for `duration`, rounded up to tokio's timer resolution of a millisecond.
    pub async fn sleep(&self, duration: Duration) {
        if !duration.is_zero() {
            tokio::time::sleep(duration).await;
        }
    }

    /// Waits until [`Clock::monotonic`] is at least `deadline`.
    pub async fn sleep_until_monotonic(&self, deadline: Duration) {
        match self.started.checked_add(deadline) {
            Some(at) => tokio::time::sleep_until(at).await,
            // Beyond the representable time.
            None => std::future::pending().await,
        }
    }

    /// Returns the time left until `deadline`; `None` if it has passed.
    pub fn until(&self, deadline: Timestamp) -> Option<Duration> {
        let left = Duration::try_from(deadline.duration_since(self.now())).ok()?;
        (!left.is_zero()).then_some(left)
    }

    /// Runs `future` for at most `limit`.
    ///
    /// # Errors
    /// [`Elapsed`] if the limit passes first; the future is dropped then.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        tokio::time::timeout(limit, future).await.map_err(|_| Elapsed { limit })
    }
}

/// Returns `at + by`, clamped to the last representable instant.
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
