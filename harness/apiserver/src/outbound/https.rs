//! Connections to webhooks and aggregated API servers over HTTPS.
//! See `staging/src/k8s.io/apiserver/pkg/util/webhook/client.go`.

use std::io;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, BodyStream as FrameStream, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::connections::IdleConnections;
use super::error::OutboundError;
use super::exchange::{Answer, OutboundRequest};
use super::target::Endpoint;
use crate::request::BodyStream;

/// The certificate authorities of this machine, read once.
static NATIVE_ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(roots)
});

/// Sends a request and reads the whole answer. Uses an idle connection if there is one, and another one if that was
/// closed.
pub(super) async fn send(
    idle: &IdleConnections,
    endpoint: &Endpoint,
    request: OutboundRequest,
    most: usize,
) -> Result<Answer, OutboundError> {
    let message = message(endpoint, request)?;
    let (mut connection, response) = loop {
        let kept = idle.take(endpoint).await;
        let is_new = kept.is_none();
        let mut connection = match kept {
            Some(connection) => connection,
            None => connect(endpoint).await?,
        };
        match connection.send_request(message.clone()).await {
            Ok(response) => break (connection, response),
            Err(error) if is_new || !(error.is_closed() || error.is_canceled() || error.is_incomplete_message()) => {
                return Err(OutboundError::Http(error));
            }
            Err(_) => {}
        }
    };
    let status = response.status().as_u16();
    let content_type = response.headers().get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let body = Limited::new(response.into_body(), most).collect().await;
    let body = body.map_err(OutboundError::Body)?;
    // The connection is ready once its task has seen the end of the answer.
    if connection.ready().await.is_ok() {
        idle.put(endpoint, connection);
    }
    Ok(Answer { status, content_type, body: body.to_bytes() })
}

/// Sends a request and returns the head of the answer and its body as a stream.
pub(super) async fn forward(
    endpoint: &Endpoint,
    request: OutboundRequest,
) -> Result<(http::response::Parts, BodyStream), OutboundError> {
    let (parts, body) = respond(endpoint, request).await?.into_parts();
    let chunks = FrameStream::new(body).filter_map(|frame| async move {
        match frame {
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(io::Error::other(error))),
        }
    });
    Ok((parts, Box::pin(chunks)))
}

async fn respond(endpoint: &Endpoint, request: OutboundRequest) -> Result<http::Response<Incoming>, OutboundError> {
    let message = message(endpoint, request)?;
    let mut connection = connect(endpoint).await?;
    connection.send_request(message).await.map_err(OutboundError::Http)
}

/// Returns the HTTP message of a request.
fn message(endpoint: &Endpoint, request: OutboundRequest) -> Result<http::Request<Full<Bytes>>, OutboundError> {
    let mut message = http::Request::new(Full::new(request.body));
    *message.method_mut() = request.method;
    let uri = request.uri.parse::<http::Uri>();
    *message.uri_mut() = uri.map_err(|error| OutboundError::InvalidPath { path: request.uri, error })?;
    *message.headers_mut() = request.headers;
    let host = format!("{}:{}", endpoint.server_name, endpoint.port);
    if let Ok(host) = http::HeaderValue::from_str(&host) {
        message.headers_mut().insert(http::header::HOST, host);
    }
    Ok(message)
}

async fn connect(endpoint: &Endpoint) -> Result<SendRequest<Full<Bytes>>, OutboundError> {
    let host = endpoint.host.as_str();
    let port = endpoint.port;
    let dial = |error: io::Error| OutboundError::Dial { host: host.to_owned(), port, error };
    let stream = TcpStream::connect((host, port)).await.map_err(dial)?;
    if endpoint.plain {
        return handshake(TokioIo::new(stream)).await;
    }
    let name = ServerName::try_from(endpoint.server_name.clone())?;
    let connector = TlsConnector::from(Arc::new(tls_config(endpoint)?));
    let stream = connector.connect(name, stream).await.map_err(OutboundError::Tls)?;
    handshake(TokioIo::new(stream)).await
}

async fn handshake<T>(stream: T) -> Result<SendRequest<Full<Bytes>>, OutboundError>
where
    T: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(stream).await.map_err(OutboundError::Handshake)?;
    // Ends when the sender and the body of the answer are dropped.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a webhook or an aggregated API server ended");
        }
    });
    Ok(sender)
}

fn tls_config(endpoint: &Endpoint) -> Result<ClientConfig, OutboundError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let trust = if endpoint.insecure { Trust::All } else { Trust::authorities(endpoint, provider.clone())? };
    let verifier = Arc::new(EndpointVerifier { trust, provider });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// The certificates that are accepted from an endpoint.
#[derive(Debug)]
enum Trust {
    /// Every one, for an `APIService` with `insecureSkipTLSVerify`.
    All,
    /// Those of the given authorities (without any, of the system's), and each authority itself, as Go does: `webpki`
    /// does not.
    Authorities { verifier: Arc<WebPkiServerVerifier>, given: Vec<CertificateDer<'static>> },
}

impl Trust {
    fn authorities(endpoint: &Endpoint, provider: Arc<CryptoProvider>) -> Result<Self, OutboundError> {
        let given: Vec<_> = CertificateDer::pem_slice_iter(&endpoint.authorities).filter_map(Result::ok).collect();
        let roots = if endpoint.authorities.is_empty() {
            NATIVE_ROOTS.clone()
        } else {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(given.iter().cloned());
            Arc::new(roots)
        };
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build()?;
        Ok(Self::Authorities { verifier, given })
    }
}

/// Verifies the certificate of an endpoint.
#[derive(Debug)]
struct EndpointVerifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for EndpointVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Trust::Authorities { verifier, given } = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let verified = verifier.verify_server_cert(certificate, chain, name, ocsp, now);
        // This error comes after the check of the time of validity and before that of the name.
        let is_authority = matches!(&verified, Err(rustls::Error::InvalidCertificate(CertificateError::Other(error)))
            if error.0.to_string() == "CaUsedAsEndEntity");
        if is_authority && given.iter().any(|given| given == certificate) {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
