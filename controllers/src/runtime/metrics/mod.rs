//! The metrics registry, with upstream's names.
//!
//! Series appear when they are first updated. [`Metrics::encode`] returns the text and [`Metrics::value`] a single
//! series; `Diagnostics::metrics` (in `diagnostics`) adds the metrics that are computed on request.

mod process;
mod requests;
pub mod text;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use self::process::ProcessMetrics;
pub use self::requests::RequestMetrics;

/// Handles to every metric of the process. Cheap to clone; clones share the values.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    force_deletes: Family<ForceDeleteLabels, Counter>,
    force_delete_errors: Family<ForceDeleteLabels, Counter>,
    taint_evictions: Counter,
    taint_eviction_latency: Histogram,
    queue_depth: Family<NameLabel, Gauge>,
    queue_adds: Family<NameLabel, Counter>,
    queue_retries: Family<NameLabel, Counter>,
    queue_latency: Family<NameLabel, Histogram, fn() -> Histogram>,
    queue_work: Family<NameLabel, Histogram, fn() -> Histogram>,
    events_dropped: Family<ReasonLabel, Counter>,
    informer_objects: Family<ResourceLabel, Gauge>,
    informer_relists: Family<ResourceLabel, Counter>,
    informer_errors: Family<ResourceLabel, Counter>,
    fail_safes: Family<ReasonLabel, Counter>,
    pending: Family<NameLabel, Gauge>,
    leader: Family<NameLabel, Gauge>,
    leader_slow_path: Family<NameLabel, Counter>,
    queue_unfinished: Family<NameLabel, FloatGauge>,
    queue_longest: Family<NameLabel, FloatGauge>,
    queue_delayed: Family<NameLabel, Gauge>,
    informer_synced: Family<ResourceLabel, Gauge>,
    informer_silence: Family<ResourceLabel, FloatGauge>,
    running: Family<ManagerLabels, Gauge>,
    build: Family<BuildLabels, Gauge>,
    requests: RequestMetrics,
    process: ProcessMetrics,
}

type FloatGauge = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ManagerLabels {
    manager: String,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ForceDeleteLabels {
    namespace: String,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabel {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabel {
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: String,
}

fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn queue_histogram() -> Histogram {
    Histogram::new(exponential_buckets(10e-9, 10.0, 10))
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Creates a registry with all metrics registered.
    pub fn new() -> Self {
        let latency_buckets = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];
        let metrics = Self {
            registry: Arc::new(Mutex::new(Registry::default())),
            force_deletes: Family::default(),
            force_delete_errors: Family::default(),
            taint_evictions: Counter::<u64, AtomicU64>::default(),
            taint_eviction_latency: Histogram::new(latency_buckets),
            queue_depth: Family::default(),
            queue_adds: Family::default(),
            queue_retries: Family::default(),
            queue_latency: Family::new_with_constructor(queue_histogram),
            queue_work: Family::new_with_constructor(queue_histogram),
            events_dropped: Family::default(),
            informer_objects: Family::default(),
            informer_relists: Family::default(),
            informer_errors: Family::default(),
            fail_safes: Family::default(),
            pending: Family::default(),
            leader: Family::default(),
            leader_slow_path: Family::default(),
            queue_unfinished: Family::default(),
            queue_longest: Family::default(),
            queue_delayed: Family::default(),
            informer_synced: Family::default(),
            informer_silence: Family::default(),
            running: Family::default(),
            build: Family::default(),
            requests: RequestMetrics::new(),
            process: ProcessMetrics::default(),
        };
        metrics.build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION").into() }).set(1);
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock();
        // The encoder appends `_total` to counters.
        let r = &mut *registry;
        let podgc = r.sub_registry_with_prefix("pod_gc_collector");
        podgc.register("force_delete_pods", "Pods that were forcefully deleted", self.force_deletes.clone());
        podgc.register("force_delete_pod_errors", "Forceful deletions that failed", self.force_delete_errors.clone());
        let taint = r.sub_registry_with_prefix("taint_eviction_controller");
        taint.register("pod_deletions", "Pods deleted by the taint-eviction controller", self.taint_evictions.clone());
        taint.register(
            "pod_deletion_duration_seconds",
            "Time from when the deletion was due to when it was done",
            self.taint_eviction_latency.clone(),
        );
        self.register_queues(r);
        self.register_own(r);
        let leader = r.sub_registry_with_prefix("leader_election");
        leader.register("master_status", "1 while this replica holds the lease of this name", self.leader.clone());
        leader.register("slowpath", "Renewals that took more than one request", self.leader_slow_path.clone());
        r.register("running_managed_controllers", "1 while the controller runs here", self.running.clone());
        self.requests.register(r);
        self.process.register(r);
    }

    fn register_queues(&self, r: &mut Registry) {
        let queue = r.sub_registry_with_prefix("workqueue");
        queue.register("depth", "Keys ready to be processed", self.queue_depth.clone());
        queue.register("adds", "Keys added", self.queue_adds.clone());
        queue.register("retries", "Keys added with a delay", self.queue_retries.clone());
        queue.register("queue_duration_seconds", "Time keys wait until handed out", self.queue_latency.clone());
        queue.register("work_duration_seconds", "Time keys are processed", self.queue_work.clone());
        queue.register(
            "unfinished_work_seconds",
            "Total time that the keys being processed have taken so far",
            self.queue_unfinished.clone(),
        );
        queue.register(
            "longest_running_processor_seconds",
            "Time that the longest-running key has taken so far",
            self.queue_longest.clone(),
        );
    }

    fn register_own(&self, r: &mut Registry) {
        let own = r.sub_registry_with_prefix("plumbline");
        own.register("events_dropped", "Events that were not written, by reason", self.events_dropped.clone());
        own.register("informer_objects", "Objects in the cache", self.informer_objects.clone());
        own.register("informer_lists", "Complete lists stored in the cache", self.informer_relists.clone());
        own.register("informer_errors", "Failed lists and watches", self.informer_errors.clone());
        own.register("informer_synced", "1 once the initial list is in the cache", self.informer_synced.clone());
        own.register(
            "informer_silence_seconds",
            "Time since the last response or data from the server, bookmarks included",
            self.informer_silence.clone(),
        );
        own.register("build_info", "1, with the version", self.build.clone());
        own.register("fail_safes", "Fail-safe branches taken, by reason", self.fail_safes.clone());
        own.register(
            "pending",
            "Pending work of controllers outside of queues: countdowns, quarantines",
            self.pending.clone(),
        );
        own.register("queue_delayed", "Keys whose delay has not passed", self.queue_delayed.clone());
    }

    /// Returns the metrics of client requests.
    pub fn requests(&self) -> RequestMetrics {
        self.requests.clone()
    }

    /// Sets whether the controller `name` runs in this process.
    pub fn running(&self, name: &str, runs: bool) {
        let labels = ManagerLabels { manager: "plumbline-controllers".into(), name: name.into() };
        self.running.get_or_create(&labels).set(runs.into());
    }

    /// Sets the current status of a queue.
    pub fn set_queue_status(&self, name: &str, unfinished: Duration, longest_running: Duration, delayed: usize) {
        let label = NameLabel { name: name.into() };
        self.queue_unfinished.get_or_create(&label).set(unfinished.as_secs_f64());
        self.queue_longest.get_or_create(&label).set(longest_running.as_secs_f64());
        self.queue_delayed.get_or_create(&label).set(gauge_value(delayed));
    }

    /// Sets the current amount of pending work under `name`.
    pub fn set_pending(&self, name: &str, count: usize) {
        self.pending.get_or_create(&NameLabel { name: name.into() }).set(gauge_value(count));
    }

    /// Sets the current status of an informer.
    pub fn set_informer_status(&self, resource: &str, synced: bool, silence: Duration) {
        let label = ResourceLabel { resource: resource.into() };
        self.informer_synced.get_or_create(&label).set(synced.into());
        self.informer_silence.get_or_create(&label).set(silence.as_secs_f64());
    }

    /// Updates the metrics of the process.
    pub fn refresh_process(&self) {
        self.process.refresh();
    }

    /// Counts a forced deletion by the pod garbage collector (attempts, as upstream counts them).
    pub fn force_delete(&self, namespace: &str, reason: &str) {
        self.force_deletes.get_or_create(&force_delete_labels(namespace, reason)).inc();
    }

    /// Counts a failed forced deletion by the pod garbage collector.
    pub fn force_delete_error(&self, namespace: &str, reason: &str) {
        self.force_delete_errors.get_or_create(&force_delete_labels(namespace, reason)).inc();
    }

    /// Counts a deletion by taint eviction that was done `latency` after it was due.
    pub fn taint_eviction(&self, latency: Duration) {
        self.taint_evictions.inc();
        self.taint_eviction_latency.observe(latency.as_secs_f64());
    }

    /// Counts an event that was not written.
    pub fn event_dropped(&self, reason: &str) {
        self.events_dropped.get_or_create(&ReasonLabel { reason: reason.into() }).inc();
    }

    /// Counts a fail-safe branch.
    pub fn fail_safe(&self, reason: &str) {
        self.fail_safes.get_or_create(&ReasonLabel { reason: reason.into() }).inc();
    }

    /// Sets whether this replica holds the lease `name`.
    pub fn leader(&self, name: &str, leads: bool) {
        self.leader.get_or_create(&NameLabel { name: name.into() }).set(leads.into());
    }

    /// Counts a renewal of the lease `name` that took more than one request.
    pub fn leader_slow_path(&self, name: &str) {
        self.leader_slow_path.get_or_create(&NameLabel { name: name.into() }).inc();
    }

    /// Returns the metrics of the work queue `name`.
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let label = NameLabel { name: name.into() };
        QueueMetrics {
            name: name.into(),
            depth: self.queue_depth.get_or_create_owned(&label),
            adds: self.queue_adds.get_or_create_owned(&label),
            retries: self.queue_retries.get_or_create_owned(&label),
            latency: self.queue_latency.get_or_create_owned(&label),
            work: self.queue_work.get_or_create_owned(&label),
        }
    }

    pub(super) fn informer(&self, resource: &str) -> InformerMetrics {
        let label = ResourceLabel { resource: resource.into() };
        InformerMetrics {
            objects: self.informer_objects.get_or_create_owned(&label),
            lists: self.informer_relists.get_or_create_owned(&label),
            errors: self.informer_errors.get_or_create_owned(&label),
        }
    }

    /// Returns all metrics in the text format of `OpenMetrics`.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock();
        if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
            tracing::error!("unable to encode metrics");
        }
        text
    }

    /// Returns the value of the series with exactly this name and label set, as exposed: `value("workqueue_depth",
    /// &[("name", "disruption")])`. `None` if the series does not exist yet.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let text = self.encode();
        text.lines().find_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (series_name, series_labels) = match series.split_once('{') {
                Some((series_name, rest)) => (series_name, rest.strip_suffix('}')?),
                None => (series, ""),
            };
            let mut wanted: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
            wanted.sort();
            let mut found: Vec<&str> = series_labels.split(',').filter(|label| !label.is_empty()).collect();
            found.sort_unstable();
            (series_name == name && wanted == found).then(|| value.parse().ok()).flatten()
        })
    }
}

fn force_delete_labels(namespace: &str, reason: &str) -> ForceDeleteLabels {
    ForceDeleteLabels { namespace: namespace.into(), reason: reason.into() }
}

/// Metrics of one work queue.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    name: String,
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    latency: Histogram,
    work: Histogram,
}

impl QueueMetrics {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn depth(&self, keys: usize) {
        self.depth.set(gauge_value(keys));
    }

    pub(crate) fn added(&self) {
        self.adds.inc();
    }

    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.latency.observe(time.as_secs_f64());
    }

    pub(crate) fn worked(&self, time: Duration) {
        self.work.observe(time.as_secs_f64());
    }
}

/// Metrics of one informer.
#[derive(Clone, Debug)]
pub(super) struct InformerMetrics {
    objects: Gauge,
    lists: Counter,
    errors: Counter,
}

impl InformerMetrics {
    pub(super) fn objects(&self, count: usize) {
        self.objects.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(super) fn listed(&self) {
        self.lists.inc();
    }

    pub(super) fn failed(&self) {
        self.errors.inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_names_and_labels() {
        let metrics = Metrics::new();
        metrics.force_delete("default", "orphaned");
        metrics.force_delete("default", "orphaned");
        metrics.taint_eviction(Duration::from_millis(700));
        metrics.queue("disruption").added();
        let orphaned = [("reason", "orphaned"), ("namespace", "default")];
        assert_eq!(metrics.value("pod_gc_collector_force_delete_pods_total", &orphaned), Some(2.0));
        assert_eq!(metrics.value("pod_gc_collector_force_delete_pod_errors_total", &orphaned), None);
        assert_eq!(metrics.value("taint_eviction_controller_pod_deletions_total", &[]), Some(1.0));
        assert_eq!(metrics.value("taint_eviction_controller_pod_deletion_duration_seconds_sum", &[]), Some(0.7));
        assert_eq!(metrics.value("workqueue_adds_total", &[("name", "disruption")]), Some(1.0));
    }
}
