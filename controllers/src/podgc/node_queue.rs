//! SHELL: the quarantine with the metrics of a work queue, `workqueue_*{name="orphaned_pods_nodes"}`, as upstream's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::quarantine::Quarantine;
use crate::runtime::clock::Clock;
use crate::runtime::metrics::QueueMetrics;
use crate::runtime::queue::{QueueStatus, WatchedQueue};

/// Name of the queue in metrics.
pub(super) const NODE_QUEUE: &str = "orphaned_pods_nodes";

/// Missing nodes: each is handed out once its quarantine is over. Cheap to clone; clones share the queue.
#[derive(Clone)]
pub(super) struct NodeQueue {
    shared: Arc<NodeQueueInner>,
}

struct NodeQueueInner {
    clock: Clock,
    metrics: QueueMetrics,
    quarantine: Mutex<Quarantine>,
    /// Time since when a node is being read.
    processing: Mutex<Option<Duration>>,
}

/// The reading of a node; ends when dropped.
pub(super) struct Processing<'q> {
    queue: &'q NodeQueueInner,
}

impl NodeQueue {
    pub(super) fn new(clock: Clock, metrics: QueueMetrics) -> Self {
        let quarantine = Mutex::default();
        let processing = Mutex::default();
        Self { shared: Arc::new(NodeQueueInner { clock, metrics, quarantine, processing }) }
    }

    /// Puts the `unknown` nodes into quarantine, and takes those out whose quarantine is over. Returns the ones that
    /// are still not `known`.
    pub(super) fn next(&self, unknown: Vec<&str>, known: &BTreeSet<String>) -> Vec<String> {
        let NodeQueueInner { clock, metrics, .. } = &*self.shared;
        let now = clock.monotonic();
        let mut quarantine = self.shared.quarantine.lock();
        for deadline in quarantine.release(now) {
            metrics.added();
            metrics.waited(now.saturating_sub(deadline));
        }
        for name in unknown {
            metrics.retried();
            quarantine.observe(name, now);
        }
        quarantine.take(known)
    }

    /// Begins to read a node that was handed out.
    pub(super) fn begin(&self) -> Processing<'_> {
        *self.shared.processing.lock() = Some(self.shared.clock.monotonic());
        Processing { queue: &self.shared }
    }

    /// Number of nodes in quarantine.
    pub(super) fn waiting(&self) -> usize {
        self.shared.quarantine.lock().count()
    }
}

impl Drop for Processing<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.queue.processing.lock().take() {
            self.queue.metrics.worked(self.queue.clock.monotonic().saturating_sub(since));
        }
    }
}

/// Nodes are handed out by the cycle alone, so none is ever ready and the queue is never stuck, however long a cycle
/// takes.
impl WatchedQueue for NodeQueue {
    fn status(&self) -> QueueStatus {
        let since = *self.shared.processing.lock();
        let running = since.map_or(Duration::ZERO, |since| self.shared.clock.monotonic().saturating_sub(since));
        QueueStatus {
            name: NODE_QUEUE.to_owned(),
            ready: 0,
            delayed: self.waiting(),
            processing: usize::from(since.is_some()),
            unfinished: running,
            longest_running: running,
            idle: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::metrics::Metrics;

    #[tokio::test(start_paused = true)]
    async fn a_missing_node_is_counted_as_in_upstreams_queue() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let metrics = Metrics::new();
        let queue = NodeQueue::new(clock.clone(), metrics.queue(NODE_QUEUE));
        let value = |name: &str| metrics.value(name, &[("name", NODE_QUEUE)]).unwrap_or_default();
        let none = BTreeSet::new();
        assert!(queue.next(vec!["n1"], &none).is_empty());
        clock.sleep(Duration::from_secs(20)).await;
        assert!(queue.next(vec!["n1"], &none).is_empty());
        assert_eq!((value("workqueue_retries_total"), value("workqueue_adds_total")), (2.0, 0.0));
        assert_eq!((queue.status().delayed, queue.waiting()), (1, 1));
        clock.sleep(Duration::from_secs(25)).await;
        assert_eq!(queue.next(vec!["n1"], &none), ["n1"]);
        assert_eq!((value("workqueue_retries_total"), value("workqueue_adds_total")), (3.0, 1.0));
        assert_eq!((queue.waiting(), value("workqueue_queue_duration_seconds_sum")), (1, 5.0));
        let processing = queue.begin();
        clock.sleep(Duration::from_secs(2)).await;
        assert_eq!(queue.status().longest_running, Duration::from_secs(2));
        drop(processing);
        assert_eq!((queue.status().processing, value("workqueue_work_duration_seconds_sum")), (0, 2.0));
    }
}
