//! Kubernetes Events, as client-go's recorder, broadcaster and correlator create them.
//!
//! [`Recorder::event`] never blocks: it puts the event into a bounded queue, or drops it with a log line and a metric.
//! One task per recorder takes events from the queue, lets the [`Correlator`] count, aggregate or filter them, and
//! writes them in order, with retries.

mod correlate;

pub use correlate::{Correlation, Correlator};

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request};
use jiff::Timestamp;
use kube::Client;
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::clock::Clock;
use super::error::ApiError;
use super::metrics::Metrics;
use super::url;
use crate::api::cache_object::CacheObject;
use crate::api::hash::Fnv1a;
use crate::api::time::whole_seconds;

/// Maximum number of queued events; further ones are dropped.
pub const QUEUE_LIMIT: usize = 1000;
/// Maximum number of attempts to write an event.
pub const MAX_TRIES: u32 = 12;
/// Delay between attempts. Before the second attempt it is a fraction of this that depends on the event but is not
/// random.
pub const RETRY_DELAY: Duration = Duration::from_secs(10);
/// The `reason` of the cause in the server's error if the namespace is terminating.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventType {
    /// Information.
    Normal,
    /// A problem.
    Warning,
}

/// The object of an event: `v1.ObjectReference`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// UID, if known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Group and version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The observed version, if known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

impl ObjectReference {
    /// Creates the full reference to a cached object, with UID and resourceVersion.
    pub fn to<V: CacheObject>(object: &V) -> Self {
        let key = object.key();
        Self {
            kind: V::Resource::kind(&()).into_owned(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: object.uid().to_owned(),
            api_version: V::Resource::api_version(&()).into_owned(),
            resource_version: object.resource_version().to_owned(),
        }
    }
}

/// A core/v1 Event as it is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Name and namespace.
    pub metadata: EventMeta,
    /// The object.
    #[serde(default)]
    pub involved_object: ObjectReference,
    /// Machine-readable reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The source.
    #[serde(default)]
    pub source: EventSource,
    /// Time of the first occurrence; whole seconds on the wire.
    #[serde(with = "seconds")]
    pub first_timestamp: Timestamp,
    /// Time of the last occurrence; whole seconds on the wire.
    #[serde(with = "seconds")]
    pub last_timestamp: Timestamp,
    /// Number of occurrences.
    #[serde(default)]
    pub count: i32,
    /// Normal or Warning.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Not used by this recorder: always null.
    #[serde(default, deserialize_with = "ignored")]
    pub event_time: (),
    /// The same as `source.component`.
    #[serde(default)]
    pub reporting_component: String,
    /// Always empty: the host of the source, which controllers do not set.
    #[serde(default)]
    pub reporting_instance: String,
}

/// The metadata of an event that the recorder reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventMeta {
    /// `<object>.<hex>`.
    pub name: String,
    /// The object's namespace, or `default`.
    pub namespace: String,
}

/// `v1.EventSource`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventSource {
    /// The component.
    pub component: String,
}

mod seconds {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::wire_time(*at))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        Ok(Option::<Timestamp>::deserialize(from)?.unwrap_or(Timestamp::UNIX_EPOCH))
    }
}

fn ignored<'de, D: serde::Deserializer<'de>>(from: D) -> Result<(), D::Error> {
    serde::de::IgnoredAny::deserialize(from).map(drop)
}

/// Formats a `metav1.Time`: truncated to whole seconds.
fn wire_time(at: Timestamp) -> String {
    whole_seconds(at).to_string()
}

/// Records events of one component. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder {
    component: Arc<str>,
    clock: Clock,
    metrics: Metrics,
    queue: mpsc::Sender<Event>,
    stamps: EventStamps,
}

/// The source of the numbers that make the names of events unique. Cheap to clone; clones share their numbers.
#[derive(Clone, Debug, Default)]
pub struct EventStamps(Arc<AtomicI64>);

impl EventStamps {
    /// Returns nanoseconds since the Unix epoch, a number that was not returned before: simulated time may not advance
    /// between two events.
    fn next(&self, now: Timestamp) -> i64 {
        let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
        let next = |last: i64| now.max(last.saturating_add(1));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last))).map_or(now, next)
    }
}

impl Recorder {
    /// Creates a recorder, and the future that writes its events through `client`. The future completes when all clones
    /// of the recorder are dropped and the queue is empty.
    pub fn new(component: &str, client: Client, clock: Clock, metrics: Metrics) -> (Self, BoxFuture<'static, ()>) {
        let (sender, receiver) = mpsc::channel(QUEUE_LIMIT);
        let sink = Sink { client, clock: clock.clone(), metrics: metrics.clone(), correlator: Correlator::default() };
        let stamps = EventStamps::default();
        let recorder = Self { component: component.into(), clock, metrics, queue: sender, stamps };
        (recorder, Box::pin(sink.run(receiver)))
    }

    /// Takes the numbers in the names of events from `stamps`. Recorders with the same stamps never use one name twice,
    /// even for events about the same object at the same time.
    #[must_use]
    pub fn with_stamps(self, stamps: EventStamps) -> Self {
        Self { stamps, ..self }
    }

    /// Records an event about `about`. Never blocks: if [`QUEUE_LIMIT`] events are queued, the event is dropped, logged
    /// and counted.
    pub fn event(&self, about: ObjectReference, event_type: EventType, reason: &str, message: impl Into<String>) {
        let event = self.new_event(about, event_type, reason, message.into());
        let about = &event.involved_object;
        tracing::info!(
            object = %format_args!("{}/{}", about.namespace, about.name),
            kind = about.kind,
            ?event_type,
            reason,
            note = event.message,
            "event occurred"
        );
        if let Err(error) = self.queue.try_send(event) {
            let why = match &error {
                mpsc::error::TrySendError::Full(_) => "queue-full",
                mpsc::error::TrySendError::Closed(_) => "stopped",
            };
            self.metrics.event_dropped(why);
            let event = error.into_inner();
            tracing::error!(reason, name = event.metadata.name, why, "unable to record event, it is dropped");
        }
    }

    fn new_event(&self, about: ObjectReference, event_type: EventType, reason: &str, message: String) -> Event {
        let now = self.clock.now();
        let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
        Event {
            metadata: EventMeta {
                name: event_name(&about.name, self.stamps.next(now)),
                namespace: namespace.to_owned(),
            },
            involved_object: about,
            reason: reason.to_owned(),
            message,
            source: EventSource { component: self.component.to_string() },
            first_timestamp: now,
            last_timestamp: now,
            count: 1,
            event_type,
            event_time: (),
            reporting_component: self.component.to_string(),
            reporting_instance: String::new(),
        }
    }
}

/// Returns `<object>.<hex>`, or a digest in the form of a UUID if that is not a valid name: the object's name is too
/// long or not a DNS subdomain.
fn event_name(object: &str, stamp: i64) -> String {
    let name = format!("{object}.{stamp:x}");
    if is_dns_subdomain(&name) {
        return name;
    }
    let mut digest = Fnv1a::default();
    digest.write(name.as_bytes());
    let high = digest.0;
    let low = stamp.cast_unsigned();
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        (low >> 48) & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

fn is_dns_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        bytes.iter().all(inner) && !label.is_empty() && bytes[0] != b'-' && bytes[bytes.len() - 1] != b'-'
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Writes events.
struct Sink {
    client: Client,
    clock: Clock,
    metrics: Metrics,
    correlator: Correlator,
}

enum WriteOutcome {
    Written,
    Rejected,
    Retry(ApiError),
}

impl Sink {
    async fn run(mut self, mut queue: mpsc::Receiver<Event>) {
        while let Some(event) = queue.recv().await {
            match self.correlator.correlate(event, &self.clock) {
                Correlation::Skip => {
                    self.metrics.event_dropped("spam");
                    tracing::debug!("event dropped: too many events of its source about this object");
                }
                Correlation::Write(event) => {
                    // After the last recorder is dropped, there are no retries.
                    let tries = if queue.is_closed() { 1 } else { MAX_TRIES };
                    self.write(*event, tries).await;
                }
            }
        }
    }

    async fn write(&mut self, event: Event, tries: u32) {
        for attempt in 1..=tries {
            match self.write_once(&event).await {
                WriteOutcome::Written => return,
                WriteOutcome::Rejected => return self.metrics.event_dropped("rejected"),
                WriteOutcome::Retry(error) => {
                    tracing::error!(name = event.metadata.name, attempt, %error, "unable to write event");
                }
            }
            if attempt < tries {
                let delay = if attempt == 1 { first_delay(&event.metadata.name) } else { RETRY_DELAY };
                self.clock.sleep(delay).await;
            }
        }
        self.metrics.event_dropped("retries");
        tracing::error!(name = event.metadata.name, tries, "failed to write event, it is dropped");
    }

    async fn write_once(&mut self, event: &Event) -> WriteOutcome {
        let result = if event.count > 1 {
            match self.send(Method::PATCH, event, &patch_body(event)).await {
                // The event has expired on the server: create it again with its old name and count.
                Err(ApiError::NotFound(_)) => self.send(Method::POST, event, &create_body(event)).await,
                result => result,
            }
        } else {
            self.send(Method::POST, event, &create_body(event)).await
        };
        match result {
            Ok(answer) => {
                self.correlator.update(&answer.unwrap_or_else(|| event.clone()));
                WriteOutcome::Written
            }
            Err(error) => rejected(event, error),
        }
    }

    /// `None` if the server stored the event but its response cannot be decoded.
    async fn send(&self, method: Method, event: &Event, body: &Value) -> Result<Option<Event>, ApiError> {
        let EventMeta { name, namespace } = &event.metadata;
        let mut path = vec!["api", "v1", "namespaces", namespace, "events"];
        let content_type = if method == Method::PATCH {
            path.push(name);
            "application/strategic-merge-patch+json"
        } else {
            "application/json"
        };
        let bytes = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let builder =
            Request::builder().method(method).uri(url::path(&path)).header(http::header::CONTENT_TYPE, content_type);
        let request = builder.body(bytes).map_err(kube::Error::HttpError)?;
        let answer: Value = self.client.request(request).await?;
        Ok(serde_json::from_value(answer).ok())
    }
}

/// An error response is final; a missing response is retried, as in client-go.
fn rejected(event: &Event, error: ApiError) -> WriteOutcome {
    let Some(refusal) = error.refusal() else { return WriteOutcome::Retry(error) };
    let name = &event.metadata.name;
    if refusal.reason == "AlreadyExists" || refusal.causes.iter().any(|cause| cause == NAMESPACE_TERMINATING) {
        tracing::debug!(name, %error, "server rejected event");
    } else {
        tracing::error!(name, %error, "server rejected event, it is dropped");
    }
    WriteOutcome::Rejected
}

fn create_body(event: &Event) -> Value {
    let mut body = json!(event);
    body["apiVersion"] = "v1".into();
    body["kind"] = "Event".into();
    body
}

fn patch_body(event: &Event) -> Value {
    json!({ "count": event.count, "lastTimestamp": wire_time(event.last_timestamp), "message": event.message })
}

/// Returns a fraction of [`RETRY_DELAY`] that depends on the event's name: clients that lost the same server do not
/// return at the same time, and a run is still reproducible.
fn first_delay(name: &str) -> Duration {
    let steps = RETRY_DELAY.as_millis() as u64;
    let mut digest = Fnv1a::default();
    digest.write(name.as_bytes());
    Duration::from_millis(digest.0 % steps)
}

#[cfg(test)]
mod tests;
