//! Clients whose token or certificate files are rotated, as in kubeconfigs and pods.

use std::path::PathBuf;
use std::sync::Arc;

use http::Request;
use kube::client::Body;
use kube::config::AuthInfo;
use kube::{Client, Config};
use parking_lot::Mutex;

use super::{ConnectError, client};
use crate::runtime::clock::Clock;
use crate::runtime::error::chain;
use crate::runtime::files::WatchedFiles;

/// Creates a client for the server of `config` that authenticates with the current content of its credential files.
pub(super) fn client(config: &Config, clock: &Clock) -> Result<Client, ConnectError> {
    let files = files(&config.auth_info);
    let config = config.clone();
    let make = move || {
        let mut config = config.clone();
        read_token(&mut config.auth_info)?;
        client::client(&config).map_err(|error| ConnectError::Client(chain(&error)))
    };
    if files.is_empty() {
        return make();
    }
    let files = WatchedFiles::read(files, clock).map_err(|error| ConnectError::Client(error.to_string()))?;
    reloading_client(files, clock.clone(), make)
}

/// Returns the files that are in use. Certificate data in the kubeconfig takes precedence over a certificate file, a
/// token file over a token (client-go's `rest.Config`).
fn files(auth: &AuthInfo) -> Vec<PathBuf> {
    let certificate = auth.client_certificate.as_ref().filter(|_| auth.client_certificate_data.is_none());
    let key = auth.client_key.as_ref().filter(|_| auth.client_key_data.is_none());
    certificate.into_iter().chain(key).chain(&auth.token_file).map(PathBuf::from).collect()
}

/// Replaces the token file by its current content without surrounding white space, as client-go does
/// (`transport/token_source.go`). kube would send a trailing newline, which is invalid in a header.
fn read_token(auth: &mut AuthInfo) -> Result<(), ConnectError> {
    let Some(path) = auth.token_file.take() else { return Ok(()) };
    let read = std::fs::read_to_string(&path);
    let token = read.map_err(|error| ConnectError::Client(format!("unable to read the token in {path}: {error}")))?;
    if token.trim().is_empty() {
        return Err(ConnectError::Client(format!("the token file {path} is empty")));
    }
    auth.token = Some(token.trim().to_owned().into());
    Ok(())
}

/// Creates a client that is rebuilt when `files` change. A rebuilt client opens new connections: an API server checks
/// the certificate of the connection for every request, so requests on old connections would be rejected once the old
/// certificate expires. client-go closes all connections (`transport/cert_rotation.go`); here, requests in flight
/// complete.
fn reloading_client(
    files: WatchedFiles,
    clock: Clock,
    make: impl Fn() -> Result<Client, ConnectError> + Send + Sync + 'static,
) -> Result<Client, ConnectError> {
    let first = make()?;
    let namespace = first.default_namespace().to_owned();
    let state = Arc::new(Mutex::new((files, first)));
    let current = move || {
        let mut state = state.lock();
        let (files, client) = &mut *state;
        if files.reload_if_changed(&clock) {
            match make() {
                Ok(made) => {
                    *client = made;
                    tracing::info!("using the changed token or client certificate");
                }
                Err(error) => {
                    tracing::warn!(%error, "unable to use the changed token or client certificate, keeping the old one");
                }
            }
        }
        client.clone()
    };
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = current();
        async move { client.send(request).await }
    });
    Ok(Client::new(service, namespace))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use rstest::rstest;
    use serde_json::{Value, json};
    use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

    use super::*;
    use crate::runtime::files::RELOAD_PERIOD;
    use crate::runtime::testing::{MockResponse, serve};

    #[rstest]
    #[case::both_in_files(json!({ "client-certificate": "c", "client-key": "k" }), &["c", "k"])]
    #[case::data_goes_first(json!({ "client-certificate": "c", "client-certificate-data": "", "client-key": "k" }),
        &["k"])]
    #[case::of_a_pod(json!({ "tokenFile": "t" }), &["t"])]
    #[case::the_tokens_file_goes_first(json!({ "token": "t", "tokenFile": "f" }), &["f"])]
    #[case::none(json!({ "token": "t" }), &[])]
    fn files_that_count(#[case] auth: Value, #[case] expected: &[&str]) {
        assert_eq!(
            files(&serde_json::from_value(auth).unwrap()),
            expected.iter().map(PathBuf::from).collect::<Vec<_>>()
        );
    }

    /// Returns the token that the server received from `client`.
    async fn sent_token(client: &Client) -> String {
        client.request_text(Request::get("/").body(Vec::new()).unwrap()).await.unwrap()
    }

    /// Starts a server that responds with the token it received.
    async fn echo() -> MockServer {
        let server = MockServer::start().await;
        let shown = |request: &wiremock::Request| {
            ResponseTemplate::new(200).set_body_bytes(request.headers["authorization"].as_bytes())
        };
        Mock::given(matchers::any()).respond_with(shown).mount(&server).await;
        server
    }

    /// Use it only while nothing waits for the server: paused time would advance on its own.
    async fn pass(time: Duration) {
        tokio::time::pause();
        tokio::time::advance(time).await;
        tokio::time::resume();
    }

    #[tokio::test]
    async fn a_rotated_token_is_shown_from_then_on() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let server = echo().await;
        let mut config = Config::new(server.uri().parse().unwrap());
        config.auth_info.token_file = Some(file.display().to_string());
        let error = client(&config, &clock).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("unable to read") && error.contains("token"), "{error}");
        std::fs::write(&file, "\n").unwrap();
        let error = client(&config, &clock).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("is empty"), "{error}");
        std::fs::write(&file, "one\n").unwrap();
        let client = client(&config, &clock).unwrap();
        assert_eq!(sent_token(&client).await, "Bearer one");
        for (content, expected) in [("two", "Bearer two"), ("", "Bearer two"), ("three\n", "Bearer three")] {
            std::fs::write(&file, content).unwrap();
            pass(RELOAD_PERIOD).await;
            assert_eq!(sent_token(&client).await, expected, "{content:?}");
        }
        std::fs::remove_file(&file).unwrap();
        pass(RELOAD_PERIOD).await;
        assert_eq!(
            sent_token(&client).await,
            "Bearer three",
            "client-go keeps the last token it read (kubernetes/kubernetes#68164)"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_certificate_gets_a_client_of_its_own_unless_it_is_bad() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c");
        std::fs::write(&file, "1").unwrap();
        let made = AtomicUsize::new(0);
        let world = clock.clone();
        let make = move || {
            let number = made.fetch_add(1, Ordering::Relaxed);
            let (client, _) = serve(&world, move |_| MockResponse::Json(200, json!(number)));
            if number == 1 { Err(ConnectError::Client("bad".to_owned())) } else { Ok(client) }
        };
        let files = WatchedFiles::read(vec![file.clone()], &clock).unwrap();
        let client = reloading_client(files, clock.clone(), make).unwrap();
        let served_by = async || client.request::<usize>(Request::get("/").body(Vec::new()).unwrap()).await.unwrap();
        clock.sleep(RELOAD_PERIOD).await;
        assert_eq!(served_by().await, 0, "nothing changed");
        std::fs::write(&file, "2").unwrap();
        clock.sleep(RELOAD_PERIOD).await;
        assert_eq!(served_by().await, 0, "an invalid one is not used");
        std::fs::write(&file, "3").unwrap();
        assert_eq!(served_by().await, 0, "not checked yet");
        clock.sleep(RELOAD_PERIOD).await;
        assert_eq!(served_by().await, 2);
    }
}
