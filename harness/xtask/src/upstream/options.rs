//! Parameters of a run.

use std::path::PathBuf;
use std::time::Duration;

use super::selection::{Difference, Rules};

/// Parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunOptions {
    /// The program `e2e.test`.
    pub e2e_test: PathBuf,
    /// The program `kubectl` that specs call; from the search path if absent.
    pub(crate) kubectl: Option<PathBuf>,
    /// The kubeconfig of a real cluster, to compare with.
    pub(crate) beside: Option<PathBuf>,
    /// The program `kube-controller-manager` that runs beside our server.
    pub(crate) controller_manager: Option<PathBuf>,
    /// Flags of `plumbline serve`.
    pub(crate) serve: Vec<String>,
    /// Further flags of `e2e.test`.
    pub(crate) flags: Vec<String>,
    /// Specs to run in parallel.
    pub(crate) jobs: usize,
    /// Time limit of a spec that has none of its own.
    pub(crate) limit: Duration,
    /// Folder for the logs of all processes; a temporary one if absent.
    pub(crate) logs: Option<PathBuf>,
    /// The choice of specs.
    pub(crate) rules: Rules,
    /// Differences that are known.
    pub(crate) known: Vec<Difference>,
}
