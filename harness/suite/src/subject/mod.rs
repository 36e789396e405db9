//! The implementation under test: controllers, seen from outside.
//!
//! - [`Subject`]: describes an implementation and launches it · [`Running`]: can be stopped, crashed and asked for
//!   metrics
//! - [`in_process`]: our own controllers, in the fixture's runtime and virtual time; the only module that imports their
//!   crate
//! - [`command`]: any program, as a process in wall time · [`none`]: no subject, for fixtures about the API server
//!   alone
//! - [`external`]: controllers that already run in the cluster · [`task`]: controllers of tests, as a task
//! - [`client_factory`]: clients whose connection a crash cuts between two polls

pub mod client_factory;
pub mod command;
pub mod external;
pub mod in_process;
pub mod none;
pub mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use plumbline::fixture::{Capability, Controller, Fixture};
use plumbline::time::Clock;
use plumbline::transcript::AgentRules;

use crate::cluster::Access;
use crate::process::tree::ProcessTree;

/// Arguments of [`Subject::launch`]: what a fixture runs, and where.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The controllers to run.
    pub controllers: &'a [Controller],
    /// Flags without leading dashes.
    pub flags: &'a BTreeMap<String, String>,
    /// Number of replicas, which elect a leader if there are several.
    pub replicas: u8,
    /// The way to reach the cluster.
    pub access: Access<'a>,
    /// The subject's clock. Skew of the server's clock is not included.
    pub clock: &'a Clock,
}

/// An implementation of the controllers.
pub trait Subject: Send + Sync {
    /// The name in reports.
    fn name(&self) -> &str;

    /// Identifies the tested implementation in a conformance report.
    ///
    /// # Errors
    ///
    /// Returns an error if the implementation cannot be read, for example because the program does not exist.
    fn identity(&self) -> Result<Identity, SubjectError>;

    /// The controllers it implements.
    fn controllers(&self) -> BTreeSet<Controller>;

    /// Rules about the user agents of its clients.
    fn agents(&self) -> AgentRules {
        AgentRules::default()
    }

    /// Treatment of writes by its clients that are none of the controllers under test.
    fn bystander_writes(&self) -> BystanderWrites {
        BystanderWrites::default()
    }

    /// Features of level `extended` that it declares, as globs.
    fn features(&self) -> BTreeSet<String>;

    /// Capabilities that a run with this subject lacks: [`Capability::Crash`] if it cannot be started and killed,
    /// [`Capability::Metrics`] if it exposes none.
    fn lacks(&self) -> BTreeSet<Capability>;

    /// Returns the reason if it cannot be launched with these flags; the fixture is then `unsupported`.
    fn refuses(&self, _flags: &BTreeMap<String, String>) -> Option<String> {
        None
    }

    /// Returns the reason if this fixture cannot judge it; the fixture is then skipped.
    fn cannot_show(&self, _fixture: &Fixture) -> Option<String> {
        None
    }

    /// Returns true if it is any program rather than an implementation of the four controllers: it runs in fixtures
    /// that name no controller, all that it sends is its own, and it starts again after it has ended by itself.
    fn is_program(&self) -> bool {
        false
    }

    /// Returns true if it runs in virtual time.
    fn is_virtual(&self) -> bool;

    /// Time limit until it watches the resources of its controllers, in wall time.
    fn ready_limit(&self) -> Duration {
        Duration::from_mins(1)
    }

    /// Starts it. Call this in the runtime in which it should live.
    ///
    /// # Errors
    ///
    /// Returns an error with the next step if it refuses the flags or cannot start.
    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Running>, SubjectError>;
}

/// Treatment of writes by clients of the subject that are none of the controllers under test, to resources that no
/// fixture judges. A bystander's write to pods, nodes, budgets or Events always fails the fixture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum BystanderWrites {
    /// They are not mentioned.
    Allow,
    /// They are listed in the report and do not count.
    #[default]
    Report,
    /// They fail the fixture.
    Fail,
}

/// Identity of the tested implementation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The kind of subject: `in-process`, `command`, …
    pub kind: &'static str,
    /// Name and version, or command line.
    pub what: String,
    /// `sha256:…` of the program file; `None` if no file is accessible.
    pub digest: Option<String>,
    /// Digests of the files that its command line names, by argument.
    pub files: BTreeMap<String, String>,
    /// Names of variables added to its environment.
    pub environment: BTreeSet<String>,
    /// Controllers that run alongside some of its own: `taint-eviction=daemonset-controller`.
    pub companions: BTreeSet<String>,
}

/// Failures of a subject. The message says what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// The tested program cannot be found or read.
    #[error("{0}")]
    Unidentified(String),
    /// It refuses its flags or cannot be started.
    #[error("{0}")]
    NotStarted(String),
    /// It ended before it was ready, or was not ready in time.
    #[error("{0}")]
    NotReady(String),
    /// It failed while stopping, or did not stop in time.
    #[error("{0}")]
    NotStopped(String),
    /// It exposes no metrics, or they cannot be read.
    #[error("{0}")]
    NoMetrics(String),
}

/// A launched subject.
pub trait Running {
    /// Returns a handle that cuts it off from the cluster immediately, from any thread.
    fn kill_switch(&self) -> client_factory::KillSwitch;

    /// Waits until it reports ready, if it can. That it has listed its resources is checked by the server instead.
    ///
    /// # Errors
    ///
    /// Returns an error with the last lines of its log if it ended or is not ready in time.
    fn ready(&mut self) -> LocalBoxFuture<'_, Result<(), SubjectError>> {
        async { Ok(()) }.boxed_local()
    }

    /// Returns true if its requests are recorded; false for a subject that connects to the cluster directly.
    fn is_seen(&self) -> bool {
        true
    }

    /// Its process id, if it is a separate, running process.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// Its processes, if it has some that the harness started.
    fn processes(&self) -> Option<ProcessTree> {
        None
    }

    /// Kills it without a chance to clean up.
    fn crash(&mut self);

    /// Asks it to end and waits.
    ///
    /// # Errors
    ///
    /// Returns an error if it fails or does not end in time.
    fn stop(&mut self) -> LocalBoxFuture<'_, Result<(), SubjectError>>;

    /// Returns its metrics as Prometheus text.
    ///
    /// # Errors
    ///
    /// Returns an error if it exposes no metrics.
    fn metrics(&self) -> LocalBoxFuture<'_, Result<String, SubjectError>>;

    /// Returns the reason if it ended by itself.
    fn ended(&mut self) -> Option<String>;

    /// Resolves when it has ended, if it is a process.
    fn end_signal(&self) -> LocalBoxFuture<'static, ()> {
        std::future::pending().boxed_local()
    }

    /// The last lines of its log, if logs are not collected elsewhere.
    fn log(&self) -> Vec<String> {
        Vec::new()
    }
}
