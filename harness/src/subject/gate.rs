//! Clients for a subject, and the way a crash cuts their connection.
//!
//! After [`Cut::now`] no request of the subject arrives and none of its pending calls returns, so whatever its tasks
//! still do before the runtime drops them has no effect. A crash is thus exact to the request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response, header};
use kube::client::Body;
use tower::Service;

use crate::apiserver::ApiServer;
use crate::cluster::Access;
use crate::time::Clock;

/// Requests at one moment of virtual time after which the subject is considered a hot loop: no fixture has this many
/// objects.
const LIMIT_AT_ONE_MOMENT: u64 = 20_000;

/// Cuts a subject off. Clones cut the same subject.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    cut: Arc<AtomicBool>,
}

impl Cut {
    /// From now on no request of the subject reaches the cluster.
    pub fn now(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    /// Returns true if the subject is cut off.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }
}

/// Counts requests while time does not advance.
#[derive(Debug, Default)]
struct Meter {
    moment: AtomicU64,
    count: AtomicU64,
    ran_away: AtomicBool,
}

/// The server or connection behind a factory.
#[derive(Clone)]
enum Behind {
    Server(ApiServer),
    Connection(kube::Client),
}

/// Creates a subject's clients.
#[derive(Clone)]
pub struct Gate {
    behind: Behind,
    clock: Clock,
    cut: Cut,
    meter: Arc<Meter>,
}

impl Gate {
    /// Creates a factory. Call this in the subject's runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the kubeconfig is not usable.
    pub fn new(access: Access<'_>, clock: &Clock) -> Result<Self, String> {
        let behind = match access {
            Access::InProcess(server) => Behind::Server(server.clone()),
            Access::Kubeconfig(path) => Behind::Connection(crate::cluster::client::from_file(path)?),
        };
        Ok(Self { behind, clock: clock.clone(), cut: Cut::default(), meter: Arc::default() })
    }

    /// Returns the handle that cuts all clients off.
    #[must_use]
    pub fn cut(&self) -> Cut {
        self.cut.clone()
    }

    /// Returns a message if the subject made more requests at one moment than any fixture needs; its clients are then
    /// cut off.
    #[must_use]
    pub fn ran_away(&self) -> Option<String> {
        let text = || {
            let at = std::time::Duration::from_millis(self.meter.moment.load(Ordering::SeqCst));
            format!("more than {LIMIT_AT_ONE_MOMENT} requests at {}", crate::transcript::redact::at(at))
        };
        self.meter.ran_away.load(Ordering::SeqCst).then(text)
    }

    /// Returns a client with the user agent `user_agent`. Call this in the subject's runtime.
    #[must_use]
    pub fn client(&self, user_agent: &str) -> kube::Client {
        let user_agent = HeaderValue::from_str(user_agent).ok();
        let gate = self.clone();
        match &self.behind {
            Behind::Server(server) => kube::Client::new(Gated { inner: server.service(), user_agent, gate }, "default"),
            Behind::Connection(client) => {
                kube::Client::new(Gated { inner: Connection(client.clone()), user_agent, gate }, "default")
            }
        }
    }

    /// Counts a request; returns `false` if it must not pass.
    fn admit(&self) -> bool {
        let now = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        let meter = &self.meter;
        if meter.moment.swap(now, Ordering::SeqCst) != now {
            meter.count.store(0, Ordering::SeqCst);
        }
        let fine = meter.count.fetch_add(1, Ordering::SeqCst) < LIMIT_AT_ONE_MOMENT;
        if !fine {
            meter.ran_away.store(true, Ordering::SeqCst);
            self.cut.now();
        }
        fine && !self.cut.is_cut()
    }
}

/// A tower service that passes requests until the kill switch is used.
struct Gated<S> {
    inner: S,
    user_agent: Option<HeaderValue>,
    gate: Gate,
}

impl<S, B> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<tower::BoxError> + Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = tower::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(user_agent) = &self.user_agent
            && !request.headers().contains_key(header::USER_AGENT)
        {
            request.headers_mut().insert(header::USER_AGENT, user_agent.clone());
        }
        if !self.gate.admit() {
            return Box::pin(std::future::pending());
        }
        let cut = self.gate.cut();
        let reply = self.inner.call(request);
        Box::pin(async move {
            let reply = reply.await;
            if cut.is_cut() {
                return std::future::pending().await;
            }
            reply.map_err(Into::into)
        })
    }
}

/// A `kube::Client` as a tower service.
struct Connection(kube::Client);

impl Service<Request<Body>> for Connection {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move { client.send(request).await })
    }
}
