//! client-go's guarantees of work queues, one by one and against a model.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use futures::FutureExt;
use proptest::prelude::*;

use super::WorkQueue;
use crate::runtime::clock::Clock;
use crate::runtime::metrics::Metrics;
use crate::runtime::queue::WatchedQueue as _;
use crate::runtime::testing::must_end;

fn queue<K: Ord + Clone>() -> WorkQueue<K> {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    WorkQueue::new(clock, Metrics::new().queue("test"))
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn pass(duration: Duration) {
    tokio::time::advance(duration).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_key_is_there_once() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    queue.add("a");
    assert_eq!(queue.status().ready, 2);
    assert_eq!(must_end(queue.get()).await, "a");
    assert_eq!(must_end(queue.get()).await, "b");
    assert!(queue.get().now_or_never().is_none(), "empty: get waits");
}

#[tokio::test(start_paused = true)]
async fn a_key_in_work_is_not_handed_out_until_done() {
    let queue = queue();
    queue.add("a");
    assert_eq!(must_end(queue.get()).await, "a");
    queue.add("a");
    assert_eq!((queue.status().ready, queue.status().processing), (0, 1));
    assert!(queue.get().now_or_never().is_none());
    queue.done(&"a");
    assert_eq!(must_end(queue.get()).await, "a", "added again while in work");
    queue.done(&"a");
    assert!(queue.get().now_or_never().is_none(), "not added again");
}

/// As client-go's `workqueue_queue_duration_seconds`.
#[tokio::test(start_paused = true)]
async fn a_wait_counts_from_the_add_also_of_a_key_in_work() {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let metrics = Metrics::new();
    let queue = WorkQueue::new(clock, metrics.queue("test"));
    queue.add("a");
    must_end(queue.get()).await;
    queue.add("a");
    pass(ms(4000)).await;
    queue.done(&"a");
    pass(ms(1000)).await;
    must_end(queue.get()).await;
    let metrics = metrics.encode();
    assert!(metrics.contains("workqueue_queue_duration_seconds_sum{name=\"test\"} 5.0\n"), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn the_earliest_deadline_counts_and_fires_once() {
    let queue = queue();
    queue.add_after("a", ms(500));
    queue.add_after("a", ms(100));
    queue.add_after("a", ms(900));
    pass(ms(99)).await;
    assert!(queue.status().ready == 0);
    pass(ms(1)).await;
    assert_eq!(queue.status().ready, 1);
    assert_eq!(must_end(queue.get()).await, "a");
    queue.done(&"a");
    pass(ms(2000)).await;
    assert!(queue.status().ready == 0 && queue.status().delayed == 0);
}

#[tokio::test(start_paused = true)]
async fn an_add_does_not_cancel_the_delay() {
    let queue = queue();
    queue.add_after("a", ms(100));
    queue.add("a");
    assert_eq!(must_end(queue.get()).await, "a");
    queue.done(&"a");
    assert_eq!(must_end(queue.get()).await, "a", "the delayed one comes too");
}

#[tokio::test(start_paused = true)]
async fn get_wakes_at_the_deadline_even_for_an_earlier_one_set_later() {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let queue = WorkQueue::new(clock.clone(), Metrics::new().queue("test"));
    queue.add_after("late", Duration::from_mins(1));
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { must_end(queue.get()).await }
    });
    tokio::task::yield_now().await;
    queue.add_after("soon", ms(10));
    assert_eq!(getter.await.unwrap(), "soon");
    assert_eq!(clock.monotonic(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn a_key_due_while_all_workers_were_busy_goes_before_one_added_later() {
    let queue = queue();
    queue.add_after("due", ms(10));
    pass(ms(50)).await;
    queue.add("later");
    assert_eq!(must_end(queue.get()).await, "due");
    assert_eq!(must_end(queue.get()).await, "later");
}

#[tokio::test(start_paused = true)]
async fn failures_earn_longer_delays_until_forgotten() {
    let queue = queue();
    for (failure, delay) in [5, 10, 20, 40].into_iter().enumerate() {
        queue.add_rate_limited("a");
        assert_eq!(queue.num_requeues(&"a"), u32::try_from(failure).unwrap() + 1);
        pass(ms(delay - 1)).await;
        assert!(queue.status().ready == 0, "failure {failure} came back before {delay} ms");
        pass(ms(1)).await;
        assert_eq!(must_end(queue.get()).await, "a");
        queue.done(&"a");
    }
    queue.forget(&"a");
    queue.add_rate_limited("a");
    pass(ms(5)).await;
    assert_eq!(queue.status().ready, 1);
}

#[tokio::test(start_paused = true)]
async fn many_failing_keys_are_held_to_ten_a_second_after_the_first_hundred() {
    let queue = queue();
    for key in 0..110 {
        queue.add_rate_limited(key);
    }
    pass(ms(99)).await;
    assert_eq!(queue.status().ready, 100);
    pass(ms(901)).await;
    assert_eq!(queue.status().ready, 110);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_get_loses_no_key() {
    let queue = queue::<&str>();
    let mut first = Box::pin(queue.get());
    assert!(first.as_mut().now_or_never().is_none());
    queue.add("a");
    drop(first);
    assert_eq!(queue.get().now_or_never(), Some("a"));
}

/// An operation on the queue; keys are small numbers, so that they collide.
#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    AddAfter(u8, u64),
    Get,
    Done,
    Pass(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => (0..4_u8).prop_map(Op::Add),
        2 => (0..4_u8, 0..50_u64).prop_map(|(key, delay)| Op::AddAfter(key, delay)),
        3 => Just(Op::Get),
        2 => Just(Op::Done),
        2 => (0..30_u64).prop_map(Op::Pass),
    ];
    prop::collection::vec(op, 0..60)
}

/// client-go's three sets, in their simplest form.
#[derive(Default)]
struct Model {
    now: u64,
    queue: VecDeque<u8>,
    dirty: BTreeSet<u8>,
    processing: BTreeSet<u8>,
    waiting: BTreeMap<u8, (u64, usize)>,
    step: usize,
}

impl Model {
    fn add(&mut self, key: u8) {
        if self.dirty.insert(key) && !self.processing.contains(&key) {
            self.queue.push_back(key);
        }
    }

    fn promote(&mut self) {
        let mut due: Vec<_> =
            self.waiting.iter().filter(|(_, (at, _))| *at <= self.now).map(|(k, at)| (*at, *k)).collect();
        due.sort_unstable();
        for (_, key) in due {
            self.waiting.remove(&key);
            self.add(key);
        }
    }

    fn get(&mut self) -> Option<u8> {
        let key = self.queue.pop_front()?;
        self.dirty.remove(&key);
        self.processing.insert(key);
        Some(key)
    }
}

proptest! {
    #[test]
    fn behaves_as_the_model(ops in ops()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = queue();
            let mut model = Model::default();
            for op in ops {
                model.step += 1;
                model.promote();
                match op {
                    Op::Add(key) => {
                        queue.add(key);
                        model.add(key);
                    }
                    Op::AddAfter(key, delay) => {
                        queue.add_after(key, ms(delay));
                        let at = model.now + delay;
                        if delay == 0 {
                            model.add(key);
                        } else if model.waiting.get(&key).is_none_or(|(due, _)| at < *due) {
                            model.waiting.insert(key, (at, model.step));
                        }
                    }
                    Op::Get => prop_assert_eq!(queue.get().now_or_never(), model.get()),
                    Op::Done => {
                        if let Some(key) = model.processing.pop_first() {
                            queue.done(&key);
                            if model.dirty.contains(&key) {
                                model.queue.push_back(key);
                            }
                        }
                    }
                    Op::Pass(millis) => {
                        pass(ms(millis)).await;
                        model.now += millis;
                        model.promote();
                    }
                }
                prop_assert_eq!(queue.status().ready, model.queue.len());
                prop_assert_eq!(queue.status().delayed, model.waiting.len());
                prop_assert_eq!(queue.status().processing, model.processing.len());
            }
            Ok(())
        })?;
    }
}
