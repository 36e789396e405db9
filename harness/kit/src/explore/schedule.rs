//! The order in which plans are tried, and the time that a run gets after its last fault. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

/// The times that a run gets after its last step and its last fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settling {
    /// Time for the controllers to converge.
    pub converge: Duration,
    /// Length of the window in which converged controllers must not write.
    pub quiet: Duration,
    /// Time in which controllers that start again must agree with the final state.
    pub fresh: Duration,
}

impl Settling {
    /// For the histories of fixtures, whose controllers retry within minutes.
    pub const OF_FIXTURES: Self =
        Self { converge: Duration::from_mins(5), quiet: Duration::from_mins(5), fresh: Duration::from_mins(2) };

    /// For tests with the kit, about whose controllers nothing is known. A controller with a schedule has nothing due
    /// when the states are compared: tests end at full minutes, and schedules have full minutes, too.
    pub const OF_TESTS: Self = Self {
        converge: Duration::from_secs(33 * 60 + 20),
        quiet: Duration::from_mins(10),
        fresh: Duration::from_mins(5),
    };
}

/// Orders plans by their class: the first of each class, then the second of each, and so on. Rare kinds come first.
#[must_use]
pub fn in_turns<T>(plans: impl IntoIterator<Item = (String, T)>) -> Vec<T> {
    let mut ranks: BTreeMap<String, u32> = BTreeMap::new();
    let rank = |(class, plan): (String, T)| {
        let rank = ranks.entry(class).or_default();
        *rank += 1;
        (*rank, plan)
    };
    let mut ranked: Vec<(u32, T)> = plans.into_iter().map(rank).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, plan)| plan).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_turn() {
        let plans = [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5)];
        let plans = plans.map(|(class, plan)| (class.to_owned(), plan));
        assert_eq!(in_turns(plans), [1, 3, 2, 5, 4]);
    }
}
