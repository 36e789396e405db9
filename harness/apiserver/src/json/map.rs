//! JSON objects: sorted members that copies share until one of them changes.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::sync::Arc;

use ecow::EcoVec;
use smol_str::SmolStr;

use super::value::Value;
use Members::{Sorted, Tree};

/// A member name.
pub type Key = SmolStr;

#[derive(Clone, PartialEq, Eq)]
struct Member {
    prefix: KeyPrefix,
    key: Key,
    value: Value,
}

impl Member {
    fn new(key: Key, value: Value) -> Self {
        Self { prefix: KeyPrefix::of(&key), key, value }
    }

    /// Compares the member's name with `key`, which has the same prefix.
    fn order(&self, key: &str) -> Ordering {
        if self.key.len() <= KeyPrefix::LEN && key.len() <= KeyPrefix::LEN {
            return self.key.len().cmp(&key.len());
        }
        self.key.as_str().cmp(key)
    }

    fn pair(&self) -> (&Key, &Value) {
        (&self.key, &self.value)
    }
}

/// The first bytes of a name as a number with the same order. It distinguishes nearly all names, and comparing
/// numbers is cheaper than comparing strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyPrefix(u64);

impl KeyPrefix {
    /// Number of bytes in a prefix.
    pub(crate) const LEN: usize = 8;

    /// Returns the prefix of a name. Names with equal prefixes differ in length or after the prefix.
    pub(crate) fn of(key: &str) -> Self {
        let bytes = key.as_bytes();
        if let Some(first) = bytes.first_chunk() {
            return Self(u64::from_be_bytes(*first));
        }
        // Shorter names are padded with zeros. The first and last four bytes may overlap, which is harmless as they
        // agree there.
        let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else {
            let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            return Self(if bytes.is_empty() { 0 } else { number << (8 * (Self::LEN - bytes.len())) });
        };
        let part = |bytes: &[u8; 4]| u64::from(u32::from_be_bytes(*bytes));
        Self(part(first) << 32 | part(last) << (8 * (Self::LEN - bytes.len())))
    }
}

/// A JSON object with its members in byte order of their names.
///
/// A clone is a reference count increment; members are copied on the first write to a shared object. Methods that
/// take `&mut self` copy only if they find something to change, unless documented otherwise.
#[derive(Clone)]
pub struct Map(Members);

#[derive(Clone)]
enum Members {
    /// A sorted list, the usual case.
    Sorted(EcoVec<Member>),
    /// A tree, for objects with too many members to keep sorted in a list.
    Tree(Arc<BTreeMap<Key, Value>>),
}

/// Maximum number of members of a list.
const SORTED_MAX: usize = 64;

/// Returns the index of the member, or the index at which it would be inserted.
fn find(members: &[Member], key: &str) -> Result<usize, usize> {
    let prefix = KeyPrefix::of(key);
    // Objects are mostly built in the order of their names.
    if members.last().is_none_or(|last| last.prefix < prefix) {
        return Err(members.len());
    }
    // For short lists a linear scan is faster than binary search.
    let first = members.iter().position(|member| member.prefix >= prefix).unwrap_or(members.len());
    // Few names have the same prefix.
    for (at, member) in members.iter().enumerate().skip(first) {
        if member.prefix != prefix {
            return Err(at);
        }
        match member.order(key) {
            Ordering::Less => {}
            Ordering::Equal => return Ok(at),
            Ordering::Greater => return Err(at),
        }
    }
    Err(members.len())
}

impl Map {
    /// Creates an empty object.
    pub const fn new() -> Self {
        Self(Sorted(EcoVec::new()))
    }

    /// Creates an empty object with room for `capacity` members.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(if capacity <= SORTED_MAX { Sorted(EcoVec::with_capacity(capacity)) } else { Tree(Arc::default()) })
    }

    /// Returns true if both share their members in memory, which implies that they are equal; equal objects may
    /// differ here.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Sorted(one), Sorted(other)) => {
                one.len() == other.len() && (one.is_empty() || std::ptr::eq(one.as_slice(), other.as_slice()))
            }
            (Tree(one), Tree(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        match &self.0 {
            Sorted(members) => members.len(),
            Tree(members) => members.len(),
        }
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a member.
    pub fn get(&self, key: impl AsRef<str>) -> Option<&Value> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// Returns a member.
    pub fn get_key_value(&self, key: impl AsRef<str>) -> Option<(&Key, &Value)> {
        match &self.0 {
            Sorted(members) => members.get(find(members, key.as_ref()).ok()?).map(Member::pair),
            Tree(members) => members.get_key_value(key.as_ref()),
        }
    }

    /// Returns the member at index `at`; linear in the size of large objects.
    pub(crate) fn nth(&self, at: usize) -> Option<(&Key, &Value)> {
        match &self.0 {
            Sorted(members) => members.get(at).map(Member::pair),
            Tree(members) => members.iter().nth(at),
        }
    }

    /// Returns the value of a member mutably.
    pub fn get_mut(&mut self, key: impl AsRef<str>) -> Option<&mut Value> {
        let key = key.as_ref();
        match &mut self.0 {
            Sorted(members) => {
                let at = find(members, key).ok()?;
                members.make_mut().get_mut(at).map(|member| &mut member.value)
            }
            Tree(members) if members.contains_key(key) => Arc::make_mut(members).get_mut(key),
            Tree(_) => None,
        }
    }

    /// Returns true if the member exists.
    pub fn contains_key(&self, key: impl AsRef<str>) -> bool {
        self.get_key_value(key).is_some()
    }

    /// Sets a member; returns its previous value.
    pub fn insert(&mut self, key: impl Into<Key>, value: Value) -> Option<Value> {
        let key = key.into();
        if let Sorted(members) = &mut self.0 {
            match find(members, &key) {
                Ok(at) => return Some(std::mem::replace(&mut members.make_mut()[at].value, value)),
                Err(at) if members.len() < SORTED_MAX => {
                    members.insert(at, Member::new(key, value));
                    return None;
                }
                Err(_) => self.0 = Tree(Arc::new(std::mem::take(self).into_iter().collect())),
            }
        }
        match &mut self.0 {
            Tree(members) => Arc::make_mut(members).insert(key, value),
            Sorted(_) => unreachable!("few become many above"),
        }
    }

    /// Removes a member; returns its value.
    pub fn remove(&mut self, key: impl AsRef<str>) -> Option<Value> {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Removes a member; returns its name and value.
    pub fn remove_entry(&mut self, key: impl AsRef<str>) -> Option<(Key, Value)> {
        let key = key.as_ref();
        match &mut self.0 {
            Sorted(members) => {
                let at = find(members, key).ok()?;
                let member = members.remove(at);
                Some((member.key, member.value))
            }
            Tree(members) if members.contains_key(key) => Arc::make_mut(members).remove_entry(key),
            Tree(_) => None,
        }
    }

    /// Returns the entry of a member, for insertion or update.
    pub fn entry(&mut self, key: impl Into<Key>) -> Entry<'_> {
        Entry { map: self, key: key.into() }
    }

    /// Retains the members for which `keep` returns true; it may change their values. Copies shared members.
    pub fn retain(&mut self, mut keep: impl FnMut(&Key, &mut Value) -> bool) {
        match &mut self.0 {
            Sorted(members) if members.is_empty() => {}
            Sorted(members) => members.retain(|member| keep(&member.key, &mut member.value)),
            Tree(members) => Arc::make_mut(members).retain(|key, value| keep(key, value)),
        }
    }

    /// Moves all members of `other` into this object.
    pub fn append(&mut self, other: &mut Self) {
        self.extend(std::mem::take(other));
    }

    /// Iterates over the members.
    pub fn iter(&self) -> Iter<'_> {
        Iter(match &self.0 {
            Sorted(members) => Either::Few(members.iter()),
            Tree(members) => Either::Many(members.iter()),
        })
    }

    /// Iterates over the members with mutable values. Copies shared members.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        IterMut(match &mut self.0 {
            Sorted(members) => Either::Few(members.make_mut().iter_mut()),
            Tree(members) => Either::Many(Arc::make_mut(members).iter_mut()),
        })
    }

    /// Iterates over the names.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Key> + ExactSizeIterator + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// Iterates over the values.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// Iterates mutably over the values. Copies shared members.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.iter_mut().map(|(_, value)| value)
    }
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.ptr_eq(other)
            || match (&self.0, &other.0) {
                (Sorted(one), Sorted(other)) => one == other,
                _ => self.len() == other.len() && self.iter().eq(other),
            }
    }
}

impl Eq for Map {}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// An entry of a [`Map`], see [`Map::entry`].
pub struct Entry<'m> {
    map: &'m mut Map,
    key: Key,
}

impl<'m> Entry<'m> {
    /// Returns the member's value, inserting `value` if it is missing. Copies shared members.
    pub fn or_insert(self, value: Value) -> &'m mut Value {
        self.or_insert_with(|| value)
    }

    /// Returns the member's value, inserting the result of `make` if it is missing. Copies shared members.
    pub fn or_insert_with(self, make: impl FnOnce() -> Value) -> &'m mut Value {
        self.filled(make)
    }

    fn filled(self, make: impl FnOnce() -> Value) -> &'m mut Value {
        if !self.map.contains_key(&self.key) {
            self.map.insert(self.key.clone(), make());
        }
        self.map.get_mut(&self.key).expect("put there above")
    }

    /// Changes the value if the member exists.
    #[must_use]
    pub fn and_modify(self, change: impl FnOnce(&mut Value)) -> Self {
        if let Some(value) = self.map.get_mut(&self.key) {
            change(value);
        }
        self
    }
}

#[derive(Clone)]
enum Either<F, M> {
    Few(F),
    Many(M),
}

impl<F: ExactSizeIterator, M: ExactSizeIterator> Either<F, M> {
    fn left(&self) -> usize {
        match self {
            Self::Few(members) => members.len(),
            Self::Many(members) => members.len(),
        }
    }
}

/// An iterator over the members of an object.
#[derive(Clone)]
pub struct Iter<'m>(Either<std::slice::Iter<'m, Member>, btree_map::Iter<'m, Key, Value>>);

impl<'m> Iterator for Iter<'m> {
    type Item = (&'m Key, &'m Value);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Few(members) => members.next().map(Member::pair),
            Either::Many(members) => members.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.left(), Some(self.0.left()))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Few(members) => members.next_back().map(Member::pair),
            Either::Many(members) => members.next_back(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// An iterator over the members of an object with mutable values.
pub struct IterMut<'m>(Either<std::slice::IterMut<'m, Member>, btree_map::IterMut<'m, Key, Value>>);

impl<'m> Iterator for IterMut<'m> {
    type Item = (&'m Key, &'m mut Value);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Few(members) => members.next().map(|member| (&member.key, &mut member.value)),
            Either::Many(members) => members.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.left(), Some(self.0.left()))
    }
}

/// An owning iterator over the members of an object.
pub struct IntoIter(Either<ecow::vec::IntoIter<Member>, btree_map::IntoIter<Key, Value>>);

impl Iterator for IntoIter {
    type Item = (Key, Value);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Few(members) => members.next().map(|member| (member.key, member.value)),
            Either::Many(members) => members.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.left(), Some(self.0.left()))
    }
}

impl<'m> IntoIterator for &'m Map {
    type Item = (&'m Key, &'m Value);
    type IntoIter = Iter<'m>;

    fn into_iter(self) -> Iter<'m> {
        self.iter()
    }
}

impl<'m> IntoIterator for &'m mut Map {
    type Item = (&'m Key, &'m mut Value);
    type IntoIter = IterMut<'m>;

    fn into_iter(self) -> IterMut<'m> {
        self.iter_mut()
    }
}

impl IntoIterator for Map {
    type Item = (Key, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter(match self.0 {
            Sorted(members) => Either::Few(members.into_iter()),
            Tree(members) => Either::Many(Arc::unwrap_or_clone(members).into_iter()),
        })
    }
}

impl<K: Into<Key>, V: Into<Value>> Extend<(K, V)> for Map {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, members: I) {
        for (key, value) in members {
            self.insert(key, value.into());
        }
    }
}

impl<K: Into<Key>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        let members = members.into_iter();
        let mut map = Self::with_capacity(members.size_hint().0);
        map.extend(members);
        map
    }
}

impl<K: AsRef<str>> std::ops::Index<K> for Map {
    type Output = Value;

    /// # Panics
    ///
    /// If the member does not exist.
    fn index(&self, key: K) -> &Value {
        self.get(key).expect("the object has the member")
    }
}
