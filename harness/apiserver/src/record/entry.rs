//! The entries of the transcript: requests with their replies, changes, notes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::json::RecordedJson;
use super::origin::Origin;
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
    /// resourceVersion of the state that a list shows, or a watch that begins with one, which is not the present one if
    /// the client asked for an older one, or if the server's lists lag behind.
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
