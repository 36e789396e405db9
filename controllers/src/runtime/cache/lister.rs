//! The read-only side of a cache, given to controllers.

use std::sync::Arc;

use super::store::Store;
use crate::api::cache_object::CacheObject;
use crate::api::object_key::ObjectKey;
use crate::api::selector::Selector;

/// Reads one kind from the shared cache. Results are in key order and shared (`Arc`), never copied. Cheap to clone.
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

    /// The object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.store.get(key)
    }

    /// All objects.
    pub fn list(&self) -> Vec<Arc<V>> {
        self.store.list()
    }

    /// All objects of a namespace.
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        self.store.list_namespace(namespace)
    }

    /// The objects whose `index` has `value`; empty for an index the kind does not keep.
    pub fn by_index(&self, index: &str, value: &str) -> Vec<Arc<V>> {
        self.store.by_index(index, value)
    }

    /// Visits all objects without collecting them; the cache is locked for reading meanwhile.
    pub fn for_each(&self, visit: impl FnMut(&Arc<V>)) {
        self.store.for_each(visit);
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects of a namespace whose labels `selector` selects. Costs what it finds, not what the namespace holds,
    /// where the selector asks for a label's value.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Vec<Arc<V>> {
        self.store.select(namespace, selector)
    }

    /// A digest of keys, UIDs and resource versions: equal caches have equal checksums. Kept up to date, so that asking
    /// costs nothing.
    pub fn checksum(&self) -> u64 {
        self.store.checksum()
    }
}
