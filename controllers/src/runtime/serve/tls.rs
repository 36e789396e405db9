//! The certificate of the health and metrics server: from files that may change, or generated at start.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};

use crate::runtime::clock::Clock;
use crate::runtime::files::{FileReadError, WatchedFiles};

/// The source of the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// A certificate for these names, generated at start and kept in memory.
    SelfSigned {
        /// Host names and addresses.
        names: Vec<String>,
    },
    /// PEM files; reloaded when they change.
    Files {
        /// The chain, leaf first.
        cert: PathBuf,
        /// The private key.
        key: PathBuf,
    },
}

/// Errors of the certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] FileReadError),
    /// A file does not contain the expected PEM.
    #[error("{} holds no usable {what}: {why}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Certificate or private key.
        what: &'static str,
        /// The cause.
        why: String,
    },
    /// Certificate and key do not match, or the like.
    #[error("unable to use the certificate: {0}")]
    Unusable(String),
}

/// The current certificate.
pub(super) struct Certificate {
    source: CertificateSource,
    tls13_only: bool,
    current: Arc<ServerConfig>,
    files: WatchedFiles,
}

impl Certificate {
    /// Reads or generates the certificate.
    pub(super) fn new(source: CertificateSource, tls13_only: bool, clock: &Clock) -> Result<Self, TlsError> {
        let (current, files) = match &source {
            CertificateSource::SelfSigned { names } => (self_signed(names, tls13_only)?, WatchedFiles::default()),
            CertificateSource::Files { cert, key } => {
                let files = WatchedFiles::read(vec![cert.clone(), key.clone()], clock)?;
                (from_files(&source, &files, tls13_only)?, files)
            }
        };
        Ok(Self { source, tls13_only, current, files })
    }

    /// Returns the configuration of a handshake. Files that have become invalid are reported once, and their last valid
    /// content stays in use.
    pub(super) fn current(&mut self, clock: &Clock) -> Arc<ServerConfig> {
        if self.files.reload_if_changed(clock) {
            match from_files(&self.source, &self.files, self.tls13_only) {
                Ok(config) => {
                    self.current = config;
                    tracing::info!("using the changed serving certificate");
                }
                Err(error) => {
                    tracing::warn!(%error, "unable to use the changed serving certificate, keeping the old one");
                }
            }
        }
        Arc::clone(&self.current)
    }
}

fn from_files(
    source: &CertificateSource,
    files: &WatchedFiles,
    tls13_only: bool,
) -> Result<Arc<ServerConfig>, TlsError> {
    let (CertificateSource::Files { cert, key }, [cert_pem, key_pem]) = (source, files.content()) else {
        return Err(TlsError::Unusable("no files".to_owned()));
    };
    let pem = |path: &PathBuf, what, why: String| TlsError::Pem { path: path.clone(), what, why };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(cert_pem).collect();
    let chain = chain.map_err(|error| pem(cert, "certificate", error.to_string()))?;
    if chain.is_empty() {
        return Err(pem(cert, "certificate", "there is none".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|error| pem(key, "private key", error.to_string()))?;
    config(chain, key, tls13_only)
}

fn self_signed(names: &[String], tls13_only: bool) -> Result<Arc<ServerConfig>, TlsError> {
    let unusable = |error: rcgen::Error| TlsError::Unusable(error.to_string());
    let made = rcgen::generate_simple_self_signed(names).map_err(unusable)?;
    let key =
        PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(|why| TlsError::Unusable(why.to_owned()))?;
    config(vec![made.cert.der().clone()], key, tls13_only)
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    tls13_only: bool,
) -> Result<Arc<ServerConfig>, TlsError> {
    let unusable = |error: rustls::Error| TlsError::Unusable(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions: &[_] = if tls13_only { &[&TLS13] } else { &[&TLS13, &TLS12] };
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).map_err(unusable)?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key).map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns the names of a self-signed certificate for a server on `host` that listens on `address`.
pub fn self_signed_names(host: &str, address: IpAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !host.is_empty() {
        names.push(host.to_owned());
    }
    if !address.is_unspecified() && !address.is_loopback() {
        names.push(address.to_string());
    }
    names
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::runtime::files::RELOAD_PERIOD;

    fn write(folder: &Path) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    }

    fn files(folder: &Path) -> CertificateSource {
        CertificateSource::Files { cert: folder.join("tls.crt"), key: folder.join("tls.key") }
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_reloaded_when_they_change_and_used_only_if_valid() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let mut certificate = Certificate::new(files(folder.path()), false, &clock).unwrap();
        let first = certificate.current(&clock);
        write(folder.path());
        assert!(Arc::ptr_eq(&certificate.current(&clock), &first), "not checked yet");
        clock.sleep(RELOAD_PERIOD).await;
        let second = certificate.current(&clock);
        assert!(!Arc::ptr_eq(&second, &first));
        clock.sleep(RELOAD_PERIOD).await;
        assert!(Arc::ptr_eq(&certificate.current(&clock), &second), "nothing changed");
        std::fs::write(folder.path().join("tls.crt"), "half of a certi").unwrap();
        clock.sleep(RELOAD_PERIOD).await;
        assert!(Arc::ptr_eq(&certificate.current(&clock), &second), "the last valid one stays in use");
        std::fs::remove_file(folder.path().join("tls.key")).unwrap();
        clock.sleep(RELOAD_PERIOD).await;
        assert!(Arc::ptr_eq(&certificate.current(&clock), &second), "the last valid one stays in use");
        write(folder.path());
        clock.sleep(RELOAD_PERIOD).await;
        assert!(!Arc::ptr_eq(&certificate.current(&clock), &second));
    }

    #[tokio::test(start_paused = true)]
    async fn unusable_files_are_named() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let problem = || Certificate::new(files(folder.path()), false, &clock).err().unwrap().to_string();
        assert!(problem().contains("unable to read") && problem().contains("tls.crt"), "{}", problem());
        write(folder.path());
        std::fs::write(folder.path().join("tls.crt"), "").unwrap();
        assert!(problem().ends_with("tls.crt holds no usable certificate: there is none"), "{}", problem());
        write(folder.path());
        std::fs::write(folder.path().join("tls.key"), "x").unwrap();
        assert!(problem().contains("tls.key holds no usable private key: "), "{}", problem());
        write(folder.path());
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.path().join("tls.key"), other.signing_key.serialize_pem()).unwrap();
        assert!(problem().starts_with("unable to use the certificate: "), "{}", problem());
    }

    #[test]
    fn names_of_a_self_signed_certificate() {
        let local = ["localhost", "127.0.0.1", "::1"];
        let names = |address: &str| self_signed_names("host", address.parse().unwrap());
        assert_eq!(names("0.0.0.0"), [&local[..], &["host"]].concat());
        assert_eq!(names("10.0.0.7"), [&local[..], &["host", "10.0.0.7"]].concat());
    }
}
