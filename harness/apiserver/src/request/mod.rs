//! Raw requests, parsed queries and paths, and replies.
//!
//! [`Target::parse`] agrees with `staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`.

mod bearer_token;
pub(crate) mod delete_options;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::status::{NumberError, Status};
use super::user::UserInfo;
pub use bearer_token::{asks_for_websocket, bearer_token, extra_space, take_protocol_token};
pub use delete_options::{DeleteOptions, Propagation};

/// A request from a socket or an in-process client, with its complete body.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// HTTP method.
    pub method: Method,
    /// Percent-encoded path, with its leading `/`.
    pub path: String,
    /// Percent-encoded query, without the `?`.
    pub query: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// The party that the transport attributes the request to, for the record. No header can set it.
    pub attribution: Option<Arc<str>>,
    /// True if the transport authenticates requests and this one has no credentials: its user is `system:anonymous`.
    /// No header can set it.
    pub anonymous: bool,
    /// The user of the client's certificate, if the transport has verified one. No header can set it.
    pub certificate: Option<CertificateUser>,
    /// The client's address, if the request came over a socket.
    pub peer: Option<IpAddr>,
}

/// The user that a client's certificate names.
#[derive(Clone, Debug)]
pub struct CertificateUser(pub(crate) Arc<UserInfo>);

/// Names the party behind a request, by the transport it arrived on.
pub type Attributor = Arc<dyn Fn(&ApiRequest) -> Arc<str> + Send + Sync>;

impl ApiRequest {
    /// Creates a request without a body.
    pub fn new(method: Method, path_and_query: &str) -> Self {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        Self {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            attribution: None,
            anonymous: false,
            certificate: None,
            peer: None,
        }
    }

    /// Returns the text of a header; empty if it is absent or not text.
    pub fn header(&self, name: HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the complete `User-Agent` header.
    pub fn user_agent(&self) -> &str {
        self.header(http::header::USER_AGENT)
    }
}

/// The chunks of a streamed body, one watch event each. An error cuts the connection.
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>;

/// Size of the pieces of a large list.
pub(crate) const PIECE: usize = 128 << 10;
/// Spare capacity of a piece: pieces end with a whole item, and most exceed their size by no more than this.
pub(crate) const ROOM: usize = 8 << 10;

/// The body of a [`Reply`].
pub enum ReplyBody {
    /// A complete body.
    Full(Bytes),
    /// A stream: a watch, or a large list, which is not copied into one buffer.
    Stream(BodyStream),
}

impl std::fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(bytes) => write!(f, "Full({} bytes)", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// Allows the transport to compress a reply that has more bytes than this.
#[derive(Clone, Copy, Debug)]
pub struct GzipThreshold(pub usize);

impl GzipThreshold {
    /// For objects and lists: `defaultGzipThresholdBytes` in
    /// `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go`.
    pub const OBJECT: Self = Self(128 << 10);
    /// For the document of OpenAPI v2: `DefaultMinSize` of `github.com/NYTimes/gziphandler`, less one.
    pub const OPENAPI: Self = Self(1399);
}

/// A reply to a request.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status code.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: ReplyBody,
    /// Tells the transport to cut the connection instead of replying (fault injection).
    pub drop_connection: bool,
    /// Further data for the transport: with status 101, what the client's connection is joined to or served by.
    pub extensions: http::Extensions,
}

impl Reply {
    /// Creates a JSON reply.
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        let headers = HeaderMap::new();
        let extensions = http::Extensions::new();
        let mut reply =
            Self { status, headers, body: ReplyBody::Full(body.into()), drop_connection: false, extensions };
        reply.headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        reply.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        reply
    }

    /// Creates a plain text reply.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        let mut reply = Self::json(status, body.into());
        reply.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        reply
    }

    /// Creates the reply of a `Status`, with its `Retry-After` header.
    pub fn status(status: &Status) -> Self {
        let code = if status.code == 0 { 200 } else { status.code };
        let mut reply = Self::json(code, super::go_json::encode_document(&status.to_value()));
        if let Some(seconds) = status.retry_after() {
            reply.headers.insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        reply
    }

    /// Adds a `Warning: 299` header for each of these texts. If they are too long together, each is cut, and those that
    /// still do not fit are left out: `staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go`.
    pub fn add_warnings(&mut self, texts: &[String]) {
        const TOTAL_MAX: usize = 4 << 10;
        const CUT_TO: usize = 256;
        let mut known = BTreeSet::new();
        let texts = || texts.iter().filter(|text| !text.is_empty() && !text.contains(char::is_control));
        let cut = texts().map(|text| text.chars().count()).sum::<usize>() > TOTAL_MAX;
        let mut written = 0;
        for text in texts().filter(|text| known.insert(text.as_str())) {
            if cut && written >= TOTAL_MAX {
                break;
            }
            let shown: String = text.chars().take(if cut { CUT_TO } else { usize::MAX }).collect();
            let quoted = shown.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
                written += shown.chars().count();
                self.headers.append(http::header::WARNING, value);
            }
        }
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self::status(&status)
    }
}

/// A decoded query: pairs in order of appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes a query. Pairs that cannot be decoded are dropped, as in Go's `url.Values`.
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let decoded = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(name, true)?, unescape(value, true)?))
        });
        Self(decoded.collect())
    }

    /// Returns the first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns all pairs.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// Returns the value of a boolean parameter: `None` if absent; `false` and `0` are false, everything else is
    /// true.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// Returns the value of an integer parameter.
    ///
    /// # Errors
    ///
    /// 400 with the text of Go's `strconv.ParseInt` if it is not an integer.
    pub fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        self.get(name).map(|value| parse_int(value).map_err(|error| Status::bad_request(error.to_string()))).transpose()
    }
}

fn parse_int(text: &str) -> Result<i64, NumberError> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse::<i64>().map_err(|error| NumberError {
        function: "ParseInt",
        text: text.to_owned(),
        out_of_range: matches!(error.kind(), PosOverflow | NegOverflow),
    })
}

/// Returns a text without the escapes of a URL's path: Go's `url.PathUnescape`. `None` if an escape is malformed.
pub(crate) fn unescape_path(text: &str) -> Option<String> {
    unescape(text, false)
}

fn unescape(text: &str, plus_is_space: bool) -> Option<String> {
    if !text.bytes().any(|byte| byte == b'%' || (byte == b'+' && plus_is_space)) {
        return Some(text.to_owned());
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
                decoded.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            b'+' if plus_is_space => decoded.push(b' '),
            byte => decoded.push(byte),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&decoded).into_owned())
}

/// The target of a request path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A resource, an object or a subresource.
    Resource(ResourcePath),
    /// Any other path: `/version`, discovery, …
    NonResource(String),
}

/// A path below `/api/<version>/` or `/apis/<group>/<version>/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty for cluster-scoped resources and for lists over all namespaces.
    pub namespace: String,
    /// Plural resource name.
    pub resource: String,
    /// Object name; empty for collections.
    pub name: String,
    /// Subresource; empty for the object itself.
    pub subresource: String,
    /// Path segments after the subresource.
    pub rest: Vec<String>,
    /// The path has the deprecated `/watch/` prefix.
    pub watch: bool,
}

impl Target {
    /// Returns the path of a resource; `None` for other paths.
    pub(crate) fn resource(&self) -> Option<&ResourcePath> {
        match self {
            Self::Resource(path) => Some(path),
            Self::NonResource(_) => None,
        }
    }

    /// Parses a path like upstream's `RequestInfoFactory`.
    pub fn parse(path: &str) -> Self {
        let other = || Self::NonResource(path.to_owned());
        let trimmed = path.trim_matches('/');
        // The path is decoded before it is split, so an escaped slash separates segments too.
        let Some(decoded) = unescape(trimmed, false) else { return other() };
        let parts: Vec<&str> = decoded.split('/').collect();
        let (group, version, mut parts) = match *parts {
            ["api", version, ref rest @ ..] if !rest.is_empty() => ("", version, rest),
            ["apis", group, version, ref rest @ ..] if !rest.is_empty() => (group, version, rest),
            _ => return other(),
        };
        let mut found =
            ResourcePath { group: group.to_owned(), version: version.to_owned(), ..ResourcePath::default() };
        if let ["watch", rest @ ..] = parts {
            if rest.is_empty() {
                return other();
            }
            found.watch = true;
            parts = rest;
        }
        if let ["namespaces", namespace, rest @ ..] = parts
            && rest.first().is_some_and(|next| !matches!(*next, "status" | "finalize"))
        {
            (*namespace).clone_into(&mut found.namespace);
            parts = rest;
        }
        let mut parts = parts.iter().map(|part| (*part).to_owned());
        found.resource = parts.next().unwrap_or_default();
        found.name = parts.next().unwrap_or_default();
        found.subresource = parts.next().unwrap_or_default();
        found.rest = parts.collect();
        Self::Resource(found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn path(parts: [&str; 6]) -> ResourcePath {
        let [group, version, namespace, resource, name, subresource] = parts.map(str::to_owned);
        ResourcePath { group, version, namespace, resource, name, subresource, ..ResourcePath::default() }
    }

    #[rstest]
    #[case::cluster_list("/api/v1/nodes", ["", "v1", "", "nodes", "", ""])]
    #[case::item("/api/v1/namespaces/ns/pods/p", ["", "v1", "ns", "pods", "p", ""])]
    #[case::subresource("/apis/apps/v1/namespaces/ns/deployments/d/scale", ["apps", "v1", "ns", "deployments", "d", "scale"])]
    #[case::namespace("/api/v1/namespaces/ns", ["", "v1", "", "namespaces", "ns", ""])]
    #[case::namespace_status("/api/v1/namespaces/ns/status", ["", "v1", "", "namespaces", "ns", "status"])]
    #[case::finalize("/api/v1/namespaces/ns/finalize", ["", "v1", "", "namespaces", "ns", "finalize"])]
    #[case::namespaces("/api/v1/namespaces/", ["", "v1", "", "namespaces", "", ""])]
    #[case::escaped("/api/v1/nodes/a%20b", ["", "v1", "", "nodes", "a b", ""])]
    #[case::escaped_slash("/api/v1/nodes/a%2Fb", ["", "v1", "", "nodes", "a", "b"])]
    fn resource_paths(#[case] text: &str, #[case] parts: [&str; 6]) {
        assert_eq!(Target::parse(text), Target::Resource(path(parts)));
    }

    #[rstest]
    #[case("/")]
    #[case("/api")]
    #[case("/api/v1")]
    #[case("/apis/apps/v1")]
    #[case("/version")]
    #[case("/api/v1/watch")]
    #[case("/api/v1/%zz")]
    fn other_paths(#[case] text: &str) {
        assert_eq!(Target::parse(text), Target::NonResource(text.to_owned()));
    }

    fn warnings(texts: &[String]) -> Vec<String> {
        let mut reply = Reply::json(200, "");
        reply.add_warnings(texts);
        let headers = reply.headers.get_all(http::header::WARNING).iter();
        headers.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    /// `TestTruncation` in `warning_test.go` next to upstream's file.
    #[test]
    fn warnings_are_limited() {
        assert_eq!(
            warnings(&["a \"b\" \\ ü".into(), "a".into(), "a".into(), "x\ny".into(), String::new()]),
            ["299 - \"a \\\"b\\\" \\\\ ü\"", "299 - \"a\"",]
        );
        let fitting: Vec<String> = (0..8).map(|i| format!("{i:0512}")).collect();
        assert_eq!(warnings(&fitting).len(), 8);
        assert!(warnings(&fitting)[7].contains(&fitting[7]));
        let long: Vec<String> = (0..100).map(|i| format!("{i:03}{}", "é".repeat(400))).collect();
        let cut = warnings(&long);
        assert_eq!(cut.len(), 16, "4,096 characters in pieces of 256");
        assert_eq!(cut[15].chars().count(), 256 + "299 - \"\"".len());
    }

    #[test]
    fn old_watch_paths() {
        let Target::Resource(found) = Target::parse("/api/v1/watch/namespaces/ns/pods/p") else {
            panic!("a resource path");
        };
        assert!(found.watch);
        assert_eq!((found.namespace.as_str(), found.resource.as_str(), found.name.as_str()), ("ns", "pods", "p"));
    }

    #[rstest]
    #[case("a=1&b=x+y%2C&a=2", &[("a", "1"), ("b", "x y,"), ("a", "2")])]
    #[case("a&=&b=%zz", &[("a", ""), ("", "")])]
    #[case("", &[])]
    fn queries(#[case] text: &str, #[case] pairs: &[(&str, &str)]) {
        let expected: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(Query::parse(text).pairs(), expected);
    }

    #[rstest]
    #[case("abc", "strconv.ParseInt: parsing \"abc\": invalid syntax")]
    #[case("99999999999999999999", "strconv.ParseInt: parsing \"99999999999999999999\": value out of range")]
    fn bad_numbers(#[case] text: &str, #[case] error: &str) {
        assert_eq!(Query::parse(&format!("limit={text}")).number("limit").unwrap_err().message, error);
    }

    proptest! {
        #[test]
        fn paths_and_queries_do_not_panic(text in "[ -~]{0,80}") {
            let _ = Target::parse(&text);
            let _ = Query::parse(&text);
        }
    }
}
