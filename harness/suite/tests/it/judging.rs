//! Judging a run: handwritten transcripts and the expectations that they violate.

use std::time::Duration;

use plumbline::expect::StepReply;
use plumbline::transcript::Actor;
use rstest::rstest;
use serde_json::{Value, json};

mod script;
mod tolerance;

use script::{NONE, Script, collect};

const ORPHAN: &str = "given: { pods: [a on n1] }
steps:
- { until: 59s, consistently: { exists: pods/a } }
- { by: 80s, eventually: { absent: pods/a } }
order: [GET nodes/n1, PATCH pods/a/status, t=+60s DELETE pods/a 200]
";

fn orphan(at: f64, rest: &str) -> Script {
    let mut script = Script::new("podgc", "core", &format!("{ORPHAN}{rest}"));
    if at <= 59.0 {
        collect(&mut script, at);
    }
    script.mark();
    if at > 59.0 {
        collect(&mut script, at);
    }
    script.mark();
    script
}

#[test]
fn a_good_run_has_no_failures() {
    assert_eq!(orphan(60.0, "").verdict(), NONE);
}

#[test]
fn too_early_breaks_the_window_and_the_exact_time() {
    let verdict = orphan(59.0, "").verdict();
    assert_eq!(verdict, ["exists: pods/a", "order"]);
}

#[test]
fn earlier_than_the_quarantine_breaks_an_invariant_too() {
    let verdict = orphan(20.0, "").verdict();
    assert!(verdict.contains(&"invariant orphans_are_confirmed".to_owned()), "{verdict:?}");
}

#[test]
fn never_breaks_the_end_of_the_window() {
    let mut script = Script::new("podgc", "core", ORPHAN);
    script.mark();
    script.mark();
    let failures = script.failures();
    assert_eq!(failures.iter().map(|f| f.check.as_str()).collect::<Vec<_>>(), ["eventually absent: pods/a", "order"]);
    assert_eq!(failures[0].at, Duration::from_secs(80));
    assert_eq!(failures[0].observed, "found a");
    assert_eq!(failures[1].observed, "no such request");
}

#[test]
fn a_run_that_is_broken_off_does_not_pass() {
    let mut script = Script::new("podgc", "core", ORPHAN);
    script.mark();
    assert!(script.verdict().contains(&"the step is reached".to_owned()));
}

#[rstest]
#[case::node_and_pod("PATCH nodes/n1", "nothing else was written")]
#[case::event("POST events", "nothing else was written")]
#[case::another_pod("DELETE pods/b", "nothing else was written")]
fn a_write_that_is_not_expected_fails(#[case] line: &str, #[case] check: &str) {
    let script = orphan(60.0, "");
    script.request(70.0, &Actor::PodGc, line, json!({"gracePeriodSeconds": 0}), 404);
    assert!(script.verdict().contains(&check.to_owned()), "{:?}", script.verdict());
}

#[rstest]
#[case::allowed("allow: [POST events]\n", &[])]
#[case::expected("expect: { events: [Normal Seen] }\n", &["event Seen"])]
#[case::counted("expect: { count: { POST events: 1 } }\n", &[])]
#[case::only("only: [WRITE pods/*, WRITE pods/*/status]\n", &["nothing else was written"])]
fn events_must_be_expected(#[case] rest: &str, #[case] checks: &[&str]) {
    let script = orphan(60.0, rest);
    let event = json!({"reason": "Seen", "type": "Normal", "metadata": {"name": "e"}});
    script.request(70.0, &Actor::PodGc, "POST events", event, 201);
    assert_eq!(script.verdict(), checks);
}

#[rstest]
#[case::right("writes: [PATCH pods/a/status 200, t=+60s DELETE pods/a]\n", &[])]
#[case::too_few("writes: [PATCH pods/a/status]\n", &["writes"])]
#[case::too_many("writes: [PATCH pods/a/status, DELETE pods/a, DELETE pods/b]\n", &["writes"])]
#[case::order("writes: [DELETE pods/a, PATCH pods/a/status]\n", &["writes"])]
#[case::body("writes: [PATCH pods/a/status, { request: DELETE pods/a, body: { gracePeriodSeconds: 0 } }]\n", &[])]
#[case::wrong_body("writes: [PATCH pods/a/status, { request: DELETE pods/a, body: { gracePeriodSeconds: 1 } }]\n", &["writes"])]
#[case::uid("writes: [PATCH pods/a/status, { request: DELETE pods/a, body: { preconditions: { uid: { $uid: pods/a } } } }]\n", &["writes"])]
#[case::count("expect: { count: { DELETE pods/a: 2 } }\n", &["count: DELETE pods/a"])]
#[case::never("expect: { never: DELETE pods/* }\n", &["never: DELETE pods/*"])]
#[case::code("expect: { count: { DELETE pods/a 2xx: 1, DELETE pods/a 409: 0 } }\n", &[])]
#[case::actor("expect: { count: { disruption DELETE pods/a: 0, podgc DELETE pods/a: 1 } }\n", &[])]
fn requests_are_judged(#[case] rest: &str, #[case] checks: &[&str]) {
    assert_eq!(orphan(60.0, rest).verdict(), checks);
}

#[test]
fn a_difference_in_the_body_is_reported() {
    let rest = "given: { pods: [a on n1] }\nsteps: [{ by: 80s, eventually: { absent: pods/a } }]\n\
                order: [{ request: DELETE pods/a, body: { gracePeriodSeconds: 1 } }]\n";
    let mut script = Script::new("podgc", "core", rest);
    collect(&mut script, 60.0);
    script.mark();
    let failures = script.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    let described = "t=+60s podgc DELETE pods/a 200 with body.gracePeriodSeconds: expected 1, found 0";
    assert_eq!(failures[0].observed, described);
}

fn reply(code: u16, body: Value) -> StepReply {
    StepReply { step: 0, code, retry_after: Some(10), body }
}

#[rstest]
#[case::success("", 200, &[])]
#[case::failure("", 429, &["reply"])]
#[case::code(", reply: 429", 429, &[])]
#[case::not_the_code(", reply: 429", 200, &["reply"])]
#[case::all(", reply: { code: 429, reason: TooManyRequests, matching: \"Cannot*\", cause: \"*needs 3*\", causeReason: DisruptionBudget, retryAfter: 10 }", 429, &[])]
#[case::cause(", reply: { cause: \"*needs 4*\" }", 429, &["reply"])]
#[case::retry(", reply: { retryAfter: 11 }", 429, &["reply"])]
#[case::body(", reply: { body: { kind: Status } }", 429, &[])]
fn replies_are_judged(#[case] wanted: &str, #[case] code: u16, #[case] checks: &[&str]) {
    let rest = format!("given: {{ pods: [a] }}\nsteps: [{{ evict: a{wanted} }}]\nexpect: {{ exists: pods/a }}\n");
    let mut script = Script::new("podgc", "core", &rest);
    let causes = json!([{"reason": "DisruptionBudget", "message": "The disruption budget pdb needs 3 healthy pods"}]);
    let details = json!({"causes": causes, "retryAfterSeconds": 10});
    let body =
        json!({"kind": "Status", "reason": "TooManyRequests", "message": "Cannot evict pod", "details": details});
    script.replies.push(reply(code, body));
    script.mark();
    assert_eq!(script.verdict(), checks);
}

const BUDGET: &str = "given: { budget: minAvailable 3, pods: 4 × ready }\n";

/// The disruption controller writes this status at 1 s; `expect` holds then.
fn budget(expect: &str, status: &Value) -> Script {
    let rest = format!("{BUDGET}steps: [{{ at: 1s, expect: {expect} }}]\nallow: [PUT pdb/pdb/status]\n");
    let mut script = Script::new("disruption", "core", &rest);
    let body = json!({"metadata": {"resourceVersion": "7"}, "status": status});
    let put = script.request(1.0, &Actor::Disruption, "PUT poddisruptionbudgets/pdb/status", body, 200);
    let status = status.clone();
    script.change(1.0, &Actor::Disruption, Some(put), "poddisruptionbudgets/pdb", |pdb| {
        let mut pdb = pdb?;
        pdb["status"] = status;
        Some(pdb)
    });
    script.mark();
    script
}

fn status(allowed: i64, current: i64, desired: i64, expected: i64, condition: &str, reason: &str) -> Value {
    json!({
        "disruptionsAllowed": allowed, "currentHealthy": current, "desiredHealthy": desired, "expectedPods": expected,
        "observedGeneration": 1,
        "conditions": [{"type": "DisruptionAllowed", "status": condition, "reason": reason, "lastTransitionTime": "2030-01-01T00:00:01Z"}],
    })
}

#[rstest]
#[case::tuple("{ status: [1, 4, 3, 4] }", &[])]
#[case::wrong("{ status: [0, 4, 3, 4] }", &["status of poddisruptionbudgets/pdb"])]
#[case::partial("{ status: { allowed: 1, generation: 1, disrupted: [] } }", &[])]
#[case::claims("{ status: { disrupted: [p1] } }", &["status of poddisruptionbudgets/pdb"])]
#[case::condition("{ condition: \"DisruptionAllowed=True:SufficientPods since 1s\" }", &[])]
#[case::reason("{ condition: \"DisruptionAllowed=True:InsufficientPods\" }", &["condition DisruptionAllowed of poddisruptionbudgets/pdb"])]
#[case::since("{ condition: \"DisruptionAllowed=True since 0s\" }", &["condition DisruptionAllowed of poddisruptionbudgets/pdb"])]
#[case::absent_condition("{ condition: Ready=absent }", &[])]
#[case::present_condition("{ condition: DisruptionAllowed=absent }", &["condition DisruptionAllowed of poddisruptionbudgets/pdb"])]
#[case::matches("{ match: { pdb/pdb: { status: { conditions: { $one: { type: DisruptionAllowed } } } } } }", &[])]
#[case::all_of_them("{ match: { pods/*: { status: { phase: Running } } } }", &[])]
#[case::not_all("{ match: { pods/*: { metadata: { name: p1 } } } }", &["match: pods/*"])]
#[case::no_writer("{ match: { pods/x: {} } }", &["match: pods/x"])]
#[case::objects("{ objects: { pods: 4, \"pods/p1*\": 1, \"pods app=x\": 0 } }", &[])]
#[case::too_many_objects("{ objects: { pods: \"<=3\" } }", &["objects: pods/*"])]
#[case::quiet_at("{ quiet: true }", &["quiet"])]
#[case::no_events("{ events: none }", &[])]
#[case::absent_event("{ events: [{ reason: NoPods, count: 0 }] }", &[])]
fn state_is_judged(#[case] expect: &str, #[case] checks: &[&str]) {
    assert_eq!(budget(expect, &status(1, 4, 3, 4, "True", "SufficientPods")).verdict(), checks);
}

#[test]
fn metrics_are_summed_over_labels() {
    let rest = "steps: [{ at: 1s, expect: { metrics: { \"x_total{r=a}\": 3, x_total: 7, y_total: 0 } } }]\n";
    let mut script = Script::new("podgc", "core", rest);
    script.mark();
    assert_eq!(script.verdict().len(), 3, "metrics that were not read fail");
    let text = "# HELP x_total x\nx_total{r=\"a\",n=\"1\"} 1\nx_total{r=\"a\",n=\"2\"} 2\nx_total{r=\"b\"} 4\n";
    script.scrapes.push((Duration::from_secs(1), text.to_owned()));
    assert_eq!(script.verdict(), NONE);
}

#[rstest]
#[case::negative(status(0, -1, 3, 4, "False", "InsufficientPods"), "disruptions_allowed")]
#[case::sum(status(2, 4, 3, 4, "True", "SufficientPods"), "disruptions_allowed")]
#[case::nothing_expected(status(1, 1, 0, 0, "True", "SufficientPods"), "disruptions_allowed")]
#[case::condition(status(1, 4, 3, 4, "False", "InsufficientPods"), "disruptions_allowed")]
#[case::reason(status(1, 4, 3, 4, "True", "Because"), "disruptions_allowed")]
#[case::failed_sync(status(1, 4, 3, 4, "True", "SyncFailed"), "disruptions_allowed")]
fn a_budget_that_does_not_add_up_breaks_an_invariant(#[case] status: Value, #[case] name: &str) {
    let verdict = budget("{ exists: pdb/pdb }", &status).verdict();
    assert_eq!(verdict, [format!("invariant {name}")]);
}

#[test]
fn an_invented_claim_and_a_generation_ahead_break_invariants() {
    let mut wrong = status(1, 4, 3, 4, "True", "SufficientPods");
    wrong["observedGeneration"] = 2.into();
    wrong["disruptedPods"] = json!({"p1": "2030-01-01T00:00:00Z"});
    let verdict = budget("{ exists: pdb/pdb }", &wrong).verdict();
    assert_eq!(verdict, ["invariant generation_never_falls", "invariant claims_are_not_invented"]);
}

/// A status that another client copied onto a new budget: ahead of the generation, with a negative number.
#[rstest]
#[case::failed_sync("SyncFailed", 7, &[])]
#[case::failed_sync_with_a_changed_generation("SyncFailed", 8, &["invariant generation_never_falls"])]
#[case::sync("SufficientPods", 7, &["invariant disruptions_allowed", "invariant generation_never_falls"])]
fn a_failed_sync_answers_only_for_its_own_fields(
    #[case] reason: &str,
    #[case] generation: i64,
    #[case] checks: &[&str],
) {
    let copied = |reason: &str, generation: i64| {
        let mut status = status(0, -1, 3, 4, "False", reason);
        status["observedGeneration"] = generation.into();
        status
    };
    let rest = format!("{BUDGET}steps: [{{ at: 2s, expect: {{ exists: pdb/pdb }} }}]\nallow: [PUT pdb/pdb/status]\n");
    let mut script = Script::new("disruption", "core", &rest);
    let set = |status: Value| {
        |pdb: Option<Value>| {
            let mut pdb = pdb?;
            pdb["status"] = status;
            Some(pdb)
        }
    };
    script.change(0.0, &Actor::User, None, "poddisruptionbudgets/pdb", set(copied("InsufficientPods", 7)));
    let written = copied(reason, generation);
    let body = json!({"metadata": {"resourceVersion": "7"}, "status": written});
    let put = script.request(1.0, &Actor::Disruption, "PUT poddisruptionbudgets/pdb/status", body, 200);
    script.change(1.0, &Actor::Disruption, Some(put), "poddisruptionbudgets/pdb", set(written));
    script.mark();
    assert_eq!(script.verdict(), checks);
}

#[test]
fn a_blind_write_and_an_idle_write_break_invariants() {
    let rest = format!("{BUDGET}steps: [{{ at: 1s, expect: {{ exists: pdb/pdb }} }}]\nallow: [PUT pdb/pdb/status]\n");
    let mut script = Script::new("disruption", "core", &rest);
    script.request(1.0, &Actor::Disruption, "PUT poddisruptionbudgets/pdb/status", json!({}), 200);
    script.mark();
    assert_eq!(script.verdict(), ["invariant no_idle_writes", "invariant status_carries_version"]);
}

#[test]
fn a_storm_breaks_an_invariant_unless_waived() {
    let run = |waive: &str| {
        let rest = format!(
            "{BUDGET}steps: [{{ at: 1s, expect: {{ exists: pdb/pdb }} }}]\nallow: [PUT pdb/pdb/status]\n{waive}"
        );
        let mut script = Script::new("disruption", "core", &rest);
        for i in 0..21_u32 {
            let body = json!({"metadata": {"resourceVersion": "7"}});
            script.request(f64::from(i) * 0.01, &Actor::Disruption, "PUT poddisruptionbudgets/pdb/status", body, 409);
        }
        script.mark();
        script.verdict()
    };
    assert_eq!(run(""), ["invariant no_storms"]);
    assert_eq!(run("waive: { no_storms: the server refuses on purpose }\n"), NONE);
}

#[rstest]
#[case::disruption_deletes(Actor::Disruption, "DELETE pods/p1")]
#[case::podgc_writes_specs(Actor::PodGc, "PATCH pods/p1")]
#[case::ttl_writes_status(Actor::Ttl, "PATCH nodes/n1/status")]
#[case::informers_write(Actor::Informers, "PATCH nodes/n1")]
fn a_write_out_of_role_breaks_an_invariant(#[case] actor: Actor, #[case] line: &str) {
    let rest = format!("{BUDGET}steps: [{{ at: 1s, expect: {{ exists: pods/p1 }} }}]\nallow: [{line}]\n");
    let mut script = Script::new("disruption", "core", &rest);
    script.request(0.5, &actor, line, json!({}), 500);
    script.mark();
    assert!(script.verdict().contains(&"invariant role_limits".to_owned()), "{:?}", script.verdict());
}

/// Pod `a` on tainted node `n1` is deleted by taint eviction at `at`, with or without the condition before.
fn evict(level: &str, given: &str, at: f64, marked: bool, body: Value) -> Vec<String> {
    let rest = format!("given: {given}\nsteps: [{{ at: 100s, expect: {{ objects: {{ pods: 0 }} }} }}]\n");
    let mut script = Script::new("taint-eviction", level, &rest);
    let actor = Actor::TaintEviction;
    if marked {
        let patch = script.request(at, &actor, "PATCH pods/a/status", json!({}), 200);
        script.change(at, &actor, Some(patch), "pods/a", |pod| {
            let mut pod = pod?;
            pod["status"]["conditions"] =
                json!([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]);
            Some(pod)
        });
    }
    let delete = script.request(at, &actor, "DELETE pods/a", body, 200);
    script.change(at, &actor, Some(delete), "pods/a", |_| None);
    script.mark();
    script.verdict()
}

#[rstest]
#[case::untolerated("{ nodes: [\"n1 k=v:NoExecute\"], pods: [a on n1] }", 0.0, &[])]
#[case::in_time("{ nodes: [\"n1 k=v:NoExecute\"], pods: [\"a on n1 tolerating k=v:NoExecute for 10s\"] }", 10.0, &[])]
#[case::early("{ nodes: [\"n1 k=v:NoExecute\"], pods: [\"a on n1 tolerating k=v:NoExecute for 10s\"] }", 9.999, &["invariant no_early_eviction"])]
#[case::first_fits("{ nodes: [\"n1 k=v:NoExecute\"], pods: [\"a on n1 tolerating k for 9s tolerating k=v for 4s\"] }", 4.0, &["invariant no_early_eviction"])]
#[case::for_ever("{ nodes: [\"n1 k=v:NoExecute\"], pods: [\"a on n1 tolerating *\"] }", 50.0, &["invariant no_early_eviction"])]
#[case::no_schedule("{ nodes: [\"n1 k=v:NoSchedule\"], pods: [a on n1] }", 50.0, &["invariant no_early_eviction"])]
#[case::unbound("{ nodes: [\"n1 k=v:NoExecute\"], pods: [a] }", 50.0, &["invariant no_early_eviction"])]
fn evictions_have_their_time(#[case] given: &str, #[case] at: f64, #[case] checks: &[&str]) {
    assert_eq!(evict("core", given, at, true, json!({})), checks);
}

#[test]
fn evictions_are_marked_and_name_the_uid() {
    let given = "{ nodes: [\"n1 k=v:NoExecute\"], pods: [a on n1] }";
    assert_eq!(evict("core", given, 0.0, false, json!({})), ["invariant condition_before_delete"]);
    assert_eq!(evict("hardened", given, 0.0, true, json!({})), ["invariant deletes_name_the_uid"]);
    assert_eq!(evict("hardened", given, 0.0, true, json!({"preconditions": {"uid": "u"}})), NONE);
}

#[rstest]
#[case::marked(true, &[])]
#[case::not_marked(false, &["invariant condition_before_delete"])]
fn a_deletion_is_about_the_pod_with_its_uid(#[case] marked: bool, #[case] checks: &[&str]) {
    let rest = "given: { nodes: [\"n1 k=v:NoExecute\"], pods: [a on n1] }\n\
                steps: [{ at: 2s, expect: { objects: { pods: 1 } } }]\nallow: [DELETE pods/a]\n";
    let mut script = Script::new("taint-eviction", "core", rest);
    let replace = |script: &mut Script, uid: &'static str, marked: bool| {
        script.change(1.0, &Actor::User, None, "pods/a", |_| None);
        script.change(1.0, &Actor::User, None, "pods/a", move |_| {
            let mark = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"});
            let conditions = if marked { json!([mark]) } else { json!([]) };
            let meta = json!({"name": "a", "namespace": "default", "uid": uid});
            Some(json!({"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"conditions": conditions}}))
        });
    };
    replace(&mut script, "earlier", marked);
    replace(&mut script, "present", false);
    script.request(1.0, &Actor::TaintEviction, "DELETE pods/a", json!({"preconditions": {"uid": "earlier"}}), 409);
    script.mark();
    assert_eq!(script.verdict(), checks);
}

#[rstest]
#[case::good("15", true, &[])]
#[case::value("16", true, &["invariant ttl_values"])]
#[case::more("15", false, &["invariant ttl_values"])]
fn only_the_annotation_changes(#[case] value: &str, #[case] alone: bool, #[case] checks: &[&str]) {
    let rest = "given: { nodes: [n1] }\nsteps: [{ at: 1s, expect: { match: { nodes/n1: {} } } }]\n";
    let mut script = Script::new("ttl", "core", rest);
    let patch = script.request(1.0, &Actor::Ttl, "PATCH nodes/n1", json!({}), 200);
    script.change(1.0, &Actor::Ttl, Some(patch), "nodes/n1", |node| {
        let mut node = node?;
        node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"] = value.into();
        if !alone {
            node["metadata"]["labels"]["x"] = "y".into();
        }
        Some(node)
    });
    script.mark();
    assert_eq!(script.verdict(), checks);
}

#[rstest]
#[case::old(-120, "", &[])]
#[case::young(-119, "", &["invariant conditions_age_two_minutes"])]
#[case::finished(-200, "failed", &["invariant conditions_age_two_minutes"])]
#[case::terminating(-200, "terminating", &["invariant conditions_age_two_minutes"])]
fn stale_conditions_are_stale(#[case] since: i64, #[case] state: &str, #[case] checks: &[&str]) {
    let extra = match state {
        "failed" => ", phase: Failed",
        "terminating" => ", deleting: true",
        _ => "",
    };
    let rest = format!(
        "given: {{ pods: [{{ name: a{extra}, conditions: [\"DisruptionTarget=True:EvictionByEvictionAPI since {since}s\"] }}] }}\n\
         steps: [{{ at: 0s, expect: {{ condition: {{ pods/a: DisruptionTarget=False }} }} }}]\n"
    );
    let mut script = Script::new("disruption", "core", &rest);
    let put = script.request(0.0, &Actor::Disruption, "PUT pods/a/status", json!({}), 200);
    script.change(0.0, &Actor::Disruption, Some(put), "pods/a", |pod| {
        let mut pod = pod?;
        let list = pod["status"]["conditions"].as_array_mut()?;
        list.iter_mut().filter(|c| c["type"] == "DisruptionTarget").for_each(|c| c["status"] = "False".into());
        Some(pod)
    });
    script.mark();
    assert_eq!(script.verdict(), checks);
}

#[rstest]
#[case::grace(json!({}), "Succeeded", &["invariant force_deletes_have_grace_zero"])]
#[case::running(json!({"gracePeriodSeconds": 0}), "Running", &["invariant failed_before_delete"])]
#[case::good(json!({"gracePeriodSeconds": 0}), "Failed", &[])]
fn podgc_deletes_finished_pods_by_force(#[case] body: Value, #[case] phase: &str, #[case] checks: &[&str]) {
    let rest = format!(
        "given: {{ pods: [{{ name: a, phase: {phase} }}] }}\nsteps: [{{ at: 20s, expect: {{ absent: pods/a }} }}]\n"
    );
    let mut script = Script::new("podgc", "core", &rest);
    let delete = script.request(20.0, &Actor::PodGc, "DELETE pods/a", body, 200);
    script.change(20.0, &Actor::PodGc, Some(delete), "pods/a", |_| None);
    script.mark();
    assert_eq!(script.verdict(), checks);
}
