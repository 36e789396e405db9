//! The read-only handle to a cache, for controllers.

use std::sync::Arc;

use super::store::Store;
use crate::api::cache_object::CacheObject;
use crate::api::object_key::ObjectKey;
use crate::api::selector::Selector;

/// Reads one kind from the shared cache. Results are ordered by key and shared (`Arc`), not copied. Cheap to clone.
#[derive(Debug)]
pub struct Lister<V> {
    store: Arc<Store<V>>,
}

impl<V> Clone for Lister<V> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store) }
    }
}

impl<V: CacheObject> Lister<V> {
    pub(in crate::runtime) fn new(store: Arc<Store<V>>) -> Self {
        Self { store }
    }

    /// Returns the object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.store.get(key)
    }

    /// Returns all objects.
    pub fn list(&self) -> Vec<Arc<V>> {
        self.store.list()
    }

    /// Returns all objects of a namespace.
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        self.store.list_namespace(namespace)
    }

    /// Returns the objects whose `index` has `value`; empty for an index that the kind does not maintain.
    pub fn by_index(&self, index: &str, value: &str) -> Vec<Arc<V>> {
        self.store.by_index(index, value)
    }

    /// Visits all objects without collecting them. The cache is locked for reading until this returns.
    pub fn for_each(&self, visit: impl FnMut(&Arc<V>)) {
        self.store.for_each(visit);
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the objects of a namespace that `selector` selects. If the selector requires a label's value, the cost
    /// is proportional to the result, not to the number of objects in the namespace.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Vec<Arc<V>> {
        self.store.select(namespace, selector)
    }

    /// Returns a digest of keys, UIDs and resource versions: equal caches have equal checksums. It is updated with
    /// every change, so reading it is free.
    pub fn checksum(&self) -> u64 {
        self.store.checksum()
    }
}
