//! The bearer token in the headers of a request, as
//! `staging/src/k8s.io/apiserver/pkg/authentication/request/bearertoken/bearertoken.go` and, for WebSocket,
//! `websocket/protocol.go` beside it read it. PURE.

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::NO_PAD;
use http::header::{AUTHORIZATION, CONNECTION, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName};

/// The start of the protocol that holds the token of a browser, which cannot set the header `Authorization`.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
/// Base 64 as Go reads it without `Strict`: the last bits may be set.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&base64::alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// A token among WebSocket's protocols is twice there, alone, or not readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadProtocolToken;

/// Returns the bearer token: what follows the first space, up to the next one. An empty token and other schemes are no
/// credentials.
pub fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().splitn(3, ' ');
    parts.next().filter(|scheme| scheme.eq_ignore_ascii_case("bearer"))?;
    parts.next()
}

/// Returns the warning about a token that is ignored because of a second space before it.
pub fn extra_space(headers: &HeaderMap) -> Option<String> {
    bearer_token(headers)?.is_empty().then(|| {
        "the provided Authorization header contains extra space before the bearer token, and is ignored".to_owned()
    })
}

/// Returns true if the client wants to speak WebSocket: `IsWebSocketRequest` in
/// `staging/src/k8s.io/streaming/pkg/httpstream/wsstream/conn.go`.
pub fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text(UPGRADE).eq_ignore_ascii_case("websocket") && text(CONNECTION).to_ascii_lowercase().contains("upgrade")
}

/// Moves the token among WebSocket's protocols to the header `Authorization`, if that has none. The protocol goes, and
/// the others are in one header.
pub fn take_protocol_token(headers: &mut HeaderMap) -> Result<(), BadProtocolToken> {
    if !asks_for_websocket(headers) || bearer_token(headers).is_some_and(|token| !token.is_empty()) {
        return Ok(());
    }
    let named = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let (tokens, others): (Vec<_>, Vec<_>) =
        named.flat_map(|names| names.split(',')).map(str::trim).partition(|name| name.starts_with(TOKEN_PROTOCOL));
    let [protocol] = *tokens else { return if tokens.is_empty() { Ok(()) } else { Err(BadProtocolToken) } };
    let token = LENIENT.decode(protocol.strip_prefix(TOKEN_PROTOCOL).unwrap_or_default());
    let token = token.ok().and_then(|token| String::from_utf8(token).ok()).ok_or(BadProtocolToken)?;
    if token.is_empty() {
        return Ok(());
    }
    if others.is_empty() {
        return Err(BadProtocolToken);
    }
    let authorization = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| BadProtocolToken)?;
    let others = HeaderValue::from_str(&others.join(",")).map_err(|_| BadProtocolToken)?;
    headers.insert(AUTHORIZATION, authorization);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `TestAuthenticateRequest` and the tests after it in `bearertoken_test.go` next to upstream's file.
    #[rstest]
    #[case("Bearer token", Some("token"))]
    #[case("bearer token", Some("token"))]
    #[case(" \tBEARER token\t ", Some("token"))]
    #[case("Bearer token more", Some("token"))]
    #[case("Bearer  token", Some(""))]
    #[case("Bearer   token", Some(""))]
    #[case("Bearer \ttoken", Some("\ttoken"))]
    #[case("Bearer\ttoken", None)]
    #[case("Bearer ", None)]
    #[case("Bearer", None)]
    #[case("Basic token", None)]
    #[case("", None)]
    fn tokens(#[case] header: &str, #[case] expected: Option<&str>) {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(header).unwrap())]);
        assert_eq!(bearer_token(&headers), expected);
        assert_eq!(extra_space(&headers).is_some(), expected == Some(""));
    }

    /// `TestAuthenticateRequest` and the tests after it in `websocket/protocol_test.go` next to upstream's file.
    #[rstest]
    #[case::token(&["base64url.bearer.authorization.k8s.io.dG9rZW4,dummy"], Ok((Some("token"), "dummy")))]
    #[case::order(&["a, base64url.bearer.authorization.k8s.io.dG9rZW4 ,b"], Ok((Some("token"), "a,b")))]
    #[case::headers(&["a", "base64url.bearer.authorization.k8s.io.dG9rZW4", "b"], Ok((Some("token"), "a,b")))]
    #[case::bits(&["base64url.bearer.authorization.k8s.io.YR,a"], Ok((Some("a"), "a")))]
    #[case::none(&["a,b"], Ok((None, "a,b")))]
    #[case::no_token(&["base64url.bearer.authorization.k8s.io.,b"],
        Ok((None, "base64url.bearer.authorization.k8s.io.,b")))]
    #[case::alone(&["base64url.bearer.authorization.k8s.io.dG9rZW4"], Err(BadProtocolToken))]
    #[case::twice(&["base64url.bearer.authorization.k8s.io.dG9rZW4,base64url.bearer.authorization.k8s.io.dG9rZW4,a"],
        Err(BadProtocolToken))]
    #[case::padded(&["base64url.bearer.authorization.k8s.io.YQ==,a"], Err(BadProtocolToken))]
    #[case::not_text(&["base64url.bearer.authorization.k8s.io._w,a"], Err(BadProtocolToken))]
    #[case::line_feed(&["base64url.bearer.authorization.k8s.io.Cg,a"], Err(BadProtocolToken))]
    fn tokens_of_browsers(
        #[case] protocols: &[&'static str],
        #[case] expected: Result<(Option<&str>, &str), BadProtocolToken>,
    ) {
        let mut headers = HeaderMap::from_iter([
            (UPGRADE, HeaderValue::from_static("WebSocket")),
            (CONNECTION, HeaderValue::from_static("keep-alive, Upgrade")),
        ]);
        for protocol in protocols {
            headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        }
        let mut plain = headers.clone();
        plain.remove(UPGRADE);
        let taken = take_protocol_token(&mut headers);
        let left = headers[SEC_WEBSOCKET_PROTOCOL].to_str().expect("a text");
        assert_eq!(taken.map(|()| (bearer_token(&headers), left)), expected);
        assert_eq!(take_protocol_token(&mut plain), Ok(()), "only for WebSocket");
        assert_eq!(bearer_token(&plain), None);
    }
}
