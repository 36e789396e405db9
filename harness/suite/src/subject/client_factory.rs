//! Clients for a subject, and the way a crash cuts their connection.
//!
//! After [`KillSwitch::trip`] no request of the subject arrives and none of its pending calls returns, so anything that
//! its tasks still do before the runtime drops them has no effect. A crash is thus exact to the request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response, header};
use kube::client::Body;
use plumbline::time::Clock;
use plumbline::transcript::REPLICA;
use plumbline_apiserver::service::InProcessService;
use tower::Service;

use super::SubjectError;
use crate::cluster::Access;

/// Requests at one moment of virtual time after which the subject is considered a hot loop: no fixture has this many
/// objects.
const LIMIT_AT_ONE_MOMENT: u64 = 20_000;

/// Cuts a subject off. Clones cut the same subject.
#[derive(Clone, Debug, Default)]
pub struct KillSwitch {
    tripped: Arc<AtomicBool>,
}

impl KillSwitch {
    /// From now on no request of the subject reaches the cluster.
    pub fn trip(&self) {
        self.tripped.store(true, Ordering::SeqCst);
    }

    /// Returns true if the subject is cut off.
    #[must_use]
    pub fn is_tripped(&self) -> bool {
        self.tripped.load(Ordering::SeqCst)
    }
}

/// Counts requests while time does not advance.
#[derive(Debug, Default)]
struct RequestMeter {
    moment: AtomicU64,
    count: AtomicU64,
    ran_away: AtomicBool,
}

/// The server or connection behind a factory.
#[derive(Clone)]
enum Upstream {
    Server(InProcessService),
    Connection(kube::Client),
}

/// Creates a subject's clients.
#[derive(Clone)]
pub struct ClientFactory {
    upstream: Upstream,
    clock: Clock,
    kill_switch: KillSwitch,
    meter: Arc<RequestMeter>,
    /// The number of the replica whose clients it creates.
    replica: Option<u8>,
}

impl ClientFactory {
    /// Creates a factory. Call this in the subject's runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the kubeconfig is not usable.
    pub fn new(access: Access<'_>, clock: &Clock) -> Result<Self, SubjectError> {
        let upstream = match access {
            Access::InProcess(server) => Upstream::Server(server.service()),
            Access::Kubeconfig(path) => Upstream::Connection({
                let client = crate::cluster::client::from_file(path);
                client.map_err(|error| SubjectError::NotStarted(error.to_string()))?
            }),
        };
        let kill_switch = KillSwitch::default();
        let meter = Arc::default();
        Ok(Self { upstream, clock: clock.clone(), kill_switch, meter, replica: None })
    }

    /// Returns a factory for the clients of a replica: their user agents name it.
    #[must_use]
    pub fn for_replica(&self, number: u8) -> Self {
        Self { replica: Some(number), ..self.clone() }
    }

    /// Returns the handle that cuts all clients off.
    #[must_use]
    pub fn kill_switch(&self) -> KillSwitch {
        self.kill_switch.clone()
    }

    /// Returns a message if the subject made more requests at one moment than any fixture needs; its clients are then
    /// cut off.
    #[must_use]
    pub fn ran_away(&self) -> Option<String> {
        let text = || {
            let at = std::time::Duration::from_millis(self.meter.moment.load(Ordering::SeqCst));
            format!("more than {LIMIT_AT_ONE_MOMENT} requests at {}", plumbline::transcript::redact::at(at))
        };
        self.meter.ran_away.load(Ordering::SeqCst).then(text)
    }

    /// Returns a client with the user agent `user_agent`. Call this in the subject's runtime.
    #[must_use]
    pub fn client(&self, user_agent: &str) -> kube::Client {
        let user_agent = HeaderValue::from_str(user_agent).ok();
        let factory = self.clone();
        match &self.upstream {
            Upstream::Server(server) => {
                kube::Client::new(GatedService { inner: server.clone(), user_agent, factory }, "default")
            }
            Upstream::Connection(client) => {
                kube::Client::new(GatedService { inner: ClientService(client.clone()), user_agent, factory }, "default")
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
            self.kill_switch.trip();
        }
        fine && !self.kill_switch.is_tripped()
    }
}

/// A tower service that passes requests until the kill switch is used.
struct GatedService<S> {
    inner: S,
    user_agent: Option<HeaderValue>,
    factory: ClientFactory,
}

impl<S, B> Service<Request<Body>> for GatedService<S>
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
        if let Some(number) = self.factory.replica
            && let Some(agent) = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok())
            && let Ok(named) = HeaderValue::from_str(&agent.replacen('(', &format!("{REPLICA}{number}; "), 1))
        {
            request.headers_mut().insert(header::USER_AGENT, named);
        }
        if !self.factory.admit() {
            return Box::pin(std::future::pending());
        }
        let kill_switch = self.factory.kill_switch();
        let reply = self.inner.call(request);
        Box::pin(async move {
            let reply = reply.await;
            if kill_switch.is_tripped() {
                return std::future::pending().await;
            }
            reply.map_err(Into::into)
        })
    }
}

/// A `kube::Client` as a tower service.
struct ClientService(kube::Client);

impl Service<Request<Body>> for ClientService {
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
