//! k3s in a container: a small cluster with its own versions of the tested controllers switched off.
//!
//! Needs the cargo feature `containers`.

#[cfg(feature = "containers")]
mod container;

use std::path::Path;

use super::environment_error::EnvironmentError;
#[cfg(not(feature = "containers"))]
use super::environment_error::FailureKind;
use super::server::Server;

/// Options for k3s.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "k3s_options")]
pub struct K3sOptions {
    /// With --cluster k3s: container image, without its tag
    #[arg(long, env = "PLUMBLINE_K3S_IMAGE", value_name = "IMAGE", default_value = "rancher/k3s")]
    pub k3s_image: String,

    /// With --cluster k3s: tag of the image
    #[arg(long, env = "PLUMBLINE_K3S_TAG", value_name = "TAG", default_value = "v1.36.1-k3s1")]
    pub k3s_tag: String,

    /// With --cluster k3s: keep the built-in versions of the controllers, to test them with --subject external
    #[arg(long)]
    pub k3s_built_in_controllers: bool,

    /// With --cluster k3s: run the control plane only, without the node, which needs a privileged container
    #[arg(long)]
    pub k3s_unprivileged: bool,

    /// With --cluster k3s: extra argument for `k3s server`, such as --kube-apiserver-arg=v=4; may be repeated
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub k3s_arg: Vec<String>,

    /// With --cluster k3s: local port for the API server [default: a free one]
    #[arg(long, value_name = "PORT")]
    pub k3s_port: Option<u16>,

    /// With --cluster k3s: time limit to become ready once the image is available, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    pub k3s_ready_limit: u64,
}

/// Starts k3s in a container; its log goes to `logs`. First removes containers of killed runs.
///
/// # Errors
///
/// Returns an error if Docker or the image is unavailable, the port is taken, the container ends (with the end of its
/// log), or k3s is not ready in time.
#[cfg(feature = "containers")]
pub async fn start(options: &K3sOptions, logs: &Path) -> Result<Server, EnvironmentError> {
    container::start(options, logs).await
}

/// Fails: this build cannot start containers.
///
/// # Errors
///
/// Always returns an error that names the missing cargo feature.
#[cfg(not(feature = "containers"))]
pub async fn start(_options: &K3sOptions, _logs: &Path) -> Result<Server, EnvironmentError> {
    let what = "--cluster k3s: this plumbline was built without the cargo feature `containers`";
    let next = "build it with `--features containers`, or choose another --cluster";
    std::future::ready(Err(EnvironmentError::new(FailureKind::Missing, what, next))).await
}
