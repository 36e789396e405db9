//! Rules E-001…E-033, from `pkg/registry/core/pod/storage/eviction.go`, on a store with one pod and its budgets.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rstest::rstest;

use super::*;
use crate::json::fields::str_field;
use crate::json::json;

/// A store with one pod and some budgets in namespace `n`, which records the operations on it.
#[derive(Default)]
struct FakeBackend(Mutex<FakeState>);

#[derive(Default)]
struct FakeState {
    pod: Value,
    budgets: Vec<Value>,
    log: Vec<String>,
    /// Results of the next deletes, and the pod after each.
    deletes: VecDeque<(Result<(), Status>, Option<Value>)>,
    kubernetes: KubernetesVersion,
    /// Number of budget writes that still fail with a conflict.
    budget_conflicts: usize,
    version: u64,
}

impl FakeBackend {
    fn new(pod: Value, budgets: Vec<Value>) -> Self {
        let state = FakeState { pod, budgets, version: 100, ..FakeState::default() };
        Self(Mutex::new(state))
    }

    fn log(&self) -> Vec<String> {
        self.0.lock().log.clone()
    }

    fn deletes(&self) -> usize {
        self.log().iter().filter(|l| l.starts_with("delete")).count()
    }

    fn budget(&self) -> Value {
        self.0.lock().budgets[0].clone()
    }

    fn script(&self, deletes: impl IntoIterator<Item = (Result<(), Status>, Option<Value>)>) {
        self.0.lock().deletes = deletes.into_iter().collect();
    }

    fn evict(&self, body: &Value, dry_run: &[&str]) -> Result<Status, Status> {
        let dry_run: Vec<String> = dry_run.iter().map(|s| (*s).to_owned()).collect();
        futures::executor::block_on(evict(self, "n", "p", body, &dry_run))
    }
}

impl EvictionBackend for FakeBackend {
    fn pod(&self, _: &str, name: &str) -> Result<Value, Status> {
        let state = self.0.lock();
        if state.pod.is_null() {
            return Err(Status::not_found(GroupResource::new("", "pods"), name));
        }
        Ok(state.pod.clone())
    }

    fn update_pod_status(
        &self,
        _: &str,
        _: &str,
        change: &mut (dyn FnMut(&mut Value) -> Result<(), Status> + Send),
    ) -> Result<Value, Status> {
        let mut state = self.0.lock();
        let mut pod = state.pod.clone();
        change(&mut pod)?;
        state.version += 1;
        pod["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.pod = pod.clone();
        state.log.push("mark".to_owned());
        Ok(pod)
    }

    fn delete_pod(&self, _: &str, _: &str, options: &Value) -> Result<(), Status> {
        let mut state = self.0.lock();
        let pinned = pinned_version(options).map_or(String::new(), |v| format!(" at {v}"));
        let dry = if options.get("dryRun").is_some() { " dry" } else { "" };
        state.log.push(format!("delete{pinned}{dry}"));
        let (answer, next) = state.deletes.pop_front().unwrap_or((Ok(()), None));
        if let Some(next) = next {
            state.pod = next;
        }
        answer
    }

    fn budgets(&self, _: &str) -> Result<Vec<Value>, Status> {
        Ok(self.0.lock().budgets.clone())
    }

    fn budget(&self, _: &str, name: &str) -> Result<Value, Status> {
        let state = self.0.lock();
        let found = state.budgets.iter().find(|b| metadata::name(b) == name).cloned();
        found.ok_or_else(|| Status::not_found(GroupResource::new("policy", "poddisruptionbudgets"), name))
    }

    fn update_budget_status(&self, _: &str, budget: Value) -> Result<(), Status> {
        let mut state = self.0.lock();
        if state.budget_conflicts > 0 {
            state.budget_conflicts -= 1;
            return Err(conflict());
        }
        state.log.push("charge".to_owned());
        state.budgets[0] = budget;
        Ok(())
    }

    fn kubernetes_version(&self) -> KubernetesVersion {
        self.0.lock().kubernetes
    }

    fn now(&self) -> String {
        "2024-01-01T00:00:00Z".to_owned()
    }

    async fn pause(&self, time: Duration) {
        assert_eq!(time, RETRY_INTERVAL);
        self.0.lock().log.push("pause".to_owned());
        std::future::ready(()).await;
    }
}

fn conflict() -> Status {
    Status::resource_version_conflict(GroupResource::new("", "pods"), "p")
}

fn pod(phase: &str, ready: bool) -> Value {
    let conditions = if ready { json!([{"type": "Ready", "status": "True"}]) } else { json!([]) };
    json!({"metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
        "status": {"phase": phase, "conditions": conditions}})
}

fn budget(allowed: i64, current: i64, desired: i64) -> Value {
    json!({"metadata": {"name": "foo", "namespace": "n", "generation": 1},
        "spec": {"selector": {"matchLabels": {"a": "b"}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": current,
            "desiredHealthy": desired, "expectedPods": 3}})
}

fn eviction() -> Value {
    json!({"metadata": {"name": "p"}})
}

fn cause(status: &Status) -> &str {
    &status.details.as_ref().expect("details").causes[0].message
}

#[test]
fn e_001_no_disruption_allowed_is_429() {
    let fake = FakeBackend::new(pod("Running", true), vec![budget(0, 0, 0)]);
    let refused = fake.evict(&eviction(), &[]).expect_err("refused");
    assert_eq!((refused.code, refused.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(refused.message, "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(cause(&refused), "The disruption budget foo needs 0 healthy pods and has 0 currently");
    assert_eq!(refused.retry_after(), None);
    assert!(fake.log().is_empty());
}

#[rstest]
#[case::pending("Pending", &["mark", "delete at 101"])]
#[case::succeeded("Succeeded", &["mark", "delete"])]
#[case::failed("Failed", &["mark", "delete"])]
fn e_002_no_budget_is_asked(#[case] phase: &str, #[case] log: &[&str]) {
    let fake = FakeBackend::new(pod(phase, false), vec![budget(0, 0, 0)]);
    assert_eq!(fake.evict(&eviction(), &[]).expect("evicted").code, 201);
    assert_eq!(fake.log(), log);
}

#[test]
fn e_002_terminating_pods_neither() {
    let mut going = pod("Running", true);
    going["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
    let fake = FakeBackend::new(going, vec![budget(0, 0, 0)]);
    fake.evict(&eviction(), &[]).expect("evicted");
    assert_eq!(fake.log(), ["mark", "delete"]);
}

#[rstest]
#[case::last(1, 0, Some("InsufficientPods"))]
#[case::of_three(3, 2, None)]
fn e_003_the_budget_is_charged_first(#[case] before: i64, #[case] after: i64, #[case] reason: Option<&str>) {
    let fake = FakeBackend::new(pod("Running", true), vec![budget(before, 3, 2)]);
    fake.evict(&eviction(), &[]).expect("evicted");
    assert_eq!(fake.log(), ["charge", "mark", "delete"]);
    let status = fake.budget()["status"].clone();
    assert_eq!(status["disruptionsAllowed"], after);
    assert_eq!(status["disruptedPods"], json!({"p": "2024-01-01T00:00:00Z"}));
    let condition = conditions::find(&status, "DisruptionAllowed").map(|c| str_field(c, "reason"));
    assert_eq!(condition, reason);
}

#[rstest]
#[case::other_labels(json!({"matchLabels": {"x": "y"}}))]
#[case::invalid(json!({"matchExpressions": [{"key": "a/b/c", "operator": "Exists"}]}))]
#[case::missing(Value::Null)]
fn e_004_budgets_that_do_not_match_are_ignored(#[case] selector: Value) {
    let mut other = budget(0, 0, 0);
    other["spec"]["selector"] = selector;
    let fake = FakeBackend::new(pod("Running", true), vec![other]);
    fake.evict(&eviction(), &[]).expect("evicted");
    assert_eq!(fake.log(), ["mark", "delete"]);
}

#[test]
fn e_005_the_names_must_agree() {
    let fake = FakeBackend::new(pod("Running", true), vec![]);
    let refused = fake.evict(&json!({"metadata": {"name": "q"}}), &[]).expect_err("other name");
    assert_eq!(refused.code, 400);
    assert_eq!(refused.message, "name in URL does not match name in Eviction object");
}

#[test]
fn e_006_the_empty_selector_protects_all() {
    let mut all = budget(0, 0, 0);
    all["spec"]["selector"] = json!({});
    let fake = FakeBackend::new(pod("Running", true), vec![all]);
    assert_eq!(fake.evict(&eviction(), &[]).expect_err("refused").code, 429);
}

#[test]
fn e_007_conflicting_deletes_of_pending_pods_are_tried_again() {
    let fake = FakeBackend::new(pod("Pending", false), vec![]);
    fake.script([(Err(conflict()), None), (Err(conflict()), None), (Ok(()), None)]);
    fake.evict(&eviction(), &[]).expect("evicted");
    assert_eq!(fake.deletes(), 3);
    assert_eq!(fake.log().iter().filter(|l| *l == "pause").count(), 2);
}

#[test]
fn e_008_a_pod_that_began_to_run_is_judged_after_all() {
    let fake = FakeBackend::new(pod("Pending", false), vec![budget(0, 0, 0)]);
    fake.script([(Err(conflict()), Some(pod("Running", true)))]);
    assert_eq!(fake.evict(&eviction(), &[]).expect_err("refused").code, 429);
    assert_eq!(fake.deletes(), 1);
}

#[test]
fn e_009_an_unready_pod_that_changes_is_asked_for_again() {
    let mut lenient = budget(0, 0, 0);
    lenient["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow".into();
    let fake = FakeBackend::new(pod("Pending", false), vec![lenient]);
    fake.script([(Err(conflict()), Some(pod("Running", false))), (Err(conflict()), None)]);
    let refused = fake.evict(&eviction(), &[]).expect_err("refused");
    assert_eq!(refused.code, 429);
    assert_eq!(cause(&refused), "The disruption budget foo is still being processed by the server.");
    assert_eq!(fake.deletes(), 2);
}

#[test]
fn e_010_with_a_disruption_left_it_goes() {
    let fake = FakeBackend::new(pod("Pending", false), vec![budget(1, 1, 0)]);
    fake.script([(Err(conflict()), Some(pod("Running", true))), (Ok(()), None)]);
    fake.evict(&eviction(), &[]).expect("evicted");
    assert_eq!(fake.deletes(), 2);
}

#[test]
fn e_011_twenty_attempts_are_enough() {
    let fake = FakeBackend::new(pod("Pending", false), vec![]);
    fake.script((0..30).map(|_| (Err(conflict()), None)));
    assert_eq!(fake.evict(&eviction(), &[]).expect_err("conflict").code, 409);
    assert_eq!(fake.deletes(), 20);
    assert_eq!(fake.log().iter().filter(|l| *l == "pause").count(), 19);
}

#[test]
fn e_012_a_client_that_pins_the_version_gets_its_conflict() {
    let fake = FakeBackend::new(pod("Pending", false), vec![]);
    fake.script([(Err(conflict()), None)]);
    let mut body = eviction();
    body["deleteOptions"] = json!({"preconditions": {"resourceVersion": "7"}});
    assert_eq!(fake.evict(&body, &[]).expect_err("conflict").code, 409);
    assert_eq!(fake.deletes(), 1);
}

#[rstest]
#[case::e_013_ready_is_refused(true, "", 2, 2, Err(429))]
#[case::e_014_unready_goes_with_a_healthy_budget(false, "IfHealthyBudget", 2, 2, Ok("delete at 101"))]
#[case::e_014_by_default(false, "", 3, 2, Ok("delete at 101"))]
#[case::unready_stays_with_an_unhealthy_budget(false, "", 1, 2, Err(429))]
#[case::e_015_desired_zero_is_no_healthy_budget(false, "", 0, 0, Err(429))]
#[case::e_015_always_allow(false, "AlwaysAllow", 0, 0, Ok("delete at 101"))]
fn unready_pods(
    #[case] ready: bool,
    #[case] policy: &str,
    #[case] current: i64,
    #[case] desired: i64,
    #[case] expected: Result<&str, u16>,
) {
    let mut guard = budget(0, current, desired);
    if !policy.is_empty() {
        guard["spec"]["unhealthyPodEvictionPolicy"] = policy.into();
    }
    let fake = FakeBackend::new(pod("Running", ready), vec![guard]);
    let answer = fake.evict(&eviction(), &[]);
    match expected {
        Ok(delete) => {
            answer.expect("evicted");
            assert_eq!(fake.log(), ["mark", delete]);
            assert_eq!(fake.budget()["status"]["disruptionsAllowed"], 0);
        }
        Err(code) => {
            assert_eq!(answer.expect_err("refused").code, code);
            assert_eq!(fake.deletes(), 0);
        }
    }
}

#[rstest]
#[case::conflict(409, 429)]
#[case::other(400, 400)]
fn e_016_only_conflicts_become_429(#[case] code: u16, #[case] expected: u16) {
    let fake = FakeBackend::new(pod("Running", false), vec![budget(0, 2, 2)]);
    let answer = if code == 409 { conflict() } else { Status::bad_request("no") };
    fake.script([(Err(answer), None)]);
    assert_eq!(fake.evict(&eviction(), &[]).expect_err("refused").code, expected);
}

#[rstest]
#[case::e_017_failed_sync(
    "SyncFailed",
    "oops",
    1,
    2,
    "The disruption budget foo does not allow evicting pods currently because it failed sync: oops"
)]
#[case::counts_come_second(
    "bar-reason",
    "hoge",
    2,
    2,
    "The disruption budget foo needs 2 healthy pods and has 2 currently"
)]
#[case::e_018_other_reason(
    "bar-reason",
    "hoge",
    3,
    2,
    "The disruption budget foo does not allow evicting pods currently (bar-reason): hoge"
)]
#[case::no_message("bar-reason", "", 3, 2, "The disruption budget foo does not allow evicting pods currently")]
fn causes_of_refusals(
    #[case] reason: &str,
    #[case] message: &str,
    #[case] current: i64,
    #[case] desired: i64,
    #[case] expected: &str,
) {
    let mut guard = budget(0, current, desired);
    guard["status"]["conditions"] =
        json!([{"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message}]);
    let fake = FakeBackend::new(pod("Running", true), vec![guard]);
    assert_eq!(cause(&fake.evict(&eviction(), &[]).expect_err("refused")), expected);
}

#[test]
fn e_019_a_budget_that_is_behind_asks_for_ten_seconds() {
    let mut behind = budget(1, 3, 2);
    behind["metadata"]["generation"] = 2.into();
    let fake = FakeBackend::new(pod("Running", true), vec![behind]);
    let refused = fake.evict(&eviction(), &[]).expect_err("refused");
    assert_eq!((refused.code, refused.retry_after()), (429, Some(10)));
    assert_eq!(cause(&refused), "The disruption budget foo is still being processed by the server.");
}

#[rstest]
#[case::negative(-1, 0, 403)]
#[case::too_many_claims(1, 2001, 403)]
#[case::as_many_as_may_be(1, 2000, 201)]
fn e_020_broken_budgets_are_forbidden(#[case] allowed: i64, #[case] claims: usize, #[case] expected: u16) {
    let mut guard = budget(allowed, 3, 2);
    let pods: Map = (0..claims).map(|i| (format!("x{i}"), "2024-01-01T00:00:00Z")).collect();
    guard["status"]["disruptedPods"] = Value::Object(pods);
    let fake = FakeBackend::new(pod("Running", true), vec![guard]);
    let code = fake.evict(&eviction(), &[]).map_or_else(|s| s.code, |s| s.code);
    assert_eq!(code, expected);
}

#[rstest]
#[case::negative(-1, 0, "pdb disruptions allowed is negative")]
#[case::too_many_claims(1, 2001, "too many pending evictions not confirmed by PDB controller")]
fn e_033_broken_budgets_have_a_cause_from_1_37_on(#[case] allowed: i64, #[case] claims: usize, #[case] why: &str) {
    let mut guard = budget(allowed, 3, 2);
    let pods: Map = (0..claims).map(|i| (format!("x{i}"), "2024-01-01T00:00:00Z")).collect();
    guard["status"]["disruptedPods"] = Value::Object(pods);
    let fake = FakeBackend::new(pod("Running", true), vec![guard]);
    let before = fake.evict(&eviction(), &[]).expect_err("refused");
    assert!(before.details.is_some_and(|details| details.causes.is_empty()));
    fake.0.lock().kubernetes = KubernetesVersion::V1_37;
    let refused = fake.evict(&eviction(), &[]).expect_err("refused");
    assert_eq!((refused.code, refused.message.as_str()), (403, before.message.as_str()));
    assert_eq!(cause(&refused), format!("The disruption budget foo does not allow evicting pods currently: {why}"));
    assert_eq!(refused.details.expect("details").causes[0].reason, "DisruptionBudget");
}

#[test]
fn e_021_two_budgets_are_too_many() {
    let mut second = budget(5, 5, 0);
    second["metadata"]["name"] = "second".into();
    let fake = FakeBackend::new(pod("Running", true), vec![budget(5, 5, 0), second]);
    let refused = fake.evict(&eviction(), &[]).expect_err("refused");
    assert_eq!((refused.code, refused.reason.as_str()), (500, ""));
    assert!(fake.log().is_empty());
}

#[rstest]
#[case::nineteen(19, 201)]
#[case::twenty(20, 409)]
fn e_022_conflicts_on_the_budget_are_tried_again(#[case] conflicts: usize, #[case] expected: u16) {
    let fake = FakeBackend::new(pod("Running", true), vec![budget(1, 3, 2)]);
    fake.0.lock().budget_conflicts = conflicts;
    let code = fake.evict(&eviction(), &[]).map_or_else(|s| s.code, |s| s.code);
    assert_eq!(code, expected);
    assert_eq!(fake.log().iter().filter(|l| *l == "pause").count(), 19);
}

#[rstest]
#[case::query(json!([]), &["All"])]
#[case::body(json!(["All"]), &[])]
#[case::both(json!(["All"]), &["All"])]
fn e_023_dry_runs_leave_nothing(#[case] in_body: Value, #[case] in_query: &[&str]) {
    let fake = FakeBackend::new(pod("Running", true), vec![budget(1, 3, 2)]);
    let mut body = eviction();
    body["deleteOptions"] = json!({"dryRun": in_body});
    fake.evict(&body, in_query).expect("would be evicted");
    assert_eq!(fake.log(), ["delete dry"]);
    assert_eq!(fake.budget()["status"]["disruptionsAllowed"], 1);
}

#[test]
fn e_023_query_and_body_must_agree() {
    let fake = FakeBackend::new(pod("Running", true), vec![]);
    let mut body = eviction();
    body["deleteOptions"] = json!({"dryRun": ["All", "All"]});
    let refused = fake.evict(&body, &["All"]).expect_err("unequal");
    assert_eq!(refused.code, 500);
    assert_eq!(refused.message, "Non-matching dry-run options in request and content: [All] and [All All]");
}

#[test]
fn e_024_unsafe_deletes_are_invalid() {
    let fake = FakeBackend::new(pod("Running", true), vec![]);
    let mut body = eviction();
    body["deleteOptions"] = json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true});
    assert_eq!(fake.evict(&body, &[]).expect_err("invalid").code, 422);
}

#[test]
fn e_025_the_pod_is_marked_before_it_goes() {
    let fake = FakeBackend::new(pod("Succeeded", false), vec![]);
    fake.evict(&eviction(), &[]).expect("evicted");
    let pod = fake.0.lock().pod.clone();
    let mark = conditions::find(&pod["status"], "DisruptionTarget").expect("marked");
    assert_eq!(mark["reason"], "EvictionByEvictionAPI");
    assert_eq!(mark["message"], "Eviction API: evicting");
    assert_eq!(fake.log(), ["mark", "delete"]);
}

#[rstest]
#[case::right_uid(json!({"uid": "u"}), 201)]
#[case::wrong_uid(json!({"uid": "v"}), 409)]
#[case::right_version(json!({"resourceVersion": "7"}), 201)]
#[case::wrong_version(json!({"resourceVersion": "6"}), 409)]
fn e_026_preconditions_hold(#[case] preconditions: Value, #[case] expected: u16) {
    let fake = FakeBackend::new(pod("Running", true), vec![]);
    let mut body = eviction();
    body["deleteOptions"] = json!({"preconditions": preconditions});
    let code = fake.evict(&body, &[]).map_or_else(|s| s.code, |s| s.code);
    assert_eq!(code, expected);
    assert_eq!(fake.deletes(), usize::from(expected == 201));
}

#[test]
fn e_030_a_failed_delete_leaves_the_budget_charged() {
    let fake = FakeBackend::new(pod("Running", true), vec![budget(1, 3, 2)]);
    let mut body = eviction();
    body["deleteOptions"] = json!({"preconditions": {"uid": "v"}});
    assert_eq!(fake.evict(&body, &[]).expect_err("stale uid").code, 409);
    assert_eq!(fake.budget()["status"]["disruptionsAllowed"], 0);
    assert_eq!(fake.log(), ["charge"]);
}

#[test]
fn e_031_a_stale_uid_of_a_finished_pod_is_tried_twenty_times() {
    let fake = FakeBackend::new(pod("Succeeded", false), vec![]);
    let mut body = eviction();
    body["deleteOptions"] = json!({"preconditions": {"uid": "v"}});
    assert_eq!(fake.evict(&body, &[]).expect_err("stale uid").code, 409);
    assert_eq!(fake.log().iter().filter(|l| *l == "pause").count(), 19);
}

#[test]
fn e_032_ready_pods_are_not_pinned() {
    let fake = FakeBackend::new(pod("Running", true), vec![budget(1, 3, 2)]);
    fake.evict(&eviction(), &[]).expect("evicted");
    assert_eq!(fake.log(), ["charge", "mark", "delete"]);
}

#[test]
fn a_missing_pod_is_not_found() {
    let fake = FakeBackend::new(Value::Null, vec![]);
    assert_eq!(fake.evict(&eviction(), &[]).expect_err("missing").code, 404);
}
