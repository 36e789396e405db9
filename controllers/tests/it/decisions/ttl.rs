use plumbline_controllers::ttl::boundaries::{BOUNDARIES, ClusterSize};
use proptest::prelude::*;
use rstest::rstest;

fn grown(nodes: usize) -> ClusterSize {
    let mut size = ClusterSize::default();
    (0..nodes).for_each(|_| size.add());
    size
}

#[rstest]
#[case::t_005_first_node(1, 0)]
#[case::t_005_hundred(100, 0)]
#[case::t_006_one_more(101, 15)]
#[case::br_19_02_top(500, 15)]
#[case::br_19_03_bottom(501, 30)]
#[case::br_19_03_top(1000, 30)]
#[case::br_19_04_bottom(1001, 60)]
#[case::br_19_04_top(2000, 60)]
#[case::br_19_05_bottom(2001, 300)]
#[case::br_19_05_far(5000, 300)]
fn growing(#[case] nodes: usize, #[case] ttl_seconds: i64) {
    assert_eq!(grown(nodes).ttl_seconds(), ttl_seconds);
}

#[rstest]
#[case::t_007_101_to_100(101, 100, 15)]
#[case::t_007_down_to_90(101, 90, 15)]
#[case::t_008_down_to_89(101, 89, 0)]
#[case::br_19_06_450(501, 450, 30)]
#[case::br_19_06_449(501, 449, 15)]
#[case::br_19_06_900(1001, 900, 60)]
#[case::br_19_06_899(1001, 899, 30)]
#[case::t_009_1800(2001, 1800, 300)]
#[case::t_009_1799(2001, 1799, 60)]
#[case::all_the_way(2001, 0, 0)]
fn shrinking(#[case] from: usize, #[case] to: usize, #[case] ttl_seconds: i64) {
    let mut size = grown(from);
    (to..from).for_each(|_| size.remove());
    assert_eq!(size.ttl_seconds(), ttl_seconds);
}

#[test]
fn a_removal_too_many_is_survived() {
    let mut size = ClusterSize::default();
    size.remove();
    assert_eq!(size, ClusterSize::default());
}

proptest! {
    /// I-T2, I-T3: the step always matches the count, for any history.
    #[test]
    fn the_step_always_fits_the_count(walk in prop::collection::vec(any::<bool>(), 0..4000), start in 0_usize..2100) {
        let mut size = grown(start);
        let mut nodes = start;
        for up in walk {
            let before = size;
            let had = nodes;
            if up { size.add() } else { size.remove() }
            nodes = if up { nodes + 1 } else { nodes.saturating_sub(1) };
            let boundary = BOUNDARIES.iter().find(|boundary| boundary.ttl_seconds == size.ttl_seconds()).unwrap();
            prop_assert!((boundary.min..=boundary.max).contains(&nodes));
            if (boundary.min..=boundary.max).contains(&had) && before.ttl_seconds() != size.ttl_seconds() {
                let was = BOUNDARIES.iter().find(|boundary| boundary.ttl_seconds == before.ttl_seconds()).unwrap();
                prop_assert!(!(was.min..=was.max).contains(&nodes), "moved without need");
            }
        }
    }
}
