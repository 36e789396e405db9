//! The server's record of every request, its reply and every change of an object, in order.
//!
//! Clients cannot forge it. The entry of a request is written when the request arrives; the reply is filled in later
//! (never, if it was lost), so the order of entries is the order of arrivals and commits. An [`Origin`] names the
//! originator: a client with its user agent and its authenticated user, the server itself, or the program that embeds
//! it. A [`Delivery`] is a watch event, with its watch and its place between the entries.

mod delivery;
mod entry;
mod json;
mod log;
mod names;
mod origin;

use std::sync::Arc;
use std::time::Duration;

pub use delivery::{DeliveredObject, Delivery};
pub use entry::{Change, ChangeKind, EntryKind, Exchange, RecordedReply, RecordedRequest, TranscriptEntry};
pub(crate) use json::Encoding;
pub use json::RecordedJson;
use log::Log;
pub use names::RecordedNames;
pub use origin::Origin;
use parking_lot::Mutex;

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
