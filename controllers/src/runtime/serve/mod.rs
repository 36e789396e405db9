//! `/healthz`, `/livez`, `/readyz`, `/metrics` and `/debug/caches` over HTTPS.
//!
//! The server is read-only and not authenticated, and its responses contain no object names.

pub mod health;
pub mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use self::health::HealthReply;
use self::tls::{Certificate, CertificateSource, TlsError};
use super::clock::Clock;
use super::diagnostics::{Check, Diagnostics};
use super::metrics::text;

/// Maximum number of connections; further ones wait.
pub const CONNECTIONS: usize = 100;
/// Timeout of a handshake, of the head of a request, and of an idle connection.
pub const HEAD_TIMEOUT: Duration = Duration::from_mins(1);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Options of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// Address and port.
    pub address: SocketAddr,
    /// The certificate.
    pub certificate: CertificateSource,
    /// Reject TLS 1.2.
    pub tls13_only: bool,
}

/// Errors of starting the server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is in use, or the address does not exist.
    #[error("unable to listen on {address}: {source}; choose another --secure-port, or 0 for none")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// An open port; [`Server::run`] serves it.
pub struct Server {
    listener: TcpListener,
    certificate: Mutex<Certificate>,
    diagnostics: Diagnostics,
    clock: Clock,
}

impl Server {
    /// Opens the port.
    ///
    /// # Errors
    /// [`ServeError`] if the port is in use or the certificate cannot be used.
    pub async fn bind(options: ServeOptions, diagnostics: Diagnostics, clock: Clock) -> Result<Self, ServeError> {
        let address = options.address;
        let certificate = Mutex::new(Certificate::new(options.certificate, options.tls13_only, &clock)?);
        let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })?;
        Ok(Self { listener, certificate, diagnostics, clock })
    }

    /// Returns the address, with the port that was chosen for port 0.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves requests forever. Drop the future to close all connections.
    pub async fn run(self) {
        let server = Arc::new(self);
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            // Never closed: the semaphore lives as long as this loop.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            while connections.try_join_next().is_some() {}
            match server.listener.accept().await {
                Ok((stream, _)) => {
                    let server = Arc::clone(&server);
                    connections.spawn(async move {
                        server.connection(stream).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "unable to accept a connection for health and metrics");
                    server.clock.sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn connection(&self, stream: TcpStream) {
        let config = self.certificate.lock().await.current(&self.clock);
        let handshake = self.clock.timeout(HEAD_TIMEOUT, TlsAcceptor::from(config).accept(stream));
        // Clients that do not use TLS or disconnect are not logged.
        let Ok(Ok(stream)) = handshake.await else { return };
        let answer = |request: Request<Incoming>| async move {
            let (parts, _) = request.into_parts();
            let query = parts.uri.query().unwrap_or_default();
            Ok::<_, Infallible>(respond(&self.diagnostics, &parts.method, parts.uri.path(), query, &parts.headers))
        };
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        if let Err(error) = http.serve_connection(TokioIo::new(stream), service_fn(answer)).await {
            tracing::debug!(%error, "a connection for health and metrics ended");
        }
    }
}

/// Returns the response to one request.
pub fn respond(
    diagnostics: &Diagnostics,
    method: &Method,
    path: &str,
    query: &str,
    headers: &HeaderMap,
) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut answer = plain(405, "only GET and HEAD\n".to_owned());
        answer.headers_mut().insert(ALLOW, http::HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match path {
        "/metrics" => metrics(diagnostics, headers),
        "/debug/caches" => with_type(200, "application/json", format!("{:#}\n", diagnostics.caches())),
        "/" => plain(200, "/debug/caches\n/healthz\n/livez\n/metrics\n/readyz\n".to_owned()),
        path => health_of(diagnostics, path, query),
    }
}

fn health_of(diagnostics: &Diagnostics, path: &str, query: &str) -> Response<Full<Bytes>> {
    let mut words = path.trim_start_matches('/').trim_end_matches('/').splitn(2, '/');
    let name = words.next().unwrap_or_default();
    let check = words.next();
    let checks = match name {
        "healthz" | "livez" => diagnostics.liveness_checks(),
        "readyz" => diagnostics.readiness_checks(),
        _ => return plain(404, "404 page not found\n".to_owned()),
    };
    let HealthReply { status, text } = if let Some(check) = check {
        health::one(check, &checks)
    } else {
        report(name, &checks);
        health::all(name, query, &checks)
    };
    plain(status, text)
}

fn report(endpoint: &str, checks: &[Check]) {
    for (check, why) in checks.iter().filter_map(|check| Some((check.name, check.problem.as_ref()?))) {
        tracing::info!(endpoint, check, why, "health check failed");
    }
}

fn metrics(diagnostics: &Diagnostics, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let open_metrics = diagnostics.metrics();
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    if accepts.into_iter().any(|accept| accept.contains("application/openmetrics-text")) {
        return with_type(200, OPEN_METRICS, open_metrics);
    }
    with_type(200, text::CONTENT_TYPE, text::prometheus(&open_metrics))
}

fn plain(status: u16, text: String) -> Response<Full<Bytes>> {
    with_type(status, "text/plain; charset=utf-8", text)
}

fn with_type(status: u16, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, http::HeaderValue::from_static("nosniff"));
    answer
}
