use std::sync::Arc;
use std::time::Duration;

use plumbline_controllers::api::object_key::ObjectKey;
use plumbline_controllers::api::taint::{Taint, Toleration};
use plumbline_controllers::taint_eviction::decide::{EvictionPlan, decide, no_execute, shard};
use plumbline_controllers::taint_eviction::schedule::{DueEviction, PodRef, Schedule, TaintSource, Transition};
use rstest::rstest;
use serde_json::{Value, json};

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// `key[=value][:effect]`; the default effect is `NoExecute`.
fn taint(text: &str) -> Taint {
    let (rest, effect) = text.split_once(':').unwrap_or((text, "NoExecute"));
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Taint { key: key.into(), value: value.into(), effect: effect.into() }
}

fn tolerations(json: Value) -> Vec<Toleration> {
    serde_json::from_value(json).unwrap()
}

fn in_seconds(plan: EvictionPlan) -> Result<u64, &'static str> {
    match plan {
        EvictionPlan::Keep => Err("keep"),
        EvictionPlan::Now => Err("now"),
        EvictionPlan::After(time) => Ok(time.as_secs()),
    }
}

#[rstest]
#[case::br_32_01_untolerated(&["a"], json!([]), Err("now"))]
#[case::br_32_02_seconds(&["a"], json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 9}]), Ok(9))]
#[case::br_32_03_forever(&["a"], json!([{"key": "a", "operator": "Exists"}]), Err("keep"))]
#[case::no_taints(&[], json!([]), Err("keep"))]
#[case::n_001_no_schedule(&["a:NoSchedule", "b:PreferNoSchedule"], json!([]), Err("keep"))]
#[case::n_002_shortest_wins(&["a", "b"], json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 2},
    {"key": "b", "operator": "Exists", "tolerationSeconds": 1}]), Ok(1))]
#[case::n_002_forever_and_seconds(&["a", "b"], json!([{"key": "a", "operator": "Exists"},
    {"key": "b", "operator": "Exists", "tolerationSeconds": 1}]), Ok(1))]
#[case::n_002_zero(&["a"], json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 0}]), Ok(0))]
#[case::n_002_negative(&["a"], json!([{"key": "a", "operator": "Exists", "tolerationSeconds": -5}]), Ok(0))]
#[case::n_003_first_in_list(&["a"], json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 9},
    {"key": "a", "operator": "Exists", "tolerationSeconds": 4}]), Ok(9))]
#[case::n_003_first_is_forever(&["a"], json!([{"operator": "Exists"},
    {"key": "a", "operator": "Exists", "tolerationSeconds": 4}]), Err("keep"))]
#[case::n_013_other_taint(&["a"], json!([{"key": "b", "operator": "Exists"}]), Err("now"))]
#[case::n_033_one_of_two(&["a", "b"], json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 100}]),
    Err("now"))]
#[case::n_093_empty_effect(&["a"], json!([{"key": "a", "operator": "Exists", "effect": ""}]), Err("keep"))]
#[case::n_093_other_effect(&["a"], json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]), Err("now"))]
#[case::n_093_all_keys(&["a=b"], json!([{"operator": "Exists", "effect": "NoExecute"}]), Err("keep"))]
#[case::n_093_lt(&["a=5"], json!([{"key": "a", "operator": "Lt", "value": "9"}]), Err("now"))]
#[case::n_093_gt(&["a=5"], json!([{"key": "a", "operator": "Gt", "value": "1"}]), Err("now"))]
#[case::n_093_unknown_operator(&["a"], json!([{"key": "a", "operator": "Matches"}]), Err("now"))]
#[case::equal_by_default(&["a=b"], json!([{"key": "a", "value": "b"}]), Err("keep"))]
#[case::equal(&["a=b"], json!([{"key": "a", "operator": "Equal", "value": "b"}]), Err("keep"))]
#[case::equal_other_value(&["a=b"], json!([{"key": "a", "operator": "Equal", "value": "c"}]), Err("now"))]
fn plans(#[case] taints: &[&str], #[case] tolerated: Value, #[case] plan: Result<u64, &str>) {
    let taints: Vec<_> = taints.iter().map(|text| taint(text)).collect();
    assert_eq!(in_seconds(decide(&taints, &tolerations(tolerated))), plan);
}

#[test]
fn a_toleration_beyond_the_end_of_time_saturates() {
    let tolerated = tolerations(json!([{"operator": "Exists", "tolerationSeconds": i64::MAX}]));
    let plan = decide(&[taint("a")], &tolerated);
    assert_eq!(plan, EvictionPlan::After(Duration::from_secs(i64::MAX as u64)));
    let mut schedule = Schedule::default();
    schedule.apply_plan(&pod("1"), (EvictionPlan::After(Duration::MAX), TaintSource::NodeUpdate), s(1.0));
    assert_eq!(schedule.next_deadline(), Some(Duration::MAX));
}

#[test]
fn n_001_only_no_execute_counts() {
    let taints = [taint("a:NoSchedule"), taint("b"), taint("c:PreferNoSchedule")];
    assert_eq!(no_execute(&taints), [taint("b")]);
}

/// Expected numbers from the definition of FNV-1a with 32 bits.
#[rstest]
#[case::empty("", 0x811c_9dc5)]
#[case::a("a", 0xe40c_292c)]
#[case::foobar("foobar", 0xbf9c_f968)]
fn br_32_05_shards(#[case] node: &str, #[case] hash: u64) {
    assert_eq!(shard(node, usize::MAX), usize::try_from(hash).unwrap());
    assert_eq!(shard(node, 8), usize::try_from(hash % 8).unwrap());
}

fn pod(uid: &str) -> PodRef {
    PodRef { uid: uid.into(), key: ObjectKey::new("ns", "p") }
}

fn fired(uid: &str, seconds: f64) -> DueEviction {
    DueEviction { pod: pod(uid), fire_at: s(seconds) }
}

const NOTHING: Transition = Transition { cancelled: false, fire: false };
const FIRE: Transition = Transition { cancelled: false, fire: true };
const CANCELLED: Transition = Transition { cancelled: true, fire: false };
const CANCELLED_AND_FIRE: Transition = Transition { cancelled: true, fire: true };

#[test]
fn untolerated_fires_at_once_and_only_once() {
    let mut schedule = Schedule::default();
    assert_eq!(schedule.apply_plan(&pod("1"), (EvictionPlan::Now, TaintSource::NodeUpdate), s(0.0)), FIRE);
    assert_eq!(schedule.apply_plan(&pod("1"), (EvictionPlan::Now, TaintSource::NodeUpdate), s(0.0)), NOTHING);
    assert_eq!(schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(5.0)), TaintSource::NodeUpdate), s(0.0)), NOTHING);
    schedule.finish(&fired("1", 0.0));
    assert_eq!(schedule.apply_plan(&pod("1"), (EvictionPlan::Now, TaintSource::NodeUpdate), s(0.0)), FIRE);
}

#[rstest]
#[case::n_017_longer(100.0)]
#[case::n_080_shorter(5.0)]
#[case::n_080_zero(0.0)]
fn the_first_deadline_stays(#[case] second: f64) {
    let mut schedule = Schedule::default();
    assert_eq!(
        schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(10.0)), TaintSource::NodeUpdate), s(0.0)),
        NOTHING
    );
    assert_eq!(
        schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(second)), TaintSource::NodeUpdate), s(0.0)),
        NOTHING
    );
    assert_eq!(schedule.next_deadline(), Some(s(10.0)));
    assert!(schedule.take_due(s(9.999)).is_empty());
    assert_eq!(schedule.take_due(s(10.0)).len(), 1);
}

#[test]
fn n_002_zero_seconds_fire_at_once() {
    let mut schedule = Schedule::default();
    schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(0.0)), TaintSource::NodeUpdate), s(0.0));
    assert_eq!(schedule.take_due(s(0.0)).len(), 1);
}

#[test]
fn n_016_losing_the_toleration_cancels_and_fires() {
    let mut schedule = Schedule::default();
    schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(100.0)), TaintSource::NodeUpdate), s(0.0));
    assert_eq!(
        schedule.apply_plan(&pod("1"), (EvictionPlan::Now, TaintSource::NodeUpdate), s(0.0)),
        CANCELLED_AND_FIRE
    );
    assert_eq!(schedule.next_deadline(), None);
}

#[test]
fn n_036_becoming_tolerated_forever_cancels() {
    let mut schedule = Schedule::default();
    assert_eq!(schedule.apply_plan(&pod("1"), (EvictionPlan::Keep, TaintSource::NodeUpdate), s(0.0)), NOTHING);
    schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(60.0)), TaintSource::NodeUpdate), s(0.0));
    assert_eq!(schedule.apply_plan(&pod("1"), (EvictionPlan::Keep, TaintSource::NodeUpdate), s(0.0)), CANCELLED);
    assert!(schedule.take_due(s(1000.0)).is_empty());
}

#[test]
fn n_062_a_cancelled_pod_can_be_scheduled_again() {
    let mut schedule = Schedule::default();
    schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(10.0)), TaintSource::NodeUpdate), s(0.0));
    assert!(schedule.pod_deleted("1").cancelled);
    assert!(!schedule.pod_deleted("1").cancelled);
    schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(30.0)), TaintSource::NodeUpdate), s(0.0));
    assert!(schedule.take_due(s(29.0)).is_empty());
    assert_eq!(schedule.take_due(s(30.0)).len(), 1);
}

#[test]
fn n_061_several_fire_in_order_of_their_deadlines() {
    let mut schedule = Schedule::default();
    for (uid, seconds) in [("1", 25.0), ("2", 5.0), ("3", 15.0), ("4", 99.0)] {
        schedule.apply_plan(&pod(uid), (EvictionPlan::After(s(seconds)), TaintSource::NodeUpdate), s(0.0));
    }
    let uids: Vec<Arc<str>> = schedule.take_due(s(25.0)).into_iter().map(|due| due.pod.uid).collect();
    assert_eq!(uids, ["2".into(), "3".into(), "1".into()]);
    assert_eq!(schedule.next_deadline(), Some(s(99.0)));
    for uid in ["1", "2", "3"] {
        assert_eq!(
            schedule.apply_plan(&pod(uid), (EvictionPlan::Now, TaintSource::NodeUpdate), s(0.0)),
            NOTHING,
            "it runs"
        );
    }
}

#[test]
fn n_082_another_uid_under_the_name_has_its_own_deadline() {
    let mut schedule = Schedule::default();
    schedule.apply_plan(&pod("old"), (EvictionPlan::After(s(10.0)), TaintSource::NodeUpdate), s(0.0));
    schedule.apply_plan(&pod("new"), (EvictionPlan::After(s(20.0)), TaintSource::NodeUpdate), s(0.0));
    assert!(schedule.pod_deleted("old").cancelled);
    assert_eq!(schedule.next_deadline(), Some(s(20.0)));
}

#[test]
fn n_085_the_end_of_one_eviction_leaves_the_next_one_cancellable() {
    let mut schedule = Schedule::default();
    schedule.apply_plan(&pod("old"), (EvictionPlan::Now, TaintSource::NodeUpdate), s(0.0));
    schedule.apply_plan(&pod("new"), (EvictionPlan::After(s(9.0)), TaintSource::NodeUpdate), s(0.0));
    schedule.finish(&fired("old", 0.0));
    assert!(schedule.pod_deleted("new").cancelled);
    assert_eq!(schedule, Schedule::default());
}

/// The pod is deleted or may stay after its deadline, in each phase of the eviction.
#[rstest]
#[case::no_try_yet(&[], false, CANCELLED)]
#[case::no_try_yet_and_gone(&[], true, CANCELLED)]
#[case::in_a_try(&["begin"], false, NOTHING)]
#[case::in_a_try_and_gone(&["begin"], true, NOTHING)]
#[case::between_two_tries(&["begin", "fail"], false, CANCELLED)]
#[case::between_two_tries_and_gone(&["begin", "fail"], true, NOTHING)]
#[case::in_the_second_try(&["begin", "fail", "begin"], false, NOTHING)]
fn an_eviction_is_called_off(#[case] stages: &[&str], #[case] gone: bool, #[case] step: Transition) {
    let mut schedule = Schedule::default();
    schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(1.0)), TaintSource::NodeUpdate), s(0.0));
    let due = schedule.take_due(s(1.0)).remove(0);
    for stage in stages {
        assert!(if *stage == "begin" { schedule.start_attempt(&due).is_some() } else { schedule.fail_attempt(&due) });
    }
    let called_off = if gone {
        schedule.pod_deleted("1")
    } else {
        schedule.apply_plan(&pod("1"), (EvictionPlan::Keep, TaintSource::NodeUpdate), s(2.0))
    };
    assert_eq!(called_off, step);
    assert!(!schedule.fail_attempt(&due), "no other try");
    assert_eq!(schedule.start_attempt(&due), None);
    assert_eq!(schedule, Schedule::default());
}

#[test]
fn a_failing_eviction_that_was_called_off_leaves_the_next_one_its_own_time() {
    let mut schedule = Schedule::default();
    schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(1.0)), TaintSource::NodeUpdate), s(0.0));
    let old = schedule.take_due(s(1.0)).remove(0);
    assert!(schedule.start_attempt(&old).is_some() && schedule.fail_attempt(&old));
    assert_eq!(
        schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(0.0)), TaintSource::NodeUpdate), s(2.0)),
        NOTHING,
        "it goes on"
    );
    assert_eq!(schedule.apply_plan(&pod("1"), (EvictionPlan::Keep, TaintSource::NodeUpdate), s(3.0)), CANCELLED);
    assert_eq!(
        schedule.apply_plan(&pod("1"), (EvictionPlan::After(s(30.0)), TaintSource::NodeUpdate), s(4.0)),
        NOTHING
    );
    assert_eq!(schedule.start_attempt(&old), None, "its retry comes to nothing");
    schedule.finish(&old);
    assert_eq!(schedule.take_due(s(34.0)), [fired("1", 34.0)]);
    schedule.finish(&old);
    assert!(schedule.start_attempt(&fired("1", 34.0)).is_some());
}

#[test]
fn what_was_known_first_holds_for_an_eviction() {
    let mut schedule = Schedule::default();
    schedule.apply_plan(&pod("late"), (EvictionPlan::After(s(5.0)), TaintSource::AlreadyKnown), s(0.0));
    schedule.apply_plan(&pod("late"), (EvictionPlan::After(s(5.0)), TaintSource::NodeUpdate), s(1.0));
    schedule.apply_plan(&pod("early"), (EvictionPlan::Now, TaintSource::NodeUpdate), s(0.0));
    schedule.apply_plan(&pod("early"), (EvictionPlan::Now, TaintSource::AlreadyKnown), s(1.0));
    let [late] = schedule.take_due(s(5.0)).try_into().expect("one eviction is due");
    assert_eq!(schedule.start_attempt(&late), Some(TaintSource::AlreadyKnown));
    assert_eq!(schedule.start_attempt(&fired("early", 0.0)), Some(TaintSource::NodeUpdate));
}

#[test]
fn what_an_attempt_wrote_counts_until_the_pod_is_gone() {
    let mut schedule = Schedule::default();
    let due = fired("1", 0.0);
    assert!(!schedule.begin_write(&due), "no eviction runs");
    schedule.apply_plan(&pod("1"), (EvictionPlan::Now, TaintSource::NodeUpdate), s(0.0));
    assert!(!schedule.is_written("1"));
    assert!(schedule.begin_write(&due));
    schedule.finish(&due);
    assert!(schedule.is_written("1"), "its next eviction reads it from the server");
    schedule.pod_deleted("1");
    assert!(!schedule.is_written("1"));
    assert_eq!(schedule, Schedule::default());
}
