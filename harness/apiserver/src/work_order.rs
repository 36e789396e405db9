//! The order in which simultaneous requests and watches proceed: some wait a few turns of the runtime, so that others
//! go first. PURE.
//!
//! The choice is that of PCT ("A randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010):
//! each line of work has a random priority, and at a few random steps the line that is about to go falls behind all
//! others.

use std::collections::{BTreeMap, BTreeSet};

use super::ids::IdGenerator;

/// Number of different priorities.
const PRIORITIES: u64 = 8;
/// Turns by which each priority is slower than the next. A request and its consequences take a few turns.
const TURNS: u32 = 4;
/// The last step at which a line may fall behind is below two to the power of this.
const LARGEST_POWER: u64 = 9;

/// Decides how long each line of work waits.
#[derive(Debug)]
pub(crate) struct WorkOrder {
    ids: IdGenerator,
    priorities: BTreeMap<String, u32>,
    /// The steps at which the line that is about to go falls behind.
    falls: BTreeSet<u64>,
    step: u64,
    lowest: u32,
}

impl WorkOrder {
    /// Creates an order from `seed` with `depth - 1` changes of priority.
    pub(crate) fn new(seed: u64, depth: u32) -> Self {
        let mut ids = IdGenerator::new(seed.wrapping_add(0x006f_7264_6572));
        // Short and long runs alike get changes: each power of two is as likely as the others.
        let falls = (1..depth).map(|_| {
            let power = 1 << (ids.number() % LARGEST_POWER);
            power + ids.number() % power
        });
        let falls = falls.collect();
        let lowest = u32::try_from(PRIORITIES).unwrap_or(u32::MAX);
        Self { ids, priorities: BTreeMap::new(), falls, step: 0, lowest }
    }

    /// Returns the number of turns that the next work of `line` waits.
    pub(crate) fn turns(&mut self, line: &str) -> u32 {
        self.step += 1;
        if self.falls.contains(&self.step) {
            self.priorities.insert(line.to_owned(), self.lowest);
            self.lowest += 1;
        }
        if let Some(priority) = self.priorities.get(line) {
            return priority * TURNS;
        }
        let priority = u32::try_from(self.ids.number() % PRIORITIES).unwrap_or_default();
        self.priorities.insert(line.to_owned(), priority);
        priority * TURNS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_orders() {
        let order = |seed| {
            let mut order = WorkOrder::new(seed, 3);
            (0..40).map(|step| order.turns(["a", "b", "c"][step % 3])).collect::<Vec<_>>()
        };
        assert_eq!(order(5), order(5));
        assert!((0..9).any(|seed| order(seed) != order(seed + 1)));
    }

    #[test]
    fn a_line_falls_behind_once_per_change() {
        for seed in 0..50 {
            let mut order = WorkOrder::new(seed, 2);
            let waits: BTreeSet<u32> = (0..1024).map(|_| order.turns("a")).collect();
            // The change may come before the first wait.
            assert!(waits.len() <= 2, "one change: {waits:?}");
            assert_eq!(waits.last(), Some(&32), "behind all others");
        }
    }
}
