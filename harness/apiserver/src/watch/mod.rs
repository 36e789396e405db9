//! A watch: the log of a resource as a stream of events for one client.
//!
//! The events agree with `staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go`: objects that start to
//! match the selector arrive as `ADDED`, those that stop matching as `DELETED`. The stream reads the log when it is
//! polled and stores only its position, so a slow client costs no memory. It spawns no task: dropping the stream
//! closes the watch.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;

use super::faults::{WatchEnd, WatchGateState, WatchRegistration};
use super::go_json;
use super::negotiate::Representation;
use super::printers;
use super::protobuf;
use super::record::DeliveredObject;
use super::registry::Resource;
use super::request::BodyStream;
use super::schema;
use super::selectors::ListSelector;
use super::server::ApiServer;
use super::status::Status;
use super::store::{CompactedError, EventPoll, EventType, LogEntry, ResourceId, StoredObject, WatchCursor};
use crate::json::{Map, Value};

/// Server time between two bookmarks.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// Time before a watch's timeout at which its last bookmark is sent.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Maximum number of events read from the log at once.
const BATCH: usize = 256;
/// On the wall clock, the pause between sending events and reading the log again. Under many writes, many watchers
/// would otherwise wake up and make a system call for each event. The first event after a quiet period is sent
/// immediately.
const BATCH_DELAY: Duration = Duration::from_millis(1);

/// The state of an object before the first of several events, and the last event.
type CoalescedChange = (Option<Arc<StoredObject>>, Arc<LogEntry>);

type SleepFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The starting point of a watch.
pub(crate) struct WatchStart {
    /// Objects sent as `ADDED` before all other events.
    pub(crate) initial: Vec<Arc<StoredObject>>,
    /// The position in the log.
    pub(crate) cursor: WatchCursor,
    /// Events up to this resourceVersion are skipped.
    pub(crate) after: u64,
    /// The resourceVersion of the bookmark with `k8s.io/initial-events-end` after the initial objects, if it is
    /// wanted.
    pub(crate) initial_end: Option<u64>,
}

/// The selection and representation of a watch's objects.
#[derive(Clone)]
pub(crate) struct WatchScope {
    pub(crate) kind: Arc<Resource>,
    pub(crate) resource: ResourceId,
    pub(crate) namespace: Option<String>,
    pub(crate) selection: ListSelector,
    pub(crate) transform: Option<(Representation, printers::TableOptions)>,
    pub(crate) bookmarks: bool,
    pub(crate) encoding: EventEncoding,
    /// Entry of the request in the transcript, if requests are recorded.
    pub(crate) request: Option<usize>,
    /// Events have the state before the change as `previous`, for the selection after a conversion. They are JSON.
    pub(crate) with_previous: bool,
}

/// The encoding of a watch's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventEncoding {
    /// Lines of JSON.
    Json,
    /// Frames of protobuf.
    Protobuf,
}

/// An event that waits to be sent, with its object unless it is a bookmark or an error.
type QueuedEvent = (Bytes, Option<DeliveredObject>);

/// The body of a watch that reports one error and ends.
pub fn error_stream(status: &Status) -> BodyStream {
    Watch::error_stream(status)
}

/// An open watch.
pub(crate) struct Watch {
    server: ApiServer,
    view: WatchScope,
    cursor: WatchCursor,
    pass: WatchRegistration,
    after: u64,
    ready: VecDeque<QueuedEvent>,
    /// Number of leading entries of `ready` that belong to the initial list. Faults that hold events back do not hold
    /// these.
    listed: usize,
    end: SleepFuture,
    next_bookmark: Option<SleepFuture>,
    last_bookmark: Option<SleepFuture>,
    broken: Option<SleepFuture>,
    /// Runs during the pause of [`BATCH_DELAY`].
    gathering: Option<SleepFuture>,
    headers_sent: bool,
    /// The usual bookmark with the resourceVersion 0, once it was sent.
    plain_bookmark: Bytes,
    /// The version of the last event that was read from the log.
    seen: u64,
    /// Turns that the next event still waits; `None`: not decided yet.
    turns: Option<u32>,
    /// The watch ends when the log is read.
    draining: bool,
    over: bool,
}

impl Watch {
    /// Opens a watch that ends after `timeout` (immediately and without events if it is zero) and breaks after
    /// `broken_after`.
    pub(crate) fn open(
        server: &ApiServer,
        view: WatchScope,
        opening: WatchStart,
        timeout: Duration,
        broken_after: Option<Duration>,
    ) -> BodyStream {
        if timeout.is_zero() {
            return Box::pin(futures::stream::empty());
        }
        let timer = |after: Duration| -> SleepFuture {
            let clock = server.clock().clone();
            Box::pin(async move { clock.sleep(after).await })
        };
        let mut watch = Self {
            pass: server.faults().enter(&view.resource),
            server: server.clone(),
            cursor: opening.cursor,
            after: opening.after,
            ready: VecDeque::new(),
            listed: 0,
            end: timer(timeout),
            next_bookmark: view.bookmarks.then(|| timer(BOOKMARK_PERIOD)),
            last_bookmark: (view.bookmarks && timeout > BOOKMARK_BEFORE_END)
                .then(|| timer(timeout.saturating_sub(BOOKMARK_BEFORE_END))),
            broken: broken_after.map(timer),
            gathering: None,
            headers_sent: false,
            plain_bookmark: Bytes::new(),
            seen: opening.initial_end.unwrap_or(opening.after),
            turns: None,
            draining: false,
            over: false,
            view,
        };
        for stored in opening.initial {
            if watch.view.selects(&stored) {
                watch.push(EventType::Added, &stored, stored.revision(), None);
            }
        }
        if let Some(revision) = opening.initial_end {
            let bookmark = watch.bookmark(revision, true);
            watch.ready.push_back((bookmark, None));
        }
        watch.listed = watch.ready.len();
        Box::pin(watch)
    }

    /// Returns a stream of a single error event.
    pub(crate) fn error_stream(status: &Status) -> BodyStream {
        Self::error_stream_as(status, EventEncoding::Json)
    }

    /// Returns a stream of a single error event in an encoding.
    pub(crate) fn error_stream_as(status: &Status, encoding: EventEncoding) -> BodyStream {
        let event = error_event(encoding, status);
        Box::pin(futures::stream::once(async move { Ok(event) }))
    }

    /// Queues an event; `of` is the log entry that causes it.
    fn push(&mut self, event_type: EventType, stored: &Arc<StoredObject>, revision: u64, of: Option<&LogEntry>) {
        let encoded = of.filter(|entry| entry.event_type == event_type && Arc::ptr_eq(&entry.current, stored));
        let chunk = match self.view.transform {
            None if self.view.encoding == EventEncoding::Protobuf
                && stored.revision() == revision
                && self.view.kind.shows_as_stored(revision) =>
            {
                let kind = &self.view.kind;
                let raw = stored.protobuf(protobuf::object_message);
                let object = protobuf::envelope(&kind.api_version(), &kind.kind, &raw);
                protobuf::event_frame(event_type.as_str(), &object)
            }
            None if self.view.encoding == EventEncoding::Json && self.view.kind.shows_as_stored(stored.revision()) => {
                encoded.map_or_else(|| stored.event_as(event_type, revision), |entry| entry.event().clone())
            }
            transform => {
                let is_shown = self.view.kind.shows_as_stored(stored.revision());
                let known = if is_shown { self.server.decode_cache().find(stored) } else { None };
                let mut object =
                    known.map_or_else(|| self.view.kind.from_storage(stored.value()), |known| Value::clone(&known));
                if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert("resourceVersion", revision.to_string().into());
                }
                let shown = match transform {
                    None => object,
                    Some((how, render)) => self.apply_transform(how, &render, &object),
                };
                event(self.view.encoding, event_type.as_str(), &shown)
            }
        };
        let previous = of.and_then(|entry| entry.previous.as_ref()).filter(|_| self.view.with_previous);
        let chunk = match previous {
            Some(previous) => with_previous(&chunk, previous),
            None => chunk,
        };
        let object = self.view.request.map(|_| delivered(event_type, stored, revision));
        self.ready.push_back((chunk, object));
    }

    /// Records that an event about `object` leaves the server.
    fn record(&self, object: Option<DeliveredObject>) {
        if let Some((request, object)) = self.view.request.zip(object) {
            self.server.transcript().delivery(self.server.clock().elapsed(), request, object);
        }
    }

    fn apply_transform(&mut self, how: Representation, render: &printers::TableOptions, object: &Value) -> Value {
        let headers = how == Representation::Table && !std::mem::replace(&mut self.headers_sent, true);
        let render = printers::TableOptions { now: self.server.clock().now(), ..*render };
        transformed(&self.view.kind, how, &render, headers, object)
    }

    /// Returns a bookmark event. An idle watch sends nothing else, so the usual form is encoded once; tables differ.
    fn bookmark(&mut self, revision: u64, initial_end: bool) -> Bytes {
        const VERSION: &[u8] = br#""resourceVersion":"0"#;
        let is_table = matches!(self.view.transform, Some((Representation::Table, _)));
        if initial_end || is_table || self.view.encoding != EventEncoding::Json {
            return self.encode_bookmark(revision, initial_end);
        }
        if self.plain_bookmark.is_empty() {
            self.plain_bookmark = self.encode_bookmark(0, false);
        }
        let Some(at) = memchr::memmem::find(&self.plain_bookmark, VERSION) else {
            return self.encode_bookmark(revision, initial_end);
        };
        let (head, tail) = self.plain_bookmark.split_at(at + VERSION.len());
        [&head[..head.len() - 1], revision.to_string().as_bytes(), tail].concat().into()
    }

    /// Encodes a bookmark event.
    fn encode_bookmark(&mut self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion", revision.to_string().into());
        if initial_end {
            let annotations = Map::from_iter([(printers::INITIAL_EVENTS_END, "true")]);
            metadata.insert("annotations", Value::Object(annotations));
        }
        let mut object = schema::builtin(&self.view.kind.schema)
            .and_then(|schema| schema.empty().as_object().cloned())
            .unwrap_or_default();
        object.insert("kind", self.view.kind.kind.as_ref().into());
        object.insert("apiVersion", self.view.kind.api_version().into());
        object.insert("metadata", Value::Object(metadata));
        let object = Value::Object(object);
        match self.view.transform {
            None => event(self.view.encoding, "BOOKMARK", &object),
            Some((how, render)) => {
                let shown = self.apply_transform(how, &render, &object);
                event(self.view.encoding, "BOOKMARK", &shown)
            }
        }
    }

    fn take(&mut self, entries: &[Arc<LogEntry>]) {
        let after_revision = self.after;
        let repeated = self.server.faults().is_repeated(&self.view.resource);
        self.seen = entries.iter().map(|entry| entry.current.revision()).fold(self.seen, u64::max);
        for entry in entries.iter().filter(|entry| entry.current.revision() > after_revision) {
            let before = entry.previous.as_ref().filter(|previous| self.view.selects(previous));
            let after = entry.event_type != EventType::Deleted && self.view.selects(&entry.current);
            let revision = entry.current.revision();
            match (before, after) {
                (None, true) => self.push(EventType::Added, &entry.current, revision, Some(entry)),
                (Some(_), true) => self.push(EventType::Modified, &entry.current, revision, Some(entry)),
                (Some(previous), false) => {
                    let last = if entry.event_type == EventType::Deleted { &entry.current } else { previous };
                    self.push(EventType::Deleted, last, revision, Some(entry));
                }
                (None, false) => continue,
            }
            if repeated && let Some(again) = self.ready.back().cloned() {
                self.ready.push_back(again);
            }
        }
    }

    /// Reads everything up to `revision` and keeps only the last state of each object.
    fn coalesce(&mut self, revision: u64, context: &Context<'_>) {
        let mut first: BTreeMap<Arc<str>, CoalescedChange> = BTreeMap::new();
        while let EventPoll::Events(entries) = self.server.store().poll_events(&mut self.cursor, BATCH, context) {
            for entry in entries {
                let key = entry.current.key().clone();
                let before = first.remove(&key).map_or_else(|| entry.previous.clone(), |(before, _)| before);
                first.insert(key, (before, entry));
            }
        }
        let mut merged: Vec<_> = first
            .into_values()
            .filter_map(|(before, last)| {
                let gone = last.event_type == EventType::Deleted;
                let event_type = match (&before, gone) {
                    (None, true) => return None,
                    (None, false) => EventType::Added,
                    (Some(_), false) => EventType::Modified,
                    (Some(_), true) => EventType::Deleted,
                };
                Some(Arc::new(LogEntry::new(event_type, last.current.clone(), before)))
            })
            .collect();
        merged.sort_by_key(|entry| entry.current.revision());
        tracing::debug!(revision, objects = merged.len(), "delivering held watch events as their last states");
        self.take(&merged);
    }

    /// Makes one step. `None` means that there is nothing to do until a waker is called.
    fn step(&mut self, context: &mut Context<'_>) -> Option<PollStep> {
        match self.server.faults().pass(&mut self.pass, context) {
            WatchGateState::End(WatchEnd::Drained) => self.draining = true,
            WatchGateState::End(end) => return Some(PollStep::End(end)),
            WatchGateState::Coalesce(revision) => {
                self.coalesce(revision, context);
                return Some(PollStep::Continue);
            }
            WatchGateState::Bookmark => {
                // Events that were read but not sent come first.
                let due = self.view.bookmarks && self.ready.is_empty();
                return Some(if due { PollStep::Send(self.bookmark(self.seen, false)) } else { PollStep::Continue });
            }
            WatchGateState::Held if self.listed == 0 => return self.timers(context, None),
            WatchGateState::Held | WatchGateState::Open => {}
        }
        if self.listed == 0 && !self.ready.is_empty() && !self.is_turn(context) {
            return None;
        }
        if let Some((chunk, object)) = self.ready.pop_front() {
            self.listed = self.listed.saturating_sub(1);
            self.record(object);
            return Some(PollStep::Send(chunk));
        }
        if self.gathering.is_some() && !is_due(&mut self.gathering, context) {
            return self.timers(context, None);
        }
        match self.server.store().poll_events(&mut self.cursor, BATCH, context) {
            EventPoll::Events(entries) => {
                self.take(&entries);
                self.gathering = self.gather(entries.len());
                Some(PollStep::Continue)
            }
            EventPoll::Compacted(CompactedError { oldest }) => {
                let gone = error_event(self.view.encoding, &too_old_resource_version(self.after, oldest));
                self.ready.push_back((gone, None));
                self.over = true;
                Some(PollStep::Continue)
            }
            EventPoll::Idle { .. } if self.draining => Some(PollStep::End(WatchEnd::Closed)),
            EventPoll::Idle { revision } => {
                self.seen = self.seen.max(revision);
                self.timers(context, Some(revision))
            }
        }
    }

    /// Returns true if the next event may be sent. Otherwise this task runs again in the next turn.
    fn is_turn(&mut self, context: &Context<'_>) -> bool {
        let resource = &self.view.resource;
        let left = self.turns.take().unwrap_or_else(|| self.server.faults().turns(|| format!("watch {resource:?}")));
        if left > 0 {
            self.turns = Some(left - 1);
            context.waker().wake_by_ref();
        }
        left == 0
    }

    /// Returns the pause before the log is read again after `taken` events; none where time is exact or while there are
    /// more.
    fn gather(&self, taken: usize) -> Option<SleepFuture> {
        let clock = self.server.clock();
        if clock.is_exact() || taken == BATCH {
            return None;
        }
        let clock = clock.clone();
        Some(Box::pin(async move { clock.sleep(BATCH_DELAY).await }))
    }

    fn timers(&mut self, context: &mut Context<'_>, revision: Option<u64>) -> Option<PollStep> {
        if is_due(&mut self.broken, context) {
            return Some(PollStep::End(WatchEnd::Broken));
        }
        if let Some(revision) = revision {
            let last = is_due(&mut self.last_bookmark, context);
            let next = is_due(&mut self.next_bookmark, context);
            if next {
                let clock = self.server.clock().clone();
                self.next_bookmark = Some(Box::pin(async move { clock.sleep(BOOKMARK_PERIOD).await }));
            }
            if last || next {
                return Some(PollStep::Send(self.bookmark(revision, false)));
            }
        }
        self.end.as_mut().poll(context).is_ready().then_some(PollStep::End(WatchEnd::Closed))
    }
}

enum PollStep {
    Send(Bytes),
    Continue,
    End(WatchEnd),
}

fn is_due(timer: &mut Option<SleepFuture>, context: &mut Context<'_>) -> bool {
    let due = timer.as_mut().is_some_and(|timer| timer.as_mut().poll(context).is_ready());
    if due {
        *timer = None;
    }
    due
}

impl Stream for Watch {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let watch = &mut *self;
        loop {
            if watch.over {
                let last = watch.ready.pop_front();
                return Poll::Ready(last.map(|(chunk, object)| {
                    watch.record(object);
                    Ok(chunk)
                }));
            }
            match watch.step(context) {
                Some(PollStep::Send(chunk)) => return Poll::Ready(Some(Ok(chunk))),
                Some(PollStep::Continue) => {}
                Some(PollStep::End(WatchEnd::Closed | WatchEnd::Drained)) => {
                    watch.over = true;
                    watch.ready.clear();
                }
                Some(PollStep::End(WatchEnd::Broken)) => {
                    watch.over = true;
                    watch.ready.clear();
                    return Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())));
                }
                None => {
                    // The log is empty or the pause runs, and the timers were polled after that: all of them will
                    // wake this task.
                    return Poll::Pending;
                }
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.server.store().unwatch(&self.cursor);
        self.server.faults().leave(&self.pass);
    }
}

impl WatchScope {
    fn selects(&self, stored: &StoredObject) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| stored.namespace() == namespace)
            && self.selection.matches(&self.kind, stored)
    }
}

/// Adds the state before the change to an event.
fn with_previous(event: &[u8], previous: &StoredObject) -> Bytes {
    let mut line = event.strip_suffix(b"}\n").unwrap_or(event).to_vec();
    line.extend_from_slice(b",\"previous\":");
    previous.write(&mut line);
    line.extend_from_slice(b"}\n");
    line.into()
}

/// Returns the object of an event for the transcript.
fn delivered(event_type: EventType, stored: &StoredObject, resource_version: u64) -> DeliveredObject {
    let namespace = Some(stored.namespace()).filter(|namespace| !namespace.is_empty()).map(Arc::from);
    DeliveredObject { kind: event_type.into(), namespace, name: stored.name().into(), resource_version }
}

/// Returns the error for a resourceVersion that is older than the log.
pub(crate) fn too_old_resource_version(wanted: u64, oldest: u64) -> Status {
    Status::expired(format!("too old resource version: {wanted} ({oldest})"))
}

/// Returns an object in another representation; tables have `headers` in their first event.
pub(crate) fn transformed(
    kind: &Resource,
    how: Representation,
    render: &printers::TableOptions,
    headers: bool,
    object: &Value,
) -> Value {
    match how {
        Representation::Table => printers::table_of_object(&kind.printer(), object, render, headers),
        Representation::PartialObjectMetadata | Representation::PartialObjectMetadataList => {
            printers::partial_metadata(&kind.internal(object), render.version)
        }
    }
}

/// Encodes an event.
pub(crate) fn event(encoding: EventEncoding, event_type: &str, object: &Value) -> Bytes {
    if encoding == EventEncoding::Protobuf
        && let Some(object) = protobuf::from_json(object)
    {
        return protobuf::event_frame(event_type, &object);
    }
    let mut line = format!("{{\"type\":\"{event_type}\",\"object\":").into_bytes();
    go_json::write_object(&mut line, object);
    line.extend_from_slice(b"}\n");
    line.into()
}

fn error_event(encoding: EventEncoding, status: &Status) -> Bytes {
    event(encoding, "ERROR", &status.to_value())
}

#[cfg(test)]
mod tests;
