//! The application: builds the controllers and the runtime they share, starts the enabled ones once all caches are
//! synced, and stops them in order. The only module that knows all four controllers.
//!
//! Concurrency is structured: every task belongs to the future that [`run`] returns. Dropping it at any moment stops
//! all tasks at once, as a crash would; cancelling `stop` lets them finish their current work.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::api::int_or_percent::Rounding;
use crate::context::{ControllerContext, ControllerFuture};
use crate::runtime::client::Encoding;
use crate::runtime::client::{ClientFactory, Limits, names};
use crate::runtime::clock::Clock;
use crate::runtime::diagnostics::Diagnostics;
use crate::runtime::informer::InformerStatus;
use crate::runtime::leader::{Election, LeaderElector, LeaseLost};
use crate::runtime::leadership::Leadership;
use crate::runtime::metrics::Metrics;
use crate::runtime::workers::panic_text;
use crate::{disruption, podgc, taint_eviction, ttl};

/// Time that controllers get to finish their current work on shutdown.
pub const STOP_GRACE: Duration = Duration::from_secs(20);
/// Time to write queued events after everything else has stopped.
pub const EVENT_GRACE: Duration = Duration::from_secs(5);
/// `source.component` of the events on the lease.
pub const COMPONENT: &str = "plumbline-controllers";
/// Interval of the log line that lists caches that are not synced yet.
pub const SYNC_LOG_PERIOD: Duration = Duration::from_secs(10);

/// Names of the controllers, as upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControllerName {
    /// `disruption-controller`
    Disruption,
    /// `pod-garbage-collector-controller`
    PodGarbageCollector,
    /// `taint-eviction-controller`
    TaintEviction,
    /// `ttl-controller`
    Ttl,
}

impl ControllerName {
    /// All controllers, in start order.
    pub const ALL: [Self; 4] = [Self::Disruption, Self::PodGarbageCollector, Self::TaintEviction, Self::Ttl];

    /// Upstream's canonical name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disruption => "disruption-controller",
            Self::PodGarbageCollector => "pod-garbage-collector-controller",
            Self::TaintEviction => "taint-eviction-controller",
            Self::Ttl => "ttl-controller",
        }
    }

    /// Upstream's former name, if any.
    pub const fn alias(self) -> Option<&'static str> {
        match self {
            Self::Disruption => Some("disruption"),
            Self::PodGarbageCollector => Some("podgc"),
            Self::TaintEviction => None,
            Self::Ttl => Some("ttl"),
        }
    }

    /// Returns the controller with this name or alias.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|controller| controller.as_str() == name || controller.alias() == Some(name))
    }

    fn start(self, context: &ControllerContext, config: &Config) -> ControllerFuture {
        match self {
            Self::Disruption => {
                let options = disruption::controller::Options {
                    concurrent_syncs: config.concurrent_disruption_syncs,
                    max_unavailable_rounding: config.max_unavailable_rounding,
                };
                disruption::controller::start(context, options)
            }
            Self::PodGarbageCollector => podgc::controller::start(context, config.terminated_pod_gc_threshold),
            Self::TaintEviction => taint_eviction::controller::start(context),
            Self::Ttl => ttl::controller::start(context),
        }
    }
}

/// Configuration of the application.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The controllers to run.
    pub controllers: BTreeSet<ControllerName>,
    /// Number of terminated pods that may remain in the cluster; 0 means unlimited.
    pub terminated_pod_gc_threshold: usize,
    /// Number of budgets synced concurrently.
    pub concurrent_disruption_syncs: usize,
    /// Rounding of a percentage in `maxUnavailable`.
    pub max_unavailable_rounding: Rounding,
    /// Limits of each controller's client.
    pub limits: Limits,
    /// Preferred encoding of lists and watches.
    pub encoding: Encoding,
    /// Leader election; `None` if this is the only replica.
    pub election: Option<Election>,
}

/// All controllers with kube-controller-manager's defaults, but without leader election, which needs an identity.
impl Default for Config {
    fn default() -> Self {
        Self {
            controllers: ControllerName::ALL.into(),
            terminated_pod_gc_threshold: 12_500,
            concurrent_disruption_syncs: 5,
            max_unavailable_rounding: Rounding::Up,
            limits: Limits::default(),
            encoding: Encoding::Json,
            election: None,
        }
    }
}

/// Errors that end [`run`] before `stop` is cancelled.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The lease was lost, so another replica may be leading. Everything was dropped at once, as in a crash.
    #[error("leader election lost: {0}")]
    LostLease(#[from] LeaseLost),
    /// A bug: a task ended that never should.
    #[error("{part} ended unexpectedly")]
    Ended {
        /// The task.
        part: String,
    },
    /// A bug: a task panicked outside of a sync.
    #[error("{part} panicked: {message}")]
    Panicked {
        /// The task.
        part: String,
        /// The panic message.
        message: String,
    },
}

/// The controllers of a [`Config`], ready to run.
pub struct App {
    context: ControllerContext,
    controllers: Vec<(ControllerName, ControllerFuture)>,
    elector: Option<LeaderElector>,
    diagnostics: Diagnostics,
}

/// Runs the controllers of `config` until `stop` is cancelled.
///
/// # Errors
/// [`AppError`] if a task ends that never should.
pub async fn run(
    config: Config,
    clients: ClientFactory,
    clock: Clock,
    stop: CancellationToken,
) -> Result<(), AppError> {
    Box::pin(App::new(&config, clients, clock, Metrics::new(), stop).run()).await
}

impl App {
    /// Builds the controllers and the shared runtime. Sends no request yet, but creates clients and therefore needs a
    /// tokio runtime.
    pub fn new(
        config: &Config,
        clients: ClientFactory,
        clock: Clock,
        metrics: Metrics,
        stop: CancellationToken,
    ) -> Self {
        let leadership = if config.election.is_some() { Leadership::candidate() } else { Leadership::always() };
        let context = ControllerContext::new(clock, metrics, clients, config.limits, leadership, stop)
            .with_encoding(config.encoding);
        let controllers = config.controllers.iter().map(|controller| (*controller, controller.start(&context, config)));
        let controllers = controllers.collect();
        let lease_duration = config.election.as_ref().map(|election| election.timing.lease_duration);
        let diagnostics = Diagnostics::new(
            context.clock.clone(),
            context.metrics.clone(),
            context.leadership().clone(),
            lease_duration,
            context.informers(),
            (context.queues(), context.pending_gauges()),
        );
        let elector = config.election.clone().map(|election| {
            let recorder = context.recorder(names::LEADER_ELECTION, COMPONENT);
            let clock = context.clock.clone();
            let metrics = context.metrics.clone();
            let plain = context.plain_client(names::LEADER_ELECTION);
            LeaderElector::new(election, plain, clock, context.leadership().clone(), metrics, recorder)
        });
        Self { context, controllers, elector, diagnostics }
    }

    /// Returns a handle to health checks, metrics and caches, valid before and during [`Self::run`].
    pub fn diagnostics(&self) -> Diagnostics {
        self.diagnostics.clone()
    }

    /// Returns the status of all informers, in the order of their creation.
    pub fn informers(&self) -> Vec<InformerStatus> {
        self.context.informers().iter().map(|informer| informer.status()).collect()
    }

    /// Runs until the `stop` passed to [`Self::new`] is cancelled.
    ///
    /// # Errors
    /// [`AppError`] if a task ends that never should.
    pub async fn run(self) -> Result<(), AppError> {
        let Self { context, controllers, mut elector, diagnostics } = self;
        let mut informers = NamedTasks::default();
        for informer in context.informers() {
            let name = format!("informer of {}", informer.status().resource);
            let (builder, plain) = context.informer_client();
            informers.spawn(name, informer.run(builder, plain));
        }
        let mut events = NamedTasks::default();
        for background in context.take_background() {
            events.spawn(background.name, background.run);
        }
        // A replica requests the lease only after its caches are synced; a standby keeps its caches up to date.
        tokio::select! {
            biased;
            () = context.stop.cancelled() => {
                diagnostics.set_stopping();
                release(&mut elector).await;
                return Ok(());
            }
            error = informers.unexpected_end() => return Err(error),
            () = async { synced(&context).await; acquire(&mut elector).await } => {}
        }
        let mut running = NamedTasks::default();
        diagnostics.set_running();
        for (controller, run) in controllers {
            context.metrics.running(controller.as_str(), true);
            tracing::info!(controller = controller.as_str(), "started");
            running.spawn(controller.as_str().to_owned(), run);
        }
        tokio::select! {
            biased;
            () = context.stop.cancelled() => {}
            lost = renew_until_lost(&mut elector) => return Err(lost.into()),
            error = informers.unexpected_end() => return Err(error),
            error = running.unexpected_end() => return Err(error),
        }
        diagnostics.set_stopping();
        let stopping = async {
            let ended = stop_controllers(&context.clock, &mut running).await;
            drop(informers);
            ended
        };
        let ended = tokio::select! {
            biased;
            lost = renew_until_lost(&mut elector) => return Err(lost.into()),
            ended = stopping => ended,
        };
        drop(running);
        finish(context, events, elector, ended).await
    }
}

async fn acquire(elector: &mut Option<LeaderElector>) {
    if let Some(elector) = elector {
        elector.acquire().await;
    }
}

async fn release(elector: &mut Option<LeaderElector>) {
    if let Some(elector) = elector {
        elector.release().await;
    }
}

/// Completes when the lease is lost; never without an election.
async fn renew_until_lost(elector: &mut Option<LeaderElector>) -> LeaseLost {
    match elector {
        Some(elector) => elector.renew_until_lost().await,
        None => std::future::pending().await,
    }
}

/// Writes the queued events, then releases the lease if no write can still be on its way to the server.
async fn finish(
    context: ControllerContext,
    mut events: NamedTasks,
    mut elector: Option<LeaderElector>,
    ended: bool,
) -> Result<(), AppError> {
    let clock = context.clock.clone();
    let mut lease = elector.take().map(LeaderElector::shut_down_events);
    // Event handlers hold recorders too. Once the informers are dropped, no recorder is left and the queued events are
    // each tried once.
    drop(context);
    let written = tokio::select! {
        biased;
        lost = renew_until_lost(&mut lease) => return Err(lost.into()),
        written = clock.timeout(EVENT_GRACE, events.all_ended()) => written.is_ok(),
    };
    if !written {
        tracing::warn!(parts = ?events.names(), "some events were not written");
    }
    drop(events);
    if ended {
        release(&mut lease).await;
    } else {
        tracing::warn!("a write may still be in flight: the lease is not released and will expire");
    }
    tracing::info!("stopped");
    Ok(())
}

async fn synced(context: &ControllerContext) {
    let informers = context.informers();
    let all = join_all(informers.iter().map(|informer| informer.wait_synced()));
    tokio::pin!(all);
    loop {
        tokio::select! {
            biased;
            _ = &mut all => return,
            () = context.clock.sleep(SYNC_LOG_PERIOD) => {}
        }
        let missing: Vec<_> = informers.iter().map(|i| i.status()).filter(|s| !s.synced).map(|s| s.resource).collect();
        tracing::warn!(?missing, "still waiting for caches, controllers are not started");
    }
}

/// Returns true if all controllers ended in time.
async fn stop_controllers(clock: &Clock, running: &mut NamedTasks) -> bool {
    tracing::info!("stopping");
    let ended = clock.timeout(STOP_GRACE, running.all_ended()).await.is_ok();
    if !ended {
        tracing::warn!(parts = ?running.names(), grace_s = STOP_GRACE.as_secs(), "did not stop in time, aborting");
    }
    ended
}

/// Named tasks that are aborted when this value is dropped.
#[derive(Default)]
struct NamedTasks {
    tasks: JoinSet<()>,
    names: Vec<(Id, String)>,
}

impl NamedTasks {
    fn spawn(&mut self, name: String, run: ControllerFuture) {
        let handle = self.tasks.spawn(run);
        self.names.push((handle.id(), name));
    }

    /// Waits for the first task to end, which is an error.
    async fn unexpected_end(&mut self) -> AppError {
        match self.tasks.join_next_with_id().await {
            None => std::future::pending().await,
            Some(Ok((id, ()))) => AppError::Ended { part: self.forget(id) },
            Some(Err(error)) => self.failed(error),
        }
    }

    async fn all_ended(&mut self) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            match ended {
                Ok((id, ())) => drop(self.forget(id)),
                Err(error) => tracing::error!(error = %self.failed(error), "a task failed during shutdown"),
            }
        }
    }

    fn failed(&mut self, error: JoinError) -> AppError {
        let part = self.forget(error.id());
        match error.try_into_panic() {
            Ok(panic) => AppError::Panicked { part, message: panic_text(&*panic).to_owned() },
            Err(_) => AppError::Ended { part },
        }
    }

    fn forget(&mut self, id: Id) -> String {
        let at = self.names.iter().position(|(other, _)| *other == id);
        at.map(|at| self.names.remove(at).1).unwrap_or_default()
    }

    fn names(&self) -> Vec<&str> {
        self.names.iter().map(|(_, name)| name.as_str()).collect()
    }
}
