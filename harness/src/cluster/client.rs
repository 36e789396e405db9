//! Clients of servers behind a socket.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};

/// A client for a program of our own on loopback, whose certificate it made for itself and nobody can check.
///
/// # Errors
///
/// When no client can be made.
pub fn of_own_program(base: http::Uri) -> Result<kube::Client, String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = kube::Config::new(base);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    kube::Client::try_from(config).map_err(|error| error.to_string())
}

/// A client for the kubeconfig at `path`. It waits as long as it takes and tries nothing twice: that is the caller's
/// business. Call in the runtime in which it is to live.
///
/// # Errors
///
/// When the file cannot be read or makes no client; the text names it.
pub fn from_file(path: &Path) -> Result<kube::Client, String> {
    use futures::FutureExt as _;
    // With two providers compiled in, rustls would refuse to choose; a second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let wrong = |why: String| format!("unable to use the kubeconfig {}: {why}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| wrong(error.to_string()))?;
    // Nothing in it waits as long as the kubeconfig names no program to ask.
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .now_or_never()
        .ok_or_else(|| wrong("it asks a program for credentials; use a token or a certificate".to_owned()))?
        .map_err(|error| wrong(error.to_string()))?;
    config.default_retry = false;
    config.read_timeout = None;
    kube::Client::try_from(config).map_err(|error| wrong(error.to_string()))
}
