//! One job: its pods, its counters and its end. See `pkg/controller/job/job_controller.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::super::namespace_controller::NamespaceController;
use super::super::pod_state::{is_active, is_ready, is_terminating};
use super::super::workload_fields::count;
use super::deletion::try_delete;
use super::indexes::Indexes;
use super::pods;
use super::policies::{self, FailureAction};
use super::times::{earliest, time_of};
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::time::format_time;

/// Back-off after the first failure of a pod; it doubles with each further one.
const BACK_OFF: Duration = Duration::from_secs(10);
/// Longest back-off.
const BACK_OFF_MAX: Duration = Duration::from_mins(10);
/// Most pods that one sync creates or deletes.
const CHANGES_MAX: usize = 500;

/// The end of a job, as its interim condition says.
struct Outcome {
    is_success: bool,
    reason: String,
    message: String,
}

impl Outcome {
    fn success() -> Self {
        let message = "Reached expected number of succeeded pods".to_owned();
        Self { is_success: true, reason: "CompletionsReached".to_owned(), message }
    }

    fn failure(reason: &str, message: &str) -> Self {
        Self { is_success: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    /// Returns the interim and the final condition.
    fn conditions(&self) -> [&'static str; 2] {
        if self.is_success { ["SuccessCriteriaMet", "Complete"] } else { ["FailureTarget", "Failed"] }
    }
}

/// Returns the time at which a job has ended.
pub(super) fn finish_time(job: &Value) -> Option<Timestamp> {
    let ended = ["Complete", "Failed"].into_iter().find_map(|kind| condition(job, kind))?;
    time_of(ended, "/lastTransitionTime")
}

/// Returns true if another controller manages a job: `managedByExternalController`.
pub(crate) fn is_managed_elsewhere(job: &Value) -> bool {
    job["spec"]["managedBy"].as_str().is_some_and(|manager| manager != "kubernetes.io/job-controller")
}

/// Returns a condition that is true.
fn condition<'j>(job: &'j Value, kind: &str) -> Option<&'j Value> {
    let conditions = job["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Syncs one job; returns the time of the next sync, if there is one.
pub(super) async fn sync(
    controller: &NamespaceController,
    name: &str,
    failures: &mut BTreeMap<String, PodFailures>,
) -> Option<Timestamp> {
    let job = controller.workload(name)?;
    if let Some(finished) = finish_time(&job) {
        failures.remove(metadata::uid(&job));
        return expire(controller, &job, finished).await;
    }
    if is_managed_elsewhere(&job) {
        return None;
    }
    controller.claim_members("", "pods", &job, Some(pods::FINALIZER), |_| true).await;
    let pods = controller.controlled_objects("", "pods", &job);
    let now = controller.agent.server().clock().now();
    let stored = job["status"].clone();
    let record = failures.get(metadata::uid(&job)).copied();
    JobSync { controller, pods, now, next: None, stored, job, failures, record, delayed: BTreeMap::new() }.run().await
}

/// Deletes a finished job when its time to live has passed. See `pkg/controller/ttlafterfinished`.
async fn expire(controller: &NamespaceController, job: &Value, finished: Timestamp) -> Option<Timestamp> {
    let ttl = job["spec"]["ttlSecondsAfterFinished"].as_u64()?;
    let now = controller.agent.server().clock().now();
    let expires = finished.checked_add(Duration::from_secs(ttl)).ok()?;
    if metadata::is_deleted(job) {
        return None;
    }
    if expires > now {
        return Some(expires);
    }
    let controller = controller.named("plumbline/ttl-after-finished-controller");
    _ = try_delete(&controller, &controller.path(metadata::name(job)), job, "Foreground").await;
    None
}

struct JobSync<'a> {
    controller: &'a NamespaceController,
    /// The job, with the status that is to be written.
    job: Value,
    /// The status that the server has.
    stored: Value,
    pods: Vec<Value>,
    now: Timestamp,
    next: Option<Timestamp>,
    failures: &'a mut BTreeMap<String, PodFailures>,
    /// The failures with those that the status is to count.
    record: Option<PodFailures>,
    /// The last failed pods of indexes without another one. With a limit per index they stay until they are replaced.
    delayed: BTreeMap<i64, Value>,
}

impl PodFailures {
    /// Returns the record after more pods have ended; a success ends the count of the failures before it:
    /// `newBackoffRecord`.
    fn after(known: Option<Self>, good: &[&Value], bad: &[&Value]) -> Option<Self> {
        let success = good.iter().filter_map(|pod| pods::finish_time(pod)).max();
        let known = known.filter(|_| good.is_empty());
        let ends = bad.iter().filter_map(|pod| pods::finish_time(pod));
        let ends: Vec<Timestamp> = ends.filter(|at| success.is_none_or(|success| *at > success)).collect();
        let Some(last) = ends.iter().copied().max() else { return known };
        let new = u32::try_from(ends.len()).unwrap_or(u32::MAX);
        Some(Self { count: known.map_or(0, |known| known.count).saturating_add(new), last })
    }

    /// Returns the time from which there may be a new pod.
    fn resumes(self) -> Option<Timestamp> {
        let delay = BACK_OFF.saturating_mul(2_u32.saturating_pow(self.count.saturating_sub(1))).min(BACK_OFF_MAX);
        self.last.checked_add(delay).ok()
    }
}

impl JobSync<'_> {
    fn spec(&self, field: &str) -> Option<i64> {
        self.job["spec"][field].as_i64()
    }

    fn is_indexed(&self) -> bool {
        self.job["spec"]["completionMode"] == "Indexed"
    }

    fn is_suspended(&self) -> bool {
        self.job["spec"]["suspend"] == json!(true)
    }

    /// Returns true if a pod that is being deleted counts as a failure only when it has failed.
    fn replaces_only_failed(&self) -> bool {
        self.job["spec"]["podReplacementPolicy"] == "Failed" || self.job["spec"]["podFailurePolicy"].is_object()
    }

    fn is_failed(&self, pod: &Value) -> bool {
        pods::has_phase(pod, "Failed")
            || !self.replaces_only_failed() && metadata::is_deleted(pod) && !pods::has_phase(pod, "Succeeded")
    }

    /// Returns the number of failed pods that an index may have.
    fn limit_per_index(&self) -> Option<i64> {
        self.spec("backoffLimitPerIndex").filter(|_| self.is_indexed())
    }

    /// Returns the indexes that have failed, if there is a limit for each.
    fn failed_indexes(&self) -> Option<Indexes> {
        let failed = self.pods.iter().filter(|pod| self.is_failed(pod));
        Some(policies::failed_indexes(&self.job, failed, self.limit_per_index()?))
    }

    /// Finds the failed pods that are to stay: `getPodsWithDelayedDeletionPerIndex`.
    fn delay_failed(&mut self) {
        let Some(failed) = self.failed_indexes() else { return };
        let active = self.pods.iter().filter(|pod| is_active(pod)).filter_map(pods::index);
        let done = failed.or(self.succeeded_indexes()).with(active);
        let completions = self.spec("completions").unwrap_or(0);
        let mut last: BTreeMap<i64, Value> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| pods::is_tracked(pod) && self.is_failed(pod)) {
            let Some(index) = pods::index(pod).filter(|index| *index < completions && !done.contains(*index)) else {
                continue;
            };
            let age = |pod: &Value| (policies::failures_of_index(pod), pods::finish_time(pod));
            if last.get(&index).is_none_or(|known| age(known) <= age(pod)) {
                last.insert(index, pod.clone());
            }
        }
        self.delayed = last;
    }

    fn uncounted(&self, list: &str) -> BTreeSet<String> {
        let uids = self.job["status"]["uncountedTerminatedPods"][list].as_array().into_iter().flatten();
        uids.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Returns the indexes of pods that have succeeded, with those that were counted.
    fn succeeded_indexes(&self) -> Indexes {
        let completions = self.spec("completions").unwrap_or(0);
        let known = Indexes::parse(self.job["status"]["completedIndexes"].as_str().unwrap_or_default(), completions);
        let done = self.pods.iter().filter(|pod| pods::is_tracked(pod) && pods::has_phase(pod, "Succeeded"));
        known.with(done.filter_map(pods::index).filter(|index| *index < completions))
    }

    /// Returns the number of pods that have succeeded and failed, counted or not.
    fn ended(&mut self) -> (i64, i64) {
        let known_good = self.uncounted("succeeded");
        let known_bad = self.uncounted("failed");
        let is_new =
            |pod: &&Value, known: &BTreeSet<String>| pods::is_tracked(pod) && !known.contains(metadata::uid(pod));
        let is_good = |pod: &&Value| pods::has_phase(pod, "Succeeded") && is_new(pod, &known_good);
        let is_bad = |pod: &&Value| self.is_failed(pod) && is_new(pod, &known_bad);
        let good: Vec<&Value> = self.pods.iter().filter(is_good).collect();
        let bad: Vec<&Value> = self.pods.iter().filter(is_bad).collect();
        let counts = |pod: &&&Value| policies::failure_action(&self.job, pod) != FailureAction::Ignore;
        let counted = bad.iter().filter(counts).count();
        let record = PodFailures::after(self.record, &good, &bad);
        let sum = |field: &str, new: usize, known: usize| {
            count(&self.job, field) + i64::try_from(new + known).unwrap_or(i64::MAX)
        };
        let failed = sum("/status/failed", counted, known_bad.len());
        let succeeded = if self.is_indexed() {
            self.succeeded_indexes().count()
        } else {
            sum("/status/succeeded", good.len(), known_good.len())
        };
        self.record = record;
        (succeeded, failed)
    }

    async fn run(mut self) -> Option<Timestamp> {
        if self.job["status"].is_null() {
            self.job["status"] = json!({});
        }
        if self.job["status"]["startTime"].is_null() && !self.is_suspended() {
            self.job["status"]["startTime"] = json!(format_time(self.now));
        }
        let (succeeded, failed) = self.ended();
        let active: Vec<Value> = self.pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        let mut counts = Counts {
            active: i64::try_from(active.len()).unwrap_or(i64::MAX),
            ready: length(active.iter().filter(|pod| is_ready(pod))),
            terminating: length(self.pods.iter().filter(|pod| is_terminating(pod))),
        };
        self.delay_failed();
        let mut outcome = self.decided().or_else(|| self.policy_failure()).or_else(|| self.failure(failed));
        outcome = outcome.or_else(|| self.index_outcome());
        if outcome.is_some() {
            for pod in &active {
                _ = self.controller.delete_pod(&self.job, pod).await;
            }
            counts.terminating += counts.active;
            (counts.active, counts.ready) = (0, 0);
        } else {
            if !metadata::is_deleted(&self.job) {
                self.manage(&active, succeeded, &mut counts).await;
            }
            let is_complete = match self.spec("completions") {
                Some(completions) => succeeded >= completions,
                None => succeeded > 0,
            };
            if is_complete && counts.active == 0 {
                outcome = Some(Outcome::success());
            } else if !metadata::is_deleted(&self.job) {
                self.report_suspension();
            }
        }
        self.finish(outcome.as_ref(), counts).await;
        self.next
    }

    /// Returns the outcome that an earlier sync has decided.
    fn decided(&self) -> Option<Outcome> {
        let (is_success, interim) = [(true, "SuccessCriteriaMet"), (false, "FailureTarget")]
            .into_iter()
            .find_map(|(is_success, kind)| Some((is_success, condition(&self.job, kind)?)))?;
        let text = |field: &str| interim[field].as_str().unwrap_or_default().to_owned();
        Some(Outcome { is_success, reason: text("reason"), message: text("message") })
    }

    /// Returns the failure that `podFailurePolicy` calls for.
    fn policy_failure(&self) -> Option<Outcome> {
        self.pods.iter().filter(|pod| self.is_failed(pod)).find_map(|pod| {
            let FailureAction::FailJob(message) = policies::failure_action(&self.job, pod) else { return None };
            Some(Outcome::failure("PodFailurePolicy", &message))
        })
    }

    /// Returns the outcome by the indexes that have failed or succeeded.
    fn index_outcome(&self) -> Option<Outcome> {
        if !self.is_indexed() {
            return None;
        }
        let succeeded = self.succeeded_indexes();
        if let Some(failed) = self.failed_indexes() {
            let count = failed.count();
            if self.spec("maxFailedIndexes").is_some_and(|most| count > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return Some(Outcome::failure("MaxFailedIndexesExceeded", message));
            }
            if count > 0 && count + succeeded.count() >= self.spec("completions").unwrap_or(0) {
                return Some(Outcome::failure("FailedIndexes", "Job has failed indexes"));
            }
        }
        let message = policies::success(&self.job, &succeeded)?;
        Some(Outcome { is_success: true, reason: "SuccessPolicy".to_owned(), message })
    }

    fn failure(&mut self, failed: i64) -> Option<Outcome> {
        let limit = self.spec("backoffLimit").unwrap_or(6);
        if failed > limit || self.has_restarted_too_often(limit) {
            return Some(Outcome::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
        }
        let deadline = u64::try_from(self.spec("activeDeadlineSeconds")?).ok().filter(|_| !self.is_suspended())?;
        let ends = time_of(&self.job, "/status/startTime")?.checked_add(Duration::from_secs(deadline)).ok()?;
        if ends <= self.now {
            return Some(Outcome::failure("DeadlineExceeded", "Job was active longer than specified deadline"));
        }
        self.next = earliest(self.next, Some(ends));
        None
    }

    /// With the restart policy `OnFailure`, the restarts of containers count.
    fn has_restarted_too_often(&self, limit: i64) -> bool {
        if self.job["spec"]["template"]["spec"]["restartPolicy"] != "OnFailure" {
            return false;
        }
        let lives = |pod: &&Value| pods::has_phase(pod, "Running") || pods::has_phase(pod, "Pending");
        let lists =
            self.pods.iter().filter(lives).flat_map(|pod| {
                ["initContainerStatuses", "containerStatuses"].map(|list| pod["status"][list].as_array())
            });
        let restarts: i64 = lists.flatten().flatten().filter_map(|status| status["restartCount"].as_i64()).sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    /// Creates missing pods and deletes those that are too many.
    async fn manage(&mut self, active: &[Value], succeeded: i64, counts: &mut Counts) {
        let parallelism = self.spec("parallelism").unwrap_or(1);
        let wanted = if self.is_suspended() {
            0
        } else {
            match self.spec("completions") {
                Some(completions) => (completions - succeeded).min(parallelism).max(0),
                None if succeeded > 0 => counts.active,
                None => parallelism,
            }
        };
        let surplus = self.surplus(active, counts.active - wanted);
        if !surplus.is_empty() {
            for pod in surplus.into_iter().take(CHANGES_MAX) {
                // Such a pod is no failure.
                pods::release(self.controller, pod).await;
                _ = self.controller.delete_pod(&self.job, pod).await;
                counts.active -= 1;
                counts.terminating += 1;
                counts.ready -= i64::from(is_ready(pod));
            }
            return;
        }
        let terminating = if self.replaces_only_failed() { counts.terminating } else { 0 };
        let missing = usize::try_from(wanted - terminating - counts.active).unwrap_or(0).min(CHANGES_MAX);
        if missing == 0 {
            return;
        }
        let resumes = self.back_off().filter(|resumes| *resumes > self.now && self.limit_per_index().is_none());
        if resumes.is_some() {
            self.next = earliest(self.next, resumes);
            return;
        }
        let indexes = self.ready_indexes(missing).into_iter();
        let (created, _) = self.controller.create_pods(&self.job, indexes.map(|index| self.pod(index))).await;
        counts.active += i64::try_from(created).unwrap_or(i64::MAX);
    }

    /// Returns a new pod; with an index, for jobs of mode Indexed.
    fn pod(&self, index: Option<i64>) -> Value {
        let mut pod = pods::pod(self.controller, &self.job, index);
        if self.limit_per_index().is_some() {
            let replaced = index.and_then(|index| self.delayed.get(&index));
            policies::note_failures(&mut pod, &self.job, replaced);
        }
        pod
    }

    /// Returns the indexes of the next pods. With a limit per index, each has a back-off of its own.
    fn ready_indexes(&mut self, missing: usize) -> Vec<Option<i64>> {
        let pending = self.pending_indexes(missing);
        let resumes = |index: &Option<i64>| {
            let pod = self.delayed.get(&(*index)?)?;
            let count = u32::try_from(policies::failures_of_index(pod) + 1).unwrap_or(u32::MAX);
            PodFailures { count, last: pods::finish_time(pod)? }.resumes().filter(|at| *at > self.now)
        };
        let ready: Vec<Option<i64>> = pending.iter().copied().filter(|index| resumes(index).is_none()).collect();
        if ready.is_empty() {
            self.next = earliest(self.next, pending.iter().filter_map(resumes).min());
        }
        ready
    }

    /// Returns the pods to delete: those with an index that another one has, or that is none of the job's, and `count`
    /// in all.
    fn surplus<'p>(&self, active: &'p [Value], count: i64) -> Vec<&'p Value> {
        let count = usize::try_from(count).unwrap_or(0);
        let mut rest = super::super::replicas::deletion_order(active.iter().collect());
        let mut surplus = Vec::new();
        if self.is_indexed() {
            let completions = self.spec("completions").unwrap_or(0);
            let mut seen = BTreeSet::new();
            // The pod that would be deleted last keeps the index.
            rest.reverse();
            rest.retain(|pod| {
                let stays = pods::index(pod).is_some_and(|index| index < completions && seen.insert(index));
                if !stays {
                    surplus.push(*pod);
                }
                stays
            });
            rest.reverse();
        }
        let more = count.saturating_sub(surplus.len());
        surplus.extend(rest.into_iter().take(more));
        surplus
    }

    /// Returns the time before which no pod is created, after failures.
    fn back_off(&self) -> Option<Timestamp> {
        self.record?.resumes()
    }

    /// Returns the indexes of the next `count` pods; for jobs without indexes, as many times none.
    fn pending_indexes(&self, count: usize) -> Vec<Option<i64>> {
        if !self.is_indexed() {
            return vec![None; count];
        }
        let waits = self.replaces_only_failed();
        let holds = |pod: &&Value| is_active(pod) || waits && is_terminating(pod);
        let present = self.pods.iter().filter(holds).filter_map(pods::index);
        let taken = self.succeeded_indexes().or(self.failed_indexes().unwrap_or_default()).with(present);
        taken.missing(self.spec("completions").unwrap_or(0)).take(count).map(Some).collect()
    }

    fn report_suspension(&mut self) {
        if self.is_suspended() {
            if self.set_condition("Suspended", "True", "JobSuspended", "Job suspended") {
                self.job["status"]["startTime"] = Value::Null;
            }
        } else if self.set_condition("Suspended", "False", "JobResumed", "Job resumed") {
            self.job["status"]["startTime"] = json!(format_time(self.now));
        }
    }

    /// Sets a condition; returns false if it has this status already, or would be a new one that is false.
    fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: &str) -> bool {
        let now = format_time(self.now);
        let mut conditions = self.job["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let new = json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now});
        match conditions.iter_mut().find(|condition| condition["type"] == kind) {
            Some(known) if known["status"] == status => return false,
            Some(known) => *known = new,
            None if status == "False" => return false,
            None => conditions.push(new),
        }
        self.job["status"]["conditions"] = Value::Array(conditions);
        true
    }

    /// Counts the pods that have ended and removes their finalizers; ends the job when none is left.
    async fn finish(&mut self, outcome: Option<&Outcome>, mut counts: Counts) {
        self.count_released();
        let ended: Vec<Value> = self.pods.iter().filter(|pod| self.is_released(pod, outcome)).cloned().collect();
        let indexes = self.succeeded_indexes();
        let failed = self.failed_indexes();
        for pod in &ended {
            self.note_end(pod, outcome);
        }
        if self.is_indexed() {
            self.job["status"]["completedIndexes"] = non_empty(indexes.text());
            self.job["status"]["succeeded"] = non_zero(indexes.count());
            self.job["status"]["failedIndexes"] = failed.map_or(Value::Null, |failed| failed.text().into());
        }
        counts.write_to(&mut self.job["status"]);
        if let Some(outcome) = outcome {
            let [interim, _] = outcome.conditions();
            self.set_condition(interim, "True", &outcome.reason, &outcome.message);
        }
        if !self.write().await {
            return;
        }
        let uid = metadata::uid(&self.job).to_owned();
        match self.record {
            Some(record) => _ = self.failures.insert(uid, record),
            None => _ = self.failures.remove(&uid),
        }
        for pod in &ended {
            if !pods::release(self.controller, pod).await {
                return;
            }
        }
        let ended: BTreeSet<&str> = ended.iter().map(metadata::uid).collect();
        self.pods.retain(|pod| !ended.contains(metadata::uid(pod)));
        self.count_released();
        counts.terminating = length(self.current_pods().iter().filter(|pod| is_terminating(pod)));
        if let Some(outcome) = outcome
            && counts.terminating == 0
        {
            let [_, last] = outcome.conditions();
            counts.write_to(&mut self.job["status"]);
            self.set_condition(last, "True", &outcome.reason, &outcome.message);
            if outcome.is_success {
                self.job["status"]["completionTime"] = json!(format_time(self.now));
            }
        }
        self.write().await;
    }

    fn current_pods(&self) -> Vec<Value> {
        self.controller.controlled_objects("", "pods", &self.job)
    }

    /// Returns true if the finalizer of the pod is to be removed.
    fn is_released(&self, pod: &Value, outcome: Option<&Outcome>) -> bool {
        let has_ended = outcome.is_some() || metadata::is_deleted(&self.job) || pods::has_phase(pod, "Succeeded");
        let is_delayed = || self.delayed.values().any(|delayed| metadata::uid(delayed) == metadata::uid(pod));
        pods::is_tracked(pod) && (has_ended || self.is_failed(pod) && !is_delayed())
    }

    /// Adds a pod to those that are not counted yet.
    fn note_end(&mut self, pod: &Value, outcome: Option<&Outcome>) {
        let list = if pods::has_phase(pod, "Succeeded") {
            if self.is_indexed() {
                return;
            }
            "succeeded"
        } else if policies::failure_action(&self.job, pod) == FailureAction::Ignore {
            return;
        } else if self.is_failed(pod) || outcome.is_some_and(|outcome| !outcome.is_success) {
            "failed"
        } else {
            return;
        };
        let mut uids = self.uncounted(list);
        if uids.insert(metadata::uid(pod).to_owned()) {
            self.job["status"]["uncountedTerminatedPods"][list] = uids.into_iter().collect();
        }
    }

    /// Counts the pods whose finalizer is gone.
    fn count_released(&mut self) {
        let tracked: BTreeSet<String> =
            self.pods.iter().filter(|pod| pods::is_tracked(pod)).map(|pod| metadata::uid(pod).to_owned()).collect();
        let mut left = json!({});
        for list in ["succeeded", "failed"] {
            let (waiting, gone): (BTreeSet<String>, BTreeSet<String>) =
                self.uncounted(list).into_iter().partition(|uid| tracked.contains(uid));
            if !waiting.is_empty() {
                left[list] = waiting.into_iter().collect();
            }
            let sum = count(&self.job["status"], &format!("/{list}")) + length(&gone);
            self.job["status"][list] = non_zero(sum);
        }
        self.job["status"]["uncountedTerminatedPods"] = left;
    }

    /// Writes the status, if it differs from the stored one.
    async fn write(&mut self) -> bool {
        if let Some(status) = self.job["status"].as_object_mut() {
            status.retain(|_, value| !value.is_null());
        }
        if self.job["status"] == self.stored {
            return true;
        }
        let path = format!("{}/status", self.controller.path(metadata::name(&self.job)));
        let reply = self.controller.agent.replace(&path, &self.job).await;
        if !reply.is_ok() {
            return false;
        }
        self.job = reply.body();
        self.stored = self.job["status"].clone();
        true
    }
}

/// The numbers of pods that have not ended.
#[derive(Clone, Copy)]
struct Counts {
    active: i64,
    ready: i64,
    terminating: i64,
}

impl Counts {
    fn write_to(self, status: &mut Value) {
        status["active"] = non_zero(self.active);
        status["ready"] = json!(self.ready);
        status["terminating"] = json!(self.terminating);
    }
}

fn length<T>(items: impl IntoIterator<Item = T>) -> i64 {
    i64::try_from(items.into_iter().count()).unwrap_or(i64::MAX)
}

/// Returns a counter that is left out if it is zero.
fn non_zero(number: i64) -> Value {
    if number == 0 { Value::Null } else { json!(number) }
}

fn non_empty(text: String) -> Value {
    if text.is_empty() { Value::Null } else { json!(text) }
}

/// The failures of a job's pods since the last success.
#[derive(Clone, Copy)]
pub(super) struct PodFailures {
    pub(super) count: u32,
    pub(super) last: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `TestNewBackoffRecord` in `pkg/controller/job/backoff_utils_test.go`.
    #[test]
    fn failures_count_from_the_end_of_the_last_pod() {
        let pod = |second: u32| {
            let end = format!("2030-01-01T00:00:{second:02}Z");
            json!({"status": {"containerStatuses": [{"state": {"terminated": {"finishedAt": end}}}]}})
        };
        let [first, second, third] = [10, 20, 30].map(pod);
        let shown = |record: Option<PodFailures>| record.map(|record| (record.count, format_time(record.last)));
        let known = PodFailures::after(None, &[], &[&second, &first]);
        assert_eq!(shown(known), Some((2, "2030-01-01T00:00:20Z".to_owned())));
        assert_eq!(shown(PodFailures::after(known, &[], &[])), shown(known));
        assert_eq!(shown(PodFailures::after(known, &[], &[&third])), Some((3, "2030-01-01T00:00:30Z".to_owned())));
        assert_eq!(shown(PodFailures::after(known, &[&third], &[])), None);
        let mixed = PodFailures::after(known, &[&second], &[&first, &third]);
        assert_eq!(shown(mixed), Some((1, "2030-01-01T00:00:30Z".to_owned())));
    }
}
