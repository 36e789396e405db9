//! Benchmarks of controllers in a large cluster: any program, on any API server.
//!
//! A cluster is filled with nodes, pods, replica sets and budgets; then the subject starts, and scenarios change the
//! cluster ([`Scenario`]). The subject is not queried: a scenario ends when the *server* has the expected state,
//! according to three watches.
//!
//! | module | does |
//! |---|---|
//! | [`target_cluster`] | the cluster: the fake server as a separate process, or a real one |
//! | `subject` | starts and watches the program; measures CPU time and memory from `/proc` |
//! | `model` | the expected pods, nodes and applications. PURE |
//! | `event`, `server_state`, `follow` | the state of the server, from its watches |
//! | `calls` | requests by verb, from the server's counters |
//! | `run`, `scenario`, `curve` | the scenarios and their measurement |
//! | [`report`], [`page`] | table and JSON, targets and references; curves |
//!
//! Objects and load come from [`crate::bench`].

mod calls;
mod curve;
mod event;
mod follow;
mod model;
pub mod page;
pub mod report;
mod run;
mod scenario;
mod server_state;
pub mod subject;
pub mod target_cluster;

use std::path::PathBuf;
use std::time::Duration;

pub use self::report::{ClusterShape, ScaleReport, Scenario};
pub use self::run::run;
pub use self::target_cluster::ClusterChoice;

use plumbline::fixture::Controller;

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct ScaleOptions {
    /// Size of the cluster.
    pub shape: ClusterShape,
    /// Scenarios in order; [`Scenario::Start`] always comes first.
    pub scenarios: Vec<Scenario>,
    /// Measures the cost of a budget's sync in namespaces of several sizes.
    pub curve: bool,
    /// The cluster.
    pub cluster: ClusterChoice,
    /// The subjects, measured one after the other, each on a fresh cluster.
    pub subjects: Vec<subject::MeasuredCommand>,
    /// The controllers to start.
    pub controllers: Vec<Controller>,
    /// Connections of the load.
    pub connections: usize,
    /// Time limit of a scenario.
    pub limit: Duration,
    /// Folder for logs.
    pub logs: PathBuf,
}

/// Progress of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgressEvent {
    /// A phase began or ended.
    Phase(String),
    /// A number changed.
    Progress(String),
}

/// Receiver of progress.
pub type ProgressSink<'a> = &'a (dyn Fn(ProgressEvent) + Sync);

/// Reasons why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    /// Conflicting flags.
    #[error("{0}")]
    Usage(String),
    /// The cluster or a program did not start, or ended.
    #[error("{0}")]
    Environment(String),
    /// The load failed.
    #[error(transparent)]
    Bench(#[from] crate::bench::BenchError),
    /// A watch of the load generator ended.
    #[error("the watch of {path} ended: {why}")]
    Watch {
        /// The watched path.
        path: &'static str,
        /// The reason.
        why: String,
    },
}
