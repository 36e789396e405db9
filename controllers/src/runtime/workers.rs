//! Workers of a queue: the loop that every controller runs.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::queue::WorkQueue;

/// The result of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success: reset the failures of the key.
    Forget,
    /// Failure: retry after the key's back-off.
    Retry,
    /// Failure, and the server requested a delay, which replaces the back-off.
    RetryAfter(Duration),
    /// The sync has handled the key itself (added, delayed or forgot it).
    Handled,
}

/// Runs `workers` workers that pass the keys of `queue` to `sync`, until `stop` is cancelled.
///
/// The workers run concurrently inside the returned future, never two on the same key; dropping the future drops them.
/// After `stop`, a sync in progress is finished first. A panic in a sync is logged and counts as a failure of its key
/// only.
pub async fn run<K, F, S>(name: &str, queue: &WorkQueue<K>, workers: usize, stop: &CancellationToken, sync: S)
where
    K: Ord + Clone + fmt::Debug,
    S: Fn(K) -> F,
    F: Future<Output = Outcome>,
{
    join_all((0..workers.max(1)).map(|_| work(name, queue, stop, &sync))).await;
}

async fn work<K, F, S>(name: &str, queue: &WorkQueue<K>, stop: &CancellationToken, sync: &S)
where
    K: Ord + Clone + fmt::Debug,
    S: Fn(K) -> F,
    F: Future<Output = Outcome>,
{
    loop {
        let key = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            key = queue.get() => key,
        };
        let span = tracing::info_span!("sync", queue = name, ?key);
        let outcome = AssertUnwindSafe(async { sync(key.clone()).await }).catch_unwind().instrument(span).await;
        let outcome = outcome.unwrap_or_else(|panic| {
            tracing::error!(queue = name, ?key, panic = panic_text(&*panic), "sync panicked, the key will be retried");
            Outcome::Retry
        });
        match outcome {
            Outcome::Forget => queue.forget(&key),
            Outcome::Retry => queue.add_rate_limited(key.clone()),
            Outcome::RetryAfter(delay) => queue.add_after(key.clone(), delay),
            Outcome::Handled => {}
        }
        queue.done(&key);
    }
}

/// Returns the message of a caught panic.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?")
}
