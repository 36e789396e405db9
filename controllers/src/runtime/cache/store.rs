//! Ordered, indexed object caches. Written by one informer, read through [`Lister`]s.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::indexer::Indexer;
use crate::api::cache_object::CacheObject;
use crate::api::object_key::ObjectKey;
use crate::api::selector::Selector;

/// What happened to an object in the cache.
#[derive(Clone, Debug)]
pub enum Change<V> {
    /// The object was not in the cache before.
    Added(Arc<V>),
    /// The object was in the cache under the same UID. After a re-list this is delivered for every object that is still
    /// there, also for an unchanged one (`Arc::ptr_eq(old, new)`), as client-go does.
    Updated {
        /// The object as the cache had it.
        old: Arc<V>,
        /// The object as the cache has it now.
        new: Arc<V>,
    },
    /// The object is gone. This is its state as the last change told it, which need not be its final one: what was made
    /// of that state is what has to be undone.
    Deleted(Arc<V>),
}

impl<V> Change<V> {
    /// The newest known state of the object.
    pub fn object(&self) -> &Arc<V> {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted(object) => object,
        }
    }
}

/// Objects of one kind, ordered by namespace and name, with the indexes of [`CacheObject::INDEXES`] and, for kinds that
/// are selected, by labels.
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
    /// Puts `object` in place of what its key held. A different UID means that one object went and another came.
    pub fn apply(&self, object: Arc<V>) -> Vec<Change<V>> {
        let old = self.write().insert(Arc::clone(&object));
        changes(old, object)
    }

    /// Removes the object that `last` describes and reports it as it was held: its final state may have other labels, and
    /// nobody was told of them.
    ///
    /// When the cache holds another UID under the key, that newer object stays: the event is late.
    pub fn remove(&self, last: &V) -> Vec<Change<V>> {
        let mut inner = self.write();
        match inner.get(last.key_ref()).filter(|held| held.uid() == last.uid()).cloned() {
            Some(held) => {
                inner.remove(held.key_ref());
                vec![Change::Deleted(held)]
            }
            None => Vec::new(),
        }
    }

    /// Replaces the whole content at once and reports the differences in key order: what is there first, then what is
    /// gone. Readers see the old content or the new one, never a mixture. Of two objects with one key the later counts.
    pub fn replace(&self, mut objects: Vec<Arc<V>>) -> Vec<Change<V>> {
        // Stable, and a list comes in this order anyway.
        objects.sort_by(|a, b| a.key_ref().cmp(&b.key_ref()));
        objects.reverse();
        objects.dedup_by(|a, b| a.key_ref() == b.key_ref());
        objects.reverse();
        let mut inner = self.write();
        let mut old = std::mem::take(&mut *inner).into_objects().peekable();
        let (mut result, mut gone) = (Vec::with_capacity(objects.len()), Vec::new());
        for object in &objects {
            while let Some(before) = old.next_if(|held| held.key_ref() < object.key_ref()) {
                gone.push(Change::Deleted(before));
            }
            let same_key = old.next_if(|held| held.key_ref() == object.key_ref());
            result.extend(changes(same_key, Arc::clone(object)));
        }
        result.extend(gone);
        result.extend(old.map(Change::Deleted));
        *inner = Indexer::from_sorted(objects);
        result
    }

    /// The cached object of this key, if it is the same version of the same object.
    pub(in crate::runtime) fn find_same_version(&self, object: &V) -> Option<Arc<V>> {
        self.read().get(object.key_ref()).filter(|held| same_version::<V>(held, object)).cloned()
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
        // Poison only says that a reader panicked; writers leave the content whole at every point where they can.
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Indexer<V>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn same_version<V: CacheObject>(a: &V, b: &V) -> bool {
    a.uid() == b.uid() && a.resource_version() == b.resource_version() && !a.resource_version().is_empty()
}

fn changes<V: CacheObject>(old: Option<Arc<V>>, new: Arc<V>) -> Vec<Change<V>> {
    match old {
        None => vec![Change::Added(new)],
        Some(old) if old.uid() == new.uid() => vec![Change::Updated { old, new }],
        Some(old) => vec![Change::Deleted(old), Change::Added(new)],
    }
}
