//! Real API servers: started (or just found), reached, stopped.
//!
//! | module | does |
//! |---|---|
//! | [`envtest`] | etcd and kube-apiserver as processes |
//! | [`k3s`] | `rancher/k3s` in a container, through testcontainers |
//! | [`kind`] | a cluster through the `kind` CLI |
//! | [`kubeconfig`] | a cluster that is there already |
//! | [`afterwards`] | cleans up after a harness that was killed |
//!
//! Each has an `Options` with its flags and a `start(&options, logs)`. A [`Server`] ends with [`Server::stop`], or when it is
//! dropped, or soon after the harness was killed: nothing stays behind but the logs.

pub mod afterwards;
pub mod envtest;
pub mod k3s;
pub mod kind;
pub mod kubeconfig;

mod containers;
pub(crate) mod leftovers;
mod owner;
mod probe;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;

use crate::fixture::Controller;
use crate::scratch::{self, NoRoom};

/// Which real API server, and how it is started or found.
#[derive(Clone, Debug)]
pub enum Real {
    /// etcd and kube-apiserver as processes.
    Envtest(envtest::Options),
    /// k3s in a container.
    K3s(k3s::Options),
    /// kind, through its command line.
    Kind(kind::Options),
    /// One that is there already.
    Kubeconfig(kubeconfig::Options),
}

impl Real {
    /// Starts or finds it; logs go to `logs`.
    ///
    /// # Errors
    ///
    /// What is missing or does not start, and what to do.
    pub async fn start(&self, logs: &Path) -> Result<Server, EnvironmentError> {
        match self {
            Self::Envtest(options) => envtest::start(options, logs).await,
            Self::K3s(options) => k3s::start(options, logs).await,
            Self::Kind(options) => kind::start(options, logs).await,
            Self::Kubeconfig(options) => kubeconfig::start(options, logs).await,
        }
    }
}

/// A Kubernetes API server that answers.
#[derive(Debug)]
pub struct Server {
    /// The kind of place, as `--cluster` has it.
    pub name: &'static str,
    /// The image that it runs from, if it was named.
    pub image: Option<String>,
    /// What the server calls its version, such as `v1.36.1`.
    pub version: String,
    /// A file with one context that leads to it, readable by its owner alone. It goes with the server.
    pub kubeconfig: PathBuf,
    /// Where the logs of what was started are, and stay.
    pub log_folder: PathBuf,
    /// Whether it is ours alone, or its owner allowed everything: fixtures may change nodes, settings and pods of the whole
    /// cluster.
    pub allows_disruption: bool,
    /// The controllers under test whose built-in versions run there.
    pub built_in: Vec<Controller>,
    /// Who else acts on the objects of fixtures there.
    pub bystanders: Bystanders,
    started: Box<dyn Started>,
}

/// Parts of a cluster that act on the objects of fixtures as the controllers under test do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bystanders {
    /// A scheduler: pods without a node get one.
    pub scheduler: bool,
    /// The controllers of [`MEDDLERS`]: owners make pods, owners that are gone take theirs along, nodes without a kubelet are tainted.
    pub meddlers: bool,
}

/// Controllers that act on what fixtures plant: workloads, garbage, the health of nodes.
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

/// How a cluster's own versions of the controllers under test are dealt with.
fn built_in(left_on: bool) -> Vec<Controller> {
    if left_on { Controller::ALL.into() } else { Vec::new() }
}

/// What was started for a [`Server`]. Dropping it ends it without waiting.
trait Started: fmt::Debug + Send + Sync {
    /// Why it no longer runs, if it does not.
    fn ended(&mut self) -> BoxFuture<'_, Option<String>>;

    /// Ends it and waits until it has gone.
    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<(), EnvironmentError>>;
}

impl Server {
    /// Why the server no longer runs, with the end of its log; `None` while it does.
    pub async fn ended(&mut self) -> Option<String> {
        self.started.ended().await
    }

    /// Ends everything that was started and waits until it has gone. Logs stay.
    ///
    /// # Errors
    ///
    /// [`Kind::Failed`] for what could not be ended orderly; it is gone all the same unless the text says otherwise.
    pub async fn stop(self) -> Result<(), EnvironmentError> {
        self.started.stop().await
    }
}

/// What is wrong with the surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A program, an image or a file is not there.
    Missing,
    /// Something did not start, ended early, or could not be ended.
    Failed,
    /// Something runs but does not become ready in time.
    NotReady,
    /// Nothing answers, or not as a Kubernetes API server does.
    Unreachable,
    /// The user may not do what the suite needs.
    Forbidden,
}

/// The surroundings do not work: [`crate::exit::Exit::Environment`]. The text names the thing and the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct EnvironmentError {
    /// What kind of trouble.
    pub kind: Kind,
    /// The thing, and what is wrong with it.
    pub what: String,
    /// Lines that show it: places, the end of a log.
    pub evidence: Vec<String>,
    /// What to do.
    pub next: String,
}

impl EnvironmentError {
    fn new(kind: Kind, what: impl Into<String>, next: impl Into<String>) -> Self {
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

/// How many lines of a log an error shows.
const EVIDENCE_LINES: usize = 12;
/// How often something that is not ready yet is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes a folder for what lives as long as a server.
fn temporary_folder() -> Result<tempfile::TempDir, EnvironmentError> {
    scratch::folder().map_err(|no_room| EnvironmentError::new(Kind::Failed, no_room.what(), NoRoom::NEXT))
}

/// Makes the folder for logs, and returns its absolute path: programs have working folders of their own.
fn log_folder(folder: &Path) -> Result<PathBuf, EnvironmentError> {
    std::fs::create_dir_all(folder).and_then(|()| std::path::absolute(folder)).map_err(|error| {
        let what = format!("unable to make the folder for logs {}: {error}", folder.display());
        EnvironmentError::new(Kind::Failed, what, "name another one with --logs")
    })
}

/// Writes a file that only its owner reads.
fn write_private(path: &Path, content: &str) -> Result<(), EnvironmentError> {
    plumbline_apiserver::listener::write_private_file(path, content).map_err(|error| {
        let what = format!("unable to write {}: {error}", path.display());
        EnvironmentError::new(Kind::Failed, what, "free some space there, or set TMPDIR to another folder")
    })
}

/// 128 bits that nobody can guess, in hexadecimal digits.
pub(crate) fn random_token() -> Result<String, EnvironmentError> {
    plumbline_apiserver::listener::random_token().map_err(|_| {
        EnvironmentError::new(Kind::Failed, "the system has no random numbers", "look at its /dev/urandom")
    })
}

/// The value of kube-controller-manager's `--controllers` that leaves out the ones under test and those that would act on
/// what fixtures plant, on top of `base`.
fn controllers_without(base: &str) -> String {
    let tested = Controller::ALL.iter().map(|controller| controller.flag_name());
    let off = tested.chain(MEDDLERS).map(|name| format!(",-{name}"));
    format!("{base}{}", off.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        envtest: envtest::Options,
        #[command(flatten)]
        k3s: k3s::Options,
        #[command(flatten)]
        kind: kind::Options,
        #[command(flatten)]
        kubeconfig: kubeconfig::Options,
    }

    #[test]
    fn all_flags_fit_one_command_line() {
        use clap::{CommandFactory as _, Parser as _};
        Line::command().debug_assert();
        let words = [
            "x",
            "--envtest-apiserver-arg=--v=4",
            "--k3s-port=7000",
            "--kind-image=i",
            "--kubeconfig",
            "f",
            "--context=c",
        ];
        let line = Line::parse_from(words);
        assert_eq!(line.envtest.envtest_apiserver_arg, ["--v=4"]);
        assert_eq!(line.k3s.k3s_port, Some(7000));
        assert_eq!(line.kind.kind_image.as_deref(), Some("i"));
        assert_eq!((line.kubeconfig.context.as_deref(), line.kubeconfig.allow_disruptive), (Some("c"), false));
    }

    #[test]
    fn errors_name_the_thing_and_the_next_step() {
        let error = EnvironmentError::new(Kind::Missing, "no etcd", "install it").with(["/a".to_owned()]);
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
