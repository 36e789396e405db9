//! What is tested: the controllers, seen from outside.
//!
//! - [`Subject`]: knows what it has and can be launched · [`Running`]: can be stopped, crashed and asked for its metrics
//! - [`in_process`]: our own controllers in the fixture's runtime and virtual time; the only import of their crate
//! - [`gate`]: the connection that a crash cuts between one poll and the next

pub mod gate;
pub mod in_process;

use std::collections::{BTreeMap, BTreeSet};

use futures::future::LocalBoxFuture;

use crate::cluster::Embedded;
use crate::fixture::Controller;
use crate::time::Clock;

/// What a fixture wants to be launched, and where.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The controllers to run.
    pub controllers: &'a [Controller],
    /// Flags without leading dashes.
    pub flags: &'a BTreeMap<String, String>,
    /// The cluster to work on.
    pub cluster: &'a Embedded,
    /// The time it lives in. Skew of the server's clock is not part of it.
    pub clock: &'a Clock,
}

/// An implementation of the controllers.
pub trait Subject: Send + Sync {
    /// Name in reports.
    fn name(&self) -> &'static str;

    /// The controllers it has.
    fn controllers(&self) -> BTreeSet<Controller>;

    /// Features of level `extended` that it declares; globs.
    fn features(&self) -> BTreeSet<String>;

    /// Starts it. Call in the runtime in which it is to live.
    ///
    /// # Errors
    ///
    /// When it refuses flags or cannot start; the text says what to do.
    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Running>, String>;
}

/// A subject that was launched.
pub trait Running {
    /// A handle that cuts it off from the cluster at once, from wherever it is called.
    fn cut(&self) -> gate::Cut;

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
    fn metrics(&self) -> Result<String, String>;

    /// Why it ended, if it ended by itself.
    fn ended(&mut self) -> Option<String>;
}
