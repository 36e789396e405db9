//! One dressed kube client per controller.
//!
//! The factory the program was given makes plain clients: over TLS in the binary, in process in simulations. Here each
//! gets what client-go gives its clients: a user agent, a request rate, a limit on waiting for an answer, and retries
//! where the server asks for them (`Retry-After`). Everything waits on our [`Clock`], without jitter.

mod transport;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use kube::Client;

use self::transport::Transport;
use super::backoff::TokenBucket;
use super::clock::Clock;
use super::leadership::Leadership;
use super::metrics::RequestMetrics;

/// Makes a plain client for the user named last in the user agent, e.g. `disruption-controller`.
pub type ClientFactory = Arc<dyn Fn(&str) -> Client + Send + Sync>;

/// Client names: the last segment of the user agent, as kube-controller-manager names its clients.
pub mod names {
    /// The disruption controller.
    pub const DISRUPTION: &str = "disruption-controller";
    /// The pod garbage collector.
    pub const PODGC: &str = "pod-garbage-collector";
    /// The taint-eviction controller. (Upstream it shares `node-controller` with node lifecycle.)
    pub const TAINT_EVICTION: &str = "taint-eviction-controller";
    /// The ttl controller.
    pub const TTL: &str = "ttl-controller";
    /// Lists and watches of all controllers.
    pub const INFORMERS: &str = "shared-informers";
    /// The lease, and the events about it.
    pub const LEADER_ELECTION: &str = "leader-election";
}

/// How often a request is repeated when the server asks to come back later, as client-go.
pub const MAX_RETRIES: u32 = 10;
/// Wait before a GET is repeated after its connection broke, as client-go.
pub const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Longest wait for an answer. kube-apiserver ends a request after 60 s (its `--request-timeout`), slow admission included,
/// and says so: giving up before would mean trying again what was about to succeed, for ever. client-go waits for any time.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);
/// A watch that lasts less than this counts as short; the next one of its path is delayed.
pub const SHORT_WATCH: Duration = Duration::from_secs(1);

/// Limits of one client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests per second in the long run; zero or less means unlimited.
    pub qps: f64,
    /// Requests that may be sent at once.
    pub burst: u32,
    /// Longest wait for an answer: for the whole of it, or for the headers of a watch.
    pub request_timeout: Duration,
}

/// kube-controller-manager's defaults: 20 requests per second, 30 at once.
impl Default for Limits {
    fn default() -> Self {
        Self { qps: 20.0, burst: 30, request_timeout: REQUEST_TIMEOUT }
    }
}

/// How lists and watches come over the wire.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Encoding {
    /// JSON, in pages.
    #[default]
    Json,
    /// Protobuf, streamed, for the kinds that have a decoder and from servers that have it: a quarter of the bytes, and
    /// less work for both sides.
    Protobuf,
}

/// The user agent of the client called `name`.
pub fn user_agent(name: &str) -> String {
    format!(
        "plumbline-controllers/{} ({}/{}) kubernetes/1.36/{name}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    )
}

/// When a client last heard from the server. Shared between a client and its observer.
#[derive(Debug, Default)]
pub struct LastContact {
    last: Mutex<Option<Timestamp>>,
}

impl LastContact {
    /// The last successful answer, or the last piece of a watch.
    pub fn last(&self) -> Option<Timestamp> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self, now: Timestamp) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}

/// Dresses clients; those made by one `ClientBuilder` share a request rate, as the clients of one controller do.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    user_agent: HeaderValue,
    clock: Clock,
    limits: Limits,
    bucket: Arc<Mutex<TokenBucket>>,
    leadership: Leadership,
    metrics: Option<RequestMetrics>,
    encoding: Encoding,
}

/// Marks a request (as an extension of it) whose answer is to be handed on while it arrives, as a watch's. The limit on
/// waiting is then one for its beginning only; whoever reads it limits the pauses.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamResponse;

impl ClientBuilder {
    /// For the clients of the controller called `name` in user agents.
    pub fn new(name: &str, clock: Clock, limits: Limits) -> Self {
        let user_agent = HeaderValue::try_from(user_agent(name)).unwrap_or(HeaderValue::from_static("plumbline"));
        let bucket = Arc::new(Mutex::new(TokenBucket::new(limits.qps, limits.burst)));
        Self {
            user_agent,
            clock,
            limits,
            bucket,
            leadership: Leadership::always(),
            metrics: None,
            encoding: Encoding::Json,
        }
    }

    /// Clients that count their requests in `metrics`.
    #[must_use]
    pub fn with_metrics(self, metrics: RequestMetrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Clients that write only while `leadership` says so; whoever asks it answers for each try of each request.
    #[must_use]
    pub fn require_leadership(self, leadership: Leadership) -> Self {
        Self { leadership, ..self }
    }

    /// For informers that ask for their lists and watches in `encoding`.
    #[must_use]
    pub fn with_encoding(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// The encoding of lists and watches.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// A client that sends through `plain`.
    pub fn build(&self, plain: Client) -> Client {
        self.build_with_contact(plain, Arc::default())
    }

    /// A client that sends through `plain` and notes in `contact` when it heard from the server.
    pub fn build_with_contact(&self, plain: Client, contact: Arc<LastContact>) -> Client {
        let namespace = plain.default_namespace().to_owned();
        let transport = Arc::new(Transport::new(plain, self.clone(), contact));
        let service = tower::service_fn(move |request| {
            let transport = Arc::clone(&transport);
            async move { transport.send(request).await }
        });
        Client::new(service, namespace)
    }
}

#[cfg(test)]
mod tests;
