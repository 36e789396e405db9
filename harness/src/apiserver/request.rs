//! What comes in and what goes out: raw requests, what they ask for, and replies.

use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::status::Status;

/// A request as it came over the wire or from an in-process client, body read completely.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// HTTP method.
    pub method: Method,
    /// Path, not decoded, beginning with `/`.
    pub path: String,
    /// Query without the `?`, not decoded.
    pub query: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl ApiRequest {
    /// A request without body.
    pub fn new(method: Method, path_and_query: &str) -> Self {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        Self { method, path: path.to_owned(), query: query.to_owned(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// The text of a header; empty when it is absent or not text.
    pub fn header(&self, name: HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The whole user agent.
    pub fn user_agent(&self) -> &str {
        self.header(http::header::USER_AGENT)
    }
}

/// Chunks of a body that grows: one watch event each. An error cuts the connection.
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>;

/// Body of a [`Reply`].
pub enum ReplyBody {
    /// Complete.
    Full(Bytes),
    /// Complete, in pieces that were never copied together (large lists).
    Pieces(Vec<Bytes>),
    /// Open ended.
    Stream(BodyStream),
}

impl std::fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(bytes) => write!(f, "Full({} bytes)", bytes.len()),
            Self::Pieces(pieces) => write!(f, "Pieces({})", pieces.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status code.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: ReplyBody,
    /// The connection is to be cut instead of answering (a fault).
    pub drop_connection: bool,
}

impl Reply {
    /// A JSON answer.
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        let mut reply =
            Self { status, headers: HeaderMap::new(), body: ReplyBody::Full(body.into()), drop_connection: false };
        reply.headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        reply.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        reply
    }

    /// A plain text answer.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        let mut reply = Self::json(status, body.into());
        reply.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        reply
    }

    /// The answer to a refused request, `Retry-After` header included.
    pub fn status(status: &Status) -> Self {
        let code = if status.code == 0 { 200 } else { status.code };
        let mut reply = Self::json(code, status.to_bytes());
        if let Some(seconds) = status.retry_after() {
            reply.headers.insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        reply
    }

    /// Adds a `Warning: 299` header.
    pub fn warn(&mut self, text: &str) {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            self.headers.append(http::header::WARNING, value);
        }
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self::status(&status)
    }
}
