//! The OpenID configuration of the issuer of service account tokens, and its public key. See
//! `pkg/routes/openidmetadata.go` and `pkg/serviceaccount/openidmetadata.go`.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};

use super::{check_route, host};
use crate::authn::{ISSUER, TokenIssuer};
use crate::go_json;
use crate::json::json;
use crate::request::{ApiRequest, Reply};

/// Media type of a JSON Web Key Set.
const KEY_SET: &str = "application/jwk-set+json";

/// Answers requests for the configuration and the keys; `None` for other paths.
pub(crate) fn respond(tokens: &TokenIssuer, request: &ApiRequest) -> Option<Reply> {
    match request.path.trim_end_matches('/') {
        "/.well-known/openid-configuration" => Some(check_route(request, &["application/json"], || {
            let document = json!({
                "issuer": ISSUER,
                "jwks_uri": format!("https://{}/openid/v1/jwks", host(request)),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [tokens.algorithm()],
            });
            let order = ["issuer", "jwks_uri", "response_types_supported", "subject_types_supported"];
            cacheable(Reply::json(200, go_json::encode_in_order(&document, &order)))
        })),
        "/openid/v1/jwks" => Some(check_route(request, &[KEY_SET], || {
            let order = ["use", "kty", "kid", "crv", "alg", "x", "y"];
            let key = go_json::encode_in_order(&tokens.public_key(), &order);
            let keys = [br#"{"keys":["#.as_slice(), &key, b"]}"].concat();
            let mut reply = cacheable(Reply::json(200, keys));
            reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static(KEY_SET));
            reply
        })),
        _ => None,
    }
}

fn cacheable(mut reply: Reply) -> Reply {
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    reply
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use http::Method;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;
    use crate::authn::Claims;
    use crate::json::Value;
    use crate::request::ReplyBody;

    fn get(tokens: &TokenIssuer, path: &str) -> Value {
        let reply = respond(tokens, &ApiRequest::new(Method::GET, path)).expect("served");
        assert_eq!(
            (reply.status, &reply.headers[CACHE_CONTROL]),
            (200, &HeaderValue::from_static("public, max-age=3600"))
        );
        let ReplyBody::Full(bytes) = &reply.body else { panic!("no full body") };
        serde_json::from_slice(bytes).expect("JSON")
    }

    /// A token is verified as a relying party does it, with what is published.
    #[test]
    fn the_published_key_verifies_tokens() {
        let tokens = TokenIssuer::new(b"seed");
        let key = |tokens: &TokenIssuer| get(tokens, "/openid/v1/jwks")["keys"][0].clone();
        assert_eq!(key(&tokens)["crv"], "Ed25519");
        tokens.rekey("token");
        let configuration = get(&tokens, "/.well-known/openid-configuration");
        assert_eq!(configuration["id_token_signing_alg_values_supported"], json!(["ES256"]));
        assert_eq!(configuration["issuer"], ISSUER);
        let own = key(&tokens);
        let fields: Vec<&str> = own.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        assert_eq!(fields, ["alg", "crv", "kid", "kty", "use", "x", "y"]);
        let claims = Claims {
            namespace: "n".to_owned(),
            account: "a".to_owned(),
            uid: "u".to_owned(),
            bound: None,
            node: None,
            audiences: vec![],
            id: "j".to_owned(),
            issued: 1,
            expires: 2,
        };
        let token = tokens.sign(&claims);
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base 64");
        let parts: Vec<&str> = token.split('.').collect();
        let header: Value = serde_json::from_slice(&decode(parts[0])).expect("JSON");
        assert_eq!(header, json!({"alg": "ES256", "kid": own["kid"]}));
        let number = |field: &str| decode(own[field].as_str().unwrap_or_default());
        let point = [vec![4], number("x"), number("y")].concat();
        let signed = format!("{}.{}", parts[0], parts[1]);
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        assert!(public.verify(signed.as_bytes(), &decode(parts[2])).is_ok());
    }
}
