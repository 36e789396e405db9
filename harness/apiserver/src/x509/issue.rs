//! Issues certificates: for signing requests, and the authority's own. The template is that of
//! `PermissiveSigningPolicy` in `pkg/controller/certificates/authority/policies.go`; extensions are in Go's order.
#![cfg_attr(
    not(all(feature = "controllers", feature = "listener")),
    expect(dead_code, reason = "the loops issue certificates, and the listener reads them")
)]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use ring::digest;
use ring::rand::SystemRandom;
#[cfg(feature = "listener")]
use ring::signature::ECDSA_P256_SHA256_ASN1_SIGNING;
use ring::signature::{EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};

use super::der::{BIT_STRING, INTEGER, Malformed, OCTET_STRING, OID, Reader, SEQUENCE, SET};
use super::request::{CertificateRequest, ECDSA_SHA256, ED25519, SUBJECT_ALT_NAME, Subject};

const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
const EXT_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 14];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 35];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
/// The algorithm of keys on the curve P-256, encoded.
const P256_KEY: &[u8] =
    &[0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Time before now at which a certificate becomes valid.
const BACKDATE: Duration = Duration::from_mins(5);
/// Certificates that live shorter than this end their time after now, others after the begin of their validity.
const SHORT: Duration = Duration::from_hours(8);
/// Lifetime of an authority that a server makes for itself: ten years, as kubeadm's.
const AUTHORITY_LIFE: Duration = Duration::from_hours(24 * 3650);

/// Usages of keys by their bit, with their names in the API.
const USAGES: [(&str, u16); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// Extended usages in Go's order, with their object identifiers. Two names are the same usage.
const EXT_USAGES: [(&[&str], &[u8]); 12] = [
    (&["any"], &[0x55, 0x1d, 37, 0]),
    (&["server auth"], &[0x2b, 6, 1, 5, 5, 7, 3, 1]),
    (&["client auth"], &[0x2b, 6, 1, 5, 5, 7, 3, 2]),
    (&["code signing"], &[0x2b, 6, 1, 5, 5, 7, 3, 3]),
    (&["email protection", "s/mime"], &[0x2b, 6, 1, 5, 5, 7, 3, 4]),
    (&["ipsec end system"], &[0x2b, 6, 1, 5, 5, 7, 3, 5]),
    (&["ipsec tunnel"], &[0x2b, 6, 1, 5, 5, 7, 3, 6]),
    (&["ipsec user"], &[0x2b, 6, 1, 5, 5, 7, 3, 7]),
    (&["timestamping"], &[0x2b, 6, 1, 5, 5, 7, 3, 8]),
    (&["ocsp signing"], &[0x2b, 6, 1, 5, 5, 7, 3, 9]),
    (&["microsoft sgc"], &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 10, 3, 3]),
    (&["netscape sgc"], &[0x60, 0x86, 0x48, 1, 0x86, 0xf8, 0x42, 4, 1]),
];

/// The reason why a certificate is not issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IssueError {
    #[error("unable to verify certificate request signature: x509: ECDSA verification failure")]
    Signature,
    #[error("unrecognized usage values: {0:?}")]
    Usages(Vec<String>),
    #[error("refusing to sign a certificate that expired in the past: NotAfter={0}")]
    Expired(Timestamp),
    #[error("failed to sign certificate: the key does not work")]
    Key,
}

/// A certificate authority: its certificate and its key. Clones share them.
#[derive(Clone)]
pub struct CertificateAuthority {
    der: Arc<[u8]>,
    /// The subject, encoded.
    name: Arc<[u8]>,
    key_id: Arc<[u8]>,
    ends: Timestamp,
    key: SigningKey,
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAuthority").field("ends", &self.ends).finish_non_exhaustive()
    }
}

#[derive(Clone)]
enum SigningKey {
    Ecdsa(Arc<EcdsaKeyPair>),
    Ed25519(Arc<Ed25519KeyPair>),
}

impl SigningKey {
    /// Returns the algorithm of signatures, encoded.
    fn algorithm(&self) -> Vec<u8> {
        element(
            SEQUENCE,
            &element(
                OID,
                match self {
                    Self::Ecdsa(_) => ECDSA_SHA256,
                    Self::Ed25519(_) => ED25519,
                },
            ),
        )
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, IssueError> {
        match self {
            Self::Ecdsa(key) => {
                let signed = key.sign(&SystemRandom::new(), message).map_err(|_| IssueError::Key)?;
                Ok(signed.as_ref().to_vec())
            }
            Self::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
        }
    }
}

impl CertificateAuthority {
    /// Returns the authority of a server without a listener. The same seed gives the same one.
    pub(crate) fn of_seed(seed: u64, now: Timestamp) -> Result<Self, IssueError> {
        let hash = digest::digest(&digest::SHA256, &seed.to_be_bytes());
        let key = Ed25519KeyPair::from_seed_unchecked(hash.as_ref()).map_err(|_| IssueError::Key)?;
        let algorithm = element(SEQUENCE, &element(OID, ED25519));
        let public = element(SEQUENCE, &[algorithm, bits(key.public_key().as_ref())].concat());
        let subject = Subject { common_name: "kubernetes".to_owned(), organizations: Vec::new() };
        let name = encode_name(&subject);
        let ends = now.checked_add(AUTHORITY_LIFE).unwrap_or(Timestamp::MAX);
        let key_id = key_id(&public);
        let key = SigningKey::Ed25519(Arc::new(key));
        let extensions = [
            extension(KEY_USAGE, true, &usage_bits(&[0, 2, 5])),
            extension(BASIC_CONSTRAINTS, true, &element(SEQUENCE, &[1, 1, 0xff])),
            extension(SUBJECT_KEY_ID, false, &element(OCTET_STRING, &key_id)),
        ];
        let body = Body { serial: &[1], issuer: &name, from: now, until: ends, subject: &name, key: &public };
        let der = body.signed(&key, &extensions.concat())?;
        Ok(Self { der: der.into(), name: name.into(), key_id: key_id.into(), ends, key })
    }

    /// Reads an authority: its certificate, and its key on the curve P-256 in PKCS #8.
    #[cfg(feature = "listener")]
    pub(crate) fn of_der(der: &[u8], key: &[u8]) -> Result<Self, Malformed> {
        let certificate = ReadCertificate::of(der)?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key, &SystemRandom::new());
        Ok(Self {
            der: der.into(),
            name: certificate.subject_der.into(),
            key_id: certificate.key_id.unwrap_or_else(|| key_id(certificate.key_der)).into(),
            ends: certificate.ends,
            key: SigningKey::Ecdsa(Arc::new(key.map_err(|_| Malformed)?)),
        })
    }

    /// Returns the certificate in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        to_pem(&self.der, "CERTIFICATE")
    }

    /// Signs a request; `life` is the time until the certificate ends. Returns PEM.
    pub(crate) fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[&str],
        life: Duration,
        now: Timestamp,
    ) -> Result<String, IssueError> {
        if !request.is_signed() {
            return Err(IssueError::Signature);
        }
        self.issue((&request.subject, &request.key_der, &request.names_der), usages, life, now)
    }

    /// Returns a client certificate for a user and its key, in PEM.
    #[cfg(feature = "listener")]
    pub(crate) fn client(&self, user: &Subject, now: Timestamp) -> Result<(String, String), IssueError> {
        let random = SystemRandom::new();
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).map_err(|_| IssueError::Key)?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random)
            .map_err(|_| IssueError::Key)?;
        let public = element(SEQUENCE, &[P256_KEY.to_vec(), bits(key.public_key().as_ref())].concat());
        let usages = ["digital signature", "key encipherment", "client auth"];
        // A year, as kubeadm's.
        let life = Duration::from_hours(24 * 365);
        let certificate = self.issue((user, &public, &[]), &usages, life, now)?;
        Ok((certificate, to_pem(document.as_ref(), "PRIVATE KEY")))
    }

    fn issue(
        &self,
        (subject, key, names): (&Subject, &[u8], &[u8]),
        usages: &[&str],
        life: Duration,
        now: Timestamp,
    ) -> Result<String, IssueError> {
        if now >= self.ends {
            return Err(IssueError::Expired(self.ends));
        }
        let life = if life < SHORT { life } else { life.saturating_sub(BACKDATE) };
        let until = now.checked_add(life).unwrap_or(Timestamp::MAX).min(self.ends);
        let from = now.checked_sub(BACKDATE).unwrap_or(Timestamp::MIN);
        let (bits, extended) = usages_of(usages)?;
        let mut extensions = Vec::new();
        if !bits.is_empty() {
            extensions.extend(extension(KEY_USAGE, true, &usage_bits(&bits)));
        }
        if !extended.is_empty() {
            let ids: Vec<u8> = extended.iter().flat_map(|id| element(OID, id)).collect();
            extensions.extend(extension(EXT_KEY_USAGE, false, &element(SEQUENCE, &ids)));
        }
        extensions.extend(extension(BASIC_CONSTRAINTS, true, &element(SEQUENCE, &[])));
        let authority = element(SEQUENCE, &element(0x80, &self.key_id));
        extensions.extend(extension(AUTHORITY_KEY_ID, false, &authority));
        if !names.is_empty() {
            extensions.extend(extension(SUBJECT_ALT_NAME, false, names));
        }
        // The serial number is a hash, so that equal requests at the same time have equal certificates.
        let mut seed = key.to_vec();
        seed.extend(now.as_nanosecond().to_be_bytes());
        let hash = digest::digest(&digest::SHA256, &seed);
        let serial = &hash.as_ref()[..16];
        let subject = encode_name(subject);
        let body = Body { serial, issuer: &self.name, from, until, subject: &subject, key };
        Ok(to_pem(&body.signed(&self.key, &extensions)?, "CERTIFICATE"))
    }
}

/// The parts of a certificate before its extensions.
struct Body<'a> {
    serial: &'a [u8],
    issuer: &'a [u8],
    from: Timestamp,
    until: Timestamp,
    subject: &'a [u8],
    key: &'a [u8],
}

impl Body<'_> {
    fn signed(&self, key: &SigningKey, extensions: &[u8]) -> Result<Vec<u8>, IssueError> {
        let algorithm = key.algorithm();
        let validity = element(SEQUENCE, &[time(self.from), time(self.until)].concat());
        let body = [
            element(0xa0, &element(INTEGER, &[2])),
            integer(self.serial),
            algorithm.clone(),
            self.issuer.to_vec(),
            validity,
            self.subject.to_vec(),
            self.key.to_vec(),
            element(0xa3, &element(SEQUENCE, extensions)),
        ];
        let body = element(SEQUENCE, &body.concat());
        let signature = bits(&key.sign(&body)?);
        Ok(element(SEQUENCE, &[body, algorithm, signature].concat()))
    }
}

/// The parts that are read from a certificate.
pub(crate) struct ReadCertificate<'a> {
    /// User and groups.
    pub(crate) subject: Subject,
    subject_der: &'a [u8],
    key_der: &'a [u8],
    key_id: Option<Vec<u8>>,
    ends: Timestamp,
}

impl<'a> ReadCertificate<'a> {
    /// Reads a certificate. Neither its signature nor its time is checked.
    pub(crate) fn of(der: &'a [u8]) -> Result<Self, Malformed> {
        let mut body = Reader(der).inner(SEQUENCE)?.inner(SEQUENCE)?;
        body.optional(0xa0)?;
        body.element(INTEGER)?;
        body.element(SEQUENCE)?;
        body.element(SEQUENCE)?;
        let mut validity = body.inner(SEQUENCE)?;
        validity.any()?;
        let ends = validity.any()?;
        let subject = body.element(SEQUENCE)?;
        let key = body.element(SEQUENCE)?;
        let mut own = Self {
            subject: Subject::read(Reader(subject.content))?,
            subject_der: subject.whole,
            key_der: key.whole,
            key_id: None,
            ends: read_time(ends.tag, ends.content)?,
        };
        if let Some(extensions) = body.optional(0xa3)? {
            let mut extensions = Reader(extensions.content).inner(SEQUENCE)?;
            while !extensions.is_empty() {
                let mut extension = extensions.inner(SEQUENCE)?;
                let kind = extension.element(OID)?.content;
                extension.optional(1)?;
                let value = extension.element(OCTET_STRING)?.content;
                if kind == SUBJECT_KEY_ID {
                    own.key_id = Some(Reader(value).element(OCTET_STRING)?.content.to_vec());
                }
            }
        }
        Ok(own)
    }
}

/// Returns the time until which a certificate in PEM is valid; `None` if it is malformed.
#[cfg(feature = "controllers")]
pub(crate) fn certificate_end(pem: &str) -> Option<Timestamp> {
    let der = super::der::pem_block(pem, "CERTIFICATE")?;
    ReadCertificate::of(&der).ok().map(|certificate| certificate.ends)
}

/// Encodes an element.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    if length < 0x80 {
        out.extend(u8::try_from(length));
    } else {
        let bytes = length.to_be_bytes();
        let bytes: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
        out.extend(u8::try_from(bytes.len()).map(|count| 0x80 | count));
        out.extend(bytes);
    }
    out.extend_from_slice(content);
    out
}

/// Encodes a positive number.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let mut digits: Vec<u8> = bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
    if digits.first().is_none_or(|first| *first >= 0x80) {
        digits.insert(0, 0);
    }
    element(INTEGER, &digits)
}

/// Encodes bits that are whole bytes.
fn bits(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

fn extension(id: &[u8], is_critical: bool, value: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if is_critical { &[1, 1, 0xff] } else { &[] };
    element(SEQUENCE, &[element(OID, id), critical.to_vec(), element(OCTET_STRING, value)].concat())
}

/// Encodes usages of a key: a bit string without trailing zeros.
fn usage_bits(usages: &[u16]) -> Vec<u8> {
    let all = usages.iter().fold(0_u16, |all, bit| all | 0x8000 >> bit);
    let bytes = all.to_be_bytes();
    let used = if bytes[1] == 0 { &bytes[..1] } else { &bytes[..] };
    let unused = used.last().map_or(0, |last| last.trailing_zeros());
    element(BIT_STRING, &[&[u8::try_from(unused).unwrap_or(0)], used].concat())
}

fn usages_of(usages: &[&str]) -> Result<(Vec<u16>, Vec<&'static [u8]>), IssueError> {
    let bit = |usage: &str| USAGES.iter().find(|(name, _)| *name == usage).map(|(_, bit)| *bit);
    let is_extended = |usage: &str| EXT_USAGES.iter().any(|(names, _)| names.contains(&usage));
    let unknown: Vec<String> = usages
        .iter()
        .filter(|usage| bit(usage).is_none() && !is_extended(usage))
        .map(|usage| (*usage).to_owned())
        .collect();
    if !unknown.is_empty() {
        return Err(IssueError::Usages(unknown));
    }
    let bits = usages.iter().filter_map(|usage| bit(usage)).collect();
    let extended = EXT_USAGES.iter().filter(|(names, _)| names.iter().any(|name| usages.contains(name)));
    Ok((bits, extended.map(|(_, id)| *id).collect()))
}

/// Encodes a subject as Go does: organizations, then the common name.
fn encode_name(subject: &Subject) -> Vec<u8> {
    let part = |id: &[u8], text: &str| {
        element(SET, &element(SEQUENCE, &[element(OID, id), element(UTF8_STRING, text.as_bytes())].concat()))
    };
    let mut organizations: Vec<Vec<u8>> = subject.organizations.iter().map(|name| part(ORGANIZATION, name)).collect();
    if !subject.common_name.is_empty() {
        organizations.push(part(COMMON_NAME, &subject.common_name));
    }
    element(SEQUENCE, &organizations.concat())
}

/// Returns the identifier of a public key: a hash of its bits.
fn key_id(public: &[u8]) -> Vec<u8> {
    let key = Reader(public).inner(SEQUENCE).and_then(|mut key| key.any().and_then(|_| key.bits()));
    digest::digest(&digest::SHA256, key.unwrap_or(public)).as_ref()[..20].to_vec()
}

fn time(at: Timestamp) -> Vec<u8> {
    let year = at.strftime("%Y").to_string();
    let is_short = ("1950".."2050").contains(&year.as_str());
    let (tag, form) = if is_short { (UTC_TIME, "%y%m%d%H%M%SZ") } else { (GENERALIZED_TIME, "%Y%m%d%H%M%SZ") };
    element(tag, at.strftime(form).to_string().as_bytes())
}

fn read_time(tag: u8, content: &[u8]) -> Result<Timestamp, Malformed> {
    let text = std::str::from_utf8(content).map_err(|_| Malformed)?;
    let text = match tag {
        UTC_TIME => format!("{}{text}", if text < "50" { "20" } else { "19" }),
        GENERALIZED_TIME => text.to_owned(),
        _ => return Err(Malformed),
    };
    let text = text.strip_suffix('Z').filter(|text| text.len() == 14 && text.is_ascii()).ok_or(Malformed)?;
    let part = |from: usize, to: usize| &text[from..to];
    let moment =
        format!("{}-{}-{}T{}:{}:{}Z", part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 12), part(12, 14));
    moment.parse().map_err(|_| Malformed)
}

fn to_pem(der: &[u8], kind: &str) -> String {
    let text = STANDARD.encode(der);
    let mut lines = String::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        lines.push_str(line);
        lines.push('\n');
        rest = more;
    }
    format!("-----BEGIN {kind}-----\n{lines}-----END {kind}-----\n")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::x509::pem_block;

    const JANE: &str = include_str!("jane.csr");

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    fn authority() -> CertificateAuthority {
        CertificateAuthority::of_seed(1, now()).expect("an authority")
    }

    /// A certificate has the request's user, names and key, and the authority's signature.
    #[test]
    fn a_request_becomes_a_certificate() {
        let request = CertificateRequest::from_pem(JANE).expect("a request");
        let pem = authority().sign(&request, &["digital signature", "client auth"], SHORT, now()).expect("signed");
        let der = pem_block(&pem, "CERTIFICATE").expect("a block");
        let read = ReadCertificate::of(&der).expect("a certificate");
        assert_eq!(read.subject, request.subject);
        assert_eq!(read.key_der, request.key_der);
        assert_eq!(read.ends.to_string(), "2026-01-01T07:55:00Z");

        let mut parts = Reader(&der).inner(SEQUENCE).expect("a sequence");
        let body = parts.element(SEQUENCE).expect("a body").whole;
        parts.element(SEQUENCE).expect("an algorithm");
        let signature = parts.bits().expect("a signature");
        let SigningKey::Ed25519(key) = authority().key else { panic!("of a seed") };
        let public = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, key.public_key().as_ref());
        public.verify(body, signature).expect("the authority's");
        let names = request.names_der.as_slice();
        assert!(der.windows(names.len()).any(|part| part == names));
    }

    /// `duration` and `apply`: the end, from now or from the begin of the validity, but not after the authority's.
    #[rstest]
    #[case::short(Duration::from_mins(10), "2026-01-01T00:10:00Z")]
    #[case::long(Duration::from_hours(24), "2026-01-01T23:55:00Z")]
    #[case::longer_than_the_authority(Duration::from_hours(24 * 36500), "2035-12-30T00:00:00Z")]
    fn ends(#[case] life: Duration, #[case] expected: &str) {
        let request = CertificateRequest::from_pem(JANE).expect("a request");
        let pem = authority().sign(&request, &["client auth"], life, now()).expect("signed");
        let der = pem_block(&pem, "CERTIFICATE").expect("a block");
        assert_eq!(ReadCertificate::of(&der).expect("a certificate").ends.to_string(), expected);
    }

    #[test]
    fn an_authority_that_has_ended_signs_nothing() {
        let request = CertificateRequest::from_pem(JANE).expect("a request");
        let later = now().checked_add(AUTHORITY_LIFE).expect("a time");
        assert!(matches!(authority().sign(&request, &["any"], SHORT, later), Err(IssueError::Expired(_))));
        let unknown = authority().sign(&request, &["x"], SHORT, now());
        assert_eq!(unknown, Err(IssueError::Usages(vec!["x".to_owned()])));
    }

    #[rstest]
    #[case::first(&[0], &[3, 2, 7, 0x80])]
    #[case::both(&[0, 2], &[3, 2, 5, 0xa0])]
    #[case::last(&[8], &[3, 3, 7, 0, 0x80])]
    fn usages_are_bits(#[case] usages: &[u16], #[case] expected: &[u8]) {
        assert_eq!(usage_bits(usages), expected);
    }
}
