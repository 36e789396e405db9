//! The interface of clusters, and of a fixture's slice of one.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use plumbline::fixture::{Capability, Fixture};
use plumbline::time::Clock;
use plumbline::transcript::{Agents, InProcessEndpoint, RecordedJson, Transcript};
use plumbline_apiserver::ResourceId;
use plumbline_apiserver::faults::Faults;
use plumbline_apiserver::listener::ConnectionGate;
use serde_json::Value;

use super::call::{Answer, Call};
use super::error::{ClusterError, SeedError};

/// A cluster that fixtures run in. Lives as long as the run; everything it started ends when it is dropped.
pub trait Cluster: Send + Sync {
    /// The name in reports.
    fn name(&self) -> &str;

    /// The image it runs from, if an image was chosen by name.
    fn image(&self) -> Option<&str> {
        None
    }

    /// The Kubernetes version that its API server has or emulates, such as `v1.36.0`.
    ///
    /// # Errors
    ///
    /// Returns an error if the API server does not report its version.
    fn kubernetes(&self) -> Result<String, ClusterError>;

    /// Capabilities of the cluster.
    fn capabilities(&self) -> BTreeSet<Capability>;

    /// Returns the reason if a fixture cannot run here although the cluster has the capabilities; it is then skipped.
    fn refuses(&self, _fixture: &Fixture) -> Option<String> {
        None
    }

    /// Returns true if the fixture must run alone because it changes something that other fixtures see.
    fn must_be_alone(&self, _fixture: &Fixture) -> bool {
        false
    }

    /// Returns the reason if the cluster no longer works: results of running fixtures are then invalid and no fixture
    /// can start. Do not call this inside a runtime.
    fn broken(&self) -> Option<String> {
        None
    }

    /// Stops everything that was started for the cluster. Do not call this inside a runtime.
    ///
    /// # Errors
    ///
    /// Returns an error that names what could not be stopped cleanly.
    fn stop(&self) -> Result<(), ClusterError> {
        Ok(())
    }

    /// Creates the sandbox of a fixture. Called in the fixture's runtime; `clock` is the fixture's clock. What arrives
    /// through [`Sandbox::access`] is attributed by `agents`.
    ///
    /// # Errors
    ///
    /// Returns an error with what does not work and what to do about it.
    fn sandbox<'a>(
        &'a self,
        fixture: &'a Fixture,
        clock: &'a Clock,
        agents: Agents,
    ) -> LocalBoxFuture<'a, Result<Box<dyn Sandbox>, ClusterError>>;

    /// The time of the fixtures.
    fn time(&self) -> ClusterTime {
        ClusterTime::Wall
    }

    /// Returns true if time moves only when nothing is left to do.
    fn is_virtual(&self) -> bool {
        self.time() != ClusterTime::Wall
    }

    /// Returns true if the server itself needs no time where time moves only when nothing is left to do. A real one
    /// has timers of its own between a request and its watch event.
    fn is_exact(&self) -> bool {
        true
    }

    /// Seed of what is drawn for each fixture, such as the names of its objects; `None` if nothing is.
    fn seed(&self) -> Option<u64> {
        None
    }
}

/// The time in which a cluster's fixtures run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterTime {
    /// tokio's paused time: cluster and subject are tasks of one thread.
    Virtual,
    /// The wall clock of a traced process, which moves only while all programs wait.
    Traced,
    /// The wall clock of the machine.
    Wall,
}

/// One fixture's slice of a cluster while the fixture runs.
pub trait Sandbox {
    /// The record of requests and changes, written on the server's side.
    fn transcript(&self) -> &Transcript;

    /// Fault injection, if the cluster supports it.
    fn faults(&self) -> Option<&Faults>;

    /// The resourceVersion of the last change; 0 if unknown.
    fn revision(&self) -> u64;

    /// Holds the watch events of a resource back, so that a step's two requests (an object and its status) appear as
    /// one change. Does nothing in virtual time, where watchers do not run between the two requests.
    ///
    /// Returns true if [`Sandbox::release_events`] must follow; false if a fault already holds the events back.
    fn hold_events(&self, _resource: &ResourceId) -> bool {
        false
    }

    /// Ends [`Sandbox::hold_events`]: watchers then see the last state of each object once.
    fn release_events(&self, _resource: &ResourceId) {}

    /// Returns the reason if this fixture noticed that the cluster no longer works.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Makes new lists and watches wait until [`Sandbox::release_readers`], so that the time a subject needs to start
    /// does not count: the fixture's objects are created when it first reads. Returns true if readers wait. Does
    /// nothing in virtual time.
    fn hold_readers(&self) -> bool {
        false
    }

    /// Ends [`Sandbox::hold_readers`].
    fn release_readers(&self) {}

    /// Creates custom resource definitions before all other objects: a client runs discovery before it lists.
    ///
    /// # Errors
    ///
    /// The same as for [`Sandbox::seed`].
    fn define(&self, definitions: Vec<Value>) -> LocalBoxFuture<'_, Result<(), SeedError>> {
        self.seed(definitions).map_ok(drop).boxed_local()
    }

    /// Returns the time by which the start of the run is delayed once readers wait, so that a subject cannot know it.
    fn start_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns a text of the subject with the fixture's names, where the subject sees others.
    fn own_names(&self, text: String) -> String {
        text
    }

    /// Returns sentences about requests that only a subject makes that knows of the test: with names that it cannot
    /// know, or to objects that are there only to be left alone.
    fn misuse(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Compacts the history, so that older resourceVersions are no longer available to watches and lists. Only with
    /// [`Capability::Compaction`].
    fn compact(&self);

    /// Seeds `objects` and returns all objects that the server then has, as stored.
    ///
    /// # Errors
    ///
    /// Returns an error if an object has an unknown kind or cannot be stored; the message names it.
    fn seed(&self, objects: Vec<Value>) -> LocalBoxFuture<'_, Result<Vec<RecordedJson>, SeedError>>;

    /// Sends `call` and waits for the complete answer.
    fn send(&self, call: Call) -> LocalBoxFuture<'_, Answer>;

    /// The subject's way to reach this sandbox.
    fn access(&self) -> Access<'_>;

    /// The gate for the subject's connections. It is closed at the moment of a crash, because a process takes longer to
    /// die.
    fn gate(&self) -> ConnectionGate;

    /// Deletes everything that the fixture created.
    ///
    /// # Errors
    ///
    /// Returns an error that names the leftovers.
    fn clear(self: Box<Self>) -> LocalBoxFuture<'static, Result<(), ClusterError>>;
}

/// Ways for a subject to reach a sandbox.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// Direct calls in this process.
    InProcess(&'a InProcessEndpoint),
    /// A connection described by a kubeconfig.
    Kubeconfig(&'a Path),
}
