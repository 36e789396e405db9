//! The time between the tries of what failed: `NewTypedItemExponentialFailureRateLimiter` in
//! `staging/src/k8s.io/client-go/util/workqueue/default_rate_limiters.go`. PURE.

use std::time::Duration;

/// The delays of a rate limiter: the first one, and the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delays(pub(crate) Duration, pub(crate) Duration);

/// The delays of `DefaultTypedControllerRateLimiter`.
pub(crate) const CONTROLLER: Delays = Delays(Duration::from_millis(5), Duration::from_secs(1000));

/// The failures of one item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Counts a failure and returns the delay before the next try.
    pub(crate) fn next(&mut self, Delays(first, longest): Delays) -> Duration {
        let delay = 2_u32.checked_pow(self.failures).and_then(|factor| first.checked_mul(factor));
        self.failures = self.failures.saturating_add(1);
        delay.map_or(longest, |delay| delay.min(longest))
    }
}

#[cfg(feature = "controllers")]
pub(crate) use retries::Retries;

#[cfg(feature = "controllers")]
mod retries {
    use std::collections::{BTreeMap, BTreeSet};

    use jiff::Timestamp;

    use super::{Backoff, CONTROLLER, Delays};

    /// The items of a loop that failed, with the times of their next tries.
    #[derive(Debug)]
    pub(crate) struct Retries<K> {
        delays: Delays,
        failed: BTreeMap<K, (Backoff, Timestamp)>,
    }

    impl<K: Ord + Clone> Default for Retries<K> {
        fn default() -> Self {
            Self::with(CONTROLLER)
        }
    }

    impl<K: Ord + Clone> Retries<K> {
        /// Creates an empty set with these delays.
        pub(crate) fn with(delays: Delays) -> Self {
            Self { delays, failed: BTreeMap::new() }
        }

        /// Returns the time of the next try.
        pub(crate) fn next(&self) -> Option<Timestamp> {
            self.failed.values().map(|(_, at)| *at).min()
        }

        /// Returns the items to try again now.
        pub(crate) fn due(&self, now: Timestamp) -> BTreeSet<K> {
            self.failed.iter().filter(|(_, (_, at))| *at <= now).map(|(key, _)| key.clone()).collect()
        }

        /// Notes how a try ended. Failures before the time of the next try, as after events, do not delay that.
        pub(crate) fn settle(&mut self, key: &K, failed: bool, now: Timestamp) {
            if !failed {
                self.failed.remove(key);
                return;
            }
            let (backoff, at) = self.failed.entry(key.clone()).or_insert((Backoff::default(), now));
            if *at <= now {
                *at = now.checked_add(backoff.next(self.delays)).unwrap_or(Timestamp::MAX);
            }
        }

        /// Forgets the items that are not kept.
        pub(crate) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
            self.failed.retain(|key, _| keep(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let mut backoff = Backoff::default();
        let delays: Vec<u128> = (0..40).map(|_| backoff.next(CONTROLLER).as_millis()).collect();
        assert_eq!(delays[..4], [5, 10, 20, 40]);
        assert_eq!(delays[17..20], [655_360, 1_000_000, 1_000_000]);
        assert_eq!(delays[39], 1_000_000);
    }

    #[cfg(feature = "controllers")]
    #[test]
    fn only_tries_at_their_time_lengthen_the_delay() {
        let at = |millis: i64| jiff::Timestamp::from_millisecond(millis).unwrap();
        let mut retries = Retries::default();
        retries.settle(&"a", true, at(0));
        retries.settle(&"a", true, at(3));
        assert_eq!((retries.next(), retries.due(at(4)).len()), (Some(at(5)), 0));
        assert_eq!(retries.due(at(5)).len(), 1);
        retries.settle(&"a", true, at(5));
        assert_eq!(retries.next(), Some(at(15)));
        retries.settle(&"b", true, at(6));
        assert_eq!(retries.next(), Some(at(11)));
        retries.settle(&"b", false, at(7));
        retries.settle(&"a", false, at(8));
        assert_eq!(retries.next(), None);
    }
}
