//! Equal values once: the texts and small lists that thousands of cached objects have in common.
//!
//! A pool holds one `Arc` of each value that somebody uses. What nobody uses any more is swept out when the pool has
//! doubled since the last sweep, so that memory follows what is cached, not what ever was. Pools are the process's:
//! sharing changes no answer, only where it is kept.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::hash::Fnv1a;

/// A pool smaller than this is not worth sweeping.
const SWEEP_FROM: usize = 1024;

/// One `Arc` for each value in use.
pub struct Pool<T: ?Sized> {
    held: Mutex<Held<T>>,
}

struct Held<T: ?Sized> {
    /// By hash; values whose hashes collide share an entry.
    values: BTreeMap<u64, Vec<Arc<T>>>,
    len: usize,
    sweep_at: usize,
}

impl<T: ?Sized> Pool<T> {
    /// An empty pool.
    pub const fn new() -> Self {
        Self { held: Mutex::new(Held { values: BTreeMap::new(), len: 0, sweep_at: SWEEP_FROM }) }
    }

    /// The value of this `hash` that `is` the one; the first time `make` makes it.
    pub fn share(&self, hash: u64, is: impl Fn(&T) -> bool, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut held = self.lock();
        if let Some(value) = held.values.get(&hash).into_iter().flatten().find(|value| is(value)) {
            return Arc::clone(value);
        }
        let value = make();
        if held.len >= held.sweep_at {
            held.sweep();
        }
        held.len += 1;
        held.values.entry(hash).or_default().push(Arc::clone(&value));
        value
    }

    /// Values held, those that nobody uses any more included until the next sweep.
    pub fn len(&self) -> usize {
        self.lock().len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> Held<T> {
    /// Whoever takes a value does so under the lock, so one that only the pool has stays so meanwhile.
    fn sweep(&mut self) {
        self.values.retain(|_, values| {
            values.retain(|value| Arc::strong_count(value) > 1);
            !values.is_empty()
        });
        self.len = self.values.values().map(Vec::len).sum();
        self.sweep_at = SWEEP_FROM.max(self.len * 2);
    }
}

/// A digest of texts, stable between runs.
#[derive(Default)]
pub struct Hasher(Fnv1a);

impl Hasher {
    /// Adds a text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.0.write(text.as_bytes());
        // Keeps `ab`, `c` apart from `a`, `bc`: no UTF-8 has this byte.
        self.0.write(&[0xff]);
        self
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, number: i64) -> Self {
        self.0.write(&number.to_le_bytes());
        self
    }

    /// The digest.
    pub fn finish(self) -> u64 {
        self.0.0
    }
}

static TEXTS: Pool<str> = Pool::new();
static EMPTY: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));

/// A text that many objects have: labels, names of nodes and owners, phases. Cheap to clone.
#[derive(Clone, Eq, Ord, PartialOrd)]
pub struct Text(Arc<str>);

impl Text {
    /// The shared copy of `text`.
    pub fn new(text: &str) -> Self {
        if text.is_empty() {
            return Self(Arc::clone(&EMPTY));
        }
        Self(TEXTS.share(Hasher::default().text(text).finish(), |held| held == text, || Arc::from(text)))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same allocation as an `Arc`.
    pub fn to_arc(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// Texts in the process's pool, for debugging.
    pub fn pooled() -> usize {
        TEXTS.len()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl Default for Text {
    fn default() -> Self {
        Self(Arc::clone(&EMPTY))
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<Cow<'_, str>> for Text {
    fn from(text: Cow<'_, str>) -> Self {
        Self::new(&text)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Shares straight from the parser's bytes: a text that is known already is never allocated.
struct TextVisitor;

impl serde::de::Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text::new(text))
    }
}

/// What [`Shared`] lists are made of.
pub trait Pooled: Clone + PartialEq + 'static {
    /// The pool of lists of these.
    fn pool() -> &'static Pool<[Self]>;

    /// Adds this to the digest of its list.
    fn digest(&self, hasher: Hasher) -> Hasher;
}

/// A list that many objects have: labels, tolerations, taints. Cheap to clone.
pub struct Shared<T>(Option<Arc<[T]>>);

impl<T: Pooled> Shared<T> {
    /// The shared copy of `list`.
    pub fn new(list: Vec<T>) -> Self {
        if list.is_empty() {
            return Self(None);
        }
        let hash = list.iter().fold(Hasher::default(), |hasher, item| item.digest(hasher)).finish();
        let is = |held: &[T]| held == list.as_slice();
        Self(Some(T::pool().share(hash, is, || Arc::from(list.as_slice()))))
    }
}

impl<T> Shared<T> {
    /// Whether both are the same allocation, or both are empty.
    pub fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (None, None) => true,
            _ => false,
        }
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is(other) || **self == **other
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T: Ord> PartialOrd for Shared<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> Ord for Shared<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        if self.is(other) { std::cmp::Ordering::Equal } else { (**self).cmp(&**other) }
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'de, T: Pooled + Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one() {
        let (one, two) = (Text::new("equal-texts-are-one"), Text::new("equal-texts-are-one"));
        assert!(Arc::ptr_eq(&one.0, &two.0));
        assert_eq!(one, "equal-texts-are-one");
        assert!(Arc::ptr_eq(&Text::default().0, &Text::new("").0));
        let read: Text = serde_json::from_str(r#""equal-texts-are-\u006fne""#).unwrap();
        assert!(Arc::ptr_eq(&one.0, &read.0), "escapes are undone first");
    }

    #[test]
    fn values_that_only_share_a_hash_are_kept_apart() {
        let pool = Pool::<str>::new();
        let share = |text: &str| pool.share(7, |held| held == text, || Arc::from(text));
        let (a, b) = (share("a"), share("b"));
        assert_eq!((&*a, &*b, pool.len()), ("a", "b", 2));
        assert!(Arc::ptr_eq(&a, &share("a")) && Arc::ptr_eq(&b, &share("b")));
    }

    #[test]
    fn what_nobody_uses_is_swept_out() {
        let pool = Pool::<str>::new();
        let share = |n: u64| pool.share(n, |held| held == n.to_string(), || Arc::from(n.to_string()));
        let kept = share(0);
        for n in 1..100_000 {
            share(n);
        }
        assert!(pool.len() <= 2 * SWEEP_FROM, "{}", pool.len());
        assert!(Arc::ptr_eq(&kept, &share(0)), "what is used stays");
    }

    #[test]
    fn what_is_used_is_not_swept_at_every_step() {
        let pool = Pool::<str>::new();
        let all: Vec<_> = (0..5000).map(|n: u64| pool.share(n, |_| true, || Arc::from(n.to_string()))).collect();
        assert_eq!((pool.len(), all.len()), (5000, 5000));
        assert!(pool.lock().sweep_at > 5000);
    }

    #[test]
    fn texts_of_a_list_do_not_run_together() {
        let digest = |parts: &[&str]| parts.iter().fold(Hasher::default(), |hasher, part| hasher.text(part)).finish();
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["a", ""]), digest(&["a"]));
    }
}
