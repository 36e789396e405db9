//! From flags to clients and log lines: what only the binary does.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use ring::rand::SecureRandom as _;
use tracing_subscriber::EnvFilter;

use crate::args::{Args, LogFormat};
use crate::runtime::client::ClientFactory;
use crate::runtime::clock::Clock;
use crate::runtime::error::chain;

mod client;
mod credentials;

/// How long to try to connect to the API server.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file that was named cannot be used.
    #[error("unable to use kubeconfig {}: {why}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No file was named and none was found where it may be.
    #[error("unable to find a kubeconfig ($KUBECONFIG, ~/.kube/config) or a service account, use --kubeconfig: {0}")]
    NotFound(String),
    /// TLS material or addresses that make no client.
    #[error("unable to make a client: {0}")]
    Client(String),
}

/// A factory of clients for the API server that the flags name. Each name has its own connections, so that one
/// controller's requests do not wait behind another's.
///
/// # Errors
/// When the kubeconfig cannot be read or makes no client. Whether the server answers is not tried.
pub async fn clients(args: &Args) -> Result<ClientFactory, ConnectError> {
    connect(args).await.map(|(clients, _)| clients)
}

/// As [`clients`], with host and port of the server.
///
/// # Errors
/// As [`clients`].
pub async fn connect(args: &Args) -> Result<(ClientFactory, String), ConnectError> {
    // With two providers compiled in, rustls would refuse to choose; a second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = config(args).await?;
    if let Some(master) = &args.master {
        config.cluster_url = master.clone();
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let clock = Clock::wall();
    let make = move || credentials::client(&config, &clock);
    let first = make()?;
    Ok((Arc::new(move |_| make().unwrap_or_else(|_| first.clone())), host))
}

async fn config(args: &Args) -> Result<Config, ConnectError> {
    let Some(path) = &args.kubeconfig else {
        return Config::infer().await.map_err(|error| ConnectError::NotFound(chain(&error)));
    };
    let wrong =
        |error: kube::config::KubeconfigError| ConnectError::Kubeconfig { path: path.clone(), why: chain(&error) };
    let kubeconfig = Kubeconfig::read_from(path).map_err(wrong)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(wrong)
}

/// The name of this machine, or pod.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A name for this replica that no other has: the host's, and some random digits, as upstream's.
pub fn identity() -> String {
    let host = host();
    let mut random = [0; 16];
    // Without randomness the process id keeps replicas of one host apart, and pods have a host each.
    if ring::rand::SystemRandom::new().fill(&mut random).is_err() {
        random[..4].copy_from_slice(&std::process::id().to_be_bytes());
    }
    format!("{host}_{:032x}", u128::from_be_bytes(random))
}

/// Sends log lines to standard error, as the flags say.
pub fn log_to_stderr(args: &Args) {
    let level = args.log_level();
    // kube logs each failed request itself; we log what came of it.
    let default = format!("warn,plumbline_controllers={level},kube_client=off,kube_runtime=off");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let lines = lines.with_target(false).with_ansi(std::io::stderr().is_terminal());
    match args.logging_format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
