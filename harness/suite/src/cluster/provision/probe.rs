//! Readiness and version of an API server.

use std::path::Path;
use std::time::Duration;

use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use plumbline::time::Clock;
use serde_json::Value;

use super::environment_error::{EnvironmentError, FailureKind};
use crate::cluster::error_chain::chain;

/// Pause between two checks of something that is not ready yet.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// Time limit for one request.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Creates a client for the current context of a kubeconfig.
pub(super) async fn client(kubeconfig: &Path) -> Result<Client, EnvironmentError> {
    let unusable = |error: &dyn std::fmt::Display| {
        let what = format!("the kubeconfig {} cannot be used: {error}", kubeconfig.display());
        EnvironmentError::new(FailureKind::Unreachable, what, "check it with `kubectl --kubeconfig FILE version`")
    };
    // With two providers compiled in, rustls would not pick one itself; a second call has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let file = Kubeconfig::read_from(kubeconfig).map_err(|error| unusable(&error))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| unusable(&error))?;
    config.connect_timeout = Some(ANSWER_LIMIT);
    config.read_timeout = Some(ANSWER_LIMIT);
    config.default_retry = false;
    Client::try_from(config).map_err(|error| unusable(&error))
}

/// Reasons why a server is not ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    /// The request could not be sent, or its response not be received. The text has all causes.
    #[error("{0}")]
    Connection(String),
    /// The server refuses the request.
    #[error("{path} returned {code}: {message}")]
    Status {
        /// The path.
        path: String,
        /// HTTP status code.
        code: u16,
        /// The server's message.
        message: String,
    },
    /// The server does not respond.
    #[error("{0} did not respond within {seconds} s", seconds = ANSWER_LIMIT.as_secs())]
    Silent(String),
    /// The version is no JSON.
    #[error("/version did not return JSON")]
    NoJson,
    /// There is no version.
    #[error("/version has no gitVersion")]
    NoVersion,
}

/// Returns the text of a GET, or the reason for its failure.
async fn get(client: &Client, path: &str) -> Result<String, ProbeError> {
    let request = Request::get(path).body(Vec::new()).map_err(|error| ProbeError::Connection(error.to_string()))?;
    let answer = Clock::wall().timeout(ANSWER_LIMIT, client.request_text(request)).await;
    match answer {
        Some(Ok(text)) => Ok(text),
        Some(Err(kube::Error::Api(status))) => {
            Err(ProbeError::Status { path: path.to_owned(), code: status.code, message: checks(&status.message) })
        }
        Some(Err(error)) => Err(ProbeError::Connection(chain(&error))),
        None => Err(ProbeError::Silent(path.to_owned())),
    }
}

/// Reduces the verbose text of `/readyz` to the failing checks; other texts are returned unchanged.
fn checks(text: &str) -> String {
    let failed: Vec<&str> = text.lines().filter(|line| line.starts_with("[-]")).collect();
    if failed.is_empty() { text.trim().to_owned() } else { failed.join(", ") }
}

/// Returns the server's version, such as `v1.36.1`.
pub(super) async fn version(client: &Client) -> Result<String, ProbeError> {
    let text = get(client, "/version").await?;
    let value: Value = serde_json::from_str(&text).map_err(|_| ProbeError::NoJson)?;
    let version = value["gitVersion"].as_str().ok_or(ProbeError::NoVersion)?;
    Ok(version.to_owned())
}

/// Returns the reason if the server is not ready. It is ready if `/readyz` succeeds and the namespace `default` exists,
/// which a server creates only after it reports ready.
pub(super) async fn not_ready(client: &Client) -> Option<ProbeError> {
    for path in ["/readyz", "/api/v1/namespaces/default"] {
        if let Err(error) = get(client, path).await {
            return Some(error);
        }
    }
    None
}

/// Waits up to `limit` until the server is ready, and returns its version.
///
/// # Errors
///
/// Returns [`FailureKind::NotReady`] after the limit. Callers watch for the end of the server at the same time.
pub(super) async fn ready(name: &str, client: &Client, limit: Duration) -> Result<String, EnvironmentError> {
    let clock = Clock::wall();
    loop {
        let why = match not_ready(client).await {
            Some(why) => why,
            None => match version(client).await {
                Ok(version) => return Ok(version),
                Err(why) => why,
            },
        };
        if clock.elapsed() > limit {
            let what = format!("{name} is not ready after {} s: {why}", limit.as_secs());
            let next = "check its log; a slow machine may need a longer limit";
            return Err(EnvironmentError::new(FailureKind::NotReady, what, next));
        }
        clock.sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failing_checks_are_reported() {
        assert_eq!(
            checks("[+]ping ok\n[-]etcd failed: reason withheld\n[-]x failed\nreadyz check failed"),
            "[-]etcd failed: reason withheld, [-]x failed"
        );
        assert_eq!(checks(" Forbidden \n"), "Forbidden");
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kc");
        std::fs::write(&path, "clusters: 7").unwrap();
        for path in [path, folder.path().join("absent")] {
            let Err(error) = client(&path).await else { panic!("a client from {}", path.display()) };
            assert_eq!(error.kind, FailureKind::Unreachable);
            assert!(error.what.contains(&path.display().to_string()), "{error}");
        }
    }
}
