//! A minimal HTTP/1.1 client with little overhead: it shares two cores with the server it measures.
//!
//! Requests are written from prepared bytes. Of a reply it parses the status and the framing, and passes the body's
//! bytes on as they arrive. [`Endpoint::sharing`] replaces it by hyper's HTTP/2 with many requests at a time on each
//! connection, as client-go sends them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::ConfigExt as _;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use plumbline_apiserver::metrics::RequestCounters;
use plumbline_apiserver::request::{Query, Target};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::error::BenchError;

/// Read size for the buffer, in bytes.
const READ: usize = 256 * 1024;
/// Read size of the socket below TLS, in bytes.
const RECEIVE: usize = 64 * 1024;
/// Bytes of replies that an HTTP/2 connection may have under way, and each of its streams.
const WINDOW: u32 = 4 << 20;
/// Maximum length of a reply's head.
const HEAD_MAX: usize = 64 * 1024;

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// A server address with the credentials and the user agent of requests.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: Arc<str>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    head: Arc<str>,
    counters: Option<Arc<RequestCounters>>,
    /// HTTP/2 connections that all others share; empty for HTTP/1.1.
    shared: Arc<[SendRequest<Full<Bytes>>]>,
    /// The shared connection that the next one uses.
    next: Arc<AtomicUsize>,
}

impl Endpoint {
    /// Returns the same endpoint with requests counted in `counters`, as the server counts them.
    pub(crate) fn counted(self, counters: Arc<RequestCounters>) -> Self {
        Self { counters: Some(counters), ..self }
    }

    /// Returns the same endpoint with replies of a media type.
    pub(crate) fn accepting(self, media_type: &str) -> Self {
        let head = self.head.replace("Accept: application/json", &format!("Accept: {media_type}"));
        Self { head: head.into(), ..self }
    }

    /// Creates an endpoint from the current context of a kubeconfig; requests have the user agent `user_agent`.
    pub(crate) async fn from_kubeconfig(path: &std::path::Path, user_agent: &str) -> Result<Self, BenchError> {
        let wrong =
            |why: &dyn std::fmt::Display| BenchError::Kubeconfig { path: path.to_owned(), why: why.to_string() };
        let file = Kubeconfig::read_from(path).map_err(|error| wrong(&error))?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        let config = config.map_err(|error| wrong(&error))?;
        let url = &config.cluster_url;
        let host = url.host().ok_or_else(|| wrong(&"the server's URL has no host"))?;
        let secure = url.scheme_str() == Some("https");
        let address = format!("{host}:{}", url.port_u16().unwrap_or(if secure { 443 } else { 80 }));
        let tls = if secure {
            let mut tls = config.rustls_client_config().map_err(|error| wrong(&error))?;
            tls.alpn_protocols = vec![b"http/1.1".to_vec()];
            let name = host.trim_matches(['[', ']']).to_owned();
            let name = ServerName::try_from(name).map_err(|error| wrong(&error))?;
            Some((TlsConnector::from(Arc::new(tls)), name))
        } else {
            None
        };
        let user = serde_json::to_value(&config.auth_info).map_err(|error| wrong(&error))?;
        let authorization = match user.get("token").and_then(serde_json::Value::as_str) {
            Some(token) => format!("Authorization: Bearer {token}\r\n"),
            None => String::new(),
        };
        let head =
            format!("Host: {address}\r\nUser-Agent: {user_agent}\r\nAccept: application/json\r\n{authorization}");
        let shared = Arc::new([]);
        let next = Arc::default();
        Ok(Self { address: address.into(), tls, head: head.into(), counters: None, shared, next })
    }

    /// Opens this many HTTP/2 connections, over which all further connections send their requests. With 0 they stay
    /// HTTP/1.1 connections of their own.
    pub(crate) async fn sharing(self, connections: usize) -> Result<Self, BenchError> {
        if connections == 0 {
            return Ok(self);
        }
        let mut tls = self.tls.clone();
        if let Some((connector, _)) = &mut tls {
            let mut config = rustls::ClientConfig::clone(connector.config());
            config.alpn_protocols = vec![b"h2".to_vec()];
            *connector = TlsConnector::from(Arc::new(config));
        }
        let endpoint = Self { tls, ..self };
        let mut shared = Vec::new();
        for _ in 0..connections {
            let failed = |error: hyper::Error| BenchError::Io {
                doing: format!("connecting to {}", endpoint.address),
                source: io::Error::other(error),
            };
            let io = TokioIo::new(endpoint.open().await?);
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
            let (sender, connection) = builder.handshake(io).await.map_err(failed)?;
            tokio::spawn(connection);
            shared.push(sender);
        }
        Ok(Self { shared: shared.into(), ..endpoint })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<Connection, BenchError> {
        let transport = match self.shared.len() {
            0 => Transport::Http1(self.open().await?),
            count => Transport::Http2(self.shared[self.next.fetch_add(1, Ordering::Relaxed) % count].clone()),
        };
        Ok(Connection::new(transport, self.head.clone(), self.counters.clone()))
    }

    async fn open(&self) -> Result<Box<dyn Io>, BenchError> {
        let failed = |source| BenchError::Io { doing: format!("connecting to {}", self.address), source };
        let tcp = TcpStream::connect(&*self.address).await.map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        Ok(match &self.tls {
            Some((connector, name)) => {
                // rustls reads 4 KiB at a time; without a buffer each read is a system call.
                let tcp = BufReader::with_capacity(RECEIVE, tcp);
                Box::new(connector.connect(name.clone(), tcp).await.map_err(failed)?)
            }
            None => Box::new(tcp),
        })
    }
}

/// Framing of a reply's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

/// The beginning of a reply.
enum Reply {
    Http1(u16, Framing),
    Http2(http::Response<hyper::body::Incoming>),
}

impl Reply {
    fn status(&self) -> u16 {
        match self {
            Self::Http1(status, _) => *status,
            Self::Http2(reply) => reply.status().as_u16(),
        }
    }
}

fn content_type(method: &str) -> &'static str {
    if method == "PATCH" { "application/merge-patch+json" } else { "application/json" }
}

/// Builds a request for HTTP/2 from the head lines of one for HTTP/1.1.
fn http2_request(head: &str, method: &str, path: &str, body: &[&[u8]]) -> http::Result<http::Request<Full<Bytes>>> {
    let mut request = http::Request::builder().method(method);
    let mut authority = "";
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        match name {
            "Host" => authority = value,
            _ => request = request.header(name, value),
        }
    }
    let body = body.concat();
    if !body.is_empty() {
        request = request.header(http::header::CONTENT_TYPE, content_type(method));
    }
    request.uri(format!("https://{authority}{path}")).body(Full::new(body.into()))
}

/// The way of a connection's requests.
enum Transport {
    /// A connection of its own.
    Http1(Box<dyn Io>),
    /// A stream for each request, of a connection that others use as well.
    Http2(SendRequest<Full<Bytes>>),
}

/// A connection with one request at a time.
pub(crate) struct Connection {
    transport: Transport,
    head: Arc<str>,
    counters: Option<Arc<RequestCounters>>,
    out: Vec<u8>,
    buffer: BytesMut,
    body: Vec<u8>,
}

impl Connection {
    fn new(transport: Transport, head: Arc<str>, counters: Option<Arc<RequestCounters>>) -> Self {
        Self { transport, head, counters, out: Vec::new(), buffer: BytesMut::new(), body: Vec::new() }
    }

    /// Sends a request and returns the reply's body; any status other than `expected` is an error.
    pub(crate) async fn exchange(
        &mut self,
        method: &str,
        path: &str,
        body: &[&[u8]],
        expected: u16,
    ) -> Result<&[u8], BenchError> {
        match self.ask(method, path, body).await? {
            (found, body) if found == expected => Ok(body),
            (found, body) => Err(refused(method, path, found, body)),
        }
    }

    /// Sends a request and returns the reply with any status.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &[&[u8]]) -> Result<(u16, &[u8]), BenchError> {
        let mut kept = std::mem::take(&mut self.body);
        kept.clear();
        let status = self
            .stream(method, path, body, |piece| {
                kept.extend_from_slice(piece);
                true
            })
            .await;
        self.body = kept;
        Ok((status?, &self.body))
    }

    /// Sends a request and passes the reply's body to `each` as it arrives, until its end or until `each` returns
    /// `false` (the connection cannot be used afterwards). Returns the status.
    pub(crate) async fn stream(
        &mut self,
        method: &str,
        path: &str,
        body: &[&[u8]],
        each: impl FnMut(&[u8]) -> bool + Send,
    ) -> Result<u16, BenchError> {
        let failed = |source| BenchError::Io { doing: format!("{method} {path}"), source };
        let reply = self.begin(method, path, body).await.map_err(failed)?;
        let status = reply.status();
        self.count(method, path, status);
        self.read_body(reply, each).await.map_err(failed)?;
        Ok(status)
    }

    /// Sends a request; if it succeeds, passes the body to `each` like [`Connection::stream`].
    pub(crate) async fn watch(
        &mut self,
        path: &str,
        opened: impl FnOnce() + Send,
        each: impl FnMut(&[u8]) -> bool + Send,
    ) -> Result<(), BenchError> {
        let failed = |source| BenchError::Io { doing: format!("GET {path}"), source };
        let reply = self.begin("GET", path, &[]).await.map_err(failed)?;
        self.count("GET", path, reply.status());
        if reply.status() != 200 {
            return Err(refused("GET", path, reply.status(), &[]));
        }
        opened();
        self.read_body(reply, each).await.map_err(failed)
    }

    fn count(&self, method: &str, path: &str, status: u16) {
        let Some(counters) = &self.counters else { return };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if let (Target::Resource(path), Ok(method)) = (Target::parse(path), method.parse()) {
            counters.count(&method, &path, &Query::parse(query), status);
        }
    }

    /// Sends a request and returns the beginning of the reply.
    async fn begin(&mut self, method: &str, path: &str, body: &[&[u8]]) -> io::Result<Reply> {
        if let Transport::Http2(sender) = &mut self.transport {
            let request = http2_request(&self.head, method, path, body).map_err(io::Error::other)?;
            sender.ready().await.map_err(io::Error::other)?;
            return sender.send_request(request).await.map(Reply::Http2).map_err(io::Error::other);
        }
        self.send(method, path, body).await?;
        self.read_head().await.map(|(status, framing)| Reply::Http1(status, framing))
    }

    async fn read_body(&mut self, reply: Reply, mut each: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        match reply {
            Reply::Http1(_, framing) => self.read_framed(framing, each).await,
            Reply::Http2(reply) => {
                let mut body = reply.into_body();
                while let Some(frame) = body.frame().await {
                    let frame = frame.map_err(io::Error::other)?;
                    if frame.data_ref().is_some_and(|piece| !each(piece)) {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    async fn send(&mut self, method: &str, path: &str, body: &[&[u8]]) -> io::Result<()> {
        use std::io::Write as _;
        let length: usize = body.iter().map(|part| part.len()).sum();
        self.out.clear();
        write!(self.out, "{method} {path} HTTP/1.1\r\n{}", self.head)?;
        if length > 0 {
            write!(self.out, "Content-Type: {}\r\nContent-Length: {length}\r\n", content_type(method))?;
        }
        self.out.extend_from_slice(b"\r\n");
        for part in body {
            self.out.extend_from_slice(part);
        }
        let Transport::Http1(io) = &mut self.transport else { return Err(io::ErrorKind::Unsupported.into()) };
        io.write_all(&self.out).await?;
        io.flush().await
    }

    async fn fill(&mut self) -> io::Result<()> {
        let Transport::Http1(io) = &mut self.transport else { return Err(io::ErrorKind::Unsupported.into()) };
        self.buffer.reserve(READ);
        match io.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn read_head(&mut self) -> io::Result<(u16, Framing)> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head = parse_head(&self.buffer[..end]);
                self.buffer.advance(end + 4);
                return head.ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            if self.buffer.len() > HEAD_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.fill().await?;
        }
    }

    async fn read_framed(&mut self, framing: Framing, mut each: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        match framing {
            Framing::Length(length) => self.read_part(length, &mut each).await.map(|_| ()),
            Framing::Chunked => loop {
                let length = self.chunk_length().await?;
                if length > 0 && !self.read_part(length, &mut each).await? {
                    return Ok(());
                }
                self.skip_line_end().await?;
                if length == 0 {
                    return Ok(());
                }
            },
        }
    }

    async fn read_part(&mut self, mut left: usize, each: &mut impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
        while left > 0 {
            if self.buffer.is_empty() {
                self.fill().await?;
            }
            let there = left.min(self.buffer.len());
            if !each(&self.buffer[..there]) {
                return Ok(false);
            }
            self.buffer.advance(there);
            left -= there;
        }
        Ok(true)
    }

    async fn chunk_length(&mut self) -> io::Result<usize> {
        loop {
            if let Some(end) = find(&self.buffer[..self.buffer.len().min(64)], b"\r\n") {
                let line = std::str::from_utf8(&self.buffer[..end]).ok();
                let digits = line.map(|line| line.split(';').next().unwrap_or_default().trim());
                let length = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
                self.buffer.advance(end + 2);
                return length.ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            if self.buffer.len() > 64 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.fill().await?;
        }
    }

    async fn skip_line_end(&mut self) -> io::Result<()> {
        while self.buffer.len() < 2 {
            self.fill().await?;
        }
        if !self.buffer.starts_with(b"\r\n") {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.buffer.advance(2);
        Ok(())
    }
}

/// Creates the error for an unexpected status.
pub(crate) fn refused(method: &str, path: &str, status: u16, body: &[u8]) -> BenchError {
    let body = String::from_utf8_lossy(&body[..body.len().min(600)]).into_owned();
    BenchError::Refused { request: format!("{method} {path}"), status, body }
}

/// Returns the position of `wanted` in `text`.
pub(crate) fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, wanted)
}

fn parse_head(head: &[u8]) -> Option<(u16, Framing)> {
    let text = std::str::from_utf8(head).ok()?;
    let mut lines = text.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let mut framing = Framing::Length(0);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            framing = Framing::Length(value.trim().parse().ok()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked") {
            framing = Framing::Chunked;
        }
    }
    Some((status, framing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(reply: &'static [u8]) -> Connection {
        let (mut server, client) = tokio::io::duplex(3);
        tokio::spawn(async move { server.write_all(reply).await });
        let io = Box::new(tokio::io::join(client, tokio::io::sink()));
        Connection::new(Transport::Http1(io), "".into(), None)
    }

    #[tokio::test]
    async fn replies_of_both_framings_are_read_and_the_next_begins_after_them() {
        let mut connection = connection(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
              3\r\nabc\r\n1a;x=y\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
        );
        assert_eq!(connection.exchange("GET", "/a", &[], 200).await.unwrap(), b"hello");
        assert_eq!(connection.exchange("GET", "/b", &[], 200).await.unwrap(), b"abcabcdefghijklmnopqrstuvwxyz");
        let error = connection.exchange("GET", "/c", &[], 200).await.unwrap_err();
        assert_eq!(error.to_string(), "GET /c returned 404: {}");
    }

    #[tokio::test]
    async fn nonsense_is_an_error() {
        let mut connection = connection(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n");
        assert!(matches!(connection.exchange("GET", "/", &[], 200).await, Err(BenchError::Io { .. })));
    }
}
