//! The object store: encoded objects with the few decoded fields that selectors and indexes need.
//! See `staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go`.
//!
//! There is one resourceVersion counter for all resources, like etcd's revision. Each resource has an ordered map of
//! objects (keys are `namespace/name` or `name`, compared as bytes, which is etcd's order) and a log of changes. The
//! log serves watches that resume, lists at an older resourceVersion, and further pages of a list that must agree
//! with the first.
//!
//! Objects are stored encoded because nearly every read sends them as they are: an object is encoded once, lists are
//! concatenated, and all watchers share one buffer per event. Long parts that many objects have in common are stored
//! once.
//!
//! The lock is never held across an await. Expensive work happens before it is taken (encoding, in [`Draft`], and
//! finding shared parts) or after it is released (waking watchers, dropping old log entries).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use parking_lot::Mutex;

mod content;
mod interner;
mod object;
mod page_counts;
#[cfg(test)]
mod tests;

pub use object::StoredObject;
pub(crate) use object::{Draft, EventType, LogEntry, SelectableValues, key};

/// The group and plural name of a stored resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceId {
    /// API group, empty for core.
    pub group: Arc<str>,
    /// Plural name, such as `pods`.
    pub resource: Arc<str>,
}

impl ResourceId {
    /// Creates an id.
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

impl std::fmt::Display for ResourceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        super::status::GroupResource::new(&self.group, &self.resource).fmt(f)
    }
}

/// The reason for which a write was rejected.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// The object does not exist.
    NotFound,
    /// The object exists already (creation), in this state.
    Exists(Arc<StoredObject>),
    /// The object is at another resourceVersion, in this state.
    Changed(Arc<StoredObject>),
}

/// The result of a write.
#[derive(Debug)]
pub(crate) struct CommitResult {
    /// The previous state, if any.
    pub old: Option<Arc<StoredObject>>,
    /// The new state; for a deletion the last state with the resourceVersion of the deletion.
    pub new: Arc<StoredObject>,
    /// `false` if the content was identical: such a write keeps the resourceVersion and makes no watch event.
    pub changed: bool,
}

/// The requested resourceVersion is older than the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactedError {
    /// The oldest resourceVersion that is still available.
    pub oldest: u64,
}

/// The limits of a resource's log.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Maximum number of log entries.
    pub entries: usize,
    /// Maximum number of bytes of encoded events.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { entries: 65_536, bytes: 64 << 20 }
    }
}

/// The objects and change logs of one server.
#[derive(Debug)]
pub(crate) struct Store {
    inner: Mutex<StoreState>,
    parts: Mutex<interner::Interner<[u8]>>,
    /// Label keys and values, node names and phases, which repeat from object to object.
    words: Mutex<interner::Interner<str>>,
    pages: page_counts::PageCounts,
    limits: HistoryLimits,
    /// Number of writes to configurations of admission.
    admission_writes: AtomicU64,
    /// Number of writes to flow schemas and priority levels.
    flow_writes: AtomicU64,
}

#[derive(Debug)]
struct StoreState {
    revision: u64,
    compacted: u64,
    resources: BTreeMap<ResourceId, ResourceTable>,
    next_watch: u64,
}

#[derive(Debug, Default)]
struct ResourceTable {
    objects: BTreeMap<Arc<str>, Arc<StoredObject>>,
    by_node: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    log: VecDeque<Arc<LogEntry>>,
    log_bytes: usize,
    /// Number of log entries dropped so far, which is the position of the log's front.
    dropped: u64,
    /// The resourceVersion of the newest dropped entry.
    forgotten: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// The API groups whose writes are counted.
const ADMISSION_GROUP: &str = "admissionregistration.k8s.io";
const FLOW_GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The field that has an index.
const INDEXED_FIELD: &str = "spec.nodeName";

/// The part of a resource's objects that a read selects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyRange<'a> {
    /// Selects one namespace.
    pub namespace: Option<&'a str>,
    /// Selects the object with this name (in every namespace, unless `namespace` is set).
    pub name: Option<&'a str>,
    /// Selects the objects on this node, by the index.
    pub node: Option<&'a str>,
    /// Selects keys greater than this one.
    pub after: Option<&'a str>,
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct ListPage {
    /// The objects in key order.
    pub objects: Vec<Arc<StoredObject>>,
    /// The resourceVersion of the list.
    pub revision: u64,
    /// Number of objects after this page; with a selector, 1 if there are any.
    pub left: usize,
}

type ObjectIter<'s> = Box<dyn Iterator<Item = &'s Arc<StoredObject>> + 's>;
type Snapshot<'s> = BTreeMap<&'s str, Option<&'s Arc<StoredObject>>>;

/// The position of a watch in the log of its resource.
#[derive(Debug)]
pub(crate) struct WatchCursor {
    id: u64,
    resource: ResourceId,
    position: u64,
}

/// The result of [`Store::poll_events`].
#[derive(Debug)]
pub(crate) enum EventPoll {
    /// The next events.
    Events(Vec<Arc<LogEntry>>),
    /// There are no newer events.
    Idle {
        /// The newest resourceVersion of all resources.
        revision: u64,
    },
    /// The log dropped events before this watcher read them.
    Compacted(CompactedError),
}

impl Default for Store {
    fn default() -> Self {
        Self::new(HistoryLimits::default())
    }
}

impl Store {
    /// Creates an empty store. Its resourceVersion is 1, as in etcd, so the first write gets 2.
    pub(crate) fn new(limits: HistoryLimits) -> Self {
        let inner = StoreState { revision: 1, compacted: 0, resources: BTreeMap::new(), next_watch: 0 };
        let parts = Mutex::default();
        let words = Mutex::default();
        let admission_writes = AtomicU64::new(0);
        let flow_writes = AtomicU64::new(0);
        let pages = page_counts::PageCounts::default();
        Self { inner: Mutex::new(inner), parts, words, pages, limits, admission_writes, flow_writes }
    }

    /// Assembles the object of `draft` without a resourceVersion, sharing the parts that `old` and other objects have
    /// too.
    fn assemble(&self, mut draft: Draft, old: Option<&StoredObject>) -> StoredObject {
        // Nearly all parts and words of a changed object are in its old state, so the locks are seldom needed.
        let mut parts = None;
        let content = draft.share(old, &mut |part| parts.get_or_insert_with(|| self.parts.lock()).get(part));
        drop(parts);
        let mut words = None;
        draft.assemble(content, old, &mut |word| words.get_or_insert_with(|| self.words.lock()).get(word))
    }

    /// Returns the newest resourceVersion.
    pub(crate) fn revision(&self) -> u64 {
        self.inner.lock().revision
    }

    /// Returns the number of writes to configurations of admission, which are compiled again when it changes.
    pub(crate) fn admission_writes(&self) -> u64 {
        self.admission_writes.load(Ordering::Acquire)
    }

    /// Returns the number of writes to flow schemas and priority levels, which are read again when it changes.
    #[cfg(feature = "listener")]
    pub(crate) fn flow_writes(&self) -> u64 {
        self.flow_writes.load(Ordering::Acquire)
    }

    fn count_write(&self, resource: &ResourceId) {
        let writes = match &*resource.group {
            ADMISSION_GROUP => &self.admission_writes,
            FLOW_GROUP => &self.flow_writes,
            _ => return,
        };
        writes.fetch_add(1, Ordering::Release);
    }

    /// Returns the resources that have or had objects.
    pub(crate) fn resources(&self) -> Vec<ResourceId> {
        self.inner.lock().resources.keys().cloned().collect()
    }

    /// Returns the object under `key`.
    pub(crate) fn get(&self, resource: &ResourceId, key: &str) -> Option<Arc<StoredObject>> {
        self.inner.lock().resources.get(resource)?.objects.get(key).cloned()
    }

    /// Returns the objects of `range` in key order, and the resourceVersion of the list.
    pub(crate) fn list(&self, resource: &ResourceId, range: KeyRange<'_>) -> (Vec<Arc<StoredObject>>, u64) {
        let inner = self.inner.lock();
        let objects = inner.resources.get(resource).map(|shelf| shelf.collect(range)).unwrap_or_default();
        (objects, inner.revision)
    }

    /// Returns the first `limit` objects of `range` that `select` accepts, now or as they were at `revision`.
    ///
    /// # Errors
    ///
    /// [`CompactedError`] if the log does not go back to `revision`.
    pub(crate) fn page(
        &self,
        resource: &ResourceId,
        range: KeyRange<'_>,
        revision: Option<u64>,
        limit: usize,
        select: Option<&dyn Fn(&StoredObject) -> bool>,
    ) -> Result<ListPage, CompactedError> {
        let inner = self.inner.lock();
        let at = revision.unwrap_or(inner.revision);
        let Some(shelf) = inner.resources.get(resource) else {
            return if at < inner.compacted {
                Err(CompactedError { oldest: inner.compacted })
            } else {
                Ok(ListPage { objects: Vec::new(), revision: at, left: 0 })
            };
        };
        let past = if at < inner.revision { shelf.changes_since(at, inner.compacted)? } else { BTreeMap::new() };
        let mut objects = if past.is_empty() { shelf.objects(range) } else { shelf.objects_at(range, past) };
        let Some(select) = select else {
            let page: Vec<_> = objects.by_ref().take(limit).cloned().collect();
            let known = self.pages.left(resource, &range, at).map(|left| left.saturating_sub(page.len()));
            let left = known.unwrap_or_else(|| objects.count());
            if let Some(last) = page.last() {
                self.pages.put(resource, &range, at, &last.key, left);
            }
            return Ok(ListPage { objects: page, revision: at, left });
        };
        let page: Vec<_> = objects.by_ref().filter(|stored| select(stored)).take(limit).cloned().collect();
        // Looks for one more object only: the next page does the rest of the search.
        let left = if page.len() == limit { usize::from(objects.next().is_some()) } else { 0 };
        Ok(ListPage { objects: page, revision: at, left })
    }

    /// Returns the objects of `range` as they were at `revision`.
    ///
    /// # Errors
    ///
    /// [`CompactedError`] if the log does not go back to `revision`.
    #[cfg(test)]
    pub(crate) fn list_at(
        &self,
        resource: &ResourceId,
        range: KeyRange<'_>,
        revision: u64,
    ) -> Result<Vec<Arc<StoredObject>>, CompactedError> {
        self.page(resource, range, Some(revision), usize::MAX, None).map(|page| page.objects)
    }
    /// Stores a new object.
    ///
    /// # Errors
    ///
    /// [`CommitError::Exists`] if the key is taken.
    pub(crate) fn create(&self, resource: &ResourceId, draft: Draft) -> Result<CommitResult, CommitError> {
        let mut stored = self.assemble(draft, None);
        let mut inner = self.inner.lock();
        stored.revision = inner.revision + 1;
        let shelf = inner.resources.entry(resource.clone()).or_default();
        if let Some(existing) = shelf.objects.get(&stored.key) {
            return Err(CommitError::Exists(existing.clone()));
        }
        let stored = Arc::new(stored);
        let left = inner.commit(resource, EventType::Added, stored.clone(), None, self.limits);
        drop(inner);
        self.count_write(resource);
        left.finish();
        Ok(CommitResult { old: None, new: stored, changed: true })
    }

    /// Replaces the object whose current state is `from`.
    ///
    /// # Errors
    ///
    /// [`CommitError::NotFound`], or [`CommitError::Changed`] if the object is at another resourceVersion.
    pub(crate) fn update(
        &self,
        resource: &ResourceId,
        from: &StoredObject,
        draft: Draft,
    ) -> Result<CommitResult, CommitError> {
        let mut stored = self.assemble(draft, Some(from));
        let mut inner = self.inner.lock();
        let old = inner.expect(resource, &stored.key, from.revision)?;
        if old.content_eq(&stored) {
            return Ok(CommitResult { old: Some(old.clone()), new: old, changed: false });
        }
        stored.revision = inner.revision + 1;
        let stored = Arc::new(stored);
        let left = inner.commit(resource, EventType::Modified, stored.clone(), Some(old.clone()), self.limits);
        drop(inner);
        self.count_write(resource);
        left.finish();
        Ok(CommitResult { old: Some(old), new: stored, changed: true })
    }

    /// Removes the object if it is at resourceVersion `expected`.
    ///
    /// # Errors
    ///
    /// The same as for [`Store::update`].
    pub(crate) fn delete(&self, resource: &ResourceId, key: &str, expected: u64) -> Result<CommitResult, CommitError> {
        let mut inner = self.inner.lock();
        let old = inner.expect(resource, key, expected)?;
        let revision = inner.revision + 1;
        let gone = Arc::new(old.with_revision(revision));
        let left = inner.commit(resource, EventType::Deleted, gone.clone(), Some(old.clone()), self.limits);
        drop(inner);
        self.count_write(resource);
        left.finish();
        Ok(CommitResult { old: Some(old), new: gone, changed: true })
    }

    /// Drops the log up to `revision`: older watches and lists get 410 from now on.
    pub(crate) fn compact(&self, revision: u64) {
        let mut inner = self.inner.lock();
        let revision = revision.min(inner.revision);
        inner.compacted = inner.compacted.max(revision);
        for shelf in inner.resources.values_mut() {
            while shelf.log.front().is_some_and(|entry| entry.current.revision <= revision) {
                shelf.take_oldest();
            }
        }
    }

    /// Opens a watch of the changes after `revision`.
    ///
    /// # Errors
    ///
    /// [`CompactedError`] if the log does not go back to `revision`.
    pub(crate) fn watch_from(&self, resource: &ResourceId, revision: u64) -> Result<WatchCursor, CompactedError> {
        let mut inner = self.inner.lock();
        inner.next_watch += 1;
        let id = inner.next_watch;
        let compacted = inner.compacted;
        let shelf = inner.resources.entry(resource.clone()).or_default();
        let oldest = shelf.forgotten.max(compacted);
        if revision < oldest {
            return Err(CompactedError { oldest });
        }
        let ahead = shelf.log.partition_point(|entry| entry.current.revision <= revision);
        Ok(WatchCursor { id, resource: resource.clone(), position: shelf.dropped + ahead as u64 })
    }

    /// Lists `range` and opens a watch from that point: returns the objects, their resourceVersion and the cursor.
    pub(crate) fn list_and_watch(
        &self,
        resource: &ResourceId,
        range: KeyRange<'_>,
    ) -> (Vec<Arc<StoredObject>>, u64, WatchCursor) {
        let mut inner = self.inner.lock();
        inner.next_watch += 1;
        let id = inner.next_watch;
        let revision = inner.revision;
        let shelf = inner.resources.entry(resource.clone()).or_default();
        let position = shelf.dropped + shelf.log.len() as u64;
        (shelf.collect(range), revision, WatchCursor { id, resource: resource.clone(), position })
    }

    /// Returns up to `limit` events after `cursor`; if there are none, the next change wakes `context`.
    pub(crate) fn poll_events(&self, cursor: &mut WatchCursor, limit: usize, context: &Context<'_>) -> EventPoll {
        let mut inner = self.inner.lock();
        let compacted = inner.compacted;
        let revision = inner.revision;
        // `watch_from` and `list_and_watch` create the entry, and entries are never removed.
        let Some(shelf) = inner.resources.get_mut(&cursor.resource) else { return EventPoll::Idle { revision } };
        if cursor.position < shelf.dropped {
            return EventPoll::Compacted(CompactedError { oldest: shelf.forgotten.max(compacted) });
        }
        let skip = (cursor.position - shelf.dropped) as usize;
        if skip >= shelf.log.len() {
            shelf.wakers.insert(cursor.id, context.waker().clone());
            return EventPoll::Idle { revision };
        }
        let events: Vec<_> = shelf.log.range(skip..).take(limit).cloned().collect();
        cursor.position += events.len() as u64;
        EventPoll::Events(events)
    }

    /// Closes a watch.
    pub(crate) fn unwatch(&self, cursor: &WatchCursor) {
        if let Some(shelf) = self.inner.lock().resources.get_mut(&cursor.resource) {
            shelf.wakers.remove(&cursor.id);
        }
    }
}

impl StoreState {
    fn expect(&self, resource: &ResourceId, key: &str, expected: u64) -> Result<Arc<StoredObject>, CommitError> {
        let old = self.resources.get(resource).and_then(|shelf| shelf.objects.get(key));
        match old {
            None => Err(CommitError::NotFound),
            Some(old) if old.revision != expected => Err(CommitError::Changed(old.clone())),
            Some(old) => Ok(old.clone()),
        }
    }

    fn commit(
        &mut self,
        resource: &ResourceId,
        event_type: EventType,
        current: Arc<StoredObject>,
        previous: Option<Arc<StoredObject>>,
        limits: HistoryLimits,
    ) -> PostCommit {
        self.revision = current.revision;
        let Some(shelf) = self.resources.get_mut(resource) else { return PostCommit::default() };
        let moves = |previous: &StoredObject| {
            event_type == EventType::Deleted || previous.field(INDEXED_FIELD) != current.field(INDEXED_FIELD)
        };
        if let Some(previous) = previous.as_deref().filter(|previous| moves(previous)) {
            shelf.unindex(previous);
        }
        if event_type == EventType::Deleted {
            shelf.objects.remove(&current.key);
        } else {
            if previous.as_deref().is_none_or(moves) {
                shelf.index(&current);
            }
            shelf.objects.insert(current.key.clone(), current.clone());
        }
        let entry = LogEntry::new(event_type, current, previous);
        shelf.log_bytes += entry.size();
        shelf.log.push_back(Arc::new(entry));
        let mut forgotten = Vec::new();
        while shelf.log.len() > limits.entries || (shelf.log_bytes > limits.bytes && shelf.log.len() > 1) {
            forgotten.extend(shelf.take_oldest());
        }
        PostCommit { wakers: std::mem::take(&mut shelf.wakers), forgotten }
    }
}

/// The work that remains after a write, done when the lock is released.
#[derive(Default)]
struct PostCommit {
    wakers: BTreeMap<u64, Waker>,
    /// Log entries to drop; they may hold the last reference to large objects.
    forgotten: Vec<Arc<LogEntry>>,
}

impl PostCommit {
    fn finish(self) {
        self.wakers.into_values().for_each(Waker::wake);
        drop(self.forgotten);
    }
}

impl ResourceTable {
    fn take_oldest(&mut self) -> Option<Arc<LogEntry>> {
        let entry = self.log.pop_front()?;
        self.log_bytes -= entry.size();
        self.dropped += 1;
        self.forgotten = entry.current.revision;
        Some(entry)
    }

    fn index(&mut self, stored: &StoredObject) {
        if let Some((_, node)) =
            stored.fields.iter().find(|(field, value)| *field == INDEXED_FIELD && !value.is_empty())
        {
            self.by_node.entry(node.clone()).or_default().insert(stored.key.clone());
        }
    }

    fn unindex(&mut self, stored: &StoredObject) {
        if let Some(node) = stored.field(INDEXED_FIELD).filter(|node| !node.is_empty())
            && let Some(keys) = self.by_node.get_mut(node)
        {
            keys.remove(&stored.key);
            if keys.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    /// Returns the objects that have changed since `revision`, each with its state then (`None` if it did not exist).
    fn changes_since(&self, revision: u64, compacted: u64) -> Result<Snapshot<'_>, CompactedError> {
        let oldest = self.forgotten.max(compacted);
        if revision < oldest {
            return Err(CompactedError { oldest });
        }
        let later = self.log.iter().rev().take_while(|entry| entry.current.revision > revision);
        Ok(later.map(|entry| (&*entry.current.key, entry.previous.as_ref())).collect())
    }

    fn collect(&self, range: KeyRange<'_>) -> Vec<Arc<StoredObject>> {
        self.objects(range).cloned().collect()
    }

    /// Returns the objects of `range` in key order.
    fn objects<'s>(&'s self, range: KeyRange<'s>) -> ObjectIter<'s> {
        if let (Some(namespace), Some(name)) = (range.namespace, range.name) {
            let wanted = key(namespace, name);
            return Box::new(self.objects.get(wanted.as_str()).into_iter().filter(move |s| range.contains(s)));
        }
        if let Some(node) = range.node.filter(|node| !node.is_empty()) {
            let keys = self.by_node.get(node).into_iter().flatten();
            return Box::new(keys.filter_map(|key| self.objects.get(key)).filter(move |s| range.contains(s)));
        }
        // All keys of a namespace lie between `namespace/` and `namespace0`: `0` is the character after the slash.
        let bounds = range.namespace.map(|namespace| (format!("{namespace}/"), format!("{namespace}0")));
        let bounds = bounds.as_ref().map(|(first, end)| (first.as_str(), end.as_str()));
        let from = match (bounds, range.after) {
            (Some((first, _)), Some(after)) if after < first => Bound::Included(first),
            (Some((_, end)), Some(after)) if after >= end => return Box::new(std::iter::empty()),
            (_, Some(after)) => Bound::Excluded(after),
            (Some((first, _)), None) => Bound::Included(first),
            (None, None) => Bound::Unbounded,
        };
        let to = bounds.map_or(Bound::Unbounded, |(_, end)| Bound::Excluded(end));
        let objects = self.objects.range::<str, _>((from, to)).map(|(_, stored)| stored);
        if range.name.is_none() && range.node.is_none() {
            return Box::new(objects);
        }
        Box::new(objects.filter(move |s| range.contains(s)))
    }

    /// Returns the objects of `range` in key order as they were then, given the changes since in `past`.
    fn objects_at<'s>(&'s self, range: KeyRange<'s>, past: Snapshot<'s>) -> ObjectIter<'s> {
        let then: Vec<&Arc<StoredObject>> = past.values().copied().flatten().filter(|s| range.contains(s)).collect();
        let mut then = then.into_iter().peekable();
        let mut now = self.objects(range).filter(move |s| !past.contains_key(&*s.key)).peekable();
        Box::new(std::iter::from_fn(move || match (now.peek(), then.peek()) {
            (Some(unchanged), Some(changed)) if unchanged.key < changed.key => now.next(),
            (Some(_), None) => now.next(),
            _ => then.next(),
        }))
    }
}

impl KeyRange<'_> {
    fn contains(&self, stored: &StoredObject) -> bool {
        self.namespace.is_none_or(|namespace| stored.namespace() == namespace)
            && self.name.is_none_or(|name| stored.name() == name)
            && self.node.is_none_or(|node| stored.field(INDEXED_FIELD) == Some(node))
            && self.after.is_none_or(|after| &*stored.key > after)
    }
}
