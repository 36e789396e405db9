//! Fixtures that break an oracle without any fault, on any correct implementation. Pure.
//!
//! A fixture may end in the middle of what it shows: its own faults last, its events are held, its objects contradict
//! each other on purpose. Such exceptions are declared, so that a controller that is wrong without any fault cannot
//! excuse itself by its own reference run. The reasons: sums saturate at 32 bits (`scales-beyond-32-bits`); selectors
//! and limits are invalid (`selector-…`, `status-negative-limits`); refusals and finalizers of the fixture stay
//! (`podgc/…`); nothing announces that the scale of a custom resource changes (`scale-follows-with-the-next-pod`).

use super::beginnings::{is_beginning, whole_id};
use super::random::is_random;

/// Each oracle with the fixtures that break it without a fault: `ORACLE: ID…`, one in a line.
const DECLARED: &str = include_str!("exceptions.txt");

/// Returns true if the fixture, or the row of a matrix, breaks this oracle without any fault. Beginnings of fixtures
/// are judged by the invariants alone.
#[must_use]
pub fn is_declared(id: &str, oracle: &str) -> bool {
    let comparing = ["model", "quiet", "fresh", "late"].contains(&oracle);
    if is_random(id) || !comparing {
        return false;
    }
    if is_beginning(id) {
        return true;
    }
    is_listed(id, oracle)
}

/// Returns true if runs of the fixture are not judged by this oracle at all.
#[must_use]
pub fn is_listed(id: &str, oracle: &str) -> bool {
    let file = whole_id(id).split('[').next().unwrap_or(id);
    DECLARED.lines().filter_map(|line| line.split_once(": ")).any(|(known, name)| known == oracle && name == file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_histories_have_no_exceptions() {
        assert!(!is_declared("random/1", "model"));
        assert!(is_declared("ttl/grow~1", "fresh"));
        assert!(!is_declared("ttl/grow", "alive"));
    }
}
