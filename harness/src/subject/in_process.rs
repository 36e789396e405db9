//! Our own controllers, in the fixture's runtime and time. The only module of the harness that imports their crate.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use plumbline_controllers::app::{App, AppError};
use plumbline_controllers::args::Args;
use plumbline_controllers::runtime::client::ClientFactory;
use plumbline_controllers::runtime::client::Encoding;
use plumbline_controllers::runtime::clock::Clock as SubjectClock;
use plumbline_controllers::runtime::diagnostics::Diagnostics;
use plumbline_controllers::runtime::metrics::Metrics;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::client_factory::{self, KillSwitch};
use super::{Identity, Launch, Running, Subject, SubjectError};
use crate::digest;
use crate::fixture::{Capability, Controller};
use crate::time::Clock;

/// Time limit for stopping, in virtual time: more than the sum of the controllers' own limits.
const STOP_LIMIT: Duration = Duration::from_mins(1);

/// The controllers of `plumbline-controllers`.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess;

impl Subject for InProcess {
    fn name(&self) -> &'static str {
        "in-process"
    }

    /// The controllers are part of this program.
    fn identity(&self) -> Result<Identity, SubjectError> {
        let program = std::env::current_exe()
            .map_err(|error| SubjectError::Unidentified(format!("unable to find this program: {error}")))?;
        let what = format!("plumbline-controllers {}", env!("CARGO_PKG_VERSION"));
        Ok(Identity {
            kind: "in-process",
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
        let names: Vec<&str> = launch.controllers.iter().map(|controller| controller.flag_name()).collect();
        let mut argv = vec!["plumbline-controllers".to_owned(), format!("--controllers={}", names.join(","))];
        // Off unless the fixture sets it: the client's rate limit would spread larger fixtures over seconds, and
        // fixtures check when a decision is made, not when the client may send it.
        if !launch.flags.contains_key("kube-api-qps") {
            argv.push("--kube-api-qps=0".to_owned());
        }
        argv.extend(launch.flags.iter().map(|(name, value)| format!("--{name}={value}")));
        let args = Args::try_parse_from(argv).map_err(|error| SubjectError::NotStarted(error.to_string()))?;
        let mut config = args.config().map_err(|error| SubjectError::NotStarted(error.to_string()))?;
        // The server in this process speaks JSON only: requests for protobuf would add noise to every transcript.
        config.encoding = Encoding::Json;

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

impl Drop for RunningInProcess {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}
