//! Ordered, indexed object caches. Written by one informer, read through [`Lister`]s.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde::de::DeserializeOwned;

pub use super::lister::Lister;

/// Namespace and name of an object; the namespace is empty for cluster-scoped kinds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace, empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of a namespaced object.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<Arc<str>>) -> Self {
        Self::new("", name)
    }
}

/// `namespace/name`, or the bare name for cluster-scoped objects, as client-go prints keys.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// As it is displayed: log lines show keys.
impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What an informer can hold: a slim, deserializable view of one Kubernetes kind.
///
/// The view keeps only the fields somebody reads; everything else in the server's answer is skipped while parsing.
pub trait CacheObject: DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static {
    /// The k8s-openapi type whose group, version, plural and scope this view reads.
    type Resource: kube::Resource<DynamicType = ()> + 'static;

    /// Names of the indexes kept for this kind. `by_namespace` needs none: the store is ordered by namespace.
    const INDEXES: &'static [&'static str] = &[];

    /// Namespace and name.
    fn key(&self) -> ObjectKey;

    /// `metadata.uid`.
    fn uid(&self) -> &str;

    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str;

    /// The value under which `index` (one of [`Self::INDEXES`]) finds this object, `None` to leave it out.
    fn index_value(&self, index: &str) -> Option<Arc<str>> {
        let _ = index;
        None
    }
}

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
    /// The object is gone; this is its last known state.
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

type Objects<V> = BTreeMap<ObjectKey, Arc<V>>;

/// Objects of one kind, ordered by namespace and name, with the indexes of [`CacheObject::INDEXES`].
#[derive(Debug)]
pub struct Store<V> {
    inner: RwLock<Inner<V>>,
}

#[derive(Debug)]
struct Inner<V> {
    objects: Objects<V>,
    indexes: BTreeMap<&'static str, BTreeMap<Arc<str>, Objects<V>>>,
}

impl<V: CacheObject> Default for Store<V> {
    fn default() -> Self {
        Self { inner: RwLock::new(Inner::empty()) }
    }
}

impl<V: CacheObject> Inner<V> {
    fn empty() -> Self {
        Self { objects: BTreeMap::new(), indexes: V::INDEXES.iter().map(|name| (*name, BTreeMap::new())).collect() }
    }

    fn insert(&mut self, key: ObjectKey, object: Arc<V>) -> Option<Arc<V>> {
        let old = self.objects.insert(key.clone(), Arc::clone(&object));
        for (index, buckets) in &mut self.indexes {
            let value = object.index_value(index);
            if let Some(old) = &old {
                let was = old.index_value(index);
                if was != value {
                    unindex(buckets, was, &key);
                }
            }
            if let Some(value) = value {
                buckets.entry(value).or_default().insert(key.clone(), Arc::clone(&object));
            }
        }
        old
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<V>> {
        let old = self.objects.remove(key)?;
        for (index, buckets) in &mut self.indexes {
            unindex(buckets, old.index_value(index), key);
        }
        Some(old)
    }
}

fn unindex<V>(buckets: &mut BTreeMap<Arc<str>, Objects<V>>, value: Option<Arc<str>>, key: &ObjectKey) {
    let Some(value) = value else { return };
    if let Some(bucket) = buckets.get_mut(&value) {
        bucket.remove(key);
        if bucket.is_empty() {
            buckets.remove(&value);
        }
    }
}

impl<V: CacheObject> Store<V> {
    /// Puts `object` in place of what its key held. A different UID means that one object went and another came.
    pub fn apply(&self, object: Arc<V>) -> Vec<Change<V>> {
        let old = self.write().insert(object.key(), Arc::clone(&object));
        changes(old, object)
    }

    /// Removes the object that `last` describes and reports `last` as its final state.
    ///
    /// When the cache holds another UID under the key, that newer object stays: the event is late.
    pub fn remove(&self, last: Arc<V>) -> Vec<Change<V>> {
        let key = last.key();
        let mut inner = self.write();
        match inner.objects.get(&key) {
            Some(held) if held.uid() == last.uid() => {
                inner.remove(&key);
                vec![Change::Deleted(last)]
            }
            _ => Vec::new(),
        }
    }

    /// Replaces the whole content at once and reports the differences in key order: what is there first, then what is
    /// gone. Readers see the old content or the new one, never a mixture.
    pub fn replace(&self, objects: Objects<V>) -> Vec<Change<V>> {
        let mut inner = self.write();
        let mut old = std::mem::replace(&mut *inner, Inner::empty()).objects;
        let mut result = Vec::with_capacity(objects.len());
        for (key, object) in objects {
            result.extend(changes(old.remove(&key), Arc::clone(&object)));
            inner.insert(key, object);
        }
        result.extend(old.into_values().map(Change::Deleted));
        result
    }

    /// The cached object of this key, if it is the same version of the same object.
    pub(super) fn held(&self, object: &V) -> Option<Arc<V>> {
        self.get(&object.key()).filter(|held| same_version(&**held, object))
    }

    /// A read-only handle.
    pub fn lister(self: &Arc<Self>) -> Lister<V> {
        Lister::new(Arc::clone(self))
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.read().objects.get(key).cloned()
    }

    pub(super) fn list(&self) -> Vec<Arc<V>> {
        self.read().objects.values().cloned().collect()
    }

    pub(super) fn list_namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        let from = ObjectKey::new(namespace, "");
        let inner = self.read();
        inner
            .objects
            .range(from..)
            .take_while(|(key, _)| &*key.namespace == namespace)
            .map(|(_, v)| Arc::clone(v))
            .collect()
    }

    pub(super) fn by_index(&self, index: &str, value: &str) -> Vec<Arc<V>> {
        let inner = self.read();
        let bucket = inner.indexes.get(index).and_then(|buckets| buckets.get(value));
        bucket.map(|bucket| bucket.values().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.read().objects.len()
    }

    pub(super) fn for_each(&self, mut visit: impl FnMut(&Arc<V>)) {
        self.read().objects.values().for_each(&mut visit);
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner<V>> {
        // Poison only says that a reader panicked; writers leave the content whole at every point where they can.
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<V>> {
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
