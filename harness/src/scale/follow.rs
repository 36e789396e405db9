//! Three watches that keep [`Held`] up to date. They are this program's only load on the server while it measures, beside what a
//! scenario does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::Error;
use super::event::{Event, Kind, Lines};
use super::held::Held;
use crate::bench::http::Endpoint;
use crate::bench::load::text_member;
use crate::time::Clock;

/// How long a watch is asked for: longer than any run.
const WATCH_SECONDS: u32 = 86_400;

/// Follows a server until it is dropped.
pub(super) struct Follower {
    held: Arc<Mutex<Held>>,
    changed: Arc<Notify>,
    watches: JoinSet<Result<(), Error>>,
}

impl Follower {
    /// Begins to follow. Nodes and budgets are told from their beginning, pods from now on.
    pub(super) async fn start(clock: &Clock, endpoint: &Endpoint, held: Held) -> Result<Self, Error> {
        let held = Arc::new(Mutex::new(held));
        let changed = Arc::new(Notify::new());
        let mut watches = JoinSet::new();
        let opened = Arc::new(tokio::sync::Semaphore::new(0));
        for kind in Kind::ALL {
            let mut connection = endpoint.connect().await?;
            let version = if kind == Kind::Pods {
                // All those pods are no news: the watch begins at the present version.
                let list = connection.exchange("GET", &format!("{}?limit=1", kind.path()), &[], 200).await?;
                text_member(list, "resourceVersion").unwrap_or_default().to_owned()
            } else {
                // Whatever the server has in memory, and what follows: an old etcd does not tell it in time that it has the newest.
                "0".to_owned()
            };
            let path = format!("{}?watch=1&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}", kind.path());
            let (held, changed, clock, opened) = (held.clone(), changed.clone(), clock.clone(), opened.clone());
            watches.spawn(async move {
                let mut lines = Lines::default();
                let mut trouble = None;
                let read = connection.watch(
                    &path,
                    || opened.add_permits(1),
                    |piece| {
                        let now = clock.elapsed();
                        let mut held = lock(&held);
                        lines.read(piece, |line| trouble = trouble.take().or_else(|| take(&mut held, kind, line, now)));
                        drop(held);
                        changed.notify_one();
                        trouble.is_none()
                    },
                );
                read.await?;
                let why = trouble.unwrap_or_else(|| "the server ended it".to_owned());
                Err(Error::Watch { path: kind.path(), why })
            });
        }
        let mut this = Self { held, changed, watches };
        let open = opened.acquire_many(u32::try_from(Kind::ALL.len()).unwrap_or(u32::MAX));
        tokio::select! {
            _ = open => {}
            error = ended(&mut this.watches) => return Err(error),
        }
        Ok(this)
    }

    /// What the server holds.
    pub(super) fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }

    /// Waits until something arrives.
    ///
    /// # Errors
    ///
    /// When a watch ended: nothing more would arrive.
    pub(super) async fn changed(&mut self) -> Result<(), Error> {
        tokio::select! {
            biased;
            error = ended(&mut self.watches) => Err(error),
            () = self.changed.notified() => Ok(()),
        }
    }
}

/// Locks what is held.
pub(super) fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ended(watches: &mut JoinSet<Result<(), Error>>) -> Error {
    match watches.join_next().await {
        Some(Ok(Err(error))) => error,
        Some(Err(error)) => Error::Bench(crate::bench::Error::Task(error.to_string())),
        Some(Ok(Ok(()))) | None => std::future::pending().await,
    }
}

/// Takes a line; returns why the watch is of no more use, if it is not.
fn take(held: &mut Held, kind: Kind, line: &[u8], now: std::time::Duration) -> Option<String> {
    match serde_json::from_slice::<Event<'_>>(line) {
        Ok(event) if event.kind == "ERROR" => Some(String::from_utf8_lossy(line).into_owned()),
        Ok(event) => {
            held.take(kind, &event, now);
            None
        }
        Err(error) => Some(format!("{error} in {}", String::from_utf8_lossy(&line[..line.len().min(200)]))),
    }
}
