//! The stop signal for connections and watches.
//!
//! Every event of every watch checks for the signal. A `CancellationToken` checks under a shared lock; this type reads
//! an atomic flag.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Signals that the server stops.
#[derive(Clone, Debug, Default)]
pub(super) struct StopSignal {
    flag: Arc<AtomicBool>,
    token: CancellationToken,
}

impl StopSignal {
    /// Sends the signal.
    pub(super) fn stop(&self) {
        self.flag.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Waits for [`StopSignal::stop`].
    pub(super) fn stopped(&self) -> StopFuture {
        let waiting = Box::pin(self.token.clone().cancelled_owned());
        StopFuture { flag: self.flag.clone(), waiting, described: None }
    }
}

/// Completes when the server stops.
pub(super) struct StopFuture {
    flag: Arc<AtomicBool>,
    waiting: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The waker registered with the token.
    described: Option<Waker>,
}

impl Future for StopFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.flag.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        if self.described.as_ref().is_some_and(|described| described.will_wake(context.waker())) {
            return Poll::Pending;
        }
        self.described = None;
        if self.waiting.as_mut().poll(context).is_pending() {
            self.described = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_who_wait_hear_of_it_wherever_they_moved() {
        let stop = StopSignal::default();
        let mut moved = stop.stopped();
        let waiting = tokio::spawn(stop.stopped());
        assert!(futures::poll!(&mut moved).is_pending());
        let moved = tokio::spawn(async move {
            assert!(futures::poll!(&mut moved).is_pending());
            moved.await;
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished() && !moved.is_finished());
        stop.stop();
        waiting.await.unwrap();
        moved.await.unwrap();
        stop.stopped().await;
    }
}
