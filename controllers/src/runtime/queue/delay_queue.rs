//! Delayed keys: one deadline per key, the earliest wins.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Keys ordered by monotonic deadline; keys with equal deadlines keep the order of insertion.
#[derive(Debug)]
pub(super) struct DelayQueue<K> {
    by_deadline: BTreeSet<(Duration, u64, K)>,
    by_key: BTreeMap<K, (Duration, u64)>,
    next_sequence: u64,
}

impl<K: Ord + Clone> Default for DelayQueue<K> {
    fn default() -> Self {
        Self { by_deadline: BTreeSet::new(), by_key: BTreeMap::new(), next_sequence: 0 }
    }
}

impl<K: Ord + Clone> DelayQueue<K> {
    /// Delays `key` until `deadline`, unless it already has an earlier one.
    pub(super) fn insert(&mut self, key: K, deadline: Duration) {
        if let Some(&(due, sequence)) = self.by_key.get(&key) {
            if due <= deadline {
                return;
            }
            self.by_deadline.remove(&(due, sequence, key.clone()));
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.by_key.insert(key.clone(), (deadline, sequence));
        self.by_deadline.insert((deadline, sequence, key));
    }

    /// Removes and returns the next key whose deadline is reached at `now`.
    pub(super) fn pop_due(&mut self, now: Duration) -> Option<K> {
        let (deadline, _, _) = self.by_deadline.first()?;
        if *deadline > now {
            return None;
        }
        let (_, _, key) = self.by_deadline.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// Returns the earliest deadline.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.by_deadline.first().map(|(deadline, _, _)| *deadline)
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn earliest_deadline_of_a_key_wins() {
        let mut waiting = DelayQueue::default();
        waiting.insert("a", s(5));
        waiting.insert("a", s(9));
        assert_eq!(waiting.next_deadline(), Some(s(5)));
        waiting.insert("a", s(2));
        assert_eq!((waiting.next_deadline(), waiting.len()), (Some(s(2)), 1));
        assert_eq!(waiting.pop_due(s(1)), None);
        assert_eq!(waiting.pop_due(s(2)), Some("a"));
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn equal_deadlines_keep_the_order_of_insertion() {
        let mut waiting = DelayQueue::default();
        for key in ["z", "a", "m"] {
            waiting.insert(key, s(1));
        }
        let order: Vec<_> = std::iter::from_fn(|| waiting.pop_due(s(1))).collect();
        assert_eq!(order, ["z", "a", "m"]);
    }
}
