//! URLs as Go reads them: `Parse`, `ParseRequestURI` and the methods of `URL` in Go's `net/url/url.go`.

use core::net::Ipv6Addr;
use std::collections::BTreeMap;

use crate::status::go_quote;

/// Reasons why a text is not a URL, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("net/url: invalid control character in URL")]
    Control,
    #[error("empty url")]
    Empty,
    #[error("missing protocol scheme")]
    NoScheme,
    #[error("invalid URI for request")]
    NotForRequest,
    #[error("first path segment in URL cannot contain colon")]
    Colon,
    #[error("net/url: invalid userinfo")]
    User,
    #[error("missing ']' in host")]
    Bracket,
    #[error("invalid port {0} after host")]
    Port(String),
    #[error("invalid host: ParseAddr({0}): unable to parse IP")]
    Address(String),
    #[error("invalid URL escape {0}")]
    Escape(String),
    #[error("invalid character {0} in host name")]
    HostCharacter(String),
}

/// A text that is not a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parse {}: {fault}", go_quote(text))]
pub(crate) struct UrlError {
    text: String,
    fault: Fault,
}

/// A part of a URL with escapes and characters of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Path,
    User,
    Host,
    Zone,
    Query,
    Fragment,
}

/// A parsed URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    /// The scheme in lower case; empty for paths.
    pub(crate) scheme: String,
    /// The part after the scheme of a URL such as `mailto:x`.
    opaque: String,
    /// The escaped text before the `@`, if there is one.
    pub(crate) user: Option<String>,
    /// The host with its port.
    pub(crate) host: String,
    /// The path without escapes.
    path: Vec<u8>,
    /// The path as it was given.
    raw_path: String,
    /// The query as it was given.
    pub(crate) raw_query: String,
    /// The fragment without escapes.
    pub(crate) fragment: String,
}

impl Url {
    /// Parses a text that may have a fragment.
    ///
    /// # Errors
    /// The text is not a URL, absolute or relative.
    pub(crate) fn parse(given: &str) -> Result<Self, UrlError> {
        let (text, fragment) = given.split_once('#').unwrap_or((given, ""));
        let mut url = parse(text, false).map_err(|fault| UrlError { text: text.to_owned(), fault })?;
        let plain = unescape(fragment, Part::Fragment);
        let plain = plain.map_err(|fault| UrlError { text: given.to_owned(), fault })?;
        url.fragment = String::from_utf8_lossy(&plain).into_owned();
        Ok(url)
    }

    /// Parses a URL with a scheme or an absolute path, without a fragment.
    ///
    /// # Errors
    /// The text is something else.
    pub(crate) fn parse_request_uri(given: &str) -> Result<Self, UrlError> {
        parse(given, true).map_err(|fault| UrlError { text: given.to_owned(), fault })
    }

    /// Returns the host without its port and brackets.
    pub(crate) fn hostname(&self) -> &str {
        let (host, _) = self.split_host();
        host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host)
    }

    /// Returns the port; empty if there is none.
    pub(crate) fn port(&self) -> &str {
        self.split_host().1
    }

    fn split_host(&self) -> (&str, &str) {
        match self.host.rfind(':') {
            Some(colon) if is_optional_port(&self.host[colon..]) => (&self.host[..colon], &self.host[colon + 1..]),
            _ => (&self.host, ""),
        }
    }

    /// Returns the path, escaped as it was given, or where it must be.
    pub(crate) fn escaped_path(&self) -> String {
        let valid = |byte: u8| b"!$&'()*+,;=:@[]%".contains(&byte) || !should_escape(byte, Part::Path);
        if self.raw_path.bytes().all(valid) {
            return self.raw_path.clone();
        }
        let hex = |digit: u8| char::from_digit(digit.into(), 16).unwrap_or('0').to_ascii_uppercase();
        let mut escaped = String::new();
        for &byte in &self.path {
            if should_escape(byte, Part::Path) {
                escaped.extend(['%', hex(byte >> 4), hex(byte & 15)]);
            } else {
                escaped.push(char::from(byte));
            }
        }
        escaped
    }

    /// Returns the values of each key of the query. What cannot be read is left out.
    pub(crate) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.raw_query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |escaped: &str| {
                unescape(escaped, Part::Query).map(|plain| String::from_utf8_lossy(&plain).into_owned())
            };
            if let (Ok(key), Ok(value)) = (text(key), text(value)) {
                values.entry(key).or_default().push(value);
            }
        }
        values
    }
}

fn parse(given: &str, request: bool) -> Result<Url, Fault> {
    if given.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err(Fault::Control);
    }
    if given.is_empty() && request {
        return Err(Fault::Empty);
    }
    if given == "*" {
        return Ok(Url { path: b"*".to_vec(), raw_path: "*".to_owned(), ..Url::default() });
    }
    let mut url = Url::default();
    let (scheme, rest) = split_scheme(given)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    query.clone_into(&mut url.raw_query);
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        if request {
            return Err(Fault::NotForRequest);
        }
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err(Fault::Colon);
        }
    }
    let mut path = rest;
    if let Some(after) = rest.strip_prefix("//")
        && (!scheme.is_empty() || !(request || rest.starts_with("///")))
    {
        let (authority, left) = after.split_at(after.find('/').unwrap_or(after.len()));
        path = left;
        (url.user, url.host) = parse_authority(authority)?;
    }
    url.path = unescape(path, Part::Path)?;
    path.clone_into(&mut url.raw_path);
    Ok(url)
}

/// Returns the scheme, which may be missing, and the rest.
fn split_scheme(given: &str) -> Result<(&str, &str), Fault> {
    for (at, byte) in given.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err(Fault::NoScheme),
            b':' => return Ok((&given[..at], &given[at + 1..])),
            _ => break,
        }
    }
    Ok(("", given))
}

fn parse_authority(authority: &str) -> Result<(Option<String>, String), Fault> {
    let Some((user, host)) = authority.rsplit_once('@') else { return Ok((None, parse_host(authority)?)) };
    let host = parse_host(host)?;
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(valid) {
        return Err(Fault::User);
    }
    unescape(user, Part::User)?;
    Ok((Some(user.to_owned()), host))
}

fn parse_host(host: &str) -> Result<String, Fault> {
    let bad_port = |port: &str| Fault::Port(go_quote(port));
    let plain = |text: &str, part: Part| unescape(text, part).map(|plain| String::from_utf8_lossy(&plain).into_owned());
    if let Some(open) = host.rfind('[') {
        let close = host.rfind(']').filter(|close| *close > open).ok_or(Fault::Bracket)?;
        let port = &host[close + 1..];
        if !is_optional_port(port) {
            return Err(bad_port(port));
        }
        let inside = &host[open + 1..close];
        let (address, zone) = inside.split_once("%25").map_or((inside, None), |(address, zone)| (address, Some(zone)));
        let zone = zone.map(|zone| plain(zone, Part::Zone)).transpose()?;
        if open != 0 || address.parse::<Ipv6Addr>().is_err() {
            return Err(Fault::Address(go_quote(inside)));
        }
        let zone = zone.map(|zone| format!("%{zone}")).unwrap_or_default();
        return Ok(format!("[{address}{zone}]{port}"));
    }
    if let Some(colon) = host.find(':').filter(|colon| !is_optional_port(&host[*colon..])) {
        return Err(bad_port(&host[colon..]));
    }
    plain(host, Part::Host)
}

/// Returns true for nothing, or a colon and digits.
fn is_optional_port(port: &str) -> bool {
    port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn should_escape(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    match part {
        Part::Host | Part::Zone => !b"!$&'()*+,;=:[]<>\"".contains(&byte),
        Part::Path => !b"$&+,/:;=@".contains(&byte),
        Part::User | Part::Query | Part::Fragment => true,
    }
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, Fault> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let shown = || {
                    let end = bytes.len().min(at + 3);
                    Fault::Escape(go_quote(&String::from_utf8_lossy(&bytes[at..end])))
                };
                let digit = |offset: usize| {
                    let digit = bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
                    digit.and_then(|digit| u8::try_from(digit).ok())
                };
                let (Some(high), Some(low)) = (digit(1), digit(2)) else { return Err(shown()) };
                let value = high << 4 | low;
                // Only bytes beyond ASCII may be escaped in a host, and the percent sign of a zone.
                if part == Part::Host && high < 8 && value != b'%' {
                    return Err(shown());
                }
                if part == Part::Zone && value != b'%' && value != b' ' && should_escape(value, Part::Host) {
                    return Err(shown());
                }
                plain.push(value);
                at += 2;
            }
            b'+' if part == Part::Query => plain.push(b' '),
            byte if matches!(part, Part::Host | Part::Zone) && byte.is_ascii() && should_escape(byte, part) => {
                return Err(Fault::HostCharacter(go_quote(&char::from(byte).to_string())));
            }
            byte => plain.push(byte),
        }
        at += 1;
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The parts that `urls.go` in `staging/src/k8s.io/apiserver/pkg/cel/library` shows.
    #[rstest]
    #[case::whole("https://u:p@Example.com:80/a?b=c#d", ["https", "Example.com:80", "Example.com", "80", "/a"])]
    #[case::opaque("mailto:x@y", ["mailto", "", "", "", ""])]
    #[case::urn("urn:a:b?q", ["urn", "", "", "", ""])]
    #[case::upper("HTTP://h", ["http", "h", "h", "", ""])]
    #[case::path("/a b", ["", "", "", "", "/a%20b"])]
    #[case::escaped("https://example.com/a%2Fb", ["https", "example.com", "example.com", "", "/a%2Fb"])]
    #[case::v6("https://[::1]:80/", ["https", "[::1]:80", "::1", "80", "/"])]
    #[case::zone("https://[fe80::1%25en0]/", ["https", "[fe80::1%en0]", "fe80::1%en0", "", "/"])]
    #[case::no_port("http://h:/", ["http", "h:", "h", "", "/"])]
    #[case::network_path("//h/p", ["", "h", "h", "", "/p"])]
    #[case::no_host("file:///p", ["file", "", "", "", "/p"])]
    #[case::quote("http://h/%41\"", ["http", "h", "h", "", "/A%22"])]
    fn parts(#[case] text: &str, #[case] expected: [&str; 5]) {
        let url = Url::parse(text).expect("a URL");
        let path = url.escaped_path();
        assert_eq!([&*url.scheme, &*url.host, url.hostname(), url.port(), &*path], expected);
    }

    /// `url_test.go` of Go.
    #[rstest]
    #[case::empty("", "empty url")]
    #[case::relative("relative/path", "invalid URI for request")]
    #[case::no_scheme(":a", "missing protocol scheme")]
    #[case::control("http://a/\u{7f}", "net/url: invalid control character in URL")]
    #[case::escape("http://a/%zz", "invalid URL escape \"%zz\"")]
    #[case::short_escape("http://a/%a", "invalid URL escape \"%a\"")]
    #[case::host("https://a b/", "invalid character \" \" in host name")]
    #[case::host_escape("https://a%20b/", "invalid URL escape \"%20\"")]
    #[case::port("https://a:b/", "invalid port \":b\" after host")]
    #[case::two_ports("http://localhost:80:80/", "invalid port \":80:80\" after host")]
    #[case::bracket("https://[::1/", "missing ']' in host")]
    #[case::user("https://a b@c/", "net/url: invalid userinfo")]
    fn no_urls(#[case] text: &str, #[case] why: &str) {
        let error = Url::parse_request_uri(text).expect_err("refused").to_string();
        assert_eq!(error, format!("parse {}: {why}", go_quote(text)));
    }

    #[rstest]
    #[case("https://example.com/path?k1=a&k2=b&k2=c", "k1=a k2=b,c")]
    #[case("https://example.com/path?key with spaces=value with spaces", "key with spaces=value with spaces")]
    #[case("https://example.com/path?", "")]
    #[case("https://example.com/path", "")]
    #[case::opaque("mailto:x?subject=y", "subject=y")]
    #[case::escaped("/p?a%20b=c+d&bad=%zz&semi=1;2&flag#k=v", "a b=c d flag=")]
    fn queries(#[case] url: &str, #[case] expected: &str) {
        let query = Url::parse(url).expect("a URL").query();
        let pairs: Vec<String> = query.iter().map(|(key, values)| format!("{key}={}", values.join(","))).collect();
        assert_eq!(pairs.join(" "), expected);
    }
}
