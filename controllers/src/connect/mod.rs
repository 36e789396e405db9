//! Turns flags into clients and log output; used by the binary only.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use ring::rand::SecureRandom as _;
use tracing_subscriber::EnvFilter;

use crate::args::{Args, LogFormat};
use crate::runtime::client::{ClientBuilder, ClientFactory, Limits, names};
use crate::runtime::clock::Clock;
use crate::runtime::error::chain;

mod client;
mod credentials;
mod service_accounts;

/// Timeout of connecting to the API server.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Errors of creating clients for the API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The given kubeconfig cannot be used.
    #[error("unable to use kubeconfig {}: {why}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// No kubeconfig was given and none was found in the default locations.
    #[error("unable to find a kubeconfig ($KUBECONFIG, ~/.kube/config) or a service account, use --kubeconfig: {0}")]
    NotFound(String),
    /// TLS material or addresses from which no client can be created.
    #[error("unable to create a client: {0}")]
    Client(String),
}

/// Creates a factory of clients for the API server that the flags name. Each client has its own connections, so that
/// one controller's requests do not wait for another's.
///
/// # Errors
/// [`ConnectError`] if the kubeconfig cannot be read or no client can be created from it. Does not contact the server.
pub async fn clients(args: &Args) -> Result<ClientFactory, ConnectError> {
    connect(args).await.map(|(clients, _)| clients)
}

/// The same as [`clients`], and returns host and port of the server.
///
/// # Errors
/// As [`clients`].
pub async fn connect(args: &Args) -> Result<(ClientFactory, String), ConnectError> {
    // rustls does not choose between two compiled-in providers; a second call has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = config(args).await?;
    if let Some(master) = &args.master {
        config.cluster_url = master.clone();
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let clock = Clock::wall();
    let own = {
        let config = config.clone();
        let clock = clock.clone();
        let make = move || credentials::client(&config, &clock);
        let first = make()?;
        move |_: &str| make().unwrap_or_else(|_| first.clone())
    };
    if !args.use_service_account_credentials {
        return Ok((Arc::new(own), host));
    }
    config.auth_info = AuthInfo::default();
    let make = move || client::client(&config).map_err(|error| ConnectError::Client(chain(&error)));
    let anonymous = make()?;
    let tokens = ClientBuilder::new(names::SERVICE_ACCOUNT_TOKENS, clock.clone(), Limits::default());
    let tokens = tokens.build(own(names::SERVICE_ACCOUNT_TOKENS));
    let clients = move |name: &str| {
        if !names::CONTROLLERS.contains(&name) {
            return own(name);
        }
        let anonymous = make().unwrap_or_else(|_| anonymous.clone());
        service_accounts::client(name, tokens.clone(), anonymous, clock.clone())
    };
    Ok((Arc::new(clients), host))
}

async fn config(args: &Args) -> Result<Config, ConnectError> {
    let Some(path) = &args.kubeconfig else {
        return Config::infer().await.map_err(|error| ConnectError::NotFound(chain(&error)));
    };
    let wrong = |error: KubeconfigError| {
        let why = match &error {
            // Its text has the path once more.
            KubeconfigError::ReadConfig(cause, _) => cause.to_string(),
            error => chain(error),
        };
        ConnectError::Kubeconfig { path: path.clone(), why }
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(wrong)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(wrong)
}

/// Returns the name of this machine or pod.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns a unique name of this replica: the host name and random digits, as upstream's.
pub fn identity() -> String {
    let host = host();
    let mut random = [0; 16];
    // Without randomness, the process id distinguishes replicas on one host; pods have a host name each.
    if ring::rand::SystemRandom::new().fill(&mut random).is_err() {
        random[..4].copy_from_slice(&std::process::id().to_be_bytes());
    }
    format!("{host}_{:032x}", u128::from_be_bytes(random))
}

/// Sets up logging to standard error as the flags specify.
pub fn log_to_stderr(args: &Args) {
    let level = args.log_level();
    // kube logs every failed request itself; this crate logs the outcome.
    let default = format!("warn,plumbline_controllers={level},kube_client=off,kube_runtime=off");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let lines = lines.with_target(false).with_ansi(std::io::stderr().is_terminal());
    match args.logging_format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
