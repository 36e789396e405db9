//! States of nodes as far as their pods depend on them, and the ranges of the TTL annotation.
//!
//! Sources: `pkg/controller/podgc/gc_controller.go` (`gcTerminating`), `pkg/controller/ttl/ttl_controller.go`.

use serde_json::Value;

use super::pods;

/// The taint of a node that is out of service.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The state of a node, as far as its pods depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// It does not exist.
    Missing,
    /// It exists.
    There,
    /// It is not ready and has the taint [`OUT_OF_SERVICE`].
    OutOfService,
}

impl NodeState {
    /// Returns the state of a node that exists.
    #[must_use]
    pub fn of(node: &Value) -> Self {
        let taints = node["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice);
        let is_tainted = taints.iter().any(|taint| taint["key"] == OUT_OF_SERVICE);
        if is_tainted && !pods::is_ready(node) { Self::OutOfService } else { Self::There }
    }
}

/// The annotation of the TTL controller.
pub const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Smallest and largest number of nodes of each value. The ranges overlap, so that a number on the edge changes
/// nothing: the value depends on the side from which the number came.
pub const TTL_RANGES: [(usize, usize, &str); 5] =
    [(0, 100, "0"), (90, 500, "15"), (450, 1000, "30"), (900, 2000, "60"), (1800, usize::MAX, "300")];

/// Returns true if a cluster with this many nodes may have this value in the annotation of a node.
#[must_use]
pub fn allows_ttl(nodes: usize, value: &str) -> bool {
    // The controller reads the annotation as a number: `00` needs no correction.
    let number = |text: &str| text.parse::<i64>().ok();
    let Some(value) = number(value) else { return false };
    TTL_RANGES.iter().any(|(least, most, text)| Some(value) == number(text) && (*least..=*most).contains(&nodes))
}

/// Returns the place in [`TTL_RANGES`] after a change of the number of nodes from the place `range`.
#[must_use]
pub fn next_ttl_range(range: usize, nodes: usize) -> usize {
    if nodes > TTL_RANGES[range].1 {
        range + 1
    } else if nodes < TTL_RANGES[range].0 {
        range.saturating_sub(1)
    } else {
        range
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1, "0", true)]
    #[case(89, "15", false)]
    #[case(90, "15", true)]
    #[case(100, "0", true)]
    #[case(101, "0", false)]
    #[case(5000, "300", true)]
    #[case(1, "7", false)]
    #[case::written_otherwise(1, "+00", true)]
    #[case::no_number(1, "zero", false)]
    fn ttl_values(#[case] nodes: usize, #[case] value: &str, #[case] allowed: bool) {
        assert_eq!(allows_ttl(nodes, value), allowed);
    }

    #[rstest]
    #[case::on_the_upper_edge(0, 100, 0)]
    #[case::above_it(0, 101, 1)]
    #[case::on_the_lower_edge(1, 90, 1)]
    #[case::below_it(1, 89, 0)]
    fn ttl_ranges_overlap(#[case] range: usize, #[case] nodes: usize, #[case] next: usize) {
        assert_eq!(next_ttl_range(range, nodes), next);
    }
}
