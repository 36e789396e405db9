//! The order in which plans are tried, and the time that a run gets after its last fault. Pure.

use std::collections::{BTreeMap, VecDeque};
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

/// Orders plans by their class: one of each class, then a second of each, and so on, so that rare kinds come first. Of
/// a class the first comes first, then the last, and then the middles of the gaps: what a controller does once at the
/// end has its turn early, too.
#[must_use]
pub fn in_turns<T>(plans: impl IntoIterator<Item = (String, T)>) -> Vec<T> {
    in_turns_by(|_| (), plans)
}

/// The same; plans that have their turn at the same time are ordered by `rank`.
#[must_use]
pub fn in_turns_by<T, R: Ord>(rank: impl Fn(&T) -> R, plans: impl IntoIterator<Item = (String, T)>) -> Vec<T> {
    let plans: Vec<(String, T)> = plans.into_iter().collect();
    let mut classes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, (class, _)) in plans.iter().enumerate() {
        classes.entry(class).or_default().push(index);
    }
    let mut turns = vec![0; plans.len()];
    for indices in classes.values() {
        for (turn, position) in spread(indices.len()).into_iter().enumerate() {
            turns[indices[position]] = turn;
        }
    }
    let mut ranked: Vec<(usize, T)> = turns.into_iter().zip(plans).map(|(turn, (_, plan))| (turn, plan)).collect();
    ranked.sort_by_cached_key(|(turn, plan)| (*turn, rank(plan)));
    ranked.into_iter().map(|(_, plan)| plan).collect()
}

/// Returns the positions below `length`: the first, the last, and then the middles of the gaps, the widest gaps first.
fn spread(length: usize) -> Vec<usize> {
    let Some(last) = length.checked_sub(1) else { return Vec::new() };
    let mut order = vec![0];
    order.extend((last > 0).then_some(last));
    let mut gaps = VecDeque::from([(0, last)]);
    while let Some((low, high)) = gaps.pop_front() {
        let middle = usize::midpoint(low, high);
        if middle > low {
            order.push(middle);
            gaps.extend([(low, middle), (middle, high)]);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_class_has_its_turn() {
        let plans = [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5), ("a", 6)];
        let plans = plans.map(|(class, plan)| (class.to_owned(), plan));
        assert_eq!(in_turns(plans), [1, 3, 5, 6, 2, 4]);
    }

    #[test]
    fn a_rank_orders_those_of_a_turn_alone() {
        let plans = [("a", 1), ("b", 9), ("a", 2), ("c", 4), ("a", 3), ("c", 5)];
        let plans = plans.map(|(class, plan)| (class.to_owned(), plan));
        assert_eq!(in_turns_by(|plan| std::cmp::Reverse(*plan), plans), [9, 4, 1, 5, 3, 2]);
    }

    #[test]
    fn a_class_begins_with_both_ends_and_the_middle() {
        assert_eq!(spread(9), [0, 8, 4, 2, 6, 1, 3, 5, 7]);
    }

    proptest! {
        #[test]
        fn each_position_has_one_turn(length in 0..300_usize) {
            let mut order = spread(length);
            order.sort_unstable();
            prop_assert_eq!(order, (0..length).collect::<Vec<_>>());
        }
    }
}
