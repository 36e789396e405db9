//! Clients of servers behind a socket.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};

use super::error::ClusterError;

/// Creates a client for one of our own programs on loopback; its self-signed certificate is not verified.
///
/// # Errors
///
/// Returns an error if no client can be created.
pub fn of_own_program(base: http::Uri) -> Result<kube::Client, ClusterError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = kube::Config::new(base);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    kube::Client::try_from(config).map_err(|error| ClusterError::Client(error.to_string()))
}

/// Creates a client for the kubeconfig at `path`, without time-outs or retries: both are the caller's responsibility.
/// Call it in the runtime in which the client will be used.
///
/// # Errors
///
/// Returns an error if the file cannot be read or is not usable; the message names it.
pub fn from_file(path: &Path) -> Result<kube::Client, ClusterError> {
    use futures::FutureExt as _;
    // With two providers compiled in, rustls would not pick one itself; a second call has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let wrong = |why: String| ClusterError::Client(format!("unable to use the kubeconfig {}: {why}", path.display()));
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| wrong(error.to_string()))?;
    // Loading the kubeconfig does not block unless it names an exec credential plugin.
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .now_or_never()
        .ok_or_else(|| {
            wrong(
                "it uses a credential plugin (exec), which is not supported; use a token or a client certificate"
                    .to_owned(),
            )
        })?
        .map_err(|error| wrong(error.to_string()))?;
    config.default_retry = false;
    config.read_timeout = None;
    kube::Client::try_from(config).map_err(|error| wrong(error.to_string()))
}
