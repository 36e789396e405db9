//! Paths of API requests. PURE.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters of a path segment that are not escaped besides letters and digits; names of objects have no others.
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Joins `segments` to an absolute path and escapes each of them: owner references may contain any text.
pub(crate) fn path(segments: &[&str]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        path.extend(utf8_percent_encode(segment, UNESCAPED));
    }
    path
}

/// Returns the segments before the resource: `["apis", group, version]`, or `["api", version]` for the core group.
pub(crate) fn group_version(api_version: &str) -> Vec<&str> {
    match api_version.split_once('/') {
        Some((group, version)) => vec!["apis", group, version],
        None => vec!["api", api_version],
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::valid_names(&["api", "v1", "namespaces", "a-b.c", "pods", "p_1~:x"], "/api/v1/namespaces/a-b.c/pods/p_1~:x")]
    #[case::slash(&["a", "../b"], "/a/..%2Fb")]
    #[case::query(&["a?b=c#d", "e%2F f"], "/a%3Fb%3Dc%23d/e%252F%20f")]
    #[case::not_ascii(&["ü"], "/%C3%BC")]
    fn segments_are_escaped(#[case] segments: &[&str], #[case] expected: &str) {
        assert_eq!(path(segments), expected);
    }

    #[rstest]
    #[case("v1", "/api/v1")]
    #[case("apps/v1", "/apis/apps/v1")]
    #[case("a/b/c", "/apis/a/b%2Fc")]
    fn group_versions(#[case] api_version: &str, #[case] expected: &str) {
        assert_eq!(path(&group_version(api_version)), expected);
    }
}
