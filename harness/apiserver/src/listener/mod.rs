//! The server on a socket, for clients in other processes: HTTPS (HTTP/1.1 and HTTP/2) with its own certificate
//! authority, or plain HTTP on loopback, in wall-clock time.
//! See `staging/src/k8s.io/apiserver/pkg/server/secure_serving.go`.
//!
//! Every limit is a field of [`Limits`]: a hostile client gets an error `Status` or a closed connection and cannot
//! exhaust the server.

mod body;
mod compress;
mod go_http;
mod long_requests;
mod stop;
mod tls;
mod upgrade;
mod write_timeout;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures::StreamExt;
use http::request::Parts;
use http::{Request, Response, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::audit;
use super::handlers::{self, ParsedRequest};
use super::request::{ApiRequest, CertificateUser, Reply, ReplyBody, bearer_token, extra_space, take_protocol_token};
use super::server::ApiServer;
use super::service::{ConnectionReset, HttpBody, into_response};
use super::status::Status;
use crate::clock::Clock;
pub use crate::secret::{random_token, write_private_file};
use crate::streaming::UpgradeHandler;
use crate::x509::{CertificateAuthority, Subject};
use body::{BodyBudget, BufferedBody};
use stop::StopSignal;
use tls::{ClientCertificates, ClientIdentity};
use write_timeout::WriteTimeoutStream;

/// Limits on the resources of clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest body of a request; a larger one is refused with 413 (`RequestEntityTooLarge`).
    pub body_bytes: usize,
    /// Time for a body to arrive; then the request is answered with 408 and the connection closed.
    pub body_time: Duration,
    /// Bytes of all bodies being read or processed; above it requests are refused with 429 (`TooManyRequests`).
    pub bodies_bytes: usize,
    /// A connection is closed if its client reads nothing of a reply for this long (watches without a reader).
    pub write_time: Duration,
    /// Time for a TLS handshake, and for the head of a connection's first request.
    pub head_time: Duration,
    /// Time after the last reply within which an HTTP/1.1 connection must send the whole head of its next request.
    pub idle_time: Duration,
    /// Largest head of a request in bytes.
    pub head_bytes: usize,
    /// Largest number of header lines of a request.
    pub headers: usize,
    /// Largest number of concurrent requests on one HTTP/2 connection.
    pub streams: u32,
    /// Largest number of connections; others wait in the listen queue.
    pub connections: usize,
    /// Time that open requests have to finish when the server stops.
    pub stop_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 3 * 1024 * 1024,
            body_time: Duration::from_mins(1),
            bodies_bytes: 256 * 1024 * 1024,
            write_time: Duration::from_mins(1),
            head_time: Duration::from_secs(32),
            idle_time: Duration::from_secs(90),
            head_bytes: 1024 * 1024,
            headers: 1000,
            streams: 1000,
            connections: 8192,
            stop_time: Duration::from_secs(5),
        }
    }
}

/// Options of [`listen`].
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Address; port 0 takes a free one.
    pub address: SocketAddr,
    /// Allows addresses other than loopback. Every holder of the token has all rights on the server.
    pub allow_remote: bool,
    /// Plain HTTP instead of HTTPS; loopback only.
    pub plain: bool,
    /// The bearer token that clients must send; a random one if absent.
    pub token: Option<String>,
    /// Serves requests without credentials as the user `system:anonymous`, who needs stored roles for everything but
    /// health and version, as kube-apiserver does. Otherwise they are refused with 401.
    pub anonymous: bool,
    /// Limits on the resources of clients.
    pub limits: Limits,
}

impl ListenOptions {
    /// HTTPS on a free port of loopback with a token of its own.
    pub fn loopback() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            allow_remote: false,
            plain: false,
            token: None,
            anonymous: true,
            limits: Limits::default(),
        }
    }
}

/// The reason why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is not loopback and was not allowed explicitly.
    #[error("{0} can be reached by others: allow it explicitly or listen on loopback")]
    Remote(SocketAddr),
    /// Plain HTTP would send the token over the network.
    #[error("plain HTTP is for loopback only, not for {0}")]
    PlainRemote(SocketAddr),
    /// The operating system refused the address.
    #[error("unable to listen on {address}")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The certificate could not be created.
    #[error("unable to make a certificate: {0}")]
    Certificate(String),
    /// The token has characters that are not allowed in a header.
    #[error("the token may hold only visible ASCII characters without spaces")]
    Token,
    /// The kubeconfig could not be written.
    #[error("unable to write the kubeconfig {path}")]
    Kubeconfig {
        /// Path of the kubeconfig.
        path: std::path::PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
}

/// A switch between the socket and the server. Clones are handles of the same switch.
///
/// While it is shut, no request reaches the server and no reply is sent: connections break instead. Requests that have
/// begun still take effect.
#[derive(Debug, Clone, Default)]
pub struct ConnectionGate(Arc<AtomicBool>);

impl ConnectionGate {
    /// Shuts or opens it.
    pub fn shut(&self, shut: bool) {
        self.0.store(shut, Ordering::SeqCst);
    }

    fn is_shut(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Handles the requests that arrive over a socket.
pub trait RequestHandler: Clone + Send + Sync + 'static {
    /// Handles a request.
    fn handle(&self, request: ApiRequest) -> impl Future<Output = Reply> + Send;

    /// The clock that times connections.
    fn clock(&self) -> &Clock;

    /// Called with the socket's bearer token before the first request.
    fn rekey(&self, _token: &str) {}

    /// Returns true if the handler issued this token itself.
    fn issued_token(&self, _token: &str) -> bool {
        false
    }
}

impl RequestHandler for ApiServer {
    async fn handle(&self, request: ApiRequest) -> Reply {
        let parsed = ParsedRequest::new(self, request);
        let flow = if is_flow_controlled(&parsed.request.path) { self.flow_of(&parsed) } else { None };
        let long = long_requests::may_take_long(self, &parsed.request, &parsed.target);
        let handled = self.handle_parsed(parsed);
        let mut reply = if long { long_requests::apart(handled).await } else { handled.await };
        if let Some(uids) = flow {
            set_flow_headers(&mut reply, uids);
        }
        reply
    }

    fn clock(&self) -> &Clock {
        Self::clock(self)
    }

    fn rekey(&self, token: &str) {
        self.tokens().rekey(token);
    }

    fn issued_token(&self, token: &str) -> bool {
        self.valid_token(token).is_some_and(|claims| claims.is_for_server())
    }
}

/// Returns true if API priority and fairness applies: not to logs and not to connections into pods and nodes.
fn is_flow_controlled(path: &str) -> bool {
    let past = ["log", "exec", "attach", "portforward", "proxy"];
    let mut parts = path.trim_matches('/').split('/').skip(3);
    !parts.any(|part| past.contains(&part))
}

/// Sets the headers that name a request's flow schema and priority level by their UIDs.
fn set_flow_headers(reply: &mut Reply, uids: [header::HeaderValue; 2]) {
    const NAMES: [&str; 2] = ["x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"];
    for (name, uid) in NAMES.into_iter().zip(uids) {
        reply.headers.insert(header::HeaderName::from_static(name), uid);
    }
}

/// A server with an open socket; [`ApiListener::serve`] answers requests.
#[derive(Debug)]
pub struct ApiListener<H = ApiServer> {
    server: H,
    listener: TcpListener,
    address: SocketAddr,
    identity: Option<tls::ServerCertificate>,
    token: Arc<str>,
    anonymous: bool,
    limits: Limits,
    gate: ConnectionGate,
}

/// Starts to listen for `server`. The port is open when this returns; [`ApiListener::serve`] answers requests.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use plumbline_apiserver::clock::{self, Clock};
/// use plumbline_apiserver::listener::{ListenOptions, listen};
/// use plumbline_apiserver::ApiServer;
/// use tokio_util::sync::CancellationToken;
///
/// clock::run_wall(async {
///     let server = ApiServer::builder().clock(Clock::wall()).build();
///     let listening = listen(server, ListenOptions::loopback()).await?;
///     assert!(listening.kubeconfig().contains(&listening.url()));
///     let stop = CancellationToken::new();
///     let serving = tokio::spawn(listening.serve(stop.clone()));
///     stop.cancel();
///     serving.await?;
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })??;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The address is forbidden or unavailable, the token unusable, or the certificate could not be created.
pub async fn listen<H: RequestHandler>(server: H, options: ListenOptions) -> Result<ApiListener<H>, ListenError> {
    let wanted = options.address;
    if !wanted.ip().is_loopback() {
        if options.plain {
            return Err(ListenError::PlainRemote(wanted));
        }
        if !options.allow_remote {
            return Err(ListenError::Remote(wanted));
        }
        tracing::warn!(address = %wanted, "listening beyond loopback: every client with the token may do anything on this server");
    }
    let token = match options.token {
        Some(token) if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            return Err(ListenError::Token);
        }
        Some(token) => token,
        None => random_token().map_err(tls::certificate_error)?,
    };
    let bind_error = |source| ListenError::Bind { address: wanted, source };
    let listener = TcpListener::bind(wanted).await.map_err(bind_error)?;
    let address = listener.local_addr().map_err(bind_error)?;
    let identity = if options.plain { None } else { Some(tls::ServerCertificate::make(address.ip())?) };
    server.rekey(&token);
    let token = token.into();
    let gate = ConnectionGate::default();
    let ListenOptions { anonymous, limits, .. } = options;
    Ok(ApiListener { server, listener, address, identity, token, anonymous, limits, gate })
}

impl<H: RequestHandler> ApiListener<H> {
    /// The address with its actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's URL; an unspecified address is replaced by loopback.
    pub fn url(&self) -> String {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        let mut address = self.address;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip([127, 0, 0, 1].into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(std::net::Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        format!("{scheme}://{address}")
    }

    /// The bearer token that clients must send.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The switch that all requests pass; open at first.
    pub fn gate(&self) -> ConnectionGate {
        self.gate.clone()
    }

    /// The certificate authority, which signs the server's certificate and those of clients; `None` for plain HTTP.
    pub fn authority(&self) -> Option<CertificateAuthority> {
        self.identity.as_ref().map(|identity| identity.authority.clone())
    }

    /// The certificate authority's certificate in PEM; `None` for plain HTTP.
    pub fn authority_pem(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.authority_pem.as_str())
    }

    /// Returns a kubeconfig for this server with the token.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_of(&format!("    token: {:?}\n", self.token))
    }

    /// Returns a kubeconfig with a client certificate instead of the token: of the user `kubernetes-admin` in the group
    /// `kubeadm:cluster-admins`, as kind's. The group needs a binding to `cluster-admin`.
    ///
    /// # Errors
    ///
    /// The listener serves plain HTTP, or the certificate could not be made.
    pub fn kubeconfig_with_certificate(&self) -> Result<String, ListenError> {
        let Some(authority) = self.authority() else {
            return Err(ListenError::Certificate("plain HTTP has no client certificates".to_owned()));
        };
        let group = "kubeadm:cluster-admins".to_owned();
        let user = Subject { common_name: "kubernetes-admin".to_owned(), organizations: vec![group] };
        let now = self.server.clock().now();
        let (certificate, key) = authority.client(&user, now).map_err(tls::certificate_error)?;
        let certificate = BASE64.encode(certificate);
        let key = BASE64.encode(key);
        Ok(self.kubeconfig_of(&format!("    client-certificate-data: {certificate}\n    client-key-data: {key}\n")))
    }

    /// Returns a kubeconfig with these credentials.
    fn kubeconfig_of(&self, credentials: &str) -> String {
        let authority = match self.authority_pem() {
            Some(pem) => format!("    certificate-authority-data: {}\n", BASE64.encode(pem)),
            None => String::new(),
        };
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: plumbline\nclusters:\n- name: plumbline\n  cluster:\n    server: {}\n{authority}\
             contexts:\n- name: plumbline\n  context:\n    cluster: plumbline\n    user: plumbline\n    namespace: default\n\
             users:\n- name: plumbline\n  user:\n{credentials}",
            self.url(),
        )
    }

    /// Writes the kubeconfig, readable by its owner only; an existing file is replaced atomically.
    ///
    /// # Errors
    ///
    /// The file or its folder cannot be written.
    pub fn write_kubeconfig(&self, path: &std::path::Path) -> Result<(), ListenError> {
        write_private_file(path, &self.kubeconfig())
            .map_err(|source| ListenError::Kubeconfig { path: path.to_owned(), source })
    }

    /// Serves until `stop` is cancelled. Then watches end, open requests get [`Limits::stop_time`] to finish, and the
    /// call returns.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { server, listener, identity, token, anonymous, limits, gate, .. } = self;
        let clients = identity.as_ref().map(|identity| identity.clients.clone());
        let acceptor = identity.map(|identity| TlsAcceptor::from(identity.config));
        let bodies = BodyBudget::default();
        let shared = Arc::new(ListenerState {
            server,
            token,
            anonymous,
            limits,
            gate,
            clients,
            stop: StopSignal::default(),
            bodies,
            requests: AtomicU64::new(0),
        });
        let permits = Arc::new(Semaphore::new(shared.limits.connections));
        let mut open = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = open.join_next() => continue,
                accepted = accept(&listener, &permits) => accepted,
            };
            match accepted {
                Ok((stream, permit)) => {
                    let shared = shared.clone();
                    let acceptor = acceptor.clone();
                    open.spawn(async move {
                        shared.connection(stream, acceptor).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    // Out of file descriptors or the like: wait for connections to end instead of spinning.
                    tracing::warn!(%error, "unable to accept a connection");
                    shared.server.clock().sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(listener);
        shared.stop.stop();
        let ended = async { while open.join_next().await.is_some() {} };
        if shared.server.clock().timeout(shared.limits.stop_time, ended).await.is_none() {
            tracing::warn!(open = open.len(), "closing connections that did not end in time");
            open.abort_all();
        }
    }
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, permit))
}

/// The client of a connection.
#[derive(Debug, Clone)]
struct Peer {
    address: Option<IpAddr>,
    identity: ClientIdentity,
}

/// State shared by all connections.
#[derive(Debug)]
struct ListenerState<H> {
    server: H,
    token: Arc<str>,
    anonymous: bool,
    limits: Limits,
    gate: ConnectionGate,
    /// Verifies the certificates of clients; `None` for plain HTTP.
    clients: Option<ClientCertificates>,
    stop: StopSignal,
    bodies: BodyBudget,
    /// Number of requests received.
    requests: AtomicU64,
}

impl<H: RequestHandler> ListenerState<H> {
    async fn connection(self: Arc<Self>, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
        let clock = self.server.clock().clone();
        let watchful = |stream| WriteTimeoutStream::new(stream, self.limits.write_time, clock.clone());
        let address = stream.peer_addr().ok().map(|address| address.ip());
        let Some(acceptor) = acceptor else {
            return self.clone().http(watchful(stream), Peer { address, identity: ClientIdentity::None }).await;
        };
        let handshake = async {
            if go_http::is_plain(&stream).await {
                go_http::refuse_plain(stream).await?;
                return Ok(None);
            }
            acceptor.accept(watchful(stream)).await.map(Some)
        };
        match clock.timeout(self.limits.head_time, handshake).await {
            Some(Ok(Some(stream))) => {
                let clients = self.clients.as_ref();
                let identity = clients.map_or(ClientIdentity::None, |known| known.identify(stream.get_ref().1));
                self.http(stream, Peer { address, identity }).await;
            }
            Some(Ok(None)) => tracing::debug!("plain HTTP on the port for HTTPS"),
            Some(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            None => tracing::debug!("TLS handshake took too long"),
        }
    }

    async fn http(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        let first_request = Arc::new(AtomicBool::new(false));
        let shared = self.clone();
        let seen = first_request.clone();
        let service = service_fn(move |request| {
            seen.store(true, Ordering::Relaxed);
            shared.clone().answer(request, peer.clone())
        });
        let builder = self.builder();
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let watchdog = self.server.clock().sleep(self.limits.head_time);
        let mut watchdog = std::pin::pin!(watchdog);
        let mut watched = true;
        let mut stopped = self.stop.stopped();
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection ended");
                    }
                    return;
                }
                () = &mut stopped, if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = watchdog.as_mut(), if watched => {
                    watched = false;
                    if !first_request.load(Ordering::Relaxed) {
                        tracing::debug!("closing a connection without a request");
                        return;
                    }
                }
            }
        }
    }

    fn builder(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle_time)
            .max_headers(self.limits.headers)
            .max_buf_size(self.limits.head_bytes)
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(self.limits.head_bytes).unwrap_or(u32::MAX))
            .max_concurrent_streams(self.limits.streams)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(15));
        builder
    }

    /// Replies with the header `Audit-ID`: the client's, or a new one.
    async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        peer: Peer,
    ) -> Result<Response<HttpBody>, ConnectionReset> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let new = || header::HeaderValue::from_str(&audit::new_id(number)).ok();
        let Some(id) = request.headers().get(audit::ID_HEADER).cloned().or_else(new) else {
            return self.reply(request, peer).await;
        };
        request.headers_mut().insert(audit::ID_HEADER, id.clone());
        let mut reply = self.reply(request, peer).await?;
        reply.headers_mut().entry(audit::ID_HEADER).or_insert(id);
        Ok(reply)
    }

    async fn reply(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Result<Response<HttpBody>, ConnectionReset> {
        if self.gate.is_shut() {
            return Err(ConnectionReset);
        }
        if let Some(refusal) = go_http::early_reply(&request) {
            return Ok(with_connection_close(refusal));
        }
        let (mut parts, body) = request.into_parts();
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let warning = extra_space(&parts.headers);
        let token = take_protocol_token(&mut parts.headers).ok();
        let authenticated = token.and_then(|()| self.authenticate(&parts, peer.identity));
        let mut request = ApiRequest {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: parts.headers,
            body: Bytes::new(),
            attribution: None,
            anonymous: false,
            certificate: None,
            peer: peer.address,
        };
        let Some((anonymous, certificate)) = authenticated else {
            let mut refusal = handlers::unauthorized(&request);
            refusal.add_warnings(warning.as_slice());
            return Ok(with_connection_close(refusal));
        };
        (request.anonymous, request.certificate) = (anonymous, certificate);
        // Bodies of GET and HEAD requests are ignored.
        let asks = matches!(request.method, http::Method::GET | http::Method::HEAD);
        let body = if asks { Ok(BufferedBody::default()) } else { self.body(body, &request.headers).await };
        let body = match body {
            Ok(body) => body,
            Err(refusal) => return Ok(with_connection_close(refusal.into())),
        };
        request.body = body.bytes.clone();
        if let (None, Some(authority)) = (request.headers.get(header::HOST), parts.uri.authority())
            && let Ok(host) = header::HeaderValue::from_str(authority.as_str())
        {
            request.headers.insert(header::HOST, host);
        }
        let compresses = compress::accepts_gzip(&request.headers);
        let mut reply = self.server.handle(request).await;
        if anonymous {
            reply.add_warnings(warning.as_slice());
        }
        drop(body);
        if compresses {
            reply = compress::compress(reply).await;
        }
        if reply.drop_connection || self.gate.is_shut() {
            return Err(ConnectionReset);
        }
        if let (101, Some(client)) = (reply.status, upgrade) {
            let stopped = self.stop.stopped();
            if let Some(backend) = reply.extensions.remove::<OnUpgrade>() {
                tokio::spawn(upgrade::join(client, backend, stopped));
            } else if let Some(handler) = reply.extensions.remove::<UpgradeHandler>() {
                tokio::spawn(upgrade::serve(client, handler, stopped));
            }
        }
        if let ReplyBody::Stream(events) = reply.body {
            reply.body = ReplyBody::Stream(Box::pin(events.take_until(self.stop.stopped())));
        }
        Ok(into_response(reply))
    }

    /// Returns the user of a request: none for one with a valid token, `true` for an anonymous one; nothing for a
    /// request that is refused.
    fn authenticate(&self, parts: &Parts, identity: ClientIdentity) -> Option<(bool, Option<CertificateUser>)> {
        let token = bearer_token(&parts.headers).filter(|token| !token.is_empty());
        match (token, identity) {
            (_, ClientIdentity::User(user)) => Some((false, Some(user))),
            (Some(token), _) if self.is_valid(token) => Some((false, None)),
            (None, ClientIdentity::None) if self.anonymous || is_public_path(parts.uri.path()) => Some((true, None)),
            (None | Some(_), _) => None,
        }
    }

    async fn body(&self, body: Incoming, headers: &header::HeaderMap) -> Result<BufferedBody, Status> {
        let clock = self.server.clock();
        let read = body::read(body, headers, self.limits.body_bytes, &self.bodies, self.limits.bodies_bytes, clock);
        let late = || Status::failure(408, "Timeout", "the request's body did not arrive in time");
        clock.timeout(self.limits.body_time, read).await.unwrap_or_else(|| Err(late()))
    }

    fn is_valid(&self, token: &str) -> bool {
        constant_time_eq(token, &self.token) || token.contains('.') && self.server.issued_token(token)
    }
}

/// Returns true for paths that need no token; kube-apiserver's default roles open them to unauthenticated users.
fn is_public_path(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version" | "/version/")
}

/// Compares in constant time for texts of equal length.
fn constant_time_eq(left: &str, right: &str) -> bool {
    left.len() == right.len() && left.bytes().zip(right.bytes()).fold(0, |differing, (l, r)| differing | (l ^ r)) == 0
}

/// Builds a reply after which an HTTP/1 connection is closed, because the request's body may be unread.
fn with_connection_close(reply: Reply) -> Response<HttpBody> {
    let version_one_only = header::HeaderValue::from_static("close");
    let mut response = into_response(reply);
    if response.status() != http::StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::CONNECTION, version_one_only);
    }
    response
}

#[cfg(test)]
mod tests;
