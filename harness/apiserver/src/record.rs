//! The server's record of every request, its reply and every change of an object, in order.
//!
//! Clients cannot forge it. The entry of a request is written when the request arrives; the reply is filled in later
//! (never, if it was lost), so the order of entries is the order of arrival and of commits. An [`Origin`] says who acted:
//! a client with its user agent and its authenticated user, the server itself, or the test.

mod log;
mod origin;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use log::Log;
pub use origin::Origin;

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Position in the transcript, from 0.
    pub seq: usize,
    /// Time since the clock's epoch (`t=+40s`).
    pub at: Duration,
    /// Who did it.
    pub origin: Origin,
    /// What it was.
    pub what: Happening,
}

/// What an [`Entry`] tells of.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A request came in.
    Request(Box<Exchange>),
    /// An object was created, changed or removed.
    Change(Box<Change>),
    /// The harness did something to the world: a step, a fault, a crash, a restart.
    Note(String),
}

/// A request and, once known, its reply.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What was asked.
    pub request: Request,
    /// What was answered; `None` while it is open, or for ever if the connection was lost.
    pub reply: Option<Reply>,
}

/// A request as the server understood it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
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
    /// Decoded body.
    pub body: Option<Arc<Value>>,
}

impl Request {
    /// The value of query parameter `key`, the first one if there are several.
    #[must_use]
    pub fn query_value(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Whether it may change something.
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

/// What was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Time since the clock's epoch.
    pub at: Duration,
    /// HTTP status code.
    pub status: u16,
    /// `reason` of the Status body, such as `NotFound`.
    pub reason: Option<String>,
    /// `message` of the Status body.
    pub message: Option<String>,
    /// Decoded body, where the server has it at hand (lists and watches leave it out).
    pub body: Option<Arc<Value>>,
    /// The fault that made or changed this reply, in words.
    pub fault: Option<String>,
    /// Whether the reply was withheld from the client (the work may have been done).
    pub lost: bool,
}

impl Reply {
    /// A plain reply: no fault, not lost.
    #[must_use]
    pub fn new(at: Duration, status: u16) -> Self {
        Self { at, status, reason: None, message: None, body: None, fault: None, lost: false }
    }
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It came to be.
    Added,
    /// It has a new content.
    Modified,
    /// It is gone.
    Deleted,
}

/// A committed change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// [`Entry::seq`] of the request that caused it; `None` for the server's own doing (garbage collection, end of a grace period).
    pub request: Option<usize>,
    /// What became of it.
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
    pub old: Option<Arc<Value>>,
    /// The object after; `None` when it is gone.
    pub new: Option<Arc<Value>>,
}

/// The growing record of one server. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    log: Arc<Mutex<Log>>,
    /// Told of every entry and every reply.
    news: Arc<tokio::sync::Notify>,
}

impl Transcript {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty one that forgets its older half when its entries take up more than `bytes`, about.
    #[must_use]
    pub fn of_recent(bytes: usize) -> Self {
        let transcript = Self::new();
        transcript.lock().keep = Some(bytes);
        transcript
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, at: Duration, origin: Origin, what: Happening) -> usize {
        let mut log = self.lock();
        let seq = log.first + log.entries.len();
        log.grow(&what);
        log.entries.push(Entry { seq, at, origin, what });
        drop(log);
        self.news.notify_waiters();
        seq
    }

    /// Waits until something more is recorded. Ask for it before you look: what is recorded between the call and the first
    /// poll counts.
    pub fn news(&self) -> tokio::sync::futures::Notified<'_> {
        self.news.notified()
    }

    /// Says of everything so far that it happened at the epoch: on the wall clock the time before `t=+0s` is the subject's
    /// start, which has no length in virtual time.
    pub fn move_to_epoch(&self) {
        for entry in &mut self.lock().entries {
            entry.at = Duration::ZERO;
            if let Happening::Request(exchange) = &mut entry.what
                && let Some(reply) = &mut exchange.reply
            {
                reply.at = Duration::ZERO;
            }
        }
    }

    /// Records that `request` has come in; the number returned names it in [`Transcript::reply`] and [`Change::request`].
    #[must_use]
    pub fn request(&self, at: Duration, origin: impl Into<Origin>, request: Request) -> usize {
        self.push(at, origin.into(), Happening::Request(Box::new(Exchange { request, reply: None })))
    }

    /// Records the reply to request number `seq`.
    pub fn reply(&self, seq: usize, reply: Reply) {
        let mut log = self.lock();
        let at = seq.checked_sub(log.first);
        if let Some(Entry { what: Happening::Request(exchange), .. }) = at.and_then(|at| log.entries.get_mut(at)) {
            let body = reply.body.clone();
            exchange.reply = Some(reply);
            log.count(body.iter());
        }
        drop(log);
        self.news.notify_waiters();
    }

    /// Records a change of an object, at the moment of its commit, and says its position.
    pub fn change(&self, at: Duration, origin: impl Into<Origin>, change: Change) -> usize {
        self.push(at, origin.into(), Happening::Change(Box::new(change)))
    }

    /// Attributes the change at position `seq` to `origin` and its request number `request`: for records that are made
    /// from outside of the server, where this comes to light only with the reply.
    pub fn attribute(&self, seq: usize, origin: impl Into<Origin>, request: usize) {
        let mut log = self.lock();
        let at = seq.checked_sub(log.first);
        if let Some(entry) = at.and_then(|at| log.entries.get_mut(at))
            && let Happening::Change(change) = &mut entry.what
        {
            entry.origin = origin.into();
            change.request = Some(request);
        }
    }

    /// Records what the harness did to the world.
    pub fn note(&self, at: Duration, text: impl Into<String>) {
        self.push(at, Origin::Test, Happening::Note(text.into()));
    }

    /// Number of entries so far, forgotten ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        let log = self.lock();
        log.first + log.entries.len()
    }

    /// Whether nothing was recorded yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of all entries; objects in it are shared, not copied.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }

    /// Looks at the entries in place. Do not record from within `look`.
    ///
    /// ```
    /// use http::Method;
    /// use plumbline_apiserver::record::Happening;
    /// use plumbline_apiserver::{ApiRequest, ApiServer, clock};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// clock::run_virtual(async {
    ///     let server = ApiServer::builder().build();
    ///     server.handle(ApiRequest::new(Method::GET, "/api/v1/nodes")).await;
    ///     let verbs: Vec<String> = server.transcript().with(|entries| {
    ///         let requests = entries.iter().filter_map(|entry| match &entry.what {
    ///             Happening::Request(exchange) => Some(exchange.request.verb.clone()),
    ///             _ => None,
    ///         });
    ///         requests.collect()
    ///     });
    ///     assert_eq!(verbs, ["list"]);
    /// })
    /// # }
    /// ```
    pub fn with<T>(&self, look: impl FnOnce(&[Entry]) -> T) -> T {
        look(&self.lock().entries)
    }
}
