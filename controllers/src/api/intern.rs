//! String and slice interning: values that thousands of cached objects have in common are stored once.
//!
//! An [`Interner`] holds one `Arc` of each value in use. Unused values are removed when the table has doubled since the
//! last sweep, so memory follows the current content of the caches. Interners are global to the process; sharing never
//! changes a result, only where it is stored.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::hash::Fnv1a;

/// Tables smaller than this are not swept.
const SWEEP_FROM: usize = 1024;

/// A table that holds one `Arc` of each value in use.
pub struct Interner<T: ?Sized> {
    table: Mutex<InternTable<T>>,
}

struct InternTable<T: ?Sized> {
    /// Values by hash; colliding values share an entry.
    values: BTreeMap<u64, Vec<Arc<T>>>,
    len: usize,
    sweep_at: usize,
}

impl<T: ?Sized> Interner<T> {
    /// Creates an empty interner.
    pub const fn new() -> Self {
        Self { table: Mutex::new(InternTable { values: BTreeMap::new(), len: 0, sweep_at: SWEEP_FROM }) }
    }

    /// Returns the interned value that has this `hash` and matches `is`; creates it with `make` if there is none.
    pub fn intern(&self, hash: u64, is: impl Fn(&T) -> bool, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut table = self.table.lock();
        if let Some(value) = table.values.get(&hash).into_iter().flatten().find(|value| is(value)) {
            return Arc::clone(value);
        }
        let value = make();
        if table.len >= table.sweep_at {
            table.sweep();
        }
        table.len += 1;
        table.values.entry(hash).or_default().push(Arc::clone(&value));
        value
    }

    /// Number of values, including unused ones that the next sweep will remove.
    pub fn len(&self) -> usize {
        self.table.lock().len
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> InternTable<T> {
    /// Handles are cloned only under the lock, so a strong count of 1 means that only the table holds the value.
    fn sweep(&mut self) {
        self.values.retain(|_, values| {
            values.retain(|value| Arc::strong_count(value) > 1);
            !values.is_empty()
        });
        self.len = self.values.values().map(Vec::len).sum();
        self.sweep_at = SWEEP_FROM.max(self.len * 2);
    }
}

/// A hasher whose result is stable between runs.
#[derive(Default)]
pub struct Hasher(Fnv1a);

impl Hasher {
    /// Adds a string.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.0.write(text.as_bytes());
        // Separates `ab`, `c` from `a`, `bc`: this byte never occurs in UTF-8.
        self.0.write(&[0xff]);
        self
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, number: i64) -> Self {
        self.0.write(&number.to_le_bytes());
        self
    }

    /// Returns the hash.
    pub fn finish(self) -> u64 {
        self.0.0
    }
}

static STRINGS: Interner<str> = Interner::new();
static EMPTY: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));

/// An interned string: labels, names of nodes and owners, phases. Cheap to clone.
#[derive(Clone, Eq, Ord, PartialOrd)]
pub struct InternedStr(Arc<str>);

impl InternedStr {
    /// Returns the interned copy of `text`.
    pub fn new(text: &str) -> Self {
        if text.is_empty() {
            return Self(Arc::clone(&EMPTY));
        }
        Self(STRINGS.intern(Hasher::default().text(text).finish(), |interned| interned == text, || Arc::from(text)))
    }

    /// Returns the string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the same allocation as an `Arc`.
    pub fn to_arc(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl PartialEq for InternedStr {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl PartialEq<str> for InternedStr {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for InternedStr {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl Default for InternedStr {
    fn default() -> Self {
        Self(Arc::clone(&EMPTY))
    }
}

impl Deref for InternedStr {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for InternedStr {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<Cow<'_, str>> for InternedStr {
    fn from(text: Cow<'_, str>) -> Self {
        Self::new(&text)
    }
}

impl From<&str> for InternedStr {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for InternedStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for InternedStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for InternedStr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for InternedStr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(InternedStrVisitor)
    }
}

/// Interns from the parser's buffer, so that a string that is in the table already is never allocated.
struct InternedStrVisitor;

impl serde::de::Visitor<'_> for InternedStrVisitor {
    type Value = InternedStr;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<InternedStr, E> {
        Ok(InternedStr::new(text))
    }
}

/// The element type of an [`InternedSlice`].
pub trait Internable: Clone + PartialEq + 'static {
    /// Returns the interner of slices of this type.
    fn interner() -> &'static Interner<[Self]>;

    /// Adds this element to the hash of its slice.
    fn digest(&self, hasher: Hasher) -> Hasher;
}

/// An interned slice: labels, tolerations, taints. Cheap to clone.
pub struct InternedSlice<T>(Option<Arc<[T]>>);

impl<T: Internable> InternedSlice<T> {
    /// Returns the interned copy of `list`.
    pub fn new(list: Vec<T>) -> Self {
        if list.is_empty() {
            return Self(None);
        }
        let hash = list.iter().fold(Hasher::default(), |hasher, item| item.digest(hasher)).finish();
        let is = |interned: &[T]| interned == list.as_slice();
        Self(Some(T::interner().intern(hash, is, || Arc::from(list.as_slice()))))
    }
}

impl<T> InternedSlice<T> {
    /// Returns true if both are the same allocation, or both are empty.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (None, None) => true,
            _ => false,
        }
    }
}

impl<T> Clone for InternedSlice<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for InternedSlice<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> PartialEq for InternedSlice<T> {
    fn eq(&self, other: &Self) -> bool {
        self.ptr_eq(other) || **self == **other
    }
}

impl<T: Eq> Eq for InternedSlice<T> {}

impl<T: Ord> PartialOrd for InternedSlice<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> Ord for InternedSlice<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        if self.ptr_eq(other) { std::cmp::Ordering::Equal } else { (**self).cmp(&**other) }
    }
}

impl<T> Deref for InternedSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T: fmt::Debug> fmt::Debug for InternedSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'de, T: Internable + Deserialize<'de>> Deserialize<'de> for InternedSlice<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one() {
        let one = InternedStr::new("equal-texts-are-one");
        let two = InternedStr::new("equal-texts-are-one");
        assert!(Arc::ptr_eq(&one.0, &two.0));
        assert_eq!(one, "equal-texts-are-one");
        assert!(Arc::ptr_eq(&InternedStr::default().0, &InternedStr::new("").0));
        let read: InternedStr = serde_json::from_str(r#""equal-texts-are-\u006fne""#).unwrap();
        assert!(Arc::ptr_eq(&one.0, &read.0), "escapes are undone first");
    }

    #[test]
    fn values_that_only_share_a_hash_are_kept_apart() {
        let pool = Interner::<str>::new();
        let share = |text: &str| pool.intern(7, |interned| interned == text, || Arc::from(text));
        let a = share("a");
        let b = share("b");
        assert_eq!((&*a, &*b, pool.len()), ("a", "b", 2));
        assert!(Arc::ptr_eq(&a, &share("a")) && Arc::ptr_eq(&b, &share("b")));
    }

    #[test]
    fn unused_values_are_swept() {
        let pool = Interner::<str>::new();
        let share = |n: u64| pool.intern(n, |interned| interned == n.to_string(), || Arc::from(n.to_string()));
        let kept = share(0);
        for n in 1..100_000 {
            share(n);
        }
        assert!(pool.len() <= 2 * SWEEP_FROM, "{}", pool.len());
        assert!(Arc::ptr_eq(&kept, &share(0)), "what is used stays");
    }

    #[test]
    fn used_values_do_not_cause_a_sweep_at_every_insert() {
        let pool = Interner::<str>::new();
        let all: Vec<_> = (0..5000).map(|n: u64| pool.intern(n, |_| true, || Arc::from(n.to_string()))).collect();
        assert_eq!((pool.len(), all.len()), (5000, 5000));
        assert!(pool.table.lock().sweep_at > 5000);
    }

    #[test]
    fn texts_of_a_list_do_not_run_together() {
        let digest = |parts: &[&str]| parts.iter().fold(Hasher::default(), |hasher, part| hasher.text(part)).finish();
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["a", ""]), digest(&["a"]));
    }
}
