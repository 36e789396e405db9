//! Where fixtures run: a [`Cluster`] is the place, a [`Stage`] one fixture's part of it.
//!
//! - [`embedded`]: the server of [`crate::apiserver`] in this very process, in virtual time; a server for each fixture
//! - [`served`]: the same server over HTTPS, in wall time, for subjects that are processes; again one for each fixture
//! - [`remote`]: a real API server that fixtures share, each in namespaces and on nodes of its own
//!
//! [`provision`] starts and finds real API servers.
//!
//! A fixture never names a place, it requires capabilities. Every stage answers the same questions: how a step's request
//! is sent, where the subject finds it, what happened ([`Stage::transcript`]).

pub mod client;
pub mod embedded;
pub mod provision;
pub mod remote;
mod role;
pub mod served;

use std::collections::BTreeSet;
use std::path::Path;

use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::Method;
use serde_json::Value;

use crate::apiserver::faults::Faults;
use crate::apiserver::listener::Door;
use crate::apiserver::{ApiServer, ResourceId};
use crate::fixture::{Capability, Fixture, Resource};
use crate::time::Clock;
use crate::transcript::Transcript;

pub use embedded::Embedded;
pub use remote::Remote;
pub use role::Role;
pub use served::Served;

/// Where fixtures run. Lives as long as the run; whatever it started ends when it is dropped.
pub trait Cluster: Send + Sync {
    /// Name in reports.
    fn name(&self) -> &str;

    /// The image that it runs from, if it runs from one that was named.
    fn image(&self) -> Option<&str> {
        None
    }

    /// The version of Kubernetes that its API server is, or behaves as, such as `v1.36.0`.
    ///
    /// # Errors
    ///
    /// When the API server does not say.
    fn kubernetes(&self) -> Result<String, String>;

    /// What it can do.
    fn capabilities(&self) -> BTreeSet<Capability>;

    /// Why a fixture cannot run here although its capabilities are there, if it cannot: it is skipped then.
    fn refuses(&self, _fixture: &Fixture) -> Option<String> {
        None
    }

    /// Whether a fixture has to be alone in it: it changes something that the others see.
    fn must_be_alone(&self, _fixture: &Fixture) -> bool {
        false
    }

    /// Why it no longer works, if it does not: what runs is not to be trusted then, and nothing more can run. Not to be called
    /// in a runtime.
    fn broken(&self) -> Option<String> {
        None
    }

    /// Ends what was started for it. Not to be called in a runtime.
    ///
    /// # Errors
    ///
    /// What did not end as it should.
    fn stop(&self) -> Result<(), String> {
        Ok(())
    }

    /// Sets the stage for a fixture. Called in the fixture's runtime; `clock` is the fixture's.
    ///
    /// # Errors
    ///
    /// A sentence for people: what does not work, and what to do.
    fn stage<'a>(
        &'a self,
        fixture: &'a Fixture,
        clock: &'a Clock,
    ) -> LocalBoxFuture<'a, Result<Box<dyn Stage>, String>>;

    /// Whether time is virtual here.
    fn is_virtual(&self) -> bool {
        self.capabilities().contains(&Capability::VirtualTime)
    }
}

/// One fixture's part of a cluster, while it runs.
pub trait Stage {
    /// What happened, written by the server's side.
    fn transcript(&self) -> &Transcript;

    /// Trouble on demand, where the place can make it.
    fn faults(&self) -> Option<&Faults>;

    /// The resourceVersion of the last change; 0 where nobody knows.
    fn revision(&self) -> u64;

    /// Whether watchers must not see what happens to a resource for a moment: an object and its status are two requests,
    /// but one happening. Nothing to do in virtual time, where watchers come to nothing meanwhile.
    ///
    /// Says whether [`Stage::let_go`] has to follow: not if a fault holds the events back already.
    fn keep_back(&self, _resource: &ResourceId) -> bool {
        false
    }

    /// Ends [`Stage::keep_back`]: watchers see the last state of each object, once.
    fn let_go(&self, _resource: &ResourceId) {}

    /// Why the place no longer works, as far as this fixture has noticed.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Whether those who begin to read wait from now on, until [`Stage::let_readers_in`]: the subject starts as slowly as it
    /// likes, and finds a world that was made at the moment when it looks. Nothing to do in virtual time.
    fn keep_readers_waiting(&self) -> bool {
        false
    }

    /// Ends [`Stage::keep_readers_waiting`].
    fn let_readers_in(&self) {}

    /// Plants definitions of kinds ahead of everything else: a program asks which kinds there are before it reads.
    ///
    /// # Errors
    ///
    /// As [`Stage::seed`].
    fn define(&self, definitions: Vec<Value>) -> LocalBoxFuture<'_, Result<(), Unplanted>> {
        self.seed(definitions).map_ok(drop).boxed_local()
    }

    /// Makes the past unavailable to watches and lists. Only with [`Capability::Compaction`].
    fn compact(&self);

    /// Plants `objects` and returns everything that the server has then, as stored.
    ///
    /// # Errors
    ///
    /// When an object is of an unknown kind or cannot be stored; the text names it.
    fn seed(&self, objects: Vec<Value>) -> LocalBoxFuture<'_, Result<Vec<Value>, Unplanted>>;

    /// Sends `call` and waits for the whole answer.
    fn send(&self, call: Call) -> LocalBoxFuture<'_, Answer>;

    /// How a subject gets at it.
    fn access(&self) -> Access<'_>;

    /// The door that the subject's connections pass: shut at the moment of a crash, because a process takes another
    /// moment to die.
    fn door(&self) -> Door;

    /// Takes everything away that the fixture left behind.
    ///
    /// # Errors
    ///
    /// What is left, and where.
    fn clear(self: Box<Self>) -> LocalBoxFuture<'static, Result<(), String>>;
}

/// Why given objects are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unplanted {
    /// No client can make such an object on this server, says the server: the fixture is skipped.
    Refused(String),
    /// Something went wrong.
    Failed(String),
}

impl From<String> for Unplanted {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// How a subject gets at a stage.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// By calls in this process.
    InProcess(&'a ApiServer),
    /// Over a connection.
    Kubeconfig(&'a Path),
}

/// The answer to a request of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status code; 0 when the connection broke.
    pub code: u16,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// Decoded body; a string if it is no JSON.
    pub body: Value,
}

/// A request of a step, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Body and its content type.
    pub body: Option<(&'static str, Value)>,
    /// Who asks.
    pub user_agent: String,
}

/// The server's name for a resource of a fixture.
#[must_use]
pub fn resource_id(resource: &Resource) -> ResourceId {
    ResourceId::new(&resource.group, &resource.plural)
}

/// An error with its causes, each told once: the outermost alone often says nothing.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
