//! Objects: members in order of their names, shared by copies until one of them changes.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::sync::Arc;

use ecow::EcoVec;
use smol_str::SmolStr;

use super::Value;
use Members::{Few, Many};

/// The name of a member.
pub type Key = SmolStr;

#[derive(Clone, PartialEq, Eq)]
struct Member {
    prefix: Prefix,
    key: Key,
    value: Value,
}

impl Member {
    fn new(key: Key, value: Value) -> Self {
        Self { prefix: Prefix::of(&key), key, value }
    }

    /// The order of the member's name and `key`, which has the same prefix.
    fn order(&self, key: &str) -> Ordering {
        if self.key.len() <= Prefix::LEN && key.len() <= Prefix::LEN {
            return self.key.len().cmp(&key.len());
        }
        self.key.as_str().cmp(key)
    }

    fn pair(&self) -> (&Key, &Value) {
        (&self.key, &self.value)
    }
}

/// The first bytes of a name as a number, which orders as they do: names are told apart by it nearly always, and
/// comparing numbers is cheaper than comparing texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix(u64);

impl Prefix {
    /// Bytes that count.
    pub(crate) const LEN: usize = 8;

    /// The prefix of a name. Names with the same one differ in length, or behind it.
    pub(crate) fn of(key: &str) -> Self {
        let bytes = key.as_bytes();
        if let Some(first) = bytes.first_chunk() {
            return Self(u64::from_be_bytes(*first));
        }
        // What is shorter is filled up with zeros. Where four bytes from either end overlap they are the same.
        let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else {
            let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            return Self(if bytes.is_empty() { 0 } else { number << (8 * (Self::LEN - bytes.len())) });
        };
        let part = |bytes: &[u8; 4]| u64::from(u32::from_be_bytes(*bytes));
        Self(part(first) << 32 | part(last) << (8 * (Self::LEN - bytes.len())))
    }
}

/// A JSON object. Its members come in order of their names (as bytes), whatever order they were put in.
///
/// Copying one costs a counter. A copy becomes an object of its own when it is changed; what takes `&mut self` does so only
/// where it finds something to change, unless it says otherwise.
#[derive(Clone)]
pub struct Map(Members);

#[derive(Clone)]
enum Members {
    /// Nearly all objects: a sorted list.
    Few(EcoVec<Member>),
    /// A list of so many would take long to keep in order.
    Many(Arc<BTreeMap<Key, Value>>),
}

/// So many members are few.
const FEW: usize = 64;

/// Where the member is in a list, or belongs.
fn find(members: &[Member], key: &str) -> Result<usize, usize> {
    let prefix = Prefix::of(key);
    // Going along the members is faster than jumping among them.
    let first = members.iter().position(|member| member.prefix >= prefix).unwrap_or(members.len());
    // Few names have the same beginning.
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
    /// An object without members.
    pub const fn new() -> Self {
        Self(Few(EcoVec::new()))
    }

    /// An object with room for so many members.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(if capacity <= FEW { Few(EcoVec::with_capacity(capacity)) } else { Many(Arc::default()) })
    }

    /// Whether both are the same object in memory, and so equal; what is equal need not be the same.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Few(one), Few(other)) => {
                one.len() == other.len() && (one.is_empty() || std::ptr::eq(one.as_slice(), other.as_slice()))
            }
            (Many(one), Many(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Few(members) => members.len(),
            Many(members) => members.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a member.
    pub fn get(&self, key: impl AsRef<str>) -> Option<&Value> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// A member.
    pub fn get_key_value(&self, key: impl AsRef<str>) -> Option<(&Key, &Value)> {
        match &self.0 {
            Few(members) => members.get(find(members, key.as_ref()).ok()?).map(Member::pair),
            Many(members) => members.get_key_value(key.as_ref()),
        }
    }

    /// The member that is the `at`th in order; it takes long to find among many.
    pub(crate) fn nth(&self, at: usize) -> Option<(&Key, &Value)> {
        match &self.0 {
            Few(members) => members.get(at).map(Member::pair),
            Many(members) => members.iter().nth(at),
        }
    }

    /// The value of a member, to be changed.
    pub fn get_mut(&mut self, key: impl AsRef<str>) -> Option<&mut Value> {
        let key = key.as_ref();
        match &mut self.0 {
            Few(members) => {
                let at = find(members, key).ok()?;
                members.make_mut().get_mut(at).map(|member| &mut member.value)
            }
            Many(members) if members.contains_key(key) => Arc::make_mut(members).get_mut(key),
            Many(_) => None,
        }
    }

    /// Whether there is such a member.
    pub fn contains_key(&self, key: impl AsRef<str>) -> bool {
        self.get_key_value(key).is_some()
    }

    /// Sets a member; returns the value it had before.
    pub fn insert(&mut self, key: impl Into<Key>, value: Value) -> Option<Value> {
        let key = key.into();
        if let Few(members) = &mut self.0 {
            match find(members, &key) {
                Ok(at) => return Some(std::mem::replace(&mut members.make_mut()[at].value, value)),
                Err(at) if members.len() < FEW => {
                    members.insert(at, Member::new(key, value));
                    return None;
                }
                Err(_) => self.0 = Many(Arc::new(std::mem::take(self).into_iter().collect())),
            }
        }
        match &mut self.0 {
            Many(members) => Arc::make_mut(members).insert(key, value),
            Few(_) => unreachable!("few become many above"),
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: impl AsRef<str>) -> Option<Value> {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Takes a member out, with its name.
    pub fn remove_entry(&mut self, key: impl AsRef<str>) -> Option<(Key, Value)> {
        let key = key.as_ref();
        match &mut self.0 {
            Few(members) => {
                let at = find(members, key).ok()?;
                let member = members.remove(at);
                Some((member.key, member.value))
            }
            Many(members) if members.contains_key(key) => Arc::make_mut(members).remove_entry(key),
            Many(_) => None,
        }
    }

    /// The place of a member, to be filled where it is empty.
    pub fn entry(&mut self, key: impl Into<Key>) -> Entry<'_> {
        Entry { map: self, key: key.into() }
    }

    /// Keeps the members that `keep` says, which may change their values. The members become this object's own.
    pub fn retain(&mut self, mut keep: impl FnMut(&Key, &mut Value) -> bool) {
        match &mut self.0 {
            Few(members) if members.is_empty() => {}
            Few(members) => members.retain(|member| keep(&member.key, &mut member.value)),
            Many(members) => Arc::make_mut(members).retain(|key, value| keep(key, value)),
        }
    }

    /// Takes all members of `other` over.
    pub fn append(&mut self, other: &mut Self) {
        self.extend(std::mem::take(other));
    }

    /// The members.
    pub fn iter(&self) -> Iter<'_> {
        Iter(match &self.0 {
            Few(members) => Either::Few(members.iter()),
            Many(members) => Either::Many(members.iter()),
        })
    }

    /// The members, their values to be changed. They become this object's own.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        IterMut(match &mut self.0 {
            Few(members) => Either::Few(members.make_mut().iter_mut()),
            Many(members) => Either::Many(Arc::make_mut(members).iter_mut()),
        })
    }

    /// The names of the members.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Key> + ExactSizeIterator + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// The values of the members.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The values of the members, to be changed. The members become this object's own.
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
        self.is_same(other)
            || match (&self.0, &other.0) {
                (Few(one), Few(other)) => one == other,
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

/// The place of a member.
pub struct Entry<'m> {
    map: &'m mut Map,
    key: Key,
}

impl<'m> Entry<'m> {
    /// The member's value; where it is missing, `value`. The members become the object's own.
    pub fn or_insert(self, value: Value) -> &'m mut Value {
        self.or_insert_with(|| value)
    }

    /// The member's value; where it is missing, what `make` makes. The members become the object's own.
    pub fn or_insert_with(self, make: impl FnOnce() -> Value) -> &'m mut Value {
        self.filled(make)
    }

    fn filled(self, make: impl FnOnce() -> Value) -> &'m mut Value {
        if !self.map.contains_key(&self.key) {
            self.map.insert(self.key.clone(), make());
        }
        self.map.get_mut(&self.key).expect("put there above")
    }

    /// Changes the value of a member that is there.
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

/// The members of an object.
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

/// The members of an object, their values to be changed.
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

/// The members of an object that is taken apart.
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
            Few(members) => Either::Few(members.into_iter()),
            Many(members) => Either::Many(Arc::unwrap_or_clone(members).into_iter()),
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
    /// If there is no such member.
    fn index(&self, key: K) -> &Value {
        self.get(key).expect("the object has the member")
    }
}
