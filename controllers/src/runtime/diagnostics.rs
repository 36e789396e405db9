//! Diagnostics of the running program: health checks, metrics, caches, queues. Read-only; keeps nothing alive.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::clock::Clock;
use super::informer::{InformerStatus, SharedInformer};
use super::leadership::Leadership;
use super::metrics::Metrics;
use super::queue::{QueueStatus, WatchedQueue};

/// A queue that has keys but hands none out for this long is stuck, and so is a key that is processed for this long.
/// Much longer than all attempts of a request together, so that an unavailable API server never causes a restart.
pub const STUCK_AFTER: Duration = Duration::from_mins(30);
/// Time after the expiry of its lease at which a leader that did not notice it counts as dead, as upstream.
pub const LEASE_GRACE: Duration = Duration::from_secs(20);

/// Phase of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Caches are being filled, or another replica leads.
    Waiting,
    /// Controllers run since this monotonic time.
    Running(Duration),
    /// Shutting down.
    Stopping,
}

/// A gauge of a controller's pending work outside of queues, such as timers.
#[derive(Clone)]
pub struct PendingGauge {
    pub(crate) name: &'static str,
    pub(crate) count: Arc<dyn Fn() -> usize + Send + Sync>,
}

/// A health check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name in verbose output, in `exclude` and in the path.
    pub name: &'static str,
    /// The problem, in one sentence; `None` if it passes.
    pub problem: Option<String>,
}

impl Check {
    /// Creates a check that fails if there is a `problem`.
    pub fn new(name: &'static str, problem: Option<String>) -> Self {
        Self { name, problem }
    }
}

/// Diagnostics of one program. Cheap to clone.
#[derive(Clone)]
pub struct Diagnostics {
    clock: Clock,
    metrics: Metrics,
    leadership: Leadership,
    /// Duration of the lease, if there is an election.
    lease_duration: Option<Duration>,
    informers: Arc<[Weak<dyn SharedInformer>]>,
    queues: Arc<[Arc<dyn WatchedQueue>]>,
    pending: Arc<[PendingGauge]>,
    phase: Arc<Mutex<Phase>>,
}

impl Diagnostics {
    pub(crate) fn new(
        clock: Clock,
        metrics: Metrics,
        leadership: Leadership,
        lease_duration: Option<Duration>,
        informers: Vec<Arc<dyn SharedInformer>>,
        (queues, pending): (Vec<Arc<dyn WatchedQueue>>, Vec<PendingGauge>),
    ) -> Self {
        let informers = informers.iter().map(Arc::downgrade).collect();
        let phase = Arc::new(Mutex::new(Phase::Waiting));
        Self {
            clock,
            metrics,
            leadership,
            lease_duration,
            informers,
            queues: queues.into(),
            pending: pending.into(),
            phase,
        }
    }

    pub(crate) fn set_running(&self) {
        *self.phase.lock() = Phase::Running(self.clock.monotonic());
    }

    pub(crate) fn set_stopping(&self) {
        *self.phase.lock() = Phase::Stopping;
    }

    /// Returns the phase of the program.
    pub fn phase(&self) -> Phase {
        *self.phase.lock()
    }

    /// Returns the liveness checks; a failure means that a restart would help.
    pub fn liveness_checks(&self) -> Vec<Check> {
        vec![
            Check::new("ping", None),
            Check::new("leaderElection", self.stale_leadership()),
            Check::new("queues", self.stuck_queue()),
        ]
    }

    /// Returns the readiness checks: the program can work now, or take over at once as a standby.
    pub fn readiness_checks(&self) -> Vec<Check> {
        let missing: Vec<String> = self
            .informers()
            .into_iter()
            .filter(|informer| !informer.synced)
            .map(|informer| informer.resource)
            .collect();
        let unsynced = (!missing.is_empty()).then(|| format!("caches not synced: {}", missing.join(", ")));
        let stopping = (self.phase() == Phase::Stopping).then(|| "stopping".to_owned());
        vec![
            Check::new("ping", None),
            Check::new("informer-sync", unsynced),
            Check::new("leaderElection", self.stale_leadership()),
            Check::new("shutdown", stopping),
        ]
    }

    /// Returns a problem if this replica still leads although its lease expired long ago.
    fn stale_leadership(&self) -> Option<String> {
        let unrenewed = self.leadership.unrenewed_for(&self.clock)?;
        let limit = self.lease_duration? + LEASE_GRACE;
        (unrenewed > limit).then(|| format!("leading although the lease was not renewed for {} s", unrenewed.as_secs()))
    }

    fn stuck_queue(&self) -> Option<String> {
        let Phase::Running(since) = self.phase() else { return None };
        let running = self.clock.monotonic().saturating_sub(since);
        self.queues.iter().map(|queue| queue.status()).find_map(|queue| {
            let name = queue.name;
            if queue.longest_running > STUCK_AFTER {
                return Some(format!(
                    "a key of queue {name} has been processed for {} s",
                    queue.longest_running.as_secs()
                ));
            }
            let idle = queue.idle.min(running);
            (queue.ready > 0 && idle > STUCK_AFTER)
                .then(|| format!("queue {name} has {} keys and handed out none for {} s", queue.ready, idle.as_secs()))
        })
    }

    /// Returns all metrics in the text format of `OpenMetrics`, including those that are computed on request.
    pub fn metrics(&self) -> String {
        for queue in self.queues.iter().map(|queue| queue.status()) {
            self.metrics.set_queue_status(&queue.name, queue.unfinished, queue.longest_running, queue.delayed);
        }
        for informer in self.informers() {
            let silence = informer.last_contact.map_or(Duration::ZERO, |at| self.since(at));
            self.metrics.set_informer_status(&informer.resource, informer.synced, silence);
        }
        for pending in self.pending.iter() {
            self.metrics.set_pending(pending.name, (pending.count)());
        }
        self.metrics.refresh_process();
        self.metrics.encode()
    }

    /// Returns sizes and digests of caches and queues; contains no object names.
    pub fn caches(&self) -> Value {
        let informers: Vec<Value> = self.informers().into_iter().map(|informer| self.informer(&informer)).collect();
        let queues: Vec<Value> = self.queues.iter().map(|queue| queue_value(&queue.status())).collect();
        let phase = match self.phase() {
            Phase::Waiting => "waiting",
            Phase::Running(_) => "running",
            Phase::Stopping => "stopping",
        };
        let pending: Vec<Value> =
            self.pending.iter().map(|pending| json!({ "name": pending.name, "count": (pending.count)() })).collect();
        let leader = self.leadership.is_leader();
        json!({ "phase": phase, "leader": leader, "informers": informers, "queues": queues, "pending": pending })
    }

    fn informer(&self, informer: &InformerStatus) -> Value {
        json!({
            "resource": informer.resource,
            "synced": informer.synced,
            "objects": informer.objects,
            "checksum": format!("{:016x}", informer.checksum),
            "lists": informer.lists,
            "lastChange": informer.last_change,
            "lastContact": informer.last_contact,
            "secondsSinceContact": informer.last_contact.map(|at| self.since(at).as_secs()),
            "failures": informer.failures,
            "staleSince": informer.stale_since,
        })
    }

    fn informers(&self) -> Vec<InformerStatus> {
        self.informers.iter().filter_map(Weak::upgrade).map(|informer| informer.status()).collect()
    }

    fn since(&self, at: jiff::Timestamp) -> Duration {
        Duration::try_from(self.clock.now().duration_since(at)).unwrap_or_default()
    }
}

fn queue_value(queue: &QueueStatus) -> Value {
    json!({
        "name": queue.name,
        "ready": queue.ready,
        "delayed": queue.delayed,
        "inWork": queue.processing,
        "longestRunningSeconds": queue.longest_running.as_secs_f64(),
        "unfinishedSeconds": queue.unfinished.as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::queue::WorkQueue;
    use crate::runtime::testing::must_end;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    struct Setup {
        clock: Clock,
        leadership: Leadership,
        queue: WorkQueue<&'static str>,
        diagnostics: Diagnostics,
    }

    fn setup() -> Setup {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let metrics = Metrics::new();
        let leadership = Leadership::candidate();
        let queue = WorkQueue::new(clock.clone(), metrics.queue("q"));
        let queues: Vec<Arc<dyn WatchedQueue>> = vec![Arc::new(queue.clone())];
        let diagnostics =
            Diagnostics::new(clock.clone(), metrics, leadership.clone(), Some(s(15)), Vec::new(), (queues, Vec::new()));
        Setup { clock, leadership, queue, diagnostics }
    }

    fn failed(checks: &[Check]) -> Vec<String> {
        checks.iter().filter_map(|check| check.problem.clone()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_hands_nothing_out_is_stuck_but_only_while_controllers_run() {
        let Setup { clock, queue, diagnostics, .. } = setup();
        queue.add("a");
        clock.sleep(STUCK_AFTER * 2).await;
        assert_eq!(failed(&diagnostics.liveness_checks()), Vec::<String>::new(), "a standby processes nothing");
        diagnostics.set_running();
        clock.sleep(STUCK_AFTER).await;
        assert_eq!(failed(&diagnostics.liveness_checks()), Vec::<String>::new());
        clock.sleep(s(1)).await;
        assert_eq!(failed(&diagnostics.liveness_checks()), ["queue q has 1 keys and handed out none for 1801 s"]);
        let key = must_end(queue.get()).await;
        assert_eq!(failed(&diagnostics.liveness_checks()), Vec::<String>::new());
        queue.done(&key);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_processed_forever_is_stuck_and_visible_in_the_metrics() {
        let Setup { clock, queue, diagnostics, .. } = setup();
        diagnostics.set_running();
        queue.add("a");
        must_end(queue.get()).await;
        clock.sleep(s(100)).await;
        queue.add("b");
        must_end(queue.get()).await;
        clock.sleep(s(10)).await;
        let metrics = diagnostics.metrics();
        assert!(metrics.contains("workqueue_unfinished_work_seconds{name=\"q\"} 120.0"), "{metrics}");
        assert!(metrics.contains("workqueue_longest_running_processor_seconds{name=\"q\"} 110.0"), "{metrics}");
        clock.sleep(STUCK_AFTER).await;
        assert_eq!(failed(&diagnostics.liveness_checks()), ["a key of queue q has been processed for 1910 s"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_forgot_its_lease_is_dead() {
        let Setup { clock, leadership, diagnostics, .. } = setup();
        leadership.renew((clock.monotonic(), clock.now()), s(10));
        clock.sleep(s(35)).await;
        assert_eq!(failed(&diagnostics.liveness_checks()), Vec::<String>::new());
        clock.sleep(s(1)).await;
        assert_eq!(failed(&diagnostics.liveness_checks()), ["leading although the lease was not renewed for 36 s"]);
        leadership.revoke();
        assert_eq!(failed(&diagnostics.liveness_checks()), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopping_program_is_not_ready() {
        let Setup { diagnostics, .. } = setup();
        assert_eq!(failed(&diagnostics.readiness_checks()), Vec::<String>::new());
        diagnostics.set_stopping();
        assert_eq!(failed(&diagnostics.readiness_checks()), ["stopping"]);
    }
}
