//! How long a failed key waits: per-item exponential back-off and an overall token bucket, as client-go's
//! `DefaultTypedControllerRateLimiter`.

use std::collections::BTreeMap;
use std::time::Duration;

/// First delay of the per-item back-off.
pub const BASE_DELAY: Duration = Duration::from_millis(5);
/// Longest delay of the per-item back-off.
pub const MAX_DELAY: Duration = Duration::from_secs(1000);
/// Refill of the overall bucket, keys per second.
pub const OVERALL_QPS: f64 = 10.0;
/// Size of the overall bucket.
pub const OVERALL_BURST: u32 = 100;

/// Delay that doubles with each failure of an item.
#[derive(Debug)]
pub struct ItemBackoff<K> {
    base: Duration,
    max: Duration,
    failures: BTreeMap<K, u32>,
}

impl<K: Ord + Clone> ItemBackoff<K> {
    /// `base` for the first failure, doubled for each further one, never more than `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: BTreeMap::new() }
    }

    /// Counts a failure of `item` and returns the delay it has earned.
    pub fn when(&mut self, item: &K) -> Duration {
        let failures = self.failures.entry(item.clone()).or_default();
        let delay = exponential(self.base, self.max, *failures);
        *failures = failures.saturating_add(1);
        delay
    }

    /// Forgets the failures of `item`.
    pub fn forget(&mut self, item: &K) {
        self.failures.remove(item);
    }

    /// Failures counted since the last [`Self::forget`].
    pub fn num_requeues(&self, item: &K) -> u32 {
        self.failures.get(item).copied().unwrap_or_default()
    }
}

/// `base · 2^exponent`, at most `max`.
pub fn exponential(base: Duration, max: Duration, exponent: u32) -> Duration {
    2_u32.checked_pow(exponent).and_then(|factor| base.checked_mul(factor)).map_or(max, |delay| delay.min(max))
}

/// A token bucket that can be overdrawn: each reservation tells how long to wait until its token exists.
#[derive(Debug)]
pub struct TokenBucket {
    qps: f64,
    burst: f64,
    tokens: f64,
    /// Monotonic time of the last refill.
    at: Duration,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens, refilled with `qps` tokens per second.
    pub fn new(qps: f64, burst: u32) -> Self {
        let burst = f64::from(burst);
        Self { qps, burst, tokens: burst, at: Duration::ZERO }
    }

    /// Takes a token at monotonic time `now`; returns how long to wait for it.
    pub fn reserve(&mut self, now: Duration) -> Duration {
        self.refill(now);
        self.tokens -= 1.0;
        Duration::from_secs_f64((-self.tokens / self.qps).max(0.0))
    }

    /// Takes a token at monotonic time `now` if there is one.
    pub fn try_accept(&mut self, now: Duration) -> bool {
        self.refill(now);
        let accept = self.tokens >= 1.0;
        if accept {
            self.tokens -= 1.0;
        }
        accept
    }

    fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + passed * self.qps).min(self.burst);
    }
}

/// Both limits together: the longer delay wins.
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
    /// Counts a failure of `item` at monotonic time `now`; returns how long it has to wait.
    pub fn when(&mut self, item: &K, now: Duration) -> Duration {
        self.items.when(item).max(self.overall.reserve(now))
    }

    /// Forgets the failures of `item`.
    pub fn forget(&mut self, item: &K) {
        self.items.forget(item);
    }

    /// Failures counted since the last [`Self::forget`].
    pub fn num_requeues(&self, item: &K) -> u32 {
        self.items.num_requeues(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

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
    fn bucket_lets_the_burst_pass_and_then_spaces_by_the_rate() {
        let mut bucket = TokenBucket::new(10.0, 2);
        let delays: Vec<u128> = (0..4).map(|_| bucket.reserve(Duration::ZERO).as_millis()).collect();
        assert_eq!(delays, [0, 0, 100, 200]);
        assert_eq!(bucket.reserve(Duration::from_mins(1)), Duration::ZERO, "refilled");
    }

    #[test]
    fn try_accept_does_not_overdraw() {
        let mut bucket = TokenBucket::new(1.0, 1);
        assert!(bucket.try_accept(Duration::ZERO));
        assert!(!bucket.try_accept(Duration::ZERO));
        assert!(bucket.try_accept(Duration::from_secs(1)));
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
