//! Metrics of client requests, with client-go's names.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Counts requests. Cheap to clone; clones share the values.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    host: Arc<OnceLock<String>>,
    requests: Family<CodeLabels, Counter>,
    retries: Family<RetryLabels, Counter>,
    duration: Family<VerbLabels, Histogram, fn() -> Histogram>,
    limiter: Family<VerbLabels, Histogram, fn() -> Histogram>,
    sent: Family<VerbLabels, Histogram, fn() -> Histogram>,
    received: Family<VerbLabels, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    code: String,
    method: String,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RetryLabels {
    code: String,
    verb: String,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: String,
    host: String,
}

fn seconds() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0])
}

fn bytes() -> Histogram {
    let kib = |n: f64| n * 1024.0;
    let large = [kib(1.0), kib(4.0), kib(16.0), kib(64.0), kib(256.0), kib(1024.0), kib(4096.0), kib(16384.0)];
    Histogram::new([64.0, 256.0, 512.0].into_iter().chain(large))
}

impl RequestMetrics {
    pub(super) fn new() -> Self {
        Self {
            host: Arc::default(),
            requests: Family::default(),
            retries: Family::default(),
            duration: Family::new_with_constructor(seconds),
            limiter: Family::new_with_constructor(seconds),
            sent: Family::new_with_constructor(bytes),
            received: Family::new_with_constructor(bytes),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let client = registry.sub_registry_with_prefix("rest_client");
        client.register("requests", "Requests by status code, method and host", self.requests.clone());
        client.register("request_retries", "Requests sent again by status code, verb and host", self.retries.clone());
        client.register(
            "request_duration_seconds",
            "Time until the whole response was received; of watches, until its headers",
            self.duration.clone(),
        );
        client.register(
            "rate_limiter_duration_seconds",
            "Time requests waited for the client-side rate limit",
            self.limiter.clone(),
        );
        client.register("request_size_bytes", "Size of request bodies", self.sent.clone());
        client.register("response_size_bytes", "Size of response bodies, except watches", self.received.clone());
    }

    /// Sets the host label. Only the first call has an effect.
    pub fn set_host(&self, host: &str) {
        let _ = self.host.set(host.to_owned());
    }

    /// Counts a completed request: `code` is the status, or `<error>` without response.
    pub fn answered(&self, method: &str, code: &str, time: Duration) {
        let labels = CodeLabels { code: code.to_owned(), method: method.to_owned(), host: self.host() };
        self.requests.get_or_create(&labels).inc();
        self.duration.get_or_create(&self.verb(method)).observe(time.as_secs_f64());
    }

    /// Counts a retry.
    pub fn repeated(&self, method: &str, code: &str) {
        let labels = RetryLabels { code: code.to_owned(), verb: method.to_owned(), host: self.host() };
        self.retries.get_or_create(&labels).inc();
    }

    /// Observes the time that a request waited for the rate limit.
    pub fn throttled(&self, method: &str, time: Duration) {
        self.limiter.get_or_create(&self.verb(method)).observe(time.as_secs_f64());
    }

    /// Observes the size of a request body in bytes.
    pub fn sent(&self, method: &str, size: usize) {
        self.sent.get_or_create(&self.verb(method)).observe(size as f64);
    }

    /// Observes the size of a response in bytes.
    pub fn received(&self, method: &str, size: usize) {
        self.received.get_or_create(&self.verb(method)).observe(size as f64);
    }

    fn verb(&self, method: &str) -> VerbLabels {
        VerbLabels { verb: method.to_owned(), host: self.host() }
    }

    fn host(&self) -> String {
        self.host.get().cloned().unwrap_or_default()
    }
}
