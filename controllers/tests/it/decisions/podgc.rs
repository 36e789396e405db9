use std::collections::BTreeSet;
use std::time::Duration;

use plumbline_controllers::podgc::decide::{
    Reason, condition, is_lost, must_fail_first, orphaned, out_of_service, terminated, unknown_nodes, unscheduled,
};
use plumbline_controllers::podgc::quarantine::Quarantine;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::build::{at, names, node, pod};

/// `name:phase[:age in hours[:reason]]`
fn finished(text: &str) -> std::sync::Arc<plumbline_controllers::api::pod::PodView> {
    let mut parts = text.split(':');
    let mut next = || parts.next().unwrap_or_default();
    let name = next();
    let phase = next();
    let hours = next().parse::<f64>().unwrap_or(0.0);
    let reason = next();
    let created = at(hours * 3600.0).to_string();
    pod(name, json!({"metadata": {"creationTimestamp": created}, "status": {"phase": phase, "reason": reason}}))
}

#[rstest]
#[case::g_001_oldest_first(1, &["a:Failed:1", "b:Succeeded:2", "c:Failed:3"], &["a", "b"])]
#[case::g_002_threshold_zero(0, &["a:Failed:1", "b:Succeeded:2"], &[])]
#[case::g_003_running_does_not_count(1, &["a:Running:1", "b:Succeeded:2", "c:Failed:3"], &["b"])]
#[case::g_004_one_too_many(1, &["a:Failed:1", "b:Succeeded:2"], &["a"])]
#[case::g_004_below_threshold(5, &["a:Failed:1", "b:Succeeded:2"], &[])]
#[case::g_004_at_threshold(2, &["a:Failed:1", "b:Succeeded:2"], &[])]
#[case::g_005_evicted_first(1, &["a:Failed:1", "b:Succeeded:2", "c:Failed:3:Evicted"], &["c", "a"])]
#[case::g_005_only_evicted(1, &["a:Running:1", "b:Failed:2:Evicted", "c:Failed:3:Evicted"], &["b"])]
#[case::evicted_needs_failed(1, &["a:Succeeded:2:Evicted", "b:Failed:1"], &["b"])]
#[case::g_006_ties_by_name(1, &["c:Failed:1", "b:Failed:1", "a:Failed:1"], &["a", "b"])]
#[case::g_009_no_phase_is_finished(1, &["a::1", "b:Failed:2"], &["a"])]
#[case::g_009_unknown_is_not(1, &["a:Unknown:1", "b:Pending:1", "c:Failed:2"], &[])]
fn br_24_01_terminated(#[case] threshold: usize, #[case] pods: &[&str], #[case] want: &[&str]) {
    let pods: Vec<_> = pods.iter().map(|text| finished(text)).collect();
    assert_eq!(names(&terminated(&pods, threshold)), want);
}

fn tainted(effect: &str) -> Value {
    json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown",
        "effect": effect}]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
}

#[rstest]
#[case::g_050_not_ready_without_taint(json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}), false)]
#[case::g_051_no_execute(tainted("NoExecute"), true)]
#[case::g_051_no_schedule(tainted("NoSchedule"), true)]
#[case::g_051_prefer_no_schedule(tainted("PreferNoSchedule"), true)]
#[case::g_053_ready(json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}),
    false)]
#[case::g_055_no_ready_condition(json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service",
    "effect": "NoExecute"}]},
    "status": null}), true)]
#[case::another_taint(json!({"spec": {"taints": [{"key": "out-of-service", "effect": "NoExecute"}]}, "status": null}),
    false)]
fn br_24_02_lost_nodes(#[case] of: Value, #[case] lost: bool) {
    assert_eq!(is_lost(&node("n1", of)), lost);
}

#[test]
fn g_052_only_terminating_pods_of_a_lost_node_go() {
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let elsewhere = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n2"}});
    let pods = [pod("a", json!({})), pod("b", gone), pod("c", elsewhere)];
    let lost = node("n1", tainted("NoExecute"));
    let selected = out_of_service(&pods, |name| (name == "n1").then(|| lost.clone()));
    assert_eq!(names(&selected), ["b"]);
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn orphans_are_pods_of_unknown_nodes() {
    let on = |name: &str, node: &str| pod(name, json!({"spec": {"nodeName": node}}));
    let pods = [on("a", "gone"), on("b", "n1"), on("c", ""), on("d", "gone"), on("e", "away")];
    assert_eq!(unknown_nodes(&pods, &set(&["n1"])), ["gone", "away"]);
    assert_eq!(names(&orphaned(&pods, &set(&["gone"]))), ["a", "d"]);
}

#[test]
fn g_060_unscheduled_are_terminating_without_a_node() {
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": null}});
    let bound = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let pods = [pod("a", gone), pod("b", bound), pod("c", json!({"spec": {"nodeName": null}}))];
    assert_eq!(names(&unscheduled(&pods)), ["a"]);
}

#[rstest]
#[case::br_24_05_running("Running", true)]
#[case::br_24_05_pending("Pending", true)]
#[case::br_24_05_unknown("Unknown", true)]
#[case::br_24_05_empty("", true)]
#[case::g_007_succeeded("Succeeded", false)]
#[case::g_007_failed("Failed", false)]
fn marking_failed(#[case] phase: &str, #[case] first: bool) {
    assert_eq!(must_fail_first(&pod("a", json!({"status": {"phase": phase}}))), first);
}

#[test]
fn br_24_04_only_orphans_get_the_condition() {
    let orphan = pod("a", json!({"metadata": {"generation": 2}}));
    let text = serde_json::to_value(condition(&orphan, Reason::Orphaned)).unwrap();
    assert_eq!(
        text,
        json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "observedGeneration": 2,
        "message": "PodGC: node no longer exists", "lastProbeTime": null, "lastTransitionTime": null})
    );
    for reason in [Reason::Terminated, Reason::OutOfService, Reason::Unscheduled] {
        assert_eq!(condition(&orphan, reason), None, "G-054");
    }
}

#[test]
fn g_072_reasons_of_the_metrics() {
    let all = [Reason::Terminated, Reason::OutOfService, Reason::Orphaned, Reason::Unscheduled];
    assert_eq!(all.map(Reason::as_str), ["terminated", "out-of-service", "orphaned", "unscheduled"]);
}

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// One cycle at `seconds`: release, observe `unknown`, take what is not `known`.
fn cycle(quarantine: &mut Quarantine, seconds: f64, unknown: &[&str], known: &[&str]) -> Vec<String> {
    quarantine.release(s(seconds));
    for name in unknown {
        quarantine.observe(name, s(seconds));
    }
    quarantine.take(&set(known))
}

#[test]
fn br_24_03_forty_seconds() {
    let mut quarantine = Quarantine::default();
    assert!(cycle(&mut quarantine, 0.0, &["n"], &[]).is_empty(), "G-020");
    assert!(cycle(&mut quarantine, 20.0, &["n"], &[]).is_empty(), "G-025");
    assert!(cycle(&mut quarantine, 39.999, &["n"], &[]).is_empty());
    assert_eq!(cycle(&mut quarantine, 40.0, &["n"], &[]), ["n"]);
}

#[test]
fn g_028_a_node_that_is_back_is_not_asked_about() {
    let mut quarantine = Quarantine::default();
    cycle(&mut quarantine, 0.0, &["n"], &[]);
    assert!(cycle(&mut quarantine, 40.0, &[], &["n"]).is_empty());
    assert_eq!(quarantine, Quarantine::default());
}

#[test]
fn g_035_coming_back_does_not_stop_the_quarantine() {
    let mut quarantine = Quarantine::default();
    cycle(&mut quarantine, 0.0, &["n"], &[]);
    cycle(&mut quarantine, 20.0, &[], &["n"]);
    assert_eq!(cycle(&mut quarantine, 40.0, &["n"], &[]), ["n"]);
}

#[test]
fn g_030_a_node_that_leaves_at_the_end_starts_again() {
    let mut quarantine = Quarantine::default();
    cycle(&mut quarantine, 0.0, &["n"], &[]);
    assert!(cycle(&mut quarantine, 40.0, &[], &["n"]).is_empty());
    assert!(cycle(&mut quarantine, 60.0, &["n"], &[]).is_empty());
    assert_eq!(cycle(&mut quarantine, 100.0, &["n"], &[]), ["n"]);
}

#[test]
fn g_037_g_038_a_name_that_was_taken_waits_once_more() {
    let mut quarantine = Quarantine::default();
    cycle(&mut quarantine, 0.0, &["n"], &[]);
    assert_eq!(cycle(&mut quarantine, 40.0, &["n"], &[]), ["n"]);
    assert!(cycle(&mut quarantine, 60.0, &[], &[]).is_empty());
    assert_eq!(cycle(&mut quarantine, 80.0, &[], &[]), ["n"]);
    assert_eq!(quarantine, Quarantine::default());
}

#[test]
fn nodes_are_asked_about_oldest_deadline_first() {
    let mut quarantine = Quarantine::default();
    cycle(&mut quarantine, 0.0, &["z", "m"], &[]);
    cycle(&mut quarantine, 20.0, &["b"], &[]);
    assert_eq!(cycle(&mut quarantine, 60.0, &[], &[]), ["m", "z", "b"]);
}

proptest! {
    /// I-G1, I-X7: nothing is taken before its deadline, and the quarantine empties itself.
    #[test]
    fn never_early_never_leaking(seen in prop::collection::vec(prop::collection::vec(0_u8..4, 0..4), 1..30)) {
        let mut quarantine = Quarantine::default();
        let mut first = std::collections::BTreeMap::new();
        for (number, unknown) in seen.iter().enumerate() {
            let seconds = 20.0 * number as f64;
            let unknown: Vec<_> = unknown.iter().map(u8::to_string).collect();
            let unknown: Vec<_> = unknown.iter().map(String::as_str).collect();
            quarantine.release(s(seconds));
            for name in &unknown { quarantine.observe(name, s(seconds)); }
            for name in quarantine.take(&set(&[])) {
                let since: f64 = first.remove(&name).unwrap();
                prop_assert!(seconds - since >= 40.0);
                if unknown.contains(&name.as_str()) { first.insert(name, seconds); }
            }
            for name in unknown { first.entry(name.to_owned()).or_insert(seconds); }
        }
        let end = 20.0 * seen.len() as f64;
        for seconds in [end + 40.0, end + 80.0] {
            quarantine.release(s(seconds));
            quarantine.take(&set(&[]));
        }
        prop_assert_eq!(&quarantine, &Quarantine::default());
    }
}
