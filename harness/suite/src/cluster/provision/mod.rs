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

mod built_in_controllers;
#[cfg(feature = "containers")]
mod containers;
mod environment_error;
pub(crate) mod leftovers;
mod owner;
mod private_files;
mod probe;
mod server;

use std::path::Path;

pub use environment_error::{EnvironmentError, FailureKind};
pub(crate) use private_files::random_token;
pub use server::{Bystanders, Server};

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
}
