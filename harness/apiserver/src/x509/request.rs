//! Certificate signing requests (PKCS #10): subject, names, key and signature.

use std::net::IpAddr;

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};

use super::der::{INTEGER, Malformed, OCTET_STRING, OID, Reader, SEQUENCE, SET, pem_block};

/// Object identifiers, encoded.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];
pub(super) const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
pub(super) const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const ECDSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3];
const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11];
const RSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12];
const RSA_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13];
pub(super) const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];

/// The parts of a subject that name a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The common name: the user.
    pub(crate) common_name: String,
    /// The organizations: the groups.
    pub(crate) organizations: Vec<String>,
}

impl Subject {
    /// Reads a `Name`; of several common names the last one counts, as in Go.
    pub(super) fn read(mut name: Reader<'_>) -> Result<Self, Malformed> {
        let mut subject = Self::default();
        while !name.is_empty() {
            let mut set = name.inner(SET)?;
            while !set.is_empty() {
                let mut part = set.inner(SEQUENCE)?;
                let kind = part.element(OID)?.content;
                let text = String::from_utf8_lossy(part.any()?.content).into_owned();
                match kind {
                    COMMON_NAME => subject.common_name = text,
                    ORGANIZATION => subject.organizations.push(text),
                    _ => {}
                }
            }
        }
        Ok(subject)
    }
}

/// A signing request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateRequest {
    /// User and groups.
    pub(crate) subject: Subject,
    /// The public key with its algorithm, encoded.
    pub(super) key_der: Vec<u8>,
    /// The content of the extension with the alternative names; empty if there is none.
    pub(super) names_der: Vec<u8>,
    /// DNS names.
    pub(crate) dns: Vec<String>,
    /// Mail addresses.
    pub(crate) emails: Vec<String>,
    /// URIs.
    pub(crate) uris: Vec<String>,
    /// IP addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// The signed bytes, algorithm and signature.
    signed: (Vec<u8>, Vec<u8>, Vec<u8>),
}

impl CertificateRequest {
    /// Reads the first request in a PEM text. Its signature is not checked.
    pub(crate) fn from_pem(text: &str) -> Result<Self, Malformed> {
        Self::from_der(&pem_block(text, "CERTIFICATE REQUEST").ok_or(Malformed)?)
    }

    fn from_der(data: &[u8]) -> Result<Self, Malformed> {
        let mut all = Reader(data);
        let mut request = all.inner(SEQUENCE)?;
        if !all.is_empty() {
            return Err(Malformed);
        }
        let info = request.element(SEQUENCE)?;
        let algorithm = request.inner(SEQUENCE)?.element(OID)?.content.to_vec();
        let signature = request.bits()?.to_vec();

        let mut parts = Reader(info.content);
        parts.element(INTEGER)?;
        let name = parts.element(SEQUENCE)?;
        let key = parts.element(SEQUENCE)?;
        let mut own = Self {
            subject: Subject::read(Reader(name.content))?,
            key_der: key.whole.to_vec(),
            names_der: Vec::new(),
            dns: Vec::new(),
            emails: Vec::new(),
            uris: Vec::new(),
            addresses: Vec::new(),
            signed: (info.whole.to_vec(), algorithm, signature),
        };
        if let Some(attributes) = parts.optional(0xa0)? {
            own.read_attributes(Reader(attributes.content))?;
        }
        Ok(own)
    }

    fn read_attributes(&mut self, mut attributes: Reader<'_>) -> Result<(), Malformed> {
        while !attributes.is_empty() {
            let mut attribute = attributes.inner(SEQUENCE)?;
            if attribute.element(OID)?.content != EXTENSION_REQUEST {
                continue;
            }
            let mut extensions = attribute.inner(SET)?.inner(SEQUENCE)?;
            while !extensions.is_empty() {
                let mut extension = extensions.inner(SEQUENCE)?;
                let kind = extension.element(OID)?.content;
                extension.optional(1)?;
                let value = extension.element(OCTET_STRING)?.content;
                if kind == SUBJECT_ALT_NAME {
                    self.names_der = value.to_vec();
                    self.read_names(Reader(value).inner(SEQUENCE)?)?;
                }
            }
        }
        Ok(())
    }

    fn read_names(&mut self, mut names: Reader<'_>) -> Result<(), Malformed> {
        while !names.is_empty() {
            let name = names.any()?;
            let text = || String::from_utf8_lossy(name.content).into_owned();
            match name.tag {
                0x81 => self.emails.push(text()),
                0x82 => self.dns.push(text()),
                0x86 => self.uris.push(text()),
                0x87 => self.addresses.push(match name.content.len() {
                    4 => <[u8; 4]>::try_from(name.content).map_err(|_| Malformed)?.into(),
                    16 => <[u8; 16]>::try_from(name.content).map_err(|_| Malformed)?.into(),
                    _ => return Err(Malformed),
                }),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns true if the request is signed with the key in it.
    pub(crate) fn is_signed(&self) -> bool {
        let (message, algorithm, signature) = &self.signed;
        let Ok((curve, key)) = read_key(&self.key_der) else { return false };
        let known: &dyn VerificationAlgorithm = match (&**algorithm, curve == P384) {
            (ECDSA_SHA256, false) => &signature::ECDSA_P256_SHA256_ASN1,
            (ECDSA_SHA256, true) => &signature::ECDSA_P384_SHA256_ASN1,
            (ECDSA_SHA384, false) => &signature::ECDSA_P256_SHA384_ASN1,
            (ECDSA_SHA384, true) => &signature::ECDSA_P384_SHA384_ASN1,
            (RSA_SHA256, _) => &signature::RSA_PKCS1_2048_8192_SHA256,
            (RSA_SHA384, _) => &signature::RSA_PKCS1_2048_8192_SHA384,
            (RSA_SHA512, _) => &signature::RSA_PKCS1_2048_8192_SHA512,
            (ED25519, _) => &signature::ED25519,
            _ => return false,
        };
        UnparsedPublicKey::new(known, key).verify(message, signature).is_ok()
    }
}

/// Returns the curve of a public key, if it has one, and its bits.
fn read_key(der: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut key = Reader(der).inner(SEQUENCE)?;
    let mut algorithm = key.inner(SEQUENCE)?;
    algorithm.element(OID)?;
    let curve = algorithm.optional(OID)?.map_or(&[][..], |curve| curve.content);
    Ok((curve, key.bits()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Made by `openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj '/O=dev/O=ops/CN=jane' -addext
    /// 'subjectAltName=DNS:a.example.com,IP:10.0.0.7'`.
    const JANE: &str = include_str!("jane.csr");

    #[test]
    fn a_request_of_openssl_is_read() {
        let request = CertificateRequest::from_pem(JANE).expect("a request");
        assert_eq!(request.subject.common_name, "jane");
        assert_eq!(request.subject.organizations, ["dev", "ops"]);
        assert_eq!(request.dns, ["a.example.com"]);
        assert_eq!(request.addresses, [IpAddr::from([10, 0, 0, 7])]);
        assert!(request.is_signed());
    }

    /// Every change of a byte is noticed: the request is malformed or not signed.
    #[test]
    fn a_changed_request_is_not_signed() {
        let der = pem_block(JANE, "CERTIFICATE REQUEST").expect("a block");
        for place in 0..der.len() {
            let mut changed = der.clone();
            changed[place] ^= 1;
            assert!(!CertificateRequest::from_der(&changed).is_ok_and(|request| request.is_signed()), "byte {place}");
        }
        for length in 0..der.len() {
            assert!(CertificateRequest::from_der(&der[..length]).is_err(), "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = CertificateRequest::from_der(&data);
        }
    }
}
