use std::sync::Arc;

use plumbline_controllers::api::int_or_percent::{IntOrPercent, Rounding};
use plumbline_controllers::api::pdb::{PdbSpec, PdbStatus};
use plumbline_controllers::api::pod::PodView;
use plumbline_controllers::disruption::decide::{PdbDecision, decide, fail_safe};
use plumbline_controllers::disruption::expected::{ExpectedCounts, expected_counts, needs_scales};
use plumbline_controllers::disruption::stale::{Staleness, reset_condition, staleness};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::build::{at, names, pdb, pod, t0};

fn spec(spec: Value) -> PdbSpec {
    serde_json::from_value(spec).unwrap()
}

fn counts(expected: ExpectedCounts) -> (i32, i32) {
    (expected.desired_healthy, expected.expected_pods)
}

/// (desired, expected) from a spec, the number of pods and the owners' scales.
#[rstest]
#[case::d_001_integer_min_without_pods(json!({"minAvailable": 3}), 0, &[], (3, 0))]
#[case::d_003_integer_min_counts_pods(json!({"minAvailable": 3}), 2, &[9], (3, 2))]
#[case::d_006_max_without_pods(json!({"maxUnavailable": 1}), 0, &[], (0, 0))]
#[case::d_008_max_of_scale(json!({"maxUnavailable": 2}), 1, &[7], (5, 7))]
#[case::d_010_thirty_percent_of_seven(json!({"maxUnavailable": "30%"}), 1, &[7], (4, 7))]
#[case::d_011_thirty_percent_of_three(json!({"maxUnavailable": "30%"}), 1, &[3], (2, 3))]
#[case::d_013_twenty_percent_of_ten(json!({"minAvailable": "20%"}), 1, &[10], (2, 10))]
#[case::d_016_a_third_of_three(json!({"minAvailable": "34%"}), 1, &[3], (2, 3))]
#[case::d_020_one_owner(json!({"minAvailable": "28%"}), 11, &[11], (4, 11))]
#[case::d_021_two_owners(json!({"minAvailable": "28%"}), 22, &[11, 11], (7, 22))]
#[case::d_100_neither(json!({}), 5, &[5], (0, 0))]
#[case::d_102_more_unavailable_than_there_are(json!({"maxUnavailable": 9}), 3, &[3], (0, 3))]
#[case::d_103_percentage_of_nothing(json!({"minAvailable": "50%"}), 3, &[], (0, 0))]
#[case::br_25_01_half_of_seven(json!({"minAvailable": "50%"}), 7, &[7], (4, 7))]
#[case::br_25_01_none(json!({"minAvailable": "0%"}), 7, &[7], (0, 7))]
#[case::br_25_01_all(json!({"minAvailable": "100%"}), 7, &[7], (7, 7))]
#[case::br_25_02_all_away(json!({"maxUnavailable": "100%"}), 7, &[7], (0, 7))]
#[case::br_25_02_none_away(json!({"maxUnavailable": "0%"}), 7, &[7], (7, 7))]
#[case::both_set_max_wins(json!({"maxUnavailable": 1, "minAvailable": 1}), 7, &[7], (6, 7))]
#[case::a_scale_of_zero(json!({"maxUnavailable": 1}), 1, &[0], (0, 0))]
fn expects(#[case] of: Value, #[case] pods: usize, #[case] scales: &[i32], #[case] want: (i32, i32)) {
    let got = expected_counts(&spec(of), pods, scales.iter().copied(), Rounding::Up).unwrap();
    assert_eq!(counts(got), want);
    assert!(!got.saturated);
}

#[rstest]
#[case::document_25_thirty_percent_of_seven(json!({"maxUnavailable": "30%"}), (5, 7))]
#[case::document_25_even(json!({"maxUnavailable": "100%"}), (0, 7))]
#[case::document_25_integer(json!({"maxUnavailable": 2}), (5, 7))]
#[case::min_available_still_rounds_up(json!({"minAvailable": "50%"}), (4, 7))]
fn rounding_down(#[case] of: Value, #[case] want: (i32, i32)) {
    assert_eq!(counts(expected_counts(&spec(of), 7, [7], Rounding::Down).unwrap()), want);
}

#[rstest]
#[case::no_percent_sign(json!({"minAvailable": "five"}), "invalid value for IntOrString: invalid type: string is not \
    a percentage")]
#[case::no_number(json!({"maxUnavailable": "x%"}), "invalid value for IntOrString: invalid value \"x%\": \
    strconv.Atoi: parsing \"x\": invalid syntax")]
#[case::two_signs(json!({"maxUnavailable": "5%%"}), "invalid value for IntOrString: invalid value \"5%%\": \
    strconv.Atoi: parsing \"5%\": invalid syntax")]
#[case::too_large(json!({"maxUnavailable": "99999999999999999999%"}), "invalid value for IntOrString: invalid value \
    \"99999999999999999999%\": strconv.Atoi: parsing \"99999999999999999999\": value out of range")]
fn refuses(#[case] of: Value, #[case] message: &str) {
    let error = expected_counts(&spec(of), 7, [7], Rounding::Up).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[rstest]
#[case::d_118_integer_min(json!({"minAvailable": 1}), false)]
#[case::percent_min(json!({"minAvailable": "1%"}), true)]
#[case::integer_max(json!({"maxUnavailable": 1}), true)]
#[case::d_100_neither(json!({}), false)]
fn owners_are_needed(#[case] of: Value, #[case] needed: bool) {
    assert_eq!(needs_scales(&spec(of)), needed);
}

#[test]
fn d_104_sums_saturate() {
    let got = expected_counts(&spec(json!({"maxUnavailable": "50%"})), 3, [i32::MAX, i32::MAX], Rounding::Up).unwrap();
    assert_eq!(counts(got), (1_073_741_823, i32::MAX));
    assert!(got.saturated);
}

fn any_bound() -> impl Strategy<Value = IntOrPercent> {
    prop_oneof![
        any::<i32>().prop_map(IntOrPercent::Int),
        any::<i64>().prop_map(|percent| IntOrPercent::Text(format!("{percent}%"))),
        (0..=100).prop_map(|percent| IntOrPercent::Text(format!("{percent}%"))),
    ]
}

/// Bounds that the API server accepts for `minAvailable`; a negative one is written so that the server rejects the
/// status.
fn valid_bound() -> impl Strategy<Value = IntOrPercent> {
    prop_oneof![
        (0..=i32::MAX).prop_map(IntOrPercent::Int),
        (0..=100).prop_map(|percent| IntOrPercent::Text(format!("{percent}%"))),
    ]
}

#[test]
fn a_negative_min_available_is_not_turned_into_nothing_desired() {
    assert_eq!(counts(expected_counts(&spec(json!({"minAvailable": -1})), 3, [], Rounding::Up).unwrap()), (-1, 3));
}

proptest! {
    /// I-D1, I-D18: no count is ever negative for a valid spec, with up to 1000 owners of any scale.
    #[test]
    fn never_negative(
        max in prop::option::of(any_bound()),
        min in prop::option::of(valid_bound()),
        scales in prop::collection::vec(0..=i32::MAX, 0..1000),
        pods in any::<usize>(),
        healthy in 0_usize..20,
    ) {
        let spec = PdbSpec { max_unavailable: max, min_available: min, ..PdbSpec::default() };
        for rounding in [Rounding::Up, Rounding::Down] {
            let got = expected_counts(&spec, pods, scales.iter().copied(), rounding).unwrap();
            prop_assert!(got.desired_healthy >= 0 && got.expected_pods >= 0);
            let pods: Vec<_> = (0..healthy).map(|number| pod(&number.to_string(), json!({}))).collect();
            let status = decide(&pdb(json!({})), &pods, got, t0()).status.unwrap();
            let healthy_above = (status.current_healthy - status.desired_healthy).max(0);
        let allowed = if got.expected_pods > 0 { healthy_above } else { 0 };
            prop_assert_eq!(status.disruptions_allowed, allowed);
        }
    }

    /// BR-25-01, BR-25-02: percentages agree with exact rational arithmetic.
    #[test]
    fn percentages_round_up_exactly(percent in 0_i64..=100, scale in 0..=i32::MAX) {
        let exact = (percent * i64::from(scale) + 99) / 100;
        let bound = IntOrPercent::Text(format!("{percent}%"));
        prop_assert_eq!(bound.scaled(i64::from(scale), Rounding::Up).unwrap(), exact);
        let max = PdbSpec { max_unavailable: Some(bound), ..PdbSpec::default() };
        let desired = expected_counts(&max, 0, [scale], Rounding::Up).unwrap().desired_healthy;
        prop_assert_eq!(i64::from(desired), i64::from(scale) - exact);
    }
}

/// (allowed, current, desired, expected)
fn numbers(status: &PdbStatus) -> (i32, i32, i32, i32) {
    (status.disruptions_allowed, status.current_healthy, status.desired_healthy, status.expected_pods)
}

fn want(desired_healthy: i32, expected_pods: i32) -> ExpectedCounts {
    ExpectedCounts { desired_healthy, expected_pods, saturated: false }
}

fn unready() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
}

fn terminating() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

#[rstest]
#[case::br_25_03_one_spare(vec![pod("a", json!({})), pod("b", json!({}))], want(1, 2), (1, 2, 1, 2))]
#[case::br_25_03_never_below_zero(vec![pod("a", json!({}))], want(3, 3), (0, 1, 3, 3))]
#[case::d_005_unready(vec![pod("a", json!({})), pod("b", unready())], want(1, 2), (0, 1, 1, 2))]
#[case::terminating(vec![pod("a", json!({})), pod("b", terminating())], want(1, 2), (0, 1, 1, 2))]
#[case::d_101_phase_is_not_asked(vec![pod("a", json!({"status": {"phase": "Succeeded"}}))], want(0, 1), (1, 1, 0, 1))]
#[case::d_103_nothing_expected(vec![pod("a", json!({}))], want(0, 0), (0, 1, 0, 0))]
#[case::d_017_rogue_pod_counts_as_healthy(vec![pod("a", json!({})), pod("b", json!({})), pod("c", json!({})), pod("d",
    json!({}))], want(2, 3), (2, 4, 2, 3))]
fn decides(#[case] pods: Vec<Arc<PodView>>, #[case] expected: ExpectedCounts, #[case] want: (i32, i32, i32, i32)) {
    let status = decide(&pdb(json!({})), &pods, expected, t0()).status.unwrap();
    assert_eq!(numbers(&status), want);
    assert_eq!(status.observed_generation, 1, "D-023");
    let (value, reason) = if want.0 > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let condition = &status.conditions[0];
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), (value, reason), "D-024");
    assert_eq!((condition.message.as_str(), condition.observed_generation), ("", 1));
    assert_eq!(condition.last_transition_time, Some(t0()));
}

#[test]
fn transition_times_are_whole_seconds_and_stay_while_the_status_does() {
    let pods = [pod("a", json!({}))];
    let first = decide(&pdb(json!({})), &pods, want(0, 1), at(0.9)).status.unwrap();
    assert_eq!(first.conditions[0].last_transition_time, Some(t0()));
    let mut later = pdb(json!({}));
    later.status = first;
    let second = decide(&later, &[], want(0, 2), at(60.0)).status.unwrap();
    assert_eq!(second.conditions[0].last_transition_time, Some(at(60.0)));
    later.status = second;
    let third = decide(&later, &[], want(0, 3), at(90.0)).status.unwrap();
    assert_eq!(third.conditions[0].last_transition_time, Some(at(60.0)));
}

#[test]
fn i_d14_an_unchanged_status_is_not_written() {
    let pods = [pod("a", json!({}))];
    let mut budget = pdb(json!({}));
    budget.status = decide(&budget, &pods, want(0, 1), t0()).status.unwrap();
    assert_eq!(decide(&budget, &pods, want(0, 1), at(60.0)), PdbDecision::default());
    budget.metadata.generation = Some(2);
    let status = decide(&budget, &pods, want(0, 1), at(60.0)).status.unwrap();
    assert_eq!((status.observed_generation, status.conditions[0].observed_generation), (2, 2));
}

#[test]
fn d_044_unknown_conditions_survive() {
    let other = json!({"type": "Other", "status": "True", "reason": "R", "message": "m",
        "lastTransitionTime": "2025-01-01T00:00:00Z"});
    let budget = pdb(json!({"status": {"conditions": [other]}}));
    let status = decide(&budget, &[], want(0, 1), t0()).status.unwrap();
    assert_eq!(serde_json::to_value(&status.conditions[0]).unwrap(), other);
    assert_eq!(status.conditions.len(), 2);
}

/// The entry is `seconds` old when the budget is evaluated; its pod is ready.
#[rstest]
#[case::br_25_04_just_granted(0.0, (true, 0, false))]
#[case::br_25_04_one_second_left(119.0, (true, 0, false))]
#[case::d_113_at_exactly_two_minutes(120.0, (true, 1, false))]
#[case::br_25_04_a_nanosecond_later(120.000_000_001, (false, 1, true))]
#[case::br_25_04_one_second_later(121.0, (false, 1, true))]
fn claims_run_out(#[case] age: f64, #[case] (kept, healthy, reported): (bool, i32, bool)) {
    let budget = pdb(json!({"status": {"disruptedPods": {"a": t0().to_string()}}}));
    let decision = decide(&budget, &[pod("a", json!({}))], want(0, 1), at(age));
    let status = decision.status.unwrap();
    assert_eq!(status.disrupted_pods.contains_key("a"), kept);
    assert_eq!(status.current_healthy, healthy);
    assert_eq!(names(&decision.not_deleted), if reported { vec!["a"] } else { vec![] });
    assert_eq!(decision.recheck_at, kept.then(|| at(120.0)), "D-051");
}

#[test]
fn d_050_three_claims_and_one_for_a_pod_that_is_gone() {
    let ago = |minutes: f64| at(-60.0 * minutes).to_string();
    let budget = pdb(
        json!({"status": {"disruptedPods": {"p1": ago(3.0), "p2": ago(3.0), "p3": ago(1.0), "notthere": ago(0.0)}}}),
    );
    let pods = [pod("p1", terminating()), pod("p2", json!({})), pod("p3", json!({}))];
    let decision = decide(&budget, &pods, want(1, 3), t0());
    let status = decision.status.unwrap();
    assert_eq!(numbers(&status), (0, 1, 1, 3));
    assert_eq!(status.disrupted_pods.keys().collect::<Vec<_>>(), ["p3"]);
    assert_eq!(names(&decision.not_deleted), ["p2"]);
    assert_eq!(decision.recheck_at, Some(at(60.0)));
}

#[test]
fn br_25_06_fail_safe_allows_nothing_and_keeps_the_rest() {
    let budget = pdb(json!({"metadata": {"generation": 5}, "status": {"disruptionsAllowed": 2, "currentHealthy": 3,
        "desiredHealthy": 1, "expectedPods": 3, "observedGeneration": 4}}));
    let status = fail_safe(&budget, "found no controllers for pod \"a\"", at(0.5)).unwrap();
    assert_eq!(numbers(&status), (0, 3, 1, 3));
    assert_eq!(status.observed_generation, 4, "D-112");
    let condition = serde_json::to_value(&status.conditions).unwrap();
    assert_eq!(
        condition,
        json!([{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "observedGeneration": 4,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "found no controllers for pod \"a\""}])
    );
}

#[test]
fn d_111_fail_safe_writes_once() {
    let mut budget = pdb(json!({}));
    budget.status = fail_safe(&budget, "broken", t0()).unwrap();
    assert_eq!(fail_safe(&budget, "broken", at(9.0)), None);
    let other = fail_safe(&budget, "broken otherwise", at(9.0)).unwrap();
    assert_eq!(other.conditions[0].last_transition_time, Some(t0()));
    let healed = decide(&budget, &[], want(0, 0), at(20.0)).status.unwrap();
    assert_eq!(healed.conditions[0].reason, "InsufficientPods");
    assert_eq!(healed.conditions[0].message, "");
}

fn disrupted(status: &str, reason: &str) -> Value {
    json!({"type": "DisruptionTarget", "status": status, "reason": reason, "lastTransitionTime": t0().to_string()})
}

#[rstest]
#[case::d_060_after_two_minutes(json!({"status": {"conditions": [disrupted("True", "EvictionByEvictionAPI")]}}), 121.0,
    Staleness::Stale)]
#[case::br_25_05_at_two_minutes(json!({"status": {"conditions": [disrupted("True", "EvictionByEvictionAPI")]}}), 120.0,
    Staleness::Stale)]
#[case::d_061_a_second_before(json!({"status": {"conditions": [disrupted("True", "EvictionByEvictionAPI")]}}), 119.0,
    Staleness::At(at(120.0)))]
#[case::d_062_terminating(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    "status": {"conditions": [disrupted("True", "")]}}), 999.0, Staleness::Never)]
#[case::d_063_no_condition(json!({}), 999.0, Staleness::Never)]
#[case::d_063_false_already(json!({"status": {"conditions": [disrupted("False", "")]}}), 999.0, Staleness::Never)]
#[case::d_064_by_the_kubelet(json!({"status": {"conditions": [disrupted("True", "TerminationByKubelet")]}}), 999.0,
    Staleness::Never)]
#[case::d_065_failed(json!({"status": {"phase": "Failed", "conditions": [disrupted("True", "")]}}), 999.0,
    Staleness::Never)]
#[case::d_065_succeeded(json!({"status": {"phase": "Succeeded", "conditions": [disrupted("True", "")]}}), 999.0,
    Staleness::Never)]
#[case::never_set(json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True",
    "lastTransitionTime": null}]}}), 0.0, Staleness::Stale)]
fn stale_conditions(#[case] of: Value, #[case] seconds: f64, #[case] want: Staleness) {
    assert_eq!(staleness(&pod("a", of), at(seconds)), want);
}

#[test]
fn d_066_the_reset_condition_says_nothing_but_false() {
    let condition = reset_condition(&pod("a", json!({"metadata": {"generation": 3}})));
    assert_eq!(
        serde_json::to_value(condition).unwrap(),
        json!({"type": "DisruptionTarget", "status": "False",
        "observedGeneration": 3, "lastProbeTime": null, "lastTransitionTime": null})
    );
}
