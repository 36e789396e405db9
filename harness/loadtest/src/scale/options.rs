//! Options of a measurement.

use std::path::PathBuf;
use std::time::Duration;

use plumbline::fixture::Controller;

use super::report::{ClusterShape, Scenario};
use super::subject::MeasuredCommand;
use super::target_cluster::ClusterChoice;

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
    pub subjects: Vec<MeasuredCommand>,
    /// The controllers to start.
    pub controllers: Vec<Controller>,
    /// Connections of the load.
    pub connections: usize,
    /// Time limit of a scenario.
    pub limit: Duration,
    /// Folder for logs.
    pub logs: PathBuf,
}
