//! SHELL: the timers of the schedule, and the eviction of a pod: set the condition, delete, retry.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::decide::{EvictionPlan, condition, decide};
use super::schedule::{DueEviction, PodRef, Schedule, TaintSource, Transition};
use super::{DELETE_RETRIES, DELETE_RETRY_PAUSE};
use crate::api::View as _;
use crate::api::condition::update_pod_condition;
use crate::api::node::NodeView;
use crate::api::object_key::ObjectKey;
use crate::api::pod::{PodStatus, PodView};
use crate::context::ControllerContext;
use crate::runtime::cache::Lister;
use crate::runtime::client::{RepeatWhile, names};
use crate::runtime::clock::Clock;
use crate::runtime::error::ApiError;
use crate::runtime::metrics::Metrics;
use crate::runtime::queue::WorkQueue;
use crate::runtime::recorder::{EventType, ObjectReference, Recorder};
use crate::runtime::workers::Outcome;
use crate::write::actions::{Action, status_patch};
use crate::write::{Reader, Writer};

/// Number of concurrent evictions; upstream starts one goroutine for each, throttled by its client. The number is high
/// because slow admission may block each of them for minutes, and the others must not wait.
pub(super) const EVICTION_WORKERS: usize = 256;

const REASON: &str = "TaintManagerEviction";
const MARKING: &str = "Marking for deletion Pod";
const CANCELLING: &str = "Cancelling deletion of Pod";

/// Waits for deadlines and evicts pods.
pub(super) struct Evictor {
    schedule: Arc<Mutex<Schedule>>,
    changed: Notify,
    due: WorkQueue<DueEviction>,
    pods: Lister<PodView>,
    nodes: Lister<NodeView>,
    reader: Reader,
    writer: Writer,
    recorder: Recorder,
    clock: Clock,
    metrics: Metrics,
}

/// The result of evaluating a due eviction against the caches.
enum CacheVerdict {
    /// The pod must be evicted.
    Evict(Arc<PodView>),
    /// The pod tolerates all remaining taints of its node forever.
    Tolerated,
    /// The pod does not exist, or its name belongs to another one.
    Gone,
}

/// The result of a successful attempt.
enum EvictionOutcome {
    Deleted,
    /// The eviction was cancelled before the delete.
    Cancelled,
    /// The pod tolerates all remaining taints of its node forever.
    Tolerated,
    /// The pod no longer exists, or its name belongs to another one.
    Gone,
}

impl Evictor {
    pub(super) fn new(context: &ControllerContext, pods: Lister<PodView>, nodes: Lister<NodeView>) -> Self {
        Self {
            schedule: Arc::default(),
            changed: Notify::new(),
            due: context.queue("taint_evictions"),
            pods,
            nodes,
            reader: context.reader(names::TAINT_EVICTION),
            writer: context.writer(names::TAINT_EVICTION),
            recorder: context.recorder(names::TAINT_EVICTION, names::TAINT_EVICTION),
            clock: context.clock.clone(),
            metrics: context.metrics.clone(),
        }
    }

    /// Returns the queue of due evictions, which also holds the back-off of retries.
    pub(super) fn queue(&self) -> &WorkQueue<DueEviction> {
        &self.due
    }

    /// Returns the number of evictions that are waiting or running.
    pub(super) fn scheduled(&self) -> usize {
        self.schedule().count()
    }

    /// Updates the eviction of `pod` according to `plan`.
    pub(super) fn apply_plan(&self, pod: &PodRef, (plan, source): (EvictionPlan, TaintSource)) {
        let now = self.clock.monotonic();
        let transition = self.schedule().apply_plan(pod, (plan, source), now);
        self.report_cancelled(pod, transition);
        if transition.fire {
            self.due.add(DueEviction { pod: pod.clone(), fire_at: now });
        }
        if matches!(plan, EvictionPlan::After(_)) {
            self.changed.notify_one();
        }
    }

    /// Handles the deletion of a pod, or its replacement by another one with the same name.
    pub(super) fn pod_deleted(&self, pod: &PodRef) {
        let transition = self.schedule().pod_deleted(&pod.uid);
        self.report_cancelled(pod, transition);
    }

    fn report_cancelled(&self, pod: &PodRef, transition: Transition) {
        if transition.cancelled {
            self.event(&pod.key, CANCELLING);
            // The timers only depend on deadlines that were added or removed.
            self.changed.notify_one();
        }
    }

    /// Moves evictions whose deadline has passed to the queue, until `stop` is cancelled.
    pub(super) async fn fire_timers(&self, stop: &CancellationToken) {
        loop {
            let changed = self.changed.notified();
            let next = {
                let mut schedule = self.schedule();
                schedule.take_due(self.clock.monotonic()).into_iter().for_each(|due| self.due.add(due));
                schedule.next_deadline()
            };
            let deadline = async {
                match next {
                    Some(deadline) => self.clock.sleep_until_monotonic(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = deadline => {}
                () = changed => {}
            }
        }
    }

    /// Evicts one pod: five quick attempts the first time, one per back-off after that, until it succeeds or is no
    /// longer due (N-086).
    pub(super) async fn evict(&self, due: DueEviction) -> Outcome {
        let Some(source) = self.schedule().start_attempt(&due) else { return Outcome::Forget };
        let first = self.due.num_requeues(&due) == 0;
        // The first attempt may use the cache: both its writes have the UID as precondition. After a failure, and if it
        // has its mark already or an earlier eviction has written it, the pod is read from the server.
        let is_written = self.schedule().is_written(&due.pod.uid);
        let mut cached = match self.verdict(&due.pod) {
            CacheVerdict::Evict(cached) => (first && !is_written).then_some(cached),
            verdict => {
                self.schedule().finish(&due);
                // A pod that disappeared between two attempts was evicted as announced: nothing was cancelled.
                if first || matches!(verdict, CacheVerdict::Tolerated) {
                    self.event(&due.pod.key, CANCELLING);
                }
                return Outcome::Forget;
            }
        };
        if first {
            self.event(&due.pod.key, MARKING);
        }
        let tries = if first { DELETE_RETRIES } else { 1 };
        for number in 1..=tries {
            match self.try_once(&due, cached.take(), source).await {
                Ok(outcome) => {
                    match outcome {
                        EvictionOutcome::Deleted => self.metrics.taint_eviction(self.latency(&due)),
                        EvictionOutcome::Tolerated => self.event(&due.pod.key, CANCELLING),
                        EvictionOutcome::Cancelled => self.report_cancelled_unless_gone(&due.pod),
                        EvictionOutcome::Gone => {}
                    }
                    self.schedule().finish(&due);
                    return Outcome::Forget;
                }
                Err(_) if number == tries && !self.schedule().fail_attempt(&due) => {
                    self.report_cancelled_unless_gone(&due.pod);
                    return Outcome::Forget;
                }
                Err(error) if number == tries => {
                    tracing::warn!(pod = %due.pod.key, %error, "pod was not evicted, retrying with back-off");
                    return Outcome::Retry;
                }
                Err(_) => self.clock.sleep(DELETE_RETRY_PAUSE).await,
            }
        }
        Outcome::Retry
    }

    /// Reports an eviction that was cancelled during an attempt. Only now is it certain that the pod stays, unless it
    /// was deleted otherwise.
    fn report_cancelled_unless_gone(&self, pod: &PodRef) {
        if !matches!(self.verdict(pod), CacheVerdict::Gone) {
            self.event(&pod.key, CANCELLING);
        }
    }

    /// Evaluates the pod with the caches. An unknown node changes nothing (N-088).
    fn verdict(&self, pod: &PodRef) -> CacheVerdict {
        let Some(cached) = self.pods.get(&pod.key).filter(|cached| cached.uid() == &*pod.uid) else {
            return CacheVerdict::Gone;
        };
        let Some(node) = self.nodes.get(&ObjectKey::cluster(cached.spec.node_name.to_arc())) else {
            return CacheVerdict::Evict(cached);
        };
        match decide(&node.spec.taints, &cached.spec.tolerations) {
            EvictionPlan::Keep => CacheVerdict::Tolerated,
            EvictionPlan::After(_) | EvictionPlan::Now => CacheVerdict::Evict(cached),
        }
    }

    /// Sets the condition `DisruptionTarget` unless it is set already, then deletes the pod with its own grace period
    /// (N-051, N-052).
    ///
    /// For a pod that was bound to a node with a known taint, the node is read from the server first: the scheduler may
    /// have observed the removal of the taint before our watch did (kubernetes/kubernetes#119862). Nothing is written
    /// after the eviction was cancelled, however long reading and marking the pod takes.
    async fn try_once(
        &self,
        due: &DueEviction,
        cached: Option<Arc<PodView>>,
        source: TaintSource,
    ) -> Result<EvictionOutcome, ApiError> {
        let pod = &due.pod;
        // A mark in the cache may have been overwritten since, so a marked pod is read from the server.
        let read = match cached.filter(|cached| self.marked(cached).is_some()) {
            Some(cached) => Ok(cached),
            None => self.reader.get::<PodView>(&pod.key).await.map(Arc::new),
        };
        let seen = match read {
            Ok(seen) if seen.uid() == &*pod.uid => seen,
            Ok(_) | Err(ApiError::NotFound(_)) => return Ok(EvictionOutcome::Gone),
            Err(error) => return Err(error),
        };
        if source == TaintSource::AlreadyKnown && self.tolerates_now(&seen).await? {
            return Ok(EvictionOutcome::Tolerated);
        }
        if let Some((old, new)) = self.marked(&seen)
            && let Some(status) = status_patch(&json!(old), &json!(new))
        {
            if !self.schedule().begin_write(due) {
                return Ok(EvictionOutcome::Cancelled);
            }
            let action = Action::PatchPodStatus { pod: pod.key.clone(), uid: Arc::clone(&pod.uid), status };
            self.writer(due).apply(&action, "NoExecute taint").await?;
        }
        if !self.schedule().begin_write(due) {
            return Ok(EvictionOutcome::Cancelled);
        }
        let action = Action::DeletePod { pod: pod.key.clone(), uid: Arc::clone(&pod.uid), grace_seconds: None };
        self.writer(due).apply(&action, "NoExecute taint").await?;
        Ok(EvictionOutcome::Deleted)
    }

    /// Returns the pod's status without and with the condition `DisruptionTarget`; `None` if the pod has it.
    fn marked(&self, pod: &PodView) -> Option<(PodStatus, PodStatus)> {
        let old = pod.status.to_status();
        let mut new = old.clone();
        update_pod_condition(&mut new.conditions, condition(pod.generation()), self.clock.now()).then_some((old, new))
    }

    /// Returns a writer whose client repeats no request, at the wish of a busy server, after `due` was cancelled.
    fn writer(&self, due: &DueEviction) -> Writer {
        let schedule = Arc::clone(&self.schedule);
        let due = due.clone();
        self.writer.repeating_while(RepeatWhile::new(move || schedule.lock().is_running(&due)))
    }

    /// Returns true if the pod tolerates the current taints of its node, read from the server. A deleted node changes
    /// nothing (N-088).
    async fn tolerates_now(&self, pod: &PodView) -> Result<bool, ApiError> {
        match self.reader.get::<NodeView>(&ObjectKey::cluster(pod.spec.node_name.to_arc())).await {
            Ok(node) => Ok(decide(&node.spec.taints, &pod.spec.tolerations) == EvictionPlan::Keep),
            Err(ApiError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the time since the deadline, for the metric (N-091).
    fn latency(&self, due: &DueEviction) -> Duration {
        self.clock.monotonic().saturating_sub(due.fire_at)
    }

    /// Events name the pod without its UID, as upstream's do.
    fn event(&self, pod: &ObjectKey, what: &str) {
        let about = ObjectReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            ..ObjectReference::default()
        };
        self.recorder.event(about, EventType::Normal, REASON, format!("{what} {pod}"));
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::context::testing::{context, is_list, items, run_informers};
    use crate::runtime::queue::WatchedQueue as _;
    use crate::runtime::testing::{MockResponse, ReceivedRequest};
    use crate::runtime::workers;

    fn pod() -> PodRef {
        PodRef { uid: "1".into(), key: ObjectKey::new("ns", "p") }
    }

    #[rstest]
    #[case::ahead("2026-01-01T01:00:00Z")]
    #[case::back("2025-12-31T23:00:00Z")]
    #[tokio::test(start_paused = true)]
    async fn a_step_of_the_systems_clock_moves_no_countdown(#[case] stepped: &str) {
        let wall = Arc::new(Mutex::new("2026-01-01T00:00:00Z".parse().unwrap()));
        let clock = Clock::manual(Arc::clone(&wall));
        let (context, _) = context(&clock, |_| MockResponse::Hang);
        let evictor = Evictor::new(&context, context.informer().lister(), context.informer().lister());
        evictor.apply_plan(&pod(), (EvictionPlan::After(Duration::from_mins(5)), TaintSource::NodeUpdate));
        *wall.lock() = stepped.parse().unwrap();
        let due_within = async |seconds| {
            let _ = clock.timeout(Duration::from_secs(seconds), evictor.fire_timers(&context.stop)).await;
            evictor.queue().status().ready
        };
        assert_eq!(due_within(299).await, 0);
        assert_eq!(due_within(2).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_admission_of_many_pods_holds_up_no_other() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let stored = |number: u32| {
            let metadata = json!({ "namespace": "ns", "name": format!("p{number:03}"), "uid": number.to_string() });
            json!({ "metadata": metadata, "spec": { "nodeName": "n1" } })
        };
        let pods: Vec<_> = (0..=200).map(stored).collect();
        let (context, log) = context(&clock, move |seen| {
            let named = seen.line.contains("/p200");
            match seen.line.split_once(' ').map_or("", |(method, _)| method) {
                "GET" if is_list(seen, "pods") => items(&pods),
                "PATCH" | "DELETE" if named => MockResponse::Json(200, json!({})),
                _ => MockResponse::Hang,
            }
        });
        let informer = context.informer::<PodView>();
        let _running = run_informers(&context).await;
        let evictor = Evictor::new(&context, informer.lister(), context.informer().lister());
        for pod in informer.lister().list() {
            let pod = PodRef { uid: Arc::clone(&pod.metadata.uid), key: pod.key() };
            evictor.apply_plan(&pod, (EvictionPlan::Now, TaintSource::NodeUpdate));
        }
        let evict =
            workers::run("taint_evictions", evictor.queue(), EVICTION_WORKERS, &context.stop, |due| evictor.evict(due));
        let _ = clock.timeout(Duration::from_secs(1), evict).await;
        let deleted = |seen: &&ReceivedRequest| seen.line.starts_with("DELETE") && seen.line.contains("/p200");
        assert_eq!(log.lock().iter().filter(deleted).count(), 1);
    }
}
