//! The store of one kind, and the changes that a write reports.

use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::indexer::Indexer;
use crate::api::cache_object::CacheObject;
use crate::api::object_key::ObjectKey;
use crate::api::selector::Selector;

/// A change of an object in the cache.
#[derive(Clone, Debug)]
pub enum Change<V> {
    /// The object was not in the cache before.
    Added(Arc<V>),
    /// The object was in the cache under the same UID. After a re-list this is reported for every object that still
    /// exists, even an unchanged one (`Arc::ptr_eq(old, new)`), as client-go does.
    Updated {
        /// The previously cached object.
        old: Arc<V>,
        /// The object that is cached now.
        new: Arc<V>,
    },
    /// The object is deleted. This is the last state we saw, which may be older than the state at deletion. Undo what
    /// that state caused.
    Deleted(Arc<V>),
}

impl<V> Change<V> {
    /// Returns the newest known state of the object.
    pub fn object(&self) -> &Arc<V> {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted(object) => object,
        }
    }
}

/// Objects of one kind, ordered by namespace and name, with the indexes of [`CacheObject::INDEXES`] and an index by
/// labels for kinds that are selected by labels.
#[derive(Debug)]
pub struct Store<V> {
    inner: RwLock<Indexer<V>>,
}

impl<V: CacheObject> Default for Store<V> {
    fn default() -> Self {
        Self { inner: RwLock::new(Indexer::default()) }
    }
}

impl<V: CacheObject> Store<V> {
    /// Inserts `object`, replacing the object with the same key. A different UID means that one object was deleted and
    /// another one created.
    pub fn apply(&self, object: Arc<V>) -> Vec<Change<V>> {
        let old = self.write().insert(Arc::clone(&object));
        changes(old, object)
    }

    /// Removes the object `last`. Reports its cached state: the final state may have other labels, of which no handler
    /// was notified.
    ///
    /// If the cache has another UID under the key, the versions decide. An older event is late, and the newer object
    /// stays. A newer one is about a successor that the cache never had, because events can be merged: then the
    /// cached object is gone, too, as client-go takes it.
    pub fn remove(&self, last: &V) -> Vec<Change<V>> {
        let mut inner = self.write();
        let is_gone = |stored: &&Arc<V>| stored.uid() == last.uid() || is_newer::<V>(last, stored);
        match inner.get(last.key_ref()).filter(is_gone).cloned() {
            Some(stored) => {
                inner.remove(stored.key_ref());
                vec![Change::Deleted(stored)]
            }
            None => Vec::new(),
        }
    }

    /// Replaces the whole content at once and reports the differences in key order: existing objects first, then
    /// deleted ones. Readers see either the old or the new content. Of two objects with the same key, the later one
    /// wins.
    pub fn replace(&self, mut objects: Vec<Arc<V>>) -> Vec<Change<V>> {
        // Stable; lists arrive in this order anyway.
        objects.sort_by(|a, b| a.key_ref().cmp(&b.key_ref()));
        objects.reverse();
        objects.dedup_by(|a, b| a.key_ref() == b.key_ref());
        objects.reverse();
        let mut inner = self.write();
        let mut old = std::mem::take(&mut *inner).into_objects().peekable();
        let mut result = Vec::with_capacity(objects.len());
        let mut gone = Vec::new();
        for object in &objects {
            while let Some(before) = old.next_if(|stored| stored.key_ref() < object.key_ref()) {
                gone.push(Change::Deleted(before));
            }
            let same_key = old.next_if(|stored| stored.key_ref() == object.key_ref());
            result.extend(changes(same_key, Arc::clone(object)));
        }
        result.extend(gone);
        result.extend(old.map(Change::Deleted));
        *inner = Indexer::from_sorted(objects);
        result
    }

    /// Returns the cached object with this key if it has the same UID and resource version.
    pub(in crate::runtime) fn find_same_version(&self, object: &V) -> Option<Arc<V>> {
        self.read().get(object.key_ref()).filter(|stored| same_version::<V>(stored, object)).cloned()
    }

    pub(in crate::runtime) fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.read().get((&key.namespace, &key.name)).cloned()
    }

    pub(in crate::runtime) fn list(&self) -> Vec<Arc<V>> {
        self.read().objects().cloned().collect()
    }

    pub(in crate::runtime) fn list_namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        self.read().namespace(namespace).cloned().collect()
    }

    pub(in crate::runtime) fn by_index(&self, index: &str, value: &str) -> Vec<Arc<V>> {
        self.read().by_index(index, value)
    }

    pub(in crate::runtime) fn select(&self, namespace: &str, selector: &Selector) -> Vec<Arc<V>> {
        self.read().select(namespace, selector)
    }

    pub(in crate::runtime) fn len(&self) -> usize {
        self.read().len()
    }

    pub(in crate::runtime) fn checksum(&self) -> u64 {
        self.read().checksum()
    }

    pub(in crate::runtime) fn for_each(&self, visit: impl FnMut(&Arc<V>)) {
        self.read().objects().for_each(visit);
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Indexer<V>> {
        self.inner.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Indexer<V>> {
        self.inner.write()
    }
}

fn same_version<V: CacheObject>(a: &V, b: &V) -> bool {
    a.uid() == b.uid() && a.resource_version() == b.resource_version() && !a.resource_version().is_empty()
}

/// Returns true if the version of `a` is newer than that of `b`. Versions are numbers since Kubernetes 1.35 (KEP-5504).
fn is_newer<V: CacheObject>(a: &V, b: &V) -> bool {
    let version = |object: &V| object.resource_version().parse::<u64>().ok();
    version(a).zip(version(b)).is_some_and(|(a, b)| a > b)
}

fn changes<V: CacheObject>(old: Option<Arc<V>>, new: Arc<V>) -> Vec<Change<V>> {
    match old {
        None => vec![Change::Added(new)],
        Some(old) if old.uid() == new.uid() => vec![Change::Updated { old, new }],
        Some(old) => vec![Change::Deleted(old), Change::Added(new)],
    }
}
