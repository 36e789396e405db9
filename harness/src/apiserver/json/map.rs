//! Objects: members in order of their names, shared by copies until one of them changes.

use std::cmp::Ordering;
use std::fmt;

use ecow::EcoVec;
use smol_str::SmolStr;

use super::Value;

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
#[derive(Clone, Default, Eq)]
pub struct Map(EcoVec<Member>);

impl Map {
    /// An object without members.
    pub const fn new() -> Self {
        Self(EcoVec::new())
    }

    /// An object with room for so many members.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(EcoVec::with_capacity(capacity))
    }

    /// Whether both are the same object in memory, and so equal; what is equal need not be the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.len() == other.len() && (self.is_empty() || std::ptr::eq(self.0.as_slice(), other.0.as_slice()))
    }

    /// Where the member is, or belongs.
    fn find(&self, key: &str) -> Result<usize, usize> {
        let (prefix, members) = (Prefix::of(key), self.0.as_slice());
        // Most objects are small: going along their members is faster than jumping among them.
        let first = if members.len() <= 16 {
            members.iter().position(|member| member.prefix >= prefix).unwrap_or(members.len())
        } else {
            members.partition_point(|member| member.prefix < prefix)
        };
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

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a member.
    pub fn get(&self, key: impl AsRef<str>) -> Option<&Value> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// A member.
    pub fn get_key_value(&self, key: impl AsRef<str>) -> Option<(&Key, &Value)> {
        let at = self.find(key.as_ref()).ok()?;
        self.0.get(at).map(Member::pair)
    }

    /// The member that is the `at`th in order.
    pub(crate) fn nth(&self, at: usize) -> Option<(&Key, &Value)> {
        self.0.get(at).map(Member::pair)
    }

    /// The value of a member, to be changed.
    pub fn get_mut(&mut self, key: impl AsRef<str>) -> Option<&mut Value> {
        let at = self.find(key.as_ref()).ok()?;
        self.0.make_mut().get_mut(at).map(|member| &mut member.value)
    }

    /// Whether there is such a member.
    pub fn contains_key(&self, key: impl AsRef<str>) -> bool {
        self.find(key.as_ref()).is_ok()
    }

    /// Sets a member; returns the value it had before.
    pub fn insert(&mut self, key: impl Into<Key>, value: Value) -> Option<Value> {
        let key = key.into();
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0.make_mut()[at].value, value)),
            Err(at) => {
                self.0.insert(at, Member::new(key, value));
                None
            }
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: impl AsRef<str>) -> Option<Value> {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Takes a member out, with its name.
    pub fn remove_entry(&mut self, key: impl AsRef<str>) -> Option<(Key, Value)> {
        let at = self.find(key.as_ref()).ok()?;
        let member = self.0.remove(at);
        Some((member.key, member.value))
    }

    /// The place of a member, to be filled where it is empty. The members become this object's own.
    pub fn entry(&mut self, key: impl Into<Key>) -> Entry<'_> {
        let key = key.into();
        let at = self.find(&key);
        Entry { members: &mut self.0, at, key }
    }

    /// Keeps the members that `keep` says, which may change their values. The members become this object's own.
    pub fn retain(&mut self, mut keep: impl FnMut(&Key, &mut Value) -> bool) {
        if !self.is_empty() {
            self.0.retain(|member| keep(&member.key, &mut member.value));
        }
    }

    /// Takes all members of `other` over.
    pub fn append(&mut self, other: &mut Self) {
        self.extend(std::mem::take(other));
    }

    /// The members.
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.0.iter())
    }

    /// The members, their values to be changed. They become this object's own.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        IterMut(self.0.make_mut().iter_mut())
    }

    /// The names of the members.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Key> + ExactSizeIterator + Clone {
        self.0.iter().map(|member| &member.key)
    }

    /// The values of the members.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.0.iter().map(|member| &member.value)
    }

    /// The values of the members, to be changed. The members become this object's own.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.iter_mut().map(|(_, value)| value)
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.0 == other.0
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// The place of a member.
pub struct Entry<'m> {
    members: &'m mut EcoVec<Member>,
    at: Result<usize, usize>,
    key: Key,
}

impl<'m> Entry<'m> {
    /// The member's value; where it is missing, `value`.
    pub fn or_insert(self, value: Value) -> &'m mut Value {
        self.or_insert_with(|| value)
    }

    /// The member's value; where it is missing, what `make` makes.
    pub fn or_insert_with(self, make: impl FnOnce() -> Value) -> &'m mut Value {
        let at = self.at.unwrap_or_else(|at| {
            self.members.insert(at, Member::new(self.key, make()));
            at
        });
        &mut self.members.make_mut()[at].value
    }

    /// Changes the value of a member that is there.
    #[must_use]
    pub fn and_modify(self, change: impl FnOnce(&mut Value)) -> Self {
        if let Ok(at) = self.at {
            change(&mut self.members.make_mut()[at].value);
        }
        self
    }
}

/// The members of an object.
#[derive(Clone)]
pub struct Iter<'m>(std::slice::Iter<'m, Member>);

impl<'m> Iterator for Iter<'m> {
    type Item = (&'m Key, &'m Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Member::pair)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(Member::pair)
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// The members of an object, their values to be changed.
pub struct IterMut<'m>(std::slice::IterMut<'m, Member>);

impl<'m> Iterator for IterMut<'m> {
    type Item = (&'m Key, &'m mut Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|member| (&member.key, &mut member.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

/// The members of an object that is taken apart.
pub struct IntoIter(ecow::vec::IntoIter<Member>);

impl Iterator for IntoIter {
    type Item = (Key, Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|member| (member.key, member.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
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
        IntoIter(self.0.into_iter())
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
