//! One list and watch per resource for the whole process, stored in an ordered cache.
//!
//! The informer consumes the events of [`super::listwatch`] and adds a deterministic back-off on our [`Clock`]. Event
//! handlers are synchronous, run after the cache has changed, in the order of registration, and only enqueue keys. A
//! controller adds its handlers when its work begins, as upstream's do: a standby replica keeps its caches up to date
//! but must not accumulate weeks of keys and events that no worker takes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::{Client, Resource as _};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::backoff::{BACKOFF_BASE, BACKOFF_MAX, BACKOFF_RESET, exponential};
use super::cache::{Change, Lister, Store};
use super::client::{ClientBuilder, LastContact};
use super::clock::Clock;
use super::listwatch::{ListWatch, ListWatchError, ListWatchEvent};
use super::metrics::{InformerMetrics, Metrics};
use crate::api::cache_object::CacheObject;

/// An event handler; called for every change, after the cache was updated.
pub type Handler<V> = Box<dyn Fn(&Change<V>) + Send + Sync>;

/// The shared informer of one resource.
pub struct Informer<V> {
    resource: String,
    store: Arc<Store<V>>,
    handlers: Mutex<Vec<Handler<V>>>,
    synced: watch::Sender<bool>,
    progress: Mutex<Progress>,
    clock: Clock,
    metrics: InformerMetrics,
    contact: Arc<LastContact>,
}

/// The status of an informer: for readiness, staleness and debugging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InformerStatus {
    /// `group/plural`, or the plain plural for the core group.
    pub resource: String,
    /// `true` once the initial list is in the cache.
    pub synced: bool,
    /// Number of cached objects.
    pub objects: usize,
    /// Digest of the cache, see [`Lister::checksum`].
    pub checksum: u64,
    /// Number of complete lists; more than one means that a watch could not be resumed.
    pub lists: u64,
    /// Time at which the last object or list arrived.
    pub last_change: Option<Timestamp>,
    /// Time of the last response or data from the server, bookmarks included.
    pub last_contact: Option<Timestamp>,
    /// Number of consecutive failures; 0 while list and watch work.
    pub failures: u32,
    /// The cache may be stale since then: the first failure after the last contact.
    pub stale_since: Option<Timestamp>,
    /// The latest failure.
    pub last_error: Option<String>,
}

#[derive(Debug, Default)]
struct Progress {
    lists: u64,
    last_change: Option<Timestamp>,
    failures: u32,
    last_failure: Option<Timestamp>,
    stale_since: Option<Timestamp>,
    last_error: Option<String>,
}

impl<V> fmt::Debug for Informer<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("resource", &self.resource).finish_non_exhaustive()
    }
}

impl<V: CacheObject> Informer<V> {
    /// Creates an informer with an empty cache; [`Self::run`] fills it.
    pub fn new(clock: Clock, metrics: &Metrics) -> Self {
        let resource = resource_name::<V>();
        Self {
            store: Arc::new(Store::default()),
            handlers: Mutex::new(Vec::new()),
            synced: watch::Sender::new(false),
            progress: Mutex::new(Progress::default()),
            clock,
            metrics: metrics.informer(&resource),
            resource,
            contact: Arc::default(),
        }
    }

    /// Returns `group/plural`, or the plain plural for the core group.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns a lister of the cache.
    pub fn lister(&self) -> Lister<V> {
        Lister::new(Arc::clone(&self.store))
    }

    /// Adds an event handler. It is called at once for every cached object, as added and in key order, and later for
    /// every change. No object is missed or reported twice if the cache changes concurrently.
    pub fn add_event_handler(&self, handler: impl Fn(&Change<V>) + Send + Sync + 'static) {
        let mut handlers = self.handlers();
        self.store.list().into_iter().for_each(|object| handler(&Change::Added(object)));
        handlers.push(Box::new(handler));
    }

    /// Like [`Self::add_event_handler`] without the initial replay, for callers that list the cache themselves.
    pub fn add_event_handler_without_replay(&self, handler: impl Fn(&Change<V>) + Send + Sync + 'static) {
        self.handlers().push(Box::new(handler));
    }

    /// Returns true once the initial list is in the cache and the registered handlers were called for it.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until [`Self::has_synced`].
    pub async fn wait_synced(&self) {
        let mut synced = self.synced.subscribe();
        // The sender is a field of `self`, so waiting cannot fail.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// Returns the status of the informer.
    pub fn status(&self) -> InformerStatus {
        let lister = self.lister();
        let progress = self.progress();
        let last_contact = self.contact.last();
        // A quiet watch that recovered delivers only bookmarks, which are visible only to the client.
        let healed = progress.failures > 0 && last_contact > progress.last_failure;
        InformerStatus {
            resource: self.resource.clone(),
            synced: self.has_synced(),
            objects: lister.len(),
            checksum: lister.checksum(),
            lists: progress.lists,
            last_change: progress.last_change,
            last_contact,
            failures: if healed { 0 } else { progress.failures },
            stale_since: progress.stale_since.filter(|_| !healed),
            last_error: progress.last_error.clone(),
        }
    }

    /// Lists and watches all objects of the resource forever, through a client that `builder` creates from `plain`.
    /// Drop the future to stop.
    pub async fn run(&self, builder: &ClientBuilder, plain: Client) {
        let encoding = builder.encoding();
        let client = builder.build_with_contact(plain, Arc::clone(&self.contact));
        let mut source = ListWatch::new(client, self.clock.clone(), encoding);
        let mut listed = Vec::new();
        let mut last_failure = Duration::ZERO;
        let mut unreadable = UnreadableEventBackoff::default();
        loop {
            match source.next().await {
                Ok(event) => self.handle_event(event, &mut listed),
                Err(error) => {
                    let now = self.clock.monotonic();
                    if now.saturating_sub(last_failure) > BACKOFF_RESET {
                        self.progress().failures = 0;
                    }
                    last_failure = now;
                    let at_least = if error.is_unreadable_event() { unreadable.delay(now) } else { Duration::ZERO };
                    let delay = self.record_failure(&error, at_least);
                    self.clock.sleep(delay).await;
                }
            }
        }
    }

    fn handle_event(&self, event: ListWatchEvent<V>, listed: &mut Vec<Arc<V>>) {
        match event {
            ListWatchEvent::Init => listed.clear(),
            // An unchanged object keeps its allocation, so a re-list does not double the memory.
            ListWatchEvent::InitApply(views) => {
                listed.extend(
                    views.into_iter().map(|view| self.store.find_same_version(&view).unwrap_or_else(|| Arc::new(view))),
                );
            }
            ListWatchEvent::InitDelete(view) => listed.retain(|other| other.key_ref() != view.key_ref()),
            ListWatchEvent::InitDone => {
                self.update_store(|store| store.replace(std::mem::take(listed)));
                self.record_list();
            }
            ListWatchEvent::Apply(view) => {
                self.record_change();
                self.update_store(|store| store.apply(Arc::new(view)));
            }
            ListWatchEvent::Delete(view) => {
                self.record_change();
                self.update_store(|store| store.remove(&view));
            }
        }
    }

    /// Updates the cache and calls the handlers while none can be added: a new handler finds a change in the cache or
    /// is called for it, never both.
    fn update_store(&self, change: impl FnOnce(&Store<V>) -> Vec<Change<V>>) {
        let handlers = self.handlers();
        let changes = change(&self.store);
        self.metrics.objects(self.store.len());
        for change in &changes {
            for handler in handlers.iter() {
                handler(change);
            }
        }
    }

    fn record_list(&self) {
        let objects = self.store.len();
        self.record_change();
        self.metrics.listed();
        let mut progress = self.progress();
        progress.lists += 1;
        if progress.lists == 1 {
            tracing::info!(resource = self.resource, objects, "cache synced");
        } else {
            tracing::info!(resource = self.resource, objects, lists = progress.lists, "cache re-listed");
        }
        drop(progress);
        self.synced.send_replace(true);
    }

    fn record_change(&self) {
        let mut progress = self.progress();
        progress.last_change = Some(self.clock.now());
        if progress.failures > 0 {
            tracing::info!(resource = self.resource, failures = progress.failures, "watch works again");
        }
        progress.failures = 0;
        progress.stale_since = None;
    }

    fn record_failure(&self, error: &ListWatchError, at_least: Duration) -> Duration {
        self.metrics.failed();
        let mut progress = self.progress();
        let delay = exponential(BACKOFF_BASE, BACKOFF_MAX, progress.failures).max(at_least);
        progress.failures = progress.failures.saturating_add(1);
        let now = self.clock.now();
        progress.stale_since.get_or_insert(now);
        progress.last_failure = Some(now);
        let text = super::error::chain(error);
        tracing::warn!(
            resource = self.resource,
            error = text,
            failures = progress.failures,
            retry_in_ms = delay.as_millis(),
            "list or watch failed, the cache may be stale"
        );
        progress.last_error = Some(text);
        delay
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<Handler<V>>> {
        self.handlers.lock()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }
}

/// Back-off after events that cannot be decoded, each of which causes a list. A successful list says nothing about the
/// next event, so only time resets the delay.
#[derive(Debug, Default)]
struct UnreadableEventBackoff {
    in_a_row: u32,
    last: Duration,
}

impl UnreadableEventBackoff {
    /// Returns the delay after an undecodable event at monotonic time `now`.
    fn delay(&mut self, now: Duration) -> Duration {
        if now.saturating_sub(self.last) > BACKOFF_RESET {
            self.in_a_row = 0;
        }
        self.last = now;
        let delay = exponential(BACKOFF_BASE, BACKOFF_MAX, self.in_a_row);
        self.in_a_row = self.in_a_row.saturating_add(1);
        delay
    }
}

/// An informer of any kind, as the application runs and observes it.
pub trait SharedInformer: Send + Sync {
    /// Lists and watches forever.
    fn run(self: Arc<Self>, builder: ClientBuilder, plain: Client) -> BoxFuture<'static, ()>;
    /// Waits for the initial list.
    fn wait_synced(&self) -> BoxFuture<'_, ()>;
    /// Returns the status of the informer.
    fn status(&self) -> InformerStatus;
}

impl<V: CacheObject> SharedInformer for Informer<V> {
    fn run(self: Arc<Self>, builder: ClientBuilder, plain: Client) -> BoxFuture<'static, ()> {
        Box::pin(async move { Informer::run(&self, &builder, plain).await })
    }

    fn wait_synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(Informer::wait_synced(self))
    }

    fn status(&self) -> InformerStatus {
        Informer::status(self)
    }
}

fn resource_name<V: CacheObject>() -> String {
    let group = V::Resource::group(&());
    let plural = V::Resource::plural(&());
    if group.is_empty() { plural.into_owned() } else { format!("{group}/{plural}") }
}

#[cfg(test)]
mod tests;
