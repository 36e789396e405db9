//! Work queues with client-go's semantics: deduplicating, delaying, rate-limiting.
//!
//! A key that is added while it is queued is queued once. A key that is added while a worker processes it is handed out
//! again only after [`WorkQueue::done`]: a key is never processed twice at the same time. Memory is bounded by the
//! number of distinct keys, independent of the rate of events.
//!
//! ```
//! use plumbline_controllers::runtime::clock::Clock;
//! use plumbline_controllers::runtime::metrics::Metrics;
//! use plumbline_controllers::runtime::queue::{WatchedQueue as _, WorkQueue};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue = WorkQueue::new(Clock::wall(), Metrics::new().queue("example"));
//! queue.add("default/web");
//! queue.add("default/web");
//! let key = queue.get().await;
//! queue.add(key);
//! assert_eq!(queue.status().ready, 0, "not handed out again while it is processed");
//! queue.done(&key);
//! assert_eq!(queue.get().await, "default/web");
//! # }
//! ```

pub mod rate_limit;

mod delay_queue;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use self::delay_queue::DelayQueue;
use self::rate_limit::RateLimiter;
use super::clock::Clock;
use super::metrics::QueueMetrics;

/// A queue of keys to process. Cheap to clone; clones share the queue.
#[derive(Debug)]
pub struct WorkQueue<K> {
    shared: Arc<QueueInner<K>>,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

#[derive(Debug)]
struct QueueInner<K> {
    clock: Clock,
    metrics: QueueMetrics,
    state: Mutex<QueueState<K>>,
    /// Wakes one waiting `get` for a ready key or a deadline. A `get` that returns a key wakes the next one.
    ready: Notify,
}

#[derive(Debug)]
struct QueueState<K> {
    /// Keys ready to be handed out, in order.
    queue: VecDeque<K>,
    /// Keys that need processing, with the time they were added: those in `queue`, and those added again while in
    /// `processing`.
    dirty: BTreeMap<K, Duration>,
    /// Keys handed out and not yet done, with the time they were handed out.
    processing: BTreeMap<K, Duration>,
    delayed: DelayQueue<K>,
    limiter: RateLimiter<K>,
    /// Time at which a key was last handed out, or at which the queue was last empty.
    last_progress: Duration,
}

/// The status of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// The queue's label in metrics.
    pub name: String,
    /// Keys ready to be handed out.
    pub ready: usize,
    /// Keys whose delay has not passed.
    pub delayed: usize,
    /// Keys handed out and not yet done.
    pub processing: usize,
    /// Total time that the keys in `processing` have been processed.
    pub unfinished: Duration,
    /// Time that the longest of them has been processed.
    pub longest_running: Duration,
    /// Time since the last key was handed out, while keys are ready.
    pub idle: Duration,
}

/// A work queue with any key type, as the application observes it.
pub trait WatchedQueue: Send + Sync {
    /// Returns the status of the queue.
    fn status(&self) -> QueueStatus;
}

impl<K: Ord + Clone + Send + Sync> WatchedQueue for WorkQueue<K> {
    fn status(&self) -> QueueStatus {
        let now = self.shared.clock.monotonic();
        let mut state = self.shared.state.lock();
        state.promote_due(now, &self.shared.metrics);
        let running: Vec<Duration> = state.processing.values().map(|since| now.saturating_sub(*since)).collect();
        QueueStatus {
            name: self.shared.metrics.name().to_owned(),
            ready: state.queue.len(),
            delayed: state.delayed.len(),
            processing: running.len(),
            unfinished: running.iter().sum(),
            longest_running: running.into_iter().max().unwrap_or_default(),
            idle: if state.queue.is_empty() { Duration::ZERO } else { now.saturating_sub(state.last_progress) },
        }
    }
}

impl<K: Ord + Clone> WorkQueue<K> {
    /// Creates an empty queue on `clock` that updates `metrics`.
    pub fn new(clock: Clock, metrics: QueueMetrics) -> Self {
        let state = QueueState {
            queue: VecDeque::new(),
            dirty: BTreeMap::new(),
            processing: BTreeMap::new(),
            delayed: DelayQueue::default(),
            limiter: RateLimiter::default(),
            last_progress: Duration::ZERO,
        };
        Self { shared: Arc::new(QueueInner { clock, metrics, state: Mutex::new(state), ready: Notify::new() }) }
    }

    /// Marks `key` as needing processing.
    pub fn add(&self, key: K) {
        self.with_state(|state, now, metrics| state.add(key, now, metrics));
    }

    /// Adds `key` after `delay`. If it is delayed already, the earlier deadline wins.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.with_state(|state, now, metrics| {
            metrics.retried();
            state.add_after(key, now, delay, metrics);
        });
    }

    /// Adds `key` after the back-off for its failures, and counts one more failure.
    pub fn add_rate_limited(&self, key: K) {
        self.with_state(|state, now, metrics| {
            let delay = state.limiter.when(&key, now);
            metrics.retried();
            state.add_after(key, now, delay, metrics);
        });
    }

    /// Resets the failures of `key`, so that its next back-off is the shortest.
    pub fn forget(&self, key: &K) {
        self.shared.state.lock().limiter.forget(key);
    }

    /// Returns how often `key` was added rate limited since the last [`Self::forget`].
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.shared.state.lock().limiter.num_requeues(key)
    }

    /// Waits for a key and marks it as being processed; the caller must call [`Self::done`] with it.
    ///
    /// Cancel safe: dropping the future loses no key.
    pub async fn get(&self) -> K {
        loop {
            let notified = self.shared.ready.notified();
            let deadline = {
                let mut state = self.shared.state.lock();
                let now = self.shared.clock.monotonic();
                state.promote_due(now, &self.shared.metrics);
                if let Some(key) = state.take(now, &self.shared.metrics) {
                    // This may have been the only `get` that waited for the next deadline.
                    self.shared.ready.notify_one();
                    return key;
                }
                state.delayed.next_deadline()
            };
            match deadline {
                None => notified.await,
                Some(deadline) => {
                    tokio::select! {
                        biased;
                        () = notified => {}
                        () = self.shared.clock.sleep_until_monotonic(deadline) => {}
                    }
                }
            }
        }
    }

    /// Ends the processing of `key`. If it was added in between, it becomes ready again.
    pub fn done(&self, key: &K) {
        self.with_state(|state, now, metrics| {
            if let Some(since) = state.processing.remove(key) {
                metrics.worked(now.saturating_sub(since));
            }
            if state.dirty.contains_key(key) {
                state.push(key.clone(), now);
                metrics.depth(state.queue.len());
            }
        });
    }

    fn with_state(&self, change: impl FnOnce(&mut QueueState<K>, Duration, &QueueMetrics)) {
        let mut state = self.shared.state.lock();
        let now = self.shared.clock.monotonic();
        // Keys that became due while all workers were busy come before the new one.
        state.promote_due(now, &self.shared.metrics);
        change(&mut state, now, &self.shared.metrics);
        drop(state);
        self.shared.ready.notify_one();
    }
}

impl<K: Ord + Clone> QueueState<K> {
    fn add(&mut self, key: K, now: Duration, metrics: &QueueMetrics) {
        if self.dirty.contains_key(&key) {
            return;
        }
        self.dirty.insert(key.clone(), now);
        metrics.added();
        if !self.processing.contains_key(&key) {
            self.push(key, now);
            metrics.depth(self.queue.len());
        }
    }

    fn push(&mut self, key: K, now: Duration) {
        if self.queue.is_empty() {
            self.last_progress = now;
        }
        self.queue.push_back(key);
    }

    fn add_after(&mut self, key: K, now: Duration, delay: Duration, metrics: &QueueMetrics) {
        if delay.is_zero() { self.add(key, now, metrics) } else { self.delayed.insert(key, now.saturating_add(delay)) }
    }

    fn promote_due(&mut self, now: Duration, metrics: &QueueMetrics) {
        while let Some(key) = self.delayed.pop_due(now) {
            self.add(key, now, metrics);
        }
    }

    fn take(&mut self, now: Duration, metrics: &QueueMetrics) -> Option<K> {
        let key = self.queue.pop_front()?;
        self.last_progress = now;
        let added = self.dirty.remove(&key).unwrap_or(now);
        self.processing.insert(key.clone(), now);
        metrics.depth(self.queue.len());
        metrics.waited(now.saturating_sub(added));
        Some(key)
    }
}

#[cfg(test)]
mod tests;
