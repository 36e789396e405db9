//! Back-off and tokens of work queues.
//!
//! A key waits for [`BASE_DELAY`] after its first failure and twice as long after each further one in a row, and the
//! failures of a queue together wait for tokens: [`BUCKET_SIZE`] at once, then [`QPS`].
//!
//! Sources: client-go `util/workqueue/default_rate_limiters.go` (`DefaultTypedControllerRateLimiter`),
//! `pkg/controller/tainteviction/taint_eviction.go` (`deletePodHandler`).

use std::time::Duration;

/// First delay of a failed key.
pub const BASE_DELAY: Duration = Duration::from_millis(5);
/// Longest delay of a failed key.
pub const MAX_DELAY: Duration = Duration::from_secs(1000);
/// Tokens of a queue: the number of failures that wait for none.
pub const BUCKET_SIZE: u32 = 100;
/// Tokens per second.
pub const QPS: u32 = 10;

/// Number of tries of an eviction by taint eviction before its key fails.
pub const EVICTION_TRIES: u32 = 5;
/// Time between them.
pub const EVICTION_PAUSE: Duration = Duration::from_millis(10);

/// Returns the delay of a key after this many earlier failures in a row.
#[must_use]
pub fn backoff(earlier: u32) -> Duration {
    let delay = 2_u32.checked_pow(earlier).and_then(|factor| BASE_DELAY.checked_mul(factor));
    delay.map_or(MAX_DELAY, |delay| delay.min(MAX_DELAY))
}

/// The tokens of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenBucket {
    /// Time at which as many tokens as at the beginning are there again; in the past if they are.
    full_at: Duration,
}

impl TokenBucket {
    /// Takes a token; returns the time to wait for it.
    pub fn take(&mut self, now: Duration) -> Duration {
        let token = Duration::from_secs(1) / QPS;
        self.full_at = self.full_at.max(now) + token;
        self.full_at.saturating_sub(now).saturating_sub(token * BUCKET_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::first(0, Duration::from_millis(5))]
    #[case::doubled(4, Duration::from_millis(80))]
    #[case::last_below_the_limit(17, Duration::from_millis(655_360))]
    #[case::limited(18, MAX_DELAY)]
    #[case::beyond_all_numbers(40, MAX_DELAY)]
    fn delays_double(#[case] earlier: u32, #[case] delay: Duration) {
        assert_eq!(backoff(earlier), delay);
    }

    #[test]
    fn a_hundred_tokens_are_free_and_come_back() {
        let mut bucket = TokenBucket::default();
        let waits: Vec<u128> = (0..102).map(|_| bucket.take(Duration::ZERO).as_millis()).collect();
        assert_eq!(waits[..100], [0; 100]);
        assert_eq!(waits[100..], [100, 200]);
        assert_eq!(bucket.take(Duration::from_secs(1)), Duration::ZERO);
    }
}
