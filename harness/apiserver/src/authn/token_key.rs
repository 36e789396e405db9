//! The key that signs tokens of service accounts: ES256 with a listener, as kube-apiserver with a key on the curve
//! P-256 in `--service-account-signing-key-file`. A server without a listener has an Ed25519 key that follows from its
//! seed, because its signatures are the same in each run. See `pkg/serviceaccount/{jwt,openidmetadata}.go`.

use std::fmt;
#[cfg(feature = "listener")]
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
#[cfg(feature = "listener")]
use ring::rand::SystemRandom;
#[cfg(feature = "listener")]
use ring::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use crate::json::{Value, json};

/// The bytes before a public key in its `SubjectPublicKeyInfo`, by whose hash keys are named.
const ED25519_PREFIX: &[u8] = &[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
#[cfg(feature = "listener")]
const P256_PREFIX: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7, 3,
    0x42, 0,
];

/// A key pair.
pub(super) enum TokenKey {
    Ed25519(Ed25519KeyPair),
    #[cfg(feature = "listener")]
    Ecdsa(Arc<EcdsaKeyPair>),
    /// No tokens are issued, because there is no key.
    None,
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenKey").field(&self.algorithm()).finish()
    }
}

impl TokenKey {
    /// Returns the key that follows from a seed.
    pub(super) fn of_seed(seed: &[u8]) -> Self {
        let hash = digest(&SHA256, &[b"service accounts".as_slice(), seed].concat());
        Ed25519KeyPair::from_seed_unchecked(hash.as_ref()).map_or(Self::None, Self::Ed25519)
    }

    /// Returns the key of a listener with this token. In a process it is the same for all worlds behind the listener,
    /// and after a reset.
    #[cfg(feature = "listener")]
    pub(super) fn of_listener(token: &str) -> Self {
        use std::collections::BTreeMap;

        use parking_lot::Mutex;

        /// Keys by the hash of the token.
        static KEYS: Mutex<BTreeMap<Vec<u8>, Arc<EcdsaKeyPair>>> = Mutex::new(BTreeMap::new());
        const MAX_KEYS: usize = 1000;

        let id = digest(&SHA256, token.as_bytes()).as_ref().to_vec();
        let mut keys = KEYS.lock();
        if let Some(key) = keys.get(&id) {
            return Self::Ecdsa(Arc::clone(key));
        }
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).ok();
        let read = |document: ring::pkcs8::Document| {
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).ok()
        };
        let Some(key) = made.and_then(read).map(Arc::new) else { return Self::None };
        if keys.len() >= MAX_KEYS {
            keys.clear();
        }
        keys.insert(id, Arc::clone(&key));
        Self::Ecdsa(key)
    }

    /// Returns the algorithm of signatures, as JSON Web Tokens name it.
    pub(super) fn algorithm(&self) -> &'static str {
        match self {
            Self::Ed25519(_) => "EdDSA",
            #[cfg(feature = "listener")]
            Self::Ecdsa(_) => "ES256",
            Self::None => "none",
        }
    }

    /// Returns the public key, and the bytes before it in its `SubjectPublicKeyInfo`.
    fn public(&self) -> (&[u8], &[u8]) {
        match self {
            Self::Ed25519(pair) => (pair.public_key().as_ref(), ED25519_PREFIX),
            #[cfg(feature = "listener")]
            Self::Ecdsa(pair) => (pair.public_key().as_ref(), P256_PREFIX),
            Self::None => (&[], &[]),
        }
    }

    /// Returns the name of the key: `keyIDFromPublicKey`.
    pub(super) fn id(&self) -> String {
        let (key, prefix) = self.public();
        URL_SAFE_NO_PAD.encode(digest(&SHA256, &[prefix, key].concat()))
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            #[cfg(feature = "listener")]
            Self::Ecdsa(pair) => {
                pair.sign(&SystemRandom::new(), message).map(|made| made.as_ref().to_vec()).unwrap_or_default()
            }
            Self::None => Vec::new(),
        }
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let (key, _) = self.public();
        match self {
            Self::Ed25519(_) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok(),
            #[cfg(feature = "listener")]
            Self::Ecdsa(_) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signature).is_ok(),
            Self::None => false,
        }
    }

    /// Returns the public key as a JSON Web Key, with its fields in upstream's order.
    pub(super) fn public_key(&self) -> Value {
        let (key, _) = self.public();
        let encode = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
        let mut own = json!({"use": "sig", "kty": "OKP", "kid": self.id(), "crv": "Ed25519", "alg": self.algorithm()});
        match key {
            // A point that is not compressed: 4, and two numbers of 32 bytes.
            [4, point @ ..] if point.len() == 64 => {
                own["kty"] = "EC".into();
                own["crv"] = "P-256".into();
                own["x"] = encode(&point[..32]).into();
                own["y"] = encode(&point[32..]).into();
            }
            other => own["x"] = encode(other).into(),
        }
        own
    }
}
