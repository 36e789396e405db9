//! The kube client of a controller.
//!
//! The factory passed to the program creates plain clients: over TLS in the binary, in process in simulations.
//! [`ClientBuilder`] adds what client-go's clients have: a user agent, a request rate, a response timeout, and retries
//! if the server requests them (`Retry-After`). All waiting uses the [`Clock`], without jitter.

mod transport;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;

use self::transport::Transport;
use super::backoff::TokenBucket;
use super::clock::Clock;
use super::leadership::Leadership;
use super::metrics::RequestMetrics;

/// Creates a plain client for the name that ends the user agent, e.g. `disruption-controller`.
pub type ClientFactory = Arc<dyn Fn(&str) -> Client + Send + Sync>;

/// Client names: the last segment of the user agent, as in kube-controller-manager.
pub mod names {
    /// The disruption controller.
    pub const DISRUPTION: &str = "disruption-controller";
    /// The pod garbage collector.
    pub const PODGC: &str = "pod-garbage-collector";
    /// The taint-eviction controller. (Upstream it shares `node-controller` with node lifecycle.)
    pub const TAINT_EVICTION: &str = "taint-eviction-controller";
    /// The ttl controller.
    pub const TTL: &str = "ttl-controller";
    /// The informers of all controllers.
    pub const INFORMERS: &str = "shared-informers";
    /// Leader election and its events.
    pub const LEADER_ELECTION: &str = "leader-election";
    /// Requests for tokens of service accounts.
    pub const SERVICE_ACCOUNT_TOKENS: &str = "service-account-tokens";

    /// The clients of controllers. With `--use-service-account-credentials` each acts as the service account of its
    /// name.
    pub const CONTROLLERS: [&str; 4] = [DISRUPTION, PODGC, TAINT_EVICTION, TTL];
}

/// Maximum number of retries of a request that the server asks to repeat later, as client-go.
pub const MAX_RETRIES: u32 = 10;
/// Delay before a GET is repeated after its connection broke, as client-go.
pub const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Response timeout. kube-apiserver ends a request after 60 s (its `--request-timeout`, which includes slow admission)
/// with an error. A shorter timeout could give up, again and again, on requests that were about to succeed. client-go
/// has no timeout.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);
/// A watch that ends earlier than this counts as short and delays the next watch of its path.
pub const SHORT_WATCH: Duration = Duration::from_secs(1);

/// Limits of one client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Sustained requests per second; zero or less means unlimited.
    pub qps: f64,
    /// Maximum burst of requests.
    pub burst: u32,
    /// Timeout of the whole response, or of the headers of a watch.
    pub request_timeout: Duration,
}

/// kube-controller-manager's defaults: 20 requests per second, bursts of 30.
impl Default for Limits {
    fn default() -> Self {
        Self { qps: 20.0, burst: 30, request_timeout: REQUEST_TIMEOUT }
    }
}

/// Encoding of lists and watches.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Encoding {
    /// JSON, in pages.
    #[default]
    Json,
    /// Streamed protobuf, for kinds that have a decoder and servers that support it: a quarter of the bytes of JSON,
    /// and less work for client and server.
    Protobuf,
}

/// Returns the user agent of the client `name`.
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

/// Time of the last contact with the server. Shared between a client and the informer that uses it.
#[derive(Debug, Default)]
pub struct LastContact {
    last: Mutex<Option<Timestamp>>,
}

impl LastContact {
    /// Returns the time of the last successful response or of the last data in a watch.
    pub fn last(&self) -> Option<Timestamp> {
        *self.last.lock()
    }

    fn touch(&self, now: Timestamp) {
        *self.last.lock() = Some(now);
    }
}

/// Builds clients. All clients of one `ClientBuilder` share a request rate, as the clients of one controller do.
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

/// A request extension: the response is streamed to the caller, as a watch's. The timeout then covers only the headers;
/// the reader limits the pauses.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamResponse;

/// A request extension: a busy server may ask for the request to be repeated later (`Retry-After`); it is repeated only
/// while this holds. client-go repeats such a request even if its reason is gone.
#[derive(Clone)]
pub struct RepeatWhile(Arc<dyn Fn() -> bool + Send + Sync>);

impl RepeatWhile {
    /// Creates the extension; `wanted` is asked just before each repetition.
    pub fn new(wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(wanted))
    }

    fn holds(&self) -> bool {
        (self.0)()
    }
}

impl ClientBuilder {
    /// Creates a builder for the controller `name`, as it appears in user agents.
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

    /// Makes clients count their requests in `metrics`.
    #[must_use]
    pub fn with_metrics(self, metrics: RequestMetrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Makes clients send writes only while `leadership` allows it, checked before every attempt of a request.
    #[must_use]
    pub fn require_leadership(self, leadership: Leadership) -> Self {
        Self { leadership, ..self }
    }

    /// Makes informers request lists and watches in `encoding`.
    #[must_use]
    pub fn with_encoding(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// Returns the encoding of lists and watches.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Builds a client that sends through `plain`.
    pub fn build(&self, plain: Client) -> Client {
        self.build_with_contact(plain, Arc::default())
    }

    /// Builds a client that sends through `plain` and records contact with the server in `contact`.
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
