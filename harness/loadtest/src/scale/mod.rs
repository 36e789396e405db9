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
mod error;
mod event;
mod follow;
mod model;
mod options;
pub mod page;
mod progress;
pub mod report;
mod run;
mod scenario;
mod server_state;
pub mod subject;
pub mod target_cluster;

pub use self::error::ScaleError;
pub use self::options::ScaleOptions;
pub use self::progress::{ProgressEvent, ProgressSink};
pub use self::report::{ClusterShape, ScaleReport, Scenario};
pub use self::run::run;
pub use self::target_cluster::ClusterChoice;
