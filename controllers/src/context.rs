//! The context in which controllers are built.
//!
//! A controller is a function `start(&ControllerContext, options) -> ControllerFuture`. It requests its informers and
//! creates its queues *immediately*; the returned future does the work *later*, once all caches are synced and this
//! replica leads, and begins by adding its event handlers to the informers. Everything is shared: two controllers that
//! request the informer of pods get the same one, and only requested informers are started.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::api::cache_object::CacheObject;
use crate::runtime::client::{ClientBuilder, ClientFactory, Encoding, Limits, names};
use crate::runtime::clock::Clock;
use crate::runtime::diagnostics::PendingGauge;
use crate::runtime::informer::{Informer, SharedInformer};
use crate::runtime::leadership::Leadership;
use crate::runtime::metrics::Metrics;
use crate::runtime::queue::{WatchedQueue, WorkQueue};
use crate::runtime::recorder::{EventStamps, Recorder};
use crate::write::{Reader, Writer};

/// The work of a controller: polled after all caches are synced, completes after `context.stop` is cancelled.
pub type ControllerFuture = BoxFuture<'static, ()>;

/// Shared dependencies of the controllers.
pub struct ControllerContext {
    /// The clock of all controllers.
    pub clock: Clock,
    /// The metrics registry.
    pub metrics: Metrics,
    /// Cancelled on shutdown.
    pub stop: CancellationToken,
    factory: ClientFactory,
    limits: Limits,
    leadership: Leadership,
    /// Each informer has its own client, to track its own contact with the server; they share the request rate.
    informer_client_builder: ClientBuilder,
    clients: Mutex<BTreeMap<String, Client>>,
    informers: Mutex<Vec<InformerSlot>>,
    queues: Mutex<Vec<Arc<dyn WatchedQueue>>>,
    pending: Mutex<Vec<PendingGauge>>,
    background: Mutex<Vec<BackgroundTask>>,
    event_stamps: EventStamps,
}

/// A task next to the controllers, such as the writer of events. Completes when its handles are dropped.
pub(crate) struct BackgroundTask {
    pub(crate) name: String,
    pub(crate) run: BoxFuture<'static, ()>,
}

struct InformerSlot {
    view: TypeId,
    typed: Arc<dyn Any + Send + Sync>,
    shared: Arc<dyn SharedInformer>,
}

impl ControllerContext {
    /// Creates a context without informers.
    pub fn new(
        clock: Clock,
        metrics: Metrics,
        factory: ClientFactory,
        limits: Limits,
        leadership: Leadership,
        stop: CancellationToken,
    ) -> Self {
        Self {
            informer_client_builder: ClientBuilder::new(names::INFORMERS, clock.clone(), limits)
                .with_metrics(metrics.requests()),
            clock,
            metrics,
            stop,
            factory,
            limits,
            leadership,
            clients: Mutex::default(),
            informers: Mutex::default(),
            queues: Mutex::default(),
            pending: Mutex::default(),
            background: Mutex::default(),
            event_stamps: EventStamps::default(),
        }
    }

    /// Makes informers request lists and watches in `encoding`.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.informer_client_builder = self.informer_client_builder.with_encoding(encoding);
        self
    }

    /// Returns the shared informer of the kind that `V` views. Use one view type per kind: each type has its own list
    /// and watch.
    pub fn informer<V: CacheObject>(&self) -> Arc<Informer<V>> {
        let mut slots = self.informers.lock();
        let slot = slots.iter().find(|slot| slot.view == TypeId::of::<V>());
        if let Some(informer) = slot.and_then(|slot| Arc::clone(&slot.typed).downcast().ok()) {
            return informer;
        }
        let informer = Arc::new(Informer::<V>::new(self.clock.clone(), &self.metrics));
        slots.push(InformerSlot { view: TypeId::of::<V>(), typed: informer.clone(), shared: informer.clone() });
        informer
    }

    /// Creates an empty work queue; `name` is its label in metrics.
    pub fn queue<K: Ord + Clone + Send + Sync + 'static>(&self, name: &str) -> WorkQueue<K> {
        let queue = WorkQueue::new(self.clock.clone(), self.metrics.queue(name));
        self.queues.lock().push(Arc::new(queue.clone()));
        queue
    }

    /// Registers a queue of another form, to be observed like those of [`Self::queue`].
    pub fn register_queue(&self, queue: impl WatchedQueue + 'static) {
        self.queues.lock().push(Arc::new(queue));
    }

    /// Registers a gauge of pending work, such as timers. `count` returns the current number and must keep nothing
    /// alive.
    pub fn register_pending(&self, name: &'static str, count: impl Fn() -> usize + Send + Sync + 'static) {
        self.pending.lock().push(PendingGauge { name, count: Arc::new(count) });
    }

    /// Returns a writer that uses the client `client` (see [`names`]).
    pub fn writer(&self, client: &str) -> Writer {
        Writer::new(self.client(client))
    }

    /// Returns a reader of live objects that uses the client `client`.
    pub fn reader(&self, client: &str) -> Reader {
        Reader::new(self.client(client), self.clock.clone())
    }

    /// Returns a recorder of events with `source.component` set to `component`; it uses the client `client`.
    pub fn recorder(&self, client: &str, component: &str) -> Recorder {
        let (recorder, run) = Recorder::new(component, self.client(client), self.clock.clone(), self.metrics.clone());
        self.background.lock().push(BackgroundTask { name: format!("events of {component}"), run });
        recorder.with_stamps(self.event_stamps.clone())
    }

    pub(crate) fn informers(&self) -> Vec<Arc<dyn SharedInformer>> {
        self.informers.lock().iter().map(|slot| Arc::clone(&slot.shared)).collect()
    }

    pub(crate) fn queues(&self) -> Vec<Arc<dyn WatchedQueue>> {
        self.queues.lock().clone()
    }

    pub(crate) fn pending_gauges(&self) -> Vec<PendingGauge> {
        self.pending.lock().clone()
    }

    pub(crate) fn take_background(&self) -> Vec<BackgroundTask> {
        std::mem::take(&mut self.background.lock())
    }

    pub(crate) fn plain_client(&self, name: &str) -> Client {
        (self.factory)(name)
    }

    pub(crate) fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    pub(crate) fn informer_client(&self) -> (ClientBuilder, Client) {
        (self.informer_client_builder.clone(), (self.factory)(names::INFORMERS))
    }

    /// Returns the client `name`. Its readers, writers and recorders share connections and request rate.
    fn client(&self, name: &str) -> Client {
        let builder = || {
            let builder = ClientBuilder::new(name, self.clock.clone(), self.limits);
            builder.with_metrics(self.metrics.requests()).require_leadership(self.leadership.clone())
        };
        let build = || builder().build((self.factory)(name));
        self.clients.lock().entry(name.to_owned()).or_insert_with(build).clone()
    }
}

/// Contexts for unit tests of controllers.
#[cfg(test)]
pub(crate) mod testing {
    use serde_json::Value;
    use tokio::task::JoinSet;

    use super::*;
    use crate::runtime::testing::{MockResponse, ReceivedRequest, RequestLog, must_end, serve};

    /// A context without a request rate, whose clients reach a server that responds with `answer`.
    pub(crate) fn context(
        clock: &Clock,
        answer: impl Fn(&ReceivedRequest) -> MockResponse + Send + Sync + 'static,
    ) -> (ControllerContext, RequestLog) {
        let (plain, log) = serve(clock, answer);
        let clients = Arc::new(move |_: &str| plain.clone());
        let always = Leadership::always();
        let limits = Limits { qps: 0.0, ..Limits::default() };
        (ControllerContext::new(clock.clone(), Metrics::new(), clients, limits, always, CancellationToken::new()), log)
    }

    /// A list of `items`.
    pub(crate) fn items(items: &[Value]) -> MockResponse {
        MockResponse::Json(200, serde_json::json!({ "metadata": { "resourceVersion": "5" }, "items": items }))
    }

    /// Returns true if the request lists `resource`.
    pub(crate) fn is_list(seen: &ReceivedRequest, resource: &str) -> bool {
        let path = seen.line.split('?').next().unwrap_or_default();
        seen.line.starts_with("GET ") && path.ends_with(&format!("/{resource}")) && !seen.line.contains("watch=")
    }

    /// Runs all informers of `context` until the result is dropped, and waits until they are synced.
    pub(crate) async fn run_informers(context: &ControllerContext) -> JoinSet<()> {
        let mut running = JoinSet::new();
        for informer in context.informers() {
            let (builder, plain) = context.informer_client();
            running.spawn(informer.run(builder, plain));
        }
        for informer in context.informers() {
            must_end(informer.wait_synced()).await;
        }
        running
    }
}
