//! Errors of requests that the server makes itself, in the words of Go's client and of
//! `staging/src/k8s.io/apiserver/pkg/util/webhook`.

#[cfg(feature = "listener")]
use std::io;

#[cfg(feature = "listener")]
use rustls::{client::VerifierBuilderError, pki_types::InvalidDnsNameError};

use crate::schema::{DecodeError, TypeMetaError};

/// Reasons why a target cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutboundError {
    /// The service of the target does not exist.
    #[error("service {0:?} not found")]
    NoService(String),
    /// The service has no such port.
    #[error("no service port {port} found for service {service:?}")]
    NoServicePort { service: String, port: u64 },
    /// No port has this number.
    #[error("invalid port {0}")]
    InvalidPort(u64),
    /// The URL has no host.
    #[error("invalid URL {0:?}")]
    InvalidUrl(String),
    /// The call would need sockets, where there are none.
    #[error(
        "no handler is registered for this URL, and a server in virtual time opens no connections; register one with ApiServer::handle_webhook"
    )]
    NoHandler,
    /// The path of the request is not one.
    #[cfg(feature = "listener")]
    #[error("invalid path {path:?}: {error}")]
    InvalidPath { path: String, error: http::uri::InvalidUri },
    /// There is no connection.
    #[cfg(feature = "listener")]
    #[error("dial tcp {host}:{port}: {}", dial_error(.error))]
    Dial { host: String, port: u16, error: io::Error },
    /// The host's name cannot be in a certificate.
    #[cfg(feature = "listener")]
    #[error(transparent)]
    ServerName(#[from] InvalidDnsNameError),
    /// TLS cannot be configured.
    #[cfg(feature = "listener")]
    #[error(transparent)]
    TlsConfig(#[from] rustls::Error),
    /// The certificates of the authorities are not usable.
    #[cfg(feature = "listener")]
    #[error(transparent)]
    Authorities(#[from] VerifierBuilderError),
    /// The handshake of TLS failed.
    #[cfg(feature = "listener")]
    #[error("{}", tls_error(.0))]
    Tls(io::Error),
    /// The connection does not speak HTTP.
    #[cfg(feature = "listener")]
    #[error(transparent)]
    Handshake(hyper::Error),
    /// The request was not answered.
    #[cfg(feature = "listener")]
    #[error("{}", http_error(.0))]
    Http(hyper::Error),
    /// The answer broke off, or is too large.
    #[cfg(feature = "listener")]
    #[error("unable to read the response: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
}

#[cfg(feature = "listener")]
fn dial_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(feature = "listener")]
fn tls_error(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref());
    let is_certificate = matches!(cause, Some(rustls::Error::InvalidCertificate(_)));
    if is_certificate { format!("tls: failed to verify certificate: x509: {error}") } else { error.to_string() }
}

#[cfg(feature = "listener")]
fn http_error(error: &hyper::Error) -> String {
    use std::error::Error as _;
    if error.is_incomplete_message() || error.is_closed() {
        return "EOF".to_owned();
    }
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The name of the scheme of webhooks: where it is made.
const SCHEME: &str = "k8s.io/apiserver/pkg/util/webhook/client.go:71";

/// Reasons why a webhook has no usable answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// There was no answer in time.
    #[error("Post \"{0}\": context deadline exceeded")]
    Deadline(String),
    /// There was no answer.
    #[error("Post \"{url}\": {error}")]
    Transport { url: String, error: OutboundError },
    /// The answer is no success.
    #[error("{}", status_error(*.status, .body))]
    Status { status: u16, body: Vec<u8> },
    /// The answer is a `Status` that says why.
    #[error("{0}")]
    Own(String),
    /// The answer has no body.
    #[error("0-length response with status code: {status} and content type: {content_type}")]
    Empty { status: u16, content_type: String },
    /// The answer is no YAML.
    #[error("{0}")]
    Yaml(String),
    /// The answer is of a type that does not become the one that is asked for.
    #[error("converting ({from}) to ({to}): unknown conversion")]
    Conversion { from: String, to: String },
    /// The answer is of a kind that webhooks do not have.
    #[error("no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}")]
    UnknownKind { kind: String, version: String },
    /// The answer is to be of a type that does not exist.
    #[error("no type {0:?} is known")]
    UnknownType(String),
    /// The answer has no kind.
    #[error(transparent)]
    TypeMeta(#[from] TypeMetaError),
    /// The answer is not of its type.
    #[error(transparent)]
    Answer(#[from] DecodeError),
}

/// Returns the error of an answer that is no success: `NewGenericServerResponse`.
fn status_error(status: u16, body: &[u8]) -> String {
    /// Longest part of a body that is shown.
    const SHOWN: usize = 2048;
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).trim().to_owned();
    match status {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if matches!(&*text, "" | "unknown") => {
            "the server was unable to respond with a content type that the client supports".to_owned()
        }
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        403 | 406 | 415 => text,
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        500.. => format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        _ => format!("the server responded with the status code {status} but did not return more information"),
    }
}
