//! Our own controllers, in the fixture's runtime and time. The only module of the harness that imports their crate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use parking_lot::Mutex;
use plumbline::fixture::{Capability, Controller};
use plumbline::time::Clock;
use plumbline_controllers::app::{App, AppError, Config};
use plumbline_controllers::args::Args;
use plumbline_controllers::runtime::client::ClientFactory;
use plumbline_controllers::runtime::client::Encoding;
use plumbline_controllers::runtime::clock::Clock as SubjectClock;
use plumbline_controllers::runtime::diagnostics::Diagnostics;
use plumbline_controllers::runtime::leader::{Election, Timing};
use plumbline_controllers::runtime::metrics::Metrics;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::client_factory::{self, KillSwitch};
use super::{Identity, Launch, Running, Subject, SubjectError};
use crate::digest;

/// The kind of subject in reports.
pub const KIND: &str = "in-process";
/// Time limit for stopping, in virtual time: more than the sum of the controllers' own limits.
const STOP_LIMIT: Duration = Duration::from_mins(1);

/// The replica in the lease of a fixture with an election.
const IDENTITY: &str = "the-subject";

/// Largest number of command lines whose configuration is kept.
const KEPT: usize = 1000;

/// A filter of logs for programs with these controllers inside: theirs has only warnings and errors.
pub const QUIET_LOG: &str = "info,plumbline_controllers=warn";

/// The controllers of `plumbline-controllers`.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess;

impl Subject for InProcess {
    fn name(&self) -> &'static str {
        KIND
    }

    /// The controllers are part of this program.
    fn identity(&self) -> Result<Identity, SubjectError> {
        let program = std::env::current_exe()
            .map_err(|error| SubjectError::Unidentified(format!("unable to find this program: {error}")))?;
        let what = format!("plumbline-controllers {}", env!("CARGO_PKG_VERSION"));
        Ok(Identity {
            kind: KIND,
            what,
            digest: Some(digest::file(&program).map_err(|error| SubjectError::Unidentified(error.to_string()))?),
            ..Identity::default()
        })
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        Controller::ALL.into_iter().collect()
    }

    fn features(&self) -> BTreeSet<String> {
        BTreeSet::from(["*".to_owned()])
    }

    fn lacks(&self) -> BTreeSet<Capability> {
        BTreeSet::new()
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Running>, SubjectError> {
        if launch.replicas > 1 {
            return launch_replicas(launch);
        }
        let config = config(launch)?;
        let factory = client_factory::ClientFactory::new(launch.access, launch.clock)?;
        let clients: ClientFactory = {
            let factory = factory.clone();
            Arc::new(move |name: &str| factory.client(&plumbline_controllers::runtime::client::user_agent(name)))
        };
        let stop = CancellationToken::new();
        let clock = if launch.clock.is_virtual() { simulated(launch.clock) } else { SubjectClock::wall() };
        let app = App::new(&config, clients, clock, Metrics::new(), stop.clone());
        let diagnostics = app.diagnostics();
        let task = tokio::spawn(app.run());
        Ok(Box::new(RunningInProcess { task: Some(task), factory, diagnostics, stop, clock: launch.clock.clone() }))
    }
}

/// Parses a command line of the controllers. Results are kept: an exploration starts the controllers a million times
/// with a few command lines, and building the parser takes as long as some of the runs.
fn parsed(argv: Vec<String>) -> Result<Config, SubjectError> {
    static PARSED: Mutex<BTreeMap<Vec<String>, Config>> = Mutex::new(BTreeMap::new());
    let mut parsed = PARSED.lock();
    if let Some(config) = parsed.get(&argv) {
        return Ok(config.clone());
    }
    let args = Args::try_parse_from(&argv).map_err(|error| SubjectError::NotStarted(error.to_string()))?;
    let config = args.config().map_err(|error| SubjectError::NotStarted(error.to_string()))?;
    // The program elects a leader by default, but fixtures are about the only replica unless they ask for an election.
    let elects = argv.iter().any(|argument| argument.starts_with("--leader-elect="));
    let election = if elects { args.leader_elect.election(IDENTITY) } else { Ok(None) };
    let election = election.map_err(|error| SubjectError::NotStarted(error.to_string()))?;
    let config = Config { election, ..config };
    if parsed.len() < KEPT {
        parsed.insert(argv, config.clone());
    }
    Ok(config)
}

/// Returns the configuration for `launch`.
fn config(launch: &Launch<'_>) -> Result<Config, SubjectError> {
    let names: Vec<&str> = launch.controllers.iter().map(|controller| controller.flag_name()).collect();
    let mut argv = vec!["plumbline-controllers".to_owned(), format!("--controllers={}", names.join(","))];
    // Off unless the fixture sets it: the client's rate limit would spread larger fixtures over seconds, and
    // fixtures check when a decision is made, not when the client may send it.
    if !launch.flags.contains_key("kube-api-qps") {
        argv.push("--kube-api-qps=0".to_owned());
    }
    argv.extend(launch.flags.iter().map(|(name, value)| format!("--{name}={value}")));
    let config = parsed(argv)?;
    // Pages of JSON are easier to read in transcripts.
    let is_chosen = launch.flags.contains_key("kube-api-content-type");
    Ok(if is_chosen { config } else { Config { encoding: Encoding::Json, ..config } })
}

/// Returns a clock of the controllers that shows the same time as `clock` and shares its skew.
fn simulated(clock: &Clock) -> SubjectClock {
    let start = clock.epoch().checked_add(clock.elapsed()).unwrap_or(clock.epoch());
    SubjectClock::simulated_with_steps(start, clock.skew())
}

struct RunningInProcess {
    /// `None` after its end was noticed.
    task: Option<JoinHandle<Result<(), AppError>>>,
    factory: client_factory::ClientFactory,
    diagnostics: Diagnostics,
    stop: CancellationToken,
    clock: Clock,
}

impl Running for RunningInProcess {
    fn kill_switch(&self) -> KillSwitch {
        self.factory.kill_switch()
    }

    fn crash(&mut self) {
        self.factory.kill_switch().trip();
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    fn stop(&mut self) -> LocalBoxFuture<'_, Result<(), SubjectError>> {
        async {
            self.stop.cancel();
            let Some(task) = self.task.take() else { return Ok(()) };
            let abort = task.abort_handle();
            match self.clock.timeout(STOP_LIMIT, task).await {
                Some(Ok(result)) => result.map_err(|error| SubjectError::NotStopped(error.to_string())),
                Some(Err(error)) => Err(SubjectError::NotStopped(error.to_string())),
                None => {
                    abort.abort();
                    let seconds = STOP_LIMIT.as_secs();
                    Err(SubjectError::NotStopped(format!("still running {seconds} s after the request to stop")))
                }
            }
        }
        .boxed_local()
    }

    fn metrics(&self) -> LocalBoxFuture<'_, Result<String, SubjectError>> {
        async { Ok(self.diagnostics.metrics()) }.boxed_local()
    }

    fn ended(&mut self) -> Option<String> {
        if let Some(reason) = self.factory.ran_away() {
            return Some(reason);
        }
        if !self.task.as_ref().is_some_and(JoinHandle::is_finished) {
            return None;
        }
        // A finished task is ready immediately.
        match self.task.take()?.now_or_never()? {
            Ok(Ok(())) => Some("it stopped without a request to stop".to_owned()),
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// At least this many replicas of the controllers with leader election, in one runtime. One that loses the lease starts
/// again, as a kubelet would start it.
#[derive(Clone, Copy, Debug)]
pub struct Replicas(pub u8);

/// Time until a replica that lost the lease starts again.
const START_AGAIN: Duration = Duration::from_secs(2);

/// Name and namespace of the lease: the program's defaults.
const LEASE: (&str, &str) = ("plumbline-controllers", "kube-system");

impl Subject for Replicas {
    fn name(&self) -> &'static str {
        "replicas"
    }

    fn identity(&self) -> Result<Identity, SubjectError> {
        InProcess.identity()
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        InProcess.controllers()
    }

    fn features(&self) -> BTreeSet<String> {
        InProcess.features()
    }

    /// Each replica has metrics of its own.
    fn lacks(&self) -> BTreeSet<Capability> {
        BTreeSet::from([Capability::Metrics])
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Running>, SubjectError> {
        InProcess.launch(&Launch { replicas: self.0.max(launch.replicas), ..*launch })
    }
}

/// Starts several replicas, each with an identity and clients of its own.
fn launch_replicas(launch: &Launch<'_>) -> Result<Box<dyn Running>, SubjectError> {
    let config = config(launch)?;
    let stop = CancellationToken::new();
    let factory = client_factory::ClientFactory::new(launch.access, launch.clock)?;
    let start = |number: u8| {
        let own = factory.for_replica(number);
        let clients: ClientFactory =
            Arc::new(move |name: &str| own.client(&plumbline_controllers::runtime::client::user_agent(name)));
        let election = Election {
            name: LEASE.0.to_owned(),
            namespace: LEASE.1.to_owned(),
            identity: format!("replica-{number}"),
            timing: Timing::default(),
        };
        let config = Config { election: Some(election), ..config.clone() };
        let clock = if launch.clock.is_virtual() { simulated(launch.clock) } else { SubjectClock::wall() };
        tokio::spawn(replica(config, clients, clock, stop.clone()))
    };
    let tasks = (1..=launch.replicas).map(start).collect();
    let clock = launch.clock.clone();
    Ok(Box::new(RunningReplicas { tasks, factory: factory.clone(), stop: stop.clone(), clock }))
}

/// Runs a replica until it is asked to stop.
async fn replica(
    config: Config,
    clients: ClientFactory,
    clock: SubjectClock,
    stop: CancellationToken,
) -> Result<(), AppError> {
    loop {
        let app = App::new(&config, clients.clone(), clock.clone(), Metrics::new(), stop.clone());
        let ended = Box::pin(app.run()).await;
        if !matches!(ended, Err(AppError::LostLease(_))) {
            return ended;
        }
        clock.sleep(START_AGAIN).await;
    }
}

struct RunningReplicas {
    tasks: Vec<JoinHandle<Result<(), AppError>>>,
    factory: client_factory::ClientFactory,
    stop: CancellationToken,
    clock: Clock,
}

impl Running for RunningReplicas {
    fn kill_switch(&self) -> KillSwitch {
        self.factory.kill_switch()
    }

    fn crash(&mut self) {
        self.factory.kill_switch().trip();
        self.tasks.drain(..).for_each(|task| task.abort());
    }

    fn stop(&mut self) -> LocalBoxFuture<'_, Result<(), SubjectError>> {
        async {
            self.stop.cancel();
            for task in self.tasks.drain(..) {
                let abort = task.abort_handle();
                let Some(ended) = self.clock.timeout(STOP_LIMIT, task).await else {
                    abort.abort();
                    let seconds = STOP_LIMIT.as_secs();
                    let why = format!("a replica is still running {seconds} s after the request to stop");
                    return Err(SubjectError::NotStopped(why));
                };
                let ended = ended.map_err(|error| SubjectError::NotStopped(error.to_string()))?;
                ended.map_err(|error| SubjectError::NotStopped(error.to_string()))?;
            }
            Ok(())
        }
        .boxed_local()
    }

    fn metrics(&self) -> LocalBoxFuture<'_, Result<String, SubjectError>> {
        async { Err(SubjectError::NoMetrics("each replica has metrics of its own".to_owned())) }.boxed_local()
    }

    fn ended(&mut self) -> Option<String> {
        if let Some(reason) = self.factory.ran_away() {
            return Some(reason);
        }
        let place = self.tasks.iter().position(JoinHandle::is_finished)?;
        // A finished task is ready immediately.
        Some(match self.tasks.remove(place).now_or_never()? {
            Ok(Ok(())) => "a replica stopped without a request to stop".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        })
    }
}

impl Drop for RunningReplicas {
    fn drop(&mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
    }
}

impl Drop for RunningInProcess {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}
