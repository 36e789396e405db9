//! The values that follow from the objects alone, after any history. Pure.

use serde_json::Value;

/// The annotation of the TTL controller.
pub const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Smallest and largest number of nodes of each value. The ranges overlap, so that a number on the edge changes
/// nothing: the value depends on the side from which the number came. Source: `pkg/controller/ttl/ttl_controller.go`.
const TTL_RANGES: [(usize, usize, &str); 5] =
    [(0, 100, "0"), (90, 500, "15"), (450, 1000, "30"), (900, 2000, "60"), (1800, usize::MAX, "300")];

/// Returns true if a cluster with this many nodes may have this value in the annotation of a node.
#[must_use]
pub fn allows_ttl(nodes: usize, value: &Value) -> bool {
    TTL_RANGES.iter().any(|(least, most, text)| value == text && (*least..=*most).contains(&nodes))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(1, "0", true)]
    #[case(89, "15", false)]
    #[case(90, "15", true)]
    #[case(100, "0", true)]
    #[case(101, "0", false)]
    #[case(5000, "300", true)]
    #[case(1, "7", false)]
    fn ttl_values(#[case] nodes: usize, #[case] value: &str, #[case] allowed: bool) {
        assert_eq!(allows_ttl(nodes, &json!(value)), allowed);
    }
}
