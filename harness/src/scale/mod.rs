//! How fast and how small controllers are in a large cluster: any program, beside any API server.
//!
//! A cluster is filled with nodes, pods, replica sets and budgets; then the subject starts, and things happen to the cluster
//! ([`Scenario`]). Nothing is asked of the subject: what counts is when the *server* holds what it should, as three watches tell.
//!
//! | module | does |
//! |---|---|
//! | [`place`] | the cluster: the fake server as a process of its own, or a real one |
//! | `subject` | starts and watches the program; its processor time and memory, from `/proc` |
//! | `model` | what is in the cluster, and what each budget has to say about it. PURE |
//! | `event`, `held`, `follow` | what the server holds, from its watches |
//! | `calls` | requests by verb, from the server's counters |
//! | `bench`, `scenario`, `curve` | what happens, and how long it takes |
//! | [`report`] | table and JSON, targets and references |
//!
//! Objects and load are those of [`crate::bench`].

mod calls;
mod curve;
mod event;
mod follow;
mod held;
mod model;
pub mod place;
pub mod report;
mod run;
mod scenario;
pub mod subject;

use std::path::PathBuf;
use std::time::Duration;

pub use self::place::Cluster;
pub use self::report::{Report, Scenario, Shape};
pub use self::run::run;

use crate::fixture::Controller;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much of everything.
    pub shape: Shape,
    /// What happens, in this order; [`Scenario::Start`] comes first in any case.
    pub scenarios: Vec<Scenario>,
    /// Whether to measure what a budget's sync costs in namespaces of several sizes.
    pub curve: bool,
    /// Where.
    pub cluster: Cluster,
    /// Who, in turn, each on a fresh cluster.
    pub subjects: Vec<subject::Command>,
    /// The controllers that are started.
    pub controllers: Vec<Controller>,
    /// Connections of the load.
    pub connections: usize,
    /// How long a scenario may take.
    pub limit: Duration,
    /// Folder for logs.
    pub logs: PathBuf,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Something new begins, or ended.
    Phase(String),
    /// A number has changed.
    Progress(String),
}

/// Where progress goes.
pub type Say<'a> = &'a (dyn Fn(Told) + Sync);

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Flags that do not go together.
    #[error("{0}")]
    Usage(String),
    /// The cluster or a program does not start, or ended.
    #[error("{0}")]
    Environment(String),
    /// The load does not work.
    #[error(transparent)]
    Bench(#[from] crate::bench::Error),
    /// A watch of ours ended.
    #[error("the watch of {path} ended: {why}")]
    Watch {
        /// What was watched.
        path: &'static str,
        /// Why.
        why: String,
    },
}
