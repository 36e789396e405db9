//! Certificates: reads signing requests and the subjects of certificates, and issues certificates, as Go's
//! `crypto/x509` does for Kubernetes. Only what the signers and the authentication of clients need.

mod der;
mod issue;
mod request;

pub(crate) use der::pem_block;
pub use issue::CertificateAuthority;
#[cfg(feature = "listener")]
pub(crate) use issue::ReadCertificate;
#[cfg(feature = "controllers")]
pub(crate) use issue::certificate_end;
pub(crate) use request::CertificateRequest;
#[cfg(feature = "listener")]
pub(crate) use request::Subject;
