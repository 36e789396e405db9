//! Delays after failures and a token bucket, used by the client, the informer, queues and events. PURE.

use std::time::Duration;

/// First delay after a failed list or watch; doubles with each consecutive failure.
pub const BACKOFF_BASE: Duration = Duration::from_millis(800);
/// Maximum delay after failed lists or watches.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// The delay starts at the minimum again after this time without failures.
pub const BACKOFF_RESET: Duration = Duration::from_mins(2);

/// Returns `base · 2^exponent`, at most `max`.
pub fn exponential(base: Duration, max: Duration, exponent: u32) -> Duration {
    2_u32.checked_pow(exponent).and_then(|factor| base.checked_mul(factor)).map_or(max, |delay| delay.min(max))
}

/// A token bucket that can be overdrawn: a reservation returns how long to wait for its token.
#[derive(Debug)]
pub struct TokenBucket {
    qps: f64,
    burst: f64,
    tokens: f64,
    /// Monotonic time of the last refill.
    at: Duration,
}

impl TokenBucket {
    /// Creates a full bucket of `burst` tokens that is refilled with `qps` tokens per second.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
