//! Real API servers: started or found, reached, stopped.
//!
//! | module | does |
//! |---|---|
//! | [`envtest`] | etcd and kube-apiserver as processes |
//! | [`k3s`] | `rancher/k3s` in a container, through testcontainers |
//! | [`kind`] | a cluster through the `kind` CLI |
//! | [`kubeconfig`] | an existing cluster |
//!
//! Each has an `Options` with its flags and a `start(&options, logs)`. A [`Server`] ends with [`Server::stop`], when it
//! is dropped, or soon after the harness was killed; only logs stay.

pub mod envtest;
pub mod k3s;
pub mod kind;
pub mod kubeconfig;

#[cfg(feature = "containers")]
mod containers;
pub(crate) mod leftovers;
mod owner;
mod probe;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use plumbline::fixture::Controller;

use crate::process::crash_cleanup::HelperError;
use crate::process::tempdir::{self, TempDirError};

/// A kind of real API server, with the options to start or find it.
#[derive(Clone, Debug)]
pub enum RealCluster {
    /// etcd and kube-apiserver as processes.
    Envtest(envtest::EnvtestOptions),
    /// k3s in a container.
    K3s(k3s::K3sOptions),
    /// kind, through its command line.
    Kind(kind::KindOptions),
    /// An existing cluster.
    Kubeconfig(kubeconfig::ExistingClusterOptions),
}

impl RealCluster {
    /// Starts or finds it; logs go to `logs`.
    ///
    /// # Errors
    ///
    /// Returns an error that names what is missing or does not start, and what to do.
    pub async fn start(&self, logs: &Path) -> Result<Server, EnvironmentError> {
        match self {
            Self::Envtest(options) => envtest::start(options, logs).await,
            Self::K3s(options) => k3s::start(options, logs).await,
            Self::Kind(options) => kind::start(options, logs).await,
            Self::Kubeconfig(options) => kubeconfig::start(options, logs).await,
        }
    }
}

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
    started: Box<dyn ServerBackend>,
}

/// Components of a cluster, other than the tested controllers, that act on the objects of fixtures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bystanders {
    /// A scheduler, which binds pods without a node.
    pub scheduler: bool,
    /// The controllers in [`MEDDLERS`], which create pods for owners, collect garbage and taint nodes without a
    /// kubelet.
    pub meddlers: bool,
}

/// Controllers that act on the objects of fixtures: workloads, garbage collection, node health.
const MEDDLERS: [&str; 9] = [
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "garbage-collector-controller",
    "job-controller",
    "node-lifecycle-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
];

/// Returns the tested controllers whose built-in versions stay on.
fn built_in(left_on: bool) -> Vec<Controller> {
    if left_on { Controller::ALL.into() } else { Vec::new() }
}

/// Resources that were started for a [`Server`]. Dropping them ends them without waiting.
trait ServerBackend: fmt::Debug + Send + Sync {
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
    /// Returns [`FailureKind::Failed`] for what could not be stopped cleanly; it is gone nevertheless unless the
    /// message says otherwise.
    pub async fn stop(self) -> Result<(), EnvironmentError> {
        self.started.stop().await
    }
}

/// Categories of environment failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A program, an image or a file is missing.
    Missing,
    /// Something did not start, ended early, or could not be stopped.
    Failed,
    /// Something runs but did not become ready in time.
    NotReady,
    /// Nothing responds, or the response is not that of a Kubernetes API server.
    Unreachable,
    /// The user lacks permissions that the suite needs.
    Forbidden,
}

/// A failure of the environment: [`crate::exit::Exit::Environment`]. The message names the cause and the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct EnvironmentError {
    /// The category.
    pub kind: FailureKind,
    /// The thing and its failure.
    pub what: String,
    /// Supporting lines: places searched, the end of a log.
    pub evidence: Vec<String>,
    /// The next step for the user.
    pub next: String,
}

impl EnvironmentError {
    fn new(kind: FailureKind, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { kind, what: what.into(), evidence: Vec::new(), next: next.into() }
    }

    fn with(mut self, evidence: impl IntoIterator<Item = String>) -> Self {
        self.evidence.extend(evidence);
        self
    }
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for line in &self.evidence {
            write!(f, "\n    {line}")?;
        }
        write!(f, "\n  next: {}", self.next)
    }
}

impl From<HelperError> for EnvironmentError {
    fn from(error: HelperError) -> Self {
        Self::new(FailureKind::Failed, error.to_string(), "check the limit on processes (`ulimit -u`)")
    }
}

/// Removes the containers with a label. Returns true on success. Creates a runtime of its own.
#[cfg(feature = "containers")]
#[must_use]
pub fn remove_containers(label: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.is_ok_and(|runtime| runtime.block_on(containers::remove(label)).is_ok())
}

/// Returns false: this build cannot start containers.
#[cfg(not(feature = "containers"))]
#[must_use]
pub const fn remove_containers(_label: &str) -> bool {
    false
}

/// Number of log lines in an error.
const EVIDENCE_LINES: usize = 12;
/// Pause between two checks of something that is not ready yet.
const PAUSE: Duration = Duration::from_millis(100);

/// Creates a temporary folder for a server's files.
fn temporary_folder() -> Result<tempfile::TempDir, EnvironmentError> {
    tempdir::create().map_err(|error| EnvironmentError::new(FailureKind::Failed, error.what(), TempDirError::NEXT))
}

/// Creates the folder for logs and returns its absolute path: programs have their own working folders.
fn log_folder(folder: &Path) -> Result<PathBuf, EnvironmentError> {
    std::fs::create_dir_all(folder).and_then(|()| std::path::absolute(folder)).map_err(|error| {
        let what = format!("unable to create the log folder {}: {error}", folder.display());
        EnvironmentError::new(FailureKind::Failed, what, "choose another one with --logs")
    })
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, content: &str) -> Result<(), EnvironmentError> {
    plumbline_apiserver::listener::write_private_file(path, content).map_err(|error| {
        let what = format!("unable to write {}: {error}", path.display());
        EnvironmentError::new(FailureKind::Failed, what, "free some space there, or set TMPDIR to another folder")
    })
}

/// Returns a random token of 128 bits in hexadecimal digits.
pub(crate) fn random_token() -> Result<String, EnvironmentError> {
    plumbline_apiserver::listener::random_token().map_err(|_| {
        EnvironmentError::new(FailureKind::Failed, "the system has no source of random numbers", "check /dev/urandom")
    })
}

/// Returns the value for kube-controller-manager's `--controllers` that extends `base` by disabling the tested
/// controllers and those that act on the objects of fixtures.
fn controllers_without(base: &str) -> String {
    let tested = Controller::ALL.iter().map(|controller| controller.flag_name());
    let off = tested.chain(MEDDLERS).map(|name| format!(",-{name}"));
    format!("{base}{}", off.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct AllFlags {
        #[command(flatten)]
        envtest: envtest::EnvtestOptions,
        #[command(flatten)]
        k3s: k3s::K3sOptions,
        #[command(flatten)]
        kind: kind::KindOptions,
        #[command(flatten)]
        kubeconfig: kubeconfig::ExistingClusterOptions,
    }

    #[test]
    fn all_flags_fit_one_command_line() {
        use clap::{CommandFactory as _, Parser as _};
        AllFlags::command().debug_assert();
        let words = [
            "x",
            "--envtest-apiserver-arg=--v=4",
            "--k3s-port=7000",
            "--kind-image=i",
            "--kubeconfig",
            "f",
            "--context=c",
        ];
        let line = AllFlags::parse_from(words);
        assert_eq!(line.envtest.envtest_apiserver_arg, ["--v=4"]);
        assert_eq!(line.k3s.k3s_port, Some(7000));
        assert_eq!(line.kind.kind_image.as_deref(), Some("i"));
        assert_eq!((line.kubeconfig.context.as_deref(), line.kubeconfig.allow_disruptive), (Some("c"), false));
    }

    #[test]
    fn errors_name_the_thing_and_the_next_step() {
        let error = EnvironmentError::new(FailureKind::Missing, "no etcd", "install it").with(["/a".to_owned()]);
        assert_eq!(error.to_string(), "no etcd\n    /a\n  next: install it");
    }

    /// The names are kube-controller-manager's own, from `cmd/kube-controller-manager/names/controller_names.go`.
    #[test]
    fn the_controllers_under_test_are_left_out_by_upstreams_names() {
        assert_eq!(
            controllers_without("*"),
            "*,-disruption-controller,-pod-garbage-collector-controller,-taint-eviction-controller,-ttl-controller,\
             -cronjob-controller,-daemonset-controller,-deployment-controller,-garbage-collector-controller,-job-controller,\
             -node-lifecycle-controller,-replicaset-controller,-replicationcontroller-controller,-statefulset-controller"
        );
    }
}
