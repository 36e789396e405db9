//! A stream that fails when the peer stops reading.
//!
//! Otherwise a client that opens a watch and never reads would keep its connection and its buffers indefinitely: the
//! body of the reply is not polled while the last piece cannot be sent, so no timer of the watch runs.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::clock::Clock;

type DeadlineFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A stream whose writes fail with `TimedOut` when none of them makes progress for `limit`.
pub(super) struct WriteTimeoutStream<S> {
    stream: S,
    limit: Duration,
    clock: Clock,
    /// Runs while a write is blocked.
    stalled: Option<DeadlineFuture>,
}

impl<S> WriteTimeoutStream<S> {
    pub(super) fn new(stream: S, limit: Duration, clock: Clock) -> Self {
        Self { stream, limit, clock, stalled: None }
    }

    /// Passes on the result of a write; fails if writes stay blocked for longer than the limit.
    fn watch<T>(&mut self, done: Poll<Result<T>>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if done.is_ready() {
            self.stalled = None;
            return done;
        }
        let clock = &self.clock;
        let limit = self.limit;
        let timer = self.stalled.get_or_insert_with(|| {
            let clock = clock.clone();
            Box::pin(async move { clock.sleep(limit).await })
        });
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(done, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(done, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(done, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(done, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
