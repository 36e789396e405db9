//! The bearer token in the headers of a request, as
//! `staging/src/k8s.io/apiserver/pkg/authentication/request/bearertoken/bearertoken.go` reads it. PURE.

use http::HeaderMap;
use http::header::AUTHORIZATION;

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

#[cfg(test)]
mod tests {
    use http::HeaderValue;
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
}
