//! Delays of failed keys: per-item exponential back-off and an overall token bucket, as client-go's
//! `DefaultTypedControllerRateLimiter`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::runtime::backoff::{TokenBucket, exponential};

/// First delay of the per-item back-off.
pub const BASE_DELAY: Duration = Duration::from_millis(5);
/// Maximum delay of the per-item back-off.
pub const MAX_DELAY: Duration = Duration::from_secs(1000);
/// Refill of the overall bucket, keys per second.
pub const OVERALL_QPS: f64 = 10.0;
/// Size of the overall bucket.
pub const OVERALL_BURST: u32 = 100;

/// A delay that doubles with each failure of an item.
#[derive(Debug)]
pub struct ItemBackoff<K> {
    base: Duration,
    max: Duration,
    failures: BTreeMap<K, u32>,
}

impl<K: Ord + Clone> ItemBackoff<K> {
    /// Creates a back-off of `base` for the first failure, doubled for each further one, at most `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: BTreeMap::new() }
    }

    /// Counts a failure of `item` and returns its delay.
    pub fn when(&mut self, item: &K) -> Duration {
        let failures = self.failures.entry(item.clone()).or_default();
        let delay = exponential(self.base, self.max, *failures);
        *failures = failures.saturating_add(1);
        delay
    }

    /// Resets the failures of `item`.
    pub fn forget(&mut self, item: &K) {
        self.failures.remove(item);
    }

    /// Returns the failures since the last [`Self::forget`].
    pub fn num_requeues(&self, item: &K) -> u32 {
        self.failures.get(item).copied().unwrap_or_default()
    }
}

/// Both limits; the longer delay wins.
#[derive(Debug)]
pub struct RateLimiter<K> {
    items: ItemBackoff<K>,
    overall: TokenBucket,
}

impl<K: Ord + Clone> Default for RateLimiter<K> {
    fn default() -> Self {
        Self { items: ItemBackoff::new(BASE_DELAY, MAX_DELAY), overall: TokenBucket::new(OVERALL_QPS, OVERALL_BURST) }
    }
}

impl<K: Ord + Clone> RateLimiter<K> {
    /// Counts a failure of `item` at monotonic time `now`; returns its delay.
    pub fn when(&mut self, item: &K, now: Duration) -> Duration {
        self.items.when(item).max(self.overall.reserve(now))
    }

    /// Resets the failures of `item`.
    pub fn forget(&mut self, item: &K) {
        self.items.forget(item);
    }

    /// Returns the failures since the last [`Self::forget`].
    pub fn num_requeues(&self, item: &K) -> u32 {
        self.items.num_requeues(item)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::first(0, 5)]
    #[case::second(1, 10)]
    #[case::third(2, 20)]
    #[case::last_below_the_limit(17, 655_360)]
    #[case::held_at_the_limit(18, 1_000_000)]
    #[case::factor_overflows(40, 1_000_000)]
    #[case::shift_overflows(u32::MAX, 1_000_000)]
    fn item_delay(#[case] failures: u32, #[case] millis: u64) {
        assert_eq!(exponential(BASE_DELAY, MAX_DELAY, failures), Duration::from_millis(millis));
    }

    #[test]
    fn items_fail_apart_and_forget() {
        let mut limiter = RateLimiter::default();
        assert_eq!(limiter.when(&"a", Duration::ZERO), Duration::from_millis(5));
        assert_eq!(limiter.when(&"a", Duration::ZERO), Duration::from_millis(10));
        assert_eq!(limiter.when(&"b", Duration::ZERO), Duration::from_millis(5));
        assert_eq!(limiter.num_requeues(&"a"), 2);
        limiter.forget(&"a");
        assert_eq!(limiter.num_requeues(&"a"), 0);
        assert_eq!(limiter.when(&"a", Duration::ZERO), Duration::from_millis(5));
    }
}
