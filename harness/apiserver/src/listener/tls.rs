//! The server's certificate authority and certificate. See `staging/src/k8s.io/client-go/util/cert/cert.go`.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::CipherSuite;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::ListenError;

/// DNS names of the certificate.
const NAMES: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// A certificate and the authority that signed it.
pub(super) struct ServerCertificate {
    /// The authority's certificate in PEM.
    pub(super) authority_pem: String,
    /// TLS configuration with the certificate, for HTTP/2 and HTTP/1.1.
    pub(super) config: Arc<rustls::ServerConfig>,
}

impl std::fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

pub(super) fn certificate_error(error: impl std::fmt::Display) -> ListenError {
    ListenError::Certificate(error.to_string())
}

impl ServerCertificate {
    /// Creates an authority, and a certificate for `address`, loopback and the names of the service `kubernetes`.
    pub(super) fn make(address: IpAddr) -> Result<Self, ListenError> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "plumbline-ca");
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().map_err(certificate_error)?)
            .map_err(certificate_error)?;

        let names: Vec<String> = NAMES.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(certificate_error)?;
        let addresses = [address, IpAddr::from([127, 0, 0, 1]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST.octets())];
        params.subject_alt_names.extend(addresses.map(SanType::IpAddress));
        params.distinguished_name.push(DnType::CommonName, "plumbline");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // As Go adds it. Python refuses certificates without it from 3.13 on.
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(certificate_error)?;
        let certificate = params.signed_by(&key, &authority).map_err(certificate_error)?;

        let chain = vec![certificate.der().clone(), authority.der().clone()];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut provider = rustls::crypto::ring::default_provider();
        // kube-apiserver prefers AES with 128 bit keys, too. It is also the fastest.
        provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .map_err(certificate_error)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(certificate_error)?;
        config.ignore_client_order = true;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { authority_pem: authority.pem(), config: Arc::new(config) })
    }
}
