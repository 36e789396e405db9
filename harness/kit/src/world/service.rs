//! [`WorldService`]: the server as one controller reaches it. It names the controller in the record, cuts it off at a
//! crash, and notices a hot loop.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, header};
use parking_lot::Mutex;
use tower::Service;

use crate::apiserver::ApiServer;
use crate::apiserver::service::{HttpBody, InProcessService};
use crate::time::Clock;
use crate::transcript::{Actor, redact};

/// The limits at one moment of virtual time, and in each minute of it.
const LIMITS: [Limits; 2] = [
    Limits { window: Duration::from_millis(1), equal_writes: 100, requests: 20_000, text: "at" },
    Limits { window: Duration::from_mins(1), equal_writes: 3_000, requests: 100_000, text: "within a minute, until" },
];

/// The most that a controller sends in a window of virtual time; more is a hot loop.
#[derive(Debug)]
struct Limits {
    window: Duration,
    equal_writes: u32,
    requests: u32,
    /// The word before the time in a message.
    text: &'static str,
}

/// The requests of the present window.
#[derive(Debug, Default)]
struct WindowCounts {
    number: u128,
    requests: u32,
    writes: BTreeMap<String, u32>,
}

impl WindowCounts {
    /// Counts a request, which is a write if it has a name, and returns the limit that is passed.
    fn count(
        &mut self,
        at: Duration,
        request: (&Method, &str),
        write: Option<&str>,
        limits: &Limits,
    ) -> Option<String> {
        let number = at.as_millis() / limits.window.as_millis();
        if self.number != number {
            *self = Self { number, ..Self::default() };
        }
        self.requests += 1;
        let equal = write.map_or(0, |write| self.count_write(write));
        let Limits { equal_writes, requests, text, .. } = limits;
        if equal <= *equal_writes && self.requests <= *requests {
            return None;
        }
        let ((method, path), at) = (request, redact::at(at));
        Some(if equal > *equal_writes {
            format!("sent `{method} {path}` more than {equal_writes} times {text} {at}")
        } else {
            format!("made more than {requests} requests {text} {at}, the last one `{method} {path}`")
        })
    }

    fn count_write(&mut self, write: &str) -> u32 {
        if let Some(count) = self.writes.get_mut(write) {
            *count += 1;
            return *count;
        }
        self.writes.insert(write.to_owned(), 1);
        1
    }
}

/// The connection of one start of a controller.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) name: String,
    clock: Clock,
    cut: AtomicBool,
    /// The world has ended.
    closed: AtomicBool,
    windows: Mutex<[WindowCounts; LIMITS.len()]>,
    hot: Mutex<Option<String>>,
    /// Number of times that the controller's task was polled.
    pub(super) polls: AtomicU64,
}

impl Connection {
    pub(super) fn new(name: &str, clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            clock: clock.clone(),
            cut: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            windows: Mutex::default(),
            hot: Mutex::default(),
            polls: AtomicU64::new(0),
        })
    }

    /// From now on no request arrives and no reply is delivered.
    pub(super) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    /// Cuts the connection at the end of the world: from now on requests get an error.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.cut();
    }

    /// Returns the error for a request after the end of the world.
    fn end_of_world(&self) -> Option<String> {
        let name = &self.name;
        self.closed.load(Ordering::SeqCst).then(|| {
            format!("the world of `{name}` has ended: keep the `World` until the last request, and end `{name}` first")
        })
    }

    /// Returns a description of the hot loop for which the connection was cut.
    pub(super) fn hot_loop(&self) -> Option<String> {
        self.hot.lock().clone()
    }

    /// Counts a request; returns false if it must not pass.
    fn admit(&self, method: &Method, path: &str) -> bool {
        if self.is_cut() {
            return false;
        }
        let at = self.clock.elapsed();
        // Creations of different objects have the same path.
        let is_write = matches!(*method, Method::PUT | Method::PATCH | Method::DELETE);
        let write = is_write.then(|| format!("{method} {path}"));
        let mut windows = self.windows.lock();
        let passed: Vec<String> = (windows.iter_mut().zip(&LIMITS))
            .filter_map(|(window, limits)| window.count(at, (method, path), write.as_deref(), limits))
            .collect();
        let Some(hot) = passed.into_iter().next() else { return true };
        *self.hot.lock() = Some(hot);
        self.cut();
        false
    }
}

/// The server as one controller of a world reaches it: a `tower::Service` for `kube::Client::new` of any kube version.
#[derive(Clone)]
pub struct WorldService {
    inner: InProcessService,
    connection: Arc<Connection>,
    user_agent: Option<HeaderValue>,
    token: Option<HeaderValue>,
}

impl WorldService {
    pub(super) fn new(server: &ApiServer, connection: Arc<Connection>, token: Option<&str>) -> Self {
        let attribution: Arc<str> = Actor::Controller(connection.name.clone()).attribution().into();
        let inner = server.service().attributed(Arc::new(move |_| attribution.clone()));
        let user_agent = HeaderValue::from_str(&connection.name).ok();
        let token = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
        Self { inner, connection, user_agent, token }
    }
}

impl fmt::Debug for WorldService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorldService").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for WorldService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<tower::BoxError>,
{
    type Response = Response<HttpBody>;
    type Error = tower::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let headers = request.headers_mut();
        if let Some(user_agent) = self.user_agent.as_ref().filter(|_| !headers.contains_key(header::USER_AGENT)) {
            headers.insert(header::USER_AGENT, user_agent.clone());
        }
        if let Some(token) = &self.token {
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        let connection = self.connection.clone();
        if let Some(ended) = connection.end_of_world() {
            return Box::pin(async move {
                // Others can run between the attempts of a client that repeats them at once.
                tokio::task::yield_now().await;
                Err(ended.into())
            });
        }
        if !connection.admit(request.method(), request.uri().path()) {
            return Box::pin(std::future::pending());
        }
        let reply = self.inner.call(request);
        Box::pin(async move {
            let reply = reply.await;
            if connection.is_cut() {
                return std::future::pending().await;
            }
            reply
        })
    }
}
