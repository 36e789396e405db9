//! The content of a store. Every index entry is a pointer to an object, which contains the key.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::api::cache_object::CacheObject;
use crate::api::hash::Fnv1a;
use crate::api::labels::Labels;
use crate::api::selector::Selector;

/// Objects ordered by key, with indexes.
#[derive(Debug)]
pub(super) struct Indexer<V> {
    objects: BTreeSet<Entry<V>>,
    /// In the order of [`CacheObject::INDEXES`].
    indexes: Vec<BTreeMap<Arc<str>, BTreeSet<Entry<V>>>>,
    by_labels: BTreeMap<Arc<str>, LabelGroups<V>>,
    /// The sum of the objects' digests, independent of their order.
    checksum: u64,
}

/// The objects of one namespace, grouped by equal labels: the pods of one workload usually have the same.
#[derive(Debug)]
struct LabelGroups<V> {
    members: BTreeMap<Labels, BTreeSet<Entry<V>>>,
    /// Label sets by one of their labels: key, then value.
    by_label: BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeSet<Labels>>>,
}

/// An object, ordered by its key.
#[derive(Debug)]
struct Entry<V>(Arc<V>);

/// The key by which entries are ordered and looked up.
trait KeyRef {
    fn key_ref(&self) -> (&str, &str);
}

impl<V: CacheObject> KeyRef for Entry<V> {
    fn key_ref(&self) -> (&str, &str) {
        self.0.key_ref()
    }
}

impl KeyRef for (&str, &str) {
    fn key_ref(&self) -> (&str, &str) {
        (self.0, self.1)
    }
}

impl<'a, V: CacheObject> Borrow<dyn KeyRef + 'a> for Entry<V> {
    fn borrow(&self) -> &(dyn KeyRef + 'a) {
        self
    }
}

impl Ord for dyn KeyRef + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key_ref().cmp(&other.key_ref())
    }
}

impl PartialOrd for dyn KeyRef + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn KeyRef + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.key_ref() == other.key_ref()
    }
}

impl Eq for dyn KeyRef + '_ {}

impl<V: CacheObject> Ord for Entry<V> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key_ref().cmp(&other.key_ref())
    }
}

impl<V: CacheObject> PartialOrd for Entry<V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<V: CacheObject> PartialEq for Entry<V> {
    fn eq(&self, other: &Self) -> bool {
        self.key_ref() == other.key_ref()
    }
}

impl<V: CacheObject> Eq for Entry<V> {}

impl<V> Default for LabelGroups<V> {
    fn default() -> Self {
        Self { members: BTreeMap::new(), by_label: BTreeMap::new() }
    }
}

impl<V: CacheObject> Default for Indexer<V> {
    fn default() -> Self {
        let indexes = V::INDEXES.iter().map(|_| BTreeMap::new()).collect();
        Self { objects: BTreeSet::new(), indexes, by_labels: BTreeMap::new(), checksum: 0 }
    }
}

impl<V: CacheObject> Indexer<V> {
    /// Creates an indexer from objects that are ordered by key and have distinct keys.
    pub(super) fn from_sorted(objects: Vec<Arc<V>>) -> Self {
        let mut indexer = Self::default();
        for object in &objects {
            indexer.index(object, None);
        }
        indexer.objects = objects.into_iter().map(Entry).collect();
        indexer
    }

    pub(super) fn into_objects(self) -> impl Iterator<Item = Arc<V>> {
        self.objects.into_iter().map(|entry| entry.0)
    }

    pub(super) fn get(&self, key: (&str, &str)) -> Option<&Arc<V>> {
        self.objects.get(&key as &dyn KeyRef).map(|entry| &entry.0)
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<V>> {
        self.objects.iter().map(|entry| &entry.0)
    }

    pub(super) fn namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<V>> {
        let from: &dyn KeyRef = &(namespace, "");
        let from = self.objects.range::<dyn KeyRef, _>((Bound::Included(from), Bound::Unbounded));
        from.map(|entry| &entry.0).take_while(move |object| object.key_ref().0 == namespace)
    }

    pub(super) fn by_index(&self, index: &str, value: &str) -> Vec<Arc<V>> {
        let at = V::INDEXES.iter().position(|name| *name == index);
        let found = at.and_then(|at| self.indexes[at].get(value));
        found.into_iter().flatten().map(|entry| Arc::clone(&entry.0)).collect()
    }

    /// Returns the selected objects of a namespace, ordered by key.
    pub(super) fn select(&self, namespace: &str, selector: &Selector) -> Vec<Arc<V>> {
        let Some(groups) = self.by_labels.get(namespace) else { return Vec::new() };
        let mut selected = Vec::new();
        let mut parts = 0;
        for (labels, members) in groups.candidates(selector) {
            if selector.matches(labels) {
                selected.extend(members.iter().map(|entry| Arc::clone(&entry.0)));
                parts += 1;
            }
        }
        if parts > 1 {
            selected.sort_by(|a, b| a.key_ref().cmp(&b.key_ref()));
        }
        selected
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn checksum(&self) -> u64 {
        self.checksum
    }

    pub(super) fn insert(&mut self, object: Arc<V>) -> Option<Arc<V>> {
        let old = self.objects.replace(Entry(Arc::clone(&object))).map(|entry| entry.0);
        if let Some(old) = &old {
            self.unindex(old, Some(&object));
        }
        self.index(&object, old.as_deref());
        old
    }

    pub(super) fn remove(&mut self, key: (&str, &str)) -> Option<Arc<V>> {
        let old = self.objects.take(&key as &dyn KeyRef)?.0;
        self.unindex(&old, None);
        Some(old)
    }

    /// Adds `object` to all indexes; replaces `old` where it has the same value.
    fn index(&mut self, object: &Arc<V>, old: Option<&V>) {
        self.checksum = self.checksum.wrapping_add(digest(&**object));
        for (name, buckets) in V::INDEXES.iter().zip(&mut self.indexes) {
            if let Some(value) = object.index_value(name) {
                buckets.entry(value).or_default().replace(Entry(Arc::clone(object)));
            }
        }
        let Some(labels) = object.labels() else { return };
        let groups = match self.by_labels.get_mut(object.key_ref().0) {
            Some(groups) => groups,
            None => self.by_labels.entry(object.key().namespace).or_default(),
        };
        if let Some(members) = groups.members.get_mut(labels) {
            members.replace(Entry(Arc::clone(object)));
            return;
        }
        let is_in_place = old.and_then(V::labels) == Some(labels);
        assert!(!cfg!(test) || !is_in_place, "an object in place has its group");
        groups.members.insert(labels.clone(), BTreeSet::from([Entry(Arc::clone(object))]));
        for (key, value) in labels.iter() {
            let by_value = groups.by_label.entry(key.to_arc()).or_default();
            by_value.entry(value.to_arc()).or_default().insert(labels.clone());
        }
    }

    /// Removes `old` from all indexes where `new` does not replace it.
    fn unindex(&mut self, old: &V, new: Option<&V>) {
        self.checksum = self.checksum.wrapping_sub(digest(old));
        let key = old.key_ref();
        for (name, buckets) in V::INDEXES.iter().zip(&mut self.indexes) {
            let was = old.index_value(name);
            if new.is_some_and(|new| new.index_value(name) == was) {
                continue;
            }
            let Some(was) = was else { continue };
            if buckets.get_mut(&was).is_some_and(|bucket| remove_from_bucket(bucket, key)) {
                buckets.remove(&was);
            }
        }
        let Some(labels) = old.labels() else { return };
        if new.and_then(V::labels) == Some(labels) {
            return;
        }
        let Some(groups) = self.by_labels.get_mut(key.0) else { return };
        groups.remove(labels, key);
        if groups.members.is_empty() {
            self.by_labels.remove(key.0);
        }
    }
}

impl<V> LabelGroups<V> {
    /// Returns the label sets that `selector` may match, with their objects: those with the label that it requires, or
    /// all. This is what a selection costs besides its result.
    fn candidates<'s>(&'s self, selector: &'s Selector) -> Vec<(&'s Labels, &'s BTreeSet<Entry<V>>)> {
        match selector.required_label() {
            _ if selector.is_nothing() => Vec::new(),
            None => self.members.iter().collect(),
            Some((key, values)) => {
                let by_value = self.by_label.get(key);
                let distinct: BTreeSet<&str> = values.iter().map(String::as_str).collect();
                let pinned = distinct.into_iter().filter_map(|value| by_value?.get(value)).flatten();
                pinned.filter_map(|labels| self.members.get_key_value(labels)).collect()
            }
        }
    }
}

impl<V: CacheObject> LabelGroups<V> {
    fn remove(&mut self, labels: &Labels, key: (&str, &str)) {
        if !self.members.get_mut(labels).is_some_and(|members| remove_from_bucket(members, key)) {
            return;
        }
        self.members.remove(labels);
        for (key, value) in labels.iter() {
            let Some(by_value) = self.by_label.get_mut(key.as_str()) else { continue };
            if let Some(with_label) = by_value.get_mut(value.as_str()) {
                with_label.remove(labels);
                if with_label.is_empty() {
                    by_value.remove(value.as_str());
                }
            }
            if by_value.is_empty() {
                self.by_label.remove(key.as_str());
            }
        }
    }
}

/// Removes the entry at `key` from `bucket`; returns true if the bucket is empty then.
fn remove_from_bucket<V: CacheObject>(bucket: &mut BTreeSet<Entry<V>>, key: (&str, &str)) -> bool {
    bucket.remove(&key as &dyn KeyRef);
    bucket.is_empty()
}

fn digest<V: CacheObject>(object: &V) -> u64 {
    let mut digest = Fnv1a::default();
    let (namespace, name) = object.key_ref();
    for part in [namespace, name, object.uid(), object.resource_version()] {
        digest.write(part.as_bytes());
        digest.write(&[0]);
    }
    digest.0
}

#[cfg(test)]
mod tests;
