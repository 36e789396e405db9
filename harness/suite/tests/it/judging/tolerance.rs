//! Judging a run on a real clock: both limits of each tolerance, and that virtual time has none.

use std::time::Duration;

use plumbline::expect::LiveChecker;
use plumbline::transcript::Actor;
use rstest::rstest;
use serde_json::{Value, json};

use super::script::{Script, collect};

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn tolerant(suite: &str, tolerance: f64, rest: &str) -> Script {
    let mut script = Script::new(suite, "core", rest);
    script.tolerance = seconds(tolerance);
    script
}

/// Pod `a` is deleted or created again.
fn user(script: &mut Script, at: f64, gone: bool) {
    let given = script.initial.iter().find(|object| object["metadata"]["name"] == "a");
    let pod = given.map(|object| Value::clone(object));
    script.change(at, &Actor::User, None, "pods/a", |_| pod.filter(|_| !gone));
}

/// Two actions with a window between them; the subject writes at `write`.
fn window(tolerance: f64, until: &str, write: f64) -> Vec<String> {
    let rest = format!(
        "given: {{ pods: [a] }}\nallow: [PATCH pods/a/status]\nsteps:\n\
         - {{ at: 10s, label: {{ pods/a: {{ x: y }} }} }}\n\
         - {{ until: {until}, consistently: {{ quiet: true }} }}\n\
         - {{ at: 60s, label: {{ pods/a: {{ x: z }} }} }}\n"
    );
    let mut script = tolerant("podgc", tolerance, &rest);
    script.mark();
    script.request(write, &Actor::PodGc, "PATCH pods/a/status", json!({}), 409);
    script.mark();
    script.mark();
    script.verdict()
}

#[rstest]
#[case::exact(0.0, "40s", 10.0, false)]
#[case::late_reaction(1.0, "40s", 10.9, true)]
#[case::too_late_for_a_reaction(1.0, "40s", 11.1, false)]
#[case::inside(5.0, "40s", 20.0, false)]
#[case::early_reaction(1.0, "40s", 39.1, true)]
#[case::too_early_for_a_reaction(1.0, "40s", 38.9, false)]
#[case::short_window(5.0, "13s", 10.9, true)]
#[case::middle_of_a_short_window(5.0, "13s", 11.5, false)]
#[case::end_of_a_short_window(5.0, "13s", 12.1, true)]
fn a_window_leaves_its_edges_to_the_steps_beside_it(
    #[case] tolerance: f64,
    #[case] until: &str,
    #[case] write: f64,
    #[case] passes: bool,
) {
    assert_eq!(window(tolerance, until, write).is_empty(), passes);
}

#[rstest]
#[case::before(0.0, 19.9, false)]
#[case::just_before(1.0, 19.1, true)]
#[case::long_before(1.0, 18.9, false)]
#[case::after(1.0, 20.5, true)]
fn what_holds_at_an_instant_may_end_a_little_earlier(#[case] tolerance: f64, #[case] gone: f64, #[case] passes: bool) {
    let rest = "given: { pods: [a] }\nsteps:\n- { at: 5s, label: { pods/a: { x: y } } }\n\
                - { at: 20s, expect: { exists: pods/a } }\n- { at: 30s, expect: { absent: pods/a } }\n";
    let mut script = tolerant("podgc", tolerance, rest);
    script.mark();
    if gone < 20.0 {
        user(&mut script, gone, true);
    }
    script.mark();
    if gone >= 20.0 {
        user(&mut script, gone, true);
    }
    script.mark();
    assert_eq!(script.verdict().is_empty(), passes);
}

#[test]
fn an_instant_does_not_begin_before_the_step_before_is_over() {
    let rest =
        "given: { pods: [a] }\nsteps:\n- { at: 20s, delete: pods/a }\n- { at: 20s, expect: { exists: pods/a } }\n";
    let mut script = tolerant("podgc", 1.0, rest);
    user(&mut script, 20.0, true);
    script.mark();
    script.mark();
    assert_eq!(script.verdict(), ["exists: pods/a"]);
}

/// The disruption controller sets a condition in second 10; `expect` holds at 20 s.
fn condition(tolerance: f64, expect: &str) -> Vec<String> {
    let rest = format!(
        "given: {{ budget: minAvailable 1 }}\nsteps: [{{ at: 20s, expect: {expect} }}]\nallow: [PUT pdb/pdb/status]\n"
    );
    let mut script = tolerant("disruption", tolerance, &rest);
    let body = json!({"metadata": {"resourceVersion": "7"}});
    let put = script.request(10.5, &Actor::Disruption, "PUT poddisruptionbudgets/pdb/status", body, 200);
    script.change(10.5, &Actor::Disruption, Some(put), "poddisruptionbudgets/pdb", |pdb| {
        let mut pdb = pdb?;
        let condition = json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
            "lastTransitionTime": "2030-01-01T00:00:10Z"});
        pdb["status"] = json!({"conditions": [condition]});
        Some(pdb)
    });
    script.mark();
    script.verdict()
}

#[rstest]
#[case::exact(0.0, "10s", true)]
#[case::a_part_of_the_second(0.0, "10.999s", true)]
#[case::next_second(0.0, "11s", false)]
#[case::second_before(0.0, "9.999s", false)]
#[case::a_little_early(1.0, "11.9s", true)]
#[case::too_early(1.0, "12s", false)]
#[case::a_little_late(1.0, "9s", true)]
#[case::too_late(1.0, "8.999s", false)]
fn times_in_objects(#[case] tolerance: f64, #[case] time: &str, #[case] passes: bool) {
    let since = format!("{{ condition: \"DisruptionAllowed=False since {time}\" }}");
    assert_eq!(condition(tolerance, &since).is_empty(), passes, "since");
    let one = format!("{{ lastTransitionTime: {{ $time: {time} }} }}");
    let pattern = format!("{{ match: {{ pdb/pdb: {{ status: {{ conditions: {{ $any: {one} }} }} }} }} }}");
    assert_eq!(condition(tolerance, &pattern).is_empty(), passes, "$time");
}

#[rstest]
#[case::exact(0.0, 60.0, true)]
#[case::late(0.0, 60.001, false)]
#[case::tolerated(1.0, 61.0, true)]
#[case::too_late(1.0, 61.001, false)]
#[case::early(1.0, 59.0, true)]
#[case::too_early(1.0, 58.999, false)]
fn times_of_requests(#[case] tolerance: f64, #[case] at: f64, #[case] passes: bool) {
    let rest = "given: { pods: [a on n1] }\nsteps: [{ by: 80s, eventually: { absent: pods/a } }]\n\
                order: [GET nodes/n1, t=+60s DELETE pods/a 200]\n";
    let mut script = tolerant("podgc", tolerance, rest);
    collect(&mut script, at);
    script.mark();
    let wanted: &[&str] = if passes { &[] } else { &["order"] };
    assert_eq!(script.verdict(), wanted);
}

#[rstest]
#[case::exact_in_virtual_time(0.0, 60.001, false)]
#[case::as_late_as_it_may_be(1.0, 81.0, true)]
#[case::later(1.0, 81.001, false)]
#[case::never_earlier(1.0, 58.999, false)]
fn late_reactions(#[case] tolerance: f64, #[case] at: f64, #[case] passes: bool) {
    let rest = "late: 20s\ngiven: { pods: [a on n1] }\nsteps: [{ by: 90s, eventually: { absent: pods/a } }]\n\
                order: [GET nodes/n1, t=+60s DELETE pods/a 200]\n";
    let mut script = tolerant("podgc", tolerance, rest);
    collect(&mut script, at);
    script.mark();
    let wanted: &[&str] = if passes { &[] } else { &["order"] };
    assert_eq!(script.verdict(), wanted);
}

#[rstest]
#[case::other_instant(0.0, 19.999, true)]
#[case::same_instant(0.0, 20.0, false)]
#[case::near(1.0, 19.1, false)]
#[case::far(1.0, 18.9, true)]
fn quiet_at_an_instant(#[case] tolerance: f64, #[case] write: f64, #[case] passes: bool) {
    let rest = "given: { pods: [a] }\nallow: [PATCH pods/a/status]\nsteps: [{ at: 20s, expect: { quiet: true } }]\n";
    let mut script = tolerant("podgc", tolerance, rest);
    script.request(write, &Actor::PodGc, "PATCH pods/a/status", json!({}), 409);
    script.mark();
    assert_eq!(script.verdict().is_empty(), passes);
}

#[rstest]
#[case::in_time(0.0, 20.0, true)]
#[case::a_little_later(1.0, 20.5, true)]
#[case::too_late(1.0, 21.5, false)]
fn metrics_read_after_the_step(#[case] tolerance: f64, #[case] read: f64, #[case] passes: bool) {
    let rest = "given: { pods: [a] }\nsteps: [{ at: 20s, expect: { metrics: { x_total: 1 } } }]\n";
    let mut script = tolerant("podgc", tolerance, rest);
    script.scrapes.push((seconds(read), "x_total 1\n".to_owned()));
    script.mark();
    assert_eq!(script.verdict().is_empty(), passes);
}

#[rstest]
#[case::in_time(&[(20.0, 1)], true)]
#[case::late(&[(20.0, 0), (30.0, 0), (40.5, 1)], true)]
#[case::right_then_wrong(&[(20.0, 1), (40.5, 2)], true)]
#[case::too_late(&[(20.0, 0), (41.5, 1)], false)]
fn metrics_of_a_subject_that_may_be_late(#[case] read: &[(f64, u32)], #[case] passes: bool) {
    let rest = "late: 20s\ngiven: { pods: [a] }\nsteps: [{ at: 20s, expect: { metrics: { x_total: 1 } } }]\n";
    let mut script = tolerant("podgc", 1.0, rest);
    for (at, value) in read {
        script.scrapes.push((seconds(*at), format!("x_total {value}\n")));
    }
    script.mark();
    assert_eq!(script.verdict().is_empty(), passes);
}

/// The pod garbage collector deletes pod `a` of node `n1`, which is removed at 5 s or never existed.
fn orphan(tolerance: f64, known: bool, asked: f64, at: f64) -> Vec<String> {
    let nodes = if known { "nodes: [n1], " } else { "" };
    let rest =
        format!("given: {{ {nodes}pods: [a on n1] }}\nsteps: [{{ by: 90s, eventually: {{ absent: pods/a }} }}]\n");
    let mut script = tolerant("podgc", tolerance, &rest);
    if known {
        script.change(5.0, &Actor::User, None, "nodes/n1", |_| None);
    }
    script.request(asked, &Actor::PodGc, "GET nodes/n1", Value::Null, 404);
    let body = json!({"status": {"phase": "Failed", "conditions": [{"reason": "DeletionByPodGC"}]}});
    let patch = script.request(at, &Actor::PodGc, "PATCH pods/a/status", body, 200);
    script.change(at, &Actor::PodGc, Some(patch), "pods/a", |pod| {
        let mut pod = pod?;
        pod["status"]["phase"] = "Failed".into();
        Some(pod)
    });
    let delete = script.request(at, &Actor::PodGc, "DELETE pods/a", json!({"gracePeriodSeconds": 0}), 200);
    script.change(at, &Actor::PodGc, Some(delete), "pods/a", |_| None);
    script.mark();
    script.verdict()
}

#[rstest]
#[case::exact(0.0, true, 45.0, true)]
#[case::exact_and_early(0.0, true, 44.99, false)]
#[case::clocks_tick_differently(1.0, true, 44.96, true)]
#[case::more_than_that(1.0, true, 44.94, false)]
#[case::a_second_early(0.9, true, 44.0, false)]
#[case::any_difference_is_tolerated(5.0, true, 44.0, false)]
#[case::from_the_start(0.0, false, 40.0, true)]
#[case::early_from_the_start(0.0, false, 39.99, false)]
#[case::the_start_is_not_exact(1.0, false, 39.1, true)]
#[case::a_second_early_from_the_start(0.9, false, 39.0, false)]
fn the_quarantine(#[case] tolerance: f64, #[case] known: bool, #[case] at: f64, #[case] passes: bool) {
    let wanted: &[&str] = if passes { &[] } else { &["invariant orphans_are_confirmed"] };
    assert_eq!(orphan(tolerance, known, at, at), wanted);
}

#[rstest]
#[case::same_cycle(0.0, 79.9, true)]
#[case::next_cycle(0.0, 80.0, false)]
#[case::a_slow_cycle(1.0, 80.9, true)]
#[case::certainly_the_next(1.0, 81.0, false)]
fn the_live_get_is_of_the_same_cycle(#[case] tolerance: f64, #[case] at: f64, #[case] passes: bool) {
    assert_eq!(orphan(tolerance, true, 60.0, at).is_empty(), passes);
}

#[rstest]
#[case::exact(0.0, 60.0, true)]
#[case::early(0.0, 59.999, false)]
#[case::tolerated(1.0, 59.0, true)]
#[case::too_early(1.0, 58.9, false)]
fn two_minutes(#[case] tolerance: f64, #[case] at: f64, #[case] passes: bool) {
    let rest = "given: { pods: [{ name: a, conditions: [\"DisruptionTarget=True:X since -1m\"] }] }\n\
                steps: [{ by: 90s, eventually: { condition: { pods/a: DisruptionTarget=False } } }]\n";
    let mut script = tolerant("disruption", tolerance, rest);
    let put = script.request(at, &Actor::Disruption, "PUT pods/a/status", json!({}), 200);
    script.change(at, &Actor::Disruption, Some(put), "pods/a", |pod| {
        let mut pod = pod?;
        let list = pod["status"]["conditions"].as_array_mut()?;
        list.iter_mut().filter(|c| c["type"] == "DisruptionTarget").for_each(|c| c["status"] = "False".into());
        Some(pod)
    });
    script.mark();
    let wanted: &[&str] = if passes { &[] } else { &["invariant conditions_age_two_minutes"] };
    assert_eq!(script.verdict(), wanted);
}

#[rstest]
#[case::exact_from_the_start(0.0, false, 10.0, true)]
#[case::early_from_the_start(0.0, false, 9.99, false)]
#[case::the_start_is_not_exact(1.0, false, 9.1, true)]
#[case::too_early_from_the_start(1.0, false, 8.9, false)]
#[case::exact(0.0, true, 30.0, true)]
#[case::early(0.0, true, 29.99, false)]
#[case::clocks_tick_differently(1.0, true, 29.96, true)]
#[case::a_second_early(1.0, true, 29.0, false)]
fn tolerated_time(#[case] tolerance: f64, #[case] later: bool, #[case] at: f64, #[case] passes: bool) {
    let taint = if later { "" } else { " k=v:NoExecute" };
    let rest = format!(
        "given: {{ nodes: [\"n1{taint}\"], pods: [\"a on n1 tolerating k for 10s\"] }}\n\
         steps: [{{ by: 90s, eventually: {{ absent: pods/a }} }}]\n"
    );
    let mut script = tolerant("taint-eviction", tolerance, &rest);
    if later {
        script.change(20.0, &Actor::User, None, "nodes/n1", |node| {
            let mut node = node?;
            node["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoExecute"}]);
            Some(node)
        });
    }
    let actor = Actor::TaintEviction;
    let patch = script.request(at, &actor, "PATCH pods/a/status", json!({}), 200);
    script.change(at, &actor, Some(patch), "pods/a", |pod| {
        let mut pod = pod?;
        pod["status"]["conditions"] =
            json!([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]);
        Some(pod)
    });
    let delete = script.request(at, &actor, "DELETE pods/a", json!({}), 200);
    script.change(at, &actor, Some(delete), "pods/a", |_| None);
    script.mark();
    let wanted: &[&str] = if passes { &[] } else { &["invariant no_early_eviction"] };
    assert_eq!(script.verdict(), wanted);
}

#[test]
fn a_storm_is_a_storm() {
    let rest = "given: { pods: [a] }\nallow: [PATCH pods/a/status]\nsteps: [{ at: 9s, expect: { exists: pods/a } }]\n";
    let mut script = tolerant("podgc", 5.0, rest);
    for i in 0..21_u32 {
        script.request(f64::from(i) * 0.05, &Actor::PodGc, "PATCH pods/a/status", json!({}), 409);
    }
    script.mark();
    assert_eq!(script.verdict(), ["invariant no_storms"]);
}

#[test]
fn a_step_holds_as_soon_as_it_does() {
    let rest = "given: { pods: [a, b] }\nallow: [PATCH pods/a/status]\nsteps:\n\
                - { at: 5s, expect: { exists: pods/a, count: { PATCH pods/a/status: 1 } } }\n\
                - { at: 6s, delete: pods/a }\n\
                - { by: 80s, eventually: { absent: pods/a, count: { PATCH pods/a/status: 1 } } }\n\
                - { for: 10s, consistently: { exists: pods/b } }\n\
                expect: { absent: pods/b }\n";
    let mut script = tolerant("podgc", 1.0, rest);
    let fixture = script.fixture.clone();
    let mut live = LiveChecker::new(&fixture);
    let mut holds = |script: &Script, step| live.holds(&script.run(&script.transcript.entries()), step);
    assert!(!holds(&script, 0));
    script.request(5.5, &Actor::PodGc, "PATCH pods/a/status", json!({}), 409);
    assert!(holds(&script, 0));
    script.mark();
    assert!(holds(&script, 1), "nothing is waited for after an action");
    user(&mut script, 6.0, true);
    script.mark();
    assert!(!holds(&script, 2), "what was asked before the window does not count in it");
    script.request(61.0, &Actor::PodGc, "PATCH pods/a/status", json!({}), 409);
    assert!(holds(&script, 2));
    user(&mut script, 62.0, false);
    assert!(!holds(&script, 2), "not any more");
    user(&mut script, 63.0, true);
    assert!(holds(&script, 2));
    script.mark();
    assert!(!holds(&script, 3), "a window lasts until its end");
    assert!(!holds(&script, 4));
    script.change(90.0, &Actor::User, None, "pods/b", |_| None);
    assert!(holds(&script, 4), "after the last step the fixture's own checks");
}

#[rstest]
#[case::nothing("expect: { exists: pods/a }\n", &[])]
#[case::windows_at_the_end(
    "steps: [{ at: 9s, delete: pods/a }, { for: 10m, consistently: { quiet: true } }, { for: 2s, consistently: { quiet: true } }]\n",
    &[9, 14, 16]
)]
#[case::only_a_window("steps: [{ for: 10m, consistently: { quiet: true } }]\n", &[5])]
#[case::a_window_that_matters(
    "steps: [{ until: 100s, consistently: { exists: pods/a } }, { at: 100s, expect: { exists: pods/a } }]\n",
    &[100, 100]
)]
#[case::a_time_that_a_request_names(
    "steps: [{ until: 100s, consistently: { exists: pods/a } }]\norder: [t=+40s DELETE pods/a]\n",
    &[41]
)]
#[case::not_after_the_end("steps: [{ by: 30s, eventually: { absent: pods/a } }]\norder: [t=+40s DELETE pods/a]\n", &[30])]
fn windows_at_the_end_are_cut(#[case] rest: &str, #[case] ends: &[u64]) {
    let script = Script::new("podgc", "core", &format!("given: {{ pods: [a] }}\n{rest}"));
    let tail = Duration::from_secs(5);
    let found: Vec<u64> = script.fixture.wall_ends(tail).iter().map(Duration::as_secs).collect();
    assert_eq!(found, ends);
    assert_eq!(script.fixture.wall_end(tail).as_secs(), ends.last().copied().unwrap_or_default());
}
