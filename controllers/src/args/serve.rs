//! Flags of the health and metrics server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::ValueEnum;

use super::error::ArgsError;
use crate::runtime::serve::ServeOptions;
use crate::runtime::serve::tls::{CertificateSource, self_signed_names};

/// `--bind-address`, `--secure-port` and the certificate.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Health and metrics")]
pub struct ServeArgs {
    /// Address of the server for /healthz, /livez, /readyz, /metrics and /debug/caches
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub bind_address: IpAddr,

    /// HTTPS port of that server; 0 disables it
    #[arg(long, value_name = "PORT", default_value_t = 10257)]
    pub secure_port: u16,

    /// HTTPS certificate, PEM, leaf first; reloaded when it changes. By default, a new one is generated at each start
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key of the certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,

    /// Minimum TLS version
    #[arg(long, value_name = "VERSION", value_enum, default_value_t = TlsVersion::Tls12)]
    pub tls_min_version: TlsVersion,
}

/// TLS versions, spelled as upstream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[value(name = "VersionTLS12")]
    Tls12,
    /// TLS 1.3.
    #[value(name = "VersionTLS13")]
    Tls13,
}

impl ServeArgs {
    /// Returns the options of the server on the machine `host`; `None` if the port is 0.
    ///
    /// # Errors
    /// [`ArgsError::TlsPair`] for a certificate without key or a key without certificate.
    pub fn options(&self, host: &str) -> Result<Option<ServeOptions>, ArgsError> {
        let certificate = match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(cert), Some(key)) => CertificateSource::Files { cert: cert.clone(), key: key.clone() },
            (Some(_), None) => return Err(ArgsError::TlsPair("--tls-cert-file", "--tls-private-key-file")),
            (None, Some(_)) => return Err(ArgsError::TlsPair("--tls-private-key-file", "--tls-cert-file")),
            (None, None) => CertificateSource::SelfSigned { names: self_signed_names(host, self.bind_address) },
        };
        Ok((self.secure_port > 0).then(|| ServeOptions {
            address: SocketAddr::new(self.bind_address, self.secure_port),
            certificate,
            tls13_only: self.tls_min_version == TlsVersion::Tls13,
        }))
    }
}
