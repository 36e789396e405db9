//! Users and tokens: the administrator, whose token the kubeconfig holds, and service accounts with tokens that this
//! server issued. Claims and groups follow `pkg/serviceaccount/claims.go` and
//! `staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go` of Kubernetes 1.36.
//!
//! The administrator and the service accounts of kube-system may do everything; other accounts need stored roles
//! (`handlers/authorization.rs`). Tokens are JSON Web Tokens signed by a key of the server ([`token_key`]). They become
//! invalid when they expire, and when their account or the object they are bound to is deleted.

mod token_key;

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::RwLock;

#[cfg(test)]
pub(crate) use super::user::NO_USER;
pub(crate) use super::user::UserInfo;
use crate::json::fields::str_field;
use crate::json::{Value, json};
use token_key::TokenKey;

/// Issuer of the tokens, and the only audience of this server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// The `extra` key that identifies the token of a request, as upstream.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    /// Namespace of the service account.
    pub namespace: String,
    /// Name of the service account.
    pub account: String,
    /// UID of the service account.
    pub uid: String,
    /// Kind (`pod`, `secret`, `node`), name and UID of the object that the token is bound to.
    pub bound: Option<(String, String, String)>,
    /// Name and UID of the node on which the pod runs that the token is bound to; the UID of a missing node is empty.
    pub node: Option<(String, String)>,
    /// Audiences of the token.
    pub audiences: Vec<String>,
    /// ID of the token (`jti`).
    pub id: String,
    /// Time of issue (`iat`), in seconds since 1970.
    pub issued: i64,
    /// Time of expiry (`exp`), in seconds since 1970.
    pub expires: i64,
}

impl Claims {
    /// Returns true if the token is for this server: it has an audience of it (`AuthenticateToken` in
    /// `pkg/serviceaccount/jwt.go`).
    pub(crate) fn is_for_server(&self) -> bool {
        self.audiences.iter().any(|audience| audience == ISSUER)
    }

    /// Returns the user that the token authenticates.
    pub(crate) fn user(&self) -> UserInfo {
        let Self { namespace, account, .. } = self;
        let mut extra = BTreeMap::from([(CREDENTIAL.to_owned(), vec![format!("JTI={}", self.id)])]);
        if let Some((kind, name, uid)) = self.bound.as_ref().filter(|(kind, ..)| kind != "secret") {
            extra.insert(format!("authentication.kubernetes.io/{kind}-name"), vec![name.clone()]);
            extra.insert(format!("authentication.kubernetes.io/{kind}-uid"), vec![uid.clone()]);
        }
        if let Some((name, uid)) = &self.node {
            extra.insert("authentication.kubernetes.io/node-name".to_owned(), vec![name.clone()]);
            if !uid.is_empty() {
                extra.insert("authentication.kubernetes.io/node-uid".to_owned(), vec![uid.clone()]);
            }
        }
        let groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ];
        UserInfo { name: format!("system:serviceaccount:{namespace}:{account}"), uid: self.uid.clone(), groups, extra }
    }

    fn to_json(&self) -> Value {
        let mut own = json!({
            "namespace": self.namespace,
            "serviceaccount": {"name": self.account, "uid": self.uid},
        });
        if let Some((kind, name, uid)) = &self.bound {
            own[kind] = json!({"name": name, "uid": uid});
        }
        if let Some((name, uid)) = &self.node {
            own["node"] = json!({"name": name});
            if !uid.is_empty() {
                own["node"]["uid"] = uid.as_str().into();
            }
        }
        json!({
            "aud": self.audiences,
            "exp": self.expires,
            "iat": self.issued,
            "iss": ISSUER,
            "jti": self.id,
            "kubernetes.io": own,
            "nbf": self.issued,
            "sub": format!("system:serviceaccount:{}:{}", self.namespace, self.account),
        })
    }

    fn from_json(claims: &Value) -> Option<Self> {
        let own = &claims["kubernetes.io"];
        let account = &own["serviceaccount"];
        let text = |value: &Value, field: &str| Some(str_field(value, field).to_owned()).filter(|t| !t.is_empty());
        let bound = ["pod", "secret", "node"].into_iter().find_map(|kind| {
            let target = own.get(kind)?;
            Some((kind.to_owned(), text(target, "name")?, text(target, "uid").unwrap_or_default()))
        });
        let node = own.get("node").filter(|_| own.get("pod").is_some());
        let node = node.and_then(|node| Some((text(node, "name")?, text(node, "uid").unwrap_or_default())));
        let audiences = claims["aud"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Some(Self {
            namespace: text(own, "namespace")?,
            account: text(account, "name")?,
            uid: text(account, "uid")?,
            bound,
            node,
            audiences,
            id: text(claims, "jti")?,
            issued: claims["iat"].as_i64()?,
            expires: claims["exp"].as_i64()?,
        })
    }
}

/// Most tokens that are remembered.
const MAX_KNOWN: usize = 1000;

/// Issues and verifies tokens. Clones share the key.
#[derive(Clone, Debug)]
pub(crate) struct TokenIssuer {
    state: Arc<RwLock<IssuerState>>,
}

#[derive(Debug)]
struct IssuerState {
    key: TokenKey,
    /// Tokens whose signature was verified, since clients send the same one with each request.
    known: BTreeMap<String, Claims>,
}

impl TokenIssuer {
    /// Creates an issuer whose key follows from a seed, so that runs repeat.
    pub(crate) fn new(seed: &[u8]) -> Self {
        Self { state: Arc::new(RwLock::new(IssuerState { key: TokenKey::of_seed(seed), known: BTreeMap::new() })) }
    }

    /// Sets the key of a listener with this token: tokens issued before become invalid.
    #[cfg(feature = "listener")]
    pub(crate) fn rekey(&self, token: &str) {
        *self.state.write() = IssuerState { key: TokenKey::of_listener(token), known: BTreeMap::new() };
    }

    /// Issues a token with these claims.
    pub(crate) fn sign(&self, claims: &Claims) -> String {
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let state = self.state.read();
        let header = json!({"alg": state.key.algorithm(), "kid": state.key.id()});
        let text = format!("{}.{}", encode(&header), encode(&claims.to_json()));
        let signature = URL_SAFE_NO_PAD.encode(state.key.sign(text.as_bytes()));
        format!("{text}.{signature}")
    }

    /// Returns the claims of a token; `None` unless this server signed it.
    pub(crate) fn read(&self, token: &str) -> Option<Claims> {
        if let Some(claims) = self.state.read().known.get(token) {
            return Some(claims.clone());
        }
        let (text, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        if !self.state.read().key.verifies(text.as_bytes(), &signature) {
            return None;
        }
        let claims = URL_SAFE_NO_PAD.decode(text.split_once('.')?.1).ok()?;
        let claims = Claims::from_json(&serde_json::from_slice(&claims).ok()?)?;
        let mut state = self.state.write();
        if state.known.len() >= MAX_KNOWN {
            state.known.clear();
        }
        state.known.insert(token.to_owned(), claims.clone());
        Some(claims)
    }

    /// Returns the algorithm of signatures, as JSON Web Tokens name it.
    pub(crate) fn algorithm(&self) -> &'static str {
        self.state.read().key.algorithm()
    }

    /// Returns the public key as a JSON Web Key.
    pub(crate) fn public_key(&self) -> Value {
        self.state.read().key.public_key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            namespace: "a".to_owned(),
            account: "robot".to_owned(),
            uid: "u1".to_owned(),
            bound: Some(("pod".to_owned(), "p".to_owned(), "u2".to_owned())),
            node: Some(("n".to_owned(), "u3".to_owned())),
            audiences: vec![ISSUER.to_owned()],
            id: "j".to_owned(),
            issued: 100,
            expires: 700,
        }
    }

    #[test]
    fn a_token_is_known_again_by_the_key_that_signed_it() {
        let tokens = TokenIssuer::new(b"one");
        let token = tokens.sign(&claims());
        assert_eq!(tokens.read(&token), Some(claims()));
        assert_eq!(TokenIssuer::new(b"two").read(&token), None);
        let forged = token.replacen('.', ".e30", 1);
        assert_eq!(tokens.read(&forged), None);
        tokens.rekey("two");
        assert_eq!(tokens.read(&token), None);
        let token = tokens.sign(&claims());
        assert_eq!(tokens.read(&token), Some(claims()));
        assert_eq!(tokens.read(&token), Some(claims()));
        let other = TokenIssuer::new(b"one");
        other.rekey("two");
        assert_eq!(other.read(&token), Some(claims()));
        other.rekey("three");
        assert_eq!(other.read(&token), None);
    }

    #[test]
    fn its_holder_is_named_as_upstream_does() {
        let user = claims().user();
        assert_eq!(user.name, "system:serviceaccount:a:robot");
        assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]);
        assert_eq!(user.extra[CREDENTIAL], ["JTI=j"]);
        assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
        assert_eq!(user.extra["authentication.kubernetes.io/node-name"], ["n"]);
        assert_eq!(user.extra["authentication.kubernetes.io/node-uid"], ["u3"]);
    }
}
