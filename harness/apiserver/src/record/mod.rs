//! The server's record of every request, its reply and every change of an object, in order.
//!
//! Clients cannot forge it. The entry of a request is written when the request arrives; the reply is filled in later
//! (never, if it was lost), so the order of entries is the order of arrivals and commits. An [`Origin`] names the
//! originator: a client with its user agent and its authenticated user, the server itself, or the program that embeds
//! it. A [`Delivery`] is a watch event, with its watch and its place between the entries.

mod delivery;
mod json;
mod log;
mod names;
mod origin;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use delivery::{DeliveredObject, Delivery};
pub(crate) use json::Encoding;
pub use json::RecordedJson;
use log::Log;
pub use names::RecordedNames;
pub use origin::Origin;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::store::EventType;

/// An entry of the transcript.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TranscriptEntry {
    /// Position in the transcript, from 0.
    pub seq: usize,
    /// Time since the clock's epoch (`t=+40s`).
    pub at: Duration,
    /// The origin: a client, the server, or the program that embeds it.
    pub origin: Origin,
    /// The event.
    pub what: EntryKind,
}

/// The event that a [`TranscriptEntry`] records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum EntryKind {
    /// A request came in.
    Request(Box<Exchange>),
    /// An object was created, changed or removed.
    Change(Box<Change>),
    /// The program that embeds the server did something that is no request, such as the start of a fault.
    Note(String),
}

/// A request and, once known, its reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Exchange {
    /// The request.
    pub request: RecordedRequest,
    /// The reply; `None` while the request is open, and permanently if the connection was lost.
    pub reply: Option<RecordedReply>,
}

/// A request as the server understood it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// API verb: `get list watch create update patch delete deletecollection`, or the lower-case HTTP method elsewhere.
    pub verb: String,
    /// Path without query.
    pub path: String,
    /// API group, empty for the core group.
    pub group: String,
    /// API version, such as `v1`.
    pub version: String,
    /// Plural resource name, empty for requests that are about no resource (`/version`).
    pub resource: String,
    /// `status`, `scale`, `eviction`, …
    pub subresource: Option<String>,
    /// Namespace of the request.
    pub namespace: Option<String>,
    /// Object name.
    pub name: Option<String>,
    /// Decoded query parameters in order of appearance.
    pub query: Vec<(String, String)>,
    /// Whole user agent.
    pub user_agent: String,
    /// Name of the authenticated user, empty where requests are recorded without authentication.
    pub user: String,
    /// `Content-Type` of the body.
    pub content_type: Option<String>,
    /// Body; `None` if it is not JSON.
    pub body: Option<RecordedJson>,
}

impl RecordedRequest {
    /// The value of query parameter `key`, the first one if there are several.
    #[must_use]
    pub fn query_value(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns true for verbs that can change an object.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// `pods`, `pods/status`, …
    #[must_use]
    pub fn resource_path(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.clone(),
        }
    }
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedReply {
    /// Time since the clock's epoch.
    pub at: Duration,
    /// HTTP status code.
    pub status: u16,
    /// `reason` of the Status body, such as `NotFound`.
    pub reason: Option<String>,
    /// `message` of the Status body.
    pub message: Option<String>,
    /// Body, where the server has it at hand (lists and watches leave it out).
    pub body: Option<RecordedJson>,
    /// The fault that made or changed this reply, in words.
    pub fault: Option<String>,
    /// `true` if the reply was withheld from the client (the request may have been executed).
    pub lost: bool,
    /// Annotations of the audit event: those of webhooks and policies.
    pub annotations: BTreeMap<String, String>,
    /// resourceVersion of the state that a list shows, which is not the present one if the client asked for an older
    /// one, or if the server's lists lag behind.
    pub revision: Option<u64>,
}

impl RecordedReply {
    /// A plain reply: no fault, not lost.
    #[must_use]
    pub fn new(at: Duration, status: u16) -> Self {
        let annotations = BTreeMap::new();
        let revision = None;
        Self { at, status, reason: None, message: None, body: None, fault: None, lost: false, annotations, revision }
    }
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ChangeKind {
    /// The object was created.
    Added,
    /// The object was modified.
    Modified,
    /// The object was deleted.
    Deleted,
}

impl From<EventType> for ChangeKind {
    fn from(event_type: EventType) -> Self {
        match event_type {
            EventType::Added => Self::Added,
            EventType::Modified => Self::Modified,
            EventType::Deleted => Self::Deleted,
        }
    }
}

/// A committed change of one object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Change {
    /// [`TranscriptEntry::seq`] of the request that caused it; `None` for the server's own changes (garbage collection,
    /// end of a grace period).
    pub request: Option<usize>,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource name.
    pub resource: String,
    /// Namespace of the object.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
    /// Resource version of this change.
    pub resource_version: u64,
    /// The object before; `None` when it is new.
    pub old: Option<RecordedJson>,
    /// The object after; `None` when it is gone.
    pub new: Option<RecordedJson>,
}

/// The growing record of one server. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    log: Arc<Mutex<Log>>,
    /// Notified of every entry and every reply.
    changed: Arc<tokio::sync::Notify>,
    names: RecordedNames,
}

impl Transcript {
    /// Creates an empty transcript.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty transcript that drops its older half when its entries exceed about `bytes`.
    #[must_use]
    pub fn of_recent(bytes: usize) -> Self {
        let transcript = Self::new();
        transcript.log.lock().keep = Some(bytes);
        transcript
    }

    /// Translates the names in all that is recorded from now on with this handle and its clones, except for requests:
    /// they are translated before it is asked for their faults.
    #[must_use]
    pub fn with_names(self, names: RecordedNames) -> Self {
        Self { names, ..self }
    }

    /// The translation of names.
    #[must_use]
    pub const fn names(&self) -> &RecordedNames {
        &self.names
    }

    fn push(&self, at: Duration, origin: Origin, what: EntryKind) -> usize {
        let mut log = self.log.lock();
        let seq = log.first + log.entries.len();
        log.grow(&what);
        log.entries.push(TranscriptEntry { seq, at, origin, what });
        drop(log);
        self.changed.notify_waiters();
        seq
    }

    /// Waits until another entry is recorded. Call it before you read the entries: entries recorded between the call
    /// and the first poll count.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Moves the time of all entries so far to the epoch: on the wall clock clients need time to start, in virtual time
    /// none.
    pub fn move_to_epoch(&self) {
        let mut log = self.log.lock();
        for entry in &mut log.entries {
            entry.at = Duration::ZERO;
            if let EntryKind::Request(exchange) = &mut entry.what
                && let Some(reply) = &mut exchange.reply
            {
                reply.at = Duration::ZERO;
            }
        }
        log.deliveries.iter_mut().for_each(|delivery| delivery.at = Duration::ZERO);
    }

    /// Records an incoming `request`; [`Transcript::reply`] and [`Change::request`] refer to it by the number returned.
    #[must_use]
    pub fn request(&self, at: Duration, origin: impl Into<Origin>, request: RecordedRequest) -> usize {
        self.push(at, origin.into(), EntryKind::Request(Box::new(Exchange { request, reply: None })))
    }

    /// Records the reply to request number `seq`.
    pub fn reply(&self, seq: usize, reply: RecordedReply) {
        let reply = self.names.reply(reply);
        let mut log = self.log.lock();
        let at = seq.checked_sub(log.first);
        if let Some(TranscriptEntry { what: EntryKind::Request(exchange), .. }) =
            at.and_then(|at| log.entries.get_mut(at))
        {
            let body = reply.body.clone();
            exchange.reply = Some(reply);
            log.count(body.iter());
        }
        drop(log);
        self.changed.notify_waiters();
    }

    /// Records a change of an object at the time of its commit; returns its position.
    pub fn change(&self, at: Duration, origin: impl Into<Origin>, change: Change) -> usize {
        self.push(at, origin.into(), EntryKind::Change(Box::new(self.names.change(change))))
    }

    /// Attributes the change at position `seq` to `origin` and its request number `request`: for transcripts that are
    /// recorded outside of the server, where this is known only with the reply.
    pub fn attribute(&self, seq: usize, origin: impl Into<Origin>, request: usize) {
        let mut log = self.log.lock();
        let at = seq.checked_sub(log.first);
        if let Some(entry) = at.and_then(|at| log.entries.get_mut(at))
            && let EntryKind::Change(change) = &mut entry.what
        {
            entry.origin = origin.into();
            change.request = Some(request);
        }
    }

    /// Records that the watch of request number `watch` sends an event about `object`.
    pub fn delivery(&self, at: Duration, watch: usize, object: DeliveredObject) {
        let object = self.names.delivered(object);
        let mut log = self.log.lock();
        let position = log.first + log.entries.len();
        log.deliver(Delivery { position, at, watch, object });
    }

    /// Returns the watch events that were sent, in order.
    #[must_use]
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.log.lock().deliveries.clone()
    }

    /// Records an action of the program that embeds the server.
    pub fn note(&self, at: Duration, text: impl Into<String>) {
        self.push(at, Origin::Embedder, EntryKind::Note(text.into()));
    }

    /// Number of entries so far, dropped ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        let log = self.log.lock();
        log.first + log.entries.len()
    }

    /// Returns true if nothing was recorded yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of all entries; objects in it are shared, not copied.
    #[must_use]
    pub fn entries(&self) -> Vec<TranscriptEntry> {
        self.log.lock().entries.clone()
    }

    /// Calls `look` with the entries, without a copy. Do not record from within `look`.
    pub fn with<T>(&self, look: impl FnOnce(&[TranscriptEntry]) -> T) -> T {
        look(&self.log.lock().entries)
    }
}
