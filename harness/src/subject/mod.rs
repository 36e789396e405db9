//! What is tested: the controllers, seen from outside.
//!
//! - [`Subject`]: knows what it has and can be launched · [`Running`]: can be stopped, crashed and asked for its metrics
//! - [`in_process`]: our own controllers in the fixture's runtime and virtual time; the only import of their crate
//! - [`command`]: any program, as a process on the wall clock · [`none`]: nothing, for fixtures about the API server alone
//! - [`external`]: what runs in the cluster already
//! - [`gate`]: the connection that a crash cuts between one poll and the next

pub mod command;
pub mod external;
pub mod gate;
pub mod in_process;
pub mod none;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use crate::cluster::Access;
use crate::fixture::{Capability, Controller, Fixture};
use crate::time::Clock;

/// What a fixture wants to be launched, and where.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The controllers to run.
    pub controllers: &'a [Controller],
    /// Flags without leading dashes.
    pub flags: &'a BTreeMap<String, String>,
    /// The way to the cluster to work on.
    pub access: Access<'a>,
    /// The time it lives in. Skew of the server's clock is not part of it.
    pub clock: &'a Clock,
}

/// An implementation of the controllers.
pub trait Subject: Send + Sync {
    /// Name in reports.
    fn name(&self) -> &str;

    /// What tells it from others in a conformance report.
    ///
    /// # Errors
    ///
    /// When what is tested cannot be read, such as a program that is not there.
    fn identity(&self) -> Result<Identity, String>;

    /// The controllers it has.
    fn controllers(&self) -> BTreeSet<Controller>;

    /// Features of level `extended` that it declares; globs.
    fn features(&self) -> BTreeSet<String>;

    /// What it keeps a cluster from doing: [`Capability::Crash`] when it cannot be started and killed, [`Capability::Metrics`]
    /// when it shows none.
    fn lacks(&self) -> BTreeSet<Capability>;

    /// Why it cannot be launched with such flags, if it cannot; the fixture is `unsupported` then.
    fn refuses(&self, _flags: &BTreeMap<String, String>) -> Option<String> {
        None
    }

    /// Why it cannot be judged by this fixture, if it cannot; the fixture is skipped then.
    fn cannot_show(&self, _fixture: &Fixture) -> Option<String> {
        None
    }

    /// Whether it runs in virtual time.
    fn is_virtual(&self) -> bool;

    /// How long it may take until it watches what its controllers are about, on the wall clock.
    fn ready_limit(&self) -> Duration {
        Duration::from_mins(1)
    }

    /// Starts it. Call in the runtime in which it is to live.
    ///
    /// # Errors
    ///
    /// When it refuses flags or cannot start; the text says what to do.
    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Running>, String>;
}

/// What exactly was tested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The kind of subject: `in-process`, `command`, …
    pub kind: &'static str,
    /// Name and version, or command line.
    pub what: String,
    /// `sha256:…` of the program's file; `None` where there is none that we can see.
    pub digest: Option<String>,
    /// Names of variables that were added to its environment.
    pub environment: BTreeSet<String>,
    /// Controllers that run beside some of its own: `taint-eviction=daemonset-controller`.
    pub companions: BTreeSet<String>,
}

/// A subject that was launched.
pub trait Running {
    /// A handle that cuts it off from the cluster at once, from wherever it is called.
    fn cut(&self) -> gate::Cut;

    /// Waits until it says that it is ready, if it has a way to say so; that it has listed what it watches is seen by the
    /// server.
    ///
    /// # Errors
    ///
    /// When it ended, or does not become ready in time; with the last lines of its log.
    fn ready(&mut self) -> LocalBoxFuture<'_, Result<(), String>> {
        async { Ok(()) }.boxed_local()
    }

    /// Whether its requests are seen: not those of a subject that reaches the cluster by itself.
    fn is_seen(&self) -> bool {
        true
    }

    /// Its process, if it is one of its own and runs.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// Ends it where it stands, without a chance to tidy up.
    fn crash(&mut self);

    /// Asks it to end and waits.
    ///
    /// # Errors
    ///
    /// When it ends with an error, or does not end within its time.
    fn stop(&mut self) -> LocalBoxFuture<'_, Result<(), String>>;

    /// Its metrics as Prometheus text.
    ///
    /// # Errors
    ///
    /// When it has none to show.
    fn metrics(&self) -> LocalBoxFuture<'_, Result<String, String>>;

    /// Why it ended, if it ended by itself.
    fn ended(&mut self) -> Option<String>;

    /// The last lines that it logged, where they are not collected otherwise.
    fn log(&self) -> Vec<String> {
        Vec::new()
    }
}
