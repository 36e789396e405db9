//! Controllers that run as a task of the fixture's runtime, in virtual time: those of tests, and the canary of
//! explorations.

use std::collections::BTreeSet;
use std::future::Future;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use plumbline::fixture::{Capability, Controller};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::client_factory::{ClientFactory, KillSwitch};
use super::{Identity, Launch, Running, Subject, SubjectError};

/// Controllers that can be started as a task.
pub trait TaskController: Send + Sync {
    /// Returns the name and, where there are several of them, the variant.
    fn name(&self) -> String;

    /// Returns the controllers that it implements.
    fn controllers(&self) -> BTreeSet<Controller>;

    /// Starts them.
    ///
    /// # Errors
    ///
    /// See [`Subject::launch`].
    fn start(&self, launch: &Launch<'_>) -> Result<RunningTask, SubjectError>;
}

/// A subject that consists of a task. It has no metrics.
#[derive(Debug)]
pub struct TaskSubject<C> {
    name: String,
    controller: C,
}

impl<C: TaskController> TaskSubject<C> {
    /// Makes a subject of `controller`.
    pub fn new(controller: C) -> Self {
        Self { name: controller.name(), controller }
    }
}

impl<C: TaskController> Subject for TaskSubject<C> {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> Result<Identity, SubjectError> {
        Ok(Identity { kind: "in-process", what: self.name.clone(), ..Identity::default() })
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        self.controller.controllers()
    }

    fn features(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    fn lacks(&self) -> BTreeSet<Capability> {
        [Capability::Metrics, Capability::Replicas].into()
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Running>, SubjectError> {
        Ok(Box::new(self.controller.start(launch)?))
    }
}

/// Controllers that run as a task. Dropping it ends the task.
pub struct RunningTask {
    handle: JoinHandle<Result<(), String>>,
    kill_switch: KillSwitch,
    factory: Option<ClientFactory>,
    stop: Option<CancellationToken>,
}

impl RunningTask {
    /// Starts `work`, whose clients come from `factory`. Call this in the fixture's runtime.
    pub fn spawn<F, E>(factory: ClientFactory, work: F) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: ToString,
    {
        let mut running = Self::with_kill_switch(factory.kill_switch(), work);
        running.factory = Some(factory);
        running
    }

    /// Starts `work`, whose clients `kill_switch` cuts off.
    pub fn with_kill_switch<F, E>(kill_switch: KillSwitch, work: F) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: ToString,
    {
        let handle = tokio::spawn(async { work.await.map_err(|error| error.to_string()) });
        Self { handle, kill_switch, factory: None, stop: None }
    }

    /// Lets [`Running::stop`] ask for an orderly end with `stop` instead of ending the task.
    #[must_use]
    pub fn stopped_by(mut self, stop: CancellationToken) -> Self {
        self.stop = Some(stop);
        self
    }
}

impl Running for RunningTask {
    fn kill_switch(&self) -> KillSwitch {
        self.kill_switch.clone()
    }

    fn crash(&mut self) {
        self.kill_switch.trip();
        self.handle.abort();
    }

    fn stop(&mut self) -> LocalBoxFuture<'_, Result<(), SubjectError>> {
        async {
            match &self.stop {
                Some(stop) => stop.cancel(),
                None => self.handle.abort(),
            }
            (&mut self.handle).await.unwrap_or(Ok(())).map_err(SubjectError::NotStopped)
        }
        .boxed_local()
    }

    fn metrics(&self) -> LocalBoxFuture<'_, Result<String, SubjectError>> {
        async { Err(SubjectError::NoMetrics("a task has no metrics".to_owned())) }.boxed_local()
    }

    fn ended(&mut self) -> Option<String> {
        if let Some(reason) = self.factory.as_ref().and_then(ClientFactory::ran_away) {
            return Some(reason);
        }
        self.handle.is_finished().then(|| match (&mut self.handle).now_or_never() {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => error.to_string(),
            Some(Ok(Ok(()))) | None => "the task ended".to_owned(),
        })
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.handle.abort();
    }
}
