//! A Kubernetes API server that responds, and what runs beside it.

use std::fmt;
use std::path::PathBuf;

use futures::future::BoxFuture;
use plumbline::fixture::Controller;

use super::environment_error::EnvironmentError;

/// A Kubernetes API server that responds.
#[derive(Debug)]
pub struct Server {
    /// Value of `--cluster`.
    pub name: &'static str,
    /// The image it runs from, if an image was chosen by name.
    pub image: Option<String>,
    /// Version reported by the server, such as `v1.36.1`.
    pub version: String,
    /// A kubeconfig with one context, readable by its owner only. It is removed with the server.
    pub kubeconfig: PathBuf,
    /// Folder of the logs. They stay.
    pub log_folder: PathBuf,
    /// True if the cluster is ours alone or its owner allowed everything: fixtures may change nodes, settings and pods
    /// of the whole cluster.
    pub allows_disruption: bool,
    /// The tested controllers whose built-in versions run there.
    pub built_in: Vec<Controller>,
    /// Other components that act on the objects of fixtures.
    pub bystanders: Bystanders,
    pub(super) started: Box<dyn ServerBackend>,
}

/// Components of a cluster, other than the tested controllers, that act on the objects of fixtures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bystanders {
    /// A scheduler, which binds pods without a node.
    pub scheduler: bool,
    /// Controllers that create pods for owners, collect garbage and taint nodes without a kubelet:
    /// [`MEDDLERS`](super::built_in_controllers::MEDDLERS).
    pub meddlers: bool,
}

/// Resources that were started for a [`Server`]. Dropping them ends them without waiting.
pub(super) trait ServerBackend: fmt::Debug + Send + Sync {
    /// Returns the reason if it no longer runs.
    fn ended(&mut self) -> BoxFuture<'_, Option<String>>;

    /// Stops it and waits until it is gone.
    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<(), EnvironmentError>>;
}

impl Server {
    /// Returns the reason if the server no longer runs, with the end of its log.
    pub async fn ended(&mut self) -> Option<String> {
        self.started.ended().await
    }

    /// Stops everything that was started and waits until it is gone. Logs stay.
    ///
    /// # Errors
    ///
    /// Returns [`FailureKind::Failed`](super::FailureKind::Failed) for what could not be stopped cleanly; it is gone
    /// nevertheless unless the message says otherwise.
    pub async fn stop(self) -> Result<(), EnvironmentError> {
        self.started.stop().await
    }
}
